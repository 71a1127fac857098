"""The birds of the aviary: species, individuals, and the attributes that annotators would tick for each.

An individual is a set of values for the 25 attribute groups of CUB-200-2011 that are drawn; the other three
(upper parts, underparts, primary colour) follow from them. The species table holds, for each group, the value
that most annotators of CUB gave for that class (a few were set by hand, where the annotators disagreed or
where the order of ground and markings matters). A cell `white/brown` means: ground colour white, markings
brown.
"""

import difflib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

CUB = pd.read_csv(files("worlds.aviary") / "cub_attributes.csv", dtype=str, keep_default_na=False)
ATTRIBUTES = CUB["name"].tolist()  # (312,), id = position + 1
# The 28 groups in the order of CUB's attributes.txt, with their values.
GROUPS: dict[str, list[str]] = {}
for _attribute in ATTRIBUTES:
    _group, _value = _attribute.removeprefix("has_").split("::")
    GROUPS.setdefault(_group, []).append(_value)
COLORS = GROUPS["wing_color"]
# Groups that follow from others: the regions that they summarise.
FOLLOWS = {
    "upperparts_color": ("back", "wing"),
    "underparts_color": ("breast", "belly"),
    "primary_color": ("wing", "breast", "belly", "back"),
}
# Regions with a ground colour and markings: colour group, pattern group, share of the bird's side.
MARKED = {
    "wing": ("wing_color", "wing_pattern", 0.32),
    "back": ("back_color", "back_pattern", 0.12),
    "breast": ("breast_color", "breast_pattern", 0.18),
    "belly": ("belly_color", "belly_pattern", 0.24),
    "tail": ("upper_tail_color", "tail_pattern", 0.14),
}
# What must be seen for a group to be labelled, by the first word of its name or the part itself; groups that
# are not listed need only the bird.
_PART_OF = {"bill": "beak", "head": "forehead", "upper": "tail", "under": "tail"}
_OF_BIRD = ("size", "shape", *FOLLOWS)
_FIRST_WORDS = {group: group.split("_")[0] for group in GROUPS if group not in _OF_BIRD}
NEEDS = {group: _PART_OF.get(word, word) for group, word in _FIRST_WORDS.items()}


@cache
def species_table() -> pd.DataFrame:
    """One row a species: CUB's class id, the name, the values of the drawn groups and the colour of the face.

    `reference` is 1 for the 33 reference birds of SUB.
    """
    file = files("worlds.aviary") / "species.csv"
    return pd.read_csv(file, dtype=str, keep_default_na=False).astype({"cub_class": int, "reference": int})


def _place_of(name: str, known: list[str], kind: str) -> int:
    """Where a name stands. Raises ValueError: an unknown one (with the nearest)."""
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
        raise ValueError(f"unknown {kind} {name!r}; of the aviary's {len(known)} the nearest is {nearest!r}")
    return known.index(name)


def species_id(name: str) -> int:
    """Row of a species in the table, by its name with spaces or underscores. Raises ValueError: unknown."""
    return _place_of(name.strip().replace(" ", "_"), species_table()["name"].tolist(), "species")


@dataclass(frozen=True)
class Individual:
    """A bird to draw.

    `values[group]` are its values, the ground colour first. `born` are the values that it had before any
    substitution, which set its place and size in the picture. `face` is the colour of its cheek.
    """

    species: int
    seed: int
    index: int
    values: dict[str, tuple[str, ...]]
    born: dict[str, tuple[str, ...]]
    face: str


def _species_values(species: int) -> dict[str, tuple[str, ...]]:
    """The values that the table has for a species, the ground colour first, of each group that is drawn."""
    row = species_table().loc[species]
    return {group: tuple(row[group].split("/")) for group in GROUPS if group not in FOLLOWS}


