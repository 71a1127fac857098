"""Twenty kinds of everyday things that look nothing alike, each as a list of pieces.

A piece has a part's name, a shape, and one of the thing's colours. A thing lies in a square from -1 to 1, x
to the right and y down; its proportions are drawn by the generator that it is made with.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

COLORS = {
    "red": (0.80, 0.16, 0.15),
    "orange": (0.93, 0.52, 0.13),
    "yellow": (0.95, 0.82, 0.22),
    "green": (0.24, 0.56, 0.26),
    "blue": (0.18, 0.38, 0.75),
    "purple": (0.50, 0.25, 0.62),
    "pink": (0.93, 0.58, 0.70),
    "brown": (0.45, 0.29, 0.17),
    "grey": (0.55, 0.56, 0.58),
    "black": (0.12, 0.12, 0.13),
    "white": (0.95, 0.95, 0.93),
}
SETTINGS = ("grass", "sand", "water", "sky", "street", "room")
PATTERNS = ("plain", "striped", "dotted")


class Piece(NamedTuple):
    """A piece of a thing.

    shape: "poly" (points), "tube" (points and radii) or "oval" (centre, radii and angle in radians).
    color: 0 for the thing's first colour, 1 for its second, or a colour's name.
    """

    part: str
    shape: str
    points: tuple
    radii: tuple = ()
    angle: float = 0.0
    color: int | str = 0


class Category(NamedTuple):
    """A kind of thing."""

    superclass: str  # what it belongs to
    material: str
    settings: list[str]  # where it usually is
    colors: list[str]  # usual first colours
    pieces: Callable  # numpy generator -> list of `Piece`


def poly(part, *points, color=0):
    return Piece(part, "poly", points, color=color)


def tube(part, points, radii, color=0):
    radii = radii if isinstance(radii, tuple) else (radii,) * len(points)
    return Piece(part, "tube", tuple(points), radii, color=color)


def oval(part, x, y, rx, ry=None, angle=0.0, color=0):
    return Piece(part, "oval", ((x, y),), (rx, ry or rx), angle, color)


def box(part, x0, y0, x1, y1, color=0):
    return poly(part, (x0, y0), (x1, y0), (x1, y1), (x0, y1), color=color)


def house(rng):
    w, h, door = rng.uniform(0.6, 0.8), rng.uniform(0.5, 0.75), rng.uniform(-0.3, 0.3)
    return [
        box("chimney", 0.3, -0.95, 0.48, -0.3, "brown"),
        box("wall", -w, 0.85 - 2 * h + 0.35, w, 0.85),
        poly("roof", (-w - 0.15, 0.85 - 2 * h + 0.36), (0, -0.95), (w + 0.15, 0.85 - 2 * h + 0.36), color=1),
        box("door", door - 0.14, 0.35, door + 0.14, 0.85, "brown"),
        box("window", -w + 0.1, 0.1, -w + 0.36, 0.38, "blue"),
        box("window", w - 0.36, 0.1, w - 0.1, 0.38, "blue"),
    ]


def tree(rng):
    lean, n = rng.uniform(-0.1, 0.1), int(rng.integers(5, 8))
    crown = [
        oval("crown", lean + 0.42 * np.cos(a), -0.35 + 0.34 * np.sin(a), rng.uniform(0.32, 0.42))
        for a in np.linspace(0, 2 * np.pi, n, endpoint=False)
    ]
    fruit = [oval("fruit", lean + x, -0.35 + y, 0.07, color=1) for x, y in rng.uniform(-0.5, 0.5, (5, 2))]
    return [
        tube("trunk", [(0, 0.95), (lean, 0.0)], (0.16, 0.10), "brown"),
        *crown,
        oval("crown", lean, -0.35, 0.45),
        *fruit,
    ]


def fish(rng):
    h, t = rng.uniform(0.32, 0.48), rng.uniform(0.28, 0.42)
    return [
        poly("tail", (0.5, 0), (0.95, -t), (0.82, 0), (0.95, t), color=1),
        poly("fin", (-0.1, -h * 0.7), (0.25, -h - 0.28), (0.35, -h * 0.5), color=1),
        oval("body", -0.1, 0, 0.72, h),
        poly("fin", (-0.05, 0.1), (0.25, 0.3), (0.2, 0.02), color=1),
        oval("eye", -0.55, -0.1, 0.09, color="white"),
        oval("eye", -0.56, -0.1, 0.045, color="black"),
    ]


def cup(rng):
    h, w = rng.uniform(0.5, 0.7), rng.uniform(0.48, 0.6)
    a = np.linspace(-1.3, 1.3, 9)
    return [
        tube("handle", [(w - 0.05 + 0.36 * np.cos(x), -0.05 + 0.36 * np.sin(x)) for x in a], 0.075, 1),
        poly("bowl", (-w, -h), (w, -h), (w * 0.78, h), (-w * 0.78, h)),
        oval("rim", 0, -h, w, 0.12, color=1),
        oval("rim", 0, -h, w * 0.86, 0.075, color="brown"),
    ]


def boat(rng):
    m, s = rng.uniform(-0.2, 0.1), rng.uniform(0.5, 0.75)
    return [
        tube("mast", [(m, 0.4), (m, -0.95)], 0.035, "brown"),
        poly("sail", (m + 0.05, -0.9), (m + s, 0.25), (m + 0.05, 0.25), color=1),
        poly("sail", (m - 0.05, -0.7), (m - 0.5, 0.25), (m - 0.05, 0.25), color=1),
        poly("hull", (-0.95, 0.35), (0.95, 0.35), (0.65, 0.8), (-0.65, 0.8)),
    ]


def car(rng):
    t, b = rng.uniform(0.35, 0.5), rng.uniform(0.8, 0.92)
    return [
        poly("roof", (-0.55, 0.05), (-0.35, -t), (0.3, -t), (0.58, 0.05)),
        poly("window", (-0.42, 0.02), (-0.28, -t + 0.08), (-0.04, -t + 0.08), (-0.04, 0.02), color="blue"),
        poly("window", (0.04, 0.02), (0.04, -t + 0.08), (0.26, -t + 0.08), (0.44, 0.02), color="blue"),
        box("body", -b, 0.0, b, 0.45),
        box("bumper", -b - 0.05, 0.32, -b + 0.12, 0.45, 1),
        box("bumper", b - 0.12, 0.32, b + 0.05, 0.45, 1),
        *(oval("wheel", x, 0.45, 0.23, color="black") for x in (-0.5, 0.5)),
        *(oval("wheel", x, 0.45, 0.1, color="grey") for x in (-0.5, 0.5)),
    ]


def flower(rng):
    n, l = int(rng.integers(5, 9)), rng.uniform(0.26, 0.34)
    petals = [
        oval("petal", 0.38 * np.cos(a), -0.4 + 0.38 * np.sin(a), l, 0.17, a)
        for a in np.linspace(0, 2 * np.pi, n, endpoint=False) + rng.uniform(0, 1)
    ]
    return [
        tube("stem", [(rng.uniform(-0.2, 0.2), 0.98), (0.05, 0.3), (0, -0.3)], 0.05, "green"),
        oval("leaf", 0.28, 0.5, 0.28, 0.1, -0.5, "green"),
        oval("leaf", -0.24, 0.65, 0.26, 0.1, 0.5, "green"),
        *petals,
        oval("centre", 0, -0.4, 0.2, color=1),
    ]


def umbrella(rng):
    w = rng.uniform(0.8, 0.95)
    rim = np.linspace(-w, w, 6)
    return [
        tube("shaft", [(0, -0.75), (0, 0.7)], 0.035, "brown"),
        tube("handle", [(0, 0.7), (0.02, 0.85), (0.14, 0.92), (0.26, 0.82)], 0.045, "brown"),
        poly("canopy", *[(w * np.cos(a), 0.05 - 0.8 * np.sin(a)) for a in np.linspace(np.pi, 0, 15)]),
        *(oval("canopy", (a + b) / 2, 0.05, (b - a) / 2, 0.1, color=1) for a, b in pairwise(rim)),
    ]


def chair(rng):
    w, s = rng.uniform(0.42, 0.55), rng.uniform(0.1, 0.2)
    return [
        box("back", -w, -0.9, -w + 0.14, s),
        box("back", w - 0.14, -0.9, w, s),
        *(box("back", -w, y, w, y + 0.14, 1) for y in (-0.85, -0.5)),
        poly("seat", (-w - 0.05, s), (w + 0.05, s), (w + 0.2, s + 0.2), (-w - 0.2, s + 0.2)),
        *(box("leg", x, s + 0.2, x + 0.11, 0.95) for x in (-w - 0.1, -w * 0.5, w * 0.5 - 0.1, w)),
    ]


def clock(rng):
    a, b = rng.uniform(0, 2 * np.pi, 2)
    return [
        oval("rim", 0, 0, 0.85),
        oval("face", 0, 0, 0.68, color=1),
        *(
            oval("mark", 0.56 * np.cos(t), 0.56 * np.sin(t), 0.05, color="black")
            for t in np.linspace(0, 2 * np.pi, 12, endpoint=False)
        ),
        tube("hand", [(0, 0), (0.3 * np.cos(a), 0.3 * np.sin(a))], 0.05, "black"),
        tube("hand", [(0, 0), (0.5 * np.cos(b), 0.5 * np.sin(b))], 0.035, "black"),
    ]


def lamp(rng):
    w, h = rng.uniform(0.5, 0.68), rng.uniform(0.0, 0.12)
    return [
        tube("stand", [(0, 0.8), (0, -0.1)], 0.05, 1),
        oval("foot", 0, 0.85, 0.42, 0.1, color=1),
        poly("shade", (-w * 0.5, -0.92), (w * 0.5, -0.92), (w, h), (-w, h)),
        oval("bulb", 0, h + 0.02, 0.14, 0.1, color="yellow"),
    ]


def guitar(rng):
    w = rng.uniform(0.42, 0.5)
    return [
        tube("neck", [(0, 0.1), (0, -0.8)], 0.08, "brown"),
        box("head", -0.12, -0.98, 0.12, -0.74, 1),
        oval("body", 0, 0.2, w * 0.8, 0.3),
        oval("body", 0, 0.6, w, 0.36),
        oval("hole", 0, 0.35, 0.15, color="black"),
        box("bridge", -0.2, 0.72, 0.2, 0.78, "brown"),
        *(tube("string", [(x, 0.75), (x, -0.8)], 0.012, "white") for x in (-0.045, 0, 0.045)),
    ]


def bottle(rng):
    w, s = rng.uniform(0.28, 0.4), rng.uniform(-0.3, -0.1)
    return [
        box("neck", -0.13, -0.8, 0.13, s),
        poly("body", (-0.13, s), (0.13, s), (w, s + 0.3), (w, 0.95), (-w, 0.95), (-w, s + 0.3)),
        box("cap", -0.15, -0.97, 0.15, -0.78, 1),
        box("label", -w, s + 0.5, w, s + 0.9, 1),
    ]


def butterfly(rng):
    w, h = rng.uniform(0.4, 0.5), rng.uniform(0.3, 0.4)
    wings = [oval("wing", sx * 0.46, -0.32, w, h, sx * -0.6) for sx in (-1, 1)] + [
        oval("wing", sx * 0.36, 0.38, w * 0.75, h * 0.85, sx * 0.7, 1) for sx in (-1, 1)
    ]
    return [
        *wings,
        *(oval("spot", sx * 0.58, -0.38, 0.12, color=1) for sx in (-1, 1)),
        oval("body", 0, 0, 0.09, 0.55, color="black"),
        *(
            tube("antenna", [(0, -0.5), (sx * 0.15, -0.75), (sx * 0.28, -0.9)], 0.025, "black")
            for sx in (-1, 1)
        ),
    ]


def mushroom(rng):
    w, h = rng.uniform(0.7, 0.9), rng.uniform(0.6, 0.8)
    cap = [(w * np.cos(a), -0.05 - h * np.sin(a)) for a in np.linspace(np.pi, 0, 17)]
    return [
        poly("stalk", (-0.2, -0.05), (0.2, -0.05), (0.28, 0.9), (-0.28, 0.9), color="white"),
        poly("cap", *cap),
        *(
            oval("spot", x, y, 0.11, 0.09, color=1)
            for x, y in ((-0.4, -0.22), (0.05, -0.5), (0.42, -0.25), (-0.08, -0.2))
        ),
    ]


def kite(rng):
    w, h = rng.uniform(0.45, 0.6), rng.uniform(0.5, 0.6)
    line = [(0, h), (0.18, h + 0.1), (-0.05, h + 0.2), (0.15, h + 0.35)]
    return [
        poly("sail", (0, -0.95), (w, -0.2), (0, h)),
        poly("sail", (0, -0.95), (-w, -0.2), (0, h), color=1),
        tube("spar", [(0, -0.95), (0, h)], 0.022, "brown"),
        tube("spar", [(-w, -0.2), (w, -0.2)], 0.022, "brown"),
        tube("tail", line, 0.025, 1),
        *(oval("bow", x, y, 0.1, 0.05, color=0) for x, y in line[1:]),
    ]


def rocket(rng):
    w, t = rng.uniform(0.24, 0.32), rng.uniform(0.3, 0.42)
    return [
        poly("flame", (-w * 0.7, 0.6), (w * 0.7, 0.6), (0, 0.98), color="orange"),
        poly("fin", (-w, 0.1), (-w - t, 0.65), (-w, 0.6), color=1),
        poly("fin", (w, 0.1), (w + t, 0.65), (w, 0.6), color=1),
        box("body", -w, -0.4, w, 0.62),
        poly("nose", (-w, -0.4), (0, -0.98), (w, -0.4), color=1),
        oval("window", 0, -0.15, 0.14, color="blue"),
    ]


def bicycle(rng):
    s, x = rng.uniform(0.3, 0.36), 0.55
    ring = [(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 21)]
    wheels = []
    for side in (-1, 1):
        rim = [(side * x + s * 1.1 * a, 0.35 + s * 1.1 * b) for a, b in ring]
        wheels.append(tube("wheel", rim, 0.05, "black"))
    return [
        *wheels,
        tube("frame", [(-x, 0.35), (-0.2, -0.25), (0.32, -0.25), (x, 0.35)], 0.05),
        tube("frame", [(-x, 0.35), (0, 0.38), (0.32, -0.25)], 0.05),
        tube("frame", [(-0.28, -0.5), (0, 0.38)], 0.05),
        tube("saddle", [(-0.42, -0.52), (-0.14, -0.5)], 0.07, 1),
        tube("handlebar", [(0.32, -0.25), (0.28, -0.55), (0.5, -0.6)], 0.045, 1),
    ]


def snowman(rng):
    b, m = rng.uniform(0.42, 0.5), rng.uniform(0.3, 0.36)
    return [
        oval("body", 0, 0.48, b, color="white"),
        oval("body", 0, -0.08, m, color="white"),
        tube("arm", [(-m, -0.1), (-0.85, -0.35)], 0.03, "brown"),
        tube("arm", [(m, -0.1), (0.85, -0.35)], 0.03, "brown"),
        oval("head", 0, -0.5, 0.25, color="white"),
        tube("scarf", [(-0.22, -0.3), (0.22, -0.3)], 0.08, 0),
        tube("scarf", [(0.16, -0.3), (0.22, 0.05)], 0.07, 0),
        box("hat", -0.3, -0.76, 0.3, -0.68, 1),
        box("hat", -0.2, -0.98, 0.2, -0.7, 1),
        *(oval("eye", x, -0.55, 0.035, color="black") for x in (-0.09, 0.09)),
        tube("nose", [(0, -0.48), (0.2, -0.45)], (0.05, 0.01), "orange"),
        *(oval("button", 0, y, 0.04, color="black") for y in (-0.15, 0.02)),
    ]


def balloon(rng):
    w = rng.uniform(0.6, 0.72)
    return [
        tube("rope", [(-0.35, 0.2), (-0.15, 0.75)], 0.02, "brown"),
        tube("rope", [(0.35, 0.2), (0.15, 0.75)], 0.02, "brown"),
        oval("envelope", 0, -0.3, w, 0.66),
        poly("envelope", (-w * 0.75, 0.08), (w * 0.75, 0.08), (0.16, 0.5), (-0.16, 0.5)),
        oval("gore", 0, -0.3, w * 0.4, 0.65, color=1),
        box("basket", -0.18, 0.7, 0.18, 0.95, "brown"),
    ]


def _categories() -> dict[str, Category]:
    """All categories by name, as the table has them; each is drawn by the function of its name."""
    table = pd.read_csv(Path(__file__).with_name("categories.csv")).set_index("name")
    drawn = [house, tree, fish, cup, boat, car, flower, umbrella, chair, clock, lamp, guitar, bottle]
    drawn += [butterfly, mushroom, kite, rocket, bicycle, snowman, balloon]
    found = {}
    for pieces in drawn:
        superclass, material, settings, colors = table.loc[pieces.__name__]
        found[pieces.__name__] = Category(superclass, material, settings.split(), colors.split(), pieces)
    return found


CATEGORIES = _categories()
MATERIALS = sorted({category.material for category in CATEGORIES.values()})
SUPERCLASSES = sorted({category.superclass for category in CATEGORIES.values()})
_PIECES = [piece for category in CATEGORIES.values() for piece in category.pieces(np.random.default_rng(0))]
PARTS = sorted({piece.part for piece in _PIECES})  # of all things
