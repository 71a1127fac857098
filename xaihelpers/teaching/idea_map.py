"""The map of ideas: which notebook needs which, what each lets its reader do, and which yardstick asks what.

It is drawn from the notebooks' metadata and the index of the papers alone; the picture carries a hash of
these, by which a test sees whether it is up to date.
"""

import hashlib
import io
import json
import re
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextPath
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from xaihelpers.paths import PROJECT
from xaihelpers.teaching.openings import read_notebook, read_opening
from xaihelpers.teaching.routes import NOTEBOOKS

PICTURE = NOTEBOOKS / "map.png"
INDEX = PROJECT / "data" / "papers" / "README.md"
# first digits of a lane's notebooks -> its name, and a colour that all can tell from the next
LANES = {
    "0": ("start", "#333333"),
    "1": ("alignment", "#0072b2"),
    "2": ("conceptscore", "#d55e00"),
    "3": ("fse", "#009e73"),
    "4": ("autoxplain", "#8a5a9e"),
    "5": ("sub", "#b08000"),
    "6": ("all papers", "#333333"),
    "78": ("people and costs", "#0072b2"),
    "9": ("models that ship, and the report", "#d55e00"),
}
POINT = 10  # size of type
LINE = 0.175  # inches
BOX, GAP, ROUTE = 2.25, 0.15, 0.24  # inches: width of a box, between boxes, height of the arrows above them
COLUMNS = 5
WIDTH = COLUMNS * BOX + (COLUMNS - 1) * GAP
COLORS = 24
LEGEND = (
    "A box is a notebook, with the first thing that you can do after it. Arrows, and “needs”, lead from what "
)
LEGEND += "is to be run before. Every notebook needs 00."


def structure() -> dict:
    """What is drawn: notebooks with title, first goal and needs, and yardsticks with their notebooks."""
    notebooks, told = {}, {}
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        notebook = read_notebook(path)
        told[path.name[:2]] = notebook["metadata"].get("xaihelpers", {}).get("builds_on", [])
        opening = read_opening(notebook)
        notebooks[path.name[:2]] = {"title": opening.title, "goal": opening.goals[0]}
    for number, notebook in notebooks.items():
        notebook["needs"] = _direct(number, told)
    return {"notebooks": notebooks, "yardsticks": _yardsticks(INDEX.read_text())}


def _direct(number: str, told: dict[str, list[str]]) -> list[str]:
    """What a notebook needs and what it needs does not need itself; 00, which all need, is left out."""
    needs = set(told[number]) - {"00"}
    implied = set().union(*(_all_needs(other, told) for other in needs - {"*"}))
    return sorted(needs - implied)


def _all_needs(number: str, told: dict[str, list[str]]) -> set[str]:
    found = set(told.get(number, [])) - {"*"}
    return found.union(*(_all_needs(other, told) for other in found))


def _yardsticks(index: str) -> list[dict]:
    """Rows of the papers' index that are equations or sections and are answered by a module of scores."""
    rows = re.findall(
        r"^\| (\w+) \| ((?:Eq\.|Section).*?) \| (.+?) \| (.+?) \| (.+?) \|$", index, re.MULTILINE
    )
    found = []
    for paper, _, what, function, notebooks in rows:
        if function.startswith("`scores."):
            numbers = re.findall(r"\b(\d\d)\b(?: “|,|$)", notebooks)
            found.append({"paper": paper, "what": re.split(r"[:;]", what)[0], "notebooks": numbers})
    return found


def write_map(path: Path = PICTURE) -> Path:
    """Draw the map into a PNG file with the hash of its structure. Returns the path."""
    drawn = structure()
    file = io.BytesIO()
    draw(drawn).savefig(file, format="png", dpi=100)
    told = PngInfo()
    told.add_text("structure", digest(drawn))
    Image.open(file).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(
        path, pnginfo=told, optimize=True
    )
    return path


def digest(drawn: dict) -> str:
    """The hash of a structure."""
    return hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()


