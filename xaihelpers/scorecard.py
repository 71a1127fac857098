"""The scorecard: one page for any model, from its outputs and whatever else is given.

    ground = scorecard.Ground("aviary")
    card = scorecard.score(scorecard.Evidence("outputs.safetensors", ground))
    scorecard.write_card([card], "folder")

`python -m xaihelpers.scorecard outputs.safetensors --data aviary` does the same.
"""

import argparse
import base64
import io
import logging
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from xaihelpers import paths, plots
from xaihelpers.bottlenecks.zoo import check_shipped
from xaihelpers.own_model import is_python_file
from xaihelpers.yardsticks.card import YARDSTICKS, Scorecard, score
from xaihelpers.yardsticks.evidence import DRAWN, LABELLED, UNLABELLED, Evidence, Ground
from xaihelpers.yardsticks.reading import ABOVE, BELOW, OPEN
from xaihelpers.yardsticks.reading import RANKS as RANKS
from xaihelpers.yardsticks.reading import verdict as verdict

PANELS = 5  # side by side
COLORS = {ABOVE: plots.PALETTE[0], BELOW: plots.PALETTE[3], OPEN: "0.6"}
# columns of the table that the page shows
SHOWN = "yardstick measures unit good value low high blind blind_value verdict".split()
SHOWN += "of_class picture soft ceiling look look_low look_high about sees passes".split()
PROMISES = {
    DRAWN: "These images were drawn: every attribute and part is known exactly, as it is of no photograph.",
    LABELLED: "These data have labels that people gave, and no exact truth: a label may be wrong, too.",
    UNLABELLED: "These data have no labels. Nothing here says whether a concept is true of an image; only "
    "what needs no label is shown.",
}
STYLE = """<style>
body { font-family: sans-serif }
table { font-size: 75%; border-spacing: 9px 3px }
td, th { text-align: left; vertical-align: top }
td:nth-child(2), td:nth-last-child(-n + 2) { min-width: 15em }
</style>"""
CAPTION = """A panel is a yardstick, a line in it a model: its value with the 95 % interval, and as a black
stroke what the hardest rival that knows nothing gets on the same cases. Blue: above that rival, paired; red:
below it; grey: cannot be told."""


