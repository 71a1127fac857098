"""The everyday world on disk, as the aviary is: drawn at first use, in CUB-200-2011's own format, with a mask of the parts of every thing."""
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..worlds import Drawn, ensure_world, part_mask, save_picture, source_version, write_tables
from .draw import ATTRIBUTES, draw, thing, true_attributes
from .things import CATEGORIES, PARTS

__all__ = ["IMAGES_PER_CLASS", "ensure", "part_mask", "renderer_version"]
IMAGES_PER_CLASS = 50


@cache
def renderer_version() -> str:
    """Hash of the renderer's own source, the canvas it paints on and the writer of its tables: a folder drawn by another version is drawn again."""
    package = files("xaihelpers")
    return source_version(*(path for path in (package / "everyday").iterdir() if path.name.endswith(".py")), package / "worlds.py", package / "aviary" / "canvas.py")


def _draw_to(root: Path, numbers: list[int], seed: int, per_class: int) -> list[Drawn]:
    """Draw the things with these numbers (0-based over the whole world)."""
    rows, names = [], list(CATEGORIES)
    for number in numbers:
        name = names[number // per_class]
        one = thing(seed, number, name)
        picture = draw(one)
        path = f"{number // per_class + 1:03d}.{name}/{name}_{number % per_class + 1:04d}_{number + 1}.jpg"
        save_picture(root, path, picture.image, picture.parts)
        rows.append(Drawn(number + 1, path, picture.box, picture.points, true_attributes(one, picture.parts), np.full(len(ATTRIBUTES), 4)))
    return rows


def ensure(name: str = "everyday", images_per_class: int = IMAGES_PER_CLASS, seed: int = 0, jobs: int = -1) -> Path:
    """The folder of an everyday world under `data_home()`, drawn if it is not there yet: 20 categories × `images_per_class` things of 224×224 pixels, 60 % of each
    for training. Raises ValueError as `worlds.ensure_world`."""
    wanted = {"seed": seed, "images_per_class": images_per_class, "categories": len(CATEGORIES), "renderer": renderer_version()}
    return ensure_world(name, "everyday world", wanted, len(CATEGORIES) * images_per_class, partial(_draw_to, seed=seed, per_class=images_per_class),
                        lambda root, rows: write_tables(root, rows, list(CATEGORIES), PARTS, ATTRIBUTES, seed, images_per_class), ("seed", "images_per_class"), jobs)
