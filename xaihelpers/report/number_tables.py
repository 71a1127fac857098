"""Tables of numbers as HTML: in the digits of their metric, sources side by side."""

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import pandas as pd

from xaihelpers.records import MARK
from xaihelpers.tables import PAPER, Source

PERCENT = ("accuracy", "CEM", "CLM", "S+", "S-", "T", "T_A", "recall")
UNITS = dict.fromkeys(PERCENT, "%") | {"CGIM": "cosine", "IoU": "0–1"}
FORMATS = {"%": "{:.1f}", "cosine": "{:.2f}", "0–1": "{:.3f}"}
KEY_NAMES = {
    "theta": "θ",
    "u": "û",
    "theta*u": "θ·û",
    "lambda": "λ",
    "alpha": "α",
    "samples": "N_p = N_n",
    "values": "concept values",
    "head": "black box's head",
    "attribute": "concept",
    "class_name": "class",
}
NUMBERS = ["metric", "value", "low", "high", "cases", "chance", MARK]  # other columns: further numbers


class Block(NamedTuple):
    """The columns that stand beside each other for one metric from one source."""

    metric: str
    source: Source
    heading: str  # HTML
    columns: dict[str, list[str]]  # name -> texts


def unit_of(metric: str) -> str:
    """The unit of a metric, "" where none is known; CGIM1 to CGIM3 have that of CGIM."""
    return UNITS.get(metric.rstrip("0123456789"), "")


def with_unit(metric: str) -> str:
    """The name of a metric with its unit: "CEM (%)"."""
    unit = unit_of(metric)
    return f"{metric} ({unit})" if unit else metric


def format_number(value: float, metric: str = "") -> str:
    """A number in the digits of its metric's unit, a dash for NaN.

    Percentages have one digit, cosines two; numbers without a unit are whole, or have three significant
    digits.
    """
    if pd.isna(value):
        return "–"
    form = FORMATS.get(unit_of(metric))
    if form is None:
        is_whole = abs(value) >= 1000 or value == int(value)
        form = "{:,.0f}" if is_whole else "{:.3g}"
    text = form.format(value).replace("-", "−")
    is_zero = not re.search("[1-9]", text)
    return text.removeprefix("−") if is_zero else text


def key_label(name: str) -> str:
    """A row key in words: "θ" for theta, "bill shape: dagger" for has_bill_shape::dagger."""
    name = KEY_NAMES.get(name, name)
    if re.match(r"\d{3}\.\w", name):
        return name[4:].replace("_", " ")
    if name.startswith("has_"):
        return name.removeprefix("has_").replace("_", " ").replace("::", ": ")
    return name


def source_columns(rows: pd.DataFrame, narrow: bool = False) -> tuple[dict[str, list[str]], str]:
    """The columns that a source has in a table, and the last line of its heading.

    Cases and chance that are the same in all rows stand in that line.

    rows: `metric`, `value`, and NaN or numbers in `low`, `high`, `cases`, `chance` and any further column;
        one row for each row of the table. Texts in `void` mark their value.
    narrow: gives cases that differ no column of their own, but their range in the heading.
    Returns name of column -> texts, and the line.
    """
    columns = {"value": _texts(rows, "value", with_metric=True)}
    if MARK in rows:
        marks = rows[MARK].fillna("").ne("")
        pairs = zip(columns["value"], marks, strict=True)
        columns["value"] = [f"{text} void" if marked else text for text, marked in pairs]
    line = []
    if rows.low.notna().any():
        bounds = zip(_texts(rows, "low", True), _texts(rows, "high", True), rows.low, strict=True)
        columns["interval"] = ["–" if pd.isna(low) else f"[{a}, {b}]" for a, b, low in bounds]

    cases = _texts(rows, "cases", with_metric=False)
    same, known = _same_text(rows, cases)
    if same:
        line += [] if same == "–" else [f"{same} cases"]
    elif known and narrow:
        line.append(f"{format_number(rows.cases.min())} to {format_number(rows.cases.max())} cases")
    elif known:
        columns["cases"] = cases

    chances = _texts(rows, "chance", with_metric=True)
    same, known = _same_text(rows, chances)
    percent = " %" if all(with_unit(metric).endswith("(%)") for metric in rows.metric) else ""
    if same:
        line += [] if same == "–" else [f"chance {same}{percent}"]
    elif known:
        columns["chance"] = chances

    for name in rows.columns.difference(NUMBERS):
        if rows[name].notna().any():
            columns[name] = _texts(rows, name, with_metric=False)
    return columns, ", ".join(line)


