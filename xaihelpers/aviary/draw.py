"""The renderer of the aviary: an individual in, a 224×224 picture with the true place of every part out.

Everything is a field over the pixels: a body, neck, bill or leg is a chain of round cones given by its signed distance, a wing or tail a plane shape in its
own coordinates (p along, q across). Distances give anti-aliased edges and the roundness of the light; the coordinates carry plumage and markings. All
arithmetic is float64 and all chance comes from numpy generators seeded by (seed, index), so a bird is the same in every process.
"""
from typing import NamedTuple

import numpy as np

from .canvas import SIZE, Canvas, coordinates, distance, noise_tiles, smooth, touched, union
from .individuals import Individual
from .plumage import markings, own_tones, plumage, sheen
from .pose import Pose
from .scene import background, flower, occluder, seat, surface

PARTS = ["back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing", "nape", "right eye", "right leg", "right wing",
         "tail", "throat"]  # CUB's 15 parts; id = position + 1
REST = 16  # mask value of the bird's pixels that belong to no part (cheek)


class Picture(NamedTuple):
    """`image` uint8 (224, 224, 3); `parts` uint8 (224, 224): 0 background, 1…15 the visible part, 16 the rest of the bird; `points` (15, 2): x, y of each
    visible part's centre in pixels, NaN where it is not visible; `box`: x, y, width, height of the bird."""
    image: np.ndarray
    parts: np.ndarray
    points: np.ndarray
    box: tuple[float, float, float, float]


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


def _legs(canvas: Canvas, pose: Pose, tones, feet) -> None:
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


def _tail(canvas: Canvas, pose: Pose, bird: Individual, tones, light) -> None:
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
    where, d, p, q, across = touched(where, d, p, q, across)
    color = plumage(bird, tones, "tail", p * length / u, across / u, np.zeros_like(p)).copy()
    under = smooth(-.25, -.40, q) * smooth(.62, .52, p)
    color += (tones[bird.values["under_tail_color"][0]] - color) * under[..., None]
    feather = np.abs(np.mod(q * 2.5 + 10.5, 1.0) - .5)
    lit = (.80 + .20 * smooth(-1.0, .6, q)) * (1 - .22 * smooth(.47, .5, feather) * smooth(.1, .4, p))
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(color * lit[..., None] * light, 0, 1), 14)


