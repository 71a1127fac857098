"""Scorecards as one table, one figure and one page that needs nothing else."""

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.colors import to_rgb

from xaihelpers import paths, plots
from xaihelpers.scorecard.card import YARDSTICKS, Scorecard
from xaihelpers.scorecard.evidence import DRAWN, LABELLED, UNLABELLED
from xaihelpers.scorecard.reading import ABOVE, BELOW, OPEN, RANKS

PANELS = 5  # side by side
COLORS = {ABOVE: plots.PALETTE[0], BELOW: plots.PALETTE[3], OPEN: "0.6"}
# column of the table -> its name on the page
SHOWN = "yardstick unit value low high blind blind_value verdict".split()
SHOWN = dict(zip(SHOWN, SHOWN, strict=True)) | {"sees": "changes under", "passes": "praised under"}
LOW_IS_GOOD = set(YARDSTICKS.yardstick[YARDSTICKS.good == "low"])
PROMISES = {
    DRAWN: "These images were drawn: every attribute and part is known exactly, as it is of no photograph.",
    LABELLED: "These data have labels that people gave, and no exact truth: a label may be wrong, too.",
    UNLABELLED: "These data have no labels. Nothing here says whether a concept is true of an image; only "
    "what needs no label is shown.",
}
CAPTION = """A panel is a yardstick, a line in it a model: its value with the 95 % interval, and as a black
stroke what the hardest rival that knows nothing gets on the same cases. Blue: above that rival, paired; red:
below it; grey: cannot be told."""
VERDICTS_CAPTION = """A line is a yardstick, a column a model: its value and, as colour, the page's verdict.
Blue: above what knows nothing; red: below it; grey: cannot be told; empty: not possible. Bold: worse than in
the first column. ↓: low is good."""


