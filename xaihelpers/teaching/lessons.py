"""Copies of a route's notebooks for a lesson: a student's without answers, a teacher's with notes.

In a student's copy a check prints what is still wrong and stops nothing, so that Run All comes to the end
with every exercise open. Outputs that would give an answer or a prediction away are taken out.
"""

import ast
import copy
import hashlib
import json
import re
import shutil
import textwrap
from pathlib import Path
from urllib.parse import quote

from xaihelpers.teaching.exercises import role
from xaihelpers.teaching.openings import read_notebook, read_opening
from xaihelpers.teaching.routes import (
    NOTEBOOKS,
    Route,
    Step,
    clock,
    left_out_line,
    notebook_path,
    sections_of_cells,
    short_name,
    where,
)

PLAN = "00_plan.ipynb"
MADE = ".made.json"  # hashes of what was written, by which work in a copy is noticed
HOW_STUDENTS_WORK = """Run a notebook cell by cell. Run All works as well, for nothing stops on an open
exercise, but then no prediction waits for you.

- **Predictions.** Write your guess into the cell that asks (`my_guess = …`) *before* you run what follows.
- **Exercises.** Set the names of the stub, run it, then run the folded cell below it, which says what is
  still wrong. Unfolding a check gives part of the answer away."""
HOW_TEACHERS_WORK = """Answers and checks are unfolded, and what the plan says stands in the notebooks where
it is due, in cells that begin with the minute. Numbers in notes are the papers' or invented; those of a run
are in the notebooks."""


def write_lesson(route: Route, who: str, folder: Path, notebooks: Path = NOTEBOOKS) -> Path:
    """Write the plan and the notebooks of a route for `who`, student or teacher. Returns the plan's path.

    Raises ValueError, before anything is written, where a file of the folder was changed by somebody.
    """
    steps = list(zip(route.steps, clock(route), strict=True))
    files = {PLAN: _plan(route, who, notebooks)}
    pictures = set()
    for number in route.notebooks:
        path = notebook_path(number, notebooks)
        notebook = read_notebook(path)
        pictures |= _pictures(notebook)
        mine = [(step, times) for step, times in steps if step.notebook == number]
        files[path.name] = student_copy(notebook) if who == "student" else teacher_copy(notebook, mine)
    _write(files, folder)
    for picture in pictures:
        shutil.copyfile(notebooks / picture, folder / picture)
    return folder / PLAN


def student_copy(notebook: dict) -> dict:
    """A notebook without answers, and without the outputs that give them or a prediction away.

    Of a prediction these are all outputs below the cell that asks: later ones tell its answer as well.
    Raises ValueError if a check has a text over several lines, which cannot be moved to the right.
    """
    made = copy.deepcopy(notebook)
    cells, behind_an_answer, guessed, number = [], False, False, 0
    for cell in made["cells"]:
        part = role(cell)
        if part == "answer":
            behind_an_answer = True
            continue
        number += part == "exercise"
        if part == "check":
            cell["source"] = _printing_check("".join(cell["source"]), number)
        tags = cell["metadata"].get("tags", [])
        hidden = part or behind_an_answer or guessed
        guessed = guessed or "predict" in tags
        if hidden and cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        cells.append(cell)
    made["cells"] = cells
    return made


def _printing_check(source: str, number: int) -> str:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.lineno != node.end_lineno:
            raise ValueError(f"the check of exercise {number} has a text over several lines: {source[:50]!r}")
    start = f"from xaihelpers.teaching.exercises import checking\n\nwith checking({number}):\n"
    return start + textwrap.indent(source, "    ")


def teacher_copy(notebook: dict, steps: list[tuple[Step, tuple[int, int]]]) -> dict:
    """A notebook with its answers unfolded, and with the plan's words and notes where they are due.

    steps: those of this notebook, each with its begin and end in minutes.
    """
    made = copy.deepcopy(notebook)
    for cell in made["cells"]:
        if role(cell):
            cell["metadata"].get("jupyter", {}).pop("source_hidden", None)
    due: dict[int, list[dict]] = {}  # before which cell -> notes
    for number, (place, (step, times)) in enumerate(zip(_places(made, steps), steps, strict=True)):
        due.setdefault(place, []).append(_note(step, times, number))
    cells = []
    for place, cell in enumerate([*made["cells"], None]):
        cells += due.get(place, [])
        cells += [cell] if cell else []
    made["cells"] = cells
    return made