def individual(seed: int, index: int, species: int | str) -> Individual:
    """The `index`-th bird of the world `seed`: its species' values, with deviations.

    One bird in six is a plain morph (a female or juvenile: duller head and breast, no crest, cap or mask);
    beside that, each group deviates with probability 0.02 to the value of another species.

    species: its name, or its row in the table. Raises ValueError, KeyError: none such.
    """
    table = species_table()
    species = species_id(species) if isinstance(species, str) else species
    rng = np.random.default_rng([seed, index, 0])
    values = _species_values(species)
    below_cap = "throat_color" if values["head_pattern"][0] == "capped" else "crown_color"
    face = table.at[species, "face"] or values[below_cap][0]
    if rng.random() < 1 / 6:
        dull = str(rng.choice(["brown", "grey", "buff", "olive"]))
        for group in ("crown_color", "forehead_color", "nape_color", "throat_color", "breast_color"):
            if values[group][0] not in ("white", "buff", "brown", "grey") and rng.random() < 0.7:
                ground = "buff" if group == "throat_color" and dull == "brown" else dull
                values[group] = (ground, *values[group][1:])
        values["head_pattern"] = ("plain",)
        face = values["crown_color"][0]
    for group in values:
        if rng.random() < 0.02:
            values[group] = tuple(table.at[int(rng.integers(len(table))), group].split("/"))
    return Individual(species, seed, index, values, dict(values), face)


def usual_individual(species: int | str) -> Individual:
    """A bird that shows just what its species usually shows: its values are those of the table."""
    bird = individual(0, 0, species)
    return replace(bird, values=_species_values(bird.species))


def split_attribute(attribute: str) -> tuple[str, str]:
    """Group and value of an attribute: `has_crown_color::red` -> (`crown_color`, `red`).

    Raises ValueError: an unknown name (with the nearest one).
    """
    place = _place_of(attribute.replace("--", "::"), ATTRIBUTES, "attribute")
    group, value = ATTRIBUTES[place].removeprefix("has_").split("::")
    return group, value


def substitute(bird: Individual, attribute: str) -> Individual:
    """The same individual with one attribute substituted; pose, place, light and background stay.

    (Another body shape sits elsewhere, and on another seat: then those change with it.) A substituted pattern
    keeps its two colours; where there was one, the markings take a darker or lighter tone of it. One of the
    three groups that follow from others (upper parts, underparts, primary colour) recolours the regions that
    it follows from.
    Raises ValueError: an unknown attribute.
    """
    group, value = split_attribute(attribute)
    recoloured = [MARKED[region][0] for region in FOLLOWS[group]] if group in FOLLOWS else [group]
    values = dict(bird.values)
    for name in recoloured:
        two_tone = name.endswith("color") and len(values[name]) > 1 and group not in FOLLOWS
        keeps_markings = two_tone and values[name][1] != value
        values[name] = (value, *values[name][1:]) if keeps_markings else (value,)
    return replace(bird, values=values)


def shuffled(bird: Individual, rng: np.random.Generator, share: float = 1.0) -> Individual:
    """The same individual with each of its drawn attribute groups set at random, with probability `share`.

    The value is one that some species has there (three in five) or any of the group's. With a share of 1 what
    such birds show can hardly be guessed from the species; only markings keep its color.
    """
    table = species_table()
    for group in GROUPS:
        if group not in FOLLOWS and rng.random() < share:
            usual = table.at[int(rng.integers(len(table))), group].split("/")[0]
            value = usual if rng.random() < 0.6 else rng.choice(GROUPS[group])
            bird = substitute(bird, f"has_{group}::{value}")
    return bird


def shown_colors(values: dict[str, tuple[str, ...]], region: str) -> tuple[str, ...]:
    """The colours of a marked region: the ground's, and the markings' where the pattern is not solid."""
    color, pattern, _ = MARKED[region]
    return values[color][:1] if values[pattern][0] == "solid" else values[color][:2]


def true_attributes(bird: Individual) -> np.ndarray:
    """Which of the 312 attributes a bird shows, (312,) bool, whether or not its picture lets them be seen."""
    shown = {group: set(values) for group, values in bird.values.items()}
    for region, (color, _, _) in MARKED.items():
        shown[color] = set(shown_colors(bird.values, region))
    for group in ("upperparts_color", "underparts_color"):
        shown[group] = set().union(*(shown_colors(bird.values, region) for region in FOLLOWS[group]))
    area: dict[str, float] = {}
    for region in FOLLOWS["primary_color"]:
        colors = shown_colors(bird.values, region)
        weights = (1.0,) if len(colors) == 1 else (0.6, 0.4)
        for color, weight in zip(colors, weights, strict=True):
            area[color] = area.get(color, 0.0) + weight * MARKED[region][2]
    largest = max(area.values())
    shown["primary_color"] = {color for color, share in area.items() if share >= 0.6 * largest}
    return np.array([value in shown[group] for group, values in GROUPS.items() for value in values])
