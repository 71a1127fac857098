"""Counterfactual pairs: an aviary bird drawn before and after one of its attributes is changed."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from worlds.aviary import aviary_files, bird_renderer, individuals
from xaihelpers.datasets.attribute_names import known_attribute
from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.images import crop_to_box
from xaihelpers.datasets.labels import class_concepts
from xaihelpers.datasets.sub_benchmark import write_sub
from xaihelpers.substitute.pair_prompts import SubstituteError, group_of, substitutable

# individuals of a species that are tried: one in six is a plain morph, and a part may be hidden
MAX_TRIES = 50


class Counterfactual(NamedTuple):
    """One substitution, drawn."""

    before: bird_renderer.Picture
    after: bird_renderer.Picture
    truth: torch.Tensor  # (312,) bool, attributes of the bird after the substitution
    truth_before: torch.Tensor  # (312,) bool


def not_shown(bird: str, attribute: str) -> SubstituteError:
    """What is raised where none of the birds that were tried will do."""
    return SubstituteError(
        f"of {MAX_TRIES} birds of the species {bird} none lacks {attribute} and would show it: choose "
        "another bird or attribute"
    )


def counterfactual_pair(seed: int, number: int, bird: str, attribute: str) -> Counterfactual:
    """An individual that lacks an attribute and the same one with it, where the part that has it is visible.

    seed: of the birds.
    number: which bird, from 0; it is the same individual for every attribute that it lacks and whose part is
        visible.
    bird: a species of the aviary. attribute: `group::value`.
    Raises SubstituteError: a species all of whose birds have the attribute. Raises DatasetError: an unknown
        attribute. Raises ValueError: an unknown species.
    """
    attribute = known_attribute(attribute)
    column = individuals.ATTRIBUTES.index(attribute)
    for attempt in range(MAX_TRIES):
        individual = individuals.individual(seed, number + 1_000_000 * attempt, bird)
        truth_before = individuals.true_attributes(individual)
        if truth_before[column]:
            continue
        changed = individuals.substitute(individual, attribute)
        after = bird_renderer.draw(changed)
        if aviary_files.is_visible(after)[column]:
            truth = [torch.from_numpy(of) for of in (individuals.true_attributes(changed), truth_before)]
            return Counterfactual(bird_renderer.draw(individual), after, *truth)
    raise not_shown(bird, attribute)


def portrait_of(picture: bird_renderer.Picture, size: int) -> Image.Image:
    """The bird cut out of its picture, `size` x `size` pixels."""
    cut = crop_to_box(Image.fromarray(picture.image), picture.box)
    return cut.resize((size, size), Image.Resampling.LANCZOS)


def write_exact(
    folder: str | Path, world: Dataset, attributes: Sequence[str], n: int, seed: int = 0
) -> list[tuple[Image.Image, Image.Image]]:
    """Write n exact substitutions as a benchmark, of `write_sub`, with before and removed.

    Each is a species and one of the attributes that it lacks and could show, drawn at random. What is gone is
    read off the renderer, in the group that was changed.

    world: a drawn one. attributes: names (group::value) that may be given.
    Returns the n birds cut out of their pictures, 64 x 64 pixels, after and before.
    Raises DatasetError for a world that is not drawn or n below 1, and as `counterfactual_pair` does.
    """
    if not world.drawn or n < 1:
        raise DatasetError(
            f"{n} exact substitutions of {world.name}: 1 or more can be drawn, of a drawn world; else name a "
            "benchmark of substituted birds"
        )
    names = world.attributes["name"].tolist()
    takes = substitutable(world) & (class_concepts(world, names, "hard").T < 0.5)
    takes = takes[:, [names.index(name) for name in attributes]].numpy()
    chosen = np.random.default_rng([seed, 53]).choice(np.argwhere(takes), n)
    birds = [world.class_names[species] for species, _ in chosen]
    given = [attributes[column] for _, column in chosen]
    pairs, removed = [], []
    for row, (bird, attribute) in enumerate(zip(birds, given, strict=True)):
        pair = counterfactual_pair(9000 + seed, row, bird, attribute)
        lost = [names[column] for column in (pair.truth_before & ~pair.truth).nonzero()[:, 0]]
        removed.append([name for name in lost if group_of(name) == group_of(attribute)])
        pairs.append(pair)
    after = [Image.fromarray(pair.after.image) for pair in pairs]
    before = [Image.fromarray(pair.before.image) for pair in pairs]
    write_sub(folder, after, given, birds, attributes, world.class_names, before=before, removed=removed)
    return [(portrait_of(pair.after, 64), portrait_of(pair.before, 64)) for pair in pairs]
