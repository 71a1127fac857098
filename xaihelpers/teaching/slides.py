"""The slides of a route: what is chosen from its notebooks, in the order of its plan.

A cell that is shown is tagged `slide` and says in its metadata, under xaihelpers and slide, `title` and
`points`, and `code` where its code is to be seen. Openings, predictions, discussions, exercises and what was
learnt make slides of their own. The prose around a cell goes to the speaker's notes.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from xaihelpers.teaching.exercises import exercises_of
from xaihelpers.teaching.mathml import display_equations
from xaihelpers.teaching.openings import read_notebook, read_opening
from xaihelpers.teaching.routes import (
    NOTEBOOKS,
    Route,
    Step,
    clock,
    notebook_path,
    read_parts,
    sections_of_cells,
    short_name,
)
from xaihelpers.teaching.slide_cells import (
    TITLE_LETTERS,
    as_notes,
    has_tag,
    prediction_of,
    prose_before,
    shown_by,
    shows,
    slide_of,
)


@dataclass(frozen=True)
class Slide:
    """One slide; body and notes are markdown."""

    kind: str  # plan, opening, predict, cell, run, discuss, exercise, learnt
    title: str
    body: str = ""
    label: str = ""  # above the title
    points: tuple[str, ...] = ()
    code: str = ""
    output: dict = field(default_factory=dict)  # of a cell, as in a notebook file
    notes: str = ""
    footer: str = ""


def slides_of(route: Route, folder: Path = NOTEBOOKS) -> list[Slide]:
    """All slides of a route, in order. Raises ValueError as `read_opening` and `slide_of` do."""
    notebooks = {number: read_notebook(notebook_path(number, folder)) for number in route.notebooks}
    slides = [_plan(route, notebooks)]
    opened, closed, shown = set(), set(), set()
    for place, (step, times) in enumerate(zip(route.steps, clock(route), strict=True)):
        if step.kind == "skip":
            continue
        number, notebook = step.notebook, notebooks[step.notebook]
        made = []
        if step.kind != "discuss" and number not in opened:
            opened.add(number)
            made.append(_opening(number, notebook))
        made += _of_step(step, notebook, shown)
        if number in opened - closed and _is_last(route, place):
            closed.add(number)
            made.append(_learnt(number, notebook))
        when = f"minutes {times[0]} to {times[1]}"
        for slide in made:
            notes = f"**{step.kind}, {when}.** {step.told}\n\n{slide.notes}".strip()
            slides.append(replace(slide, notes=notes, footer=f"{number} · {when}"))
    return slides


def _is_last(route: Route, place: int) -> bool:
    """Whether a notebook ends here: only discussions of it are left, and not as the next step."""
    number = route.steps[place].notebook
    rest = [step for step in route.steps[place + 1 :] if step.kind != "skip"]
    later = [step for step in rest if step.notebook == number]
    return all(step.kind == "discuss" for step in later) and not (later and rest[0] is later[0])


def _of_step(step: Step, notebook: dict, shown: set) -> list[Slide]:
    if step.kind == "predict":
        return _predict(step.notebook, notebook, shown)
    if step.kind == "read":
        return _cells(step, notebook, shown)
    if step.kind == "exercise":
        return [_exercise(step, notebook)]
    about = _cells(step, notebook, shown) if step.sections else []
    notes = "\n".join(f"- {note}" for note in step.notes)
    label = f"{step.kind} · {step.minutes} min"
    return [*about, Slide(step.kind, "", step.do, label=label, notes=notes)]


def _plan(route: Route, notebooks: dict[str, dict]) -> Slide:
    """The first slide: title, and from when to when which notebook is at hand."""
    rows: list[list] = []
    for step, (begin, end) in zip(route.steps, clock(route), strict=True):
        if step.kind == "skip":
            continue
        if rows and rows[-1][2] == step.notebook:
            rows[-1][1] = end
        else:
            rows.append([begin, end, step.notebook])
    lines = []
    for begin, end, number in rows:
        title = read_opening(notebooks[number]).title
        lines.append(f"| {begin}–{end} | {number} | {title} |")
    table = "\n".join(["| min | | |", "|---|---|---|", *lines])
    told = (f"{route.minutes} minutes, {route.audience}.", route.goal, route.start)
    notes = "\n\n".join(filter(None, told))
    return Slide("plan", route.title, table, label=f"{route.minutes} minutes", notes=notes, footer="the plan")


def _opening(number: str, notebook: dict) -> Slide:
    opening = read_opening(notebook)
    goals = "\n".join(f"1. {goal[0].upper()}{goal[1:]}" for goal in opening.goals)
    body = f"{opening.question}\n\nAfter this you can\n\n{goals}"
    minutes = f"{opening.reading} minutes to read, {opening.running} to run on two cores."
    return Slide("opening", opening.title, body, label=number, notes=f"Before: {opening.before} {minutes}")


def _learnt(number: str, notebook: dict) -> Slide:
    learnt = "\n".join(f"- {sentence}" for sentence in read_opening(notebook).learnt)
    return Slide("learnt", "What was learnt", learnt, label=number)


def _predict(number: str, notebook: dict, shown: set) -> list[Slide]:
    """The question of the notebook's prediction, unless it was shown before."""
    places = [i for i, cell in enumerate(notebook["cells"]) if has_tag(cell, "predict")]
    if not places or (number, "predict") in shown:
        return []
    shown.add((number, "predict"))
    question, scale = prediction_of(notebook["cells"][places[0]])
    before = notebook["cells"][places[0] - 1]
    text = before["source"] if before["cell_type"] == "markdown" else ""
    body = f"{question or _first_paragraph(text)}\n\nWrite your guess down{scale}."
    return [Slide("predict", "", body, label="predict", notes=as_notes(text))]


