"""Do scores agree: with each other, with people, with an LLM, and people among themselves?

Paper conceptscore, sections 3.5 and 4.3, appendices C, G, I. Ratings are a tidy table (item, rater, rating), one row per answer.
"""
from collections.abc import Callable, Sequence
from itertools import combinations, combinations_with_replacement
from math import comb, nan
from pathlib import Path
from typing import NamedTuple

import krippendorff
import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from .intervals import Interval


class Kendall(NamedTuple):
    """Square tables, score by score: τ, its 95 % bootstrap interval over items, and the items that have both scores."""

    tau: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    cases: pd.DataFrame


def kendall_matrix(scores: pd.DataFrame, variant: str = "b", resamples: int = 1000, seed: int = 0) -> Kendall:
    """Kendall's τ of every two columns of `scores` (one row per item; NaN where an item has no such score).

    τ = (C − D) / pairs. Variant "a" divides by all n(n − 1)/2 pairs, as eq. 18 prints it (whose n is the number of items, not of pairs); "b" leaves tied
    pairs out of the denominator, √((pairs − ties in x)(pairs − ties in y)), which ratings on four steps need. NaN for a constant score and for one item.
    """
    if variant not in ("a", "b"):
        raise ValueError(f'variant must be "a" or "b", not {variant!r}')
    rng, names = np.random.default_rng(seed), list(scores.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"columns must differ, but they are {names}")
    n = len(scores)
    times = rng.multinomial(n, np.full(n, 1 / max(n, 1)), size=resamples) if n else np.ones((resamples, 0))  # (R, N): how often each item is drawn
    drawn = np.concatenate([np.ones((1, n)), times])
    values = scores.to_numpy(dtype=np.float64).T
    tables = Kendall(*(pd.DataFrame(nan, names, names) for _ in range(3)), pd.DataFrame(0, names, names))
    for a, b in combinations_with_replacement(range(len(names)), 2):
        both = ~np.isnan(values[a]) & ~np.isnan(values[b])
        tau = _taus(values[a][both], values[b][both], drawn[:, both], variant)
        low, high = np.nanpercentile(tau[1:], [2.5, 97.5]) if np.isfinite(tau[1:]).any() else (nan, nan)
        for table, value in zip(tables, (tau[0], low, high, int(both.sum()))):
            table.iloc[a, b] = table.iloc[b, a] = value
    return tables


