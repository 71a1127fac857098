"""Shapes as signed distance fields, and a canvas that they are painted on with anti-aliased edges.

A signed distance field (SDF) holds, for each pixel, the distance in pixels to a shape's edge: negative
inside, positive outside. Pixel (row i, column j) is the point x = j + 0.5, y = i + 0.5; fields are float64
arrays (h, w) over a window of the picture.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image

SIZE = 224  # side of every picture in pixels
NOISE_SIZE = 640  # side of the noise that pictures are cut from


class Picture(NamedTuple):
    """A rendered image with the true place of every part; P is the number of parts of its world.

    image: (224, 224, 3) uint8.
    parts: (224, 224) uint8, 0 background, n the visible part number n; the aviary has one number more, 16,
        for the rest of the bird.
    points: (P, 2) float64, x and y of the centre of each visible part in pixels, NaN where it is not visible.
    box: x, y, width and height of the object in pixels.
    """

    image: np.ndarray
    parts: np.ndarray
    points: np.ndarray
    box: tuple[float, float, float, float]


@cache
def noise_tiles() -> np.ndarray:
    """Smooth noise in about [-1, 1], (3, 640, 640) float64: coarse, middle, fine; the same in any process."""
    rng = np.random.default_rng(20110826)
    tiles = []
    for cells in (14, 44, 150):
        grid = Image.fromarray(rng.uniform(-1, 1, (cells, cells)).astype(np.float32), "F")
        tile = grid.resize((NOISE_SIZE, NOISE_SIZE), Image.Resampling.BICUBIC)
        tiles.append(np.asarray(tile, dtype=np.float64))
    return np.stack(tiles)


def noise_window(rng: np.random.Generator, height: int = SIZE, width: int = SIZE) -> np.ndarray:
    """A window of `noise_tiles` at a random place, (3, height, width)."""
    top, left = rng.integers(0, NOISE_SIZE - SIZE, 2)
    return noise_tiles()[:, top : top + height, left : left + width]


def smoothstep(edge0: float, edge1: float, x: np.ndarray) -> np.ndarray:
    """0 at `edge0`, 1 at `edge1` (which may be the smaller one), and a cubic between them."""
    t = np.clip((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def _round_cone(x, y, start, end, start_radius, end_radius):
    """Signed distance to one round cone, t in [0, 1] along its axis, the radius there, and two vectors.

    These are from the start to the pixel, (px, py), and the axis, (dx, dy).
    """
    (ax, ay), (bx, by) = start, end
    dx, dy = bx - ax, by - ay
    px, py = x - ax, y - ay
    t = np.clip((px * dx + py * dy) / (dx * dx + dy * dy), 0.0, 1.0)
    radius = start_radius + (end_radius - start_radius) * t
    return np.hypot(px - t * dx, py - t * dy) - radius, t, radius, px, py, dx, dy


def chain_distance(x, y, points, radii):
    """Signed distance to a chain of round cones through `points` (pixels) with these `radii`."""
    cones = range(len(points) - 1)
    return np.minimum.reduce([_round_cone(x, y, *points[i : i + 2], *radii[i : i + 2])[0] for i in cones])


def chain_coordinates(x, y, points, radii):
    """Coordinates along a chain of round cones: s in [0, 1] from the first to the last point, v across it.

    v is -1 at the left edge of somebody who walks along the chain, 0 on its axis, and 1 at the right edge.
    """
    nearest, along, across, n_cones = np.inf, 0.0, 0.0, len(points) - 1
    for i in range(n_cones):
        sdf, t, radius, px, py, dx, dy = _round_cone(x, y, *points[i : i + 2], *radii[i : i + 2])
        v = (dx * py - dy * px) / np.hypot(dx, dy) / np.maximum(radius, 1e-6)
        nearer = sdf < nearest
        nearest = np.where(nearer, sdf, nearest)
        along = np.where(nearer, (i + t) / n_cones, along)
        across = np.where(nearer, v, across)
    return along, across


def smooth_union(first, second, radius):
    """Polynomial smooth union of two signed distance fields; `radius` in pixels is how far they blend."""
    h = np.clip(0.5 + 0.5 * (second - first) / radius, 0.0, 1.0)
    return second + (first - second) * h - radius * h * (1 - h)


def touched_pixels(window, sdf, *fields):
    """Only the n pixels of a window that a shape touches (sdf < 1).

    fields: (h, w), (1, w) as x or (h, 1) as y.
    Returns the pixels' indices in the picture (rows, columns), then the signed distance and each field there,
        all (n,).
    """
    rows, columns = np.nonzero(sdf < 1)
    values = []
    for field in (sdf, *fields):
        row = rows if field.shape[0] > 1 else 0
        column = columns if field.shape[1] > 1 else 0
        values.append(field[row, column])
    return (rows + window[0].start, columns + window[1].start), *values


class Canvas:
    """A picture in the making.

    `color` is (224, 224, 3) float64 in [0, 1], `parts` (224, 224) uint8 the part number of each pixel.
    """

    def __init__(self, color: np.ndarray):
        self.color = color
        self.parts = np.zeros((SIZE, SIZE), np.uint8)

    def window(self, points, margin: float):
        """Slices that hold `points` with a margin in pixels, and the pixel centres there, x (1, w), y (h, 1).

        None where they lie outside the picture.
        """
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        left, right = max(0, int(min(xs) - margin)), min(SIZE, int(max(xs) + margin) + 2)
        top, bottom = max(0, int(min(ys) - margin)), min(SIZE, int(max(ys) + margin) + 2)
        if left >= right or top >= bottom:
            return None
        x, y = np.arange(left, right)[None] + 0.5, np.arange(top, bottom)[:, None] + 0.5
        return (slice(top, bottom), slice(left, right)), x, y

    def paint(self, where, alpha, color, part) -> None:
        """Lay `color` over the pixels `where` with opacity `alpha`.

        part: a number or an array, set where alpha > 0.5; None leaves the parts as they are.
        """
        old = self.color[where]
        self.color[where] = old + (color - old) * alpha[..., None]
        if part is not None:
            self.parts[where] = np.where(alpha > 0.5, part, self.parts[where])

    def paint_chain(self, points, radii, color, part, shade: float = 0.35) -> None:
        """Paint a chain of round cones, lit from its left; shade: darkness of the other side, in [0, 1]."""
        area = self.window(points, max(radii) + 1)
        if area is None:
            return
        window, x, y = area
        where, sdf, x, y = touched_pixels(window, chain_distance(x, y, points, radii), x, y)
        _, v = chain_coordinates(x, y, points, radii)
        shading = 1 - shade * smoothstep(-0.6, 1.0, v) + 0.10 * smoothstep(0.4, -0.6, v)
        self.paint(where, np.clip(0.5 - sdf, 0, 1), np.asarray(color) * shading[..., None], part)