def _exercise(step: Step, notebook: dict) -> Slide:
    text = exercises_of(notebook)[step.exercise - 1].text
    heading, _, task = text.partition("\n")
    label = f"exercise · {step.minutes} min"
    title = f"{heading.removeprefix('### ')} (notebook {step.notebook})"
    notes = "\n".join(f"- {note}" for note in step.notes)
    return Slide("exercise", title, task.strip(), label=label, notes=notes)


def _cells(step: Step, notebook: dict, shown: set) -> list[Slide]:
    """The chosen cells of a step's sections; the prediction comes before what gives its answer away.

    Where none is chosen, the first figure stands for them, with what the plan says to look at.
    """
    cells = notebook["cells"]
    sections = sections_of_cells(notebook)
    mine = [i for i, names in enumerate(sections) if not step.sections or set(names) & set(step.sections)]
    answers = [i for i, cell in enumerate(cells) if has_tag(cell, "reveal") or has_tag(cell, "reveals")]
    if step.look:  # what is read alone is shown alone
        mine = sorted({found.cell for found in read_parts(step, notebook)})
    slides = []
    for place in mine:
        if not shows(cells[place]) or (step.notebook, place) in shown:
            continue
        shown.add((step.notebook, place))
        if answers and place >= answers[0]:
            slides += _predict(step.notebook, notebook, shown)
        slides.append(_cell(notebook, place, slide_of(cells[place])))
    return slides if any(shows(cells[i]) for i in mine) else [_instead(notebook, mine, step)]


def _instead(notebook: dict, mine: list[int], step: Step) -> Slide:
    """The first figure of a step of which no cell is chosen, or what to do."""
    title = short_name(step.sections[0] if step.sections else "")[:TITLE_LETTERS]
    for place in mine:
        if (shown_by(notebook["cells"][place]) or ("",))[0] == "image/png":
            return _cell(notebook, place, {"title": title, "points": [step.do], "code": False})
    return Slide("run", title, step.do, label="read")


def _cell(notebook: dict, place: int, told: dict) -> Slide:
    cell = notebook["cells"][place]
    body, code, output = "", "", {}
    if cell["cell_type"] == "markdown":
        body = "\n\n".join(display_equations(cell["source"]))
        prose = as_notes(cell["source"])
    else:
        code = cell["source"] if told["code"] else ""
        shown = shown_by(cell)
        output = {"type": shown[0], "data": shown[1]} if shown else {}
        prose = prose_before(notebook["cells"], place)
    points = tuple(told["points"])
    return Slide("cell", told["title"], body, points=points, code=code, output=output, notes=prose)


def _first_paragraph(text: str) -> str:
    return " ".join(re.split(r"\n\s*\n", text.strip())[0].split())
