"""Exact substitutions: an aviary bird drawn before and after one of its attributes is changed, with the truth about both."""
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from .. import aviary
from ..birds import crop_to_box
from .prompts import SubstituteError, known_attribute

TRIES = 50  # individuals of a species that are looked at: one in six is a plain morph, and a part may be hidden


class Exact(NamedTuple):
    """One substitution, drawn."""
    before: aviary.Picture
    after: aviary.Picture
    truth: torch.Tensor  # (312,) bool, what the bird has afterwards


def exact(seed: int, number: int, bird: str, attribute: str) -> Exact:
    """An individual that has not the attribute, and the same one with it, its part to be seen.

    seed: of the birds. number: which bird, from 0; the same one for every attribute that it lacks and that can be seen of it. bird: a species of the aviary. attribute: `group::value`.
    Raises SubstituteError: an unknown attribute, a species all of whose birds have it. ValueError: an unknown species.
    """
    column = aviary.ATTRIBUTES.index(known_attribute(attribute))
    for again in range(TRIES):
        individual = aviary.individual(seed, number + 1_000_000 * again, bird)
        if aviary.true_attributes(individual)[column]:
            continue
        changed = aviary.substitute(individual, attribute)
        after = aviary.draw(changed)
        if aviary.certainties(after.parts, after.points, np.random.default_rng(0))[column] > 1:
            return Exact(aviary.draw(individual), after, torch.from_numpy(aviary.true_attributes(changed)))
    raise SubstituteError(f"of {TRIES} birds of the species {bird} none lacks {attribute} and would show it: choose another bird or attribute")


def portrait(picture: aviary.Picture, size: int) -> Image.Image:
    """The bird cut out of its picture, `size` x `size` pixels."""
    return crop_to_box(Image.fromarray(picture.image), picture.box).resize((size, size), Image.Resampling.LANCZOS)
