"""What single images contribute to the scores of a substitution benchmark, from a model's probabilities.

Beside S+ and S- (sub, section 5.5) stand what these two alone do not say. All are in %:

    both         the new attribute is predicted and no removed one, (N,)
    false alarms the new attribute is predicted of the bird *before* the change, (N,)
    gain         S+ less the false alarm on the same bird, (N,)
    AUC          how many images that lack the attribute are less probable to have it, (N,)

D draws of a model are trained alike but for the seed. L concepts, N images. Images of one attribute and of
one bird belong together; the images of a pair are those of both (`clusters`).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import cbm_concepts
from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.scores.sub.substitution import columns_of, group_argmax, groups_of, substitution_scores

RULES = ("threshold", "group")
SCORINGS = ("authors'", "corrected")


def predicted_attributes(
    values: torch.Tensor, concepts: Sequence[str], rule: str = "threshold", threshold: float = 0.5
) -> torch.Tensor:
    """Which attributes are predicted, bool of the shape of `values`.

    values: (..., L), probabilities or, for the rule "group", any numbers to be compared.
    rule: "threshold" predicts what is at least `threshold`, as bottlenecks do (section 5.5); "group" the
        greatest of each attribute group, as vision-language models do (section 5.6).
    Raises DatasetError for another rule.
    """
    if rule not in RULES:
        raise DatasetError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    if rule == "threshold":
        return values >= threshold
    rows = values.reshape(-1, values.shape[-1])
    return group_argmax(rows, concepts).reshape(values.shape)


def clusters(images: pd.DataFrame) -> list[np.ndarray]:
    """Which images belong together: arrays (N,), their attribute and their bird, crossed.

    Of what is the same for all images there is nothing to be drawn again: it is left out, where the other is
    left.

    images: N rows with the columns attribute and bird.
    """
    codes = [pd.factorize(images[column])[0] for column in ("attribute", "bird")]
    return [one for one in codes if one.max(initial=0) > 0] or codes[:1]


def lacking(
    images: pd.DataFrame, class_labels: torch.Tensor, concepts: Sequence[str], changed: bool
) -> torch.Tensor:
    """Which concepts N birds certainly lack, bool (N, L): those that their class lacks.

    images: with the columns attribute and label, of the bird's class. class_labels: (L, K) of 0 and 1.
    changed: of the birds after the change, which may have anything in the group that was changed.
    """
    absent = (class_labels <= 0.5).T[torch.as_tensor(images.label.tolist())]
    if changed:
        same = groups_of(images.attribute.tolist())[:, None] == groups_of(concepts)[None]
        absent &= ~torch.from_numpy(same)
    return absent


def image_scores(
    values: torch.Tensor,
    images: pd.DataFrame,
    removed: torch.Tensor,
    concepts: Sequence[str],
    before: torch.Tensor | None = None,
    absent: torch.Tensor | None = None,
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
    Raises DatasetError as `predicted_attributes` and `columns_of`.
    """
    targets = images.attribute.tolist()
    predicted = predicted_attributes(values, concepts, rule, threshold)
    results = [substitution_scores(draw, targets, removed, concepts) for draw in predicted]
    found = {
        "S+": torch.stack([result.s_plus for result in results]),
        "S-": torch.stack([result.s_minus for result in results]),
        "both": torch.stack([result.both for result in results]),
    }
    if before is not None:
        nothing = torch.zeros_like(removed)
        alarms = predicted_attributes(before, concepts, rule, threshold)
        of_draws = [substitution_scores(draw, targets, nothing, concepts).s_plus for draw in alarms]
        found["false alarms"] = torch.stack(of_draws)
        found["gain"] = found["S+"] - found["false alarms"]
    if absent is not None:
        others = values if before is None else before
        pairs = zip(values, others, strict=True)
        ranks = [rank_above_absent(mine, targets, other, absent, concepts) for mine, other in pairs]
        found["AUC"] = torch.stack(ranks)
    return {name: 100 * scores.double().numpy() for name, scores in found.items()}


