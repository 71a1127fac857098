"""Which metrics, together, predict people's ratings: values of all subsets, Shapley values, greedy selection.

Paper conceptscore, appendix I.4, which names both procedures without a formula. With v(S) the value of a
subset S of the M metrics,

    Shapley value of j = Σ_{S without j} |S|! (M − |S| − 1)! / M! · (v(S ∪ {j}) − v(S))

It is linear in v. So where v(S) is a mean over items, each item has a Shapley value of its own, and their
mean has an interval like any other. v is a mean of rank correlations τ, and an item's part in one is the
jackknife's: in a fold of n items, τ + (n - 1) (mean τ_(-) - τ_(-i)), where τ_(-i) leaves out item i.

| symbol | name | shape |
|---|---|---|
| v | `values` | {subset of names, in column order: value}, 2^M of them |
| v, item by item | `cases` | {subset: (draws, items)} |
| M, metrics | columns | scalar |
"""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores.intervals import over_draws
from xaihelpers.scores.rank_correlation import kendall_taus

LIMIT = 10  # metrics: there are 2^M subsets
Subset = tuple[str, ...]


def subset_cases(
    metrics: pd.DataFrame, target, folds: int = 5, draws: int = 4, penalty: float = 1.0, seed: int = 0
) -> dict[Subset, np.ndarray]:
    """How well each subset of metrics predicts people's ratings on items that it has not seen, item by item.

    A ridge regression on the standardised metrics is fitted on all folds but one; in it,
    Kendall's τ-b of its predictions and the ratings is the mean of the items' parts. (Pooled over folds, a
    metric that says nothing would come out below 0.) Each draw deals the items to folds anew. The parts take
    the fits as they are: what other items would have changed in a fit shows between draws only.

    metrics: one row for each item, one column for each metric.
    target: (items,), ratings.
    penalty: of the ridge regression.
    Returns {subset of names, in column order: (draws, items)}, NaN for an item with a gap; the mean over both
        is the subset's value. The empty subset has 0.
    Raises ValueError: more than 10 metrics, two of one name, fewer than two complete items for each fold.
    """
    target = np.asarray(target, dtype=np.float64)
    complete = metrics.notna().all(axis=1).to_numpy() & ~np.isnan(target)
    x, y = metrics.to_numpy(dtype=np.float64)[complete], target[complete]
    names = list(metrics.columns)
    if len(names) > LIMIT or len(set(names)) < len(names):
        raise ValueError(
            f"needs at most {LIMIT} metrics of different names (there are 2^M subsets), not {len(names)}: "
            f"{', '.join(map(str, names))}"
        )
    if len(y) < 2 * folds:
        raise ValueError(f"{len(y)} items have all metrics and a rating: too few for {folds} folds")
    cases = {}
    for size in range(len(names) + 1):
        for subset in combinations(names, size):
            cases[subset] = np.where(complete, np.zeros((draws, 1)), np.nan)
    rows = complete.nonzero()[0]
    for draw in range(draws):
        for train, test in KFold(folds, shuffle=True, random_state=seed + draw).split(y):
            scaler = StandardScaler().fit(x[train])
            x_train, x_test = scaler.transform(x[train]), scaler.transform(x[test])
            for subset, values in cases.items():
                if subset:
                    columns = [names.index(name) for name in subset]
                    model = Ridge(penalty).fit(x_train[:, columns], y[train])
                    predictions = model.predict(x_test[:, columns]).round(12)
                    values[draw, rows[test]] = _parts_of_tau(predictions, y[test])
    return cases


def _parts_of_tau(predictions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """Each item's part in τ-b, (n,), whose mean is τ; 0 where there is no order to predict."""
    n = len(ratings)
    selections = np.concatenate([np.ones((1, n)), 1 - np.eye(n)])  # all, then all but one
    tau, *without = kendall_taus(predictions, ratings, selections, "b")
    if np.isnan(tau):
        return np.zeros(n)
    without = np.where(np.isnan(without), tau, without)
    return tau + (n - 1) * (without.mean() - without)


def subset_values(metrics: pd.DataFrame, target, **settings) -> dict[Subset, float]:
    """How well each subset of metrics predicts people's ratings: the means of `subset_cases`.

    metrics, target, settings: as of `subset_cases`, whose errors it raises.
    """
    cases = subset_cases(metrics, target, **settings)
    return {subset: float(np.nanmean(values)) for subset, values in cases.items()}


def shapley_values(values: dict[Subset, float | np.ndarray]) -> dict[str, float | np.ndarray]:
    """Shapley value of each metric: its gain, averaged over all orders in which the metrics can join.

    They add up to the value of the whole set.

    values: of all subsets, as `subset_values` gives them; or arrays, as `subset_cases` does, for the Shapley
        values of each item.
    """
    names = max(values, key=len)
    result = {}
    for name in names:
        total = 0
        for subset, value in values.items():
            if name not in subset:
                gain = values[_with(subset, name, names)] - value
                total = total + gain / (len(names) * comb(len(names) - 1, len(subset)))
        result[name] = total
    return result


def greedy_selection(
    values: dict[Subset, float | np.ndarray], clusters: ArrayLike | None = None
) -> pd.DataFrame:
    """Metrics in the order of greedy selection: always the one that gains most.

    values: of all subsets, as `subset_values` or `subset_cases` gives them; the second have intervals.
    clusters: of the items, as of `scores.interval`.
    Returns a table with a row for each metric: metric, value reached, gain with its 95 % interval (low, high;
        it takes the order of the metrics as it is), chosen (False from the first gain that is not positive).
    """
    names, selected, rows = max(values, key=len), (), []
    while len(selected) < len(names):
        reached = {}
        for name in names:
            if name not in selected:
                reached[name] = np.nanmean(values[_with(selected, name, names)])
        best = max(reached, key=reached.get)
        joined = _with(selected, best, names)
        gain = over_draws(np.atleast_2d(values[joined] - values[selected]), clusters)
        chosen = gain.value > 0 and all(row["chosen"] for row in rows)
        row = {"metric": best, "value": reached[best], "gain": gain.value, "low": gain.low, "high": gain.high}
        rows.append(row | {"chosen": chosen})
        selected = joined
    return pd.DataFrame(rows)


def _with(subset: Subset, name: str, names: Subset) -> Subset:
    """The subset with one more name, in the order of `names`."""
    return tuple(other for other in names if other in subset or other == name)
