"""The papers' printed tables, with row keys in one spelling."""

import re

import numpy as np
import pandas as pd

from xaihelpers import paths, records

# the key of tables that print several
NAMED = {
    ("alignment", "6"): "attribute",
    ("alignment", "7"): "class_name",
    ("alignment", "8"): "class_name",
}


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
    names = []
    for path in (paths.PROJECT / "data" / "papers").glob(f"{paper}_*.csv"):
        names.append(path.stem.removeprefix(f"{paper}_").removeprefix("table"))
    return sorted(names, key=table_order)


def printed(paper: str, table: str) -> pd.DataFrame:
    """A printed table: its row keys as text, `metric`, `value`; no rows where the project holds none.

    Tables 6 to 8 of alignment go by the name of the concept or class in CUB-200-2011; a row that could not be
    mapped to one, because its label is misread, keeps its label. "6-8" is the means of these tables, which
    the paper does not print.
    """
    if (paper, table) == ("alignment", "6-8"):
        return _means()
    if table not in tables_of(paper):
        return pd.DataFrame(columns=["metric", "value"])
    rows = records.paper_table(paper, table)
    if (paper, table) in NAMED:
        name = NAMED[paper, table]
        number = rows.number.map(key_text)
        label = rows.label.fillna("illegible") + " (printed as " + number + ")"
        rows = rows.assign(**{name: rows[name].fillna(label)})[[name, "metric", "value"]]
    rows = rows.drop(columns=["unit", "note"], errors="ignore")
    rows = rows.assign(value=pd.to_numeric(rows.value, errors="coerce"))
    return rows.assign(**{key: rows[key].map(key_text) for key in rows if key != "value"})


def _means() -> pd.DataFrame:
    """Means of Tables 6 to 8 of paper alignment."""
    means = []
    for name, tables in (("mean over concepts", ["6"]), ("mean over classes", ["7", "8"])):
        rows = pd.concat([printed("alignment", table) for table in tables])
        mean = rows.groupby("metric", as_index=False).value.mean()
        means.append(mean.assign(over=name))
    return pd.concat(means, ignore_index=True)
