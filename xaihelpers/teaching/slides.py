"""The slides of a route: what is chosen from its notebooks, in the order of its plan.

A cell that is shown is tagged `slide` and says in its metadata, under xaihelpers and slide, `title` and
`points`, and `code` where its code is to be seen. Openings, predictions, discussions, exercises and what was
learnt make slides of their own. The prose around a cell goes to the speaker's notes.
"""

import ast
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
    sections_of_cells,
    short_name,
)

TITLE_LETTERS, POINTS, POINT_WORDS, CODE_LINES = 60, 3, 14, 12
SHOWN = ("image/png", "text/html", "text/plain")  # the first that an output has


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


def slide_of(cell: dict) -> dict | None:
    """What a cell says of its slide: title, points, code; None for a cell without the tag `slide`.

    Raises ValueError for a slide without a title, or with more text than fits.
    """
    if "slide" not in cell["metadata"].get("tags", []):
        return None
    told = {"points": [], "code": False} | cell["metadata"].get("xaihelpers", {}).get("slide", {})
    start = repr("".join(cell["source"])[:50])
    if not 0 < len(told.get("title", "")) <= TITLE_LETTERS:
        raise ValueError(f"slide of {start}: a title has 1 to {TITLE_LETTERS} letters: {told.get('title')!r}")
    if len(told["points"]) > POINTS:
        raise ValueError(f"slide {told['title']!r}: {len(told['points'])} points, more than {POINTS}")
    if long := [point for point in told["points"] if len(point.split()) > POINT_WORDS]:
        raise ValueError(f"slide {told['title']!r}: a point has more than {POINT_WORDS} words: {long[0]!r}")
    if told["code"] and len("".join(cell["source"]).splitlines()) > CODE_LINES:
        raise ValueError(f"slide {told['title']!r}: its code has more than {CODE_LINES} lines")
    if cell["cell_type"] == "markdown" and not display_equations("".join(cell["source"])):
        raise ValueError(f"slide {told['title']!r}: a cell of prose without an equation has nothing to show")
    return told


def shows(cell: dict) -> bool:
    """Whether a cell makes a slide: it is chosen, and has an equation, code or, once run, an output."""
    told = slide_of(cell)
    return bool(told and (cell["cell_type"] == "markdown" or told["code"] or _shown(cell)))


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
            notes = f"**{step.kind}, {when}.** {step.do}\n\n{slide.notes}".strip()
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
    notes = f"{route.minutes} minutes, {route.audience}."
    return Slide("plan", route.title, table, label=f"{route.minutes} minutes", notes=notes, footer="the plan")


def _opening(number: str, notebook: dict) -> Slide:
    opening = read_opening(notebook)
    goals = "\n".join(f"1. {goal}" for goal in opening.goals)
    body = f"{opening.question}\n\nAfter this you can\n\n{goals}"
    minutes = f"{opening.reading} minutes to read, {opening.running} to run on two cores."
    return Slide("opening", opening.title, body, label=number, notes=f"Before: {opening.before} {minutes}")


def _learnt(number: str, notebook: dict) -> Slide:
    learnt = "\n".join(f"- {sentence}" for sentence in read_opening(notebook).learnt)
    return Slide("learnt", "What was learnt", learnt, label=number)


def _predict(number: str, notebook: dict, shown: set) -> list[Slide]:
    """The question of the notebook's prediction, unless it was shown before."""
    places = [i for i, cell in enumerate(notebook["cells"]) if _has(cell, "predict")]
    if not places or (number, "predict") in shown:
        return []
    shown.add((number, "predict"))
    question, scale = prediction_of(notebook["cells"][places[0]])
    before = notebook["cells"][places[0] - 1]
    text = before["source"] if before["cell_type"] == "markdown" else ""
    body = f"{question or _first_paragraph(text)}\n\nWrite your guess down{scale}."
    return [Slide("predict", "", body, label="predict", notes=_as_notes(text))]


def prediction_of(cell: dict) -> tuple[str, str]:
    """Question and scale of the cell that asks for a guess; texts that it puts together stay empty."""
    tree = ast.parse(cell["source"])
    told = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            told[node.targets[0].id] = node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("guesses.ask"):
            names = dict(zip(("name", "question", "unit", "low", "high"), node.args, strict=False))
            names |= {keyword.arg: keyword.value for keyword in node.keywords}
            question, unit, low, high = (
                _literal(names.get(name), told) for name in ("question", "unit", "low", "high")
            )
            scale = f", {low} to {high} {unit}" if None not in (low, high, unit) else ""
            return question or "", scale.rstrip()
    return "", ""


def _literal(node: ast.expr | None, told: dict):
    node = told.get(node.id) if isinstance(node, ast.Name) else node
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None


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
    answers = [i for i, cell in enumerate(cells) if _has(cell, "reveal") or _has(cell, "reveals")]
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
        if (_shown(notebook["cells"][place]) or ("",))[0] == "image/png":
            return _cell(notebook, place, {"title": title, "points": [step.do], "code": False})
    return Slide("run", title, step.do, label="read")


def _cell(notebook: dict, place: int, told: dict) -> Slide:
    cell = notebook["cells"][place]
    body, code, output = "", "", {}
    if cell["cell_type"] == "markdown":
        body = "\n\n".join(display_equations(cell["source"]))
        prose = _as_notes(cell["source"])
    else:
        code = cell["source"] if told["code"] else ""
        shown = _shown(cell)
        output = {"type": shown[0], "data": shown[1]} if shown else {}
        prose = _prose_before(notebook["cells"], place)
    points = tuple(told["points"])
    return Slide("cell", told["title"], body, points=points, code=code, output=output, notes=prose)


def _shown(cell: dict) -> tuple[str, str] | None:
    """What a cell shows: its first figure, else its first table, else its printed text; kind and content."""
    outputs = cell.get("outputs", [])
    for kind in SHOWN[:2]:
        for output in outputs:
            if kind in output.get("data", {}):
                return kind, "".join(output["data"][kind])
    printed = "".join("".join(output.get("text", "")) for output in outputs if output.get("name") != "stderr")
    if not printed.strip():
        printed = "".join("".join(o.get("data", {}).get("text/plain", "")) for o in outputs)
    return ("text/plain", printed) if printed.strip() else None


def _prose_before(cells: list[dict], place: int) -> str:
    """The prose between a cell and the last output before it."""
    texts = []
    for cell in reversed(cells[:place]):
        if cell["cell_type"] == "markdown":
            texts.insert(0, cell["source"])
        elif _shown(cell) and texts:
            break
    return _as_notes("\n\n".join(texts))


def _as_notes(text: str) -> str:
    """Prose without pictures, its headings in bold."""
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    return re.sub(r"^#+ (.+)$", r"**\1**", text, flags=re.MULTILINE).strip()


def _first_paragraph(text: str) -> str:
    return " ".join(re.split(r"\n\s*\n", text.strip())[0].split())


def _has(cell: dict, tag: str) -> bool:
    return tag in cell["metadata"].get("tags", [])
