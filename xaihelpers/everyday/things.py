"""Twenty everyday things that look nothing alike, each as pieces: a part's name, a shape, and which of the thing's colours it takes.

A thing lies in a square from -1 to 1, x to the right and y down. Proportions vary from one to the next by the generator they are made with.
"""
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

COLORS = {"red": (.80, .16, .15), "orange": (.93, .52, .13), "yellow": (.95, .82, .22), "green": (.24, .56, .26), "blue": (.18, .38, .75), "purple": (.50, .25, .62),
          "pink": (.93, .58, .70), "brown": (.45, .29, .17), "grey": (.55, .56, .58), "black": (.12, .12, .13), "white": (.95, .95, .93)}
SETTINGS = ("grass", "sand", "water", "sky", "street", "room")
PATTERNS = ("plain", "striped", "dotted")


@dataclass(frozen=True)
class Piece:
    """A part of a thing: `shape` is "poly" (points), "tube" (points, radii) or "oval" (centre, radii, angle); `color` 0 the first, 1 the second, or a name."""
    part: str
    shape: str
    points: tuple
    radii: tuple = ()
    angle: float = 0.0
    color: int | str = 0


@dataclass(frozen=True)
class Category:
    """A kind of thing: what it belongs to, what it is made of, its usual settings and colours, and its pieces."""
    name: str
    superclass: str
    material: str
    settings: tuple[str, ...]
    colors: tuple[str, ...]  # usual first colours
    pieces: Callable


def poly(part, *points, color=0):
    return Piece(part, "poly", points, color=color)


def tube(part, points, radii, color=0):
    radii = radii if isinstance(radii, tuple) else (radii,) * len(points)
    return Piece(part, "tube", tuple(points), radii, color=color)


def oval(part, x, y, rx, ry=None, angle=0.0, color=0):
    return Piece(part, "oval", ((x, y),), (rx, ry or rx), angle, color)


def box(part, x0, y0, x1, y1, color=0):
    return poly(part, (x0, y0), (x1, y0), (x1, y1), (x0, y1), color=color)


def house(r):
    w, h, door = r.uniform(.6, .8), r.uniform(.5, .75), r.uniform(-.3, .3)
    return [box("chimney", .3, -.95, .48, -.3, "brown"), box("wall", -w, .85 - 2 * h + .35, w, .85), poly("roof", (-w - .15, .85 - 2 * h + .36), (0, -.95),
                                                                                                          (w + .15, .85 - 2 * h + .36), color=1),
            box("door", door - .14, .35, door + .14, .85, "brown"), box("window", -w + .1, .1, -w + .36, .38, "blue"), box("window", w - .36, .1, w - .1, .38, "blue")]


def tree(r):
    lean, n = r.uniform(-.1, .1), int(r.integers(5, 8))
    crown = [oval("crown", lean + .42 * np.cos(a), -.35 + .34 * np.sin(a), r.uniform(.32, .42)) for a in np.linspace(0, 2 * np.pi, n, endpoint=False)]
    fruit = [oval("fruit", lean + x, -.35 + y, .07, color=1) for x, y in r.uniform(-.5, .5, (5, 2))]
    return [tube("trunk", [(0, .95), (lean, .0)], (.16, .10), "brown"), *crown, oval("crown", lean, -.35, .45), *fruit]


def fish(r):
    h, t = r.uniform(.32, .48), r.uniform(.28, .42)
    return [poly("tail", (.5, 0), (.95, -t), (.82, 0), (.95, t), color=1), poly("fin", (-.1, -h * .7), (.25, -h - .28), (.35, -h * .5), color=1), oval("body", -.1, 0, .72, h),
            poly("fin", (-.05, .1), (.25, .3), (.2, .02), color=1), oval("eye", -.55, -.1, .09, color="white"), oval("eye", -.56, -.1, .045, color="black")]


def cup(r):
    h, w = r.uniform(.5, .7), r.uniform(.48, .6)
    a = np.linspace(-1.3, 1.3, 9)
    return [tube("handle", [(w - .05 + .36 * np.cos(x), -.05 + .36 * np.sin(x)) for x in a], .075, 1), poly("bowl", (-w, -h), (w, -h), (w * .78, h), (-w * .78, h)),
            oval("rim", 0, -h, w, .12, color=1), oval("rim", 0, -h, w * .86, .075, color="brown")]


