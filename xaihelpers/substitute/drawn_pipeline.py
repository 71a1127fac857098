"""A text-to-image pipeline whose truth is known: the aviary's renderer, which fails as often as it is told.

Every step that judges generated images can be tried on it where each judgement can be checked. It is no
diffusion model: steps, guidance and ties change nothing, and it has no guides.

    what becomes of a species and an attribute that it lacks
    good                 the species with this attribute and nothing else changed
    nothing changed      the species as it is
    wrong part           the species with the attribute's value on another part
    wrong species        another species with the attribute
    blurred              a good one, blurred
    two things changed   a good one with one more part in another colour
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageFilter

from worlds.aviary import aviary_files, bird_renderer, individuals
from xaihelpers.datasets.attribute_names import known_attribute
from xaihelpers.datasets.dataset import class_name
from xaihelpers.models.attribute_reader import affected_groups
from xaihelpers.substitute.pairs import MAX_TRIES, NOT_SHOWN, SubstituteError, category, portrait_of

GOOD = "good"
# how often it fails, and how
FAILURES = {
    "nothing changed": 0.3,
    "wrong part": 0.1,
    "wrong species": 0.05,
    "blurred": 0.05,
    "two things changed": 0.1,
}
WORLD = 52  # seed of the birds, which no other notebook draws
LARGE_PARTS = ("crown", "throat", "nape", "back", "wing", "breast", "belly")
DRAWN = "drawn"  # key under which a PNG file holds what it shows


class Drawn(NamedTuple):
    """What a drawn image shows."""

    fate: str  # "good", or one of the failures
    bird: str  # the species that was drawn, in plain words
    truth: torch.Tensor  # (312,) bool, attributes that are there and to be seen


class DrawnPipeline:
    """Draws a bird with an attribute, or fails at known rates.

    failures: name of each of `FAILURES` -> its share of the images of a species with an attribute. What is
        left to 1 is good.
    unknown: species that it does not know: it draws the one most like them.
    Raises SubstituteError: shares below 0 or above 1 in sum. Raises ValueError: an unknown species.
    """

    def __init__(self, failures: Mapping[str, float] = FAILURES, unknown: Sequence[str] = ()):
        if not (min(failures.values(), default=0) >= 0 and sum(failures.values()) <= 1 + 1e-9):
            raise SubstituteError(
                f"failures are shares of the images, 0 or more and at most 1 together, not {dict(failures)}"
            )
        self.failures = dict(failures)
        self.unknown = frozenset(individuals.species_id(name) for name in unknown)
        key = json.dumps([self.failures, sorted(self.unknown), aviary_files.RENDERER_VERSION])
        self._fingerprint = hashlib.sha256(key.encode()).hexdigest()[:16]

    def draw(self, bird: str, attribute: str = "", seed: int = 0, size: int = 128) -> Image.Image:
        """An image of a bird, with an attribute that it lacks or as it is; it hangs on the seed alone.

        bird: a species of the aviary. attribute: `group::value`. size: side in pixels.
        Raises SubstituteError: no bird of the species that lacks the attribute would show it. Raises
            ValueError: an unknown species. Raises DatasetError: an unknown attribute.
        """
        rng, fate = np.random.default_rng([WORLD, seed]), GOOD
        attribute = known_attribute(attribute) if attribute else ""
        asked = np.array([name == attribute for name in individuals.ATTRIBUTES])  # (312,)
        species = individuals.species_id(bird)
        is_novel = asked.any() and not _usual(species)[asked].all()
        if is_novel:
            names, shares = [GOOD, *self.failures], list(self.failures.values())
            fate = str(rng.choice(names, p=np.array([max(0.0, 1 - sum(shares)), *shares])))
        all_species = range(len(individuals.species_table()))
        if fate == "wrong species":
            species = int(rng.choice([k for k in all_species if k != species]))
        elif species in self.unknown:  # the known one that shares most attributes with it
            usual, known = _usual(species), [k for k in all_species if k not in self.unknown]
            species = max(known, key=lambda k: (_usual(k) & usual).sum())
        for _ in range(MAX_TRIES):
            one = individuals.individual(WORLD, int(rng.integers(2**31)), species)
            if is_novel and fate != "wrong species" and individuals.true_attributes(one)[asked].all():
                continue  # a plain morph, say, that has it already
            changed, became = _changed(one, attribute, fate, rng)
            picture = bird_renderer.draw(changed)
            visible = aviary_files.is_visible(picture)
            if visible[asked].all():
                portrait = portrait_of(picture, size)
                if became == "blurred":
                    portrait = portrait.filter(ImageFilter.GaussianBlur(portrait.width / 32))
                shown = np.flatnonzero(individuals.true_attributes(changed) & visible).tolist()
                told = {"fate": became, "bird": _name(changed.species), "shown": shown}
                portrait.info[DRAWN] = json.dumps(told)
                return portrait
        raise SubstituteError(NOT_SHOWN.format(_name(species), attribute))


def read_drawn(file: str | Path) -> Drawn:
    """What an image of a `DrawnPipeline` shows, from its PNG file; KeyError for one of another origin."""
    with Image.open(file) as opened:
        content = json.loads(opened.info[DRAWN])
    truth = torch.zeros(len(individuals.ATTRIBUTES), dtype=torch.bool)
    truth[content["shown"]] = True
    return Drawn(content["fate"], content["bird"], truth)


def _changed(
    bird: individuals.Individual, attribute: str, fate: str, rng: np.random.Generator
) -> tuple[individuals.Individual, str]:
    """The bird with what is asked for, or as its fate has it; where a fate is impossible, the plainer one."""
    if not attribute or fate == "nothing changed":
        return bird, fate
    if fate == "wrong part":
        elsewhere = _on_another_part(bird, attribute, rng)
        return (elsewhere, fate) if elsewhere else (bird, "nothing changed")
    bird = individuals.substitute(bird, attribute)
    if fate == "two things changed":  # one more large part, of none that goes with the attribute
        spared = affected_groups(attribute)
        group = f"{rng.choice([part for part in LARGE_PARTS if f'{part}_color' not in spared])}_color"
        colors = [color for color in individuals.COLORS if color not in bird.values[group]]
        bird = individuals.substitute(bird, f"has_{group}::{rng.choice(colors)}")
    return bird, fate


def _on_another_part(
    bird: individuals.Individual, attribute: str, rng: np.random.Generator
) -> individuals.Individual | None:
    """The bird with the attribute's value on another part, itself absent; None where that is impossible."""
    group, value = individuals.split_attribute(attribute)
    column, before = individuals.ATTRIBUTES.index(attribute), individuals.true_attributes(bird)
    others = []
    for other, values in individuals.GROUPS.items():
        is_alike = category(other) == category(group) and value in values
        if is_alike and other != group and other not in individuals.FOLLOWS:
            others.append(other)
    for other in rng.permutation(others):
        changed = individuals.substitute(bird, f"has_{other}::{value}")
        after = individuals.true_attributes(changed)
        if not after[column] and (after != before).any():
            return changed
    return None


def _name(species: int) -> str:
    return class_name(individuals.species_table().at[species, "name"])


@cache
def _usual(species: int) -> np.ndarray:
    """What a species usually shows, (312,) bool."""
    return individuals.true_attributes(individuals.usual_individual(species))
