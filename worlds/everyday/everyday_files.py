"""The everyday world on disk, in CUB-200-2011's format, with the part mask of every thing."""

from functools import partial
from pathlib import Path

import numpy as np

from worlds.cub_writer import DrawnImage, ensure_world
from worlds.everyday.thing_renderer import ATTRIBUTES, draw, thing, true_attributes
from worlds.everyday.things import CATEGORIES, PARTS

RENDERER_VERSION = "1"  # of drawing and tables: a world of another one is not taken for this one
DEFINITELY = 4


def _drawn_thing(number: int, label: int, seed: int) -> DrawnImage:
    """The thing with this number, from 0 over the whole world."""
    item = thing(seed, number, list(CATEGORIES)[label])
    picture = draw(item)
    return DrawnImage(picture, true_attributes(item, picture.parts), np.full(len(ATTRIBUTES), DEFINITELY))


def ensure(name: str = "everyday", images_per_class: int = 50, seed: int = 0, jobs: int = -1) -> Path:
    """The folder of an everyday world under `data_home()`, drawn if it is not there yet.

    It holds 20 categories × `images_per_class` things of 224×224 pixels, 60 % of each for training.

    Raises ValueError as `ensure_world` does.
    """
    wanted = {"seed": seed, "images_per_class": images_per_class}
    wanted |= {"categories": len(CATEGORIES), "renderer": RENDERER_VERSION}
    names, draw_one = list(CATEGORIES), partial(_drawn_thing, seed=seed)
    return ensure_world(name, "everyday", wanted, names, PARTS, ATTRIBUTES, draw_one, jobs)
