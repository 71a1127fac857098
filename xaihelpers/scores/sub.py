"""Scores of a substitution benchmark: is the new attribute seen (S+), is the removed one not (S-), and are concepts right on real images (T, T_A, recall)? (sub, section 5.5, appendix F)

Everything is told by one table of predictions, bool (N, L), over L attributes: of a bottleneck, sigmoid >= 0.5; of a vision-language model, the likest of each group (`group_argmax`).
"""
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..birds import BirdsError, normalise_attribute


def groups_of(attributes: Sequence[str]) -> np.ndarray:
    """The attribute group of each name, (L,) of str: has_crown_color::red -> has_crown_color."""
    of = {name: normalise_attribute(name).split("::")[0] for name in set(attributes)}
    return np.array([of[name] for name in attributes])


def group_argmax(similarities: torch.Tensor, attributes: Sequence[str]) -> torch.Tensor:
    """Which attribute of each group an image is likest to, bool (N, L), one a group; ties go to the first.

    similarities: (N, L) of images and the texts of L attributes, whole groups of them.
    """
    groups, chosen = groups_of(attributes), torch.zeros(similarities.shape, dtype=torch.bool, device=similarities.device)
    for group in dict.fromkeys(groups):
        columns = torch.from_numpy(np.flatnonzero(groups == group)).to(similarities.device)
        best = columns[similarities[:, columns].argmax(1)]
        chosen[torch.arange(len(chosen), device=chosen.device), best] = True
    return chosen


def _same_group(targets: Sequence[str], attributes: Sequence[str]) -> torch.Tensor:
    """Which of L attributes are of the same group as each target, bool (N, L)."""
    known, number = np.unique(np.asarray(targets, dtype=object).astype(str), return_inverse=True)
    return torch.from_numpy(groups_of(known)[:, None] == groups_of(attributes)[None])[number]


def columns_of(targets: Sequence[str], attributes: Sequence[str]) -> np.ndarray:
    """Where each image's substituted attribute lies among L attributes, (N,), -1 where it is none of them. Raises BirdsError if no image's is: other names, then."""
    place = {normalise_attribute(name): j for j, name in enumerate(attributes)}
    of = {target: place.get(normalise_attribute(target), -1) for target in set(targets)}
    found = np.array([of[target] for target in targets], int)
    if len(found) and (found < 0).all():
        raise BirdsError(f"none of the {len(set(targets))} substituted attributes (first: {targets[0]!r}) is among the model's {len(attributes)} (first: {attributes[0]!r}): "
                         "are the names of one vocabulary?")
    return found


def removed_attributes(targets: Sequence[str], labels: Sequence[int] | torch.Tensor, class_labels: torch.Tensor, attributes: Sequence[str], first: bool = False) -> torch.Tensor:
    """What a substitution removes: the other attributes of the target's group that the bird's class has, bool (N, L).

    labels: (N,) class of each image's bird. class_labels: (L, K) of 0 and 1, whether a class has an attribute. first: only the first of them, as the authors coded it.
    """
    removed = (class_labels > 0.5).T[torch.as_tensor(labels)] & _same_group(targets, attributes)
    rows = np.arange(len(targets))
    columns = columns_of(targets, attributes)
    removed[rows[columns >= 0], columns[columns >= 0]] = False
    return removed & (removed.cumsum(1) == 1) if first else removed


class SubstitutionScores(NamedTuple):
    """Of each image, in [0, 1], NaN where it does not count: whether the new attribute is predicted (S+), and the share of the removed ones that are not (S-)."""
    added: torch.Tensor  # (N,), NaN where the attribute is none of the model's
    removed: torch.Tensor  # (N,), NaN where nothing was removed that the model knows, or the attribute is none of the model's


def substitution_scores(predicted: torch.Tensor, targets: Sequence[str], removed: torch.Tensor, attributes: Sequence[str]) -> SubstitutionScores:
    """S+ and S- of each image (section 5.5): predicted and removed bool (N, L), targets the N substituted attributes. Raises BirdsError as `columns_of`."""
    columns = torch.from_numpy(columns_of(targets, attributes))
    known = columns >= 0
    added = predicted.gather(1, columns.clamp(min=0)[:, None])[:, 0].float()
    gone = (removed & ~predicted).sum(1) / removed.sum(1)  # 0/0 is NaN: nothing was removed
    return SubstitutionScores(torch.where(known, added, torch.nan), torch.where(known, gone, torch.nan))


def chance_scores(targets: Sequence[str], removed: torch.Tensor, attributes: Sequence[str]) -> SubstitutionScores:
    """The same of a guess among each group's attributes and none, 1 / (|A| + 1) to be right about what is there (appendix F)."""
    size = _same_group(targets, attributes).sum(1)
    guess = torch.where(size > 0, 1 / (size + 1), torch.nan)
    return SubstitutionScores(guess, torch.where(removed.any(1), 1 - guess, torch.nan))


def concept_accuracy(predicted: torch.Tensor, truth: torch.Tensor, attributes: Sequence[str], among: Sequence[str] = ()) -> torch.Tensor:
    """Share of each image's concepts that are predicted right, (N,): T, or T_A with the attributes of the benchmark in `among`."""
    columns = _among(attributes, among)
    return (predicted[:, columns] == (truth[:, columns] > 0.5)).float().mean(1)


def concept_recall(predicted: torch.Tensor, truth: torch.Tensor, attributes: Sequence[str], among: Sequence[str] = ()) -> torch.Tensor:
    """Share of each image's true concepts that are predicted, (N,), NaN where it has none: what S+ is of a bird as it is. T is higher, since most concepts of an image are false."""
    columns = _among(attributes, among)
    present = truth[:, columns] > 0.5
    return (present & predicted[:, columns]).sum(1) / present.sum(1)


def _among(attributes, among) -> list[int]:
    wanted = {normalise_attribute(name) for name in among}
    columns = [j for j, name in enumerate(attributes) if not wanted or normalise_attribute(name) in wanted]
    if not columns:
        raise BirdsError(f"none of {sorted(wanted)[:3]} is among the model's {len(attributes)} attributes (first: {attributes[0]!r}): are the names of one vocabulary?")
    return columns
