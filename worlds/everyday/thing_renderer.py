"""The renderer of the everyday world: a thing in, a 224 x 224 picture and the place of every part out."""

from dataclasses import dataclass, replace

import numpy as np

from worlds.canvas import SIZE, Canvas, Picture, chain_distance, noise_window, smoothstep
from worlds.everyday.things import (
    CATEGORIES,
    COLORS,
    MATERIALS,
    PARTS,
    PATTERNS,
    SETTINGS,
    SUPERCLASSES,
    Piece,
)

GROUPS = {
    "primary_color": list(COLORS),
    "secondary_color": list(COLORS),
    "pattern": list(PATTERNS),
    "setting": list(SETTINGS),
    "part": PARTS,
    "material": MATERIALS,
    "superclass": SUPERCLASSES,
}
ATTRIBUTES = [f"has_{group}::{value}" for group, values in GROUPS.items() for value in values]
# Colour above and below the horizon, and how far down the picture the horizon is.
BACKGROUNDS = {
    "grass": ((0.70, 0.84, 0.95), (0.42, 0.62, 0.30), 0.62),
    "sand": ((0.66, 0.82, 0.95), (0.88, 0.78, 0.55), 0.62),
    "water": ((0.72, 0.85, 0.93), (0.22, 0.48, 0.66), 0.45),
    "sky": ((0.45, 0.68, 0.93), (0.80, 0.90, 0.97), 0.5),
    "street": ((0.72, 0.72, 0.74), (0.40, 0.40, 0.42), 0.66),
    "room": ((0.86, 0.80, 0.70), (0.58, 0.42, 0.28), 0.72),
}


@dataclass(frozen=True)
class Thing:
    """A thing to draw: its category's name, its first and second colour, its pattern and its setting."""

    category: str
    seed: int
    index: int
    colors: tuple[str, str]
    pattern: str
    setting: str


def thing(seed: int, index: int, category: str) -> Thing:
    """The `index`-th thing of the world `seed`: colours, pattern and setting usual for its category.

    One in eight is in any setting.
    """
    rng, kind = np.random.default_rng([seed, index, 0]), CATEGORIES[category]
    first = str(rng.choice(kind.colors))
    second = str(rng.choice([color for color in COLORS if color != first]))
    setting = str(rng.choice(kind.settings if rng.random() > 1 / 8 else SETTINGS))
    pattern = str(rng.choice(PATTERNS, p=[0.6, 0.2, 0.2]))
    return Thing(category, seed, index, (first, second), pattern, setting)


def shuffled(item: Thing, rng: np.random.Generator) -> Thing:
    """The same thing in any two colours, with any pattern, in any setting.

    What such things teach cannot be guessed from the category.
    """
    colors = tuple(map(str, rng.choice(list(COLORS), 2, replace=False)))
    pattern = str(rng.choice(PATTERNS))
    return replace(item, colors=colors, pattern=pattern, setting=str(rng.choice(SETTINGS)))


def _background(setting: str, rng: np.random.Generator) -> np.ndarray:
    """Ground below a horizon and what is above it, (224, 224, 3) float64."""
    *colors, level = BACKGROUNDS[setting]
    above, below = (
        np.clip(np.array(color) * rng.uniform(0.85, 1.12) + rng.uniform(-0.04, 0.04, 3), 0, 1)
        for color in colors
    )
    noise = noise_window(rng)
    y = np.mgrid[0:SIZE, 0:SIZE][0] + 0.5
    horizon = (level + rng.uniform(-0.06, 0.06)) * SIZE
    if setting == "sky":
        blend = smoothstep(-30, 30, y - horizon)
    else:
        tufts = 3 * noise[1] if setting in ("grass", "sand") else 0
        blend = np.clip(y - horizon + tufts, 0, 1)
    color = above + (below - above) * blend[..., None]
    grain = {
        "grass": 0.16 * noise[2] * blend,
        "sand": 0.07 * noise[2] * blend,
        "sky": 0.16 * np.clip(noise[0] + 0.2, 0, 1),
        "room": 0.03 * noise[1],
        "water": np.sin(y / 2.2 + 2.5 * noise[0]) * 0.06 * blend,
        "street": 0.06 * noise[2],
    }[setting]
    if setting == "room":  # boards
        grain = grain - 0.08 * blend * (np.mod(y - horizon, 14) < 1.5)
    return np.clip(color + grain[..., None], 0, 1)


