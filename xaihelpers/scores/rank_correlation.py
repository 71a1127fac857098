"""Kendall's τ between scores of the same items, with bootstrap intervals over items.

Paper conceptscore, section 4.3, appendices C and H:

    (18)  τ = 2 (C − D) / (n (n − 1))

| symbol | name | shape |
|---|---|---|
| n, items (the paper: pairs) | rows of `scores` | scalar |
| C − D, concordant less discordant pairs | inside `kendall_taus` | scalar for each resample |
| τ | `tau` | (scores, scores) |
"""

from itertools import combinations_with_replacement
from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd


class KendallMatrix(NamedTuple):
    """Square tables, score by score: τ, its 95 % bootstrap interval over items, and how many have both."""

    tau: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    cases: pd.DataFrame


def kendall_matrix(
    scores: pd.DataFrame, variant: str = "b", resamples: int = 1000, seed: int = 0
) -> KendallMatrix:
    """Kendall's τ of every two columns of `scores`, eq. 18.

    Variant "a" divides C − D by all n (n − 1) / 2 pairs, as eq. 18 prints it. Variant "b" leaves tied pairs
    out of the denominator, √((pairs − ties in x)(pairs − ties in y)), which ratings on four steps need.

    scores: one row for each item, NaN where an item has no such score; such items are left out pair by pair.
    resamples: of the items, with replacement.
    Returns τ in [-1, 1], NaN for a constant score and for fewer than two items.
    Raises ValueError: an unknown variant, two columns of one name.
    """
    if variant not in ("a", "b"):
        raise ValueError(f'variant must be "a" or "b", not {variant!r}')
    names = list(scores.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"columns must differ, but they are {names}")
    counts = _bootstrap_counts(len(scores), resamples, seed)
    values = scores.to_numpy(dtype=np.float64).T  # (scores, items)
    tau, low, high = (pd.DataFrame(nan, names, names) for _ in range(3))
    cases = pd.DataFrame(0, names, names)
    for a, b in combinations_with_replacement(range(len(names)), 2):
        both = ~np.isnan(values[a]) & ~np.isnan(values[b])
        taus = kendall_taus(values[a][both], values[b][both], counts[:, both], variant)
        resampled = taus[1:]
        bounds = np.nanpercentile(resampled, [2.5, 97.5]) if np.isfinite(resampled).any() else (nan, nan)
        for table, value in ((tau, taus[0]), (low, bounds[0]), (high, bounds[1]), (cases, int(both.sum()))):
            table.iloc[a, b] = value
            table.iloc[b, a] = value
    return KendallMatrix(tau, low, high, cases)


def kendall_difference(
    scores: pd.DataFrame,
    target: str,
    baseline: str | int,
    variant: str = "b",
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """By how much each score's τ with `target` exceeds that of `baseline`, over the same resamples of items.

    scores: as in `kendall_matrix`; items with a gap in any column are left out.
    target, baseline: names of columns.
    Returns a row for each other column: score, value, the 95 % bootstrap interval low and high, cases.
    """
    complete = scores.dropna()
    counts = _bootstrap_counts(len(complete), resamples, seed)
    reference = complete[target].to_numpy(float)
    taus = {
        name: kendall_taus(complete[name].to_numpy(float), reference, counts, variant)
        for name in scores
        if name != target
    }
    rows = []
    for name, tau in taus.items():
        if name == baseline:
            continue
        difference = tau - taus[baseline]
        low, high = np.nanpercentile(difference[1:], [2.5, 97.5])
        rows.append({"score": name, "value": difference[0], "low": low, "high": high, "cases": len(complete)})
    return pd.DataFrame(rows)


def _bootstrap_counts(n: int, resamples: int, seed: int) -> np.ndarray:
    """How often each of n items is in each resample, (1 + resamples, n); row 0 is the sample itself."""
    if n == 0:
        return np.ones((1 + resamples, 0))
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    return np.concatenate([np.ones((1, n)), drawn])


def kendall_taus(x: np.ndarray, y: np.ndarray, counts: np.ndarray, variant: str = "b") -> np.ndarray:
    """τ of many resamples of the same items at once.

    With w_i the count of item i, C − D = ½ Σ_ij w_i w_j sign(x_i − x_j) sign(y_i − y_j); an item drawn
    twice is tied with itself.

    x, y: (n,), two scores. counts: (R, n), how often each item is in each resample. variant: "a" or "b".
    Returns (R,), NaN where a score is constant within a resample.
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
