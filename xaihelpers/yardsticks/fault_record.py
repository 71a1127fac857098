"""What yardsticks are themselves worth: what their page says of models with a planted fault (notebook 62).

A user has no honest twin to compare a model with. A fault is therefore seen only where the page's own verdict
changes for the worse; where the page still says that the model is above what knows nothing, the fault passes.
Nothing is known of a yardstick without a recorded row, and the page says so.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from xaihelpers import plots
from xaihelpers.paths import PROJECT
from xaihelpers.records import read_records
from xaihelpers.scores import validity
from xaihelpers.yardsticks.reading import YARDSTICKS

SHIPPED = [PROJECT / "data" / "yardsticks", PROJECT / "data" / "real_runs"]
CHANGES, PRAISES = "page changes", "page praises"
KINDS = ("bottlenecks", "judges", "maps")  # of what faults are planted in
BLUE, RED, YELLOW = plots.PALETTE[0], plots.PALETTE[3], plots.PALETTE[8]
SHADES = dict(zip(validity.VERDICTS, (BLUE, "0.8", RED, YELLOW, "white", "0.3"), strict=True))


def read_worth(data: str, folder: str | Path = "") -> pd.DataFrame:
    """What is on record of each yardstick, from the rows of notebook 62.

    data: name of the data set; runs on it are preferred, then others.
    folder: a results folder; by default the shipped runs, on drawn birds and on real ones.
    Returns a row by yardstick: planted, of KINDS, the first that it was tried on; lists of planted faults:
    sees, the page's verdict changes for the worse; passes, the page praises the faulty model.
    Raises ValueError: no run of notebook 62 in the folder.
    """
    rows = [read_records(place) for place in ([Path(folder)] if str(folder) else SHIPPED)]
    rows = pd.concat([one.assign(place=place) for place, one in enumerate(rows)], ignore_index=True)
    rows = rows[(rows.notebook == "62") & (rows.table == "yardsticks")]
    if rows.empty:
        raise ValueError(f"{folder} holds no run of notebook 62: name a results folder that has one")
    rows = rows[rows.metric.isin([CHANGES, PRAISES]) & rows.yardstick.isin(YARDSTICKS.yardstick)]
    rows = rows.assign(other=rows.data != data, kind=rows.planted.map(KINDS.index))
    found = {}
    for yardstick, part in rows.groupby("yardstick", sort=False):
        best = part.sort_values(["kind", "other", "place"], kind="stable").iloc[0]
        part = part[(part[["place", "run", "planted"]] == best[["place", "run", "planted"]]).all(axis=1)]
        sees = part.fault[(part.metric == CHANGES) & (part.value >= validity.TOLD)]
        passes = part.fault[(part.metric == PRAISES) & (part.value > 0.5)]
        found[yardstick] = {"planted": best.planted, "sees": sees.tolist(), "passes": passes.tolist()}
    return pd.DataFrame.from_dict(found, orient="index")


def read_pairs(place: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of notebook 62 in a results folder, and of each pair of yardstick and fault one row.

    Returns all rows, and a table of the lines that a page has, with the columns planted, fault, yardstick,
    verdict, data, and one for each metric; faults in the order in which they were recorded.
    """
    rows = read_records(place)
    rows = rows[rows.notebook == "62"]
    of_pairs = rows[(rows.table == "yardsticks") & rows.yardstick.isin(YARDSTICKS.yardstick)]
    keys = ["planted", "fault", "yardstick", "verdict", "data"]
    wide = of_pairs.pivot(index=keys, columns="metric", values="value").reset_index()
    places = {fault: number for number, fault in enumerate(dict.fromkeys(of_pairs.fault))}
    return rows, wide.sort_values("fault", key=lambda names: names.map(places), kind="stable")


def outcome_figure(found: pd.DataFrame, alarmed: set[str]) -> plt.Figure:
    """Outcomes of yardsticks (rows, in the page's order) and faults (columns), and where the page changes.

    A panel for each kind of what a fault is planted in.
    found: as of `read_pairs`. alarmed: yardsticks that get a ring.
    """
    panels = dict(list(found.groupby("planted", sort=False)))
    n_faults = [part.fault.nunique() for part in panels.values()]
    most = max(part.yardstick.nunique() for part in panels.values())
    size = (0.26 * sum(n_faults) + 1.8 * len(panels), 0.23 * most + 2.3)
    grid = {"figsize": size, "width_ratios": n_faults, "layout": "constrained", "squeeze": False}
    fig, axes = plt.subplots(1, len(panels), **grid)
    for ax, part in zip(axes.flat, panels.values(), strict=True):
        lines = [name for name in YARDSTICKS.yardstick if name in set(part.yardstick)]
        columns = list(dict.fromkeys(part.fault))
        at = pd.DataFrame({"x": part.fault.map(columns.index), "y": part.yardstick.map(lines.index)})
        for outcome, shade in SHADES.items():
            some = at[part.verdict == outcome]
            look = {"color": shade, "edgecolors": "0.6", "lw": 0.6, "label": outcome}
            ax.scatter(some.x, some.y, 125, marker="s", **look)
        changes = at[part[CHANGES] >= validity.TOLD]
        ax.scatter(changes.x, changes.y, color="k", s=16, label="the page changes")
        ringed = [number for number, name in enumerate(lines) if name in alarmed]
        ax.scatter([-1] * len(ringed), ringed, facecolors="none", edgecolors="k", s=60, label="false alarm")
        ax.set_yticks(range(len(lines)), lines, fontsize=10)
        ax.set_xticks(range(len(columns)), columns, rotation=90, fontsize=10)
        ax.xaxis.tick_top()
        ax.set(xlim=(-0.6 - bool(ringed), len(columns) - 0.4), ylim=(most - 0.4, -0.6))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=10)
    return fig


def told_figure(found: pd.DataFrame) -> plt.Figure:
    """For each fault how many lines of the page change, how many others still praise, and the rest.

    found: as of `read_pairs`.
    """
    shades = {"the page changes": BLUE, "praised": RED, "neither": "0.85"}
    told = [found[CHANGES] >= validity.TOLD, found[PRAISES] > 0.5]
    counts = pd.crosstab(found.fault, np.select(told, list(shades)[:2], "neither"))
    counts = counts.reindex(index=found.fault.unique(), columns=list(shades), fill_value=0)
    fig, ax = plt.subplots(figsize=(8.2, 0.26 * len(counts) + 1.2), layout="constrained")
    counts.plot.barh(stacked=True, width=0.8, color=shades, legend=False, ax=ax)
    ax.set(xlabel="lines of the page", ylabel="", ylim=(len(counts) - 0.4, -0.6))
    fig.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=10)
    return fig
