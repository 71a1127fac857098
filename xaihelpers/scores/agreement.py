"""Do raters agree among themselves? Krippendorff's α and Fleiss' κ of a table of ratings, and a ceiling.

Paper conceptscore, sections 3.5 and 4.3, appendix I.2:

    (19)  κ = (P̄ − P_e) / (1 − P_e)

Ratings are a tidy table with one row for each answer and the columns item, rater, rating.

What a judge can reach at most is bounded by what one rater reaches (not in the papers). Both are held against
the same means, each rater's left out in turn:

    rater = 1/R sum_r corr(y_r, m_r),   judge = 1/R sum_r corr(x, m_r)

with y_r the ratings of rater r, m_r the mean of the others', x the judge's scores, each over items.
"""

import logging
from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from xaihelpers.paths import find
from xaihelpers.scores.intervals import Interval, interval
from xaihelpers.text_files import numbers, read_table

log = logging.getLogger(__name__)
COLUMNS = ("item", "rater", "rating")


def on_another_scale(scores: pd.Series | pd.DataFrame, high: float = 5) -> tuple[str, bool]:
    """What is suspect of scores from 0 to `high`, and the remedy, and whether it is sure; "" for nothing.

    Nobody can be sure where there are 0, 0.5 and 1 alone. NaN are left out.
    """
    numbers = np.asarray(scores, float)
    numbers = numbers[~np.isnan(numbers)]
    least, most = numbers.min(initial=np.inf), numbers.max(initial=-np.inf)
    if numbers.size and (least < 0 or most > high):
        return f"scores go from {least:g} to {most:g}, not from 0 to {high:g}: scale them", True
    if 0 < most <= 1 < high:
        told = f"none of {numbers.size} scores from 0 to {high:g} is above 1"
        is_sure = not np.isin(numbers, [0, 0.5, 1]).all()
        return f"{told}: if 1 is the highest, give {high:g} times as much", is_sure
    return "", False


def require_scale(scores: pd.Series | pd.DataFrame, source: object, high: float = 5) -> None:
    """Raise ValueError for what is surely `on_another_scale`; what may be is in the log."""
    suspicion, sure = on_another_scale(scores, high)
    if sure:
        raise ValueError(f"{source}: {suspicion}")
    if suspicion:
        log.warning("%s: %s", source, suspicion, extra={"note": True})


def read_ratings(
    file: str | Path, columns: Sequence[str] = COLUMNS, low: float = 1, high: float = 4
) -> pd.DataFrame:
    """A CSV of ratings with these columns, and perhaps more, as notebook 71 exports it, indexed by its lines.

    Ratings are numbers from low to high, NaN where one is empty: people may skip an item. Names of items,
    raters, models and images are texts, just as they are written: a model may be "2.0", "-" or "NA".

    Raises ValueError, naming the line: the file cannot be read, a column is missing, a rating is no number
        within the scale, a second rating of an item by one rater, a rating without item or rater, an item
        that stands for two (by `columns` other than rater and rating); and as `require_scale`.
    """
    table = read_table(find(file) or file, columns)
    table["rating"] = numbers(table["rating"], file, low, high, empty_ok=True)
    if low == 0:
        require_scale(table["rating"], file, high)
    rated = table[table["rating"].notna()]
    names = [name for name in ("item", "rater") if name in rated]
    faults = {
        "a rating names no item or no rater": rated[names].eq("").any(axis=1),
        "an item is rated again": rated.duplicated(names),
    }
    for name in set(columns) - set(COLUMNS):
        first = table.groupby("item")[name].transform("first")
        faults[f"its {name} was another one before"] = table[name] != first
    for fault, rows in faults.items():
        if rows.any():
            about = ", ".join(f"{name} {table[name][rows.idxmax()]!r}" for name in names)
            raise ValueError(f"{file}, line {rows.idxmax()}: {fault} ({about}): correct or remove it")
    return table


def rating_matrix(table: pd.DataFrame, low: int = 1, high: int = 4) -> pd.DataFrame:
    """Items as rows, raters as columns, NaN where a rater has not rated an item.

    table: item, rater, rating.
    Raises ValueError: a rating that is no step of the scale from low to high, fewer than two raters.
    """
    table = table.dropna(subset="rating")
    wrong = table[~table["rating"].isin(range(low, high + 1))]
    if len(wrong):
        item, rater, rating = wrong.iloc[0][list(COLUMNS)]
        raise ValueError(
            f"the rating {rating} of item {item!r} by rater {rater!r} is none of {low} … {high} "
            f"({len(wrong)} such in all): correct or remove it"
        )
    if table["rater"].nunique() < 2:
        raise ValueError(f"agreement needs two raters or more, not {table['rater'].nunique()}")
    return table.pivot(index="item", columns="rater", values="rating").astype(float)


