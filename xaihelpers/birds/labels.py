"""Concept labels of images and classes, hard (0/1) and soft (in [0, 1])."""
from collections.abc import Sequence

import pandas as pd
import torch

from .names import BirdsError, attribute_ids
from .reading import Birds

# How present an attribute is, by annotation (absent, present) and certainty (not visible, guessing, probably, definitely):
# the convention of concept bottleneck models, in which what is not visible is 0.
SOFT_LABEL = torch.tensor([[0.0, 0.5, 0.25, 0.0],
                           [0.0, 0.5, 0.75, 1.0]])
NOT_VISIBLE, DEFINITELY = 1, 4


def image_attributes(birds: Birds) -> tuple[torch.Tensor, torch.Tensor]:
    """Each image's attribute labels: present (N, A) bool and certainty (N, A) int8, 1 (not visible) to 4 (definitely).

    Where the birds were read with attributes="class", an image has its class's hard labels, definitely.
    """
    if birds.attribute_level == "class":
        present = _hard_class_attributes(birds)[birds.labels]
        return present, torch.full(present.shape, DEFINITELY, dtype=torch.int8)
    return birds.present, birds.certainty


def concept_labels(birds: Birds, concepts: Sequence[str | int] | pd.DataFrame, level: str = "image", kind: str = "hard") -> torch.Tensor:
    """Labels of the L `concepts` (names, 1-based ids, or a table like cbm_concepts()) for every image, (N, L) float32.

    `level`: "image" (the image's own annotation) or "class" (its class's, as in class_concepts). `kind`: "hard" is 0 or 1
    as annotated; "soft" weighs an image's annotation by its certainty: present 1, 0.75, 0.5 and absent 0, 0.25, 0.5 for
    definitely, probably, guessing; 0 where not visible. Raises BirdsError for an unknown concept.
    """
    _known("level", level, ("image", "class"))
    _known("kind", kind, ("hard", "soft"))
    if level == "class" or birds.attribute_level == "class":
        return class_concepts(birds, concepts, kind).T[birds.labels]
    columns = [key - 1 for key in attribute_ids(birds.attributes, concepts)]
    present = birds.present[:, columns]
    if kind == "hard":
        return present.float()
    return SOFT_LABEL[present.long(), birds.certainty[:, columns].long() - 1]


def class_concepts(birds: Birds, concepts: Sequence[str | int] | pd.DataFrame, kind: str = "soft") -> torch.Tensor:
    """Labels of the L `concepts` for every class, (L, K) float32: the matrix V of the alignment paper.

    `kind`: "soft" is the share of people in [0, 1], "hard" the majority over the class's training images, "absent" of
    what is not visible not counted and ties 1 (as CBMs do); without image labels, share >= 0.5.
    """
    _known("kind", kind, ("hard", "soft"))
    columns = [key - 1 for key in attribute_ids(birds.attributes, concepts)]
    values = birds.class_attributes if kind == "soft" else _hard_class_attributes(birds).float()
    return values[:, columns].T.contiguous()


def _hard_class_attributes(birds: Birds) -> torch.Tensor:
    """(K, A) bool: the majority of the training images' votes; without any image labels, share >= 0.5."""
    if birds.present is None:
        return birds.class_attributes >= 0.5
    train = torch.tensor(birds.images["train"].to_numpy())
    present, labels = birds.present[train], birds.labels[train]
    untaught = set(birds.classes["label"]) - set(labels.tolist())
    if untaught:
        name = birds.classes["name"].iloc[min(untaught)]
        raise BirdsError(f"class {name!r} has no training image, so no majority of attribute labels; use kind=\"soft\"")
    against = ~present & (birds.certainty[train] != NOT_VISIBLE)
    votes = torch.zeros(len(birds.classes), len(birds.attributes), dtype=torch.int64)
    votes.index_add_(0, labels, present.long() - against.long())
    return votes >= 0


def _known(name: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise BirdsError(f"{name} must be one of {', '.join(map(repr, choices))}, not {given!r}")
