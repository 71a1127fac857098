"""What is not bird: backgrounds, water, ground, branches, trunks, flowers, and what grows in front."""

import numpy as np

from worlds.aviary.individuals import Individual
from worlds.aviary.pose import Pose
from worlds.canvas import NOISE_SIZE, SIZE, Canvas, noise_tiles, noise_window, smoothstep

# The two ends of the background's ramp, and how frequent each palette is.
PALETTES = {
    "green": ((0.62, 0.74, 0.55), (0.30, 0.46, 0.26)),
    "sky": ((0.70, 0.82, 0.93), (0.86, 0.90, 0.92)),
    "autumn": ((0.82, 0.70, 0.46), (0.50, 0.36, 0.22)),
    "dusk": ((0.80, 0.66, 0.62), (0.42, 0.40, 0.50)),
    "grey": ((0.80, 0.82, 0.82), (0.60, 0.63, 0.64)),
    "dark": ((0.24, 0.32, 0.24), (0.12, 0.17, 0.13)),
}
PALETTE_SHARES = [0.32, 0.24, 0.12, 0.08, 0.14, 0.10]
SURFACES = {
    "water": (0.36, 0.50, 0.58),
    "ground": (0.47, 0.44, 0.27),
    "rock": (0.46, 0.44, 0.42),
    "shallows": (0.58, 0.62, 0.60),
}
OCCLUDED_SHARE = 0.20


def background(bird: Individual, seat: str, rng: np.random.Generator) -> np.ndarray:
    """Sky, leaves out of focus, water or ground, (224, 224, 3) float64."""
    palette = list(PALETTES)[int(rng.choice(len(PALETTES), p=PALETTE_SHARES))]
    top, bottom = (np.array(color) for color in PALETTES[palette])
    if rng.random() < 0.5:
        top, bottom = bottom, top
    ramp = np.linspace(0, 1, SIZE)[:, None, None] ** rng.uniform(0.7, 1.5)
    color = np.broadcast_to(top * (1 - ramp) + bottom * ramp, (SIZE, SIZE, 3)).copy()
    coarse, middle, _ = noise_window(rng)
    tint = rng.uniform(-0.09, 0.09, 3)
    color += coarse[..., None] * (0.09 + tint)
    grain = rng.choice([0.0, 0.02, 0.05])
    if grain:
        color += middle[..., None] * grain
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    for _ in range(int(rng.integers(0, 7))):  # discs of light out of focus
        centre_x, centre_y, radius = rng.uniform(0, SIZE), rng.uniform(0, SIZE), rng.uniform(8, 26)
        x0, x1 = max(0, int(centre_x - radius) - 2), min(SIZE, int(centre_x + radius) + 3)
        y0, y1 = max(0, int(centre_y - radius) - 2), min(SIZE, int(centre_y + radius) + 3)
        sdf = np.hypot(x[y0:y1, x0:x1] - centre_x, y[y0:y1, x0:x1] - centre_y) - radius
        glow = np.clip(top * 0.4 + 0.6 * rng.uniform(0.5, 1.0, 3), 0, 1)
        old = color[y0:y1, x0:x1]
        color[y0:y1, x0:x1] += (glow - old) * (0.28 * smoothstep(2.5, -2.5, sdf))[..., None]
    return color


def surface(canvas: Canvas, level: float, kind: str, rng: np.random.Generator, over: bool) -> None:
    """Paint water, ground or rock below `level` (pixels from the top).

    over: in front of the bird (water hides what is under it, but lets it show faintly), else behind it.
    """
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    noise = noise_window(rng)
    base = np.array(SURFACES[kind]) * rng.uniform(0.8, 1.2) + rng.uniform(-0.03, 0.03, 3)
    depth = y - level - (noise[0] * (10 if kind == "rock" else 1.2))
    if kind in ("water", "shallows"):
        wave_length = 3.5 + 0.10 * np.clip(depth, 0, None)
        ripple = np.sin(2 * np.pi * (depth / wave_length) + 2.5 * noise[0] + 0.06 * x)
        light = 1 + 0.10 * ripple + 0.05 * noise[1]
    else:
        light = 1 + 0.16 * noise[1] + 0.14 * noise[2]
    alpha = np.clip(depth + 0.5, 0, 1) * (0.93 if over else 1.0)
    everywhere = (slice(0, SIZE), slice(0, SIZE))
    color = np.clip(base * light[..., None], 0, 1)
    canvas.paint(everywhere, alpha, color, 0 if over else None)


def draw_leaf(canvas: Canvas, stem, angle: float, length: float, color, part) -> None:
    """Paint a leaf that begins at `stem`, in the direction `angle` (radians), `length` pixels long."""
    tip = np.asarray(stem) + length * np.array([np.cos(angle), np.sin(angle)])
    area = canvas.window([stem, tip], 0.4 * length)
    if area is None:
        return
    where, x, y = area
    px, py = x - stem[0], y - stem[1]
    p = (px * np.cos(angle) + py * np.sin(angle)) / length  # along the leaf
    q = (-px * np.sin(angle) + py * np.cos(angle)) / length  # across it
    width = 0.26 * np.sin(np.pi * np.clip(p, 0, 1)) ** 0.8
    sdf = np.maximum((np.abs(q) - width), np.maximum(-p, p - 1)) * length
    vein = smoothstep(0.012, 0.004, np.abs(q)) * 0.18
    shading = 1.0 + 0.22 * np.sign(q) * 0.5 - vein
    color = np.clip(np.asarray(color) * shading[..., None], 0, 1)
    canvas.paint(where, np.clip(0.5 - sdf, 0, 1), color, part)


