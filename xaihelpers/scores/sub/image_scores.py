"""What single images contribute to the scores of a substitution benchmark, from a model's probabilities.

Beside S+ and S- (sub, section 5.5) stand what these two alone do not say. All are in %:

    both         the new attribute is predicted and no removed one
    false alarms the new attribute is predicted of the bird *before* the change
    gain         S+ less the false alarm on the same bird
    AUC          how many images that lack the attribute are less probable to have it
    rise         the new attribute is more probable after the change than before

D draws of a model are trained alike but for the seed. L concepts, N images. Images of one attribute and of
one bird belong together; the images of a pair are those of both (`clusters`).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from xaihelpers.datasets.attribute_names import cbm_concepts
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.scores.sub.substitution import (
    own_attribute,
    predicted_attributes,
    same_group,
    substitution_scores,
)

SCORINGS = ("authors'", "corrected")


def clusters(images: pd.DataFrame) -> list[np.ndarray]:
    """Which images belong together: arrays (N,), their attribute and their bird, crossed.

    Of what is the same for all images there is nothing to be drawn again: it is left out, where the other is
    left.

    images: N rows with the columns attribute and bird.
    """
    codes = [pd.factorize(images[column])[0] for column in ("attribute", "bird")]
    return [one for one in codes if one.max(initial=0) > 0] or codes[:1]


def score_interval(scores: np.ndarray, images: pd.DataFrame, metric: str = "S+") -> Interval:
    """The mean of scores (D, N) in %, with attributes, birds and draws in its interval.

    images: N rows with the columns attribute and bird. metric: "gain" is from -100 on, any other from 0.
    """
    n_draws = len(scores)
    factors = [np.tile(one, n_draws) for one in clusters(images)]
    draws = np.arange(n_draws).repeat(len(images)) if n_draws > 1 else None
    bounds = (-100, 100) if metric == "gain" else PERCENT
    return interval(scores, clusters=factors, draws=draws, bounds=bounds)


def lacking(images: pd.DataFrame, class_labels: Tensor, concepts: Sequence[str], changed: bool) -> Tensor:
    """Which concepts N birds certainly lack, bool (N, L): those that their class lacks.

    images: with the columns attribute and label, of the bird's class. class_labels: (L, K) of 0 and 1.
    changed: of the birds after the change, which may have anything in the group that was changed.
    """
    absent = (class_labels <= 0.5).T[torch.as_tensor(images.label.tolist())]
    return absent & ~same_group(images.attribute.tolist(), concepts) if changed else absent


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

    values: (D, N, L), probabilities of the concepts after the change.
    images: N rows with the column attribute. removed: bool (N, L), of `removed_attributes`.
    before: (D, N, L), of the same birds before the change.
    absent: bool, of `lacking`: which concepts the birds of `before`, or without them those of `values`, lack.
    rule, threshold: of `predicted_attributes`.
    Raises DatasetError: another rule; no image's attribute is among the concepts.
    """
    targets = images.attribute.tolist()

    def scored(probabilities):
        predicted = predicted_attributes(probabilities, concepts, rule, threshold)
        return substitution_scores(predicted, targets, removed, concepts)

    after = scored(values)
    found = {"S+": after.s_plus, "S-": after.s_minus, "both": after.both}
    if before is not None:
        found["false alarms"] = scored(before).s_plus
        found["gain"] = found["S+"] - found["false alarms"]
    if absent is not None:
        others = values if before is None else before
        found["AUC"] = _rank_above_absent(values, others, absent, own_attribute(targets, concepts))
    return {name: 100 * scores.double().numpy() for name, scores in found.items()}


def _rank_above_absent(values: Tensor, others: Tensor, absent: Tensor, own: Tensor) -> Tensor:
    """Share of the images without an image's attribute for which it is less probable, float (D, N).

    Ties count half, so the mean is the area under the ROC curve, attribute by attribute, no threshold chosen,
    in the benchmark's mix of attributes. NaN where no image is known to lack the attribute.

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
    before: Tensor,
    after: Tensor,
    images: pd.DataFrame,
    concepts: Sequence[str],
    absent: Tensor | None = None,
) -> dict[str, np.ndarray]:
    """Whether the new attribute is more probable after the change than before: "rise", (D, N) in %.

    Ties count half; NaN where an image's attribute is none of the concepts.
    With `absent` also "rise of absent", the blind comparison: the mean of the same over the other attributes
    of the group that the bird lacks both times, which rise as well where a model notices a change and not
    which; NaN where there is none.

    before, after: (D, N, L), probabilities of the concepts. images: N rows with the column attribute.
    absent: bool (N, L), what the birds lack before and after, for instance `lacking` with changed=False.
    Raises DatasetError where no image's attribute is among the concepts.
    """
    targets = images.attribute.tolist()
    own = own_attribute(targets, concepts)
    chosen = {"rise": own}
    if absent is not None:
        known = own.any(1, keepdim=True)
        chosen["rise of absent"] = absent & same_group(targets, concepts) & ~own & known
    rises = 50 + 50 * (after - before).sign()
    return {name: ((rises * some).sum(2).double() / some.sum(1)).numpy() for name, some in chosen.items()}


def both_scorings(
    values: Tensor,
    images: pd.DataFrame,
    removed: Tensor,
    removed_by_class: Tensor,
    concepts: Sequence[str],
    **more,
) -> dict[str, dict[str, np.ndarray]]:
    """`image_scores` as the authors score, and corrected: by scoring, then as of `image_scores`.

    The authors know the 112 concepts of bottlenecks alone: they count the images whose attribute is among
    them, and of those that are removed by the label of the class the first. Corrected, every attribute counts
    that the model knows, and all that is removed.

    removed: bool (N, L), what is gone. removed_by_class: bool (N, L), what is gone by the label of the class.
    more: before, absent, rule, threshold of `image_scores`; the authors' scoring knows only the last two.
    """
    known = cbm_concepts().name
    by_class = removed_by_class & torch.from_numpy(np.isin(concepts, known))
    first = by_class & (by_class.cumsum(1) == 1)
    plain = {name: more[name] for name in ("rule", "threshold") if name in more}
    as_published = image_scores(values, images, first, concepts, **plain)
    as_published.pop("both")
    for scores in as_published.values():
        scores[:, ~images.attribute.isin(known)] = np.nan
    corrected = image_scores(values, images, removed, concepts, **more)
    return dict(zip(SCORINGS, (as_published, corrected), strict=True))
