"""Scorecards as one table, one figure and one page that needs nothing else."""

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from xaihelpers import paths, plots
from xaihelpers.scorecard.card import Scorecard
from xaihelpers.scorecard.evidence import DRAWN, LABELLED, UNLABELLED
from xaihelpers.scorecard.reading import ABOVE, BELOW, OPEN
from xaihelpers.yardsticks.fault_record import FAULTS

PANELS = 5  # side by side
COLORS = {ABOVE: plots.PALETTE[0], BELOW: plots.PALETTE[3], OPEN: "0.6"}
PROMISES = {
    DRAWN: "These images were drawn: every attribute and part is known exactly, as it is of no photograph.",
    LABELLED: "These data have labels that people gave, and no exact truth: a label may be wrong, too.",
    UNLABELLED: "These data have no labels. Nothing here says whether a concept is true of an image; only "
    "what needs no label is shown.",
}
CAPTION = """A panel is a yardstick, a line in it a model: its value with the 95 % interval, and as a black
stroke what the hardest rival that knows nothing gets on the same cases. Blue: above that rival, paired; red:
below it; grey: cannot be told. In brackets: how many planted faults the yardstick sees, of those that it was
tried on (notebook 62)."""


def card_figure(cards: Sequence[Scorecard]) -> plt.Figure:
    """The readings of one model or several, as CAPTION says. Raises ValueError for no card."""
    if not cards:
        raise ValueError("no scorecard to draw: give one or more")
    table = pd.concat([card.possible.assign(line=line) for line, card in enumerate(cards)])
    tried = cards[0].worth[[*FAULTS]].map(len)
    records = {name: f" ({counts.sees} of {counts.sum()})" for name, counts in tried.iterrows()}
    panels = list(table.groupby("yardstick", sort=False))
    n_rows = max(1, -(-len(panels) // PANELS))
    look = {"figsize": (10, n_rows * (0.6 + 0.15 * len(cards))), "layout": "constrained"}
    fig, axes = plt.subplots(n_rows, PANELS, sharey=True, squeeze=False, **look)
    axes[0, 0].set_yticks(range(len(cards)), [card.evidence.name for card in cards])
    axes[0, 0].set_ylim(len(cards) - 0.4, -0.6)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (yardstick, part) in zip(axes.flat, panels, strict=False):
        for row in part.itertuples():
            ax.plot([row.low, row.high], [row.line, row.line], color=COLORS[row.verdict])
            ax.plot(row.value, row.line, "o", color=COLORS[row.verdict], markersize=4)
            ax.plot(row.blind_value, row.line, "|", color="black", markersize=9)
        ax.set_xlabel(row.unit + (" (low is good)" if row.good == "low" else ""), fontsize=8)
        ax.set_title(yardstick + records.get(yardstick, ""), fontsize=8)
        ax.tick_params(labelsize=8)
    return fig


def write_card(cards: Sequence[Scorecard], folder: str | Path) -> dict[str, Path]:
    """Write scorecard.csv, .png and .html of one model or several into a folder.

    Returns kind of file -> path. Raises OSError where they cannot be written, ValueError for no card.
    """
    folder = paths.ensure_writable(Path(folder), "make room or permit writing there, or name another --out")
    fig, png = card_figure(cards), io.BytesIO()
    fig.savefig(png, format="png", dpi=130, bbox_inches="tight")
    plt.close(fig)
    table = pd.concat([card.table for card in cards], ignore_index=True)
    content = {"csv": table.to_csv(index=False).encode(), "png": png.getvalue()}
    content["html"] = _page(cards, content["png"]).encode()
    return {kind: paths.write_whole(folder / f"scorecard.{kind}", data) for kind, data in content.items()}


def _page(cards: Sequence[Scorecard], png: bytes) -> str:
    """The cards as one HTML page that needs nothing else. png: the figure."""
    title = f"Scorecard: {escape(', '.join(card.evidence.name for card in cards))}"
    picture = base64.b64encode(png).decode()
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"]
    parts.append(f'<img src="data:image/png;base64,{picture}" alt="{CAPTION}"><p>{CAPTION}</p>')
    look = {"index": False, "border": 0, "na_rep": "", "float_format": "{:.3g}".format}
    lists = dict.fromkeys(("seen by", "fooled"), "; ".join)
    for card in cards:
        e = card.evidence
        parts.append(f"<h2>{escape(card.title)}</h2><p>{PROMISES[e.ground.kind]} {escape(' '.join(e.notes))}")
        parts.append(card.possible.drop(columns=["model", "data", "why", "give"]).to_html(**look))
        parts += [f"<p>Not possible: {escape(line)}" for line in card.not_possible]
        parts.append("<h3>Which lies this page would see</h3>")
        parts.append(card.coverage.to_html(formatters=lists, **look))
    return "\n".join(parts)
