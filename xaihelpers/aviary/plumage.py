"""Colours and markings of feathers: a region's ground colour, and where its second colour lies."""
import numpy as np

from .canvas import smooth
from .individuals import MARKED, Individual

RGB = {"blue": (.13, .33, .74), "brown": (.41, .27, .16), "iridescent": (.12, .42, .42), "purple": (.42, .19, .53), "rufous": (.65, .28, .11),
       "grey": (.50, .52, .56), "yellow": (.96, .82, .16), "olive": (.45, .46, .19), "green": (.17, .52, .24), "pink": (.93, .47, .60),
       "orange": (.95, .50, .10), "black": (.09, .09, .11), "white": (.95, .95, .93), "red": (.80, .11, .11), "buff": (.86, .73, .50)}


def own_tones(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """This individual's own tone of each colour name."""
    return {name: np.clip(np.array(rgb) * rng.uniform(.90, 1.10) + rng.uniform(-.025, .025, 3), .03, .98) for name, rgb in RGB.items()}


def _contrast(rgb: np.ndarray) -> np.ndarray:
    return rgb * 0.45 if rgb.mean() > 0.30 else rgb * 0.6 + 0.42


def markings(pattern: str, region: str, u, v, wobble):
    """Where the markings of a region lie, in [0, 1]; u along and v across the region in body lengths."""
    if pattern == "spotted":
        cell = .095 if region in ("back", "wing", "tail") else .085
        row = np.floor(u / cell)
        cu, cv = u / cell - row - .5, v / cell + .5 * (row % 2)
        cv = cv - np.floor(cv) - .5
        return smooth(.36, .24, np.hypot(cu * .85, cv) + .05 * wobble)
    if pattern == "striped":
        if region == "tail":
            return smooth(-.15, .35, np.cos(2 * np.pi * u / .13))
        if region == "wing":
            return np.maximum.reduce([smooth(.040, .024, np.abs(u - at + .25 * v)) for at in (.22, .38, .54)])
        wave = np.cos(2 * np.pi * (v / .085 + .10 * wobble))
        dash = 1.0 if region == "back" else smooth(-.75, -.35, np.cos(2 * np.pi * (u / .21 + np.floor(v / .085 + .5) * .37)))
        return smooth(.05, .45, wave) * dash
    if pattern == "multi-colored":
        if region == "tail":
            return np.maximum(smooth(.30, .36, u), smooth(.05, .075, np.abs(v)) * .9)
        if region == "wing":
            return np.maximum(smooth(.30, .34, u) * smooth(.56, .52, u) * smooth(-.30, -.20, v + .02), smooth(.06, .03, np.abs(v - .02)) * smooth(.5, .55, u))
        return smooth(-.05, .20, wobble + .35 * np.cos(2 * np.pi * u / .34))
    return np.zeros_like(u)


def plumage(bird: Individual, tones, region: str, u, v, wobble):
    """Colour (..., 3) of a marked region: ground and markings."""
    color, pattern, _ = MARKED[region]
    names = bird.values[color]
    ground = tones[names[0]]
    marks = tones[names[1]] if len(names) > 1 else _contrast(ground)
    m = markings(bird.values[pattern][0], region, u, v, wobble)[..., None]
    return sheen(names[0], ground, u, v) * (1 - m) + sheen(names[1] if len(names) > 1 else "", marks, u, v) * m


def sheen(name: str, rgb, u, v):
    if name != "iridescent":
        return np.broadcast_to(rgb, (*np.shape(u), 3))
    t = (.5 + .5 * np.sin(9 * u + 14 * v))[..., None]
    return rgb * (1 - t) + np.array([.40, .18, .58]) * t
