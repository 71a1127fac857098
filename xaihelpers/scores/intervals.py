"""Bootstrap intervals, through scipy."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import bootstrap


class Interval(NamedTuple):
    """A mean or another statistic of cases (κ, α, r, an area under a curve) with its 95 % interval.

    All are NaN, and `cases` 0, where there is no case.
    """

    value: float
    low: float
    high: float
    cases: int


def mean_interval(
    scores: ArrayLike, resamples: int = 1000, seed: int = 0, groups: ArrayLike | None = None
) -> Interval:
    """Mean of one score per case, with its 95 % percentile bootstrap interval over the cases.

    scores: any shape, N numbers in all; NaN ones are left out and not counted.
    resamples, seed: of the bootstrap.
    groups: (N,), which cases belong together, as the images of one model: whole groups are drawn.
    """
    scores = np.asarray(scores, dtype=np.float64).ravel()
    kept = ~np.isnan(scores)
    scores = scores[kept]
    if len(scores) < 2 or np.ptp(scores) == 0:
        value = float(scores[0]) if len(scores) else math.nan
        return Interval(value, value, value, len(scores))
    samples, statistic, paired = (scores,), np.mean, False
    if groups is not None:
        members = pd.Series(scores).groupby(np.asarray(groups).ravel()[kept])
        sums, counts = members.sum().to_numpy(), members.count().to_numpy()
        if len(sums) > 1:
            samples, statistic, paired = (sums, counts), _mean_of_groups, True
    interval = bootstrap(
        samples,
        statistic,
        paired=paired,
        n_resamples=resamples,
        batch=max(1, 2_000_000 // len(scores)),
        method="percentile",
        rng=seed,
    ).confidence_interval
    return Interval(float(scores.mean()), float(interval.low), float(interval.high), len(scores))


def _mean_of_groups(sums: np.ndarray, counts: np.ndarray, axis: int) -> np.ndarray:
    return sums.sum(axis) / counts.sum(axis)
