"""The renderer of the everyday world: a thing in, a 224×224 picture with the true place of every part out; on the aviary's canvas."""
from dataclasses import dataclass, replace

import numpy as np

from ..aviary.canvas import SIZE, Canvas, distance, noise_tiles, smooth
from ..aviary.draw import Picture
from .things import CATEGORIES, COLORS, MATERIALS, PARTS, PATTERNS, SETTINGS, SUPERCLASSES, Piece

GROUPS = {"primary_color": list(COLORS), "secondary_color": list(COLORS), "pattern": list(PATTERNS), "setting": list(SETTINGS), "part": PARTS,
          "material": MATERIALS, "superclass": SUPERCLASSES}
ATTRIBUTES = [f"has_{group}::{value}" for group, values in GROUPS.items() for value in values]


@dataclass(frozen=True)
class Thing:
    """A thing to draw: its category's name, the colours of its first and second parts, its pattern, and where it is."""
    category: str
    seed: int
    index: int
    colors: tuple[str, str]
    pattern: str
    setting: str


def thing(seed: int, index: int, category: str) -> Thing:
    """The `index`-th thing of the world `seed`, in colours, with a pattern and in a setting usual for its category; one in eight is somewhere unusual."""
    rng, kind = np.random.default_rng([seed, index, 0]), CATEGORIES[category]
    first = str(rng.choice(kind.colors))
    second = str(rng.choice([c for c in COLORS if c != first]))
    setting = str(rng.choice(kind.settings if rng.random() > 1 / 8 else SETTINGS))
    return Thing(category, seed, index, (first, second), str(rng.choice(PATTERNS, p=[.6, .2, .2])), setting)


def shuffled(one: Thing, rng: np.random.Generator) -> Thing:
    """The same thing in any two colours, with any pattern, anywhere: what such things teach cannot be guessed from the category."""
    return replace(one, colors=tuple(map(str, rng.choice(list(COLORS), 2, replace=False))), pattern=str(rng.choice(PATTERNS)), setting=str(rng.choice(SETTINGS)))


def _background(setting: str, rng: np.random.Generator) -> np.ndarray:
    """Ground below a horizon and what is above it, float (224, 224, 3)."""
    above, below, level = {"grass": ((.70, .84, .95), (.42, .62, .30), .62), "sand": ((.66, .82, .95), (.88, .78, .55), .62), "water": ((.72, .85, .93), (.22, .48, .66), .45),
                           "sky": ((.45, .68, .93), (.80, .90, .97), .5), "street": ((.72, .72, .74), (.40, .40, .42), .66),
                           "room": ((.86, .80, .70), (.58, .42, .28), .72)}[setting]
    above, below = (np.clip(np.array(c) * rng.uniform(.85, 1.12) + rng.uniform(-.04, .04, 3), 0, 1) for c in (above, below))
    oy, ox = rng.integers(0, 640 - SIZE, 2)
    noise = noise_tiles()[:, oy:oy + SIZE, ox:ox + SIZE]
    y = np.mgrid[0:SIZE, 0:SIZE][0] + .5
    line = (level + rng.uniform(-.06, .06)) * SIZE
    blend = smooth(-30, 30, y - line) if setting == "sky" else np.clip(y - line + (3 * noise[1] if setting in ("grass", "sand") else 0), 0, 1)
    color = above + (below - above) * blend[..., None]
    ripple = np.sin(y / 2.2 + 2.5 * noise[0]) * .06 * blend if setting == "water" else 0
    grain = {"grass": .16 * noise[2] * blend, "sand": .07 * noise[2] * blend, "sky": .16 * np.clip(noise[0] + .2, 0, 1), "room": .03 * noise[1], "water": ripple,
             "street": .06 * noise[2]}[setting]
    if setting == "room":  # boards
        grain = grain - .08 * blend * (np.mod(y - line, 14) < 1.5)
    return np.clip(color + np.asarray(grain)[..., None], 0, 1)


