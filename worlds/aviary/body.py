"""Body, neck and head of a bird: one rounded surface, whose regions of plumage blend into one another."""

import numpy as np

from worlds.aviary.individuals import Individual
from worlds.aviary.parts import BACK, BELLY, BREAST, CROWN, FOREHEAD, NAPE, REST, TAIL, THROAT
from worlds.aviary.plumage import markings, plumage, sheen
from worlds.aviary.pose import Pose
from worlds.canvas import (
    Canvas,
    chain_coordinates,
    chain_distance,
    noise_window,
    smooth_union,
    smoothstep,
    touched_pixels,
)


def paint_body(canvas: Canvas, pose: Pose, bird: Individual, tones, light, rng) -> None:
    """Body, neck and head: one surface, whose regions blend into one another."""
    unit = pose.unit
    body_points, body_radii = pose.body
    neck_points, neck_radii = pose.neck_line
    crested, head_radius = "crested" in bird.values["head_pattern"], pose.head_radius * unit
    margin = max(*body_radii, (1.75 if crested else 1.15) * head_radius) + 2
    area = canvas.window([*body_points, *neck_points], margin)
    if area is None:
        return
    window, x, y = area
    noise = noise_window(rng, y.shape[0], x.shape[1])
    body_sdf = chain_distance(x, y, body_points, body_radii)
    neck_sdf = chain_distance(x, y, neck_points, neck_radii)
    cos, sin = np.cos(pose.nod), np.sin(pose.nod)
    hx, hy = x - pose.head[0], y - pose.head[1]
    # head coordinates in head radii: a to the bill, b down
    a, b = (cos * hx + sin * hy) / head_radius, (-sin * hx + cos * hy) / head_radius
    head_sdf = (np.hypot(a * 0.96, b * 1.04) - 1) * head_radius
    sdf = smooth_union(smooth_union(body_sdf, neck_sdf, 0.10 * unit), head_sdf, 0.07 * unit)
    if crested:
        crest_points = [pose.head_at(0.25, -0.72), pose.head_at(-0.45, -1.05), pose.head_at(-1.05, -1.55)]
        crest_radii = [0.42 * head_radius, 0.34 * head_radius, 0.05 * head_radius]
        crest_sdf = chain_distance(x, y, crest_points, crest_radii)
        sdf = smooth_union(sdf, crest_sdf, 0.12 * head_radius)
    gradient_y, gradient_x = np.gradient(sdf)
    fields = (x, y, neck_sdf, a, b, crest_sdf if crested else sdf, gradient_y, gradient_x, *noise)
    where, sdf, *fields = touched_pixels(window, sdf, *fields)
    x, y, neck_sdf, a, b, crest_sdf, gradient_y, gradient_x, *noise = fields

    skin = Surface(bird, tones, noise)
    s, v = chain_coordinates(x, y, body_points, body_radii)
    along, across = (s - 0.5) * 1.0, v * 0.24
    skin.paint_trunk(s, v, along, across)
    neck_s, neck_v = chain_coordinates(x, y, neck_points, neck_radii)
    skin.paint_neck(neck_s, neck_v, neck_sdf, pose.neck, along, across)
    skin.paint_head(a, b, crest_sdf if crested else None)
    skin.paint_head_marks(a, b)
    # Light: a round surface lit from above, feathers as fine grain along the body.
    depth = np.clip(-sdf / (0.26 * unit), 0, 1)
    normal_z = np.sqrt(1 - (1 - depth) ** 2)
    # towards the light: from above, a little from the front or behind, and from the viewer
    toward_x = rng.uniform(-0.55, 0.55)
    norm = np.sqrt(toward_x * toward_x + 0.75**2 + 0.6**2)
    light_x, light_y, light_z = toward_x / norm, -0.75 / norm, 0.6 / norm
    facing = (gradient_x * light_x + gradient_y * light_y) * (1 - depth) + normal_z * light_z
    shading = 0.62 + 0.46 * np.clip(facing, -0.4, 1)
    grain = 1 + 0.05 * noise[2] + 0.04 * noise[1]
    color = np.clip(skin.color * (shading * grain)[..., None] * light, 0, 1)
    canvas.paint(where, np.clip(0.5 - sdf, 0, 1), color, skin.part)


