"""Do raters agree among themselves? Krippendorff's α and Fleiss' κ of a table of ratings, and a ceiling.

Paper conceptscore, sections 3.5 and 4.3, appendix I.2:

    (19)  κ = (P̄ − P_e) / (1 − P_e)

Ratings are a tidy table with one row for each answer and the columns item, rater, rating. The agreement of
scores is in `rank_correlation`.

What a judge can reach at most is bounded by what one rater reaches (not in the papers). Both are held against
the same means, each rater's left out in turn:

    rater = 1/R sum_r corr(y_r, m_r),   judge = 1/R sum_r corr(x, m_r)

| symbol | name | shape |
|---|---|---|
| n_ij, raters that give item i rating j | `_step_counts` | (items, steps of the scale) |
| κ, α | value of an Interval | scalar |
| y_r, ratings of rater r; m_r, mean of the others' | `ratings`, `others` | (items, raters) |
| x, the judge's scores | `scores` | (items,) |
"""

from collections.abc import Sequence
from math import nan
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from xaihelpers.paths import find
from xaihelpers.scores.intervals import Interval, interval
from xaihelpers.text_files import TextFileError, numbers, read_table

COLUMNS = ("item", "rater", "rating")


def read_ratings(
    file: str | Path, columns: Sequence[str] = COLUMNS, low: float = 1, high: float = 4
) -> pd.DataFrame:
    """A CSV of ratings with these columns, and perhaps more, indexed by the lines of the file.

    Ratings are numbers from low to high, NaN where one is empty: people may skip an item. Names of items,
    raters, models and images are texts, just as they are written: a model may be "2.0", "-" or "NA".

    Raises ValueError, naming the line: the file cannot be read, a column is missing, a rating is no number
        within the scale, a second rating of an item by one rater, a rating without item or rater, an item
        that stands for two (by `columns` other than rater and rating).
    """
    try:
        table = read_table(find(file) or file)
    except TextFileError as error:
        raise ValueError(
            f"{file} cannot be read as a table of ratings ({error}): give a CSV with the columns "
            f"{', '.join(columns)}, as notebook 71 exports it"
        ) from error
    _require_columns(table, columns, str(file))
    table["rating"] = numbers(table["rating"], file, low, high, empty_ok=True)
    _require_one_each(table[table["rating"].notna()], f"{file}, line {{}}: ")
    for name in set(columns) - set(COLUMNS):
        other = table[name] != table.groupby("item")[name].transform("first")
        if other.any():
            line, item = other.idxmax(), table["item"][other.idxmax()]
            raise ValueError(f"{file}, line {line}: item {item!r} has had another {name} before: correct one")
    return table


def check_ratings(table: pd.DataFrame, low: int = 1, high: int = 4) -> pd.DataFrame:
    """The tidy table (item, rater, rating), checked, with ratings as whole numbers.

    Rows without a rating are dropped, for gaps are allowed.

    low, high: ends of the scale.
    Raises ValueError, naming rater, item and the remedy: a missing column, no rating, one rater only, a
        rater's second rating of an item, a rating without item or rater, a rating that is no number, not
        whole or outside the scale.
    """
    _require_columns(table, COLUMNS, "a ratings table")
    table = table[list(COLUMNS)].dropna(subset="rating")
    number = pd.to_numeric(table["rating"], errors="coerce")  # what is none is refused
    faults = {
        "is no number": number.isna(),
        f"is outside the scale {low} … {high}": ~number.between(low, high),
        "is not whole": number % 1 != 0,
    }
    for problem, fault in faults.items():
        if fault.any():
            item, rater, rating = map(_quoted, table[fault].iloc[0])
            raise ValueError(
                f"the rating {rating} of item {item} by rater {rater} {problem} "
                f"({int(fault.sum())} such in all): correct or remove it"
            )
    _require_one_each(table)
    raters = table["rater"].unique()
    if len(raters) < 2:
        held = f"only {_quoted(raters[0])}" if len(raters) else "no rating"
        raise ValueError(f"agreement needs two raters or more; the table has {held}")
    return table.assign(rating=number.astype(int)).reset_index(drop=True)


