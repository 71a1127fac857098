"""A text-to-image pipeline whose truth is known: the aviary's renderer, which fails as often as it is told.

It takes the prompts that the other pipelines take (`pair_prompts`) and is called as they are, so every step
that judges generated images can be tried where each judgement can be checked. It is no diffusion model:
steps, guidance and ties change nothing, and a guide hands nothing on.

    what becomes of a prompt for a species and an attribute that it lacks
    good                 the species with this attribute and nothing else changed
    nothing changed      the species as it is
    wrong part           the species with the attribute's value on another part
    wrong species        another species with the attribute
    blurred              a good one, blurred
    two things changed   a good one with one more part in another colour
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from PIL import Image, ImageFilter

from worlds.aviary import aviary_files, bird_renderer, individuals
from xaihelpers.datasets.attribute_names import phrase, with_article
from xaihelpers.datasets.dataset import class_name
from xaihelpers.substitute.attribute_reader import affected_groups
from xaihelpers.substitute.counterfactual import MAX_TRIES, portrait_of
from xaihelpers.substitute.pair_prompts import SHAPE_PARTS, SubstituteError, category

GOOD = "good"
# how often a prompt fails, and how
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


class _Asked(NamedTuple):
    species: int  # -1: any bird
    attributes: tuple[str, ...]  # none: the species as it is


class DrawnPipeline:
    """Draws what a prompt asks for, or fails at known rates; called like a pipeline of diffusers."""

    def __init__(
        self, failures: Mapping[str, float] = FAILURES, unknown: Sequence[str] = (), size: int = 128
    ):
        """A generator that draws.

        failures: name of a failure -> its share of the prompts for a species with an attribute. What is left
            to 1 is good.
        unknown: species that it does not know: it draws the one most like them. size: of its images.
        Raises SubstituteError: an unknown failure, shares below 0 or above 1 in sum.
        Raises ValueError: an unknown species.
        """
        if strange := [name for name in failures if name not in FAILURES]:
            raise SubstituteError(f"{strange[0]!r} is no failure; there are {', '.join(FAILURES)}")
        if min(failures.values(), default=0) < 0 or sum(failures.values()) > 1 + 1e-9:
            raise SubstituteError(
                f"failures are shares of the images, 0 or more and at most 1 together, not {dict(failures)}"
            )
        self.failures = dict(failures)
        self.unknown = frozenset(individuals.species_id(name) for name in unknown)
        self.scheduler = FlowMatchEulerDiscreteScheduler()  # to be tied as the others'; no step is taken
        self.components = {"scheduler": self.scheduler}
        self.vae = SimpleNamespace(config=SimpleNamespace(sample_size=size))
        key = json.dumps([self.failures, sorted(self.unknown), aviary_files.RENDERER_VERSION])
        self._fingerprint = hashlib.sha256(key.encode()).hexdigest()[:16]

    def __call__(
        self,
        prompt: Sequence[str],
        generator: Sequence[torch.Generator],
        height: int | None = None,
        width: int | None = None,
        num_inference_steps: int = 0,
        guidance_scale: float = 0.0,
    ) -> SimpleNamespace:
        """An image for each prompt, under `images`; what it shows depends on its generator's seed alone.

        height: the side of the images; width, steps and guidance are taken and not used.
        Raises SubstituteError: a prompt of none of the forms of `pair_prompts`, or for none of these birds.
        """
        size = height or self.vae.config.sample_size
        asked = [_read_prompt(text) for text in prompt]
        seeds = [one.initial_seed() for one in generator]
        images = [self._draw(one, seed, size) for one, seed in zip(asked, seeds, strict=True)]
        return SimpleNamespace(images=images)

    def _draw(self, asked: _Asked, seed: int, size: int) -> Image.Image:
        """One image that says in its `info` what it shows."""
        rng = np.random.default_rng([WORLD, seed])
        fate, species = GOOD, asked.species
        columns = [individuals.ATTRIBUTES.index(name) for name in asked.attributes]
        is_novel = bool(columns) and species >= 0 and not _usual(species)[columns].all()
        if is_novel:
            names, shares = [GOOD, *self.failures], list(self.failures.values())
            fate = str(rng.choice(names, p=np.array([max(0.0, 1 - sum(shares)), *shares])))
        if species < 0:
            species = int(rng.integers(len(individuals.species_table())))
        elif fate == "wrong species":
            species = int(rng.choice([k for k in range(len(individuals.species_table())) if k != species]))
        elif species in self.unknown:
            species = _most_like(species, self.unknown)
        for _ in range(MAX_TRIES):
            bird = individuals.individual(WORLD, int(rng.integers(2**31)), species)
            if is_novel and fate != "wrong species" and individuals.true_attributes(bird)[columns].all():
                continue  # a plain morph, say, that has it already
            changed, became = _changed(bird, asked.attributes, fate, rng)
            picture = bird_renderer.draw(changed)
            certainty = aviary_files.annotation_certainty(
                picture.parts, picture.points, np.random.default_rng(0)
            )
            visible = certainty > aviary_files.NOT_VISIBLE
            if visible[columns].all():
                return _finished(picture, became, changed, visible, size)
        raise SubstituteError(
            f"of {MAX_TRIES} birds of the species {_name(species)} none lacks {', '.join(asked.attributes)} "
            "and would show it: choose another bird or attribute"
        )


def read_drawn(image: Image.Image | str | Path) -> Drawn:
    """What an image of a `DrawnPipeline` shows, from the image itself or its PNG file.

    Raises SubstituteError: an image of another origin.
    """
    if not isinstance(image, Image.Image):
        with Image.open(image) as opened:
            return read_drawn(opened)
    try:
        content = json.loads(image.info[DRAWN])
    except (KeyError, ValueError) as error:
        raise SubstituteError(
            "this image does not say what it shows: only those of the drawn generator do"
        ) from error
    truth = torch.zeros(len(individuals.ATTRIBUTES), dtype=torch.bool)
    truth[content["shown"]] = True
    return Drawn(content["fate"], content["bird"], truth)


def _finished(
    picture, fate: str, bird: individuals.Individual, visible: np.ndarray, size: int
) -> Image.Image:
    """The portrait, blurred if that is its fate, with what it shows."""
    portrait = portrait_of(picture, size)
    if fate == "blurred":
        portrait = portrait.filter(ImageFilter.GaussianBlur(size / 32))
    shown = np.flatnonzero(individuals.true_attributes(bird) & visible).tolist()
    portrait.info[DRAWN] = json.dumps({"fate": fate, "bird": _name(bird.species), "shown": shown})
    return portrait


def _changed(
    bird: individuals.Individual, attributes: Sequence[str], fate: str, rng: np.random.Generator
) -> tuple[individuals.Individual, str]:
    """The bird with what is asked for, or as its fate has it; where a fate is impossible, the plainer one."""
    if not attributes or fate == "nothing changed":
        return bird, fate
    if fate == "wrong part":
        elsewhere = _on_another_part(bird, attributes[0], rng)
        return (elsewhere, fate) if elsewhere else (bird, "nothing changed")
    for attribute in attributes:
        bird = individuals.substitute(bird, attribute)
    if fate == "two things changed":
        return _one_more_changed(bird, attributes, rng), fate
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


def _one_more_changed(
    bird: individuals.Individual, attributes: Sequence[str], rng: np.random.Generator
) -> individuals.Individual:
    """The bird with another colour of one more large part, of none that goes with the attributes."""
    spared = set().union(*(affected_groups(attribute) for attribute in attributes))
    parts = [part for part in LARGE_PARTS if f"{part}_color" not in spared]
    group = f"{rng.choice(parts)}_color"
    colors = [color for color in individuals.COLORS if color not in bird.values[group]]
    return individuals.substitute(bird, f"has_{group}::{rng.choice(colors)}")


def _name(species: int) -> str:
    return class_name(individuals.species_table().at[species, "name"])


@cache
def _usual(species: int) -> np.ndarray:
    """What a species usually shows, (312,) bool."""
    return individuals.true_attributes(individuals.usual_individual(species))


@cache
def _most_like(species: int, left_out: frozenset[int]) -> int:
    """The species that shares most attributes with one, among those that are not left out."""
    others = [k for k in range(len(individuals.species_table())) if k != species and k not in left_out]
    return max(others, key=lambda k: (_usual(k) & _usual(species)).sum())


@cache
def _words() -> tuple[dict[str, int], dict[str, str]]:
    """Species by their names with an article, attributes by their phrases; both in small letters."""
    names = individuals.species_table()["name"]
    species = {with_article(class_name(name)).lower(): number for number, name in enumerate(names)}
    phrases = {phrase(name): name for name in reversed(individuals.ATTRIBUTES)}  # the first of those alike
    return {**species, "a bird": -1}, phrases


def _read_prompt(prompt: str) -> _Asked:
    """What one of the prompts of `pair_prompts` asks for. Raises SubstituteError."""
    species_of, attribute_of = _words()
    match = re.fullmatch(r"a photo of (?P<bird>.+?)(?: with (?P<rest>.+))?", prompt.strip())
    bird = match["bird"].lower() if match else ""
    if match and bird not in species_of:  # a guide may be of any species that ends so: "a Hummingbird"
        bird = next((name for name in species_of if name.endswith(f" {bird.split(' ', 1)[-1]}")), "")
    if bird not in species_of:
        raise SubstituteError(
            f"the drawn generator does not understand {prompt!r}: it takes “a photo of” a species of the "
            "aviary or a bird, alone or with one attribute as `pair_prompts` words it"
        )
    if not match["rest"]:
        return _Asked(species_of[bird], ())
    shape = re.fullmatch(r"the body of .+? and (?P<part>.+) like an? (?P<guide>.+)", match["rest"])
    if shape:
        return _Asked(species_of[bird], _as_of_guide(prompt, shape["part"], shape["guide"]))
    words = match["rest"].split(" like ")[0]
    if words not in attribute_of:
        raise SubstituteError(
            f"the drawn generator does not understand {words!r} in {prompt!r}: it is none of CUB's 312 "
            "attributes as `datasets.phrase` words them"
        )
    return _Asked(species_of[bird], (attribute_of[words],))


def _as_of_guide(prompt: str, part: str, guide: str) -> tuple[str, ...]:
    """The attributes of a part that a guide has: "a beak" like a "Hummingbird" is its shape and length."""
    table = individuals.species_table()
    named = [k for k in range(len(table)) if _name(k).lower().endswith(guide.lower())]
    groups = [group for group, words in SHAPE_PARTS.items() if words == part]
    if not named or not groups:
        raise SubstituteError(
            f"the drawn generator does not understand {prompt!r}: {part!r} is no part, or {guide!r} no "
            "species of the aviary"
        )
    values = individuals.usual_individual(named[0]).values
    return tuple(f"has_{group}::{values[group][0]}" for group in groups)
