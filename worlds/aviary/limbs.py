"""Legs, tail, wings, bill and eye of a bird, painted on the canvas.

A wing or tail is a plane shape in its own coordinates: p along it in [0, 1], q across it in [-1, 1]. `tones`
are the individual's colours (see `individual_tones`), `light` the brightness of the picture's light in each
channel, (3,).
"""

import numpy as np

from worlds.aviary.individuals import Individual
from worlds.aviary.parts import BEAK, LEFT_LEG, LEFT_WING, RIGHT_EYE, RIGHT_LEG, RIGHT_WING, TAIL
from worlds.aviary.plumage import plumage
from worlds.aviary.pose import Pose
from worlds.canvas import Canvas, smoothstep, touched_pixels

# Folded wings that taper: scale, start and power.
TAPERED_WINGS = {"pointed": (1, 0.25, 0.85), "tapered": (0.8, 0.1, 0.6), "long": (0.85, 0.35, 0.75)}
TAIL_OPENING = {
    "fan-shaped": 0.42,
    "forked": 0.24,
    "rounded": 0.22,
    "notched": 0.16,
    "squared": 0.17,
    "pointed": 0.14,
}
# Centre line of a bill (fraction of its length, drop in head radii) and its radii in head radii.
BILLS = {
    "all-purpose": ([(0, 0), (0.5, 0.0), (1, 0.05)], [0.20, 0.14, 0.03]),
    "dagger": ([(0, 0), (0.5, 0), (1, 0.0)], [0.23, 0.15, 0.02]),
    "cone": ([(0, 0), (0.5, 0.0), (1, 0.06)], [0.36, 0.22, 0.03]),
    "needle": ([(0, 0), (0.5, -0.02), (1, 0.0)], [0.085, 0.06, 0.035]),
    "hooked": ([(0, -0.02), (0.6, -0.06), (0.92, 0.02), (1, 0.22)], [0.26, 0.22, 0.14, 0.03]),
    "hooked_seabird": ([(0, 0), (0.7, 0), (0.95, 0.03), (1, 0.16)], [0.20, 0.14, 0.12, 0.03]),
    "spatulate": ([(0, 0), (0.45, 0.06), (1, 0.10)], [0.24, 0.13, 0.19]),
    "curved_(up_or_down)": ([(0, 0), (0.4, -0.08), (0.75, 0.04), (1, 0.34)], [0.17, 0.13, 0.09, 0.03]),
    "specialized": ([(0, 0.02), (0.5, 0.06), (1, 0.16)], [0.52, 0.40, 0.06]),
}
POUCHED_BILL = ([(0, 0), (0.30, 0.30), (0.70, 0.20), (1, 0.08)], [0.25, 0.50, 0.25, 0.05])


def _wing_width(shape: str, p):
    """Half width of the folded wing at p in [0, 1] (shoulder to tip), relative to its widest."""
    rise = np.sqrt(np.clip(p / 0.22, 0, 1))
    if shape in ("rounded", "broad"):
        scale, power = {"rounded": (1, 4), "broad": (1.3, 6)}[shape]
        return rise * (scale * (1 - np.clip(p, 0, 1) ** power) ** 0.5)
    scale, start, power = TAPERED_WINGS[shape]
    return rise * (scale * np.clip(1 - np.clip(p - start, 0, 1) / (1 - start), 0, 1) ** power)


def _tail_end(shape: str, q):
    """Length of the tail at q in [-1, 1] across, relative to its full length."""
    a = np.abs(np.clip(q, -1, 1))
    return {
        "forked": 0.52 + 0.55 * a**1.2,
        "rounded": 1 - 0.22 * a**2,
        "notched": 0.86 + 0.14 * a,
        "fan-shaped": 1 - 0.16 * a**3,
        "pointed": 1.12 - 0.62 * a,
        "squared": 0.95 + 0 * a,
    }[shape]


