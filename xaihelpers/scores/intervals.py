"""Bootstrap intervals, through scipy."""
import math
from typing import NamedTuple

import numpy as np
from scipy.stats import bootstrap


class Interval(NamedTuple):
    """A mean, its 95 % interval, and the number of cases behind it (all NaN and 0 where there is no case)."""

    value: float
    low: float
    high: float
    cases: int


def mean_interval(scores, resamples: int = 1000, seed: int = 0) -> Interval:
    """Mean of one score per case, with its 95 % percentile bootstrap interval over the cases; NaN scores are left out and not counted."""
    scores = np.asarray(scores, dtype=np.float64).ravel()
    scores = scores[~np.isnan(scores)]
    if len(scores) < 2 or np.ptp(scores) == 0:
        value = float(scores[0]) if len(scores) else math.nan
        return Interval(value, value, value, len(scores))
    interval = bootstrap((scores,), np.mean, n_resamples=resamples, batch=max(1, 2_000_000 // len(scores)), method="percentile", rng=seed).confidence_interval
    return Interval(float(scores.mean()), float(interval.low), float(interval.high), len(scores))
