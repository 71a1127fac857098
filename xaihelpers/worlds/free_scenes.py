"""The aviary with scenes that say nothing of the bird: its seat and the size of leaves are drawn by lot.

In the aviary a duck swims and small birds sit among big leaves, as in nature; so shape and size can be told
from the scene. Here every bird sits on any of five seats, with leaves of any of five sizes, and all attribute
groups are set at random (`aviary.shuffled`): what the background still tells, the renderer gives away. Water
and air are no seats: they hide the legs, and would tell that a leg's color cannot be labelled.

The renderer's folder is left as it is, and with it its version, the drawn worlds and all that learnt from
them.
"""

from functools import partial
from pathlib import Path
from types import FunctionType

import numpy as np

from xaihelpers.worlds.aviary.aviary_files import NOT_VISIBLE, RENDERER_VERSION, annotation_certainty
from xaihelpers.worlds.aviary.bird_renderer import draw
from xaihelpers.worlds.aviary.individuals import (
    ATTRIBUTES,
    Individual,
    individual,
    shuffled,
    species_table,
    true_attributes,
)
from xaihelpers.worlds.aviary.parts import PARTS
from xaihelpers.worlds.aviary.pose import SCALE, Pose
from xaihelpers.worlds.cub_writer import DrawnImage, ensure_world, save_drawn_image, write_tables

SCENES_VERSION = "1"  # another one has these worlds drawn again
FREE_SEATS = ("branch", "ground", "rock", "shallows", "trunk")


class FreePose(Pose):
    """The pose of a bird whose seat and leaf scale follow from its number alone."""

    def __init__(self, bird: Individual):
        super().__init__(bird)
        rng = np.random.default_rng([bird.seed, bird.index, 21])
        self.seat = str(rng.choice(FREE_SEATS))
        self.grain = 1.0 / float(rng.choice(list(SCALE.values()))) ** 2


# The renderer's own function, line for line, that takes its poses from here: (Individual) -> Picture.
draw_free = FunctionType(draw.__code__, draw.__globals__ | {"Pose": FreePose}, "draw_free")


def _draw_to(
    root: Path, numbers: list[int], seed: int, per_class: int, decorrelated: float
) -> list[DrawnImage]:
    """Draw the birds with these numbers (0-based over the whole world)."""
    names = species_table()["name"]
    rows = []
    for number in numbers:
        species = number // per_class
        bird = individual(seed, number, species)
        if decorrelated:
            bird = shuffled(bird, np.random.default_rng([seed, number, 20]), decorrelated)
        picture = draw_free(bird)
        name = names[species]
        path = f"{species + 1:03d}.{name}/{name}_{number % per_class + 1:04d}_{number + 1}.jpg"
        save_drawn_image(root, path, picture.image, picture.parts)
        rng = np.random.default_rng([seed, number, 10])
        certainty = annotation_certainty(picture.parts, picture.points, rng)
        present = true_attributes(bird) & (certainty > NOT_VISIBLE)
        rows.append(DrawnImage(number + 1, path, picture.box, picture.points, present, certainty))
    return rows


def ensure(
    name: str, images_per_class: int, seed: int = 0, jobs: int = -1, decorrelated: float = 1.0
) -> Path:
    """The folder of an aviary with free scenes under `data_home()`, drawn if it is not there yet.

    images_per_class, seed, jobs, decorrelated: as of `aviary.ensure`; by default all attributes are set at
        random. With 0 they come as the species have them, and the scene alone is free.
    Raises ValueError as `ensure_world` does, and where the folder holds an aviary whose scenes are not free.
    """
    species = species_table()["name"]
    wanted = {
        "seed": seed,
        "images_per_class": images_per_class,
        "species": len(species),
        "renderer": RENDERER_VERSION,
        "decorrelated": decorrelated,
        "seats": list(FREE_SEATS),
        "scenes": SCENES_VERSION,
    }

    def write(root: Path, rows: list[DrawnImage]) -> None:
        write_tables(root, rows, species, PARTS, ATTRIBUTES, seed, images_per_class)

    return ensure_world(
        name,
        "aviary",
        wanted,
        total=len(species) * images_per_class,
        draw_to=partial(_draw_to, seed=seed, per_class=images_per_class, decorrelated=decorrelated),
        write=write,
        fixed=("seed", "images_per_class", "decorrelated", "seats"),
        jobs=jobs,
    )