def boat(r):
    m, s = r.uniform(-.2, .1), r.uniform(.5, .75)
    return [tube("mast", [(m, .4), (m, -.95)], .035, "brown"), poly("sail", (m + .05, -.9), (m + s, .25), (m + .05, .25), color=1),
            poly("sail", (m - .05, -.7), (m - .5, .25), (m - .05, .25), color=1),
            poly("hull", (-.95, .35), (.95, .35), (.65, .8), (-.65, .8))]


def car(r):
    t, b = r.uniform(.35, .5), r.uniform(.8, .92)
    return [poly("roof", (-.55, .05), (-.35, -t), (.3, -t), (.58, .05)), poly("window", (-.42, .02), (-.28, -t + .08), (-.04, -t + .08), (-.04, .02), color="blue"),
            poly("window", (.04, .02), (.04, -t + .08), (.26, -t + .08), (.44, .02), color="blue"), box("body", -b, .0, b, .45), box("bumper", -b - .05, .32, -b + .12, .45, 1),
            box("bumper", b - .12, .32, b + .05, .45, 1),
            *(oval("wheel", x, .45, .23, color="black") for x in (-.5, .5)), *(oval("wheel", x, .45, .1, color="grey") for x in (-.5, .5))]


def flower(r):
    n, l = int(r.integers(5, 9)), r.uniform(.26, .34)
    petals = [oval("petal", .38 * np.cos(a), -.4 + .38 * np.sin(a), l, .17, a) for a in np.linspace(0, 2 * np.pi, n, endpoint=False) + r.uniform(0, 1)]
    return [tube("stem", [(r.uniform(-.2, .2), .98), (.05, .3), (0, -.3)], .05, "green"), oval("leaf", .28, .5, .28, .1, -.5, "green"),
            oval("leaf", -.24, .65, .26, .1, .5, "green"), *petals,
            oval("centre", 0, -.4, .2, color=1)]


def umbrella(r):
    w = r.uniform(.8, .95)
    rim = np.linspace(-w, w, 6)
    return [tube("shaft", [(0, -.75), (0, .7)], .035, "brown"), tube("handle", [(0, .7), (.02, .85), (.14, .92), (.26, .82)], .045, "brown"),
            poly("canopy", *[(w * np.cos(a), .05 - .8 * np.sin(a)) for a in np.linspace(np.pi, 0, 15)]),
            *(oval("canopy", (a + b) / 2, .05, (b - a) / 2, .1, color=1) for a, b in zip(rim[:-1], rim[1:]))]


def chair(r):
    w, s = r.uniform(.42, .55), r.uniform(.1, .2)
    return [box("back", -w, -.9, -w + .14, s), box("back", w - .14, -.9, w, s), *(box("back", -w, y, w, y + .14, 1) for y in (-.85, -.5)),
            poly("seat", (-w - .05, s), (w + .05, s), (w + .2, s + .2), (-w - .2, s + .2)),
            *(box("leg", x, s + .2, x + .11, .95) for x in (-w - .1, -w * .5, w * .5 - .1, w))]


def clock(r):
    a, b = r.uniform(0, 2 * np.pi, 2)
    return [oval("rim", 0, 0, .85), oval("face", 0, 0, .68, color=1), *(oval("mark", .56 * np.cos(t), .56 * np.sin(t), .05, color="black") for t in np.linspace(0, 2 * np.pi, 12,
                                                                                                                                                                endpoint=False)),
            tube("hand", [(0, 0), (.3 * np.cos(a), .3 * np.sin(a))], .05, "black"), tube("hand", [(0, 0), (.5 * np.cos(b), .5 * np.sin(b))], .035, "black")]


def lamp(r):
    w, h = r.uniform(.5, .68), r.uniform(.0, .12)
    return [tube("stand", [(0, .8), (0, -.1)], .05, 1), oval("foot", 0, .85, .42, .1, color=1), poly("shade", (-w * .5, -.92), (w * .5, -.92), (w, h), (-w, h)),
            oval("bulb", 0, h + .02, .14, .1, color="yellow")]


