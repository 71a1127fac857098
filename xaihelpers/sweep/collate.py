"""All runs of a sweep as one tidy table, with intervals over the draws, and a figure for what was varied.

    table = collate(read_sweeps(results), "11")

Runs that differ in nothing but their seed are draws of one point.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from xaihelpers.parameters import NOT_IDENTITY
from xaihelpers.records import read_records
from xaihelpers.scores.intervals import interval

ROW = ["paper", "table", "row", "metric", "data", "model"]  # what tells numbers of one run apart
SEED = "seed (parameter)"
MOST_LINES = 6  # in one panel


def read_sweeps(results: Path) -> dict[str, pd.DataFrame]:
    """The recorded rows of each notebook that has runs with different parameters, by its number.

    Each row has, beside what was recorded, its seed, in the column SEED, and a column for each parameter that
    runs of the notebook differ in; lists are texts. `attrs["swept"]` of a table names these columns: they are
    called as the parameter, or "data (parameter)" where rows have a column of that name.
    """
    records = read_records(results)
    sweeps = {}
    for notebook, rows in records.groupby("notebook"):
        parameters = {run: json.loads(part.iloc[0]) for run, part in rows.groupby("run").parameters}
        names = dict.fromkeys(name for one in parameters.values() for name in one)
        swept = []
        for name in names:
            values = {json.dumps(one.get(name)) for one in parameters.values()}
            if len(values) > 1 and name not in ("seed", "shard", *NOT_IDENTITY):
                swept.append(name)
        if not swept and len({one.get("seed") for one in parameters.values()}) == 1:
            continue
        columns = {name: f"{name} (parameter)" if name in rows else name for name in swept}
        rows = rows.assign(**{SEED: [parameters[run].get("seed", 0) for run in rows.run]})
        for name, column in columns.items():
            rows[column] = [_plain(parameters[run].get(name)) for run in rows.run]
        rows.attrs["swept"] = list(columns.values())
        sweeps[notebook] = rows
    return sweeps


def collate(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean of each recorded number over the draws of each point.

    rows: of one notebook, as of `read_sweeps`.
    Returns a table with the swept parameters, the columns that tell numbers apart, `value`, `low` and `high`
    (95 % over the draws; NaN for a single one), `draws`, and `cases_low` and `cases_high`, the means of the
    runs' own intervals.
    """
    swept = rows.attrs["swept"]
    gathered = []
    for key, part in rows.groupby([*swept, *ROW], sort=False, dropna=False):
        part = part.drop_duplicates(SEED, keep="last")
        known = part.value.dropna().to_numpy(float)
        found = interval(known) if len(known) > 1 else (*part.value, np.nan, np.nan)
        gathered.append(
            {
                **dict(zip([*swept, *ROW], key, strict=True)),
                "value": found[0],
                "low": found[1],
                "high": found[2],
                "draws": len(known),
                "cases_low": part.low.mean(),
                "cases_high": part.high.mean(),
            }
        )
    return pd.DataFrame(gathered)


def family(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of the runs that differ in the swept column `name` and their seed alone.

    Of several such families the largest, by its number of values, then of runs; empty if none has two values.
    """
    others = [other for other in rows.attrs["swept"] if other != name]
    parts = [part for _, part in rows.groupby(others, dropna=False)] if others else [rows]
    parts = [part for part in parts if part[name].nunique(dropna=False) > 1]
    best = max(parts, key=lambda part: (part[name].nunique(), part.run.nunique()), default=rows.iloc[:0])
    best = best.copy()
    best.attrs["swept"] = [name]
    return best


def sweep_figure(rows: pd.DataFrame, name: str, most_panels: int = 4) -> plt.Figure:
    """Each recorded metric against one parameter: dots are draws, bars their 95 % interval.

    rows: of a `family`. most_panels: metrics that are shown, those whose rows move most beside their draws.
    """
    table = collate(rows)
    panels = _liveliest(table)[:most_panels]
    values = sorted(rows[name].unique(), key=_order)
    places = dict(zip(values, range(len(values)), strict=True))
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    fig, axes = plt.subplots(
        lines, columns, figsize=(4.2 * columns, 3 * lines), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, panel in zip(axes.flat, panels, strict=False):
        of_panel = table[(table[["paper", "table", "metric"]] == list(panel)).all(axis=1)]
        drawn = rows[(rows[["paper", "table", "metric"]] == list(panel)).all(axis=1)]
        groups = list(of_panel.groupby(["row", "data", "model"], sort=False))[:MOST_LINES]
        for number, (line, part) in enumerate(groups):
            shift = 0.06 * (number - (len(groups) - 1) / 2)
            x = part[name].map(places) + shift
            reach = np.abs(part[["low", "high"]].to_numpy().T - part.value.to_numpy())
            ax.errorbar(x, part.value, np.nan_to_num(reach), fmt="o-", ms=4, capsize=3, label=_label(line))
            dots = drawn[(drawn[["row", "data", "model"]] == list(line)).all(axis=1)]
            ax.plot(dots[name].map(places) + shift, dots.value, ".", color="0.6", ms=3, zorder=0)
        ax.set_xticks(range(len(values)), [str(value) for value in values])
        ax.set(xlabel=name, ylabel=panel[2], title=f"{panel[0]}, {panel[1]}")
        if len(groups) > 1:
            ax.legend(fontsize=7)
    return fig


def _liveliest(table: pd.DataFrame) -> list[tuple]:
    """(paper, table, metric) by how far its mean rows move, in units of their own spread; most first."""
    moved = {}
    for panel, part in table.groupby(["paper", "table", "metric"], sort=False):
        spread = part.groupby(["row", "data", "model"]).value.agg(np.ptp)
        noise = (part.high - part.low).mean()
        scale = noise if noise > 0 else part.value.abs().mean() or 1.0
        moved[panel] = -(spread.mean() / scale)
    return sorted(moved, key=lambda panel: np.nan_to_num(moved[panel]))


def _label(line: tuple) -> str:
    row, data, model = line
    return row or f"{model}, {data}"


def _order(value: object) -> tuple:
    """Sorts numbers by size, and before texts."""
    number = isinstance(value, (int, float))
    return not number, value if number else str(value)


def _plain(value: object) -> object:
    """A parameter's value as it can stand in a column."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value
