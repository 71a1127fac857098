"""What the papers print, and recorded rows beside it.

A printed and a recorded row belong together if they share `metric` and all keys of the printed table, in one
spelling: 1 and 1.0 are the same key. A number of a paper stands under the paper's own data alone.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml

from xaihelpers.paths import PROJECT
from xaihelpers.records import COLUMNS, MARK, NUMBERS, read_records

FOLDER = PROJECT / "data" / "papers"
REAL_RUNS = PROJECT / "data" / "real_runs"
# tables of paper alignment that go by the name of a concept or class in CUB-200-2011
NAMED = {"6": "attribute", "7": "class_name", "8": "class_name"}
# keys that a notebook varies and the paper does not: the paper's own choice
PUBLISHED = {"values": "as published"}
# what else is measured of a row: numbers beside its value, and not its keys
MEASURED = ("sd", "min", "max", "share below 0", "share of the images", "majority")
ABOUT = ("notebook", "run", "parameters")  # of the run that a row is from
ORIGIN = "(origin)"  # a column that no notebook records


class Source(NamedTuple):
    """Where numbers come from: a run and what it was made on, or the paper."""

    run: str  # the name of its folder
    data: str = ""
    model: str = ""


PAPER = Source("paper")


def paper_table(paper: str, table: int | str) -> pd.DataFrame:
    """What a paper prints, as tidy rows.

    table: the number of a table, or the name of the file that holds numbers of the text or of a figure.
    """
    name = f"table{table}" if str(table).isdigit() else table
    return pd.read_csv(FOLDER / f"{paper}_{name}.csv")


def headings() -> dict[tuple[str, str], dict[str, str]]:
    """(paper, table) -> the `title` and `caption` of data/papers/tables.yaml."""
    papers = yaml.safe_load((FOLDER / "tables.yaml").read_text())
    return {(paper, str(table)): about for paper, tables in papers.items() for table, about in tables.items()}


def key_text(value: object) -> str:
    """One spelling of a row key: "" for none, "50" for 50.0."""
    try:
        number = float(value)
    except ValueError:
        return str(value).strip()
    return "" if np.isnan(number) else f"{number:.10g}"


def table_order(table: str) -> tuple:
    """Sorts tables by their number, a range such as 6-8 before its first table, and names last."""
    number = re.match(r"\d*", table)[0]
    return not number, int(number or 0), "-" not in table, table


def tables_of(paper: str) -> list[str]:
    """The numbers or names of a paper's tables that the project holds."""
    names = [path.stem.removeprefix(f"{paper}_") for path in FOLDER.glob(f"{paper}_*.csv")]
    return sorted((re.sub(r"^table(?=\d+$)", "", name) for name in names), key=table_order)


def printed(paper: str, table: str) -> pd.DataFrame:
    """A printed table: its row keys as text, `metric`, `value`; no rows where the project holds none.

    Tables 6 to 8 of alignment go by the name of the concept or class in CUB-200-2011; a row that could not be
    mapped to one, because its label is misread, keeps its label. "6-8" is the means of these tables, which
    the paper does not print.
    """
    if (paper, table) == ("alignment", "6-8"):
        over = {"6": "mean over concepts", "7": "mean over classes", "8": "mean over classes"}
        rows = pd.concat([printed(paper, one).assign(over=name) for one, name in over.items()])
        return rows.groupby(["over", "metric"], sort=False, as_index=False).value.mean()
    if table not in tables_of(paper):
        return pd.DataFrame(columns=["metric", "value"])
    rows = paper_table(paper, table).drop(columns=["unit", "note"], errors="ignore")
    if paper == "alignment" and table in NAMED:
        name = NAMED[table]
        label = rows.label.fillna("illegible") + " (printed as " + rows.number.map(key_text) + ")"
        rows[name] = rows[name].fillna(label)
        rows = rows[[name, "metric", "value"]]
    rows["value"] = pd.to_numeric(rows.value, errors="coerce")
    return rows.assign(**{key: rows[key].map(key_text) for key in rows if key != "value"})