def rank_above_absent(
    values: torch.Tensor,
    targets: Sequence[str],
    others: torch.Tensor,
    absent: torch.Tensor,
    concepts: Sequence[str],
) -> torch.Tensor:
    """Share of the images without an image's attribute for which it is less probable, float (N,).

    Ties count half, so the mean is the area under the ROC curve, attribute by attribute, no threshold chosen,
    in the benchmark's mix of attributes. NaN where no image is known to lack the attribute.

    values: (N, L). targets: N. others: (M, L), probabilities of other images. absent: bool (M, L).
    Raises DatasetError as `columns_of`.
    """
    ranks = torch.full((len(values),), torch.nan)
    columns = columns_of(targets, concepts)
    for column in np.unique(columns[columns >= 0]):
        rows = torch.from_numpy(columns == column)
        without = others[absent[:, column], column].contiguous().sort().values
        if len(without):
            mine = values[rows, column].contiguous()
            below = torch.searchsorted(without, mine) + torch.searchsorted(without, mine, right=True)
            ranks[rows] = below.float() / (2 * len(without))
    return ranks


def both_scorings(
    values: torch.Tensor,
    images: pd.DataFrame,
    removed: torch.Tensor,
    removed_by_class: torch.Tensor,
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
    known = set(cbm_concepts().name)
    among = images.attribute.isin(known).to_numpy()
    plain = {name: more[name] for name in ("rule", "threshold") if name in more}
    by_class = removed_by_class & torch.tensor([name in known for name in concepts])
    first = by_class & (by_class.cumsum(1) == 1)
    as_published = image_scores(values, images, first, concepts, **plain)
    as_published.pop("both")
    for scores in as_published.values():
        scores[:, ~among] = np.nan
    corrected = image_scores(values, images, removed, concepts, **more)
    return dict(zip(SCORINGS, (as_published, corrected), strict=True))


def bounds_of(metric: str) -> tuple[int, int]:
    """The least and the greatest value of a metric of `image_scores`."""
    return (-100, 100) if metric == "gain" else PERCENT


def score_interval(scores: np.ndarray, images: pd.DataFrame, metric: str = "S+") -> Interval:
    """The mean of scores (D, N) in %, with attributes, birds and draws in its interval.

    images: N rows with the columns attribute and bird. metric: a name of `image_scores`.
    """
    n_draws = len(scores)
    factors = [np.tile(one, n_draws) for one in clusters(images)]
    draws = np.arange(n_draws).repeat(len(images)) if n_draws > 1 else None
    return interval(scores, clusters=factors, draws=draws, bounds=bounds_of(metric))


def threshold_curve(
    values: torch.Tensor,
    images: pd.DataFrame,
    removed: torch.Tensor,
    concepts: Sequence[str],
    before: torch.Tensor | None = None,
    thresholds: Sequence[float] = tuple(np.round(np.linspace(0, 1, 21), 2)),
) -> pd.DataFrame:
    """S+, S-, both and false alarms with their intervals, at every threshold: tidy rows.

    The arguments as of `image_scores`.
    """
    rows = []
    for threshold in thresholds:
        found = image_scores(values, images, removed, concepts, before, threshold=threshold)
        for metric, scores in found.items():
            measured = score_interval(scores, images, metric)
            rows.append({"threshold": threshold, "metric": metric, **measured._asdict()})
    return pd.DataFrame(rows)


def breakdown(scores: dict[str, np.ndarray], images: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Means of the scores by attribute, by bird, or by pair, with intervals: tidy rows.

    scores: of `image_scores`. by: columns of `images`, for instance ["attribute"] or ["attribute", "bird"].
    """
    rows = []
    for key, part in images.reset_index(drop=True).groupby(list(by)):
        positions, names = part.index.to_numpy(), dict(zip(by, key, strict=True))
        for metric, values in scores.items():
            measured = score_interval(values[:, positions], part, metric)
            if measured.cases:
                rows.append({**names, "metric": metric, **measured._asdict()})
    return pd.DataFrame(rows)
