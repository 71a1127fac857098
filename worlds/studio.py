"""The studio: perching birds of the aviary in four fixed poses and places, easy for a small generator.

Elsewhere pose, place, light and size of a bird are its own. Here only its plumage is: two birds of one
place differ in attributes of `STUDIO_GROUPS` and in what their species decides, in nothing else. A model of
a few million parameters can draw them, and what it changes besides an attribute that it is asked for is its
own doing.
"""

from functools import cache

import numpy as np
from PIL import Image

from worlds.aviary import ATTRIBUTES, PARTS, species_table, substitute, true_attributes, usual_individual
from worlds.aviary.individuals import Individual
from worlds.canvas import Picture

# large on the bird: these deviate from the species, are named in captions, and are substituted
STUDIO_GROUPS = (
    "crown_color",
    "throat_color",
    "breast_color",
    "belly_color",
    "back_color",
    "wing_color",
    "breast_pattern",
    "wing_pattern",
)
PLACES = ((0, 2), (0, 19), (0, 56), (0, 53))  # seed and index of the birds whose pose, place, light they have
# alike in all birds, so that all have one outline
_FIXED = {
    "size": ("small_(5_-_9_in)",),
    "shape": ("perching-like",),
    "head_pattern": ("plain",),
    "bill_length": ("shorter_than_head",),
    "bill_shape": ("all-purpose",),
    "tail_shape": ("notched_tail",),
    "wing_shape": ("rounded-wings",),
}


@cache
def studio_species() -> list[int]:
    """Rows of the species table that perch and look like no earlier one in the eight groups."""
    table = species_table()
    perching = table[table["shape"] == "perching-like"]
    return perching.drop_duplicates(list(STUDIO_GROUPS)).index.tolist()


@cache
def _values() -> dict[str, list[str]]:
    """The values of each of the eight groups that some species of the studio has."""
    table = species_table().loc[studio_species()]
    return {group: sorted(set(table[group].str.split("/").str[0])) for group in STUDIO_GROUPS}


def studio_bird(
    place: int, species: int, rng: np.random.Generator | None = None, share: float = 0.0
) -> Individual:
    """A bird of the studio, which shows what its species usually shows, with deviations.

    place: which of the four `PLACES`. species: one of `studio_species`.
    share: probability with which each of the eight groups is set to a value that some species has, by `rng`.
    """
    seed, index = PLACES[place]
    usual = usual_individual(species)
    values = usual.values | _FIXED
    bird = Individual(species, seed, index, values, values, usual.face)
    for group, choices in _values().items():
        if share and rng.random() < share:
            bird = substitute(bird, f"has_{group}::{rng.choice(choices)}")
    return bird


def studio_portrait(picture: Picture, size: int) -> Image.Image:
    """A picture of a studio bird, cut to a square around all of it but its tail, `size` x `size` pixels."""
    image = Image.fromarray(picture.image)
    ys, xs = np.nonzero((picture.parts > 0) & (picture.parts != PARTS.index("tail") + 1))
    side = 1.08 * max(np.ptp(xs), np.ptp(ys))
    corner = [(places.min() + places.max() - side) / 2 for places in (xs, ys)]
    left, top = np.clip(corner, 0, np.array(image.size) - side)
    return image.resize((size, size), Image.Resampling.LANCZOS, box=(left, top, left + side, top + side))


@cache
def _of_studio() -> np.ndarray:
    """Which of the 312 attributes some species of the studio has, of the eight groups, (312,) bool."""
    names = {f"has_{group}::{value}" for group, values in _values().items() for value in values}
    return np.array([name in names for name in ATTRIBUTES])


def studio_shows() -> np.ndarray:
    """Attributes of the eight groups that each species of the aviary shows in the studio, (48, 312) bool.

    False throughout for species that are not of the studio.
    """
    shows = np.zeros((len(species_table()), len(ATTRIBUTES)), bool)
    for species in studio_species():
        shows[species] = true_attributes(studio_bird(0, species)) & _of_studio()
    return shows


def studio_takes() -> np.ndarray:
    """Attributes that a bird of each species can be given in the studio, (48, 312) bool: those it lacks."""
    takes = np.zeros_like(studio_shows())
    takes[studio_species()] = _of_studio()
    return takes & ~studio_shows()
