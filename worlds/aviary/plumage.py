"""Colours and markings of feathers: a region's ground colour, and where its second colour lies."""

import numpy as np

from worlds.aviary.individuals import MARKED, Individual
from worlds.canvas import smoothstep

RGB = {
    "blue": (0.13, 0.33, 0.74),
    "brown": (0.41, 0.27, 0.16),
    "iridescent": (0.12, 0.42, 0.42),
    "purple": (0.42, 0.19, 0.53),
    "rufous": (0.65, 0.28, 0.11),
    "grey": (0.50, 0.52, 0.56),
    "yellow": (0.96, 0.82, 0.16),
    "olive": (0.45, 0.46, 0.19),
    "green": (0.17, 0.52, 0.24),
    "pink": (0.93, 0.47, 0.60),
    "orange": (0.95, 0.50, 0.10),
    "black": (0.09, 0.09, 0.11),
    "white": (0.95, 0.95, 0.93),
    "red": (0.80, 0.11, 0.11),
    "buff": (0.86, 0.73, 0.50),
}


def individual_tones(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """This individual's own tone of each colour name, RGB in [0, 1]."""
    tones = {}
    for name, rgb in RGB.items():
        tone = np.array(rgb) * rng.uniform(0.90, 1.10) + rng.uniform(-0.025, 0.025, 3)
        tones[name] = np.clip(tone, 0.03, 0.98)
    return tones


def markings(pattern: str, region: str, u, v, wobble):
    """How much of each pixel is marked, in [0, 1]; a solid pattern has no markings.

    u, v: along and across the region, in body lengths. wobble: noise that bends the edges.
    """
    kinds = {"spotted": _spots, "striped": _stripes, "multi-colored": _patches}
    return kinds[pattern](region, u, v, wobble) if pattern in kinds else np.zeros_like(u)


def _spots(region: str, u, v, wobble):
    cell = 0.095 if region in ("back", "wing", "tail") else 0.085
    row = np.floor(u / cell)
    cell_u, cell_v = u / cell - row - 0.5, v / cell + 0.5 * (row % 2)
    cell_v = cell_v - np.floor(cell_v) - 0.5
    return smoothstep(0.36, 0.24, np.hypot(cell_u * 0.85, cell_v) + 0.05 * wobble)


def _stripes(region: str, u, v, wobble):
    if region == "tail":
        return smoothstep(-0.15, 0.35, np.cos(2 * np.pi * u / 0.13))
    if region == "wing":
        bars = [smoothstep(0.040, 0.024, np.abs(u - place + 0.25 * v)) for place in (0.22, 0.38, 0.54)]
        return np.maximum.reduce(bars)
    wave = np.cos(2 * np.pi * (v / 0.085 + 0.10 * wobble))
    dash = 1.0
    if region != "back":
        row = np.floor(v / 0.085 + 0.5)
        dash = smoothstep(-0.75, -0.35, np.cos(2 * np.pi * (u / 0.21 + row * 0.37)))
    return smoothstep(0.05, 0.45, wave) * dash


def _patches(region: str, u, v, wobble):
    if region == "tail":
        return np.maximum(smoothstep(0.30, 0.36, u), smoothstep(0.05, 0.075, np.abs(v)) * 0.9)
    if region == "wing":
        patch = smoothstep(0.30, 0.34, u) * smoothstep(0.56, 0.52, u) * smoothstep(-0.30, -0.20, v + 0.02)
        edge = smoothstep(0.06, 0.03, np.abs(v - 0.02)) * smoothstep(0.5, 0.55, u)
        return np.maximum(patch, edge)
    return smoothstep(-0.05, 0.20, wobble + 0.35 * np.cos(2 * np.pi * u / 0.34))


def plumage(bird: Individual, tones: dict[str, np.ndarray], region: str, u, v, wobble):
    """Colour (..., 3) of a marked region: ground and markings. u, v, wobble: as for `markings`."""
    color, pattern, _ = MARKED[region]
    names = bird.values[color]
    ground = tones[names[0]]
    if len(names) > 1:
        second_name, second = names[1], tones[names[1]]
    else:
        second_name, second = "", ground * 0.45 if ground.mean() > 0.30 else ground * 0.6 + 0.42
    marked = markings(bird.values[pattern][0], region, u, v, wobble)[..., None]
    return sheen(names[0], ground, u, v) * (1 - marked) + sheen(second_name, second, u, v) * marked


def sheen(name: str, rgb: np.ndarray, u, v):
    """A colour over the pixels, (..., 3): even, or shimmering towards purple where it is iridescent."""
    if name != "iridescent":
        return np.broadcast_to(rgb, (*np.shape(u), 3))
    shimmer = (0.5 + 0.5 * np.sin(9 * u + 14 * v))[..., None]
    return rgb * (1 - shimmer) + np.array([0.40, 0.18, 0.58]) * shimmer
