"""Which metrics, together, predict people's ratings: values of all subsets, Shapley values, greedy selection.

Paper conceptscore, appendix I.4, which names both procedures without a formula. With v(S) the value of a
subset S of the M metrics,

    Shapley value of j = Σ_{S without j} |S|! (M − |S| − 1)! / M! · (v(S ∪ {j}) − v(S))

| symbol | name | shape |
|---|---|---|
| v | `values` | {subset of names, in column order: value}, 2^M of them |
| M, metrics | columns | scalar |
"""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores.rank_correlation import kendall_taus

LIMIT = 10  # metrics: there are 2^M subsets


def subset_values(
    metrics: pd.DataFrame, target, folds: int = 5, repeats: int = 4, penalty: float = 1.0, seed: int = 0
) -> dict[tuple[str, ...], float]:
    """How well each subset of metrics predicts people's ratings on items that it has not seen.

    A ridge regression on the standardised metrics is fitted on all folds but one; the value is Kendall's
    τ-b of its predictions and the ratings of that fold, averaged over folds and repeats. (Pooled over
    folds, a metric that says nothing would come out below 0.)

    metrics: one row for each item, one column for each metric; items with a gap are left out.
    target: (items,), ratings.
    penalty: of the ridge regression.
    Returns {subset of names, in column order: value}; the empty subset has 0.
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
    splits = []
    for repeat in range(repeats):
        splits += KFold(folds, shuffle=True, random_state=seed + repeat).split(y)
    values = {(): 0.0}
    for size in range(1, len(names) + 1):
        for columns in combinations(range(len(names)), size):
            subset = tuple(names[j] for j in columns)
            values[subset] = _predictive_value(x, columns, y, splits, penalty)
    return values


def _predictive_value(
    x: np.ndarray, columns: tuple[int, ...], y: np.ndarray, splits: list, penalty: float
) -> float:
    """Mean τ-b over the splits; a fold with one rating only has no order to predict, and counts 0."""
    taus = []
    for train, test in splits:
        model = make_pipeline(StandardScaler(), Ridge(penalty)).fit(x[train][:, columns], y[train])
        predictions = model.predict(x[test][:, columns]).round(12)
        taus.append(kendall_taus(predictions, y[test], np.ones((1, len(test))), "b")[0])
    return float(np.nan_to_num(taus).mean())


def shapley_values(values: dict[tuple[str, ...], float]) -> pd.Series:
    """Shapley value of each metric: its gain, averaged over all orders in which the metrics can join.

    They add up to the value of the whole set.

    values: of all subsets, as `subset_values` gives them.
    """
    names = max(values, key=len)
    result = {}
    for name in names:
        total = 0
        for subset, value in values.items():
            if name not in subset:
                gain = values[_with(subset, name, names)] - value
                total += gain / (len(names) * comb(len(names) - 1, len(subset)))
        result[name] = total
    return pd.Series(result, name="Shapley value")


def greedy_selection(values: dict[tuple[str, ...], float]) -> pd.DataFrame:
    """Metrics in the order of greedy selection: always the one that gains most.

    values: of all subsets, as `subset_values` gives them.
    Returns a row for each metric: metric, value reached, gain, chosen (False from the first gain that is not
        positive).
    """
    names, selected, rows = max(values, key=len), (), []
    while len(selected) < len(names):
        reached = {name: values[_with(selected, name, names)] for name in names if name not in selected}
        best = max(reached, key=reached.get)
        gain = reached[best] - values[selected]
        chosen = gain > 0 and all(row["chosen"] for row in rows)
        rows.append({"metric": best, "value": reached[best], "gain": gain, "chosen": chosen})
        selected = _with(selected, best, names)
    return pd.DataFrame(rows)


def _with(subset: tuple[str, ...], name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The subset with one more name, in the order of `names`."""
    return tuple(other for other in names if other in subset or other == name)