def card_figure(cards: Sequence[Scorecard], yardsticks: Sequence[str] = ()) -> plt.Figure:
    """The readings of one model or several, as CAPTION says.

    yardsticks: those that are drawn; all that there are where none is named.
    Raises ValueError for no card.
    """
    if not cards:
        raise ValueError("no scorecard to draw: give one or more")
    table = pd.concat([card.possible.assign(line=line) for line, card in enumerate(cards)])
    table = table[table.yardstick.isin(yardsticks or table.yardstick)]
    panels = list(table.groupby("yardstick", sort=False))
    columns = min(PANELS, len(panels))
    n_rows = -(-len(panels) // columns)
    look = {"figsize": (10, n_rows * (0.75 + 0.17 * len(cards))), "layout": "constrained"}
    fig, axes = plt.subplots(n_rows, columns, sharey=True, squeeze=False, **look)
    axes[0, 0].set_yticks(range(len(cards)), [card.evidence.name for card in cards])
    axes[0, 0].set_ylim(len(cards) - 0.4, -0.6)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (yardstick, part) in zip(axes.flat, panels, strict=False):
        for row in part.itertuples():
            ax.plot([row.low, row.high], [row.line, row.line], color=COLORS[row.verdict])
            ax.plot(row.value, row.line, "o", color=COLORS[row.verdict], markersize=4)
            ax.plot(row.blind_value, row.line, "|", color="black", markersize=9)
        ax.set_xlabel(row.unit + (" (low is good)" if row.good == "low" else ""), fontsize=9)
        ax.set_title(yardstick, fontsize=9)
        ax.tick_params(labelsize=9)
    return fig


def verdicts_figure(cards: Sequence[Scorecard]) -> plt.Figure:
    """A line for each yardstick, a column for each model, as VERDICTS_CAPTION says.

    cards: the first is what the others are compared with.
    """
    yardsticks = [name for name in YARDSTICKS.yardstick if any(name in card.readings for card in cards)]
    names = [card.evidence.name for card in cards]
    fig, ax = plt.subplots(figsize=(10, 1.3 + 0.22 * len(yardsticks)), layout="constrained")
    honest = cards[0].possible.set_index("yardstick").verdict.map(RANKS)
    for column, card in enumerate(cards):
        for row in card.possible.itertuples():
            y = yardsticks.index(row.yardstick)
            pale = [1 - 0.45 * (1 - part) for part in to_rgb(COLORS[row.verdict])]
            ax.add_patch(plt.Rectangle((column - 0.48, y - 0.46), 0.96, 0.92, color=pale, lw=0))
            worse = RANKS[row.verdict] < honest.get(row.yardstick, 0)
            weight = "bold" if worse else "normal"
            ax.text(column, y, number(row.value), ha="center", va="center", fontsize=9, weight=weight)
    ax.set(xlim=(-0.5, len(cards) - 0.5), ylim=(len(yardsticks) - 0.5, -0.5))
    ax.set_xticks(range(len(cards)), names, rotation=30, ha="left", fontsize=10)
    ax.set_yticks(range(len(yardsticks)), [_marked(name) for name in yardsticks], fontsize=10)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.grid(False)
    return fig


def number(value: float) -> str:
    """Three digits, and no power of ten; a dash for NaN."""
    if pd.isna(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.0995 else 3
    return f"{round(value, digits) + 0:.{digits}f}"  # the 0 makes −0 to 0


def printed(card: Scorecard) -> str:
    """The page as text: warnings, lines, what is not possible, and which lies it would tell."""
    lines = []
    for row in card.possible.itertuples():
        interval = f"{number(row.value)} [{number(row.low)}, {number(row.high)}] {row.unit}".strip()
        line = {"yardstick (↓: low is good)": _marked(row.yardstick), "value": interval}
        line |= {"what knows nothing": f"{number(row.blind_value)} {row.blind}", "verdict": row.verdict}
        lines.append(line | {"turns worse under": _on_record(card, row.yardstick)})
    return "\n".join(
        [
            card.title,
            *[f"WARNING: {warning}" for warning in card.warnings],
            _left_aligned(pd.DataFrame(lines)),
            *[f"not possible: {line}" for line in card.not_possible],
            *_lies(card),
            *card.evidence.notes,
        ]
    )


def _marked(yardstick: str) -> str:
    """A yardstick's name, with an arrow where low is good."""
    return f"{yardstick} ↓" if yardstick in LOW_IS_GOOD else yardstick


def _on_record(card: Scorecard, yardstick: str) -> str:
    """Under how many planted faults a line turns worse, of those under which it does or still praises."""
    if yardstick not in card.worth.index:
        return "–"
    sees, passes = (len(card.worth.loc[yardstick, name]) for name in ("sees", "passes"))
    return f"{sees} of {sees + passes} faults" if sees + passes else "–"


def _lies(card: Scorecard) -> list[str]:
    """How many lines of the page tell each planted fault on record, and how many praise it."""
    if card.coverage.empty:
        return ["no planted fault is on record of any of these yardsticks (notebook 62)"]
    told = [f"{row.fault} {len(row[3])} and {len(row[4])}" for row in card.coverage.itertuples()]
    untold = card.coverage.fault[card.coverage["seen by"].map(len) == 0]
    return [
        f"lines that turn worse under a planted fault, and lines that praise it: {'; '.join(told)}",
        f"lies that none of these lines tells: {'; '.join(untold) or 'none of those tried'}",
    ]


def _left_aligned(table: pd.DataFrame) -> str:
    """A table of texts, each column as wide as its longest cell."""
    rows = [list(table), *table.to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


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
    lists = dict.fromkeys(("seen by", "praised by"), "; ".join)
    for card in cards:
        e = card.evidence
        parts.append(f"<h2>{escape(card.title)}</h2><p>{PROMISES[e.ground.kind]} {escape(' '.join(e.notes))}")
        parts += [f"<p><strong>{escape(warning)}</strong>" for warning in card.warnings]
        parts.append(card.possible[list(SHOWN)].rename(columns=SHOWN).to_html(**look))
        parts += [f"<p>Not possible: {escape(line)}" for line in card.not_possible]
        parts.append("<h3>Which lies this page would see</h3>")
        parts.append(card.coverage.to_html(formatters=lists, **look))
    return "\n".join(parts)