def paint_legs(canvas: Canvas, pose: Pose, tones, feet) -> None:
    if pose.seat in ("water", "air"):
        return
    unit, color = pose.unit, tones[pose.now["leg_color"]]
    radius = max(0.018 * unit, 1.1)
    toes = [(-0.07, 0.02), (0.06, 0.025), (0.09, 0.0)]
    if pose.seat == "trunk":
        toes = [(0.07, -0.06), (0.08, 0.0), (0.06, 0.05)]
    # The far leg first: the left leg of a bird that faces right.
    far = (pose.hips[1], feet[1], LEFT_LEG, 0.82)
    near = (pose.hips[0], feet[0], RIGHT_LEG, 1.0)
    for hip, foot, part, tone in (far, near):
        knee = (hip + foot) / 2 + np.array([-0.05, 0.0]) * unit
        canvas.paint_chain([hip, knee, foot], [radius * 1.5, radius, radius], color * tone, part, shade=0.3)
        for dx, dy in toes:
            toe = foot + np.array([dx, dy]) * unit
            canvas.paint_chain([foot, toe], [radius, radius * 0.7], color * tone, part, shade=0.3)


def paint_tail(canvas: Canvas, pose: Pose, bird: Individual, tones, light) -> None:
    unit, shape = pose.unit, pose.now["tail_shape"].removesuffix("_tail")
    base = pose.at(-0.40, -0.01)
    angle = np.pi - (pose.tilt * 0.8 + pose.tail_swing) if pose.seat != "trunk" else np.pi - pose.tilt - 0.12
    ux, uy = np.cos(angle), np.sin(angle)
    length = (pose.tail_length + 0.12) * unit * (1.3 if shape == "forked" else 1.0)
    tip = base + length * np.array([ux, uy])
    area = canvas.window([base, tip], 0.55 * length + 6)
    if area is None:
        return
    window, x, y = area
    px, py = x - base[0], y - base[1]
    p = (px * ux + py * uy) / length
    across = px * uy - py * ux  # positive = the upper side
    half_width = unit * 0.085 + np.clip(p, 0, 1.2) * length * TAIL_OPENING[shape]
    q = across / half_width
    sdf = np.maximum((np.abs(q) - 1) * half_width, (p - _tail_end(shape, q)) * length * 0.9)
    sdf = np.maximum(sdf, -p * length)
    where, sdf, p, q, across = touched_pixels(window, sdf, p, q, across)
    color = plumage(bird, tones, "tail", p * length / unit, across / unit, np.zeros_like(p)).copy()
    under = smoothstep(-0.25, -0.40, q) * smoothstep(0.62, 0.52, p)
    color += (tones[bird.values["under_tail_color"][0]] - color) * under[..., None]
    feather = np.abs(np.mod(q * 2.5 + 10.5, 1.0) - 0.5)
    edges = 1 - 0.22 * smoothstep(0.47, 0.5, feather) * smoothstep(0.1, 0.4, p)
    shading = (0.80 + 0.20 * smoothstep(-1.0, 0.6, q)) * edges
    canvas.paint(where, np.clip(0.5 - sdf, 0, 1), np.clip(color * shading[..., None] * light, 0, 1), TAIL)