def guitar(r):
    w = r.uniform(.42, .5)
    return [tube("neck", [(0, .1), (0, -.8)], .08, "brown"), box("head", -.12, -.98, .12, -.74, 1), oval("body", 0, .2, w * .8, .3), oval("body", 0, .6, w, .36),
            oval("hole", 0, .35, .15, color="black"),
            box("bridge", -.2, .72, .2, .78, "brown"), *(tube("string", [(x, .75), (x, -.8)], .012, "white") for x in (-.045, 0, .045))]


def bottle(r):
    w, s = r.uniform(.28, .4), r.uniform(-.3, -.1)
    return [box("neck", -.13, -.8, .13, s), poly("body", (-.13, s), (.13, s), (w, s + .3), (w, .95), (-w, .95), (-w, s + .3)), box("cap", -.15, -.97, .15, -.78, 1),
            box("label", -w, s + .5, w, s + .9, 1)]


def butterfly(r):
    w, h = r.uniform(.4, .5), r.uniform(.3, .4)
    wings = [oval("wing", sx * .46, -.32, w, h, sx * -.6) for sx in (-1, 1)] + [oval("wing", sx * .36, .38, w * .75, h * .85, sx * .7, 1) for sx in (-1, 1)]
    return [*wings, *(oval("spot", sx * .58, -.38, .12, color=1) for sx in (-1, 1)), oval("body", 0, 0, .09, .55, color="black"),
            *(tube("antenna", [(0, -.5), (sx * .15, -.75), (sx * .28, -.9)], .025, "black") for sx in (-1, 1))]


def mushroom(r):
    w, h = r.uniform(.7, .9), r.uniform(.6, .8)
    cap = [(w * np.cos(a), -.05 - h * np.sin(a)) for a in np.linspace(np.pi, 0, 17)]
    return [poly("stalk", (-.2, -.05), (.2, -.05), (.28, .9), (-.28, .9), color="white"), poly("cap", *cap),
            *(oval("spot", x, y, .11, .09, color=1) for x, y in ((-.4, -.22), (.05, -.5), (.42, -.25), (-.08, -.2)))]


def kite(r):
    w, h = r.uniform(.45, .6), r.uniform(.5, .6)
    line = [(0, h), (.18, h + .1), (-.05, h + .2), (.15, h + .35)]
    return [poly("sail", (0, -.95), (w, -.2), (0, h)), poly("sail", (0, -.95), (-w, -.2), (0, h), color=1), tube("spar", [(0, -.95), (0, h)], .022, "brown"),
            tube("spar", [(-w, -.2), (w, -.2)], .022, "brown"),
            tube("tail", line, .025, 1), *(oval("bow", x, y, .1, .05, color=0) for x, y in line[1:])]


def rocket(r):
    w, t = r.uniform(.24, .32), r.uniform(.3, .42)
    return [poly("flame", (-w * .7, .6), (w * .7, .6), (0, .98), color="orange"), poly("fin", (-w, .1), (-w - t, .65), (-w, .6), color=1),
            poly("fin", (w, .1), (w + t, .65), (w, .6), color=1), box("body", -w, -.4, w, .62),
            poly("nose", (-w, -.4), (0, -.98), (w, -.4), color=1), oval("window", 0, -.15, .14, color="blue")]


def bicycle(r):
    s, x = r.uniform(.3, .36), .55
    ring = [(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 21)]
    wheels = [tube("wheel", [(sx * x + s * 1.1 * a, .35 + s * 1.1 * b) for a, b in ring], .05, "black") for sx in (-1, 1)]
    return [*wheels, tube("frame", [(-x, .35), (-.2, -.25), (.32, -.25), (x, .35)], .05), tube("frame", [(-x, .35), (0, .38), (.32, -.25)], .05),
            tube("frame", [(-.28, -.5), (0, .38)], .05),
            tube("saddle", [(-.42, -.52), (-.14, -.5)], .07, 1), tube("handlebar", [(.32, -.25), (.28, -.55), (.5, -.6)], .045, 1)]


