"""What is not bird: backgrounds, water, ground, branches, trunks, flowers, and what grows in front."""
import numpy as np

from .canvas import SIZE, Canvas, noise_tiles, smooth
from .individuals import Individual
from .pose import Pose


def background(bird: Individual, seat: str, rng: np.random.Generator) -> np.ndarray:
    """Sky, leaves out of focus, water or ground: float (224, 224, 3)."""
    palettes = {"green": ((.62, .74, .55), (.30, .46, .26)), "sky": ((.70, .82, .93), (.86, .90, .92)), "autumn": ((.82, .70, .46), (.50, .36, .22)),
                "dusk": ((.80, .66, .62), (.42, .40, .50)), "grey": ((.80, .82, .82), (.60, .63, .64)), "dark": ((.24, .32, .24), (.12, .17, .13))}
    names = list(palettes)
    top, bottom = (np.array(c) for c in palettes[names[int(rng.choice(len(names), p=[.32, .24, .12, .08, .14, .10]))]])
    if rng.random() < .5:
        top, bottom = bottom, top
    ramp = np.linspace(0, 1, SIZE)[:, None, None] ** rng.uniform(.7, 1.5)
    color = np.broadcast_to(top * (1 - ramp) + bottom * ramp, (SIZE, SIZE, 3)).copy()
    oy, ox = rng.integers(0, 640 - SIZE, 2)
    coarse, middle = noise_tiles()[0, oy:oy + SIZE, ox:ox + SIZE], noise_tiles()[1, oy:oy + SIZE, ox:ox + SIZE]
    tint = rng.uniform(-.09, .09, 3)
    color += coarse[..., None] * (.09 + tint)
    if grain := rng.choice([.0, .02, .05]):
        color += middle[..., None] * grain
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] + .5
    for _ in range(int(rng.integers(0, 7))):  # discs of light out of focus
        cx, cy, r = rng.uniform(0, SIZE), rng.uniform(0, SIZE), rng.uniform(8, 26)
        x0, x1, y0, y1 = max(0, int(cx - r) - 2), min(SIZE, int(cx + r) + 3), max(0, int(cy - r) - 2), min(SIZE, int(cy + r) + 3)
        d = np.hypot(xx[y0:y1, x0:x1] - cx, yy[y0:y1, x0:x1] - cy) - r
        glow = np.clip(top * .4 + .6 * rng.uniform(.5, 1.0, 3), 0, 1)
        color[y0:y1, x0:x1] += (glow - color[y0:y1, x0:x1]) * (.28 * smooth(2.5, -2.5, d))[..., None]
    return color