def _body(canvas: Canvas, pose: Pose, bird: Individual, tones, light, rng) -> None:
    u = pose.unit
    body_points, body_radii = pose.body
    neck_points, neck_radii = pose.neck_line
    crested, r = "crested" in bird.values["head_pattern"], pose.head_r * u
    found = canvas.window([*body_points, *neck_points], max(*body_radii, (1.75 if crested else 1.15) * r) + 2)
    if found is None:
        return
    where, x, y = found
    oy, ox = rng.integers(0, 640 - SIZE, 2)
    noise = noise_tiles()[:, oy:oy + y.shape[0], ox:ox + x.shape[1]]
    db, dn = distance(x, y, body_points, body_radii), distance(x, y, neck_points, neck_radii)
    c, sin = np.cos(pose.nod), np.sin(pose.nod)
    hx, hy = x - pose.head[0], y - pose.head[1]
    a, b = (c * hx + sin * hy) / r, (-sin * hx + c * hy) / r
    dh = (np.hypot(a * .96, b * 1.04) - 1) * r
    d = union(union(db, dn, .10 * u), dh, .07 * u)
    if crested:
        dc = distance(x, y, [pose.head_at(.25, -.72), pose.head_at(-.45, -1.05), pose.head_at(-1.05, -1.55)], [.42 * r, .34 * r, .05 * r])
        d = union(d, dc, .12 * r)
    gy, gx = np.gradient(d)
    dc = dc if crested else d
    where, d, x, y, dn, a, b, dc, gy, gx, *noise = touched(where, d, x, y, dn, a, b, dc, gy, gx, *noise)
    (s, v), (sn, vn) = coordinates(x, y, body_points, body_radii), coordinates(x, y, neck_points, neck_radii)
    wobble = noise[1] * .5 + noise[0] * .3
    along, across = (s - .5) * 1.0, v * .24
    names = {g: tones[val[0]] for g, val in bird.values.items() if g.endswith("color")}

    color = plumage(bird, tones, "back", along, across, noise[1]).copy()
    part = np.full(d.shape, 1, np.uint8)

    def lay(mask, rgb, number):
        here = mask > .002
        color[here] += (rgb[here] - color[here]) * mask[here, None] if np.ndim(rgb) > 1 else (rgb - color[here]) * mask[here, None]
        if number is not None:
            part[mask > .5] = number

    edge = .10 * wobble
    lower = smooth(-.02, .16, v - .06 + edge)
    lay(lower, plumage(bird, tones, "belly", along, across, noise[1]), 3)
    front = smooth(.56, .64, s + .25 * edge + .05 * v)
    lay(front * smooth(-.34, -.16, v + edge), plumage(bird, tones, "breast", along, across, noise[1]), 4)
    lay(smooth(.26, .20, s + .2 * edge) * smooth(-.05, .12, v), names["under_tail_color"], 14)
    # Neck: nape above, throat and breast below.
    near_neck = smooth(2.0, -2.0, dn) * smooth(.18, .34, sn)
    lay(near_neck * smooth(.05, -.15, vn + edge), sheen(bird.values["nape_color"][0], names["nape_color"], along, across), 10)
    lay(near_neck * smooth(-.15, .05, vn + edge) * smooth(.35, .5, sn - .15 * pose.neck), sheen(bird.values["throat_color"][0], names["throat_color"], along, across), 15)
    # Head.
    inside = smooth(1.12, 1.00, np.hypot(a, b))
    lay(inside, tones[bird.face], REST)
    lay(inside * smooth(-.40, -.58, a + .25 * b + .1 * wobble) , sheen(bird.values["nape_color"][0], names["nape_color"], a, b), 10)
    throat = smooth(.30, .46, b + .12 * a + .1 * wobble) * smooth(-.55, -.30, a) * smooth(1.45, 1.25, np.hypot(a, b * .85))
    lay(throat, sheen(bird.values["throat_color"][0], names["throat_color"], a, b), 15)
    patterns = set(bird.values["head_pattern"])
    cap = .28 if "capped" in patterns else 0.0
    crown = smooth(-.30 + cap, -.42 + cap, b + .08 * wobble) * smooth(1.3, 1.1, np.hypot(a, b))
    if crested:
        crown = np.maximum(crown, smooth(1.5, -1.5, dc) * smooth(-.45, -.6, b))
    lay(crown * smooth(-1.02, -.86, a + (.0 if not crested else -.6 * b)), sheen(bird.values["crown_color"][0], names["crown_color"], a, b), 5)
    forehead = inside * smooth(.40, .54, a - .35 * b) * smooth(.02, -.12, b) * smooth(.28, .40, a)
    lay(forehead, sheen(bird.values["forehead_color"][0], names["forehead_color"], a, b), 6)
    face = tones[bird.face]
    dark = tones["black"] if face.mean() > .28 else tones["white"]
    pale = tones["white"] if face.mean() < .72 else tones["black"]
    eye_a, eye_b = .34, -.10
    ring = np.hypot(a - eye_a, b - eye_b)
    marks = {
        "masked": (smooth(.26, .18, np.abs(b + .08 - .05 * a)) * smooth(-.50, -.38, a), dark),
        "eyeline": (smooth(.115, .065, np.abs(b + .12 + .10 * a)) * smooth(-.80, -.70, a), dark),
        "eyebrow": (smooth(.115, .065, np.abs(b + .40 + .04 * a)) * smooth(-.75, -.62, a), pale),
        "eyering": (smooth(.34, .29, ring), pale),
        "malar": (smooth(.11, .06, np.abs(.53 * (a - .80) + .85 * (b - .22))) * smooth(-.35, -.22, a), dark),
        "striped": (smooth(.1, .4, np.cos(2 * np.pi * (b + .28) / .36)) * smooth(.05, -.05, b + .05) * smooth(-.9, -.75, a), pale),
        "spotted": (markings("spotted", "breast", a * .25, b * .25, wobble), dark),
        "unique_pattern": (smooth(.42, .34, np.hypot(a + .18, (b - .18) * 1.15)), tones["purple"] if face.mean() < .5 else tones["black"])}
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


