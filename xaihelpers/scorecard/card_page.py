"""A scorecard as a picture for a paper, a page and a table: PDF, SVG, HTML, CSV, JSON."""

import base64
import io
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd

from xaihelpers import paths, plots
from xaihelpers.paths import FolderError
from xaihelpers.report.page_cells import html_cell, page
from xaihelpers.scorecard.card import PAPERS, Scorecard
from xaihelpers.scorecard.reading import ABOVE, BELOW, LABELLED, OPEN, TRUTHS, UNLABELLED

LOOK = {ABOVE: plots.PALETTE[0], BELOW: plots.PALETTE[3], OPEN: "0.62"}
MARKS = {ABOVE: "^", BELOW: "v", OPEN: "o"}
WORTH = {
    "sees": plots.PALETTE[0],
    "unclear": plots.PALETTE[1],
    "blind_to": "0.75",
    "fooled_by": plots.PALETTE[3],
}
WHAT = {
    "drawn": "asks a renderer's truth",
    LABELLED: "asks labels",
    UNLABELLED: "asks no label",
}


def card_figure(cards: Sequence[Scorecard], width: float = 10.0) -> plt.Figure:
    """The readings of one model or several, beside what each yardstick is worth.

    A line is a yardstick, a column a model: its number, and whether its lead over the hardest blind rival is
    above 0 (blue, triangle up), below (red, triangle down) or neither (grey, dot). To the right, how many
    planted faults the yardstick sees, is unclear about, is blind to, is fooled by.

    width: in inches. Raises ValueError for no card.
    """
    if not cards:
        raise ValueError("no scorecard to draw: give one or more")
    lines = _lines(cards)
    size = (width, 0.2 * len(lines) + 1.9)
    ratios = {"width_ratios": [max(2.0, 0.42 * len(cards)), 1.25]}
    fig, (left, right) = plt.subplots(
        1, 2, figsize=size, layout="constrained", gridspec_kw=ratios, sharey=True
    )
    _readings(left, cards, lines)
    _worth(right, cards, lines)
    return fig


def _lines(cards: Sequence[Scorecard]) -> list[tuple[str, str, str]]:
    """(truth, paper, yardstick) of all readings, in the order of the first card that has each."""
    found = {}
    for card in cards:
        for row in card.table().itertuples():
            if isinstance(row.truth, str):
                found.setdefault((row.truth, row.paper, row.yardstick))
    return sorted(found, key=lambda line: (TRUTHS.index(line[0]), PAPERS.index(line[1])))


def _readings(ax: plt.Axes, cards: Sequence[Scorecard], lines: list) -> None:
    for x, card in enumerate(cards):
        table = card.table().drop_duplicates("yardstick").set_index("yardstick")
        for y, (_, _, yardstick) in enumerate(lines):
            if yardstick not in table.index or table.verdict[yardstick] not in LOOK:
                ax.text(x, y, "–", ha="center", va="center", fontsize=8, color="0.6")
                continue
            found = table.verdict[yardstick]
            ax.plot(x - 0.37, y, MARKS[found], color=LOOK[found], ms=3.4)
            digits = _short(table.value[yardstick], table.unit[yardstick])
            ax.text(x + 0.47, y, digits, ha="right", va="center", fontsize=8, color=LOOK[found])
    names = [_label(line, cards) for line in lines]
    ax.set_yticks(range(len(lines)), names, fontsize=8)
    ax.xaxis.tick_top()
    names = [card.model for card in cards]
    look = {"rotation": 50, "ha": "left", "rotation_mode": "anchor", "fontsize": 9}
    ax.set_xticks(range(len(cards)), names, **look)
    for x in range(1, len(cards), 2):  # so that a mark is read with its own number
        ax.axvspan(x - 0.5, x + 0.5, color="0.955", lw=0, zorder=0)
    ax.set_xlim(-0.6, len(cards) - 0.4)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.tick_params(length=0)
    ax.grid(False)
    for y in range(1, len(lines)):
        if lines[y][0] != lines[y - 1][0]:
            ax.axhline(y - 0.5, color="0.2", lw=0.9)
        elif lines[y][1] != lines[y - 1][1]:
            ax.axhline(y - 0.5, color="0.85", lw=0.7)
    ends = {truth: [y for y, line in enumerate(lines) if line[0] == truth] for truth in TRUTHS}
    for truth, ys in ends.items():
        if ys:
            look = {"rotation": 90, "va": "center", "ha": "left", "fontsize": 8, "color": "0.35"}
            words = WHAT[truth] if len(ys) > 3 else WHAT[truth].replace("asks ", "")
            ax.text(len(cards) - 0.42, np.mean(ys), words, **look)
    marks = [plt.Line2D([], [], ls="", marker=MARKS[name], color=LOOK[name], label=name) for name in LOOK]
    ax.legend(
        handles=marks, ncols=3, loc="upper center", bbox_to_anchor=(0.4, -0.005), frameon=False, fontsize=8
    )


