"""The aviary on disk, in CUB-200-2011's folders and formats, with the part mask of every bird."""

from functools import partial
from pathlib import Path

import numpy as np

from worlds.aviary.bird_renderer import Picture, draw
from worlds.aviary.individuals import (
    ATTRIBUTES,
    GROUPS,
    NEEDS,
    Individual,
    individual,
    shuffled,
    species_table,
    true_attributes,
)
from worlds.aviary.parts import PARTS, REST
from worlds.aviary.pose import FREE_SEATS
from worlds.cub_writer import DrawnImage, ensure_world

RENDERER_VERSION = "1"  # of drawing, species and tables: a world of another one is not taken for this one
SCENES_VERSION = "1"  # the same of free scenes
SMALL_PART = 40  # pixels: of a part that shows less, an annotator is only probably certain
NOT_VISIBLE, PROBABLY, DEFINITELY = 1, 3, 4


def annotation_certainty(parts: np.ndarray, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An annotator's certainty of each attribute, (312,) int: 1 not visible, 3 probably, 4 definitely.

    "Probably" is said where its part shows little, and elsewhere one time in ten; a wing is either of them.

    parts: (224, 224), points: (15, 2), as `draw` gives them.
    """
    area = np.bincount(parts.ravel(), minlength=REST + 1)
    certainty = []
    for group, values in GROUPS.items():
        needed = [i for i, name in enumerate(PARTS) if group in NEEDS and name.endswith(NEEDS[group])]
        of_group = DEFINITELY
        if needed and np.isnan(points[needed, 0]).all():
            of_group = NOT_VISIBLE
        elif needed and (area[[i + 1 for i in needed]].sum() < SMALL_PART or rng.random() < 0.1):
            of_group = PROBABLY
        certainty += [of_group] * len(values)
    return np.array(certainty)


def is_visible(picture: Picture) -> np.ndarray:
    """Of which of the 312 attributes the part can be seen in a picture, (312,) bool."""
    certainty = annotation_certainty(picture.parts, picture.points, np.random.default_rng(0))
    return certainty > NOT_VISIBLE


def visible_attributes(bird: Individual, picture: Picture, rng: np.random.Generator) -> np.ndarray:
    """Which of the 312 attributes a bird shows that can be seen in its picture, (312,) bool."""
    certainty = annotation_certainty(picture.parts, picture.points, rng)
    return true_attributes(bird) & (certainty > NOT_VISIBLE)


def _drawn_bird(number: int, species: int, seed: int, decorrelated: float, free_scenes: bool) -> DrawnImage:
    """The bird with this number, from 0 over the whole aviary."""
    bird = individual(seed, number, species)
    if decorrelated:
        bird = shuffled(bird, np.random.default_rng([seed, number, 20]), decorrelated)
    picture = draw(bird, free_scenes)
    rng = np.random.default_rng([seed, number, 10])
    certainty = annotation_certainty(picture.parts, picture.points, rng)
    return DrawnImage(picture, true_attributes(bird) & (certainty > NOT_VISIBLE), certainty)


def ensure(
    name: str = "aviary",
    images_per_class: int = 50,
    seed: int = 0,
    jobs: int = -1,
    decorrelated: float = 0.0,
    free_scenes: bool = False,
) -> Path:
    """The folder of an aviary under `data_home()`, drawn if it is not there yet.

    It holds 48 species × `images_per_class` birds of 224×224 pixels, 60 % of each class for training.

    decorrelated: the probability with which each attribute group of a bird is set at random, as by
        `shuffled`: from 0, attributes come as the species have them, to 1, where the species says nothing.
    free_scenes: whether the seat and the size of leaves are drawn by lot. In the aviary a duck swims and
        small birds sit among big leaves, as in nature, so that the scene tells shape and size. With free
        scenes and all attributes at random, what the background still tells, the renderer gives away.
    Raises ValueError as `ensure_world` does.
    """
    species = species_table()["name"].tolist()
    wanted = {"seed": seed, "images_per_class": images_per_class}
    wanted |= {"species": len(species), "renderer": RENDERER_VERSION}
    if decorrelated or free_scenes:
        wanted["decorrelated"] = decorrelated
    if free_scenes:
        wanted |= {"seats": list(FREE_SEATS), "scenes": SCENES_VERSION}
    draw_one = partial(_drawn_bird, seed=seed, decorrelated=decorrelated, free_scenes=free_scenes)
    return ensure_world(name, "aviary", wanted, species, PARTS, ATTRIBUTES, draw_one, jobs)