def seat(canvas: Canvas, pose: Pose, rng: np.random.Generator):
    """Paint what the bird sits on, before the bird. Returns the points that its near and far foot grasp."""
    unit, hips = pose.unit, pose.hips
    wood = np.array([0.36, 0.27, 0.19]) * rng.uniform(0.75, 1.25)
    if pose.seat == "trunk":
        return _trunk(canvas, pose, rng, wood)
    down = np.array([0.02, pose.leg]) * unit
    feet = [hips[0] + down, hips[1] + down + np.array([0.03, -0.01]) * unit]
    if pose.seat == "branch":
        return _branch(canvas, pose, rng, wood, feet)
    if pose.seat in ("ground", "rock", "shallows"):
        surface(canvas, feet[0][1] - 2, pose.seat, rng, over=False)
    return feet


def _trunk(canvas: Canvas, pose: Pose, rng: np.random.Generator, wood: np.ndarray):
    unit, hips = pose.unit, pose.hips
    x = pose.at(0.05, 0.27 * pose.plumpness)[0] + unit * pose.leg
    thickness = unit * 0.30 * pose.grain * rng.uniform(1.0, 1.5)
    lean = rng.uniform(-6, 6)
    ends = [(x + thickness - lean, -20), (x + thickness + lean, SIZE + 20)]
    canvas.paint_chain(ends, [thickness, thickness * 1.1], wood, None, shade=0.5)
    oy, ox = rng.integers(0, NOISE_SIZE - SIZE, 2)
    left = max(0, int(x))
    if left < SIZE:
        fine = noise_tiles()[2, ox : ox + SIZE, oy : oy + SIZE - left]
        middle = noise_tiles()[1, oy : oy + SIZE, ox : ox + SIZE - left]
        bark = fine * 0.10 + middle * 0.06
        canvas.color[:, left:SIZE] *= 1 + bark[..., None]
    return [np.array([x + 2, hips[0][1] + 0.03 * unit]), np.array([x + 2, hips[1][1] - 0.10 * unit])]


def _branch(canvas: Canvas, pose: Pose, rng: np.random.Generator, wood: np.ndarray, feet):
    unit = pose.unit
    slope, thickness = rng.uniform(-0.18, 0.18), unit * 0.055 * pose.grain * rng.uniform(0.8, 1.4)
    y = feet[0][1] + thickness * 0.8
    x = feet[0][0]
    left = (-15.0, y + slope * (-15 - x))
    right = (SIZE + 15.0, y + slope * (SIZE + 15 - x) + rng.uniform(-8, 8))
    radii = [thickness * 1.25, thickness, thickness * 0.7]
    canvas.paint_chain([left, (x, y), right], radii, wood, None, shade=0.55)
    for _ in range(int(rng.integers(0, 5))):
        leaf_x = rng.uniform(0, SIZE)
        green = np.array([0.28, 0.45, 0.18]) * rng.uniform(0.7, 1.4)
        stem = (leaf_x, y + slope * (leaf_x - x))
        angle = rng.uniform(-np.pi, np.pi)
        length = unit * 0.22 * pose.grain * rng.uniform(0.7, 1.4)
        draw_leaf(canvas, stem, angle, length, green, None)
    return [np.array([foot[0], y + slope * (foot[0] - x) - thickness * 0.9]) for foot in feet]


def flower(canvas: Canvas, pose: Pose, tones: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Paint the flower that a hovering bird drinks from."""
    tip = pose.head_at(0.95 + pose.bill_length(pose.born), 0.12)
    petal = tones[str(rng.choice(["red", "pink", "orange", "purple", "yellow"]))]
    stem = tip + np.array([0.55, 0.9]) * pose.unit * 0.6
    canvas.paint_chain([stem + [10, 60], stem, tip + [4, 4]], [2.4, 1.8, 1.5], (0.25, 0.42, 0.18), None)
    for angle in np.linspace(-2.2, 1.4, 6):
        draw_leaf(canvas, tip + [5, 2], angle, pose.unit * 0.17 * pose.grain, petal, None)


def occluder(canvas: Canvas, pose: Pose, rng: np.random.Generator) -> None:
    """In one picture in five, paint something in front of the bird: leaves, blades of grass or a twig."""
    kind, chance = rng.random(), rng.random()
    centre = np.array([rng.uniform(0.15, 0.85), rng.uniform(0.2, 0.9)]) * SIZE
    green = np.array([0.26, 0.43, 0.17]) * rng.uniform(0.6, 1.5)
    angles = rng.uniform(-np.pi, np.pi, 4)
    sizes = rng.uniform(0.8, 1.4, 4)
    shifts = rng.uniform(-22, 22, (4, 2))
    if chance > OCCLUDED_SHARE:
        return
    if kind < 0.5:
        for angle, size, shift in zip(angles, sizes, shifts, strict=True):
            tone = green * (0.85 + 0.3 * (size - 1))
            draw_leaf(canvas, centre + shift, angle, 30 * size * pose.grain**0.5, tone, 0)
    elif kind < 0.8 and pose.seat not in ("water", "air"):
        for angle, size, shift in zip(angles, sizes, shifts, strict=True):
            root = (centre[0] + shift[0] * 2, SIZE + 4)
            middle = (root[0] + 10 * angle * 0.4, SIZE - 55 * size)
            tip = (root[0] + 26 * angle * 0.4, SIZE - 95 * size)
            canvas.paint_chain([root, middle, tip], [3.4, 2.4, 0.6], green, 0)
    else:
        directions = (angles[0], angles[0] + np.pi)
        ends = [centre + 180 * np.array([np.cos(angle), np.sin(angle)]) for angle in directions]
        canvas.paint_chain(ends, [2.2 * pose.grain, 3.2 * pose.grain], (0.33, 0.25, 0.18), 0)
