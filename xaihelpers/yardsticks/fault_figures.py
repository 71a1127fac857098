"""Figures of notebook 62: which yardstick sees which planted fault, and what the page says of each."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from xaihelpers import plots
from xaihelpers.scorecard.card import YARDSTICKS
from xaihelpers.scores import validity
from xaihelpers.yardsticks.fault_record import CHANGES, PRAISES

BLUE, RED, YELLOW = plots.PALETTE[0], plots.PALETTE[3], plots.PALETTE[8]
SHADES = dict(zip(validity.VERDICTS, (BLUE, "0.8", RED, YELLOW, "white"), strict=True))


def outcome_figure(found: pd.DataFrame, alarmed: set[str]) -> plt.Figure:
    """Outcomes of yardsticks (rows, in the page's order) and faults (columns), and where the page changes.

    found: as of `fault_record.read_pairs`. alarmed: yardsticks that get a ring.
    """
    lines = [name for name in YARDSTICKS.yardstick if name in set(found.yardstick)]
    columns = list(dict.fromkeys(found.fault))
    at = pd.DataFrame({"x": found.fault.map(columns.index), "y": found.yardstick.map(lines.index)})
    fig, ax = plt.subplots(figsize=(8.2, 0.205 * len(lines) + 2.4), layout="constrained")
    for outcome, shade in SHADES.items():
        some = at[found.verdict == outcome]
        ax.scatter(some.x, some.y, color=shade, marker="s", s=125, edgecolors="0.6", lw=0.6, label=outcome)
    changes = at[found[CHANGES] >= validity.TOLD]
    ax.scatter(changes.x, changes.y, color="k", s=16, label="the page changes")
    ringed = [number for number, name in enumerate(lines) if name in alarmed]
    ax.scatter([-1] * len(ringed), ringed, facecolors="none", edgecolors="k", s=60, label="false alarm")
    ax.set_yticks(range(len(lines)), lines, fontsize=10)
    ax.set_xticks(range(len(columns)), columns, fontsize=10, rotation=50, ha="left", rotation_mode="anchor")
    ax.xaxis.tick_top()
    ax.set(xlim=(-1.6, len(columns) - 0.4), ylim=(len(lines) - 0.4, -0.6))
    ax.tick_params(length=0)
    fig.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=10)
    return fig


def told_figure(found: pd.DataFrame) -> plt.Figure:
    """For each fault how many lines of the page change, how many others still praise, and the rest.

    found: as of `fault_record.read_pairs`.
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