def _label(line: tuple[str, str, str], cards: Sequence[Scorecard]) -> str:
    _, paper, yardstick = line
    low = any(one.low_is_good for card in cards for one in card.readings if one.yardstick == yardstick)
    return f"{paper} · {yardstick}{' (low is good)' if low else ''}"


def _short(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return "–"
    if unit == "%":
        return f"{value:.0f}".replace("-", "−")
    return f"{value:.2f}".replace("0.", ".", 1).replace("-", "−") if abs(value) < 0.995 else f"{value:.2f}"


def _worth(ax: plt.Axes, cards: Sequence[Scorecard], lines: list) -> None:
    records = {}
    for card in cards:
        records |= card.records
    for y, (_, _, yardstick) in enumerate(lines):
        record = records.get(yardstick)
        if record is None:
            ax.text(0.1, y, "not tried", va="center", fontsize=8, color="0.5")
            continue
        start = 0
        parts = (record.sees, record.unclear, record.blind, record.fooled)
        for faults, color in zip(parts, WORTH.values(), strict=True):
            ax.barh(y, len(faults), left=start, height=0.66, color=color)
            start += len(faults)
        flags = "a" * bool(record.alarms) + "r" * bool(record.random_passes)
        if flags:
            ax.text(start + 0.15, y, flags, va="center", fontsize=8, color="0.2")
    ax.set_xlabel("planted faults", fontsize=9)
    ax.tick_params(axis="y", length=0, labelleft=False)
    ax.set_xlim(0, 10.2)
    names = ("sees", "unclear", "blind to", "fooled by")
    bars = [plt.Rectangle((0, 0), 1, 1, color=color) for color in WORTH.values()]
    ax.legend(bars, names, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=8)


def worries_table(card: Scorecard) -> pd.DataFrame:
    """What this page can and cannot see: a line a planted fault, with the readings that see or praise it."""
    table = card.coverage()
    texts = ["; ".join(names) or "none of these" for names in table["seen by"]]
    fooled = ["; ".join(names) or "–" for names in table["fooled"]]
    return table.assign(**{"seen by": texts, "fooled": fooled})


def card_page(cards: Sequence[Scorecard], png: bytes) -> str:
    """The cards as one HTML page that needs nothing else.

    png: the figure. Raises ValueError as `page_cells.page` does.
    """
    picture = base64.b64encode(png).decode()
    caption = (
        "Each number's mark says whether it is told from what knows nothing, paired, with its 95 % interval. "
        "Bars: planted faults that the yardstick sees, is unclear about, is blind to, is fooled by "
        "(notebook 62); a: it takes a harmless change for something; r: it lets a random model pass."
    )
    cells = [nbformat.v4.new_markdown_cell(f"# Scorecard: {escape(', '.join(card.model for card in cards))}")]
    figure = f'<figure><img src="data:image/png;base64,{picture}" alt="{escape(caption)}">'
    cells.append(html_cell(f"{figure}<figcaption>{escape(caption)}</figcaption></figure>"))
    for card in cards:
        cells += _card_cells(card)
    return page(cells, f"Scorecard: {', '.join(card.model for card in cards)}")


def _card_cells(card: Scorecard) -> list:
    title = f"## {escape(card.model)} on {escape(card.data)}: {card.n_images} test images, {card.kind} data"
    cells = [nbformat.v4.new_markdown_cell("\n\n".join([title, _promise(card), *map(escape, card.notes)]))]
    table = card.table()
    for truth in TRUTHS:
        part = table[table.truth == truth] if "truth" in table else table.iloc[:0]
        if len(part):
            cells.append(nbformat.v4.new_markdown_cell(f"### What {WHAT[truth]}"))
            cells.append(html_cell(_html(_shown(part))))
    missing = table[table.verdict == "not possible"]
    if len(missing):
        cells.append(nbformat.v4.new_markdown_cell("### Not possible, and what to give"))
        by_reason = missing.groupby(["why", "give"], sort=False).yardstick.agg(", ".join).reset_index()
        cells.append(html_cell(_html(by_reason[["yardstick", "why", "give"]])))
    cells.append(nbformat.v4.new_markdown_cell("### Which lies this page would see"))
    cells.append(html_cell(_html(worries_table(card))))
    return cells


def _promise(card: Scorecard) -> str:
    """What the data allow to be said, in a sentence."""
    if card.kind == UNLABELLED:
        return (
            "**These data have no labels.** Nothing here says whether a concept is true of an image; only "
            "what needs no label is shown."
        )
    if card.kind == LABELLED:
        return "These data have labels that people gave, and no exact truth: a label may be wrong, too."
    return "These images were drawn: every attribute and part is known exactly, as it is of no photograph."


def _shown(part: pd.DataFrame) -> pd.DataFrame:
    """The columns of a page, as texts."""
    rows = []
    for row in part.itertuples():
        unit = " %" if row.unit == "%" else ""
        digits = 1 if row.unit == "%" else 3
        low = " (low is good)" if row.low_is_good else ""
        interval = "–" if pd.isna(row.low) else f"[{row.low:.{digits}f}, {row.high:.{digits}f}]"
        lead = (
            "–"
            if pd.isna(row.lead_low)
            else f"{row.lead:+.{digits}f} [{row.lead_low:+.{digits}f}, {row.lead_high:+.{digits}f}]"
        )
        rows.append(
            {
                "paper": row.paper,
                "yardstick": row.yardstick + low,
                "value": f"{row.value:.{digits}f}{unit}",
                "95 % interval": interval,
                "what knows nothing": f"{row.blind}: {row.blind_value:.{digits}f}" if row.blind else "–",
                "lead": lead,
                "verdict": row.verdict,
                "sees": row.sees or ("–" if row.proved_on else "not tried"),
                "blind to": row.blind_to or "–",
                "fooled by": row.fooled_by or "–",
                "harmless changes taken for something": row.alarms or "–",
                "lets random pass": row.random_passes or "–",
                "tried on": row.proved_on or "–",
            }
        )
    return pd.DataFrame(rows)


def _html(frame: pd.DataFrame) -> str:
    return f"<div class=scroll>{frame.to_html(index=False, border=0)}</div>"


def write_card(cards: Sequence[Scorecard], folder: str | Path) -> dict[str, Path]:
    """Write scorecard.csv, .json, .pdf, .svg and .html of one model or several into a folder.

    Returns name of the kind of file -> path. Raises FolderError where they cannot be written, ValueError for
    no card.
    """
    folder = paths.ensure_writable(Path(folder), "make room or permit writing there, or name another --out")
    fig = card_figure(cards)
    fig.draw_without_rendering()
    fig.set_layout_engine("none")  # laid out once, not for each kind of file
    content = {}
    for kind in ("pdf", "svg", "png"):
        buffer = io.BytesIO()
        about = {"CreationDate": None} if kind == "pdf" else {"Date": None} if kind == "svg" else None
        fig.savefig(buffer, format=kind, dpi=130, bbox_inches="tight", metadata=about)
        content[kind] = buffer.getvalue()
    plt.close(fig)
    table = pd.concat([card.table() for card in cards], ignore_index=True)
    content["csv"] = table.to_csv(index=False).encode()
    content["json"] = (json.dumps([_record(card) for card in cards], indent=1) + "\n").encode()
    content["html"] = card_page(cards, content.pop("png")).encode()
    written = {}
    try:
        for kind, data in content.items():
            written[kind] = paths.write_whole(folder / f"scorecard.{kind}", data)
    except OSError as error:
        raise FolderError(
            f"Could not write {folder} ({error.strerror}): make room, or name another folder by --out"
        ) from error
    return written


def _record(card: Scorecard) -> dict:
    """A card as JSON holds it: no NaN, lists for texts of several faults."""
    rows = json.loads(card.table().to_json(orient="records"))
    about = {"model": card.model, "data": card.data, "kind": card.kind, "images": card.n_images}
    about |= {"notes": card.notes, "rows": rows}
    return about | {"faults": json.loads(card.coverage().to_json(orient="records"))}
