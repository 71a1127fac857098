"""Scorecards as one table, one figure and one page that needs nothing else."""

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from xaihelpers import paths, plots
from xaihelpers.paths import FolderError
from xaihelpers.scorecard.card import NOT_POSSIBLE, Scorecard
from xaihelpers.scorecard.reading import ABOVE, BELOW, DRAWN, LABELLED, OPEN, UNLABELLED
from xaihelpers.scorecard.worth import FAULTS
from xaihelpers.scorecard.yardsticks import YARDSTICKS

LOOK = {ABOVE: ("^", plots.PALETTE[0]), BELOW: ("v", plots.PALETTE[3]), OPEN: ("o", "0.62")}
BARS = dict(zip(FAULTS, (plots.PALETTE[0], plots.PALETTE[1], "0.75", plots.PALETTE[3]), strict=True))
PROMISES = {
    DRAWN: "These images were drawn: every attribute and part is known exactly, as it is of no photograph.",
    LABELLED: "These data have labels that people gave, and no exact truth: a label may be wrong, too.",
    UNLABELLED: "These data have no labels. Nothing here says whether a concept is true of an image; only "
    "what needs no label is shown.",
}
CAPTION = """A line is a yardstick, grouped by the truth that it asks for; a column is a model: its
number, and whether it is told from what knows nothing, paired, with its 95 % interval: above (blue,
triangle up), below (red, triangle down), or neither (grey, dot). Bars: planted faults that the
yardstick sees, is unclear about, is blind to, is fooled by (notebook 62); a: it takes a harmless change
for something; r: it lets a random model pass."""


def card_figure(cards: Sequence[Scorecard], width: float = 10.0) -> plt.Figure:
    """The readings of one model or several, beside what each yardstick is worth, as CAPTION says.

    width: in inches. Raises ValueError for no card.
    """
    if not cards:
        raise ValueError("no scorecard to draw: give one or more")
    tables = [card.table[card.table.verdict != NOT_POSSIBLE].set_index("yardstick") for card in cards]
    shown = set().union(*(table.index for table in tables))
    lines = YARDSTICKS[YARDSTICKS.yardstick.isin(shown)].reset_index()
    look = {"figsize": (width, 0.2 * len(lines) + 1.9), "layout": "constrained", "sharey": True}
    ratios = [max(2.0, 0.42 * len(cards)), 1.25]
    fig, (left, right) = plt.subplots(1, 2, gridspec_kw={"width_ratios": ratios}, **look)
    for x, table in enumerate(tables):
        _column(left, x, table, lines)
    _lines(left, lines, [card.evidence.name for card in cards])
    _bars(right, lines, cards[0].worth)
    return fig


def _column(ax: plt.Axes, x: int, table: pd.DataFrame, lines: pd.DataFrame) -> None:
    """One model's marks and numbers."""
    for y, yardstick in enumerate(lines.yardstick):
        if yardstick not in table.index:
            ax.text(x, y, "–", ha="center", va="center", fontsize=8, color="0.6")
            continue
        mark, color = LOOK[table.verdict[yardstick]]
        ax.plot(x - 0.37, y, mark, color=color, ms=3.4)
        digits = 0 if table.unit[yardstick] == "%" else 2
        number = f"{table.value[yardstick]:.{digits}f}".replace("-", "−")
        ax.text(x + 0.47, y, number, ha="right", va="center", fontsize=8, color=color)
    if x % 2:  # so that a mark is read with its own number
        ax.axvspan(x - 0.5, x + 0.5, color="0.955", lw=0, zorder=0)


def _lines(ax: plt.Axes, lines: pd.DataFrame, models: list[str]) -> None:
    """Names of yardsticks and models, and lines between papers and kinds of truth."""
    low = lines.good.map({"low": " (low is good)", "high": ""})
    ax.set_yticks(range(len(lines)), lines.paper + " · " + lines.yardstick + low, fontsize=8)
    ax.xaxis.tick_top()
    ax.set_xticks(range(len(models)), models, rotation=50, ha="left", rotation_mode="anchor", fontsize=9)
    ax.set_xlim(-0.6, len(models) - 0.4)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.tick_params(length=0)
    ax.grid(False)
    for truth, part in lines.groupby("truth"):
        ax.axhline(part.index[0] - 0.5, color="0.2", lw=0.9)
        look = {"rotation": 90, "va": "center", "fontsize": 8, "color": "0.35"}
        ax.annotate(
            truth,
            (1, part.index.to_numpy().mean()),
            (3, 0),
            ("axes fraction", "data"),
            "offset points",
            **look,
        )
    for _, part in lines.groupby(["truth", "paper"]):
        ax.axhline(part.index[0] - 0.5, color="0.85", lw=0.7, zorder=0)
    marks = [ax.plot([], [], mark, color=color, label=name)[0] for name, (mark, color) in LOOK.items()]
    look = {
        "ncols": 3,
        "loc": "upper center",
        "bbox_to_anchor": (0.4, -0.005),
        "frameon": False,
        "fontsize": 8,
    }
    ax.legend(handles=marks, **look)


