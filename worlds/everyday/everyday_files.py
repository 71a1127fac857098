"""The everyday world on disk, in CUB-200-2011's format, with the part mask of every thing."""

from functools import partial
from pathlib import Path

import numpy as np

from worlds.cub_writer import (
    DrawnImage,
    ensure_world,
    save_drawn_image,
    write_tables,
)
from worlds.everyday.thing_renderer import ATTRIBUTES, draw, thing, true_attributes
from worlds.everyday.things import CATEGORIES, PARTS

RENDERER_VERSION = "1"  # of drawing and tables: another one has the world drawn again
IMAGES_PER_CLASS = 50
DEFINITELY = 4


def _draw_to(root: Path, numbers: list[int], seed: int, per_class: int) -> list[DrawnImage]:
    """Draw the things with these numbers (0-based over the whole world)."""
    names = list(CATEGORIES)
    certainty = np.full(len(ATTRIBUTES), DEFINITELY)
    rows = []
    for number in numbers:
        label = number // per_class
        name = names[label]
        item = thing(seed, number, name)
        picture = draw(item)
        path = f"{label + 1:03d}.{name}/{name}_{number % per_class + 1:04d}_{number + 1}.jpg"
        save_drawn_image(root, path, picture.image, picture.parts)
        present = true_attributes(item, picture.parts)
        rows.append(DrawnImage(number + 1, path, picture.box, picture.points, present, certainty))
    return rows


def ensure(
    name: str = "everyday", images_per_class: int = IMAGES_PER_CLASS, seed: int = 0, jobs: int = -1
) -> Path:
    """The folder of an everyday world under `data_home()`, drawn if it is not there yet.

    It holds 20 categories × `images_per_class` things of 224×224 pixels, 60 % of each for training.

    Raises ValueError as `ensure_world` does.
    """
    wanted = {
        "seed": seed,
        "images_per_class": images_per_class,
        "categories": len(CATEGORIES),
        "renderer": RENDERER_VERSION,
    }

    def write(root: Path, rows: list[DrawnImage]) -> None:
        write_tables(root, rows, list(CATEGORIES), PARTS, ATTRIBUTES, seed, images_per_class)

    return ensure_world(
        name,
        "everyday world",
        wanted,
        total=len(CATEGORIES) * images_per_class,
        draw_to=partial(_draw_to, seed=seed, per_class=images_per_class),
        write=write,
        fixed=("seed", "images_per_class"),
        jobs=jobs,
    )
