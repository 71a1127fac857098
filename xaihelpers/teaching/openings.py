"""How a notebook opens and closes: its goals, what must be known before, its minutes, and what was learnt.

They stand in the notebook's metadata under `xaihelpers`, for everything that is made from notebooks (routes,
slides, the map), and word for word in its first and its last cell, for whoever reads it.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

GOALS = 3
MOST_WORDS = 20  # of a goal
LEARNT = range(2, 5)
WORDS_A_MINUTE = 180
MINUTES_A_FIGURE = 0.5


@dataclass(frozen=True)
class Opening:
    """What a notebook says of itself: title and question, goals, conditions, minutes, and what was learnt."""

    title: str  # without its number
    question: str
    goals: tuple[str, ...]
    before: str
    reading: int  # minutes
    running: int  # minutes on two cores
    learnt: tuple[str, ...]


def read_notebook(path: Path) -> dict:
    """A notebook file as JSON, each cell's source one text."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def read_opening(notebook: dict) -> Opening:
    """The opening of a notebook (as JSON or of nbformat).

    Raises ValueError, naming the notebook's title and what is missing or of another form.
    """
    title, question = title_and_question(notebook)
    told = notebook["metadata"].get("xaihelpers", {})
    missing = [name for name in ("goals", "before", "reading", "running", "learnt") if name not in told]
    if missing:
        raise ValueError(f"{title!r}: no {', '.join(missing)} in the metadata, under 'xaihelpers'")
    _check_texts(title, "goals", told["goals"], range(GOALS, GOALS + 1))
    for goal in told["goals"]:
        if len(goal.split()) > MOST_WORDS:
            raise ValueError(f"{title!r}: a goal has more than {MOST_WORDS} words: {goal!r}")
    _check_texts(title, "learnt", told["learnt"], LEARNT)
    _check_texts(title, "before", [told["before"]], range(1, 2))
    for name in ("reading", "running"):
        if type(told[name]) is not int or told[name] < 1:
            raise ValueError(f"{title!r}: {name} is in whole minutes, at least 1, not {told[name]!r}")
    goals, learnt = tuple(told["goals"]), tuple(told["learnt"])
    return Opening(title, question, goals, told["before"], told["reading"], told["running"], learnt)


def title_and_question(notebook: dict) -> tuple[str, str]:
    """The heading of the first markdown cell without its number, and the paragraph that asks.

    The first paragraph that begins in bold asks; its bold label is left out.
    Raises ValueError without a first cell of that form.
    """
    texts = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    heading = re.match(r"# (?:\d\d · )?(.+)", texts[0]) if texts else None
    if not heading:
        raise ValueError(f"the first markdown cell has no heading: {texts[:1]}")
    asked = re.search(r"^\*\*.+?\*\*\s+(.+?)(?:\n\s*\n|\Z)", texts[0], re.MULTILINE | re.DOTALL)
    if not asked:
        raise ValueError(f"{heading[1]!r}: no paragraph of the first cell asks, as in '**Question.** …'")
    return heading[1], " ".join(asked[1].split())


def opening_text(opening: Opening) -> str:
    """What the first cell says below its question."""
    goals = "\n".join(f"{number}. {goal}" for number, goal in enumerate(opening.goals, 1))
    minutes = f"{opening.reading} to read, {opening.running} to run on two cores."
    return (
        f"**Goals.** After this notebook you can\n\n{goals}\n\n"
        f"**Before.** {opening.before}\n\n**Minutes.** {minutes}"
    )


def closing_text(opening: Opening) -> str:
    """The last cell."""
    return "## What was learnt\n\n" + "\n".join(f"- {sentence}" for sentence in opening.learnt)


def reading_minutes(notebook: dict) -> float:
    """Minutes that reading takes: the words of its prose, and half a minute for each figure or table."""
    words, shown = 0, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            words += len("".join(cell["source"]).split())
        for output in cell.get("outputs", []):
            shown += bool({"image/png", "text/html"} & output.get("data", {}).keys())
    return words / WORDS_A_MINUTE + MINUTES_A_FIGURE * shown


def running_minutes(readme: str) -> dict[str, int]:
    """Minutes of a run by the README's table of notebooks, rounded up: number of the notebook -> minutes."""
    section = readme.split("\n## The notebooks\n")[1].split("\n## ")[0]
    seconds = re.findall(r"^\| (\d\d) \|.*\| (\d+) s \|[^|]*\|$", section, re.MULTILINE)
    return {number: math.ceil(int(value) / 60) for number, value in seconds}


def _check_texts(title: str, name: str, texts: list, counts: range) -> None:
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"{title!r}: {name} holds something else than texts: {texts!r}")
    if len(texts) not in counts:
        wanted = f"{counts.start} to {counts.stop - 1}" if len(counts) > 1 else f"{counts.start}"
        raise ValueError(f"{title!r}: {name} has {len(texts)} texts, not {wanted}")
