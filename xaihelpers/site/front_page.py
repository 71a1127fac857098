"""The front page: what the collection asks, its pictures, the routes through it, the table of notebooks."""

import html
import re
from collections.abc import Mapping
from pathlib import Path

from xaihelpers.site.notebook_set import GROUPS, Notebook
from xaihelpers.teaching.routes import Route

PICTURES = {
    "ledger.png": "The ledger of claims",
    "yardsticks.png": "Which yardstick sees which lie",
    "map.png": "The map of ideas",
}
LOOK_UP = [
    ("Equations and tables", "equations"),
    ("Gallery", "gallery"),
    ("The report", "report"),
    ("Functions, room by room", "api/index"),
]


def front_page(readme: str, notebooks: Mapping[str, Notebook], routes: list[Route], folder: Path) -> str:
    """The page in markdown.

    readme: text of the README; its first paragraphs and the words for its pictures are taken over.
    folder: of the notebooks, where the pictures lie; one that is not there is left out.
    """
    asked = readme.split("\n## ")[0]
    paragraphs = [part for part in asked.split("\n\n") if not part.startswith(("#", "!"))]
    lines = ["# Can concept explanations be trusted?", "", " ".join(paragraphs[0].split("\n")), ""]
    lines += _picture(readme, "ledger.png", folder, "What the runs say of the papers' claims")
    lines += [paragraphs[1].strip(), ""] if len(paragraphs) > 1 else []
    lines += _picture(readme, "yardsticks.png", folder, "What the yardsticks themselves are worth")
    lines += [paragraphs[2].strip(), ""] if len(paragraphs) > 2 else []
    lines += _routes(routes, notebooks)
    lines += _picture(readme, "map.png", folder, "The map of ideas")
    lines += ["## The notebooks", "", "Minutes are those to read, and to run on two slow cores.", ""]
    lines += ["| notebook | after it you can | read | run |", "|---|---|---|---|"]
    for notebook in notebooks.values():
        goals = notebook.about.get("goals", [])
        what = "<br>".join(f"{n}. {_cell(goal)}" for n, goal in enumerate(goals, 1)) or _cell(
            notebook.question
        )
        reading, running = notebook.minutes
        link = f"[{notebook.number} · {_cell(notebook.name)}]({notebook.document}.ipynb)"
        lines.append(f"| {link} | {what} | {reading} | {running} |")
    return "\n".join([*lines, "", *_contents(notebooks)])


def navigation(notebooks: Mapping[str, Notebook]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What stands beside every page: (heading, [(title, document)])."""
    groups = []
    for tens, title in GROUPS.items():
        members = [notebook for notebook in notebooks.values() if notebook.number[0] == tens]
        if members:
            groups.append((title, [(f"{one.number} · {one.name}", one.document) for one in members]))
    return [*groups, ("Look up", LOOK_UP)]


def _routes(routes: list[Route], notebooks: Mapping[str, Notebook]) -> list[str]:
    """The routes: the short ones by their names, those of the five papers as the sessions of the third."""
    short = [route for route in routes if route.name.isdigit()]
    sessions = [route for route in routes if not route.name.isdigit()]
    lines = ["## Three routes", ""] if routes else []
    for route in short:
        lines += [f"**{route.minutes} minutes: {route.title}** ({route.audience}).", ""]
        lines += [_stops(route, notebooks), ""]
    if sessions:
        minutes = sorted({route.minutes for route in sessions})
        lines += [f"**{len(sessions)} sessions of {minutes[-1]} minutes, one a paper.**", ""]
        lines += [f"- **{route.title}**: {_stops(route, notebooks)}" for route in sessions]
        lines += [""]
    return lines


def _stops(route: Route, notebooks: Mapping[str, Notebook]) -> str:
    """The notebooks of a route, in its order, with the minutes that each is given."""
    texts = []
    for number in route.notebooks:
        notebook = notebooks[number]
        minutes = sum(step.minutes for step in route.steps if step.notebook == number)
        texts.append(f"[{number} {notebook.name}]({notebook.document}.ipynb) ({minutes} min)")
    return " → ".join(texts)


def _contents(notebooks: Mapping[str, Notebook]) -> list[str]:
    """The hidden tables of contents that the navigation is made from."""
    lines = []
    for caption, members in navigation(notebooks):
        entries = [f"{title} <{document}>" for title, document in members]
        lines += ["```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""]
    return lines


def _picture(readme: str, file: str, folder: Path, heading: str) -> list[str]:
    if not (folder / file).exists():
        return []
    match = re.search(rf"!\[([^]]+)\]\(notebooks/{re.escape(file)}\)", readme)
    alt = match[1] if match else PICTURES[file]
    lines = [f"## {heading}", "", f"```{{figure}} notebooks/{file}", f":alt: {html.escape(alt)}", "```", ""]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
