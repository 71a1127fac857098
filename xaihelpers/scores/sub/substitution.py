"""Scores of a substitution benchmark (sub, section 5.5, appendix F): is the changed attribute predicted?

    symbol   name                            shape
    S+       SubstitutionScores.s_plus       (..., N), the substituted attribute is predicted
    S-       SubstitutionScores.s_minus      (..., N), share of the removed attributes that are not predicted
    both     SubstitutionScores.both         (..., N), the substituted one is predicted and no removed one
    T, T_A   concept_accuracy                (..., N), share of the concepts predicted right on real images,
                                             of all concepts and of those of the benchmark

L attributes, N images; "..." may be the draws of a model.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xaihelpers.datasets.attribute_names import normalise_attribute
from xaihelpers.datasets.dataset import DatasetError, require_choice

RULES = ("threshold", "group")


def groups_of(attributes: Sequence[str]) -> np.ndarray:
    """The attribute group of each name, (L,) of str: has_crown_color::red -> has_crown_color."""
    return np.array([normalise_attribute(name).split("::")[0] for name in attributes])


def same_group(targets: Sequence[str], attributes: Sequence[str]) -> Tensor:
    """Which of L attributes are of the same group as each of N targets, bool (N, L)."""
    names, number = np.unique(np.array(targets, str), return_inverse=True)
    return torch.from_numpy(groups_of(names)[:, None] == groups_of(attributes))[number]


def own_attribute(targets: Sequence[str], attributes: Sequence[str]) -> Tensor:
    """Which of L attributes is each image's substituted one, bool (N, L); none where the model lacks it.

    Raises DatasetError where no image's attribute is among them: the names are of another vocabulary.
    """
    column_of = {normalise_attribute(name): column for column, name in enumerate(attributes)}
    columns = torch.tensor([column_of.get(normalise_attribute(target), -1) for target in targets])
    if len(columns) and columns.max() < 0:
        raise _other_vocabulary(targets, attributes)
    return columns[:, None] == torch.arange(len(attributes))


def _other_vocabulary(names: Sequence[str], attributes: Sequence[str]) -> DatasetError:
    return DatasetError(
        f"none of the attributes {sorted(set(names))[:3]} is among the model's {len(attributes)} (first: "
        f"{attributes[0]!r}): are the names of one vocabulary?"
    )


def group_argmax(similarities: Tensor, attributes: Sequence[str]) -> Tensor:
    """The attribute of each group that an image is most similar to, bool (..., L); ties go to the first.

    similarities: (..., L), of images and the texts of L attributes, whole groups of them.
    """
    groups = groups_of(attributes)
    predicted = torch.zeros_like(similarities, dtype=torch.bool)
    for group in dict.fromkeys(groups):
        columns = torch.from_numpy(np.flatnonzero(groups == group)).to(similarities.device)
        best = columns[similarities[..., columns].argmax(-1)]
        predicted.scatter_(-1, best[..., None], True)
    return predicted


def predicted_attributes(
    values: Tensor, concepts: Sequence[str], rule: str = "threshold", threshold: float = 0.5
) -> Tensor:
    """Which attributes are predicted, bool of the shape of `values`.

    values: (..., L), probabilities or, for the rule "group", any numbers to be compared.
    rule: "threshold" predicts what is at least `threshold`, as bottlenecks do (section 5.5); "group" the
        greatest of each attribute group, as vision-language models do (section 5.6).
    Raises DatasetError for another rule.
    """
    require_choice("rule", rule, RULES)
    return values >= threshold if rule == "threshold" else group_argmax(values, concepts)


def removed_attributes(
    targets: Sequence[str], labels: Sequence[int] | Tensor, class_labels: Tensor, attributes: Sequence[str]
) -> Tensor:
    """What a substitution removes, bool (N, L): the other attributes of its group that the bird's class has.

    targets: N substituted attributes. labels: (N,), class of each image's bird.
    class_labels: (L, K) of 0 and 1, whether a class has an attribute.
    Raises DatasetError where no target is among the attributes.
    """
    has = (class_labels > 0.5).T[torch.as_tensor(labels)]
    return has & same_group(targets, attributes) & ~own_attribute(targets, attributes)


class SubstitutionScores(NamedTuple):
    """S+ and S- of N images, float32 (..., N) in [0, 1], NaN where an image does not count."""

    # whether the substituted attribute is predicted; NaN where the model does not know it
    s_plus: Tensor
    # share of the removed attributes not predicted; NaN where there is none, or `s_plus` is NaN
    s_minus: Tensor

    @property
    def both(self) -> Tensor:
        """Whether the new attribute is predicted and no removed one; NaN where one of the two is."""
        right = ((self.s_plus == 1) & (self.s_minus == 1)).float()
        return right.where((self.s_plus + self.s_minus).isfinite(), torch.nan)


def substitution_scores(
    predicted: Tensor, targets: Sequence[str], removed: Tensor, attributes: Sequence[str]
) -> SubstitutionScores:
    """S+ and S- of each image (section 5.5).

    predicted: bool (..., N, L). targets: N substituted attributes. removed: (N, L), of `removed_attributes`.
    Raises DatasetError where no target is among the attributes.
    """
    own = own_attribute(targets, attributes)
    known = own.any(1)
    added = (predicted & own).any(-1).float()
    not_predicted = (removed & ~predicted).sum(-1) / removed.sum(1)  # 0/0 is NaN: nothing was removed
    return SubstitutionScores(added.where(known, torch.nan), not_predicted.where(known, torch.nan))


def chance_scores(targets: Sequence[str], removed: Tensor, attributes: Sequence[str]) -> SubstitutionScores:
    """S+ and S- of a random guess among the attributes of each group and none of them (appendix F).

    Of a group of |A| attributes, the guess is right about the one that is present with probability
    1 / (|A| + 1). The arguments as of `substitution_scores`.
    """
    size = same_group(targets, attributes).sum(1)
    guess = torch.where(size > 0, 1 / (size + 1), torch.nan)
    return SubstitutionScores(guess, (1 - guess).where(removed.any(1), torch.nan))


def concept_accuracy(
    predicted: Tensor, truth: Tensor, attributes: Sequence[str], among: Sequence[str] = ()
) -> Tensor:
    """Share of each image's concepts that are predicted right, float32 (..., N): T, or T_A.

    predicted: bool (..., N, L). truth: (N, L) of 0 and 1.
    among: the attributes of the benchmark, for T_A; all by default.
    Raises DatasetError: none of `among` is one of the L attributes.
    """
    columns = _columns_among(attributes, among)
    return (predicted[..., columns] == (truth[:, columns] > 0.5)).float().mean(-1)


def _columns_among(attributes: Sequence[str], among: Sequence[str]) -> list[int]:
    """Columns of the attributes that are in `among`, all where it is empty."""
    wanted = set(map(normalise_attribute, among or attributes))
    columns = [column for column, name in enumerate(attributes) if normalise_attribute(name) in wanted]
    if not columns:
        raise _other_vocabulary(among, attributes)
    return columns
