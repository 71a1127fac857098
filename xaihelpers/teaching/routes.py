"""Routes: ways through the notebooks for teaching, planned by the minute, in `data/teaching/routes.yaml`.

README's tables, the slides and the folders of a lesson are made from them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from xaihelpers.paths import PROJECT
from xaihelpers.teaching import what_is_read
from xaihelpers.teaching.exercises import exercises_of
from xaihelpers.teaching.openings import read_notebook

NOTEBOOKS = PROJECT / "notebooks"
ROUTES = PROJECT / "data" / "teaching" / "routes.yaml"
KINDS = ("read", "predict", "run", "discuss", "exercise", "skip")


@dataclass(frozen=True)
class Step:
    """A few minutes of a route: what kind, on which notebook and sections, and what to do."""

    notebook: str
    sections: tuple[str, ...]  # headings "## …", "": what stands before the first; none: the whole notebook
    minutes: int
    kind: str
    do: str
    notes: tuple[str, ...]  # for the teacher
    exercise: int  # its number; 0 where the kind is another
    look: tuple[what_is_read.Look, ...] = ()  # what alone is read of the sections; none: all

    @property
    def told(self) -> str:
        """What to do, and what alone to read for it."""
        return self.do + what_is_read.as_text(self.look)


@dataclass(frozen=True)
class Route:
    """A plan: its name, title, for whom it is, and its steps."""

    name: str
    title: str
    audience: str
    steps: tuple[Step, ...]
    goal: str = ""  # what somebody can say at its end
    start: str = ""  # what is to be done at its beginning, such as runs in the background
    words: tuple[tuple[str, str], ...] = ()  # a glossary: a term and what it means

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
        if missing := {"title", "audience", "goal", "steps"} - told.keys():
            raise ValueError(f"route {name}: no {', '.join(sorted(missing))}")
        steps = [_step(f"route {name}, step {n}", step) for n, step in enumerate(told["steps"], 1)]
        words = tuple(told.get("words", {}).items())
        routes[name] = Route(
            name, told["title"], told["audience"], tuple(steps), told["goal"], told.get("start", ""), words
        )
    return routes


def find_route(name: str, path: Path = ROUTES) -> Route:
    """One route. Raises ValueError that lists the names there are."""
    routes = read_routes(path)
    if name not in routes:
        raise ValueError(f"no route {name!r}; there are {', '.join(routes)}")
    return routes[name]


def _step(where: str, told: dict) -> Step:
    known = {"notebook", "section", "minutes", "kind", "do", "notes", "exercise", "look"}
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
    if "look" in told and not sections:
        raise ValueError(f"{where}: what is looked at is looked for in sections, and none is named")
    try:
        look = tuple(what_is_read.read_look(one) for one in told.get("look", ()))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Step(
        told["notebook"],
        sections,
        told["minutes"],
        told["kind"],
        told["do"],
        notes,
        told.get("exercise", 0),
        look,
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
        there = ["", *headings(notebook)]
        if missing := [section for section in step.sections if section not in there]:
            raise ValueError(f"{where}: notebook {step.notebook} has no section {missing[0]!r}, but {there}")
        tags = [tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])]
        if step.kind == "predict" and "predict" not in tags:
            raise ValueError(f"{where}: notebook {step.notebook} asks for no prediction")
        if step.exercise > len(exercises_of(notebook)):
            raise ValueError(f"{where}: notebook {step.notebook} has no exercise {step.exercise}")
        try:
            read_parts(step, notebook)
        except ValueError as error:
            raise ValueError(f"{where}: notebook {step.notebook}: {error}") from None


def read_parts(step: Step, notebook: dict) -> list[what_is_read.Found]:
    """What a step lets be read of its notebook. Raises ValueError where something of it is not there."""
    cells, sections = notebook["cells"], sections_of_cells(notebook)
    mine = [i for i, names in enumerate(sections) if not step.sections or set(names) & set(step.sections)]
    if not step.look:
        return what_is_read.everything(cells, mine)
    return [one for look in step.look for one in what_is_read.find(look, cells, mine)]


def left_out(route: Route, folder: Path = NOTEBOOKS) -> dict[str, list[str]]:
    """Sections of each notebook that no step names, with none of its predictions or exercises in them."""
    left = {}
    for number in route.notebooks:
        notebook = read_notebook(notebook_path(number, folder))
        mine = [step for step in route.steps if step.notebook == number]
        named = {section for step in mine for section in step.sections}
        kinds = {step.kind for step in mine}
        for cell, sections in zip(notebook["cells"], sections_of_cells(notebook), strict=True):
            asked = {"predict", "exercise"} & set(cell["metadata"].get("tags", []))
            named |= set(sections) if asked & kinds else set()
        left[number] = [section for section in headings(notebook) if section not in named]
    return left


def left_out_line(route: Route, folder: Path = NOTEBOOKS) -> str:
    """The same in a line: what of its notebooks the plan leaves for another time."""
    told = [
        f"{number} {', '.join(f'“{short_name(section)}”' for section in sections)}"
        for number, sections in left_out(route, folder).items()
        if sections
    ]
    return f"Left for another time: {'; '.join(told)}." if told else ""


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
    if not section:
        return "the opening"
    return re.sub(r"^\d+\w? · ", "", section)
