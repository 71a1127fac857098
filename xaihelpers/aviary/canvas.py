"""Shapes as signed distances, and a canvas that they are painted on with anti-aliased edges."""
from functools import cache

import numpy as np
from PIL import Image

SIZE = 224


@cache
def noise_tiles() -> np.ndarray:
    """Smooth noise in about [-1, 1], (3, 640, 640): coarse, middle, fine. Sums of cosines, so the same everywhere."""
    rng = np.random.default_rng(20110826)
    out = []
    for cells in (14, 44, 150):
        grid = rng.uniform(-1, 1, (cells, cells)).astype(np.float32)
        out.append(np.asarray(Image.fromarray(grid, "F").resize((640, 640), Image.Resampling.BICUBIC), dtype=np.float64))
    return np.stack(out)


def smooth(edge0: float, edge1: float, x: np.ndarray) -> np.ndarray:
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


def distance(x, y, points, radii):
    """Signed distance to a chain of round cones."""
    return np.minimum.reduce([_cone(x, y, *points[i:i + 2], *radii[i:i + 2])[0] for i in range(len(points) - 1)])


def coordinates(x, y, points, radii):
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


def union(a, b, k):
    """Smooth union of two distances (polynomial, radius k)."""
    h = np.clip(0.5 + 0.5 * (b - a) / k, 0.0, 1.0)
    return b + (a - b) * h - k * h * (1 - h)


def touched(where, d, *fields):
    """Only the pixels that a shape touches (d < 1): their indices, their distances, and the fields (h, w), x (1, w) or y (h, 1) there, all (n,)."""
    ys, xs = np.nonzero(d < 1)
    at = [field[ys if field.shape[0] > 1 else 0, xs if field.shape[1] > 1 else 0] for field in (d, *fields)]
    return (ys + where[0].start, xs + where[1].start), *at


class Canvas:
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
        where, d, x, y = touched(where, distance(x, y, points, radii), x, y)
        _, v = coordinates(x, y, points, radii)
        lit = 1 - shade * smooth(-0.6, 1.0, v) + 0.10 * smooth(0.4, -0.6, v)
        self.paint(where, np.clip(0.5 - d, 0, 1), np.asarray(color) * lit[..., None], part)
