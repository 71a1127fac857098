"""Printed and recorded rows of a table side by side.

They belong together if they share `metric` and all keys of the printed table, compared as text.
"""

import numpy as np
import pandas as pd

from xaihelpers import records
from xaihelpers.report.number_tables import PAPER, Source
from xaihelpers.report.printed_tables import key_text, printed

# keys that a notebook varies and the paper does not: the paper's own choice
PUBLISHED = {"values": "as published"}
ORIGIN, BLOCK = "(origin)", "(block)"  # columns that no notebook records


def beside(
    recorded: pd.DataFrame, paper: str, table: str
) -> tuple[pd.DataFrame, dict[tuple[str, Source], pd.DataFrame]]:
    """The rows of a table and, for each (metric, source), the numbers of these rows.

    The rows are in the paper's order, those that only a run has at the end. Where there are few rows, or rows
    have a metric each, the metric is one of their names and the key's metric is empty; otherwise each metric
    is a block of columns.

    recorded: as of `records.read_records`.
    Returns names (a DataFrame of texts), and {(metric, source): DataFrame with a row for each row of names}.
    """
    *parts, keys = _printed_and_recorded(recorded, paper, table)
    numeric = set(parts[0]) - {*keys, "metric", records.MARK, ORIGIN}
    parts = [part.astype(dict.fromkeys(numeric, float)) for part in parts if len(part)]
    both = pd.concat(parts)
    wide = bool(keys) and _is_wide(both, keys)
    index = keys if wide else [*keys, "metric"]
    names = both[index].drop_duplicates()
    both[BLOCK] = both.metric if wide else ""
    numbers = {}
    for (metric, source), part in both.groupby([BLOCK, ORIGIN], sort=False):
        aligned = names.merge(part.drop(columns=BLOCK), on=index, how="left", validate="1:1")
        aligned = aligned.fillna({"metric": metric})
        numbers[metric, source] = aligned.drop(columns=[*keys, ORIGIN])
    return names, numbers


def has_number(names: pd.DataFrame, numbers: dict, of_paper: bool) -> np.ndarray:
    """Which rows have a number of the paper, or else of any run, (rows,) of bool.

    names, numbers: as of `beside`.
    """
    known = np.zeros(len(names), bool)
    for (_, source), rows in numbers.items():
        if (source == PAPER) == of_paper:
            known |= rows.value.notna().to_numpy()
    return known


def _printed_and_recorded(
    recorded: pd.DataFrame, paper: str, table: str
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Both kinds of rows with the same keys as text, and the names of the keys.

    A printed row takes on the further keys of the recorded rows that it belongs to.
    """
    ours = recorded[(recorded.paper == paper) & (recorded.table == table)]
    filled = ours.notna().any()  # the other columns belong to other tables
    ours = ours.loc[:, filled | filled.index.isin([*records.COLUMNS, *Source._fields])]
    theirs = printed(paper, table)
    known = [key for key in theirs if key not in ("metric", "value")]
    further, numbers = _further_columns(ours, known)
    keys = known + further
    texts = {key: ours[key].map(key_text) if key in ours else "" for key in keys}
    origins = ours[list(Source._fields)].itertuples(index=False, name=None)
    ours = ours.assign(**texts, **{ORIGIN: [Source(*origin) for origin in origins]})
    ours = ours.reindex(columns=dict.fromkeys([*ours, records.MARK]))
    fits = pd.Series(True, index=ours.index)
    for key in set(PUBLISHED) & set(further):
        fits &= ours[key].isin(["", PUBLISHED[key]])
    if known:
        ours_fitting = ours[fits][[*keys, "metric"]].drop_duplicates()
        theirs = theirs.merge(ours_fitting, on=[*known, "metric"], how="left")
        theirs = theirs.fillna(dict.fromkeys(further, ""))
    columns = [*keys, "metric", *records.NUMBERS, *numbers, records.MARK, ORIGIN]
    theirs = theirs.assign(**{ORIGIN: [PAPER] * len(theirs)}).reindex(columns=columns)
    return theirs, ours[columns], keys


def _further_columns(ours: pd.DataFrame, known: list[str]) -> tuple[list[str], list[str]]:
    """What recorded rows have beside the keys of the printed table: keys, and numbers.

    A column of fractions that nothing depends on is a further number of its row, anything else a key.
    """
    no_keys = [*records.COLUMNS, *known, "notebook", "run", "parameters"]
    keys = [name for name in ours if name not in no_keys and ours[name].map(key_text).any()]
    numbers = []
    for name in keys:
        others = [*known, *(key for key in keys if key != name)]
        doubled = ours.duplicated([*others, "metric", "run", "data", "model"]).any()
        if _is_number(ours[name]) and not doubled:
            numbers.append(name)
    return [key for key in keys if key not in numbers], numbers


def _is_number(column: pd.Series) -> bool:
    """Whether a recorded column holds numbers, at least one of them a fraction."""
    numbers = pd.to_numeric(column.replace("nan", np.nan), errors="coerce").astype(float)
    only_numbers = numbers.notna().equals(column.map(key_text).ne(""))
    return bool(only_numbers and (numbers.dropna() % 1 != 0).any())


def _is_wide(rows: pd.DataFrame, keys: list[str]) -> bool:
    """Whether metrics stand beside each other: many rows, most of them with several metrics."""
    n_rows = len(rows[keys].drop_duplicates())
    n_cells = len(rows[[*keys, "metric"]].drop_duplicates())
    return rows.metric.nunique() == 1 or n_cells > 1.5 * n_rows > 12
