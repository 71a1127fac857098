"""Kendall's τ between scores of the same items.

Paper conceptscore, section 4.3, appendices C and G:

    (18)  τ = 2 (C − D) / (n (n − 1))

for n items (the paper: pairs) with C concordant and D discordant pairs of them.
"""

from collections.abc import Callable, Sequence
from math import nan

import numpy as np
from numpy.typing import ArrayLike

from xaihelpers.scores.intervals import Interval, interval


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