def told_apart(ratings: Sequence, planted: Sequence) -> Interval:
    """A of one rater: the share of pairs of a true and a false planted list whose true one is rated higher.

    ratings: (n,), NaN for a gap. planted: (n,), "true", "false", and anything else of what is not planted.
    Returns an Interval, in which equal ratings count half; NaN without lists of both kinds.
    """
    is_true, is_false = np.asarray(planted) == "true", np.asarray(planted) == "false"
    kept = is_true | is_false
    return interval(is_true[kept], np.asarray(ratings)[kept], statistic="auc")


def krippendorff_alpha(
    table: pd.DataFrame, low: int = 1, high: int = 4, clusters: Sequence[pd.Series] | None = None
) -> Interval:
    """Krippendorff's α of ordinal ratings, with its 95 % interval over items.

    Gaps are allowed; cases are the items with two ratings or more, for others say nothing of agreement.

    table: item, rater, rating. low, high: ends of the scale.
    clusters: what items share, as of `scores.interval` (image, model): series with the items as their index.
    Returns an Interval, NaN where all ratings are the same: then there is nothing to agree on.
    Raises ValueError: as `rating_matrix`, and where no item has two ratings.
    """
    matrix = rating_matrix(table, low, high)
    matrix = matrix[matrix.notna().sum(axis=1) > 1]
    if matrix.empty:
        raise ValueError("no item has ratings of two raters: there is no agreement to measure")

    def alpha(counts: np.ndarray) -> float:
        steps = range(low, high + 1)
        return krippendorff.alpha(value_counts=counts, value_domain=steps, level_of_measurement="ordinal")

    return _over_items(alpha, matrix, low, high, clusters)


def fleiss_kappa(
    table: pd.DataFrame, low: int = 1, high: int = 4, clusters: Sequence[pd.Series] | None = None
) -> Interval:
    """Fleiss' κ, eq. 19, with its 95 % interval over items.

    κ has no place for gaps; cases are the items that all raters have rated.

    table, low, high, clusters: as of `krippendorff_alpha`.
    Returns an Interval, NaN where all ratings are the same and where no item is rated by all.
    Raises ValueError: as `rating_matrix`.
    """
    matrix = rating_matrix(table, low, high).dropna()
    return _over_items(statsmodels_kappa, matrix, low, high, clusters)


def _over_items(
    coefficient: Callable, matrix: pd.DataFrame, low: int, high: int, clusters: Sequence[pd.Series] | None
) -> Interval:
    """A coefficient of the counts (items, steps of the scale) of ratings, with its interval."""
    counts = np.stack([(matrix == step).sum(axis=1) for step in range(low, high + 1)], axis=1)

    def of_rows(rows: np.ndarray) -> float:
        sample = counts[rows.astype(int)]
        return coefficient(sample) if np.count_nonzero(sample.sum(0)) > 1 else nan

    groups = _of_items(clusters, matrix)
    return interval(np.arange(len(counts)), statistic=of_rows, bounds=(-1, 1), clusters=groups)


def leave_one_rater_out(
    table: pd.DataFrame,
    scores: pd.Series,
    low: int = 0,
    high: int = 5,
    clusters: Sequence[pd.Series] | None = None,
) -> dict[str, Interval]:
    """Pearson's correlation of a rater, and of a judge, with the mean of the other raters (module docstring).

    Against the mean of all raters a judge would look better: it has one rater more, and less noise.

    table: item, rater, rating. scores: the judge's, by item. low, high: ends of the scale.
    clusters: as of `krippendorff_alpha`.
    Returns Intervals by "rater", "judge" and "judge less rater", NaN where fewer than four items or two of
    the raters' means differ. Cases are the items with a score and two ratings or more.
    Raises ValueError: as `rating_matrix`.
    """
    matrix = rating_matrix(table, low, high)
    scores = scores.reindex(matrix.index)
    matrix = matrix[(matrix.notna().sum(axis=1) > 1) & scores.notna()]
    n_others = matrix.notna().sum(axis=1) - 1
    others = matrix.rsub(matrix.sum(axis=1), axis=0).div(n_others, axis=0)  # NaN where a rater skipped

    def correlations(rows: np.ndarray) -> pd.Series:
        """Of rater and judge with the means, averaged over the raters."""
        some = matrix.iloc[rows.astype(int)]
        means = others.loc[some.index, some.notna().sum() > 3]
        found = pd.DataFrame({"rater": some.corrwith(means), "judge": means.corrwith(scores[some.index])})
        return found.dropna().mean()

    statistics = {
        "rater": (lambda rows: correlations(rows)["rater"], (-1, 1)),
        "judge": (lambda rows: correlations(rows)["judge"], (-1, 1)),
        "judge less rater": (lambda rows: correlations(rows).diff()["judge"], (-2, 2)),
    }
    rows, groups = np.arange(len(matrix)), _of_items(clusters, matrix)
    found = {}
    for name, (statistic, bounds) in statistics.items():
        found[name] = interval(rows, statistic=statistic, bounds=bounds, clusters=groups)
    return found


def _of_items(clusters: Sequence[pd.Series] | None, matrix: pd.DataFrame) -> list[np.ndarray] | None:
    """The clusters of the items of this matrix, row by row."""
    return None if clusters is None else [series.loc[matrix.index].to_numpy() for series in clusters]