def _texts(rows: pd.DataFrame, name: str, with_metric: bool) -> list[str]:
    metrics = rows.metric if with_metric else [""] * len(rows)
    return [format_number(value, metric) for value, metric in zip(rows[name], metrics, strict=True)]


def _same_text(rows: pd.DataFrame, texts: list[str]) -> tuple[str, bool]:
    """The text that all rows with a value share ("" if they do not), and whether any of them has a number."""
    distinct = {text for text, value in zip(texts, rows.value, strict=True) if not pd.isna(value)}
    known = bool(distinct - {"–"})
    if len(distinct) == 1 and len(rows) > 1:
        return distinct.pop(), known
    return "", known


def table_html(names: pd.DataFrame, blocks: Sequence[Block], unit: str = "") -> str:
    """A table of named rows with blocks of columns beside each other.

    names: texts that name the rows, a column each.
    blocks: the sources of one metric after another. Several metrics get a line of headings of their own.
    unit: stands for the heading "value" where there is one metric only.
    """
    head = "".join(f"<tr>{line}</tr>" for line in _head_lines(names, blocks, unit))
    cells = _number_cells(blocks)
    groups = len(names.columns) > 1 and names.iloc[:, 0].nunique() < len(names) / 1.5
    body, above = [], ()
    for i, row in enumerate(names.itertuples(index=False, name=None)):
        shown = []
        for k, (column, name) in enumerate(zip(names, row, strict=True)):
            # a name that several rows share is written once
            repeated = row[: k + 1] == above[: k + 1] and k < len(row) - 1
            label = with_unit(name) if column == "metric" else key_label(name)
            shown.append(f"<td class=k>{'' if repeated else escape(label)}</td>")
        for kind, texts in cells:
            shown.append(f'<td class="{kind}">{escape(texts[i])}</td>')
        begins_group = i > 0 and groups and row[:1] != above[:1]
        body.append(f"<tr{' class=first' if begins_group else ''}>{''.join(shown)}</tr>")
        above = row
    return f"<div class=scroll><table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table></div>"


def _head_lines(names: pd.DataFrame, blocks: Sequence[Block], unit: str) -> list[str]:
    """The lines of headings: the metrics if there are several, the sources, the names of the columns."""
    metrics = list(dict.fromkeys(block.metric for block in blocks))
    several = len(metrics) > 1
    lines = []
    if several:
        line = ""
        for metric in metrics:
            width = sum(len(block.columns) for block in blocks if block.metric == metric)
            line += f'<th class="g" colspan={width}>{escape(with_unit(metric))}</th>'
        lines.append(line)
    line = ""
    for block in blocks:
        line += f'<th class="g source" colspan={len(block.columns)}>{block.heading}</th>'
    lines.append(line)
    line = ""
    for block in blocks:
        for i, name in enumerate(block.columns):
            kind = "n g" if i == 0 else "n"
            label = name
            if name == "value" and not several:
                label = unit or name
            line += f'<th class="{kind}">{escape(label)}</th>'
    lines.append(line)
    keys = [f"<th class=k rowspan={len(lines)}>{escape(key_label(name))}</th>" for name in names]
    lines[0] = "".join(keys) + lines[0]
    return lines


def _number_cells(blocks: Sequence[Block]) -> list[tuple[str, list[str]]]:
    """The CSS classes and the texts of each column of numbers."""
    cells = []
    for block in blocks:
        for i, (name, texts) in enumerate(block.columns.items()):
            kind = f"n {name}"
            if i == 0:
                kind += " g"
            if block.source == PAPER:
                kind += " paper"
            cells.append((kind, texts))
    return cells
