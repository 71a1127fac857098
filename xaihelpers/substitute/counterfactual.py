"""Counterfactual pairs: an aviary bird drawn before and after one of its attributes is changed."""

from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from worlds.aviary import aviary_files, bird_renderer, individuals
from xaihelpers.datasets.attribute_names import known_attribute
from xaihelpers.datasets.images import crop_to_box
from xaihelpers.substitute.pair_prompts import SubstituteError

# individuals of a species that are tried: one in six is a plain morph, and a part may be hidden
MAX_TRIES = 50


class Counterfactual(NamedTuple):
    """One substitution, drawn."""

    before: bird_renderer.Picture
    after: bird_renderer.Picture
    truth: torch.Tensor  # (312,) bool, attributes of the bird after the substitution
    truth_before: torch.Tensor  # (312,) bool


def counterfactual_pair(seed: int, number: int, bird: str, attribute: str) -> Counterfactual:
    """An individual that lacks an attribute and the same one with it, where the part that has it is visible.

    seed: of the birds.
    number: which bird, from 0; it is the same individual for every attribute that it lacks and whose part is
        visible.
    bird: a species of the aviary. attribute: `group::value`.
    Raises SubstituteError: a species all of whose birds have the attribute.
    Raises DatasetError: an unknown attribute.
    Raises ValueError: an unknown species.
    """
    attribute = known_attribute(attribute)
    column = individuals.ATTRIBUTES.index(attribute)
    for attempt in range(MAX_TRIES):
        individual = individuals.individual(seed, number + 1_000_000 * attempt, bird)
        if individuals.true_attributes(individual)[column]:
            continue
        changed = individuals.substitute(individual, attribute)
        after = bird_renderer.draw(changed)
        rng = np.random.default_rng(0)
        certainty = aviary_files.annotation_certainty(after.parts, after.points, rng)
        if certainty[column] > 1:
            before = bird_renderer.draw(individual)
            truth = torch.from_numpy(individuals.true_attributes(changed))
            truth_before = torch.from_numpy(individuals.true_attributes(individual))
            return Counterfactual(before, after, truth, truth_before)
    raise SubstituteError(
        f"of {MAX_TRIES} birds of the species {bird} none lacks {attribute} and would show it: choose "
        "another bird or attribute"
    )


def portrait_of(picture: bird_renderer.Picture, size: int) -> Image.Image:
    """The bird cut out of its picture, `size` x `size` pixels."""
    cut = crop_to_box(Image.fromarray(picture.image), picture.box)
    return cut.resize((size, size), Image.Resampling.LANCZOS)
