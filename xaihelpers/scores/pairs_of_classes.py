"""Statistics of models in experiments, whose interval takes the pair of classes as the case.

An experiment is a pair of classes, a setting (as a dot's size) and a seed; it has many models, of two kinds.
A statistic t of an experiment's models is averaged over the experiments e of a pair p, and then over pairs,

    T = mean over p of (mean over e in p of t(e))

and T's interval leaves out one pair at a time with all its experiments and models, so that it holds the
models' chance and that of the pairs. Of a single pair the models are the cases, those of one number together.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from xaihelpers.scores.intervals import Interval, interval

EXPERIMENT = ["pair", "dot", "seed"]


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation; 0 where one of them is constant, and so tells nothing of the other."""
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) and np.ptp(y) else 0.0


def gap(of_kind: np.ndarray, values: np.ndarray) -> float:
    """Mean of the models of the kind less that of the others."""
    return float(values[of_kind > 0].mean() - values[of_kind == 0].mean())


def over_experiments(
    rows: pd.DataFrame, statistic: Callable, *columns: str, bounds: tuple[float, float] | None = None
) -> Interval:
    """T with its interval.

    rows: a row for each model, with the columns of `EXPERIMENT`, `model` and those named.
    statistic: (*columns) -> float, of one experiment. bounds: its least and greatest value.
    """
    pair, experiment = rows.groupby("pair").ngroup(), rows.groupby(EXPERIMENT).ngroup()
    cases = pair if pair.nunique() > 1 else rows["model"]

    def mean_of(of_pair: np.ndarray, of_experiment: np.ndarray, *values: np.ndarray) -> float:
        means = []
        for one in np.unique(of_pair):
            found = []
            for each in np.unique(of_experiment[of_pair == one]):
                found.append(statistic(*(column[of_experiment == each] for column in values)))
            means.append(np.mean(found))
        return float(np.mean(means))

    given = [rows[column] for column in columns]
    return interval(pair, experiment, *given, statistic=mean_of, clusters=cases, bounds=bounds)


def of_each_pair(
    rows: pd.DataFrame, statistic: Callable, *columns: str, bounds: tuple[float, float] | None = None
) -> pd.DataFrame:
    """The same of each pair alone, a row each."""
    found = []
    for pair, part in rows.groupby("pair"):
        found.append({"pair": pair} | over_experiments(part, statistic, *columns, bounds=bounds)._asdict())
    return pd.DataFrame(found)