def _require_columns(table: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ValueError(
            f"{what} needs the columns {', '.join(columns)}; {', '.join(missing)} missing among "
            f"{', '.join(map(str, table.columns))}"
        )


def _require_one_each(rated: pd.DataFrame, place: str = "") -> None:
    """Check that each rating has an item and, where there are raters, a rater, who has no second one of it.

    place: begins the message, with {} for the row's name.
    """
    names = [name for name in ("item", "rater") if name in rated]
    for name in names:
        unnamed = rated[rated[name].isna() | rated[name].eq("")]
        if len(unnamed):
            raise ValueError(f"{place.format(unnamed.index[0])}{len(unnamed)} ratings name no {name}")
    repeated = rated[rated.duplicated(names)]
    if len(repeated):
        item, *rater = map(_quoted, repeated.iloc[0][names])
        who = f"rater {rater[0]} rates item {item}" if rater else f"item {item} is rated"
        raise ValueError(
            f"{place.format(repeated.index[0])}{who} more than once ({len(repeated)} such in all): "
            "keep one rating each"
        )


def _quoted(value) -> str:
    return repr(value.item() if hasattr(value, "item") else value)


def rating_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Items as rows, raters as columns, NaN where a rater has not rated an item; of a checked table."""
    return table.pivot(index="item", columns="rater", values="rating").astype(float)


def krippendorff_alpha(
    table: pd.DataFrame, low: int = 1, high: int = 4, clusters: Sequence[pd.Series] | None = None
) -> Interval:
    """Krippendorff's α of ordinal ratings, with its 95 % interval over items.

    Gaps are allowed; cases are the items with two ratings or more, for others say nothing of agreement.

    table: item, rater, rating. low, high: ends of the scale.
    clusters: what items share, as of `scores.interval` (image, model): series with the items as their index.
    Returns an Interval, NaN where all ratings are the same: then there is nothing to agree on.
    Raises ValueError: as `check_ratings`, and where no item has two ratings.
    """
    matrix = rating_matrix(check_ratings(table, low, high))
    matrix = matrix[matrix.notna().sum(axis=1) > 1]
    counts = _step_counts(matrix, low, high)
    if not len(counts):
        raise ValueError("no item has ratings of two raters: there is no agreement to measure")

    def alpha(rows: np.ndarray) -> float:
        sample = counts[rows.astype(int)]
        if np.count_nonzero(sample.sum(0)) < 2:
            return nan
        return krippendorff.alpha(
            value_counts=sample, value_domain=range(low, high + 1), level_of_measurement="ordinal"
        )

    groups = _of_items(clusters, matrix)
    return interval(np.arange(len(counts)), statistic=alpha, bounds=(-1, 1), clusters=groups)


def fleiss_kappa(
    table: pd.DataFrame,
    incomplete: str = "error",
    low: int = 1,
    high: int = 4,
    clusters: Sequence[pd.Series] | None = None,
) -> Interval:
    """Fleiss' κ, eq. 19, with its 95 % interval over items.

    κ has no place for gaps; cases are the items that all raters have rated.

    table: item, rater, rating.
    incomplete: items with gaps are an "error", or "leave out" measures on the others.
    low, high: ends of the scale. clusters: as of `krippendorff_alpha`.
    Returns an Interval, NaN where all ratings are the same.
    Raises ValueError: as `check_ratings`, an unknown `incomplete`, items with gaps (the first is named), no
        complete item.
    """
    if incomplete not in ("error", "leave out"):
        raise ValueError(f'incomplete must be "error" or "leave out", not {incomplete!r}')
    matrix = rating_matrix(check_ratings(table, low, high))
    complete = matrix.notna().all(axis=1)
    if incomplete == "error" and not complete.all():
        item = matrix.index[~complete][0]
        absent = ", ".join(map(str, matrix.columns[matrix.loc[item].isna()]))
        raise ValueError(
            f"Fleiss' kappa needs every rater's rating of every item, but {int((~complete).sum())} of "
            f"{len(matrix)} items have gaps, the first {_quoted(item)} (no rating by {absent}): use "
            "Krippendorff's alpha, or leave these items out"
        )
    if not complete.any():
        raise ValueError("no item is rated by all raters: use Krippendorff's alpha, which allows gaps")

    counts = _step_counts(matrix[complete], low, high)

    def kappa(rows: np.ndarray) -> float:
        sample = counts[rows.astype(int)]
        return statsmodels_kappa(sample) if np.count_nonzero(sample.sum(0)) > 1 else nan

    groups = _of_items(clusters, matrix[complete])
    return interval(np.arange(len(counts)), statistic=kappa, bounds=(-1, 1), clusters=groups)


def leave_one_rater_out(
    table: pd.DataFrame,
    scores: pd.Series,
    low: int = 0,
    high: int = 5,
    clusters: Sequence[pd.Series] | None = None,
) -> dict[str, Interval]:
    """Pearson's correlation of a rater, and of a judge, with the mean of the other raters (module docstring).

    A judge held against the mean of all raters looks better than a rater held against the others: its
    reference has one rater more, and less noise. Here both meet the same references, on the same items.

    table: item, rater, rating. scores: the judge's, by item. low, high: ends of the scale.
    clusters: what items share, as of `krippendorff_alpha`.
    Returns Intervals by "rater", "judge" and "judge less rater", NaN where fewer than four items or two of
    the raters' means differ. Cases are the items with a score and two ratings or more.
    Raises ValueError: as `check_ratings`.
    """
    matrix = rating_matrix(check_ratings(table, low, high))
    scores = scores.reindex(matrix.index)
    matrix = matrix[(matrix.notna().sum(axis=1) > 1) & scores.notna()]
    scores = scores.loc[matrix.index].to_numpy(float)
    ratings = matrix.to_numpy()
    others = (np.nansum(ratings, 1, keepdims=True) - np.nan_to_num(ratings)) / (
        (~np.isnan(ratings)).sum(1, keepdims=True) - ~np.isnan(ratings)
    )

    def correlations(rows: np.ndarray) -> np.ndarray:
        """Of rater and judge with the means, averaged over the raters, (2,)."""
        rows = rows.astype(int)
        found = []
        for rating, mean in zip(ratings[rows].T, others[rows].T, strict=True):
            rated = ~np.isnan(rating)
            columns = rating[rated], scores[rows][rated], mean[rated]
            if rated.sum() > 3 and all(np.ptp(column) > 0 for column in columns):
                found.append(np.corrcoef(columns)[2, :2])
        return np.mean(found, axis=0) if found else np.full(2, nan)

    statistics = {
        "rater": (lambda rows: correlations(rows)[0], (-1, 1)),
        "judge": (lambda rows: correlations(rows)[1], (-1, 1)),
        "judge less rater": (lambda rows: correlations(rows) @ [-1, 1], (-2, 2)),
    }
    rows, groups = np.arange(len(matrix)), _of_items(clusters, matrix)
    return {
        name: interval(rows, statistic=statistic, bounds=bounds, clusters=groups)
        for name, (statistic, bounds) in statistics.items()
    }


def _of_items(clusters: Sequence[pd.Series] | None, matrix: pd.DataFrame) -> list[np.ndarray] | None:
    """The clusters of the items of this matrix, row by row."""
    return None if clusters is None else [series.loc[matrix.index].to_numpy() for series in clusters]


def _step_counts(matrix: pd.DataFrame, low: int, high: int) -> np.ndarray:
    """How many raters gave each rating of the scale, (items, steps)."""
    return np.stack([(matrix == step).sum(axis=1) for step in range(low, high + 1)], axis=1)
