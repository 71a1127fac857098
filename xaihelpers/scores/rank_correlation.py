"""Kendall's τ between scores of the same items, with intervals over items.

Paper conceptscore, section 4.3, appendices C and H:

    (18)  τ = 2 (C − D) / (n (n − 1))

| symbol | name | shape |
|---|---|---|
| n, items (the paper: pairs) | rows of `scores` | scalar |
| C − D, concordant less discordant pairs | inside `kendall_taus` | scalar for each set of items |
| τ | `tau` | (scores, scores) |
"""

from itertools import combinations_with_replacement
from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from xaihelpers.scores.intervals import Interval, interval


class KendallMatrix(NamedTuple):
    """Square tables, score by score: τ, its 95 % interval over items, and how many have both."""

    tau: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    cases: pd.DataFrame


def kendall_matrix(
    scores: pd.DataFrame, variant: str = "b", clusters: ArrayLike | None = None
) -> KendallMatrix:
    """Kendall's τ of every two columns of `scores`, eq. 18.

    Variant "a" divides C - D by all n (n - 1) / 2 pairs, as eq. 18 prints it. Variant "b" leaves tied pairs
    out of the denominator, √((pairs − ties in x)(pairs − ties in y)), which ratings on four steps need.

    scores: one row for each item, NaN where an item has no such score; such items are left out pair by pair.
    clusters: of the items, as of `scores.interval`.
    Returns τ in [-1, 1], NaN for a constant score and for fewer than two items.
    Raises ValueError: an unknown variant, two columns of one name.
    """
    names = list(scores.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"columns must differ, but they are {names}")
    tables = {field: pd.DataFrame(nan, names, names) for field in KendallMatrix._fields}
    for one, other in combinations_with_replacement(names, 2):
        found = kendall_tau(scores[one], scores[other], variant=variant, clusters=clusters)
        for field, table in tables.items():
            value = getattr(found, "value" if field == "tau" else field)
            table.loc[one, other] = value
            table.loc[other, one] = value
    return KendallMatrix(**tables)


def kendall_tau(
    x: ArrayLike,
    y: ArrayLike,
    baseline: ArrayLike | None = None,
    variant: str = "b",
    clusters: ArrayLike | None = None,
) -> Interval:
    """Kendall's τ of x and y with its 95 % interval; with a baseline, how far it exceeds τ of that and y.

    x, y, baseline: (n,), scores of the same items; items with a NaN are left out. variant: "a" or "b".
    clusters: of the items, as of `scores.interval`.
    Returns an Interval, NaN for a constant score and for fewer than two items.
    Raises ValueError: an unknown variant.
    """
    if variant not in ("a", "b"):
        raise ValueError(f'variant must be "a" or "b", not {variant!r}')

    def taus(columns: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
        found = kendall_taus(columns[0], columns[1], counts, variant)
        return found if len(columns) == 2 else found - kendall_taus(columns[2], columns[1], counts, variant)

    def statistic(*columns: np.ndarray) -> float:
        return float(taus(columns, np.ones((1, len(columns[0]))))[0])

    def without(columns: list[np.ndarray], groups: np.ndarray) -> np.ndarray:
        kept = np.arange(groups.max() + 1)[:, None] != groups  # (G, n)
        return taus(columns, kept)

    columns = (x, y) if baseline is None else (x, y, baseline)
    bounds = (-1, 1) if baseline is None else None
    return interval(*columns, statistic=statistic, clusters=clusters, bounds=bounds, without=without)


def kendall_taus(x: np.ndarray, y: np.ndarray, counts: np.ndarray, variant: str = "b") -> np.ndarray:
    """τ of many selections of the same items at once.

    With w_i the count of item i, C - D = ½ Σ_ij w_i w_j sign(x_i − x_j) sign(y_i − y_j); an item drawn
    twice is tied with itself.

    x, y: (n,), two scores. counts: (R, n), how often each item is in each selection. variant: "a" or "b".
    Returns (R,), NaN where a score is constant within a selection.
    """
    sign_x, sign_y = (np.sign(score[:, None] - score[None]).astype(np.float32) for score in (x, y))  # (n, n)
    concordance, untied_x, untied_y = (
        0.5 * np.einsum("ri,ri->r", counts.astype(np.float32) @ pairs, counts, dtype=np.float64)
        for pairs in (sign_x * sign_y, sign_x**2, sign_y**2)
    )
    n = counts.sum(1)
    if variant == "b":
        denominator = np.sqrt(untied_x * untied_y)
    else:
        denominator = np.where((untied_x > 0) & (untied_y > 0), n * (n - 1) / 2, 0)
    return np.divide(concordance, denominator, out=np.full(len(n), nan), where=denominator > 0)