def _bars(ax: plt.Axes, lines: pd.DataFrame, worth: pd.DataFrame) -> None:
    """How many planted faults each yardstick sees, is unclear about, is blind to, is fooled by."""
    for y, yardstick in enumerate(lines.yardstick):
        if yardstick not in worth.index:
            ax.text(0.1, y, "not tried", va="center", fontsize=8, color="0.5")
            continue
        record, start = worth.loc[yardstick], 0
        for name, color in BARS.items():
            ax.barh(y, len(record[name]), left=start, height=0.66, color=color)
            start += len(record[name])
        flags = "a" * bool(record.alarms) + "r" * (record.random_passes == "yes")
        ax.text(start + 0.15, y, flags, va="center", fontsize=8, color="0.2")
    ax.set_xlabel("planted faults", fontsize=9)
    ax.tick_params(axis="y", length=0, labelleft=False)
    ax.set_xlim(0, 10.2)
    bars = [plt.Rectangle((0, 0), 1, 1, color=color) for color in BARS.values()]
    names = [name.replace("_", " ") for name in BARS]
    ax.legend(bars, names, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=8)


def readable(card: Scorecard) -> pd.DataFrame:
    """The table of a card in texts: a line a yardstick, with why it is not possible where it is not."""
    rows = []
    for row in card.table.itertuples():
        line = {"paper": row.paper, "yardstick": row.yardstick}
        line["yardstick"] += " (low is good)" if row.good == "low" else ""
        if row.verdict == NOT_POSSIBLE:
            line |= {"verdict": f"{NOT_POSSIBLE}: {row.why}; give {row.give}"}
        else:
            digits = 1 if row.unit == "%" else 3
            line["value"] = f"{row.value:.{digits}f}{row.unit} [{row.low:.{digits}f}, {row.high:.{digits}f}]"
            line["what knows nothing"] = f"{row.blind}: {row.blind_value:.{digits}f}"
            line["lead"] = f"{row.lead:+.{digits}f} [{row.lead_low:+.{digits}f}, {row.lead_high:+.{digits}f}]"
            line["verdict"] = row.verdict
        line |= {"sees": row.sees if row.proved_on else "not tried", "blind to": row.blind_to}
        line |= {"fooled by": row.fooled_by, "alarms": row.alarms, "random passes": row.random_passes}
        rows.append(line | {"tried on": row.proved_on})
    columns = ["paper", "yardstick", "value", "what knows nothing", "lead", "verdict"]
    columns += ["sees", "blind to", "fooled by", "alarms", "random passes", "tried on"]
    return pd.DataFrame(rows, columns=columns).fillna("")


def worries(card: Scorecard) -> pd.DataFrame:
    """What a page can and cannot see: a line a planted fault, with the readings that see or praise it."""
    table = card.coverage
    seen = ["; ".join(names) or "none of these" for names in table["seen by"]]
    return table.assign(**{"seen by": seen, "fooled": ["; ".join(names) or "–" for names in table["fooled"]]})


def card_page(cards: Sequence[Scorecard], png: bytes) -> str:
    """The cards as one HTML page that needs nothing else. png: the figure."""
    title = f"Scorecard: {escape(', '.join(card.evidence.name for card in cards))}"
    picture = base64.b64encode(png).decode()
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"]
    parts.append(f'<img src="data:image/png;base64,{picture}" alt="{CAPTION}"><p>{CAPTION}</p>')
    for card in cards:
        e = card.evidence
        about = f"{e.name} on {e.ground.world.name}: {len(e.rows)} test images, {e.ground.kind} data"
        parts.append(f"<h2>{escape(about)}</h2><p>{PROMISES[e.ground.kind]} {escape(' '.join(e.notes))}</p>")
        parts.append(readable(card).to_html(index=False, border=0))
        parts.append(f"<h3>Which lies this page would see</h3>{worries(card).to_html(index=False, border=0)}")
    return "\n".join(parts)


def write_card(cards: Sequence[Scorecard], folder: str | Path) -> dict[str, Path]:
    """Write scorecard.csv, .png and .html of one model or several into a folder.

    Returns kind of file -> path. Raises FolderError where they cannot be written, ValueError for no card.
    """
    folder = paths.ensure_writable(Path(folder), "make room or permit writing there, or name another --out")
    fig, png = card_figure(cards), io.BytesIO()
    fig.savefig(png, format="png", dpi=130, bbox_inches="tight")
    plt.close(fig)
    table = pd.concat([card.table for card in cards], ignore_index=True)
    content = {"csv": table.to_csv(index=False).encode(), "png": png.getvalue()}
    content["html"] = card_page(cards, content["png"]).encode()
    try:
        return {kind: paths.write_whole(folder / f"scorecard.{kind}", data) for kind, data in content.items()}
    except OSError as error:
        raise FolderError(
            f"Could not write {folder} ({error.strerror}): make room, or name another folder by --out"
        ) from error