def draw(drawn: dict) -> Figure:
    """A lane for each paper: its yardsticks, its notebooks in order, arrows between those that need another.

    What is needed from another lane stands in the box.
    """
    lanes = [_lane(digits, *LANES[digits], drawn) for digits in LANES]
    width = WIDTH + 2 * GAP
    height = sum(lane["height"] for lane in lanes) + 2 * LINE + GAP
    figure = Figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.axis("off")
    ax.text(GAP, GAP, LEGEND, va="top", fontsize=POINT)
    top = GAP + 2 * LINE
    for lane in lanes:
        _draw_lane(ax, lane, top)
        top += lane["height"]
    return figure


def _lane(digits: str, name: str, color: str, drawn: dict) -> dict:
    """What stands in a lane, in lines, and its height in inches."""
    mine = {number: notebook for number, notebook in drawn["notebooks"].items() if number[0] in digits}
    width = BOX if len(mine) > 1 else WIDTH
    boxes = {}
    for number, notebook in mine.items():
        outside = [other for other in notebook["needs"] if other[0] not in digits]
        uses = [f"needs {', '.join(outside)}".replace("*", "all others")] if outside else []
        boxes[number] = {
            "title": _wrapped(f"{number} · {notebook['title']}", width - 0.16, "bold"),
            "goal": _wrapped(notebook["goal"][0].upper() + notebook["goal"][1:], width - 0.16),
            "uses": uses,
            "inside": [other for other in notebook["needs"] if other[0] in digits],
        }
    asks = []
    for number in boxes:
        asked = [one["what"] for one in drawn["yardsticks"] if number in one["notebooks"][:1]]
        asks += _wrapped(f"{number} asks: {'; '.join(asked)}", WIDTH) if asked else []
    lines = max(sum(len(box[part]) for part in ("title", "goal", "uses")) for box in boxes.values())
    route = ROUTE if any(box["inside"] for box in boxes.values()) else 0.06
    height = (1.2 + len(asks) + lines) * LINE + 0.15 + route + GAP
    told = {"name": name, "color": color, "asks": asks, "boxes": boxes, "lines": lines}
    return told | {"route": route, "height": height}


def _draw_lane(ax, lane: dict, top: float) -> None:
    ax.text(GAP, top, lane["name"], va="top", fontsize=POINT + 2, fontweight="bold", color=lane["color"])
    for number, line in enumerate(lane["asks"], 1):
        ax.text(GAP, top + (0.2 + number) * LINE, line, va="top", fontsize=POINT)
    top += (1.2 + len(lane["asks"])) * LINE + lane["route"]
    high = lane["lines"] * LINE + 0.15
    width = BOX if len(lane["boxes"]) > 1 else WIDTH
    places = {}
    for column, (number, box) in enumerate(lane["boxes"].items()):
        places[number] = left = GAP + column * (BOX + GAP)
        style = "round,pad=0,rounding_size=0.06"
        ax.add_patch(FancyBboxPatch((left, top), width, high, style, fc="white", ec=lane["color"], lw=1.5))
        at = top + 0.06
        for part, weight in (("title", "bold"), ("goal", "normal"), ("uses", "bold")):
            for line in box[part]:
                ax.text(left + 0.08, at, line, va="top", fontsize=POINT, fontweight=weight)
                at += LINE
    starts = sorted({other for box in lane["boxes"].values() for other in box["inside"]})
    for number, box in lane["boxes"].items():
        for other in box["inside"]:
            level = (starts.index(other) + 1) / (
                len(starts) + 1
            )  # arrows of two sources do not lie on each other
            _arrow(ax, places[other], places[number], top, level, lane["color"])


def _arrow(ax, start: float, end: float, top: float, level: float, color: str) -> None:
    """From one box over the others to one that needs it, above their upper edges."""
    begin, stop = start + (0.6 + 0.2 * level) * BOX, end + (0.1 + 0.3 * level) * BOX
    above = top - (1 - 0.6 * level) * ROUTE
    ax.plot([begin, begin, stop], [top, above, above], color=color, lw=1.5, solid_joinstyle="round")
    arrow = {"arrowstyle": "-|>", "color": color, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (stop, top), (stop, above), arrowprops=arrow)


def _wrapped(text: str, width: float, weight: str = "normal") -> list[str]:
    """Text in lines of at most `width` inches."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if _inches(longer, weight) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


@cache
def _inches(text: str, weight: str) -> float:
    path = TextPath((0, 0), text, POINT, prop=FontProperties(family="DejaVu Sans", weight=weight))
    return path.get_extents().width / 72