def surface(canvas: Canvas, level: float, kind: str, rng: np.random.Generator, over: bool, slope: float = 0.0) -> None:
    """Water, ground or rock below a level; `over` the bird (water hides what is under it, with a faint see-through) or behind it."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] + .5
    oy, ox = rng.integers(0, 640 - SIZE, 2)
    noise = noise_tiles()[:, oy:oy + SIZE, ox:ox + SIZE]
    base = {"water": (.36, .50, .58), "ground": (.47, .44, .27), "rock": (.46, .44, .42), "shallows": (.58, .62, .60)}[kind]
    base = np.array(base) * rng.uniform(.8, 1.2) + rng.uniform(-.03, .03, 3)
    depth = yy - level - slope * (xx - SIZE / 2) - (noise[0] * (10 if kind == "rock" else 1.2))
    if kind in ("water", "shallows"):
        ripple = np.sin(2 * np.pi * (depth / (3.5 + .10 * np.clip(depth, 0, None))) + 2.5 * noise[0] + .06 * xx)
        light = 1 + .10 * ripple + .05 * noise[1]
    else:
        light = 1 + .16 * noise[1] + .14 * noise[2]
    alpha = np.clip(depth + .5, 0, 1) * (.93 if over else 1.0)
    canvas.paint((slice(0, SIZE), slice(0, SIZE)), alpha, np.clip(base * light[..., None], 0, 1), 0 if over else None)


def draw_leaf(canvas: Canvas, stem, angle: float, length: float, color, part) -> None:
    tip = np.asarray(stem) + length * np.array([np.cos(angle), np.sin(angle)])
    if (found := canvas.window([stem, tip], .4 * length)) is None:
        return
    where, x, y = found
    px, py = x - stem[0], y - stem[1]
    p = (px * np.cos(angle) + py * np.sin(angle)) / length
    q = (-px * np.sin(angle) + py * np.cos(angle)) / length
    width = .26 * np.sin(np.pi * np.clip(p, 0, 1)) ** .8
    d = np.maximum((np.abs(q) - width), np.maximum(-p, p - 1)) * length
    vein = smooth(.012, .004, np.abs(q)) * .18
    lit = 1.0 + .22 * np.sign(q) * .5 - vein
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(np.asarray(color) * lit[..., None], 0, 1), part)


def seat(canvas: Canvas, pose: Pose, rng: np.random.Generator):
    """What the bird sits on, drawn before it. Returns the two points that the feet grasp."""
    u = pose.unit
    hips = pose.feet
    wood = np.array([.36, .27, .19]) * rng.uniform(.75, 1.25)
    if pose.seat == "trunk":
        x = pose.at(.05, .27 * pose.fat)[0] + u * pose.leg
        thick = u * .30 * pose.grain * rng.uniform(1.0, 1.5)
        lean = rng.uniform(-6, 6)
        canvas.tube([(x + thick - lean, -20), (x + thick + lean, SIZE + 20)], [thick, thick * 1.1], wood, None, shade=.5)
        oy, ox = rng.integers(0, 640 - SIZE, 2)
        x0 = max(0, int(x))
        if x0 < SIZE:
            bark = noise_tiles()[2, ox:ox + SIZE, oy:oy + SIZE - x0] * .10 + noise_tiles()[1, oy:oy + SIZE, ox:ox + SIZE - x0] * .06
            canvas.color[:, x0:SIZE] *= 1 + bark[..., None]
        return [np.array([x + 2, hips[0][1] + .03 * u]), np.array([x + 2, hips[1][1] - .10 * u])]
    down = np.array([.02, pose.leg]) * u
    feet = [hips[0] + down, hips[1] + down + np.array([.03, -.01]) * u]
    if pose.seat == "branch":
        slope, thick = rng.uniform(-.18, .18), u * .055 * pose.grain * rng.uniform(.8, 1.4)
        y = feet[0][1] + thick * .8
        x = feet[0][0]
        ends = [(-15.0, y + slope * (-15 - x)), (x, y), (SIZE + 15.0, y + slope * (SIZE + 15 - x) + rng.uniform(-8, 8))]
        canvas.tube(ends, [thick * 1.25, thick, thick * .7], wood, None, shade=.55)
        for _ in range(int(rng.integers(0, 5))):
            at = rng.uniform(0, SIZE)
            leaf = np.array([.28, .45, .18]) * rng.uniform(.7, 1.4)
            draw_leaf(canvas, (at, y + slope * (at - x)), rng.uniform(-np.pi, np.pi), u * .22 * pose.grain * rng.uniform(.7, 1.4), leaf, None)
        feet = [np.array([f[0], y + slope * (f[0] - x) - thick * .9]) for f in feet]
    elif pose.seat in ("ground", "rock", "shallows"):
        surface(canvas, feet[0][1] - 2, pose.seat, rng, over=False)
    return feet


def flower(canvas: Canvas, pose: Pose, tones, rng) -> None:
    tip = pose.head_at(.95 + pose.bill(pose.born), .12)
    hue = tones[str(rng.choice(["red", "pink", "orange", "purple", "yellow"]))]
    stem = tip + np.array([.55, .9]) * pose.unit * .6
    canvas.tube([stem + [10, 60], stem, tip + [4, 4]], [2.4, 1.8, 1.5], (.25, .42, .18), None)
    for angle in np.linspace(-2.2, 1.4, 6):
        draw_leaf(canvas, tip + [5, 2], angle, pose.unit * .17 * pose.grain, hue, None)


def occluder(canvas: Canvas, pose: Pose, rng: np.random.Generator) -> None:
    """In one picture in five something in front of the bird: leaves, blades of grass, or a twig."""
    kind, chance = rng.random(), rng.random()
    centre = np.array([rng.uniform(.15, .85), rng.uniform(.2, .9)]) * SIZE
    green = np.array([.26, .43, .17]) * rng.uniform(.6, 1.5)
    angles, sizes, shifts = rng.uniform(-np.pi, np.pi, 4), rng.uniform(.8, 1.4, 4), rng.uniform(-22, 22, (4, 2))
    if chance > .20:
        return
    if kind < .5:
        for angle, size, shift in zip(angles, sizes, shifts):
            draw_leaf(canvas, centre + shift, angle, 30 * size * pose.grain ** .5, green * (.85 + .3 * (size - 1)), 0)
    elif kind < .8 and pose.seat not in ("water", "air"):
        for angle, size, shift in zip(angles, sizes, shifts):
            foot = (centre[0] + shift[0] * 2, SIZE + 4)
            canvas.tube([foot, (foot[0] + 10 * angle * .4, SIZE - 55 * size), (foot[0] + 26 * angle * .4, SIZE - 95 * size)], [3.4, 2.4, .6], green, 0)
    else:
        ends = [centre + 180 * np.array([np.cos(a), np.sin(a)]) for a in (angles[0], angles[0] + np.pi)]
        canvas.tube(ends, [2.2 * pose.grain, 3.2 * pose.grain], (.33, .25, .18), 0)
