"""95 % intervals that hold all that is random: cases within their clusters, and draws.

A statistic t of columns whose rows are the cases. Clusters (image, class, model, pair) and draws (seeds,
fitted examples, candidate sets) are factors, nested or crossed: each says which rows would change together
if it were drawn again. Its variance is the jackknife's, which leaves out each of its G groups in turn,

    V_f = (G − 1)/G Σ_g (t_(−g) − mean t_(−))²

and the factors' variances add up by inclusion and exclusion, V = V_a + V_b − V_ab, where a group of ab is a
cell of both (multiway clustering: Cameron, Gelbach and Miller, J. Business and Economic Statistics 29, 2011).
The interval is t ± t_ν √V, ν by Satterthwaite: ν = V² / Σ_f V_f²/(G_f - 1). A share has Wilson's
interval for the number of independent cases that would have this variance, and one of 0 or 100 % Clopper and
Pearson's; a correlation and an area under a curve are taken on the logit of their range.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import inf, isfinite, nan, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from scipy.stats import chi2, norm, rankdata, t
from statsmodels.stats.proportion import proportion_confint

PERCENT = (0, 100)  # bounds of a share in %
MOST_GROUPS = 200  # blocks of groups that a statistic without a formula for its t_(−g) leaves out, at most


class Interval(NamedTuple):
    """A statistic of cases with its 95 % interval; effective: of how many independent cases it is as wide.

    low and high are NaN where the cases cannot tell (a single one, or all the same and no `bounds`), value
    too where there is no case.
    """

    value: float
    low: float
    high: float
    cases: int
    effective: float


def interval(
    *columns: ArrayLike,
    statistic: str | Callable = "mean",
    clusters: ArrayLike | Sequence[ArrayLike] | None = None,
    draws: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    without: Callable | None = None,
) -> Interval:
    """A statistic of columns with its 95 % interval.

    columns: (N,) each, a row for each case; rows with a NaN are left out.
    statistic: "mean" of one column, which is a share where all are 0 or 1, or 0 or 100; "correlation",
        Pearson's, of two; "auc" of a column of truth values and one of numbers; or a function
        (*columns) -> float.
    clusters: (N,), which cases belong together, or several such arrays, crossed or nested.
    draws: (N,), which of the repeated draws a case is of.
    bounds: the least and the greatest value of the statistic, `PERCENT` of a share in %; a function, a mean
        of numbers and a share of zeros alone (of one or of a hundred?) need them for an interval where all
        cases agree.
    without: (columns, groups) -> (G,), the function's values without each of the groups 0 to G - 1 of (N,),
        where there is a quicker way than calling it again.

    Raises ValueError for lengths that differ.
    """
    columns, factors, n_independent = _complete(columns, clusters, draws)
    cases = len(columns[0])
    if callable(statistic):
        scale = "linear" if bounds is None else "logit"
    elif statistic == "mean":
        statistic, without = np.mean, _means_without
        scale, bounds = _scale_of_mean(columns[0], bounds)
    else:
        scale, (statistic, without, bounds) = "logit", OF_TWO[statistic]
    value = float(statistic(*columns)) if cases else nan
    if not isfinite(value):
        return Interval(value, nan, nan, cases, 0.0)
    variance, freedom = _variance(statistic, columns, factors, without)
    if variance <= 1e-18 * max(1.0, value**2) or (scale != "linear" and value in bounds):
        # Clopper and Pearson's limits for what none of the independent cases has shown
        unseen = proportion_confint(0, n_independent, method="beta")[1]
        least, greatest = bounds or (nan, nan)
        low, high = value - unseen * (value - least), value + unseen * (greatest - value)
        return Interval(value, low, high, cases, float(n_independent))
    independent = variance
    if clusters is not None or draws is not None:
        independent, _ = _jackknife(statistic, columns, np.arange(cases), without)
    low, high = _limits(value, variance, freedom, scale, bounds)
    return Interval(value, low, high, cases, cases * independent / variance)


def deviation(runs: pd.DataFrame) -> Interval:
    """The standard deviation over runs, a row each, root mean square over columns.

    Its interval is that of one normal column. Sums that differ by rounding alone have none.
    """
    value, n = float(np.sqrt(runs.var().mean()).round(9)), len(runs) - 1
    low, high = value * np.sqrt(n / chi2.ppf([0.975, 0.025], n))
    return Interval(value, low, high, len(runs), n)


def over_draws(
    values: ArrayLike, clusters: ArrayLike | Sequence[ArrayLike] | None = None, **more
) -> Interval:
    """The mean of cases that every draw judges anew, with both in its interval.

    values: (D, N), of D draws and the same N cases, or a tuple of such arrays for another `statistic`.
    clusters: (N,), of the cases; None takes each case for itself. more: as of `interval`.
    """
    columns = [
        np.asarray(one, dtype=np.float64) for one in (values if isinstance(values, tuple) else [values])
    ]
    n_draws, n_cases = columns[0].shape
    of_cases = np.arange(n_cases) if clusters is None else clusters
    clusters = [np.tile(np.asarray(one), n_draws) for one in _listed(of_cases)]
    return interval(*columns, clusters=clusters, draws=np.arange(n_draws).repeat(n_cases), **more)


def _listed(clusters) -> list:
    """None, one or several arrays of clusters as a list."""
    if isinstance(clusters, (list, tuple)) and np.ndim(clusters[0]) > 0:
        return list(clusters)
    return [] if clusters is None else [clusters]


def _complete(
    columns: Sequence[ArrayLike], clusters, draws: ArrayLike | None
) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Columns and factors without the rows that have a NaN; the least number of groups of a clustering."""
    columns = [np.asarray(column, dtype=np.float64).ravel() for column in columns]
    clusters = _listed(clusters)
    factors = clusters if draws is None else [*clusters, draws]
    factors = [np.asarray(factor).ravel() for factor in factors]
    lengths = [len(array) for array in (*columns, *factors)]
    if len(set(lengths)) != 1:
        raise ValueError(f"columns, clusters and draws need a row for each case, but have {lengths} rows")
    kept = ~np.isnan(columns).any(0)
    columns = [column[kept] for column in columns]
    factors = [pd.factorize(factor[kept])[0] for factor in factors]
    cases = np.arange(kept.sum())
    n_groups = [factor.max(initial=-1) + 1 for factor in factors[: len(clusters)]]
    different = []  # factors that group the cases alike are one
    for factor in factors:
        if not any(np.array_equal(factor, other) for other in different):
            different.append(factor)
    several = [factor for factor in different if factor.max(initial=0) > 0]  # one draw tells of no draws
    return columns, several or different or [cases], int(min(n_groups, default=len(cases)))