def _places(notebook: dict, steps: list[tuple[Step, tuple[int, int]]]) -> list[int]:
    """Before which cell each step's note stands.

    That is its exercise, its prediction or its section; a discussion stands behind the section that the step
    before it was about, and all else behind the first cell.
    """
    cells, sections = notebook["cells"], sections_of_cells(notebook)
    places, section = [], None
    for step, _ in steps:
        place = 1
        if step.exercise:
            place = [i for i, cell in enumerate(cells) if role(cell) == "exercise"][step.exercise - 1]
        elif step.kind == "predict":
            place = next(i for i, c in enumerate(cells) if "predict" in c["metadata"].get("tags", []))
        elif step.sections:
            place = max(1, next(i for i, names in enumerate(sections) if step.sections[-1] in names))
        elif step.kind == "discuss" and section is not None:
            place = max(i for i, names in enumerate(sections) if section in names) + 1
        if place > 1 and step.kind != "discuss":
            section = sections[place][-1]
        places.append(place)
    return places


def _note(step: Step, times: tuple[int, int], number: int) -> dict:
    minutes = f"Minute {times[0]} to {times[1]}" if step.minutes else "At home"
    lines = [f"> **{minutes} · {step.kind}.** {step.told}", *(f">\n> - {note}" for note in step.notes)]
    return _markdown("\n".join(lines), f"teacher-{number}") | {"metadata": {"tags": ["teacher"]}}


def _plan(route: Route, who: str, notebooks: Path) -> dict:
    """The first page: for whom it is, how to work, and the plan with links into the notebooks."""
    how = HOW_STUDENTS_WORK if who == "student" else HOW_TEACHERS_WORK
    lines = [f"# {route.title}", "", f"{route.minutes} minutes; {route.audience}.", ""]
    goal = f"**Goal.** {route.goal}" if route.goal else ""
    lines += [f"{text}\n" for text in (goal, how, route.start) if text]
    for number in route.notebooks:
        path = notebook_path(number, notebooks)
        opening = read_opening(read_notebook(path))
        minutes = f"{opening.reading} min to read, {opening.running} to run"
        lines.append(f"- [{number} · {opening.title}]({path.name}) ({minutes}). {opening.question}")
    lines += ["", "| min | | where | |", "|---|---|---|---|"]
    for step, (begin, end) in zip(route.steps, clock(route), strict=True):
        minutes = f"{begin}–{end}" if step.minutes else "–"
        lines.append(f"| {minutes} | {step.kind} | {_link(step, notebooks)} | {step.told} |")
    lines += ["", left_out_line(route, notebooks)]
    if route.words:
        lines += ["", "## Words", "", *(f"- **{term}**: {meaning}" for term, meaning in route.words)]
    if who == "teacher":
        lines += ["", "## Notes", ""]
        for step, times in zip(route.steps, clock(route), strict=True):
            if step.notes:
                lines += [f"**{times[0]}–{times[1]} · {step.kind}.** {step.do}", ""]
                lines += [f"- {note}" for note in step.notes] + [""]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    cells = [_markdown("\n".join(lines).strip(), "plan")]
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _link(step: Step, notebooks: Path) -> str:
    name = notebook_path(step.notebook, notebooks).name
    if step.exercise or not step.sections:
        return f"[{where(step)}]({name})"
    links = []
    for section in step.sections:
        anchor = f"#{quote(section.replace(' ', '-'))}" if section else ""
        links.append(f"[{short_name(section)}]({name}{anchor})")
    return f"{step.notebook} {', '.join(links)}"


def _markdown(source: str, cell_id: str) -> dict:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


def _pictures(notebook: dict) -> set[str]:
    """Pictures beside a notebook that its prose shows."""
    text = "\n".join("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown")
    return set(re.findall(r"!\[[^]]*\]\(([\w.-]+)\)", text))


def _write(files: dict[str, dict], folder: Path) -> None:
    """Write notebooks, unless one of them was changed since it was made."""
    made = json.loads((folder / MADE).read_text()) if (folder / MADE).exists() else {}
    for name in files:
        path = folder / name
        if path.exists() and _hash(path.read_text()) != made.get(name):
            raise ValueError(f"{path} was changed since it was made: move it away, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, notebook in files.items():
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        (folder / name).write_text(text)
        made[name] = _hash(text)
    (folder / MADE).write_text(json.dumps(made, indent=1))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