def _wing(canvas: Canvas, pose: Pose, bird: Individual, tones, light, near: bool) -> None:
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
    where, d, p, q, q0 = touched(where, d, p, q, q0)
    color = plumage(bird, tones, "wing", p * .9, q0 / u, np.zeros_like(p)).copy()
    flight = smooth(.38, .46, p + .12 * q)
    line = np.abs(np.mod(q * 2.2 - p * 1.6 + 20.3, 1.0) - .5)
    scale = np.abs(np.mod(p * 7 + .5 * np.cos(q * 9), 1.0) - .5)
    lit = (.80 + .24 * smooth(-1, 1, q)) * (1 - .24 * smooth(.45, .5, line) * flight) * (1 - .12 * smooth(.44, .5, scale) * (1 - flight))
    lit = lit * (1 - .30 * smooth(-1.6, 0, d)) * (1.0 if near else .85)
    canvas.paint(where, np.clip(.5 - d, 0, 1), np.clip(color * lit[..., None] * light, 0, 1), 13 if near else 9)


def _bill(canvas: Canvas, pose: Pose, tones, light) -> None:
    r, shape = pose.head_r * pose.unit, pose.now["bill_shape"]
    n = pose.bill(pose.now)
    color = tones[pose.now["bill_color"]] * light
    base = (.86, .12)
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


def _eye(canvas: Canvas, pose: Pose, tones) -> None:
    r, name = pose.head_r * pose.unit, pose.now["eye_color"]
    at = pose.head_at(.34, -.10)
    size = max(.165 * r, 2.2) * (1.35 if pose.plan == "owl" else 1.0)
    for radius, color in ((size * 1.18, tones["black"] * 1.3), (size, tones[name])):
        canvas.tube([at, at + [.01, 0]], [radius, radius], color, 11, shade=.1)
    if name != "black":
        canvas.tube([at, at + [.01, 0]], [size * .48, size * .48], (.03, .03, .04), 11, shade=0)
    glint = at + np.array([.30, -.34]) * size
    canvas.tube([glint, glint + [.01, 0]], [size * .24] * 2, (.97, .97, .97), 11, shade=0)


def draw(bird: Individual) -> Picture:
    """Draw one individual; see `Picture`. Parts are those of the finished picture: what is hidden or cut off has no point."""
    pose = Pose(bird)
    scene, tones_rng, light_rng = (np.random.default_rng([bird.seed, bird.index, stream]) for stream in (2, 3, 4))
    tones = own_tones(tones_rng)
    light = light_rng.uniform(.82, 1.12) * (1 + light_rng.uniform(-.05, .05) * np.array([1, 0, -1]))
    canvas = Canvas(background(bird, pose.seat, scene))
    if pose.seat == "air":
        flower(canvas, pose, tones, np.random.default_rng([bird.seed, bird.index, 5]))
    feet = seat(canvas, pose, np.random.default_rng([bird.seed, bird.index, 6]))
    if pose.wing_raised:
        _wing(canvas, pose, bird, tones, light, near=False)
    _tail(canvas, pose, bird, tones, light)
    _legs(canvas, pose, tones, feet)
    _bill(canvas, pose, tones, light)
    _body(canvas, pose, bird, tones, light, np.random.default_rng([bird.seed, bird.index, 7]))
    _eye(canvas, pose, tones)
    _wing(canvas, pose, bird, tones, light, near=True)
    if pose.seat == "water":
        surface(canvas, pose.at(.0, .15 * pose.fat)[1], "water", np.random.default_rng([bird.seed, bird.index, 8]), over=True)
    occluder(canvas, pose, np.random.default_rng([bird.seed, bird.index, 9]))
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
