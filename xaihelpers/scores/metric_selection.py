"""Which scores, together, predict people's ratings: values of all subsets, Shapley values, greedy choice.

Paper conceptscore, appendix I.4, which names both procedures without a formula. With v(S) the value of a
subset S of the M scores,

    Shapley value of j = Σ_{S without j} |S|! (M − |S| − 1)! / M! · (v(S ∪ {j}) − v(S))

It is linear in v. So where v(S) is a mean over items, each item has a Shapley value of its own, and their
mean has an interval like any other. v is a mean of rank correlations τ, and an item's part in one is the
jackknife's: in a fold of n items, τ + (n - 1) (mean τ_(-) - τ_(-i)), where τ_(-i) leaves out item i.
"""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores.rank_correlation import kendall_taus

Subset = frozenset[str]
FOLDS = 5


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
