"""The committed notebooks as the site shows them: titles, goals, times, parameters, the README's table."""

import ast
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xaihelpers.parameters import declared_parameters, parameters_hash

# the tens digit of a notebook's number: what it is about, as the site's navigation says it
GROUPS = {
    "0": "Start here",
    "1": "Alignment: what a bottleneck calls important",
    "2": "ConceptScore: concepts without labels",
    "3": "Fast and slow: do words suffice?",
    "4": "AutoXplain: where a model looks",
    "5": "SUB: one attribute changed",
    "6": "The yardsticks themselves",
    "7": "People",
    "8": "Costs",
    "9": "How the shipped models were made, and the report",
}
HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True)
class Notebook:
    """One committed notebook."""

    path: Path
    content: dict
    listed: dict[str, str]  # its row of the README's table: name, paper, what, time

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @property
    def document(self) -> str:
        """The name of its page, without the suffix, from the root of the site."""
        return f"notebooks/{self.path.stem}"

    @property
    def cells(self) -> list[dict]:
        return self.content["cells"]

    @property
    def about(self) -> dict:
        """What the notebook says of itself: goals, before, reading, running, learnt, as far as it does."""
        return self.content["metadata"].get("xaihelpers", {})

    @property
    def title(self) -> str:
        """The first heading, without the number."""
        return re.sub(r"^#\s*(?:\d\d\s*·\s*)?", "", source_of(self.cells[0]).splitlines()[0])

    @property
    def name(self) -> str:
        """A short name, as in the README's table: "existence and location"."""
        return self.listed.get("name") or self.path.stem[3:].replace("_", " ")

    @property
    def question(self) -> str:
        """What it asks, as its first cell says it; the README's words where that cell asks nothing."""
        match = re.search(r"\*\*Question\.\*\*\s*(.+?)(?:\n\n|$)", source_of(self.cells[0]), re.DOTALL)
        return " ".join(match[1].split()) if match else self.listed.get("what", "")

    @property
    def minutes(self) -> tuple[int, int]:
        """To read and to run on two cores; without the notebook's own word, of its length and the README."""
        words = sum(len(source_of(cell).split()) for cell in self.cells if cell["cell_type"] == "markdown")
        seconds = re.match(r"(\d+) s", self.listed.get("time", ""))
        running = -(-int(seconds[1]) // 60) if seconds else 1
        return self.about.get("reading", max(1, round(words / 180))), self.about.get("running", running)

    @cached_property
    def parameters_source(self) -> str:
        for cell in self.cells:
            if "parameters" in tags_of(cell):
                return source_of(cell)
        return ""

    @property
    def parameters(self) -> dict[str, object]:
        """Name -> default, which is what the committed outputs were made with."""
        return {name: value for name, (_, value) in declared_parameters(self.parameters_source).items()}

    @property
    def meanings(self) -> dict[str, str]:
        """Name of a parameter -> the comment behind its assignment."""
        lines = self.parameters_source.splitlines()
        found = {}
        for statement in ast.parse(self.parameters_source).body:
            rest = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
            found[statement.target.id] = rest.partition("#")[2].strip()
        return found

    @property
    def run_name(self) -> str:
        """The name of the folder that this run records into: "13-242ecc2647"."""
        return f"{self.number}-{parameters_hash(self.parameters)}"


def source_of(cell: dict) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def tags_of(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def is_folded(cell: dict) -> bool:
    """Whether a notebook editor shows the cell's code folded."""
    return bool(cell["metadata"].get("jupyter", {}).get("source_hidden"))


def heading_lines(text: str) -> list[tuple[int, int, str]]:
    """(line, level, text) of each heading of a markdown cell; what stands in code is none."""
    found, fenced = [], False
    for n, line in enumerate(text.splitlines()):
        if FENCE.match(line):
            fenced = not fenced
        match = None if fenced else HEADING.match(line)
        if match:
            found.append((n, len(match[1]), match[2]))
    return found


def read_notebooks(folder: Path, readme: Path) -> dict[str, Notebook]:
    """Number -> notebook, in the order of the numbers.

    folder: of the notebooks. readme: the README with the table of all notebooks.
    """
    listed = _listed(readme.read_text())
    notebooks = {}
    for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
        number = path.name[:2]
        notebooks[number] = Notebook(path, json.loads(path.read_text()), listed.get(number, {}))
    return notebooks


def _listed(text: str) -> dict[str, dict[str, str]]:
    """Number -> name, paper, what it reproduces and time, from the README's table."""
    rows = {}
    for line in text.splitlines():
        match = re.match(r"\| (\d\d) \| \[([^]]+)\]\([^)]+\) \| (.*?) \| (.*?) \| (.*?) \|", line)
        if match:
            rows[match[1]] = dict(zip(("name", "paper", "what", "time"), match.groups()[1:], strict=True))
    return rows
