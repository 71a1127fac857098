"""Bootstrap intervals, through scipy."""
import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import bootstrap


class Interval(NamedTuple):
    """A mean, its 95 % interval, and the number of cases behind it (all NaN and 0 where there is no case)."""

    value: float
    low: float
    high: float
    cases: int


def mean_interval(scores, resamples: int = 1000, seed: int = 0, groups=None) -> Interval:
    """Mean of one score per case, with its 95 % percentile bootstrap interval over the cases; NaN scores are left out and not counted.

    groups: (N,), where cases belong together, as the images of one model: whole groups are drawn.
    """
    scores = np.asarray(scores, dtype=np.float64).ravel()
    kept = ~np.isnan(scores)
    scores = scores[kept]
    if len(scores) < 2 or np.ptp(scores) == 0:
        value = float(scores[0]) if len(scores) else math.nan
        return Interval(value, value, value, len(scores))
    if groups is not None and len(of := pd.Series(scores).groupby(np.asarray(groups).ravel()[kept]).agg(["sum", "count"])) > 1:
        samples, mean = (of["sum"].to_numpy(), of["count"].to_numpy()), lambda total, count, axis: total.sum(axis) / count.sum(axis)
    else:
        samples, mean = (scores,), np.mean
    interval = bootstrap(samples, mean, paired=len(samples) > 1, n_resamples=resamples, batch=max(1, 2_000_000 // len(scores)), method="percentile", rng=seed).confidence_interval
    return Interval(float(scores.mean()), float(interval.low), float(interval.high), len(scores))
