"""Scores of a substitution benchmark (sub, section 5.5, appendix F): is the changed attribute predicted?

    S+           the substituted attribute is predicted
    S-           share of the removed attributes that are not predicted

Beside these stands what the two alone do not say (not in the paper):

    both         the new attribute is predicted and no removed one
    false alarms the new attribute is predicted of the bird *before* the change
    gain         S+ less the false alarm on the same bird
    AUC          how many images that lack the attribute are less probable to have it
    rise         the new attribute is more probable after the change than before

N images, L attributes (group::value), D draws of a model, trained alike but for the seed. `images` are N rows
with the columns attribute, the substituted one, bird, and label, of the bird's class.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.scores.intervals import PERCENT, Interval, over_draws

FOLLOW = ("has_primary_color", "has_upperparts_color", "has_underparts_color")  # from colours of parts


def groups_of(attributes: Sequence[str]) -> np.ndarray:
    """The attribute group of each name, (L,) of str: has_crown_color::red -> has_crown_color."""
    return np.array([name.split("::")[0] for name in attributes])


def same_group(targets: Sequence[str], attributes: Sequence[str]) -> Tensor:
    """Which of L attributes are of the same group as each of N targets, bool (N, L)."""
    number, groups = pd.factorize(groups_of(attributes))
    of_targets = pd.Index(groups).get_indexer(groups_of(targets))  # -1 of another group
    return torch.from_numpy(of_targets[:, None] == number)


def own_attribute(targets: Sequence[str], attributes: Sequence[str]) -> Tensor:
    """Which of L attributes is each image's substituted one, bool (N, L); none where the model lacks it.

    Raises DatasetError where no image's attribute is among them.
    """
    columns = torch.from_numpy(pd.Index(attributes).get_indexer(targets))
    if len(columns) and columns.max() < 0:
        raise DatasetError(
            f"none of the attributes {sorted(set(targets))[:3]} is among the model's {len(attributes)} "
            f"(first: {attributes[0]!r}): are the names of one vocabulary?"
        )
    return columns[:, None] == torch.arange(len(attributes))


def group_argmax(similarities: Tensor, attributes: Sequence[str]) -> Tensor:
    """The attribute of each group that an image is most similar to, bool (..., L); ties go to the first.

    similarities: (..., L), of images and the texts of L attributes, whole groups of them.
    """
    predicted = torch.zeros_like(similarities, dtype=torch.bool)
    for columns in pd.Series(range(len(attributes))).groupby(groups_of(attributes)).indices.values():
        columns = torch.from_numpy(columns).to(similarities.device)
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

    Raises ValueError: another rule.
    """
    if rule not in ("threshold", "group"):
        raise ValueError(f'rule must be "threshold" or "group", not {rule!r}')
    return values >= threshold if rule == "threshold" else group_argmax(values, concepts)


def removed_attributes(images: pd.DataFrame, class_labels: Tensor, attributes: Sequence[str]) -> Tensor:
    """What a substitution removes, bool (N, L): the other attributes of its group that the bird's class has.

    class_labels: (L, K) of 0 and 1, whether a class has an attribute.
    """
    has = (class_labels > 0.5).T[torch.tensor(images.label.tolist())]
    targets = images.attribute.tolist()
    return has & same_group(targets, attributes) & ~own_attribute(targets, attributes)


def lacking(images: pd.DataFrame, class_labels: Tensor, concepts: Sequence[str], changed: bool) -> Tensor:
    """Which concepts N birds certainly lack, bool (N, L): those that their class lacks.

    class_labels: (L, K) of 0 and 1.
    changed: of the birds after the change, which may have anything in the group that was changed.
    """
    absent = (class_labels <= 0.5).T[torch.tensor(images.label.tolist())]
    return absent & ~same_group(images.attribute.tolist(), concepts) if changed else absent


class SubstitutionScores(NamedTuple):
    """S+ and S- of N images, float32 (..., N) in [0, 1], NaN where an image does not count."""

    s_plus: Tensor  # NaN where the model does not know the substituted attribute
    s_minus: Tensor  # NaN where nothing was removed, or `s_plus` is NaN


