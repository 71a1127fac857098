"""Routes: ways through the notebooks for teaching, planned by the minute, in `data/teaching/routes.yaml`.

README's tables, the slides and the folders of a lesson are made from them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from xaihelpers.paths import PROJECT
from xaihelpers.teaching.exercises import exercises_of
from xaihelpers.teaching.openings import read_notebook

NOTEBOOKS = PROJECT / "notebooks"
ROUTES = PROJECT / "data" / "teaching" / "routes.yaml"
KINDS = ("read", "predict", "run", "discuss", "exercise", "skip")


@dataclass(frozen=True)
class Step:
    """A few minutes of a route: what kind, on which notebook and sections, and what to do."""

    notebook: str
    sections: tuple[str, ...]  # headings "## …"; none: the whole notebook
    minutes: int
    kind: str
    do: str
    notes: tuple[str, ...]  # for the teacher
    exercise: int  # its number; 0 where the kind is another


@dataclass(frozen=True)
class Route:
    """A plan: its name, title, for whom it is, and its steps."""

    name: str
    title: str
    audience: str
    steps: tuple[Step, ...]

    @property
    def minutes(self) -> int:
        return sum(step.minutes for step in self.steps)

    @property
    def notebooks(self) -> list[str]:
        """Numbers of the notebooks in the order of their first step, without those that are only skipped."""
        return list(dict.fromkeys(step.notebook for step in self.steps if step.kind != "skip"))


def read_routes(path: Path = ROUTES) -> dict[str, Route]:
    """All routes by name. Raises ValueError, naming route and step, for one of another form."""
    routes = {}
    for name, told in yaml.safe_load(path.read_text()).items():
        steps = [_step(f"route {name}, step {n}", step) for n, step in enumerate(told["steps"], 1)]
        routes[name] = Route(name, told["title"], told["audience"], tuple(steps))
    return routes


def find_route(name: str, path: Path = ROUTES) -> Route:
    """One route. Raises ValueError that lists the names there are."""
    routes = read_routes(path)
    if name not in routes:
        raise ValueError(f"no route {name!r}; there are {', '.join(routes)}")
    return routes[name]


def _step(where: str, told: dict) -> Step:
    known = {"notebook", "section", "minutes", "kind", "do", "notes", "exercise"}
    if unknown := told.keys() - known:
        raise ValueError(f"{where}: unknown {', '.join(sorted(unknown))}")
    if missing := {"notebook", "minutes", "kind", "do"} - told.keys():
        raise ValueError(f"{where}: no {', '.join(sorted(missing))}")
    if told["kind"] not in KINDS:
        raise ValueError(f"{where}: {told['kind']!r} is not one of {', '.join(KINDS)}")
    if (told["kind"] == "exercise") != ("exercise" in told):
        raise ValueError(f"{where}: an exercise, and nothing else, names its number")
    if type(told["minutes"]) is not int or (told["minutes"] == 0) != (told["kind"] == "skip"):
        raise ValueError(f"{where}: whole minutes, 0 for what is skipped and for nothing else")
    sections = told.get("section", [])
    sections = tuple([sections] if isinstance(sections, str) else sections)
    notes = tuple(told.get("notes", ()))
    return Step(
        told["notebook"],
        sections,
        told["minutes"],
        told["kind"],
        told["do"],
        notes,
        told.get("exercise", 0),
    )


def notebook_path(number: str, folder: Path = NOTEBOOKS) -> Path:
    """The file of a notebook by its number. Raises ValueError if there is none, or more than one."""
    found = sorted(folder.glob(f"{number}_*.ipynb"))
    if len(found) != 1:
        raise ValueError(f"{len(found)} notebooks have the number {number!r}")
    return found[0]


def headings(notebook: dict) -> list[str]:
    """The headings "## …" of a notebook, in order."""
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            found += _headings_of(cell)
    return found


def sections_of_cells(notebook: dict) -> list[tuple[str, ...]]:
    """For each cell, the sections that it belongs to: where a section begins within it, both.

    Cells before the first heading belong to the section "".
    """
    current, places = "", []
    for cell in notebook["cells"]:
        begun = _headings_of(cell) if cell["cell_type"] == "markdown" else []
        starts = bool(begun) and "".join(cell["source"]).startswith("## ")
        places.append(tuple(begun if starts else [current, *begun]))
        current = begun[-1] if begun else current
    return places


def _headings_of(cell: dict) -> list[str]:
    return re.findall(r"^## (.+?) *$", "".join(cell["source"]), re.MULTILINE)


def check_route(route: Route, folder: Path = NOTEBOOKS) -> None:
    """Raises ValueError if a step names a notebook, section, prediction or exercise that is not there."""
    for number, step in enumerate(route.steps, 1):
        where = f"route {route.name}, step {number}"
        notebook = read_notebook(notebook_path(step.notebook, folder))
        there = headings(notebook)
        if missing := [section for section in step.sections if section not in there]:
            raise ValueError(f"{where}: notebook {step.notebook} has no section {missing[0]!r}, but {there}")
        tags = [tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])]
        if step.kind == "predict" and "predict" not in tags:
            raise ValueError(f"{where}: notebook {step.notebook} asks for no prediction")
        if step.exercise > len(exercises_of(notebook)):
            raise ValueError(f"{where}: notebook {step.notebook} has no exercise {step.exercise}")


def clock(route: Route) -> list[tuple[int, int]]:
    """Begin and end of each step, in minutes."""
    times, now = [], 0
    for step in route.steps:
        times.append((now, now + step.minutes))
        now += step.minutes
    return times


def where(step: Step) -> str:
    """What a step is about, in a few words: 13 “Existence”."""
    if step.exercise:
        return f"{step.notebook}, exercise {step.exercise}"
    names = [short_name(section) for section in step.sections]
    return f"{step.notebook} {', '.join(f'“{name}”' for name in names)}".strip()


def short_name(section: str) -> str:
    """A heading without its number: "1 · Existence" -> "Existence"."""
    return re.sub(r"^\d+\w? · ", "", section)
