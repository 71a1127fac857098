"""The renderer of the aviary: an individual in, a 224×224 picture with the true place of every part out.

Everything is a field over the pixels: a body, neck, bill or leg is a chain of round cones given by its signed distance, a wing or tail a plane shape in its
own coordinates (p along, q across). Distances give anti-aliased edges and the roundness of the light; the coordinates carry plumage and markings. All
arithmetic is float64 and all chance comes from numpy generators seeded by (seed, index), so a bird is the same in every process.
"""
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image

from .individuals import MARKED, Individual, shown_colors

SIZE = 224
PARTS = ["back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing", "nape", "right eye", "right leg", "right wing",
         "tail", "throat"]  # CUB's 15 parts; id = position + 1
REST = 16  # mask value of the bird's pixels that belong to no part (cheek)
RGB = {"blue": (.13, .33, .74), "brown": (.41, .27, .16), "iridescent": (.12, .42, .42), "purple": (.42, .19, .53), "rufous": (.65, .28, .11),
       "grey": (.50, .52, .56), "yellow": (.96, .82, .16), "olive": (.45, .46, .19), "green": (.17, .52, .24), "pink": (.93, .47, .60),
       "orange": (.95, .50, .10), "black": (.09, .09, .11), "white": (.95, .95, .93), "red": (.80, .11, .11), "buff": (.86, .73, .50)}
# Body plans: tilt in degrees, neck, leg, head radius, plumpness, tail (unit: body length), and where such a bird sits.
PLANS = {"perching": (34, .0, .26, .215, 1.0, .55, "branch"), "tree-clinging": (72, .05, .05, .20, .88, .50, "trunk"), "duck": (4, .34, .10, .155, 1.0, .26, "water"),
         "hummingbird": (38, .02, .10, .185, .80, .50, "air"), "upright-perching_water": (62, .05, .14, .20, 1.02, .20, "rock"),
         "long-legged": (14, .62, .75, .13, .90, .25, "shallows"), "gull": (8, .14, .26, .16, .88, .42, "shallows"), "owl": (72, -.06, .14, .29, 1.15, .35, "branch"),
         "chicken-like-marsh": (16, .20, .36, .15, 1.05, .22, "ground"), "pigeon": (22, .10, .18, .15, 1.08, .55, "ground"), "hawk": (48, .02, .22, .19, 1.0, .60, "branch"),
         "sandpiper": (12, .16, .46, .15, .88, .25, "shallows"), "upland-ground": (14, .12, .28, .16, 1.12, .40, "ground"), "swallow": (24, -.02, .12, .18, .80, .62, "branch")}
SCALE = {"very_small": .80, "small": .87, "medium": .94, "large": 1.0, "very_large": 1.05}
BILL_LENGTH = {"shorter_than_head": .62, "about_the_same_as_head": 1.15, "longer_than_head": 1.95}


class Picture(NamedTuple):
    """`image` uint8 (224, 224, 3); `parts` uint8 (224, 224): 0 background, 1…15 the visible part, 16 the rest of the bird; `points` (15, 2): x, y of each
    visible part's centre in pixels, NaN where it is not visible; `box`: x, y, width, height of the bird."""
    image: np.ndarray
    parts: np.ndarray
    points: np.ndarray
    box: tuple[float, float, float, float]


@cache
def _noise() -> np.ndarray:
    """Smooth noise in about [-1, 1], (3, 640, 640): coarse, middle, fine. Sums of cosines, so the same everywhere."""
    rng = np.random.default_rng(20110826)
    out = []
    for cells in (14, 44, 150):
        grid = rng.uniform(-1, 1, (cells, cells)).astype(np.float32)
        out.append(np.asarray(Image.fromarray(grid, "F").resize((640, 640), Image.Resampling.BICUBIC), dtype=np.float64))
    return np.stack(out)


