"""Kendall's τ between scores of the same items, and which scores together predict people's ratings.

Paper conceptscore, section 4.3, appendices C and G:

    (18)  τ = 2 (C − D) / (n (n − 1))

for n items (the paper: pairs) with C concordant and D discordant pairs of them. Appendix I.4 names Shapley
values and greedy choice without a formula. With v(S) the value of a subset S of the M scores,

    Shapley value of j = Σ_{S without j} |S|! (M − |S| − 1)! / M! · (v(S ∪ {j}) − v(S))

It is linear in v. So where v(S) is a mean over items, each item has a Shapley value of its own, and their
mean has an interval like any other. v is a mean of rank correlations τ, and an item's part in one is the
jackknife's: in a fold of n items, τ + (n - 1) (mean τ_(-) - τ_(-i)), where τ_(-i) leaves out item i.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb, nan

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores.intervals import Interval, interval

Subset = frozenset[str]
FOLDS = 5


def kendall_tau(
    x: ArrayLike,
    y: ArrayLike,
    baseline: ArrayLike | None = None,
    variant: str = "b",
    clusters: ArrayLike | None = None,
) -> Interval:
    """Kendall's τ of x and y with its 95 % interval; with a baseline, how far it exceeds τ of that and y.

    Variant "a" divides C - D by all n (n - 1) / 2 pairs, as eq. 18 prints it. Variant "b" leaves tied pairs
    out of the denominator, √((pairs − ties in x)(pairs − ties in y)), which ratings on four steps need.

    x, y, baseline: (n,), scores of the same items; items with a NaN are left out. variant: "a" or "b".
    clusters: of the items, as of `scores.interval`.
    Returns an Interval, NaN for a constant score and for fewer than two items.
    """
    if baseline is None:
        return tau_contrast(lambda taus: taus[0], y, x, variant=variant, clusters=clusters, bounds=(-1, 1))
    return tau_contrast(lambda taus: taus[0] - taus[1], y, x, baseline, variant=variant, clusters=clusters)


def tau_contrast(
    contrast: Callable, y: ArrayLike, *scores: ArrayLike, variant: str = "b", clusters=None, bounds=None
) -> Interval:
    """A function of the τ of several scores with one and the same y, with its interval over items.

    contrast: τ (scores, R) of R selections of the items -> (R,). bounds: as of `scores.interval`.
    Raises ValueError: an unknown variant.
    """
    if variant not in ("a", "b"):
        raise ValueError(f'variant must be "a" or "b", not {variant!r}')

    def values(columns: Sequence[np.ndarray], kept: np.ndarray) -> np.ndarray:
        rated, *others = columns
        return contrast(np.stack([kendall_taus(one, rated, kept, variant) for one in others]))

    def statistic(*columns: np.ndarray) -> float:
        return float(values(columns, np.ones((1, len(columns[0]))))[0])

    def without(columns: Sequence[np.ndarray], groups: np.ndarray) -> np.ndarray:
        return values(columns, np.arange(groups.max() + 1)[:, None] != groups)  # (G, n)

    return interval(y, *scores, statistic=statistic, clusters=clusters, bounds=bounds, without=without)


def kendall_taus(x: np.ndarray, y: np.ndarray, kept: np.ndarray, variant: str = "b") -> np.ndarray:
    """τ of many selections of the same items at once, some forty times as fast as one after the other.

    x, y: (n,), two scores. kept: (R, n), whether each item is in each selection. variant: "a" or "b".
    Returns (R,), NaN where a score is constant within a selection.
    """
    sign_x, sign_y = (np.sign(score[:, None] - score).astype(np.float32) for score in (x, y))  # (n, n)
    concordance, untied_x, untied_y = (
        0.5 * np.einsum("ri,ri->r", kept.astype(np.float32) @ pairs, kept, dtype=np.float64)
        for pairs in (sign_x * sign_y, sign_x**2, sign_y**2)
    )
    n = kept.sum(1)
    all_pairs = np.where((untied_x > 0) & (untied_y > 0), n * (n - 1) / 2, 0)
    denominator = np.sqrt(untied_x * untied_y) if variant == "b" else all_pairs
    return np.divide(concordance, denominator, out=np.full(len(n), nan), where=denominator > 0)


def subset_cases(metrics: pd.DataFrame, target, draws: int = 4, seed: int = 0) -> dict[Subset, np.ndarray]:
    """How well each subset of scores predicts people's ratings on items that it has not seen, item by item.

    A ridge regression on the standardised scores is fitted on all folds but one; in it, Kendall's τ-b of its
    predictions and the ratings is the mean of the items' parts. Each draw deals the items to folds anew.

    metrics: one row for each item, one column for each of a few scores. target: (items,), ratings.
    Returns {subset: (draws, items)}, NaN for an item with a gap; the mean over both is the subset's value.
        The empty subset has 0.
    Raises ValueError: fewer than two complete items for each fold.
    """
    target = np.asarray(target, dtype=np.float64)
    complete = metrics.notna().all(axis=1).to_numpy() & ~np.isnan(target)
    x, y, rows = metrics.to_numpy(np.float64)[complete], target[complete], complete.nonzero()[0]
    if len(y) < 2 * FOLDS:
        raise ValueError(f"{len(y)} items have all metrics and a rating: too few for {FOLDS} folds")
    nothing = np.where(complete, np.zeros((draws, 1)), np.nan)
    columns_of = {}
    for size in range(1, len(x.T) + 1):
        for columns in combinations(range(len(x.T)), size):
            columns_of[frozenset(metrics.columns[list(columns)])] = list(columns)
    cases = {subset: nothing.copy() for subset in [frozenset(), *columns_of]}
    for draw in range(draws):
        for train, test in KFold(FOLDS, shuffle=True, random_state=seed + draw).split(y):
            z = StandardScaler().fit(x[train]).transform(x)
            for subset, columns in columns_of.items():
                ridge = Ridge().fit(z[train][:, columns], y[train])
                predictions = ridge.predict(z[test][:, columns]).round(12)
                cases[subset][draw, rows[test]] = _parts_of_tau(predictions, y[test])
    return cases


def _parts_of_tau(predictions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """Each item's part in τ-b, (n,), whose mean is τ; 0 where there is no order to predict."""
    n = len(ratings)
    selections = np.concatenate([np.ones((1, n)), 1 - np.eye(n)])  # all, then all but one
    tau, *without = kendall_taus(predictions, ratings, selections)
    if np.isnan(tau):
        return np.zeros(n)
    without = np.where(np.isnan(without), tau, without)
    return tau + (n - 1) * (without.mean() - without)


def shapley_values(values: dict[Subset, float | np.ndarray]) -> dict[str, float | np.ndarray]:
    """Shapley value of each score: its gain, averaged over all orders in which the scores can join.

    They add up to the value of the whole set.

    values: of all subsets; or arrays, as `subset_cases` gives them, for the Shapley values of each item.
    """
    names = max(values, key=len)
    result = dict.fromkeys(names, 0)
    for subset, value in values.items():
        for name in names - subset:
            share = len(names) * comb(len(names) - 1, len(subset))
            result[name] = result[name] + (values[subset | {name}] - value) / share
    return result


def greedy_selection(values: dict[Subset, float | np.ndarray]) -> pd.DataFrame:
    """The scores in the order of greedy choice: always the one that gains most, to the last.

    values: of all subsets, as of `shapley_values`.
    Returns a table with a row for each score: metric, and the value reached with it.
    """
    names, selected, rows = max(values, key=len), frozenset(), []
    while selected != names:
        reached = {name: np.nanmean(values[selected | {name}]) for name in sorted(names - selected)}
        best = max(reached, key=reached.get)
        selected |= {best}
        rows.append({"metric": best, "value": reached[best]})
    return pd.DataFrame(rows)
