"""Scores of a substitution benchmark (sub, section 5.5, appendix F): is the changed attribute predicted?

Every score is computed from one table of predictions, bool (N, L), of L attributes on N images: of a
bottleneck, sigmoid >= 0.5; of a CLIP, the most similar attribute of each group (`group_argmax`).

    symbol   name                            shape
    S+       SubstitutionScores.s_plus       (N,), the substituted attribute is predicted
    S-       SubstitutionScores.s_minus      (N,), share of the removed attributes that are not predicted
    both     SubstitutionScores.both         (N,), the substituted one is predicted and no removed one
    T, T_A   concept_accuracy                (N,), share of the concepts predicted right on real images, of
                                             all concepts and of those of the benchmark
    recall   concept_recall                  (N,), share of the concepts present that are predicted
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from xaihelpers.datasets.attribute_names import normalise_attribute
from xaihelpers.datasets.dataset import DatasetError


def groups_of(attributes: Sequence[str]) -> np.ndarray:
    """The attribute group of each name, (L,) of str: has_crown_color::red -> has_crown_color."""
    group_of_name = {name: normalise_attribute(name).split("::")[0] for name in set(attributes)}
    return np.array([group_of_name[name] for name in attributes])


def group_argmax(similarities: torch.Tensor, attributes: Sequence[str]) -> torch.Tensor:
    """The attribute of each group that an image is most similar to, bool (N, L); ties go to the first.

    similarities: (N, L), of images and the texts of L attributes, whole groups of them.
    """
    groups = groups_of(attributes)
    predicted = torch.zeros(similarities.shape, dtype=torch.bool, device=similarities.device)
    rows = torch.arange(len(predicted), device=predicted.device)
    for group in dict.fromkeys(groups):
        columns = torch.from_numpy(np.flatnonzero(groups == group)).to(similarities.device)
        best = columns[similarities[:, columns].argmax(1)]
        predicted[rows, best] = True
    return predicted


def _same_group(targets: Sequence[str], attributes: Sequence[str]) -> torch.Tensor:
    """Which of L attributes are of the same group as each of N targets, bool (N, L)."""
    names, number = np.unique(np.asarray(targets, dtype=object).astype(str), return_inverse=True)
    return torch.from_numpy(groups_of(names)[:, None] == groups_of(attributes)[None])[number]


def columns_of(targets: Sequence[str], attributes: Sequence[str]) -> np.ndarray:
    """Column of each image's substituted attribute among L attributes, (N,), -1 where it is none of them.

    Raises DatasetError where no image's attribute is among them: the names are of another vocabulary.
    """
    column_of = {normalise_attribute(name): j for j, name in enumerate(attributes)}
    column_of_target = {target: column_of.get(normalise_attribute(target), -1) for target in set(targets)}
    columns = np.array([column_of_target[target] for target in targets], int)
    if len(columns) and (columns < 0).all():
        raise DatasetError(
            f"none of the {len(set(targets))} substituted attributes (first: {targets[0]!r}) is among the "
            f"model's {len(attributes)} (first: {attributes[0]!r}): are the names of one vocabulary?"
        )
    return columns


def removed_attributes(
    targets: Sequence[str],
    labels: Sequence[int] | torch.Tensor,
    class_labels: torch.Tensor,
    attributes: Sequence[str],
    first: bool = False,
) -> torch.Tensor:
    """What a substitution removes, bool (N, L): the other attributes of its group that the bird's class has.

    targets: N substituted attributes. labels: (N,), class of each image's bird.
    class_labels: (L, K) of 0 and 1, whether a class has an attribute.
    first: only the first of them, as the authors coded it.
    Raises DatasetError as `columns_of`.
    """
    removed = (class_labels > 0.5).T[torch.as_tensor(labels)] & _same_group(targets, attributes)
    columns = columns_of(targets, attributes)
    rows = np.flatnonzero(columns >= 0)
    removed[rows, columns[rows]] = False
    if first:
        removed &= removed.cumsum(1) == 1
    return removed


class SubstitutionScores(NamedTuple):
    """S+ and S- of N images, float32 in [0, 1], NaN where an image does not count."""

    # (N,), whether the substituted attribute is predicted; NaN where the model does not know it
    s_plus: torch.Tensor
    # (N,), share of the removed attributes not predicted; NaN where there is none, or `s_plus` is NaN
    s_minus: torch.Tensor

    @property
    def both(self) -> torch.Tensor:
        """(N,), whether the new attribute is predicted and every removed one is not; NaN where one is NaN."""
        counts = (self.s_plus + self.s_minus).isfinite()
        right = ((self.s_plus == 1) & (self.s_minus == 1)).float()
        return torch.where(counts, right, torch.nan)


def substitution_scores(
    predicted: torch.Tensor, targets: Sequence[str], removed: torch.Tensor, attributes: Sequence[str]
) -> SubstitutionScores:
    """S+ and S- of each image (section 5.5).

    predicted, removed: bool (N, L), removed of `removed_attributes`. targets: N substituted attributes.
    Raises DatasetError as `columns_of`.
    """
    columns = torch.from_numpy(columns_of(targets, attributes))
    known = columns >= 0
    added = predicted.gather(1, columns.clamp(min=0)[:, None])[:, 0].float()
    not_predicted = (removed & ~predicted).sum(1) / removed.sum(1)  # 0/0 is NaN: nothing was removed
    return SubstitutionScores(
        torch.where(known, added, torch.nan), torch.where(known, not_predicted, torch.nan)
    )


def chance_scores(
    targets: Sequence[str], removed: torch.Tensor, attributes: Sequence[str]
) -> SubstitutionScores:
    """S+ and S- of a random guess among the attributes of each group and none of them (appendix F).

    Of a group of |A| attributes, the guess is right about the one that is present with probability
    1 / (|A| + 1).
    """
    size = _same_group(targets, attributes).sum(1)
    guess = torch.where(size > 0, 1 / (size + 1), torch.nan)
    return SubstitutionScores(guess, torch.where(removed.any(1), 1 - guess, torch.nan))


def concept_accuracy(
    predicted: torch.Tensor, truth: torch.Tensor, attributes: Sequence[str], among: Sequence[str] = ()
) -> torch.Tensor:
    """Share of each image's concepts that are predicted right, float32 (N,): T, or T_A.

    predicted, truth: (N, L), truth of 0 and 1.
    among: the attributes of the benchmark, for T_A; all by default.
    Raises DatasetError: none of `among` is one of the L attributes.
    """
    columns = _columns_among(attributes, among)
    return (predicted[:, columns] == (truth[:, columns] > 0.5)).float().mean(1)


def concept_recall(
    predicted: torch.Tensor, truth: torch.Tensor, attributes: Sequence[str], among: Sequence[str] = ()
) -> torch.Tensor:
    """Share of each image's present concepts that are predicted, float32 (N,), NaN where none is present.

    This is what S+ is on an unchanged bird; T is higher, since most concepts of an image are absent.

    predicted, truth, among: as of `concept_accuracy`, whose errors it raises.
    """
    columns = _columns_among(attributes, among)
    present = truth[:, columns] > 0.5
    return (present & predicted[:, columns]).sum(1) / present.sum(1)


def _columns_among(attributes: Sequence[str], among: Sequence[str]) -> list[int]:
    """Columns of the attributes that are in `among`, all where it is empty."""
    wanted = {normalise_attribute(name) for name in among}
    columns = [j for j, name in enumerate(attributes) if not wanted or normalise_attribute(name) in wanted]
    if not columns:
        raise DatasetError(
            f"none of {sorted(wanted)[:3]} is among the model's {len(attributes)} attributes (first: "
            f"{attributes[0]!r}): are the names of one vocabulary?"
        )
    return columns