def snowman(r):
    b, m = r.uniform(.42, .5), r.uniform(.3, .36)
    return [oval("body", 0, .48, b, color="white"), oval("body", 0, -.08, m, color="white"), tube("arm", [(-m, -.1), (-.85, -.35)], .03, "brown"),
            tube("arm", [(m, -.1), (.85, -.35)], .03, "brown"),
            oval("head", 0, -.5, .25, color="white"), tube("scarf", [(-.22, -.3), (.22, -.3)], .08, 0), tube("scarf", [(.16, -.3), (.22, .05)], .07, 0),
            box("hat", -.3, -.76, .3, -.68, 1), box("hat", -.2, -.98, .2, -.7, 1),
            *(oval("eye", x, -.55, .035, color="black") for x in (-.09, .09)), tube("nose", [(0, -.48), (.2, -.45)], (.05, .01), "orange"),
            *(oval("button", 0, y, .04, color="black") for y in (-.15, .02))]


def balloon(r):
    w = r.uniform(.6, .72)
    return [tube("rope", [(-.35, .2), (-.15, .75)], .02, "brown"), tube("rope", [(.35, .2), (.15, .75)], .02, "brown"), oval("envelope", 0, -.3, w, .66),
            poly("envelope", (-w * .75, .08), (w * .75, .08), (.16, .5), (-.16, .5)),
            oval("gore", 0, -.3, w * .4, .65, color=1), box("basket", -.18, .7, .18, .95, "brown")]


WARM, ANY = ("red", "orange", "yellow", "pink", "white", "purple"), ("red", "blue", "green", "yellow", "orange", "purple", "white", "pink", "grey", "black", "brown")
CATEGORIES = {c.name: c for c in (
    Category("house", "building", "stone", ("grass", "street", "sand"), ("white", "yellow", "red", "grey", "pink"), house),
    Category("tree", "plant", "wood", ("grass", "street", "sand"), ("green", "yellow", "orange", "red"), tree),
    Category("fish", "animal", "scales", ("water",), ("orange", "blue", "yellow", "grey", "red"), fish),
    Category("cup", "vessel", "porcelain", ("room", "street"), ANY[:9], cup),
    Category("boat", "vehicle", "wood", ("water",), ("red", "blue", "brown", "white", "green"), boat),
    Category("car", "vehicle", "metal", ("street", "sand", "grass"), ANY[:8], car),
    Category("flower", "plant", "petals", ("grass", "room"), WARM, flower),
    Category("umbrella", "accessory", "cloth", ("sand", "street", "grass"), ANY, umbrella),
    Category("chair", "furniture", "wood", ("room", "grass"), ("brown", "white", "red", "black", "blue"), chair),
    Category("clock", "instrument", "metal", ("room", "street"), ("black", "brown", "red", "grey", "yellow"), clock),
    Category("lamp", "furniture", "cloth", ("room",), ("yellow", "white", "red", "green", "orange"), lamp),
    Category("guitar", "instrument", "wood", ("room", "grass"), ("orange", "brown", "red", "black", "yellow"), guitar),
    Category("bottle", "vessel", "glass", ("room", "sand"), ("green", "blue", "brown", "white", "purple"), bottle),
    Category("butterfly", "animal", "wings", ("grass", "sky"), ("orange", "blue", "yellow", "purple", "red", "white"), butterfly),
    Category("mushroom", "plant", "flesh", ("grass",), ("red", "brown", "orange", "yellow"), mushroom),
    Category("kite", "toy", "cloth", ("sky", "sand"), ANY[:8], kite),
    Category("rocket", "vehicle", "metal", ("sky",), ("white", "grey", "red", "blue"), rocket),
    Category("bicycle", "vehicle", "metal", ("street", "grass", "sand"), ANY[:8], bicycle),
    Category("snowman", "figure", "snow", ("grass", "street"), ("red", "blue", "green", "purple", "orange"), snowman),
    Category("balloon", "vehicle", "cloth", ("sky",), ANY[:8], balloon),
)}
PARTS = sorted({piece.part for category in CATEGORIES.values() for piece in category.pieces(np.random.default_rng(0))})
MATERIALS, SUPERCLASSES = (sorted({getattr(category, name) for category in CATEGORIES.values()}) for name in ("material", "superclass"))