def substitution_scores(
    predicted: Tensor, targets: Sequence[str], removed: Tensor, attributes: Sequence[str]
) -> SubstitutionScores:
    """S+ and S- of each image (section 5.5).

    predicted: bool (..., N, L). targets: N substituted attributes. removed: bool (N, L).
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
    """Share of each image's concepts that are predicted right, float32 (..., N): T, or T_A of some of them.

    predicted: bool (..., N, L). truth: (N, L) of 0 and 1. among: the attributes of the benchmark, for T_A.
    """
    columns = np.isin(attributes, list(among or attributes))
    return (predicted[..., columns] == (truth[:, columns] > 0.5)).float().mean(-1)


def image_scores(
    values: Tensor,
    images: pd.DataFrame,
    removed: Tensor,
    concepts: Sequence[str],
    before: Tensor | None = None,
    absent: Tensor | None = None,
    rule: str = "threshold",
    threshold: float = 0.5,
) -> dict[str, np.ndarray]:
    """S+, S-, both, and where it can be told false alarms, gain and AUC: each (D, N) in %.

    NaN where an image does not count: its attribute is none of the concepts, or nothing is removed from it.

    values: (D, N, L), probabilities of the concepts after the change. removed: bool (N, L).
    before: (D, N, L), of the same birds before the change.
    absent: bool, of `lacking`: which concepts the birds of `before`, or without them those of `values`, lack.
    rule, threshold: of `predicted_attributes`.
    """
    targets = images.attribute.tolist()
    predicted = predicted_attributes(values, concepts, rule, threshold)
    s_plus, s_minus = substitution_scores(predicted, targets, removed, concepts)
    both = ((s_plus == 1) & (s_minus == 1)).float()
    found = {"S+": s_plus, "S-": s_minus, "both": both.where((s_plus + s_minus).isfinite(), torch.nan)}
    if before is not None:
        predicted = predicted_attributes(before, concepts, rule, threshold)
        found["false alarms"] = substitution_scores(predicted, targets, removed, concepts).s_plus
        found["gain"] = s_plus - found["false alarms"]
    if absent is not None:
        others = values if before is None else before
        found["AUC"] = _rank_above_absent(values, others, absent, own_attribute(targets, concepts))
    return {name: 100 * scores.double().numpy() for name, scores in found.items()}


def _rank_above_absent(values: Tensor, others: Tensor, absent: Tensor, own: Tensor) -> Tensor:
    """Share of the images without an image's attribute for which it is less probable, float (D, N).

    Ties count half, so the mean is the area under the ROC curve, attribute by attribute, in the benchmark's
    mix. NaN where none is known to lack the attribute.

    values: (D, N, L). others: (D, M, L), of other images. absent: bool (M, L). own: bool (N, L).
    """
    ranks = torch.full(values.shape[:2], torch.nan)
    for column in own.any(0).nonzero()[:, 0].tolist():
        without = others[:, absent[:, column], column].sort().values  # (D, m)
        mine = values[:, own[:, column], column].contiguous()
        below = torch.searchsorted(without, mine) + torch.searchsorted(without, mine, right=True)
        ranks[:, own[:, column]] = below.float() / (2 * without.shape[1])  # 0/0 is NaN
    return ranks


def paired_rise(
    before: Tensor, after: Tensor, images: pd.DataFrame, concepts: Sequence[str], absent: Tensor
) -> dict[str, np.ndarray]:
    """Whether the new attribute is more probable after the change than before: "rise", (D, N) in %.

    Beside it the mean of the same over attributes that the bird lacks both times: "rise of absent", the
    others of the group, rise as well where a model notices a change and not which; "rise elsewhere", the same
    value of other parts, where it notices a colour and not whose. These are parts of which the images have
    that value substituted, so that who knows the benchmark's list of attributes has nothing of it. Ties count
    half; NaN where an image's attribute is none of the concepts, and where there is no other.

    before, after: (D, N, L), probabilities. absent: bool (N, L), what the birds lack before and after.
    """
    targets = images.attribute.tolist()
    own = own_attribute(targets, concepts)
    of_group, known = same_group(targets, concepts), absent & ~own & own.any(1, keepdim=True)
    values = (np.array([name.partition("::")[2] for name in names]) for names in (targets, concepts))
    of_parts = (~np.isin(groups_of(names), FOLLOW) for names in (targets, concepts))
    alike = np.equal.outer(*values) & np.logical_and.outer(*of_parts)
    elsewhere = known & ~of_group & torch.from_numpy(alike & np.isin(concepts, targets))
    rises = 50 + 50 * (after - before).sign()
    chosen = {"rise": own, "rise of absent": known & of_group, "rise elsewhere": elsewhere}
    return {name: ((rises * some).sum(2).double() / some.sum(1)).numpy() for name, some in chosen.items()}


def clusters(images: pd.DataFrame) -> list[np.ndarray]:
    """Which images belong together: arrays (N,), their attribute and their bird, crossed.

    What is the same for all images is left out, where the other is not.
    """
    codes = [pd.factorize(images[column])[0] for column in ("attribute", "bird")]
    return [one for one in codes if one.max(initial=0) > 0] or codes[:1]


def score_interval(scores: np.ndarray, images: pd.DataFrame, metric: str = "S+") -> Interval:
    """The mean of scores (D, N) in %, with attributes, birds and draws in its interval.

    metric: "gain" is from -100 on, any other from 0.
    """
    return over_draws(scores, clusters(images), bounds=(-100, 100) if metric == "gain" else PERCENT)