def beside(recorded: pd.DataFrame, paper: str, table: str) -> tuple[pd.DataFrame, dict[Source, pd.DataFrame]]:
    """The rows of a table and, for each source, the numbers of these rows.

    The rows are in the paper's order, those that only a run has at the end. A printed row takes on the
    further keys of the recorded rows that it belongs to.

    recorded: as of `records.read_records`.
    Returns the names of the rows, texts, the last the metric; and the numbers, a row for each of them.
    """
    ours = recorded[(recorded.paper == paper) & (recorded.table == table)]
    theirs = printed(paper, table)
    known = [key for key in theirs if key not in ("metric", "value")]
    texts = ours.drop(columns=[*COLUMNS, *known, *ABOUT], errors="ignore").map(key_text)
    more = [name for name in texts if texts[name].any()]  # the other columns belong to other tables
    numbers = [name for name in more if name in MEASURED]
    further = [name for name in more if name not in MEASURED]
    keys = known + further
    texts = {key: ours[key].map(key_text) if key in ours else "" for key in keys}
    origins = ours[list(Source._fields)].itertuples(index=False, name=None)
    ours = ours.assign(**texts, **{ORIGIN: [Source(*origin) for origin in origins]})
    if known:
        fitting = ours
        for key in PUBLISHED.keys() & {*further}:
            fitting = fitting[fitting[key].isin(["", PUBLISHED[key]])]
        fitting = fitting[[*keys, "metric"]].drop_duplicates()
        theirs = theirs.merge(fitting, on=[*known, "metric"], how="left")
        theirs = theirs.fillna(dict.fromkeys(further, ""))
    theirs = theirs.assign(**{ORIGIN: [PAPER] * len(theirs)})
    index = [*keys, "metric"]
    columns = [*index, *NUMBERS, *numbers, MARK, ORIGIN]
    parts = [part.reindex(columns=columns) for part in (theirs, ours) if len(part)]
    both = pd.concat(part.astype(dict.fromkeys([*NUMBERS, *numbers], float)) for part in parts)
    names, found = both[index].drop_duplicates(), {}
    for source, part in both.groupby(ORIGIN, sort=False):
        aligned = names.merge(part, on=index, how="left", validate="1:1")
        found[source] = aligned.drop(columns=[*index, ORIGIN])
    return names, found


def beside_paper(rows: pd.DataFrame, paper: str, table: int | str, digits: int = 1) -> pd.DataFrame:
    """Rows of a run with what the paper prints, and what was recorded on real data, in columns beside them.

    rows: with `metric` and the keys of the table, as they are recorded. digits: of the real numbers.
    Returns them with `paper`, NaN where it prints none, and for each network of a recorded run on real data
    `real: <network>`, texts with intervals, dashes where nothing was recorded.
    """
    printed_rows = printed(paper, str(table))
    joined = rows.assign(paper=_of_same_keys(rows, printed_rows, printed_rows.value, np.nan))
    recorded = read_records(REAL_RUNS)
    recorded = recorded[(recorded.paper == paper) & (recorded.table == str(table))]
    for model, part in recorded.groupby("model", sort=False):
        numbers = zip(part.value, part.low, part.high, strict=True)
        texts = [f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]" for value, low, high in numbers]
        part = part.dropna(axis=1, how="all")
        joined[f"real: {model.split(',')[0]}"] = _of_same_keys(rows, part, texts, "–")
    return joined


def _of_same_keys(rows: pd.DataFrame, others: pd.DataFrame, values: Sequence, missing: object) -> list:
    """For each of rows the value of the other row with the same metric and keys."""
    keys = [key for key in rows if key in others and key not in COLUMNS or key == "metric"]
    texts = [zip(*(frame[key].map(key_text) for key in keys), strict=True) for frame in (rows, others)]
    known = dict(zip(texts[1], values, strict=True))
    return [known.get(key, missing) for key in texts[0]]