def _scale_of_mean(column: np.ndarray, bounds: tuple | None) -> tuple[str, tuple | None]:
    """How a mean is scaled, "share" of zeros and ones, or of 0 and 100, else "linear"; and its bounds."""
    least, whole = bounds or (0, column.max(initial=0))
    if least == 0 and (bounds or whole in (1, 100)) and np.isin(column, (0.0, whole)).all():
        return "share", (0.0, float(whole))
    return "linear", bounds


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return nan
    return float(np.corrcoef(x, y)[0, 1])


def _correlations_without(columns: list[np.ndarray], groups: np.ndarray) -> np.ndarray:
    x, y = (column - column.mean() for column in columns)
    sums = [np.bincount(groups, part) for part in (np.ones_like(x), x, y, x * x, y * y, x * y)]
    n, x, y, xx, yy, xy = (part.sum() - part for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):  # of a group that is all but a few cases
        return (xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n))


def auc(positive: np.ndarray, values: np.ndarray) -> float:
    """The area under the ROC curve: in what share of the pairs a positive case has more; ties count half.

    By the rank sum: quicker than sklearn's, which the jackknife would call hundreds of times.
    """
    positive = positive > 0
    n_pairs = positive.sum() * (~positive).sum()
    return float(_wins(positive, values)[positive].sum() / n_pairs) if n_pairs else nan