def paint_wing(canvas: Canvas, pose: Pose, bird: Individual, tones, light, near: bool) -> None:
    unit, shape = pose.unit, pose.now["wing_shape"].removesuffix("-wings")
    root = pose.at(0.33, -0.12 * pose.plumpness)
    if pose.wing_raised:
        angle = -np.pi / 2 - (0.45 if near else 0.05) - pose.tail_swing
        length = unit * (1.0 if shape != "long" else 1.15)
    else:
        tip = pose.at(-0.50 if shape != "long" else -0.68, -0.06)
        angle = np.arctan2(*(tip - root)[::-1])
        length = np.hypot(*(tip - root))
    ux, uy = np.cos(angle), np.sin(angle)
    tip = root + length * np.array([ux, uy])
    area = canvas.window([root, tip], 0.42 * length + 4)
    if area is None:
        return
    window, x, y = area
    px, py = x - root[0], y - root[1]
    p = (px * ux + py * uy) / length
    bow = np.sin(np.pi * np.clip(p, 0, 1))
    if pose.wing_raised:
        widest = 0.20 * unit
        across = (px * uy - py * ux) - (-0.10 * unit * bow)
    else:
        widest = 0.165 * pose.plumpness * unit
        across = (px * uy - py * ux) - (0.07 * unit * bow)
        across = across + widest * 0.35
    half_width = widest * _wing_width(shape, p)
    q = across / np.maximum(half_width, 1e-6)
    sdf = np.maximum(np.abs(across) - half_width, np.maximum(-p, p - 1.0) * length)
    if near and not pose.wing_raised:
        shadow = np.clip(0.5 - (sdf - 0.035 * unit) / 3, 0, 1) * 0.22
        canvas.paint(window, shadow, canvas.color[window] * 0.45, None)
    where, sdf, p, q, across = touched_pixels(window, sdf, p, q, across)
    color = plumage(bird, tones, "wing", p * 0.9, across / unit, np.zeros_like(p)).copy()
    color = np.clip(color * _wing_shading(p, q, sdf, near)[..., None] * light, 0, 1)
    canvas.paint(where, np.clip(0.5 - sdf, 0, 1), color, RIGHT_WING if near else LEFT_WING)


def _wing_shading(p, q, sdf, near: bool):
    """Light on the feathers of a wing: lines between its flight feathers, scales before them, a dark rim."""
    flight = smoothstep(0.38, 0.46, p + 0.12 * q)
    line = np.abs(np.mod(q * 2.2 - p * 1.6 + 20.3, 1.0) - 0.5)
    scale = np.abs(np.mod(p * 7 + 0.5 * np.cos(q * 9), 1.0) - 0.5)
    shading = (
        (0.80 + 0.24 * smoothstep(-1, 1, q))
        * (1 - 0.24 * smoothstep(0.45, 0.5, line) * flight)
        * (1 - 0.12 * smoothstep(0.44, 0.5, scale) * (1 - flight))
    )
    return shading * (1 - 0.30 * smoothstep(-1.6, 0, sdf)) * (1.0 if near else 0.85)


def paint_bill(canvas: Canvas, pose: Pose, tones, light) -> None:
    radius, shape = pose.head_radius * pose.unit, pose.now["bill_shape"]
    length = pose.bill_length(pose.now)
    color = tones[pose.now["bill_color"]] * light
    base_x, base_y = 0.86, 0.12
    points, radii = BILLS[shape]
    if shape == "specialized" and pose.now["bill_length"] == "longer_than_head":
        points, radii = POUCHED_BILL
    line = [pose.head_at(base_x + part * length, base_y + drop) for part, drop in points]
    canvas.paint_chain(line, [max(r * radius, 0.9) for r in radii], color, BEAK, shade=0.40)
    if shape != "needle":
        gape = [
            pose.head_at(base_x - 0.02 + part * length * 0.92, base_y + drop + 0.03) for part, drop in points
        ]
        canvas.paint_chain(gape, [max(0.025 * radius, 0.45)] * len(gape), color * 0.42, None, shade=0)


def paint_eye(canvas: Canvas, pose: Pose, tones) -> None:
    radius, color = pose.head_radius * pose.unit, pose.now["eye_color"]
    centre = pose.head_at(0.34, -0.10)
    size = max(0.165 * radius, 2.2) * (1.35 if pose.plan == "owl" else 1.0)
    _disc(canvas, centre, size * 1.18, tones["black"] * 1.3, shade=0.1)
    _disc(canvas, centre, size, tones[color], shade=0.1)
    if color != "black":
        _disc(canvas, centre, size * 0.48, (0.03, 0.03, 0.04), shade=0)
    glint = centre + np.array([0.30, -0.34]) * size
    _disc(canvas, glint, size * 0.24, (0.97, 0.97, 0.97), shade=0)


def _disc(canvas: Canvas, centre, radius, color, shade) -> None:
    canvas.paint_chain([centre, centre + [0.01, 0]], [radius, radius], color, RIGHT_EYE, shade=shade)