class Surface:
    """Colours (n, 3) and parts (n,) of the n pixels of body, neck and head, blended region over region."""

    def __init__(self, bird: Individual, tones, noise):
        self.bird, self.tones, self.noise = bird, tones, noise
        self.wobble = noise[1] * 0.5 + noise[0] * 0.3  # bends the borders of the regions
        self.color, self.part = None, None

    def blend(self, mask, color, part) -> None:
        """Lay a colour (3,) or (n, 3) over the pixels by `mask` (n,); `part` is set where mask > 0.5."""
        here = mask > 0.002
        if np.ndim(color) > 1:
            color = color[here]
        self.color[here] += (color - self.color[here]) * mask[here, None]
        if part is not None:
            self.part[mask > 0.5] = part

    def tone(self, group: str, u, v):
        """The ground colour of a group over the pixels, with its sheen."""
        name = self.bird.values[group][0]
        return sheen(name, self.tones[name], u, v)

    def feathers(self, region: str, u, v):
        """The plumage of a marked region over the pixels."""
        return plumage(self.bird, self.tones, region, u, v, self.noise[1])

    def paint_trunk(self, s, v, along, across) -> None:
        """Back, belly, breast, under tail. s, v: as chain_coordinates; along, across: in body lengths."""
        self.color = self.feathers("back", along, across).copy()
        self.part = np.full(s.shape, BACK, np.uint8)
        edge = 0.10 * self.wobble
        self.blend(smoothstep(-0.02, 0.16, v - 0.06 + edge), self.feathers("belly", along, across), BELLY)
        front = smoothstep(0.56, 0.64, s + 0.25 * edge + 0.05 * v)
        self.blend(front * smoothstep(-0.34, -0.16, v + edge), self.feathers("breast", along, across), BREAST)
        rear = smoothstep(0.26, 0.20, s + 0.2 * edge) * smoothstep(-0.05, 0.12, v)
        self.blend(rear, self.tones[self.bird.values["under_tail_color"][0]], TAIL)

    def paint_neck(self, s, v, sdf, length, along, across) -> None:
        """Nape and throat. s, v: along and across the neck; sdf: distance to it; length: of the neck."""
        edge = 0.10 * self.wobble
        near = smoothstep(2.0, -2.0, sdf) * smoothstep(0.18, 0.34, s)
        above = near * smoothstep(0.05, -0.15, v + edge)
        self.blend(above, self.tone("nape_color", along, across), NAPE)
        below = near * smoothstep(-0.15, 0.05, v + edge) * smoothstep(0.35, 0.5, s - 0.15 * length)
        self.blend(below, self.tone("throat_color", along, across), THROAT)

    def paint_head(self, a, b, crest_sdf) -> None:
        """Cheek, nape, throat, crown, forehead. a, b: head coordinates; crest_sdf: None without a crest."""
        wobble = self.wobble
        inside = smoothstep(1.12, 1.00, np.hypot(a, b))
        self.blend(inside, self.tones[self.bird.face], REST)
        nape = inside * smoothstep(-0.40, -0.58, a + 0.25 * b + 0.1 * wobble)
        self.blend(nape, self.tone("nape_color", a, b), NAPE)
        throat = (
            smoothstep(0.30, 0.46, b + 0.12 * a + 0.1 * wobble)
            * smoothstep(-0.55, -0.30, a)
            * smoothstep(1.45, 1.25, np.hypot(a, b * 0.85))
        )
        self.blend(throat, self.tone("throat_color", a, b), THROAT)
        cap = 0.28 if "capped" in self.bird.values["head_pattern"] else 0.0
        crown = smoothstep(-0.30 + cap, -0.42 + cap, b + 0.08 * wobble)
        crown = crown * smoothstep(1.3, 1.1, np.hypot(a, b))
        rear = 0.0
        if crest_sdf is not None:
            crown = np.maximum(crown, smoothstep(1.5, -1.5, crest_sdf) * smoothstep(-0.45, -0.6, b))
            rear = -0.6 * b
        crown = crown * smoothstep(-1.02, -0.86, a + rear)
        self.blend(crown, self.tone("crown_color", a, b), CROWN)
        forehead = inside * smoothstep(0.40, 0.54, a - 0.35 * b)
        forehead = forehead * smoothstep(0.02, -0.12, b) * smoothstep(0.28, 0.40, a)
        self.blend(forehead, self.tone("forehead_color", a, b), FOREHEAD)

    def paint_head_marks(self, a, b) -> None:
        """The head pattern's marks, in the order in which they cover one another. a, b: head coordinates."""
        tones, face = self.tones, self.tones[self.bird.face]
        dark = tones["black"] if face.mean() > 0.28 else tones["white"]
        pale = tones["white"] if face.mean() < 0.72 else tones["black"]
        patch = tones["purple"] if face.mean() < 0.5 else tones["black"]
        eye_distance = np.hypot(a - 0.34, b + 0.10)
        mask = smoothstep(0.26, 0.18, np.abs(b + 0.08 - 0.05 * a)) * smoothstep(-0.50, -0.38, a)
        eyeline = smoothstep(0.115, 0.065, np.abs(b + 0.12 + 0.10 * a)) * smoothstep(-0.80, -0.70, a)
        eyebrow = smoothstep(0.115, 0.065, np.abs(b + 0.40 + 0.04 * a)) * smoothstep(-0.75, -0.62, a)
        malar_distance = np.abs(0.53 * (a - 0.80) + 0.85 * (b - 0.22))
        malar = smoothstep(0.11, 0.06, malar_distance) * smoothstep(-0.35, -0.22, a)
        stripes = smoothstep(0.1, 0.4, np.cos(2 * np.pi * (b + 0.28) / 0.36))
        stripes = stripes * smoothstep(0.05, -0.05, b + 0.05) * smoothstep(-0.9, -0.75, a)
        marks = {
            "spotted": (markings("spotted", "breast", a * 0.25, b * 0.25, self.wobble), dark),
            "striped": (stripes, pale),
            "eyebrow": (eyebrow, pale),
            "malar": (malar, dark),
            "unique_pattern": (smoothstep(0.42, 0.34, np.hypot(a + 0.18, (b - 0.18) * 1.15)), patch),
            "masked": (mask, dark),
            "eyeline": (eyeline, dark),
            "eyering": (smoothstep(0.34, 0.29, eye_distance), pale),
        }
        inside = smoothstep(1.12, 1.00, np.hypot(a, b))
        for name, (mark, color) in marks.items():
            if name in self.bird.values["head_pattern"]:
                self.blend(mark * inside, color, None)