def card_figure(cards: Sequence[Scorecard]) -> plt.Figure:
    """The readings of one model or several, as CAPTION says."""
    table = pd.concat([card.possible.assign(line=line) for line, card in enumerate(cards)])
    panels = list(table.groupby("yardstick", sort=False))
    columns = min(PANELS, max(len(panels), 1))
    n_rows = max(-(-len(panels) // columns), 1)
    look = {"figsize": (10, n_rows * (0.75 + 0.17 * len(cards))), "layout": "constrained"}
    fig, axes = plt.subplots(n_rows, columns, sharey=True, squeeze=False, **look)
    axes[0, 0].set_yticks(range(len(cards)), [card.evidence.name for card in cards])
    axes[0, 0].set_ylim(len(cards) - 0.4, -0.6)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (yardstick, part) in zip(axes.flat, panels, strict=False):
        colors = part.verdict.map(COLORS)
        ax.hlines(part.line, part.low, part.high, colors)
        ax.scatter(part.value, part.line, 16, colors, zorder=2)
        ax.plot(part.blind_value, part.line, "|", color="black", markersize=9)
        low_is_good = " (low is good)" if part.good.iloc[0] == "low" else ""
        ax.set_xlabel(part.unit.iloc[0] + low_is_good, fontsize=9)
        ax.set_title(yardstick, fontsize=9)
        ax.tick_params(labelsize=9)
        ax.locator_params("x", nbins=4)
    return fig


def number(value: float) -> str:
    """Three digits, and no power of ten; a dash for NaN."""
    if pd.isna(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.0995 else 3
    return f"{round(value, digits) + 0:.{digits}f}"  # the 0 makes −0 to 0


def marked(yardstick: str) -> str:
    """A yardstick's name, with an arrow where low is good."""
    is_low = YARDSTICKS.yardstick[YARDSTICKS.good == "low"].eq(yardstick).any()
    return f"{yardstick} ↓" if is_low else yardstick


def printed(card: Scorecard) -> str:
    """The page as text: head, warnings, lines, what is not possible, and which lies it would tell."""
    lines = [["yardstick (↓: low is good)", "value", "held against", "verdict", "turns worse under"]]
    for row in card.possible.itertuples():
        interval = f"{number(row.value)} [{number(row.low)}, {number(row.high)}] {row.unit}".strip()
        blind = f"{number(row.blind_value)} {row.blind}"
        sees, passes = (len(card.worth[says].get(row.yardstick, ())) for says in ("sees", "passes"))
        worth = f"{sees} of {sees + passes} tried" if sees + passes else "–"
        lines.append([marked(row.yardstick), interval, blind, row.verdict, worth])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    for place, row in reversed([*enumerate(card.possible.itertuples(), 1)]):
        lines.insert(place + 1, f"    {row.measures} {rungs(row)}")
    told = ["no planted fault is on record of any of these yardsticks (notebook 62)"]
    if len(card.worth):
        told = [f"lies that none of these lines tells: {'; '.join(card.untold) or 'none of those tried'}"]
    warnings = [f"WARNING: {warning}" for warning in card.warnings]
    missing = [f"not possible: {line}" for line in card.not_possible]
    return "\n".join([card.title, *card.head, *warnings, *lines, *missing, *told, *card.evidence.notes])


def rungs(row: tuple) -> str:
    """What of a line's value is the class's, and what the picture's, in words. row: of a card's table."""
    if pd.isna(row.picture):
        return f"(Class or picture: not asked, for {row.about}.)"
    beside = [f"soft reciter {number(row.soft)}" if pd.notna(row.soft) else "nobody recites maps"]
    beside += [f"truth {number(row.ceiling)}"] if pd.notna(row.ceiling) else []
    said = f"Of it the class {number(row.of_class)}, the picture {number(row.picture)} ({', '.join(beside)})"
    return f"{said}: {row.about}."


def write_card(cards: Sequence[Scorecard], folder: str | Path) -> dict[str, Path]:
    """Write scorecard.csv, .png and .html of one model or several into a folder.

    Returns kind of file -> path. Raises OSError where they cannot be written.
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
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>{STYLE}<h1>{title}</h1>"
    ]
    parts.append(
        f'<img src="data:image/png;base64,{picture}" alt="{CAPTION}" style="max-width:100%"><p>{CAPTION}</p>'
    )
    look = {"index": False, "border": 0, "na_rep": "", "float_format": "{:.3g}".format}
    for card in cards:
        e = card.evidence
        parts.append(f"<h2>{escape(card.title)}</h2><p>{PROMISES[e.ground.kind]} {escape(' '.join(e.notes))}")
        parts += [f"<p>{escape(line)}" for line in card.head]
        parts += [f"<p><strong>{escape(warning)}</strong>" for warning in card.warnings]
        shown = card.possible[SHOWN].rename(columns={"sees": "turns worse under", "passes": "praised under"})
        parts.append(shown.to_html(**look))
        parts += [f"<p>Not possible: {escape(line)}" for line in card.not_possible]
        parts.append(f"<p>Lies that none of these lines tells: {escape('; '.join(card.untold))}")
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scorecard",
        description="One page for a concept model: every verdict that what is given allows, with its 95 % "
        "interval, what something blind gets, and which lies the yardstick itself sees.",
    )
    say = parser.add_argument
    say("outputs", nargs="+", help="files of outputs with image ids, or .py with outputs_of(images)")
    say("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    say("--labels", default="auto", help="concept labels, of each image or class (default: %(default)s)")
    say("--maps", default="", help="safetensors file with concept_maps, image_ids and concepts")
    say("--texts", default="", help="CSV file with the columns image and text")
    say("--judgements", default="", help="CSV file with the columns image, score and, perhaps, control")
    say("--scorer", default="", help="a CLIP for scores of texts, as aviary_clip; none by default")
    say("--foreign", action="store_true", help="let a scorer of drawn birds see other data")
    say("--pairs", type=int, default=120, help="probes of a .py that are pairs (default: %(default)s)")
    say("--seed", type=int, default=0, help="of probes, cases and folds (default: %(default)s)")
    say("--out", default="scorecard", help="folder to write to (default: %(default)s)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("xaihelpers.outputs").setLevel(logging.ERROR)  # the page says it
    asked = any(map(is_python_file, options.outputs))
    probing = {"n_pairs": options.pairs * asked, "seed": options.seed}
    given = {name: getattr(options, name) for name in ("maps", "texts", "judgements")}
    try:
        ground = Ground(options.data, options.labels, options.scorer, **probing)
        check_shipped(ground.world, [options.scorer], options.foreign)
        cards = [score(Evidence(file, ground, **given)) for file in options.outputs]
        written = write_card(cards, options.out)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*map(printed, cards), *written.values(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