def _smooth(edge0: float, edge1: float, x: np.ndarray) -> np.ndarray:
    t = np.clip((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def _cone(x, y, start, end, ra, rb):
    """Distance to one round cone, and for the rest of its coordinates: t in [0, 1] along it, radius there, and the vector from its start."""
    (ax, ay), (bx, by) = start, end
    dx, dy = bx - ax, by - ay
    px, py = x - ax, y - ay
    t = np.clip((px * dx + py * dy) / (dx * dx + dy * dy), 0.0, 1.0)
    r = ra + (rb - ra) * t
    return np.hypot(px - t * dx, py - t * dy) - r, t, r, px, py, dx, dy


def _distance(x, y, points, radii):
    """Signed distance to a chain of round cones."""
    return np.minimum.reduce([_cone(x, y, *points[i:i + 2], *radii[i:i + 2])[0] for i in range(len(points) - 1)])


def _along(x, y, points, radii):
    """Coordinates along a chain of round cones: s in [0, 1] from first to last point, v = -1 (left of the walk) … 1."""
    best, n = None, len(points) - 1
    for i in range(n):
        d, t, r, px, py, dx, dy = _cone(x, y, *points[i:i + 2], *radii[i:i + 2])
        v = (dx * py - dy * px) / np.hypot(dx, dy) / np.maximum(r, 1e-6)
        if best is None:
            best, along, side = d, t / n, v
        else:
            nearer = d < best
            best, along, side = np.where(nearer, d, best), np.where(nearer, (i + t) / n, along), np.where(nearer, v, side)
    return along, side


def _union(a, b, k):
    """Smooth union of two distances (polynomial, radius k)."""
    h = np.clip(0.5 + 0.5 * (b - a) / k, 0.0, 1.0)
    return b + (a - b) * h - k * h * (1 - h)


def _inside(where, d, *fields):
    """Only the pixels that a shape touches (d < 1): their indices, their distances, and the fields (h, w), x (1, w) or y (h, 1) there, all (n,)."""
    ys, xs = np.nonzero(d < 1)
    at = [field[ys if field.shape[0] > 1 else 0, xs if field.shape[1] > 1 else 0] for field in (d, *fields)]
    return (ys + where[0].start, xs + where[1].start), *at


class _Canvas:
    """The picture in the making: colour (224, 224, 3) and the part of every pixel."""

    def __init__(self, color: np.ndarray):
        self.color, self.parts = color, np.zeros((SIZE, SIZE), np.uint8)

    def window(self, points, margin: float):
        """Slices that hold the points with a margin, and the pixel centres x (1, w) and y (h, 1) in them; None where it lies outside the picture."""
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        x0, x1 = max(0, int(min(xs) - margin)), min(SIZE, int(max(xs) + margin) + 2)
        y0, y1 = max(0, int(min(ys) - margin)), min(SIZE, int(max(ys) + margin) + 2)
        if x0 >= x1 or y0 >= y1:
            return None
        return (slice(y0, y1), slice(x0, x1)), np.arange(x0, x1)[None] + 0.5, np.arange(y0, y1)[:, None] + 0.5

    def paint(self, where, alpha, color, part) -> None:
        """Lay `color` over the window with opacity `alpha`; `part` (a number or an array) is set where alpha > 0.5, and kept where it is None."""
        old = self.color[where]
        self.color[where] = old + (color - old) * alpha[..., None]
        if part is not None:
            self.parts[where] = np.where(alpha > 0.5, part, self.parts[where])

    def tube(self, points, radii, color, part, shade: float = 0.35) -> None:
        if (found := self.window(points, max(radii) + 1)) is None:
            return
        where, x, y = found
        where, d, x, y = _inside(where, _distance(x, y, points, radii), x, y)
        _, v = _along(x, y, points, radii)
        lit = 1 - shade * _smooth(-0.6, 1.0, v) + 0.10 * _smooth(0.4, -0.6, v)
        self.paint(where, np.clip(0.5 - d, 0, 1), np.asarray(color) * lit[..., None], part)


def _tones(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """This individual's own tone of each colour name."""
    return {name: np.clip(np.array(rgb) * rng.uniform(.90, 1.10) + rng.uniform(-.025, .025, 3), .03, .98) for name, rgb in RGB.items()}


def _contrast(rgb: np.ndarray) -> np.ndarray:
    return rgb * 0.45 if rgb.mean() > 0.30 else rgb * 0.6 + 0.42


def _markings(pattern: str, region: str, u, v, wobble):
    """Where the markings of a region lie, in [0, 1]; u along and v across the region in body lengths."""
    if pattern == "spotted":
        cell = .095 if region in ("back", "wing", "tail") else .085
        row = np.floor(u / cell)
        cu, cv = u / cell - row - .5, v / cell + .5 * (row % 2)
        cv = cv - np.floor(cv) - .5
        return _smooth(.36, .24, np.hypot(cu * .85, cv) + .05 * wobble)
    if pattern == "striped":
        if region == "tail":
            return _smooth(-.15, .35, np.cos(2 * np.pi * u / .13))
        if region == "wing":
            return np.maximum.reduce([_smooth(.040, .024, np.abs(u - at + .25 * v)) for at in (.22, .38, .54)])
        wave = np.cos(2 * np.pi * (v / .085 + .10 * wobble))
        dash = 1.0 if region == "back" else _smooth(-.75, -.35, np.cos(2 * np.pi * (u / .21 + np.floor(v / .085 + .5) * .37)))
        return _smooth(.05, .45, wave) * dash
    if pattern == "multi-colored":
        if region == "tail":
            return np.maximum(_smooth(.30, .36, u), _smooth(.05, .075, np.abs(v)) * .9)
        if region == "wing":
            return np.maximum(_smooth(.30, .34, u) * _smooth(.56, .52, u) * _smooth(-.30, -.20, v + .02), _smooth(.06, .03, np.abs(v - .02)) * _smooth(.5, .55, u))
        return _smooth(-.05, .20, wobble + .35 * np.cos(2 * np.pi * u / .34))
    return np.zeros_like(u)


def _plumage(bird: Individual, tones, region: str, u, v, wobble):
    """Colour (..., 3) of a marked region: ground and markings."""
    color, pattern, _ = MARKED[region]
    names = bird.values[color]
    ground = tones[names[0]]
    marks = tones[names[1]] if len(names) > 1 else _contrast(ground)
    m = _markings(bird.values[pattern][0], region, u, v, wobble)[..., None]
    return _sheen(names[0], ground, u, v) * (1 - m) + _sheen(names[1] if len(names) > 1 else "", marks, u, v) * m


def _sheen(name: str, rgb, u, v):
    if name != "iridescent":
        return np.broadcast_to(rgb, (*np.shape(u), 3))
    t = (.5 + .5 * np.sin(9 * u + 14 * v))[..., None]
    return rgb * (1 - t) + np.array([.40, .18, .58]) * t


def _wing_width(shape: str, p):
    """Half width of the folded wing at p in [0, 1] (shoulder to tip), relative to its widest."""
    rise = np.sqrt(np.clip(p / .22, 0, 1))
    if shape in ("rounded", "broad"):
        scale, power = {"rounded": (1, 4), "broad": (1.3, 6)}[shape]
        return rise * (scale * (1 - np.clip(p, 0, 1) ** power) ** .5)
    scale, start, power = {"pointed": (1, .25, .85), "tapered": (.8, .1, .6), "long": (.85, .35, .75)}[shape]
    return rise * (scale * np.clip(1 - np.clip(p - start, 0, 1) / (1 - start), 0, 1) ** power)


def _tail_end(shape: str, q):
    """Length of the tail at q in [-1, 1] across, relative to its full length."""
    a = np.abs(np.clip(q, -1, 1))
    return {"forked": .52 + .55 * a ** 1.2, "rounded": 1 - .22 * a ** 2, "notched": .86 + .14 * a, "fan-shaped": 1 - .16 * a ** 3,
            "pointed": 1.12 - .62 * a, "squared": .95 + 0 * a}[shape]


class _Pose:
    """Where everything of a bird lies in the picture, from its birth values and its own chance; the bird faces right until the very end."""

    def __init__(self, bird: Individual):
        rng = np.random.default_rng([bird.seed, bird.index, 1])
        born = {g: v[0] for g, v in bird.born.items()}
        now = {g: v[0] for g, v in bird.values.items()}
        self.plan = now["shape"].removesuffix("-like") if now["shape"] != "chicken-like-marsh" else now["shape"]
        tilt, neck, leg, head, fat, tail, self.seat = PLANS[self.plan]
        self.flip = bool(rng.random() < 0.5)
        self.tilt = np.radians(tilt + rng.uniform(-9, 9) * (0.5 if self.seat in ("water", "trunk") else 1))
        self.nod = np.radians(rng.uniform(-14, 14))
        self.fat = fat * rng.uniform(.93, 1.07)
        self.wing_raised = bool(rng.random() < {"hummingbird": .65, "swallow": .25}.get(self.plan, .07))
        self.tail_swing = np.radians(rng.uniform(-10, 12))
        self.neck, self.leg, self.head_r = neck * rng.uniform(.85, 1.15), leg * rng.uniform(.9, 1.1), head * rng.uniform(.95, 1.05)
        self.tail_length = tail * rng.uniform(.93, 1.07)
        offset, fill = rng.uniform(-1, 1, 2), rng.uniform(.80, 1.0)
        # Unit frame: body from rump (-.5) to breast (.5), front up by the tilt.
        self.origin, self.unit = np.zeros(2), 1.0
        points = self._extent(born)
        low, high = points.min(0), points.max(0)
        size = SCALE[born["size"].split("_(")[0]]
        self.unit = min(.90 * fill * size * SIZE / (high - low).max(), 120.0)
        slack = np.maximum(SIZE - (high - low) * self.unit, 10.0) / 2
        self.origin = np.array([SIZE / 2, SIZE / 2]) - self.unit * (low + high) / 2 + offset * slack * .7
        self.grain = 1.0 / size ** 2  # perches and leaves look bigger beside a small bird
        self.unit *= SCALE[now["size"].split("_(")[0]] / size  # a substituted size
        self.born, self.now = born, now

    def at(self, x: float, y: float) -> np.ndarray:
        """Body coordinates to pixels."""
        c, s = np.cos(self.tilt), np.sin(self.tilt)
        return self.origin + self.unit * np.array([c * x + s * y, -s * x + c * y])

    @property
    def body(self):
        f, u = self.fat, self.unit
        points = [self.at(*p) for p in ((-.52, -.02), (-.26, .0), (.02, .03), (.28, .02), (.45, -.03))]
        return points, [.065 * u, .165 * f * u, .245 * f * u, .235 * f * u, .135 * u]

    @property
    def neck_line(self):
        """From the shoulders to the head: straight for short necks, an S for long ones."""
        u, n = self.unit, self.neck
        start = self.at(.36, -.06)
        up = np.array([np.cos(self.tilt * .45 + .35 + n * .7), -np.sin(self.tilt * .45 + .35 + n * .7)])
        end = start + u * (.235 + n) * up
        bend = np.array([.16, .05]) * n * u
        middle = (start + end) / 2 + bend
        wide = max(.175 * self.fat * (1 - n), .075)
        return [start, (start + middle) / 2 + bend * .4, middle, end], [wide * u, (wide * .75 + .02) * u, max(self.head_r * .72, wide * .55) * u, self.head_r * .85 * u]

    @property
    def head(self):
        return self.neck_line[0][-1]

    def head_at(self, a: float, b: float) -> np.ndarray:
        """Head coordinates (in head radii, x to the bill, y down) to pixels."""
        c, s = np.cos(self.nod), np.sin(self.nod)
        return self.head + self.unit * self.head_r * np.array([c * a - s * b, s * a + c * b])

    def bill(self, values):
        length = BILL_LENGTH[values["bill_length"]] * (1.35 if self.plan in ("hummingbird", "duck", "long-legged") else 1.0)
        if values["bill_shape"] == "specialized":
            length *= 1.15 if values["bill_length"] == "longer_than_head" else .95
        return length

    def _extent(self, values):
        u = self.unit
        rump, front, head = self.at(-.52, 0), self.at(.5, 0), self.head
        swing = self.tilt * .8 + self.tail_swing
        tail = rump + u * self.tail_length * np.array([-np.cos(swing), np.sin(swing)])
        feet = self.at(0, .26) + u * np.array([.05, self.leg])
        r = self.head_r * u
        points = [rump, front, tail, feet, head + [0, -1.3 * r], head + [r, 0], self.head_at(1 + self.bill(values), .1), self.at(0, -.3), self.at(.1, .3)]
        return np.array(points)

    @property
    def feet(self):
        return [self.at(.02, .20 * self.fat), self.at(.12, .19 * self.fat)]


def _background(bird: Individual, seat: str, rng: np.random.Generator) -> np.ndarray:
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
    coarse, middle = _noise()[0, oy:oy + SIZE, ox:ox + SIZE], _noise()[1, oy:oy + SIZE, ox:ox + SIZE]
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
        color[y0:y1, x0:x1] += (glow - color[y0:y1, x0:x1]) * (.28 * _smooth(2.5, -2.5, d))[..., None]
    return color


def _surface(canvas: _Canvas, level: float, kind: str, rng: np.random.Generator, over: bool, slope: float = 0.0) -> None:
    """Water, ground or rock below a level; `over` the bird (water hides what is under it, with a faint see-through) or behind it."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] + .5
    oy, ox = rng.integers(0, 640 - SIZE, 2)
    noise = _noise()[:, oy:oy + SIZE, ox:ox + SIZE]
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


def _leaf(canvas: _Canvas, stem, angle: float, length: float, color, part) -> None:
    tip = np.asarray(stem) + length * np.array([np.cos(angle), np.sin(angle)])
    if (found := canvas.window([stem, tip], .4 * length)) is None:
        return
    where, x, y = found
    px, py = x - stem[0], y - stem[1]
    p = (px * np.cos(angle) + py * np.sin(angle)) / length
    q = (-px * np.sin(angle) + py * np.cos(angle)) / length
    width = .26 * np.sin(np.pi * np.clip(p, 0, 1)) ** .8
    d = np.maximum((np.abs(q) - width), np.maximum(-p, p - 1)) * length
    vein = _smooth(.012, .004, np.abs(q)) * .18
    lit = 1.0 + .22 * np.sign(q) * .5 - vein
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(np.asarray(color) * lit[..., None], 0, 1), part)


def _seat(canvas: _Canvas, pose: _Pose, rng: np.random.Generator):
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
            bark = _noise()[2, ox:ox + SIZE, oy:oy + SIZE - x0] * .10 + _noise()[1, oy:oy + SIZE, ox:ox + SIZE - x0] * .06
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
            _leaf(canvas, (at, y + slope * (at - x)), rng.uniform(-np.pi, np.pi), u * .22 * pose.grain * rng.uniform(.7, 1.4), leaf, None)
        feet = [np.array([f[0], y + slope * (f[0] - x) - thick * .9]) for f in feet]
    elif pose.seat in ("ground", "rock", "shallows"):
        _surface(canvas, feet[0][1] - 2, pose.seat, rng, over=False)
    return feet


def _legs(canvas: _Canvas, pose: _Pose, tones, feet) -> None:
    if pose.seat in ("water", "air"):
        return
    u, color = pose.unit, tones[pose.now["leg_color"]]
    r = max(.018 * u, 1.1)
    # The far leg first: left leg of a bird that faces right.
    for hip, foot, part, tone in ((pose.feet[1], feet[1], 8, .82), (pose.feet[0], feet[0], 12, 1.0)):
        knee = (hip + foot) / 2 + np.array([-.05, .0]) * u
        canvas.tube([hip, knee, foot], [r * 1.5, r, r], color * tone, part, shade=.3)
        spread = [(-.07, .02), (.06, .025), (.09, .0)] if pose.seat != "trunk" else [(.07, -.06), (.08, .0), (.06, .05)]
        for dx, dy in spread:
            canvas.tube([foot, foot + np.array([dx, dy]) * u], [r, r * .7], color * tone, part, shade=.3)


def _tail(canvas: _Canvas, pose: _Pose, bird: Individual, tones, light) -> None:
    u, shape = pose.unit, pose.now["tail_shape"].removesuffix("_tail")
    base = pose.at(-.40, -.01)
    angle = np.pi - (pose.tilt * .8 + pose.tail_swing) if pose.seat != "trunk" else np.pi - pose.tilt - .12
    ux, uy = np.cos(angle), np.sin(angle)
    length = (pose.tail_length + .12) * u * (1.3 if shape == "forked" else 1.0)
    tip = base + length * np.array([ux, uy])
    if (found := canvas.window([base, tip], .55 * length + 6)) is None:
        return
    where, x, y = found
    px, py = x - base[0], y - base[1]
    p = (px * ux + py * uy) / length
    across = (px * uy - py * ux)  # positive = the upper side
    open_ = {"fan-shaped": .42, "forked": .24, "rounded": .22, "notched": .16, "squared": .17, "pointed": .14}[shape]
    half = u * .085 + np.clip(p, 0, 1.2) * length * open_
    q = across / half
    d = np.maximum((np.abs(q) - 1) * half, (p - _tail_end(shape, q)) * length * .9)
    d = np.maximum(d, -p * length)
    where, d, p, q, across = _inside(where, d, p, q, across)
    color = _plumage(bird, tones, "tail", p * length / u, across / u, np.zeros_like(p)).copy()
    under = _smooth(-.25, -.40, q) * _smooth(.62, .52, p)
    color += (tones[bird.values["under_tail_color"][0]] - color) * under[..., None]
    feather = np.abs(np.mod(q * 2.5 + 10.5, 1.0) - .5)
    lit = (.80 + .20 * _smooth(-1.0, .6, q)) * (1 - .22 * _smooth(.47, .5, feather) * _smooth(.1, .4, p))
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(color * lit[..., None] * light, 0, 1), 14)


def _body(canvas: _Canvas, pose: _Pose, bird: Individual, tones, light, rng) -> None:
    u, now = pose.unit, pose.now
    body_points, body_radii = pose.body
    neck_points, neck_radii = pose.neck_line
    crested, r = "crested" in bird.values["head_pattern"], pose.head_r * u
    found = canvas.window([*body_points, *neck_points], max(*body_radii, (1.75 if crested else 1.15) * r) + 2)
    if found is None:
        return
    where, x, y = found
    oy, ox = rng.integers(0, 640 - SIZE, 2)
    noise = _noise()[:, oy:oy + y.shape[0], ox:ox + x.shape[1]]
    db, dn = _distance(x, y, body_points, body_radii), _distance(x, y, neck_points, neck_radii)
    c, sin = np.cos(pose.nod), np.sin(pose.nod)
    hx, hy = x - pose.head[0], y - pose.head[1]
    a, b = (c * hx + sin * hy) / r, (-sin * hx + c * hy) / r
    dh = (np.hypot(a * .96, b * 1.04) - 1) * r
    d = _union(_union(db, dn, .10 * u), dh, .07 * u)
    if crested:
        dc = _distance(x, y, [pose.head_at(.25, -.72), pose.head_at(-.45, -1.05), pose.head_at(-1.05, -1.55)], [.42 * r, .34 * r, .05 * r])
        d = _union(d, dc, .12 * r)
    gy, gx = np.gradient(d)
    dc = dc if crested else d
    where, d, x, y, dn, a, b, dc, gy, gx, *noise = _inside(where, d, x, y, dn, a, b, dc, gy, gx, *noise)
    (s, v), (sn, vn) = _along(x, y, body_points, body_radii), _along(x, y, neck_points, neck_radii)
    wobble = noise[1] * .5 + noise[0] * .3
    along, across = (s - .5) * 1.0, v * .24
    names = {g: tones[val[0]] for g, val in bird.values.items() if g.endswith("color")}

    color = _plumage(bird, tones, "back", along, across, noise[1]).copy()
    part = np.full(d.shape, 1, np.uint8)

    def lay(mask, rgb, number):
        here = mask > .002
        color[here] += (rgb[here] - color[here]) * mask[here, None] if np.ndim(rgb) > 1 else (rgb - color[here]) * mask[here, None]
        if number is not None:
            part[mask > .5] = number

    edge = .10 * wobble
    lower = _smooth(-.02, .16, v - .06 + edge)
    lay(lower, _plumage(bird, tones, "belly", along, across, noise[1]), 3)
    front = _smooth(.56, .64, s + .25 * edge + .05 * v)
    lay(front * _smooth(-.34, -.16, v + edge), _plumage(bird, tones, "breast", along, across, noise[1]), 4)
    lay(_smooth(.26, .20, s + .2 * edge) * _smooth(-.05, .12, v), names["under_tail_color"], 14)
    # Neck: nape above, throat and breast below.
    near_neck = _smooth(2.0, -2.0, dn) * _smooth(.18, .34, sn)
    lay(near_neck * _smooth(.05, -.15, vn + edge), _sheen(bird.values["nape_color"][0], names["nape_color"], along, across), 10)
    lay(near_neck * _smooth(-.15, .05, vn + edge) * _smooth(.35, .5, sn - .15 * pose.neck), _sheen(bird.values["throat_color"][0], names["throat_color"], along, across), 15)
    # Head.
    inside = _smooth(1.12, 1.00, np.hypot(a, b))
    lay(inside, tones[bird.face], REST)
    lay(inside * _smooth(-.40, -.58, a + .25 * b + .1 * wobble) , _sheen(bird.values["nape_color"][0], names["nape_color"], a, b), 10)
    throat = _smooth(.30, .46, b + .12 * a + .1 * wobble) * _smooth(-.55, -.30, a) * _smooth(1.45, 1.25, np.hypot(a, b * .85))
    lay(throat, _sheen(bird.values["throat_color"][0], names["throat_color"], a, b), 15)
    patterns = set(bird.values["head_pattern"])
    cap = .28 if "capped" in patterns else 0.0
    crown = _smooth(-.30 + cap, -.42 + cap, b + .08 * wobble) * _smooth(1.3, 1.1, np.hypot(a, b))
    if crested:
        crown = np.maximum(crown, _smooth(1.5, -1.5, dc) * _smooth(-.45, -.6, b))
    lay(crown * _smooth(-1.02, -.86, a + (.0 if not crested else -.6 * b)), _sheen(bird.values["crown_color"][0], names["crown_color"], a, b), 5)
    forehead = inside * _smooth(.40, .54, a - .35 * b) * _smooth(.02, -.12, b) * _smooth(.28, .40, a)
    lay(forehead, _sheen(bird.values["forehead_color"][0], names["forehead_color"], a, b), 6)
    face = tones[bird.face]
    dark = tones["black"] if face.mean() > .28 else tones["white"]
    pale = tones["white"] if face.mean() < .72 else tones["black"]
    eye_a, eye_b = .34, -.10
    ring = np.hypot(a - eye_a, b - eye_b)
    marks = {
        "masked": (_smooth(.26, .18, np.abs(b + .08 - .05 * a)) * _smooth(-.50, -.38, a), dark),
        "eyeline": (_smooth(.115, .065, np.abs(b + .12 + .10 * a)) * _smooth(-.80, -.70, a), dark),
        "eyebrow": (_smooth(.115, .065, np.abs(b + .40 + .04 * a)) * _smooth(-.75, -.62, a), pale),
        "eyering": (_smooth(.34, .29, ring), pale),
        "malar": (_smooth(.11, .06, np.abs(.53 * (a - .80) + .85 * (b - .22))) * _smooth(-.35, -.22, a), dark),
        "striped": (_smooth(.1, .4, np.cos(2 * np.pi * (b + .28) / .36)) * _smooth(.05, -.05, b + .05) * _smooth(-.9, -.75, a), pale),
        "spotted": (_markings("spotted", "breast", a * .25, b * .25, wobble), dark),
        "unique_pattern": (_smooth(.42, .34, np.hypot(a + .18, (b - .18) * 1.15)), tones["purple"] if face.mean() < .5 else tones["black"])}
    for name in ("spotted", "striped", "eyebrow", "malar", "unique_pattern", "masked", "eyeline", "eyering"):
        if name in patterns:
            mask, rgb = marks[name]
            lay(mask * inside, rgb, None)
    # Light: a round surface lit from above, feathers as fine grain along the body.
    depth = np.clip(-d / (.26 * u), 0, 1)
    nz = np.sqrt(1 - (1 - depth) ** 2)
    lx, ly, lz = light_direction(rng)
    lit = .62 + .46 * np.clip((gx * lx + gy * ly) * (1 - depth) + nz * lz, -.4, 1)
    grain = 1 + .05 * noise[2] + .04 * noise[1]
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(color * (lit * grain)[..., None] * light, 0, 1), part)


def light_direction(rng: np.random.Generator):
    """Unit vector towards the light: from above, a little from the front or behind, and from the viewer."""
    x = rng.uniform(-.55, .55)
    n = np.sqrt(x * x + .75 ** 2 + .6 ** 2)
    return x / n, -.75 / n, .6 / n


def _wing(canvas: _Canvas, pose: _Pose, bird: Individual, tones, light, near: bool) -> None:
    u, shape = pose.unit, pose.now["wing_shape"].removesuffix("-wings")
    root = pose.at(.33, -.12 * pose.fat)
    if pose.wing_raised:
        angle = -np.pi / 2 - (.45 if near else .05) - pose.tail_swing
        length = u * (1.0 if shape != "long" else 1.15)
    else:
        tip = pose.at(-.50 if shape != "long" else -.68, -.06)
        angle = np.arctan2(*(tip - root)[::-1])
        length = np.hypot(*(tip - root))
    ux, uy = np.cos(angle), np.sin(angle)
    tip = root + length * np.array([ux, uy])
    if (found := canvas.window([root, tip], .42 * length + 4)) is None:
        return
    where, x, y = found
    px, py = x - root[0], y - root[1]
    p = (px * ux + py * uy) / length
    widest = (.165 * pose.fat if not pose.wing_raised else .20) * u
    q0 = (px * uy - py * ux) - (.07 * u * np.sin(np.pi * np.clip(p, 0, 1)) if not pose.wing_raised else -.10 * u * np.sin(np.pi * np.clip(p, 0, 1)))
    q0 = q0 + widest * .35 if not pose.wing_raised else q0
    half = widest * _wing_width(shape, p)
    q = q0 / np.maximum(half, 1e-6)
    d = np.maximum(np.abs(q0) - half, np.maximum(-p, p - 1.0) * length)
    where_shadow = np.clip(.5 - (d - .035 * u) / 3, 0, 1) * .22
    if near and not pose.wing_raised:
        canvas.paint(where, where_shadow, canvas.color[where] * .45, None)
    where, d, p, q, q0 = _inside(where, d, p, q, q0)
    color = _plumage(bird, tones, "wing", p * .9, q0 / u, np.zeros_like(p)).copy()
    flight = _smooth(.38, .46, p + .12 * q)
    line = np.abs(np.mod(q * 2.2 - p * 1.6 + 20.3, 1.0) - .5)
    scale = np.abs(np.mod(p * 7 + .5 * np.cos(q * 9), 1.0) - .5)
    lit = (.80 + .24 * _smooth(-1, 1, q)) * (1 - .24 * _smooth(.45, .5, line) * flight) * (1 - .12 * _smooth(.44, .5, scale) * (1 - flight))
    lit = lit * (1 - .30 * _smooth(-1.6, 0, d)) * (1.0 if near else .85)
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(color * lit[..., None] * light, 0, 1), 13 if near else 9)


def _bill(canvas: _Canvas, pose: _Pose, tones, light) -> None:
    r, shape = pose.head_r * pose.unit, pose.now["bill_shape"]
    n = pose.bill(pose.now)
    color = tones[pose.now["bill_color"]] * light
    base, drop = (.86, .12), 0.0
    # Centre line in head radii (fraction of the length, drop) and thickness.
    lines = {"all-purpose": ([(0, 0), (.5, .0), (1, .05)], [.20, .14, .03]), "dagger": ([(0, 0), (.5, 0), (1, .0)], [.23, .15, .02]),
             "cone": ([(0, 0), (.5, .0), (1, .06)], [.36, .22, .03]), "needle": ([(0, 0), (.5, -.02), (1, .0)], [.085, .06, .035]),
             "hooked": ([(0, -.02), (.6, -.06), (.92, .02), (1, .22)], [.26, .22, .14, .03]), "hooked_seabird": ([(0, 0), (.7, 0), (.95, .03), (1, .16)], [.20, .14, .12, .03]),
             "spatulate": ([(0, 0), (.45, .06), (1, .10)], [.24, .13, .19]), "curved_(up_or_down)": ([(0, 0), (.4, -.08), (.75, .04), (1, .34)], [.17, .13, .09, .03]),
             "specialized": ([(0, .02), (.5, .06), (1, .16)], [.52, .40, .06])}
    points, radii = lines[shape]
    if shape == "specialized" and pose.now["bill_length"] == "longer_than_head":  # a pouch
        points, radii = [(0, 0), (.30, .30), (.70, .20), (1, .08)], [.25, .50, .25, .05]
    line = [pose.head_at(base[0] + f * n, base[1] + dy) for f, dy in points]
    canvas.tube(line, [max(t * r, .9) for t in radii], color, 2, shade=.40)
    if shape not in ("needle",):
        gape = [pose.head_at(base[0] - .02 + f * n * .92, base[1] + dy + .03) for f, dy in points]
        canvas.tube(gape, [max(.025 * r, .45)] * len(gape), color * .42, None, shade=0)


def _eye(canvas: _Canvas, pose: _Pose, tones) -> None:
    r, name = pose.head_r * pose.unit, pose.now["eye_color"]
    at = pose.head_at(.34, -.10)
    size = max(.165 * r, 2.2) * (1.35 if pose.plan == "owl" else 1.0)
    for radius, color in ((size * 1.18, tones["black"] * 1.3), (size, tones[name])):
        canvas.tube([at, at + [.01, 0]], [radius, radius], color, 11, shade=.1)
    if name != "black":
        canvas.tube([at, at + [.01, 0]], [size * .48, size * .48], (.03, .03, .04), 11, shade=0)
    glint = at + np.array([.30, -.34]) * size
    canvas.tube([glint, glint + [.01, 0]], [size * .24] * 2, (.97, .97, .97), 11, shade=0)


def _occluder(canvas: _Canvas, pose: _Pose, rng: np.random.Generator) -> None:
    """In one picture in five something in front of the bird: leaves, blades of grass, or a twig."""
    kind, chance = rng.random(), rng.random()
    centre = np.array([rng.uniform(.15, .85), rng.uniform(.2, .9)]) * SIZE
    green = np.array([.26, .43, .17]) * rng.uniform(.6, 1.5)
    angles, sizes, shifts = rng.uniform(-np.pi, np.pi, 4), rng.uniform(.8, 1.4, 4), rng.uniform(-22, 22, (4, 2))
    if chance > .20:
        return
    if kind < .5:
        for angle, size, shift in zip(angles, sizes, shifts):
            _leaf(canvas, centre + shift, angle, 30 * size * pose.grain ** .5, green * (.85 + .3 * (size - 1)), 0)
    elif kind < .8 and pose.seat not in ("water", "air"):
        for angle, size, shift in zip(angles, sizes, shifts):
            foot = (centre[0] + shift[0] * 2, SIZE + 4)
            canvas.tube([foot, (foot[0] + 10 * angle * .4, SIZE - 55 * size), (foot[0] + 26 * angle * .4, SIZE - 95 * size)], [3.4, 2.4, .6], green, 0)
    else:
        ends = [centre + 180 * np.array([np.cos(a), np.sin(a)]) for a in (angles[0], angles[0] + np.pi)]
        canvas.tube(ends, [2.2 * pose.grain, 3.2 * pose.grain], (.33, .25, .18), 0)


def _flower(canvas: _Canvas, pose: _Pose, tones, rng) -> None:
    tip = pose.head_at(.95 + pose.bill(pose.born), .12)
    hue = tones[str(rng.choice(["red", "pink", "orange", "purple", "yellow"]))]
    stem = tip + np.array([.55, .9]) * pose.unit * .6
    canvas.tube([stem + [10, 60], stem, tip + [4, 4]], [2.4, 1.8, 1.5], (.25, .42, .18), None)
    for angle in np.linspace(-2.2, 1.4, 6):
        _leaf(canvas, tip + [5, 2], angle, pose.unit * .17 * pose.grain, hue, None)


def draw(bird: Individual) -> Picture:
    """Draw one individual; see `Picture`. Parts are those of the finished picture: what is hidden or cut off has no point."""
    pose = _Pose(bird)
    scene, tones_rng, light_rng = (np.random.default_rng([bird.seed, bird.index, stream]) for stream in (2, 3, 4))
    tones = _tones(tones_rng)
    light = light_rng.uniform(.82, 1.12) * (1 + light_rng.uniform(-.05, .05) * np.array([1, 0, -1]))
    canvas = _Canvas(_background(bird, pose.seat, scene))
    if pose.seat == "air":
        _flower(canvas, pose, tones, np.random.default_rng([bird.seed, bird.index, 5]))
    feet = _seat(canvas, pose, np.random.default_rng([bird.seed, bird.index, 6]))
    if pose.wing_raised:
        _wing(canvas, pose, bird, tones, light, near=False)
    _tail(canvas, pose, bird, tones, light)
    _legs(canvas, pose, tones, feet)
    _bill(canvas, pose, tones, light)
    _body(canvas, pose, bird, tones, light, np.random.default_rng([bird.seed, bird.index, 7]))
    _eye(canvas, pose, tones)
    _wing(canvas, pose, bird, tones, light, near=True)
    if pose.seat == "water":
        _surface(canvas, pose.at(.0, .15 * pose.fat)[1], "water", np.random.default_rng([bird.seed, bird.index, 8]), over=True)
    _occluder(canvas, pose, np.random.default_rng([bird.seed, bird.index, 9]))
    image, parts = canvas.color, canvas.parts
    if pose.flip:  # now it faces left: left and right change places
        image, parts = image[:, ::-1], parts[:, ::-1]
        swap = np.arange(REST + 1, dtype=np.uint8)
        swap[[7, 8, 9, 11, 12, 13]] = [11, 12, 13, 7, 8, 9]
        parts = swap[parts]
    contrast, gain = light_rng.uniform(.88, 1.10), light_rng.uniform(.92, 1.06)
    image = np.clip((image - .5) * contrast + .5, 0, 1) * gain
    image *= 255
    image += light_rng.uniform(-3, 3, image.shape)
    image = np.clip(np.round(image, out=image), 0, 255, out=image).astype(np.uint8)
    return Picture(image, parts, *_places(parts))


def _places(parts: np.ndarray):
    """Centres of the visible parts (the part's own pixel nearest to its centroid) and the bird's box."""
    points = np.full((15, 2), np.nan)
    ys, xs = np.nonzero(parts)
    numbers = parts[ys, xs]
    for number in range(1, 16):
        px, py = xs[numbers == number], ys[numbers == number]
        if len(px) >= (4 if number in (7, 11) else 12):
            nearest = np.argmin((px - px.mean()) ** 2 + (py - py.mean()) ** 2)
            points[number - 1] = px[nearest], py[nearest]
    box = (float(xs.min()), float(ys.min()), float(xs.max() - xs.min() + 1), float(ys.max() - ys.min() + 1)) if len(xs) else (0.0, 0.0, 0.0, 0.0)
    return points, box