def _wins(positive: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How many cases of the other kind lie below each case; ties count half. Shapes (N,)."""
    wins = rankdata(values)
    for kind in (positive, ~positive):
        wins[kind] -= rankdata(values[kind])
    return wins


def _areas_without(columns: list[np.ndarray], groups: np.ndarray) -> np.ndarray:
    """Pairs that are in order, less those of the group's cases; those within the group went twice."""
    positive, values = columns[0] > 0, columns[1]
    wins = _wins(positive, values)
    in_order = np.where(positive, wins, positive.sum() - wins)  # pairs of each case
    n_positive, n_negative = np.bincount(groups, positive), np.bincount(groups, ~positive)
    within = np.zeros(groups.max() + 1)
    for group in np.flatnonzero(n_positive * n_negative):
        mine = groups == group
        within[group] = _wins(positive[mine], values[mine])[positive[mine]].sum()
    left = wins[positive].sum() - np.bincount(groups, in_order) + within
    n_pairs = (n_positive.sum() - n_positive) * (n_negative.sum() - n_negative)
    return np.divide(left, n_pairs, out=np.full(len(left), nan), where=n_pairs > 0)


OF_TWO = {
    "correlation": (_correlation, _correlations_without, (-1.0, 1.0)),
    "auc": (auc, _areas_without, (0.0, 1.0)),
}


def _means_without(columns: list[np.ndarray], groups: np.ndarray) -> np.ndarray:
    sums, counts = np.bincount(groups, columns[0]), np.bincount(groups)
    return (sums.sum() - sums) / (counts.sum() - counts)


def _variance(
    statistic: Callable, columns: list[np.ndarray], factors: list[np.ndarray], without: Callable | None
) -> tuple[float, float]:
    """The variance of the statistic, from all factors together, and its degrees of freedom."""
    total, single = 0.0, []
    for size in range(1, len(factors) + 1):
        for some in combinations(factors, size):
            groups = some[0] if size == 1 else pd.factorize(pd.MultiIndex.from_arrays(some))[0]
            variance, freedom = _jackknife(statistic, columns, groups, without)
            total += variance if size % 2 else -variance
            if size == 1:
                single.append((variance, freedom))
    total = max(total, *(variance for variance, _ in single))
    spread = sum(variance**2 / freedom for variance, freedom in single if freedom)
    return total, total**2 / spread if spread else nan


def _jackknife(
    statistic: Callable, columns: list[np.ndarray], groups: np.ndarray, without: Callable | None
) -> tuple[float, int]:
    """The variance due to which groups there are, and its degrees of freedom; 0, 0 of a single group."""
    if without is None and groups.max() >= MOST_GROUPS:
        shuffled = np.random.default_rng(0).permutation(groups.max() + 1)
        groups = shuffled[groups] % MOST_GROUPS
    n_groups = groups.max() + 1
    if n_groups < 2:
        return 0.0, 0
    if without is None:
        deleted = np.array([statistic(*(c[groups != g] for c in columns)) for g in range(n_groups)])
    else:
        deleted = without(columns, groups)
    deleted = deleted[np.isfinite(deleted)]
    if len(deleted) < 2:
        return 0.0, 0
    return (n_groups - 1) * float(deleted.var()), n_groups - 1


def _limits(
    value: float, variance: float, freedom: float, scale: str, bounds: tuple | None
) -> tuple[float, float]:
    quantile = t.ppf(0.975, freedom)
    margin = quantile * sqrt(variance)
    if scale == "linear":
        low, high = bounds or (-inf, inf)
        return max(low, value - margin), min(high, value + margin)
    least, greatest = bounds
    extent = greatest - least
    share = (value - least) / extent
    if scale == "share":
        independent = share * (1 - share) * extent**2 / variance * (norm.ppf(0.975) / quantile) ** 2
        limits = np.array(proportion_confint(share * independent, independent, method="wilson"))
    else:
        limits = expit(logit(share) + np.array([-1, 1]) * margin / (extent * share * (1 - share)))
    return tuple((least + extent * limits).tolist())


def ratio_interval(above: ArrayLike, below: ArrayLike, clusters: ArrayLike | None = None) -> Interval:
    """Mean of `above` divided by mean of `below`, honest where the lower one may be zero.

    Fieller's theorem: θ lies in the interval if the mean of a − θ b does not differ from 0. With group sums
    a_g, b_g of G groups, S_xy = G/(G − 1) Σ_g (x_g − x̄)(y_g − ȳ) and q Student's quantile,

        (Σa − θ Σb)² ≤ q² (S_aa − 2 θ S_ab + θ² S_bb),

    an interval where b̄ differs from 0, and everything else: then low and high are −∞ and ∞.

    above, below: (N,), of the same cases; cases with a NaN are left out. clusters: (N,), of the cases.
    Raises ValueError: lengths that differ.
    Source: Fieller, J. Royal Statistical Society B 16 (1954) 175.
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
    root = sqrt(max(b**2 - a * c, 0.0))  # the value itself always lies inside: below 0 is rounding
    return Interval(value, (b - root) / a, (b + root) / a, len(cases), float(n_groups))