def _poly(x, y, points):
    """Signed distance to a polygon."""
    best, inside = np.full(np.broadcast(x, y).shape, 1e9), np.zeros(np.broadcast(x, y).shape, bool)
    for (ax, ay), (bx, by) in zip(points, (*points[1:], points[0])):
        dx, dy, px, py = bx - ax, by - ay, x - ax, y - ay
        t = np.clip((px * dx + py * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
        best = np.minimum(best, np.hypot(px - t * dx, py - t * dy))
        crosses = (ay > y) != (by > y)
        inside ^= crosses & (px < dx * (y - ay) / (dy if abs(dy) > 1e-9 else 1e-9))
    return np.where(inside, -best, best)


def draw(one: Thing) -> Picture:
    """Its picture; `parts` hold 1…P (position in PARTS + 1), `points` (P, 2) the centre of each visible part."""
    rng = np.random.default_rng([one.seed, one.index, 1])
    pieces = CATEGORIES[one.category].pieces(rng)
    canvas = Canvas(_background(one.setting, rng))
    size, turn, flip = SIZE * rng.uniform(.27, .42), rng.uniform(-.16, .16), rng.choice([-1, 1])
    middle = SIZE / 2 + rng.uniform(-1, 1, 2) * (SIZE / 2 - size)
    c, s = np.cos(turn), np.sin(turn)
    tones = [np.clip(np.array(COLORS[name]) * rng.uniform(.85, 1.15) + rng.uniform(-.03, .03, 3), 0, 1) for name in one.colors]

    def place(point):
        px, py = flip * point[0], point[1]
        return (middle[0] + size * (c * px - s * py), middle[1] + size * (s * px + c * py))

    for piece in pieces:
        _paint(canvas, piece, [place(p) for p in piece.points], size, flip * piece.angle + turn, tones, one.pattern)
    return Picture((canvas.color.clip(0, 1) * 255).round().astype(np.uint8), canvas.parts, *_places(canvas.parts))


def _paint(canvas: Canvas, piece: Piece, points, size, angle, tones, pattern) -> None:
    reach = size * max(piece.radii, default=0) + 2
    if (found := canvas.window(points, reach)) is None:
        return
    where, x, y = found
    if piece.shape == "poly":
        d = _poly(x, y, points)
    elif piece.shape == "tube":
        d = distance(x, y, points, [max(size * r, 1.0) for r in piece.radii])
    else:
        (cx, cy), (rx, ry) = points[0], (max(size * r, 1.0) for r in piece.radii)
        u, v = np.cos(angle) * (x - cx) + np.sin(angle) * (y - cy), -np.sin(angle) * (x - cx) + np.cos(angle) * (y - cy)
        d = (np.hypot(u / rx, v / ry) - 1) * min(rx, ry)
    color = np.array(COLORS[piece.color]) if isinstance(piece.color, str) else tones[piece.color]
    color = np.broadcast_to(color, (*d.shape, 3)).copy()
    if piece.color == 0 and pattern != "plain":  # the pattern lies on the parts of the first colour, in the second
        cell = size * .22
        mark = smooth(-.12, .12, np.sin(2 * np.pi * (x + .35 * y) / cell)) if pattern == "striped" else smooth(.42, .34,
                                                                                                               np.hypot(np.mod(x, cell) / cell - .5, np.mod(y, cell) / cell - .5))
        color += (tones[1] - color) * np.broadcast_to(mark, d.shape)[..., None]
    light = 1.06 - .22 * smooth(-size, size, (x - points[0][0]) + (y - points[0][1])) - .25 * smooth(-2.5, 0, d)
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(color * light[..., None], 0, 1), PARTS.index(piece.part) + 1)


def _places(parts: np.ndarray):
    points = np.full((len(PARTS), 2), np.nan)
    for part in np.unique(parts[parts > 0]):
        ys, xs = np.nonzero(parts == part)
        points[part - 1] = xs.mean() + .5, ys.mean() + .5
    ys, xs = np.nonzero(parts)
    return points, (float(xs.min()), float(ys.min()), float(np.ptp(xs) + 1), float(np.ptp(ys) + 1))


def true_attributes(one: Thing, parts: np.ndarray) -> np.ndarray:
    """Which of ATTRIBUTES a thing shows in its picture, bool (A,); a colour or pattern that no visible part has is not shown."""
    kind, seen = CATEGORIES[one.category], {PARTS[i - 1] for i in np.unique(parts[parts > 0])}
    pieces = kind.pieces(np.random.default_rng(0))
    has = [any(piece.color == number for piece in pieces if piece.part in seen) for number in (0, 1)]
    shown = {"primary_color": {one.colors[0]} if has[0] else set(), "secondary_color": {one.colors[1]} if has[1] or (has[0] and one.pattern != "plain") else set(),
             "pattern": {one.pattern}, "setting": {one.setting}, "part": seen, "material": {kind.material}, "superclass": {kind.superclass}}
    return np.array([value in shown[group] for group, values in GROUPS.items() for value in values])
