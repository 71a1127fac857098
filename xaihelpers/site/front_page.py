"""The front page: what the collection asks, its pictures, the routes through it, the table of notebooks."""

import html
import re
from collections.abc import Mapping
from pathlib import Path

from xaihelpers.site.notebook_set import GROUPS, Notebook
from xaihelpers.site.route_steps import Route

PICTURES = {
    "ledger.png": "The ledger of claims",
    "yardsticks.png": "Which yardstick sees which lie",
    "map.png": "The map of ideas",
}


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
    if routes:
        lines += ["## Three routes", ""]
        for route in routes:
            lines += [f"### {route.title}", ""]
            lines += [route.about, ""] if route.about else []
            for part in route.parts:
                lines += [f"**{part.title}**", ""] if part.title else []
                for stop in part.stops:
                    notebook = notebooks[stop.number]
                    text = f"1. [{stop.number} · {notebook.name}]({notebook.document}.ipynb)"
                    text += f" ({stop.minutes} min)" if stop.minutes else ""
                    lines.append(text + (f": {stop.why}" if stop.why else ""))
                lines.append("")
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


def _contents(notebooks: Mapping[str, Notebook]) -> list[str]:
    """The hidden tables of contents that the navigation is made from."""
    lines = []
    for tens, title in GROUPS.items():
        members = [notebook for notebook in notebooks.values() if notebook.number[0] == tens]
        if members:
            entries = [f"{one.number} · {one.name} <{one.document}>" for one in members]
            lines += ["```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""]
    others = [
        "Equations and tables <equations>",
        "Gallery <gallery>",
        "The report <report>",
        "Functions, room by room <api/index>",
    ]
    return [*lines, "```{toctree}", ":hidden:", ":caption: Look up", "", *others, "```"]


def _picture(readme: str, file: str, folder: Path, heading: str) -> list[str]:
    if not (folder / file).exists():
        return []
    match = re.search(rf"!\[([^]]+)\]\(notebooks/{re.escape(file)}\)", readme)
    alt = match[1] if match else PICTURES[file]
    lines = [f"## {heading}", "", f"```{{figure}} notebooks/{file}", f":alt: {html.escape(alt)}", "```", ""]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