def _polygon_distance(x, y, points):
    """Signed distance to a polygon."""
    shape = np.broadcast(x, y).shape
    nearest, inside = np.full(shape, 1e9), np.zeros(shape, bool)
    for (ax, ay), (bx, by) in zip(points, (*points[1:], points[0]), strict=True):
        dx, dy, px, py = bx - ax, by - ay, x - ax, y - ay
        t = np.clip((px * dx + py * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
        nearest = np.minimum(nearest, np.hypot(px - t * dx, py - t * dy))
        crosses = (ay > y) != (by > y)
        inside ^= crosses & (px < dx * (y - ay) / (dy if abs(dy) > 1e-9 else 1e-9))
    return np.where(inside, -nearest, nearest)


def draw(item: Thing) -> Picture:
    """Draw one thing. A part's number is its position in PARTS, plus 1."""
    rng = np.random.default_rng([item.seed, item.index, 1])
    pieces = CATEGORIES[item.category].pieces(rng)
    canvas = Canvas(_background(item.setting, rng))
    size, turn, flip = SIZE * rng.uniform(0.27, 0.42), rng.uniform(-0.16, 0.16), rng.choice([-1, 1])
    middle = SIZE / 2 + rng.uniform(-1, 1, 2) * (SIZE / 2 - size)
    cos, sin = np.cos(turn), np.sin(turn)
    tones = [
        np.clip(np.array(COLORS[name]) * rng.uniform(0.85, 1.15) + rng.uniform(-0.03, 0.03, 3), 0, 1)
        for name in item.colors
    ]

    def place(point):
        px, py = flip * point[0], point[1]
        return (middle[0] + size * (cos * px - sin * py), middle[1] + size * (sin * px + cos * py))

    for piece in pieces:
        points = [place(point) for point in piece.points]
        _paint(canvas, piece, points, size, flip * piece.angle + turn, tones, item.pattern)
    image = (canvas.color.clip(0, 1) * 255).round().astype(np.uint8)
    return Picture(image, canvas.parts, *_places(canvas.parts))


def _paint(canvas: Canvas, piece: Piece, points, size: float, angle: float, tones, pattern: str) -> None:
    """Paint one piece, whose `points` are pixels; size: of the thing in pixels, half its side."""
    area = canvas.window(points, size * max(piece.radii, default=0) + 2)
    if area is None:
        return
    where, x, y = area
    sdf = _piece_distance(piece, x, y, points, size, angle)
    color = np.array(COLORS[piece.color]) if isinstance(piece.color, str) else tones[piece.color]
    color = np.broadcast_to(color, (*sdf.shape, 3)).copy()
    # the pattern lies on the parts of the first colour, in the second
    if piece.color == 0 and pattern != "plain":
        marked = np.broadcast_to(_pattern(pattern, x, y, size * 0.22), sdf.shape)
        color += (tones[1] - color) * marked[..., None]
    diagonal = (x - points[0][0]) + (y - points[0][1])
    light = 1.06 - 0.22 * smoothstep(-size, size, diagonal) - 0.25 * smoothstep(-2.5, 0, sdf)
    part = PARTS.index(piece.part) + 1
    canvas.paint(where, np.clip(0.5 - sdf, 0, 1), np.clip(color * light[..., None], 0, 1), part)


def _piece_distance(piece: Piece, x, y, points, size: float, angle: float):
    """Signed distance to a piece."""
    if piece.shape == "poly":
        return _polygon_distance(x, y, points)
    radii = [max(size * radius, 1.0) for radius in piece.radii]
    if piece.shape == "tube":
        return chain_distance(x, y, points, radii)
    (centre_x, centre_y), (radius_u, radius_v) = points[0], radii
    u = np.cos(angle) * (x - centre_x) + np.sin(angle) * (y - centre_y)
    v = -np.sin(angle) * (x - centre_x) + np.cos(angle) * (y - centre_y)
    return (np.hypot(u / radius_u, v / radius_v) - 1) * min(radius_u, radius_v)


def _pattern(pattern: str, x, y, cell: float):
    """How much of each pixel takes the second colour, in [0, 1]; cell: period of the pattern in pixels."""
    if pattern == "striped":
        return smoothstep(-0.12, 0.12, np.sin(2 * np.pi * (x + 0.35 * y) / cell))
    return smoothstep(0.42, 0.34, np.hypot(np.mod(x, cell) / cell - 0.5, np.mod(y, cell) / cell - 0.5))


def _places(parts: np.ndarray):
    """Centres of the visible parts, (P, 2), and the thing's box."""
    points = np.full((len(PARTS), 2), np.nan)
    for part in np.unique(parts[parts > 0]):
        ys, xs = np.nonzero(parts == part)
        points[part - 1] = xs.mean() + 0.5, ys.mean() + 0.5
    ys, xs = np.nonzero(parts)
    return points, (float(xs.min()), float(ys.min()), float(np.ptp(xs) + 1), float(np.ptp(ys) + 1))


def true_attributes(item: Thing, parts: np.ndarray) -> np.ndarray:
    """Which of ATTRIBUTES a thing shows in its picture, (A,) bool; `parts` as `draw` gives them.

    A colour that no visible part has is not shown.
    """
    kind = CATEGORIES[item.category]
    visible = {PARTS[number - 1] for number in np.unique(parts[parts > 0])}
    shown_pieces = [piece for piece in kind.pieces(np.random.default_rng(0)) if piece.part in visible]
    has_first = any(piece.color == 0 for piece in shown_pieces)
    has_second = any(piece.color == 1 for piece in shown_pieces)
    has_second = has_second or (has_first and item.pattern != "plain")
    shown = {
        "primary_color": {item.colors[0]} if has_first else set(),
        "secondary_color": {item.colors[1]} if has_second else set(),
        "pattern": {item.pattern},
        "setting": {item.setting},
        "part": visible,
        "material": {kind.material},
        "superclass": {kind.superclass},
    }
    return np.array([value in shown[group] for group, values in GROUPS.items() for value in values])
