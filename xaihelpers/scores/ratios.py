"""The ratio of two means, with an interval that is honest where the lower one may be zero.

Fieller's theorem: θ lies in the interval if the mean of a − θ b does not differ from 0. With group sums
a_g, b_g of G groups, S_xy = G/(G − 1) Σ_g (x_g − x̄)(y_g − ȳ) and q Student's quantile,

    (Σa − θ Σb)² ≤ q² (S_aa − 2 θ S_ab + θ² S_bb),

an interval where b̄ differs from 0, and everything else: then low and high are −∞ and ∞.
Source: Fieller, J. Royal Statistical Society B 16 (1954) 175.
"""

from math import inf, nan, sqrt

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t

from xaihelpers.scores.intervals import Interval


def ratio_interval(above: ArrayLike, below: ArrayLike, clusters: ArrayLike | None = None) -> Interval:
    """Mean of `above` divided by mean of `below`, with its 95 % interval by Fieller's theorem.

    above, below: (N,), of the same cases; cases with a NaN are left out.
    clusters: (N,), which cases belong together.
    Raises ValueError: lengths that differ.
    """
    cases = pd.DataFrame({"above": np.asarray(above, float), "below": np.asarray(below, float)})
    cases["group"] = np.arange(len(cases)) if clusters is None else np.asarray(clusters)
    cases = cases.dropna()
    sums = cases.groupby("group")[["above", "below"]].sum().to_numpy()  # (G, 2)
    n_groups, total = len(sums), sums.sum(0)
    if n_groups < 2 or total[1] == 0:
        return Interval(nan, nan, nan, len(cases), float(n_groups))
    value = total[0] / total[1]
    spread = t.ppf(0.975, n_groups - 1) ** 2 * n_groups * np.cov(sums.T)  # q² S
    a, b, c = total[1] ** 2 - spread[1, 1], total[0] * total[1] - spread[0, 1], total[0] ** 2 - spread[0, 0]
    if a <= 0:
        return Interval(value, -inf, inf, len(cases), float(n_groups))
    root = max(b**2 - a * c, 0.0)  # the value itself always lies inside: below 0 is rounding
    return Interval(value, (b - sqrt(root)) / a, (b + sqrt(root)) / a, len(cases), float(n_groups))
