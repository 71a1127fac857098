"""Attention confusion matrix, overlap of attention and object, and agreement of scores.

Paper autoxplain, sections 3.3 and 4.1. The measures that ask the model again are in `saliency.perturbation`.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy.stats import pearsonr
from sklearn.metrics import roc_auc_score

from xaihelpers.scores.intervals import Interval, mean_interval

CELLS = ("CH", "CL", "WH", "WL")  # correct or wrong prediction, high or low score


def attention_matrix(correct, scores, threshold: float = 2.5, groups=None) -> pd.DataFrame:
    """The attention confusion matrix and the average score (section 3.3).

    correct: (N,) bool, whether the prediction is right.
    scores: (N,) from 0 to 5, NaN where the judge gave none; these are left out.
    threshold: scores from here on are high. groups: (N,), as of `mean_interval`.
    Returns rows CH, CL, WH and WL in %, and Avg, with the columns metric, value, low, high and cases.
    """
    correct, scores = np.asarray(correct, bool), np.asarray(scores, float)
    scored = ~np.isnan(scores)
    correct, scores = correct[scored], scores[scored]
    groups = None if groups is None else np.asarray(groups)[scored]
    high = scores >= threshold
    cells = {"CH": correct & high, "CL": correct & ~high, "WH": ~correct & high, "WL": ~correct & ~high}
    intervals = {name: mean_interval(100.0 * cells[name], groups=groups) for name in CELLS}
    intervals["Avg"] = mean_interval(scores, groups=groups)
    return pd.DataFrame([{"metric": name, **interval._asdict()} for name, interval in intervals.items()])


def soft_iou(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Soft intersection over union, (N,) in [0, 1]: the sum of the lesser over the sum of the greater.

    It has no threshold, so no mask is favoured.

    maps: attention (N, H, W) in [0, 1]. object_pixels: (N, H, W) bool.
    """
    object_pixels = object_pixels.float()
    intersection = torch.minimum(maps, object_pixels).sum((1, 2))
    return intersection / torch.maximum(maps, object_pixels).sum((1, 2))


def attention_inside(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Share of the attention (N, H, W) on the object's pixels (N, H, W) bool, (N,); NaN without attention."""
    return (maps * object_pixels).sum((1, 2)) / maps.sum((1, 2))


def roc_auc(positive, values, resamples: int = 1000, seed: int = 0) -> Interval:
    """Area under the ROC curve of telling the positive cases by high values, with its 95 % interval.

    The interval is a percentile bootstrap over the cases.

    positive: (N,) bool. values: (N,); NaN values are left out.
    Returns an Interval, NaN without cases of both kinds.
    """
    positive, values = np.asarray(positive, bool), np.asarray(values, float)
    known = ~np.isnan(values)
    positive, values = positive[known], values[known]
    if len(set(positive)) < 2:
        return Interval(np.nan, np.nan, np.nan, len(values))
    samples = [
        roc_auc_score(positive[rows], values[rows])
        for rows in bootstrap_rows(np.arange(len(values)), resamples, seed)
        if len(set(positive[rows])) == 2
    ]
    low, high = np.percentile(samples, [2.5, 97.5])
    return Interval(float(roc_auc_score(positive, values)), float(low), float(high), len(values))


def pearson(x, y, groups=None, resamples: int = 1000, seed: int = 0) -> Interval:
    """Pearson's correlation with its 95 % interval.

    With groups the interval is a percentile bootstrap over whole groups, since their members are alike; else
    it is Fisher's.

    x, y: (N,); pairs with a NaN are left out. groups: (N,), such as the image that several maps are of.
    Returns an Interval, NaN for fewer than four pairs, or where one side is constant.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Interval(np.nan, np.nan, np.nan, len(x))
    result = pearsonr(x, y)
    if groups is None:
        low, high = result.confidence_interval()
        return Interval(float(result.statistic), float(low), float(high), len(x))
    samples = [
        np.corrcoef(x[rows], y[rows])[0, 1]
        for rows in bootstrap_rows(np.asarray(groups)[known], resamples, seed)
        if np.ptp(x[rows]) and np.ptp(y[rows])
    ]
    low, high = np.percentile(samples, [2.5, 97.5]) if samples else (np.nan, np.nan)
    return Interval(float(result.statistic), float(low), float(high), len(x))


def bootstrap_rows(groups, resamples: int = 1000, seed: int = 0) -> Iterator[np.ndarray]:
    """Row numbers of bootstrap samples in which whole groups (N,) are drawn, one array a sample."""
    members = list(pd.Series(range(len(groups))).groupby(np.asarray(groups)).apply(np.asarray))
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        chosen = rng.integers(len(members), size=len(members))
        yield np.concatenate([members[group] for group in chosen])
