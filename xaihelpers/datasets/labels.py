"""Concept labels of images and classes, hard (0/1) and soft (in [0, 1])."""

from collections.abc import Sequence

import torch

from xaihelpers.datasets import attribute_names as names
from xaihelpers.datasets.cub import NOT_VISIBLE
from xaihelpers.datasets.dataset import Dataset, DatasetError, require_annotations, require_choice
from xaihelpers.paths import find
from xaihelpers.text_files import places, read_names, require_distinct

# How present an attribute is, by annotation (absent, present) and certainty (not visible, guessing, probably,
# definitely): the convention of concept bottleneck models, in which what is not visible is 0.
SOFT_LABEL = torch.tensor([[0.0, 0.5, 0.25, 0.0], [0.0, 0.5, 0.75, 1.0]])
DEFINITELY = 4


def image_attributes(data: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Each image's labels: present (N, A) bool and certainty (N, A) int8, 1 not visible … 4 definitely.

    Where the data were read with attributes="class", an image has its class's hard labels, definitely.
    Raises DatasetError: a data set without attributes; for one of class labels, as `class_concepts` does.
    """
    require_annotations(data)
    if data.attribute_level == "class":
        present = _hard_class_attributes(data)[data.labels]
        return present, torch.full(present.shape, DEFINITELY, dtype=torch.int8)
    return data.present, data.certainty


def choose_concepts(data: Dataset, concepts: str = "auto") -> list[str]:
    """The names of the attributes that are taken as concepts.

    concepts: "cbm" for the 112 of bottleneck models on CUB, "all" for every attribute, "auto" for the 112
        where the data set has them and every attribute elsewhere; or a text file of attributes, one a line,
        as `find_attributes` knows them (a path, or a name under XAI_DATA).
    Raises DatasetError: a data set without attributes, no such file, an unknown attribute. Raises
        TextFileError for one that stands twice, and as `read_names`.
    """
    require_annotations(data)
    held = data.attributes["name"]
    cbm = names.cbm_concepts()["name"]
    if concepts == "all" or (concepts == "auto" and not cbm.isin(held).all()):
        return held.tolist()
    if concepts in ("cbm", "auto"):
        wanted = cbm.tolist()
    else:
        file = find(concepts)
        if file is None:
            raise DatasetError(
                f"concepts {concepts!r} are none of cbm, all and auto, and no such file is there"
            )
        given = read_names(file)
        found = names.find_attributes(given, held)
        wanted = [attribute or name for attribute, name in zip(found, given, strict=True)]
        require_distinct(wanted, f"concepts of {concepts}")
    return held.iloc[_columns(data, wanted)].tolist()


def concept_labels(
    data: Dataset, concepts: Sequence[str], level: str = "image", kind: str = "hard"
) -> torch.Tensor:
    """Labels of L concepts for every image, (N, L) float32.

    level: "image" (the image's own annotation) or "class" (its class's, as in `class_concepts`).
    kind: "hard" is 0 or 1 as annotated; "soft" weighs an image's annotation by its certainty: present 1,
        0.75, 0.5 and absent 0, 0.25, 0.5 for definitely, probably, guessing; 0 where not visible.
    Raises DatasetError: a data set without attributes, an unknown concept, level or kind.
    """
    require_choice("level", level, ("image", "class"))
    require_choice("kind", kind, ("hard", "soft"))
    columns = _columns(data, concepts)
    if level == "class" or data.attribute_level == "class":
        return class_concepts(data, concepts, kind).T[data.labels]
    present = data.present[:, columns]
    if kind == "hard":
        return present.float()
    return SOFT_LABEL[present.long(), data.certainty[:, columns].long() - 1]


def class_concepts(data: Dataset, concepts: Sequence[str], kind: str = "soft") -> torch.Tensor:
    """Labels of L concepts for every class, (L, K) float32: the matrix V of the alignment paper.

    kind: "soft" is the share of people in [0, 1]. "hard" is the majority over the class's training images, in
        which "absent" is not counted where the part is not visible, and ties are 1 (as concept bottleneck
        models do); without image labels it is share >= 0.5.
    Raises DatasetError: a data set without attributes, an unknown concept or kind, a class without training
        images.
    """
    require_choice("kind", kind, ("hard", "soft"))
    columns = _columns(data, concepts)
    values = data.class_attributes if kind == "soft" else _hard_class_attributes(data).float()
    return values[:, columns].T.contiguous()


def _columns(data: Dataset, concepts: Sequence[str]) -> list[int]:
    """The columns, from 0, of concepts among the attributes of a data set."""
    require_annotations(data)
    held = data.attributes["name"]
    columns, missing = places(list(map(names.normalise_attribute, concepts)), held)
    if missing:
        raise names.unknown_name("attribute", missing[0], held)
    return columns


def _hard_class_attributes(data: Dataset) -> torch.Tensor:
    """(K, A) bool: the majority of the training images' votes; without any image labels, share >= 0.5."""
    if data.present is None:
        return data.class_attributes >= 0.5
    train = data.train
    present, labels = data.present[train], data.labels[train]
    without_images = set(data.classes["label"]) - set(labels.tolist())
    if without_images:
        name = data.classes["name"].iloc[min(without_images)]
        raise DatasetError(f'class {name!r} has no training image, so no majority: use kind="soft"')
    against = ~present & (data.certainty[train] != NOT_VISIBLE)
    votes = torch.zeros(len(data.classes), len(data.attributes), dtype=torch.int64)
    votes.index_add_(0, labels, present.long() - against.long())
    return votes >= 0