def kendall_gain(scores: pd.DataFrame, target: str, baseline, variant: str = "b", resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """By how much τ of each other column with column `target` exceeds that of column `baseline`: score, value, low, high, cases; 95 % bootstrap interval over items, paired."""
    complete = scores.dropna()
    drawn = np.concatenate([np.ones((1, len(complete))), np.random.default_rng(seed).multinomial(len(complete), np.full(len(complete), 1 / max(len(complete), 1)), size=resamples)])
    taus = {name: _taus(complete[name].to_numpy(float), complete[target].to_numpy(float), drawn, variant) for name in scores if name != target}
    gains = {name: tau - taus[baseline] for name, tau in taus.items() if name != baseline}
    return pd.DataFrame([{"score": name, "value": gain[0], **dict(zip(("low", "high"), np.nanpercentile(gain[1:], [2.5, 97.5]))), "cases": len(complete)} for name, gain in gains.items()])


def _taus(x: np.ndarray, y: np.ndarray, drawn: np.ndarray, variant: str) -> np.ndarray:
    """τ (R,) of every resample at once: with w_i how often item i was drawn, C − D = ½ Σ_ij w_i w_j sign(x_i − x_j) sign(y_i − y_j)."""
    signs = [np.sign(v[:, None] - v[None]).astype(np.float32) for v in (x, y)]  # (n, n); an item drawn twice is tied with itself
    half = [0.5 * np.einsum("ri,ri->r", drawn.astype(np.float32) @ s, drawn, dtype=np.float64) for s in (signs[0] * signs[1], signs[0]**2, signs[1]**2)]
    n = drawn.sum(1)
    below = np.sqrt(half[1] * half[2]) if variant == "b" else np.where((half[1] > 0) & (half[2] > 0), n * (n - 1) / 2, 0)
    return np.divide(half[0], below, out=np.full(len(n), nan), where=below > 0)


def read_ratings(file: str | Path, columns: Sequence[str] = ("item", "rater", "rating")) -> pd.DataFrame:
    """A CSV of ratings with these columns, item as text; raises ValueError naming the file and what is missing."""
    try:
        table = pd.read_csv(Path(file).expanduser(), dtype={"item": str})
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as a table of ratings ({error}): give a CSV with the columns {', '.join(columns)}, as notebook 71 exports it") from error
    if missing := [name for name in columns if name not in table.columns]:
        raise ValueError(f"{file} needs the columns {', '.join(columns)}; {', '.join(missing)} missing among {', '.join(map(str, table.columns))}")
    return table


def check_ratings(table: pd.DataFrame, low: int = 1, high: int = 4) -> pd.DataFrame:
    """The tidy table (item, rater, rating) with whole-number ratings; rows without a rating are dropped, for gaps are allowed.

    Raises ValueError, naming rater, item and the remedy, for missing columns, no rating, one rater only, a rater's second rating of an item, and a rating that
    is no number, not whole or outside `low` … `high`.
    """
    if missing := [name for name in ("item", "rater", "rating") if name not in table.columns]:
        raise ValueError(f"a ratings table needs the columns item, rater, rating; {', '.join(missing)} missing among {', '.join(map(str, table.columns))}")
    table = table[["item", "rater", "rating"]].dropna(subset="rating")
    if empty := [name for name in ("item", "rater") if table[name].isna().any()]:
        raise ValueError(f"{int(table[empty[0]].isna().sum())} ratings name no {empty[0]}")
    number = pd.to_numeric(table["rating"], errors="coerce")
    outside = f"is outside the scale {low} … {high}"
    for fault, what in ((number.isna(), "is no number"), (~number.between(low, high), outside), (number % 1 != 0, "is not whole")):
        if fault.any():
            item, rater, rating = map(_said, table[fault].iloc[0])
            raise ValueError(f"the rating {rating} of item {item} by rater {rater} {what} ({int(fault.sum())} such in all): correct or remove it")
    if len(twice := table[table.duplicated(["item", "rater"])]):
        item, rater, _ = map(_said, twice.iloc[0])
        raise ValueError(f"rater {rater} rates item {item} more than once ({len(twice)} such in all): keep one rating each")
    raters = table["rater"].unique()
    if len(raters) < 2:
        raise ValueError(f"agreement needs two raters or more; the table has {f'only {_said(raters[0])}' if len(raters) else 'no rating'}")
    return table.assign(rating=number.astype(int)).reset_index(drop=True)


def _said(value) -> str:
    return repr(value.item() if hasattr(value, "item") else value)


def rating_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Items as rows, raters as columns, NaN where a rater has not rated an item; of a checked table."""
    return table.pivot(index="item", columns="rater", values="rating").astype(float)


def krippendorff_alpha(table: pd.DataFrame, low: int = 1, high: int = 4, resamples: int = 1000, seed: int = 0) -> Interval:
    """Krippendorff's α for ordinal ratings, with a bootstrap interval over items; cases: items with two ratings or more (others say nothing of agreement).

    Gaps are allowed. NaN where all ratings are the same, for then there is nothing to agree on. Raises as `check_ratings`, and if no item has two ratings.
    """
    counts = _counts(rating_matrix(check_ratings(table, low, high)), low, high)
    counts = counts[counts.sum(1) > 1]
    if not len(counts):
        raise ValueError("no item has ratings of two raters: there is no agreement to measure")

    def alpha(rows):
        if np.count_nonzero(rows.sum(0)) < 2:
            return nan
        return krippendorff.alpha(value_counts=rows, value_domain=range(low, high + 1), level_of_measurement="ordinal")

    return _bootstrap(alpha, counts, resamples, seed)


def fleiss_kappa(table: pd.DataFrame, incomplete: str = "error", low: int = 1, high: int = 4, resamples: int = 1000, seed: int = 0) -> Interval:
    """Fleiss' κ (eq. 19), with a bootstrap interval over items; cases: items rated by all raters.

    κ has no place for gaps: `incomplete` items are an "error" (which names the first of them), or "leave out" measures on the others, and cases counts these.
    """
    if incomplete not in ("error", "leave out"):
        raise ValueError(f'incomplete must be "error" or "leave out", not {incomplete!r}')
    matrix = rating_matrix(check_ratings(table, low, high))
    complete = matrix.notna().all(axis=1)
    if incomplete == "error" and not complete.all():
        item = matrix.index[~complete][0]
        silent = ", ".join(map(str, matrix.columns[matrix.loc[item].isna()]))
        raise ValueError(f"Fleiss' kappa needs every rater's rating of every item, but {int((~complete).sum())} of {len(matrix)} items have gaps, the first "
                         f"{_said(item)} (no rating by {silent}): use Krippendorff's alpha, or leave these items out")
    if not complete.any():
        raise ValueError("no item is rated by all raters: use Krippendorff's alpha, which allows gaps")

    def kappa(rows):
        return statsmodels_kappa(rows) if np.count_nonzero(rows.sum(0)) > 1 else nan

    return _bootstrap(kappa, _counts(matrix[complete], low, high), resamples, seed)


def _counts(matrix: pd.DataFrame, low: int, high: int) -> np.ndarray:
    """(items, steps of the scale): how many raters gave each rating."""
    return np.stack([(matrix == step).sum(axis=1) for step in range(low, high + 1)], axis=1)


def _bootstrap(statistic: Callable, rows: np.ndarray, resamples: int, seed: int) -> Interval:
    rng = np.random.default_rng(seed)
    drawn = np.array([statistic(rows[rng.integers(len(rows), size=len(rows))]) for _ in range(resamples)])
    low, high = np.nanpercentile(drawn, [2.5, 97.5]) if np.isfinite(drawn).any() else (nan, nan)
    return Interval(float(statistic(rows)), float(low), float(high), len(rows))


def calibrate(scores, people, kind: str = "isotonic", low: float = 1, high: float = 4) -> Callable[[np.ndarray], np.ndarray]:
    """A function that brings an LLM's answers onto the people's scale, learnt from a small set that both have rated (appendix I.4).

    `kind`: "isotonic" (the best monotone map) or "linear". The result is clipped to `low` … `high`; NaN stays NaN. Raises ValueError for fewer than 5 pairs and
    for answers that are all the same.
    """
    scores, people = (np.asarray(values, dtype=np.float64) for values in (scores, people))
    if scores.shape != people.shape:
        raise ValueError(f"calibration needs one answer and one rating for each item, not {scores.shape} and {people.shape}")
    both = ~np.isnan(scores) & ~np.isnan(people)
    if both.sum() < 5 or np.ptp(scores[both]) == 0:
        raise ValueError(f"calibration needs 5 items or more that both have rated, with answers that differ; there are {int(both.sum())}")
    if kind not in ("isotonic", "linear"):
        raise ValueError(f'kind must be "isotonic" or "linear", not {kind!r}')
    model = IsotonicRegression(out_of_bounds="clip") if kind == "isotonic" else LinearRegression()
    model.fit(scores[both, None], people[both])

    def calibrated(values):
        values = np.asarray(values, dtype=np.float64)
        known, result = ~np.isnan(values), np.full(values.shape, nan)
        if known.any():
            result[known] = model.predict(values[known][:, None]).clip(low, high)
        return result

    return calibrated


def subset_values(metrics: pd.DataFrame, target, folds: int = 5, repeats: int = 4, penalty: float = 1.0, seed: int = 0) -> dict[tuple[str, ...], float]:
    """How well each subset of `metrics` (columns; one row per item) predicts people's ratings `target`: {subset in column order: value}; the empty one 0.

    Value: ridge regression on the standardised metrics, Kendall's τ-b of prediction and rating on items it has not seen, mean over folds and repeats (τ within
    each fold: pooled over folds, a metric that says nothing would come out below 0). Items with a gap are left out. There are 2^M subsets: ValueError for more
    than 10 metrics.
    """
    complete = metrics.notna().all(axis=1).to_numpy() & ~np.isnan(np.asarray(target, dtype=np.float64))
    x, y, names = metrics.to_numpy(dtype=np.float64)[complete], np.asarray(target, dtype=np.float64)[complete], list(metrics.columns)
    if len(names) > 10 or len(set(names)) < len(names):
        raise ValueError(f"needs at most 10 metrics of different names (there are 2^M subsets), not {len(names)}: {', '.join(map(str, names))}")
    if len(y) < 2 * folds:
        raise ValueError(f"{len(y)} items have all metrics and a rating: too few for {folds} folds")
    parts = [part for r in range(repeats) for part in KFold(folds, shuffle=True, random_state=seed + r).split(y)]
    values = {(): 0.0}
    for subset in (s for size in range(1, len(names) + 1) for s in combinations(range(len(names)), size)):
        taus = []
        for train, test in parts:
            model = make_pipeline(StandardScaler(), Ridge(penalty)).fit(x[train][:, subset], y[train])
            taus.append(_taus(model.predict(x[test][:, subset]).round(12), y[test], np.ones((1, len(test))), "b")[0])
        values[tuple(names[j] for j in subset)] = float(np.nan_to_num(taus).mean())  # a fold with one rating only has no order to predict
    return values


def shapley(values: dict[tuple[str, ...], float]) -> pd.Series:
    """Shapley value of each metric from the values of all subsets: its mean gain over all orders of joining; they add up to the whole set's value."""
    names = max(values, key=len)
    gain = {name: sum((values[tuple(n for n in names if n in subset or n == name)] - value) / (len(names) * comb(len(names) - 1, len(subset)))
                      for subset, value in values.items() if name not in subset) for name in names}
    return pd.Series(gain, name="Shapley value")


def greedy(values: dict[tuple[str, ...], float]) -> pd.DataFrame:
    """Metrics in the order of greedy choice (always the one that gains most), with the value reached and the gain; `chosen` until no gain is positive."""
    names, have, rows = max(values, key=len), (), []
    while len(have) < len(names):
        reached = {name: values[tuple(n for n in names if n in have or n == name)] for name in names if name not in have}
        best = max(reached, key=reached.get)
        gain = reached[best] - values[tuple(n for n in names if n in have)]
        rows.append({"metric": best, "value": reached[best], "gain": gain, "chosen": gain > 0 and all(row["chosen"] for row in rows)})
        have += (best,)
    return pd.DataFrame(rows)
