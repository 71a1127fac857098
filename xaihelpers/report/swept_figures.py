"""Sweeps among the runs: a figure for each parameter that was varied, and all their numbers as CSV files."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

from xaihelpers import paths
from xaihelpers.report.findings import Findings, title_of
from xaihelpers.report.page_cells import figure_html
from xaihelpers.sweep.collate import SEED, collate, family, read_sweeps, sweep_figure


class Swept(NamedTuple):
    """A parameter that runs of a notebook differ in."""

    notebook: str
    parameter: str
    n_values: int
    n_draws: int  # of each value, or more
    html: str  # its figure with the caption


def swept_figures(found: Findings, results: Path, leave_out: str = "") -> Iterator[Swept]:
    """Draw each swept parameter: of all runs the largest group that differs in nothing but it and the seed.

    All numbers, with their intervals over the draws, go into `sweep_<notebook>.csv` in the folder of results.
    Each figure is open when its parameter is given, so that it can be shown or closed.

    leave_out: the number of a notebook whose runs do not count.
    """
    for number, rows in read_sweeps(results).items():
        if number == leave_out:
            continue
        table = collate(rows).to_csv(index=False)
        paths.write_whole(results / f"sweep_{number}.csv", table.encode())
        for name in rows.attrs["swept"]:
            alike = family(rows, name)
            if len(alike) == 0:
                continue
            n_draws = alike.groupby(name)[SEED].nunique().min()
            fig = sweep_figure(alike, name)
            place = re.sub(r"\W+", "-", f"sweep {number} {name}")
            caption = f"{title_of(found, number)}: what {name} moves, "
            caption += f"over {n_draws} draws of each value or more."
            html = figure_html(_png(fig), caption, place)
            yield Swept(number, name, alike[name].nunique(), n_draws, html)


def _png(fig: plt.Figure) -> bytes:
    content = io.BytesIO()
    fig.savefig(content, format="png", dpi=80, bbox_inches="tight")
    return content.getvalue()
