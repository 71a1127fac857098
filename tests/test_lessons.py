"""Lessons from routes: students' copies without answers, notes for teachers, and what is wrong is said."""

import ast
import json
import re

import nbformat
import pytest
import yaml

from xaihelpers.paths import PROJECT
from xaihelpers.teaching import lessons, openings, routes, what_is_read
from xaihelpers.teaching.exercises import exercises_of, role

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
ROUTES = routes.read_routes()
STEP = {"notebook": "13", "minutes": 5, "kind": "read", "do": "Read.", "section": "1 · Crowns"}


def lines_of(cell):
    return {line.strip() for line in cell["source"].splitlines()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_students_copy_has_no_answers_and_its_cells_parse(path):
    notebook = openings.read_notebook(path)
    assert exercises_of(notebook)
    made = lessons.student_copy(notebook)["cells"]
    code = [cell for cell in made if cell["cell_type"] == "code"]
    for cell in code:
        ast.parse(re.sub(r"(?m)^\s*[%!].*$", "pass", cell["source"]))
    left = set().union(*(lines_of(cell) for cell in code))
    given = set().union(*(lines_of(cell) for cell in notebook["cells"] if role(cell) != "answer"))
    for cell in notebook["cells"]:
        if role(cell) == "answer":
            own = lines_of(cell) - given
            assert own and not own & left
    begun = next(i for i, cell in enumerate(made) if role(cell))
    asks = [i for i, cell in enumerate(made) if "predict" in cell["metadata"].get("tags", [])]
    hidden = min([begun, *(i + 1 for i in asks)])  # what is printed there gives an answer away
    assert not [cell for cell in made[hidden:] if cell.get("outputs")]


def test_a_check_runs_to_its_end_and_says_what_is_wrong(capsys):
    roles = ("exercise", "stub", "answer", "check")
    sources = "### Exercise 1 · look", "x = None", "x = 3", "assert x, 'x is not set'\nprint('right')"
    cells = []
    for tag, source in zip(roles, sources, strict=True):
        kind = "markdown" if tag == "exercise" else "code"
        cells.append({"cell_type": kind, "metadata": {"tags": [tag]}, "source": source})
    _, stub, check = lessons.student_copy({"cells": cells})["cells"]
    for answer in ("", "\nx = 3"):
        exec(stub["source"] + answer + "\n" + check["source"], {})
    assert capsys.readouterr().out == "Exercise 1 is open: x is not set\nright\n"
    cells[-1]["source"] = "assert x, '''a\nb'''"
    with pytest.raises(ValueError, match="check of exercise 1 has a text over several lines"):
        lessons.student_copy({"cells": cells})


@pytest.mark.parametrize("route", ROUTES.values(), ids=list(ROUTES))
def test_every_route_names_what_exists_and_becomes_a_lesson(route, tmp_path):
    routes.check_route(route)
    for who in ("student", "teacher"):
        plan = lessons.write_lesson(route, who, tmp_path / who)
        made = sorted(plan.parent.glob("*.ipynb"))
        assert len(made) == 1 + len(route.notebooks)
        for path in made:
            nbformat.validate(nbformat.read(path, as_version=4))
        text = openings.read_notebook(plan)["cells"][0]["source"]
        for step in route.steps:
            assert step.do in text
            assert all((note in text) == (who == "teacher") for note in step.notes)


def test_a_lesson_is_made_again_unless_somebody_has_worked_in_it(tmp_path):
    plan = lessons.write_lesson(ROUTES["45"], "student", tmp_path)
    lessons.write_lesson(ROUTES["45"], "student", tmp_path)
    work = sorted(plan.parent.glob("1*.ipynb"))[0]
    work.write_text(work.read_text().replace("your code", "my code"))
    changed = work.read_text()
    with pytest.raises(ValueError, match=f"{work.name} was changed since it was made"):
        lessons.write_lesson(ROUTES["45"], "student", tmp_path)
    assert work.read_text() == changed


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"kind": "sleep"}, "'sleep' is not one of read, predict"),
        ({"minute": 3}, "unknown minute"),
        ({"do": None}, "no do"),
        ({"minutes": 0}, "whole minutes"),
        ({"kind": "skip"}, "whole minutes"),
        ({"kind": "exercise"}, "names its number"),
        ({"exercise": 1}, "names its number"),
        ({"look": ["text Four birds"]}, "opening words"),
        ({"look": ["words: Four birds"]}, "opening words"),
        ({"look": ["text: Four birds"], "section": None}, "none is named"),
    ],
)
def test_a_faulty_step_says_what_is_wrong_and_where(tmp_path, change, complaint):
    step = {name: value for name, value in {**STEP, **change}.items() if value is not None}
    told = {"title": "Short", "audience": "anybody", "goal": "Say it.", "steps": [STEP, step]}
    (tmp_path / "routes.yaml").write_text(yaml.safe_dump({"short": told}))
    with pytest.raises(ValueError, match=f"route short, step 2: .*{complaint}"):
        routes.read_routes(tmp_path / "routes.yaml")


def test_a_route_without_a_goal_says_so(tmp_path):
    path = tmp_path / "routes.yaml"
    path.write_text(yaml.safe_dump({"short": {"title": "Short", "audience": "anybody", "steps": [STEP]}}))
    with pytest.raises(ValueError, match="route short: no goal"):
        routes.read_routes(path)


def test_a_route_that_is_not_there_says_which_are():
    with pytest.raises(ValueError, match="no route '46'; there are 45, 90, alignment"):
        routes.find_route("46")


@pytest.mark.parametrize(
    "told, complaint",
    [
        ("text: Five birds", "0 paragraphs begin with 'Five birds'"),
        ("equation: Two more", "no equation below 'Two more'"),
    ],
)
def test_what_cannot_be_read_is_an_error(told, complaint):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "Two more:\n\n- Red"}]
    with pytest.raises(ValueError, match=complaint):
        what_is_read.find(what_is_read.read_look(told), cells, range(1))


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"goals": None}, "no goals"),
        ({"goals": ["Go.", "Go."]}, "goals has 2 texts, not 3"),
        ({"goals": ["Go.", "Go.", "go " * 21]}, "more than 20 words"),
        ({"goals": "three"}, "something else than texts"),
        ({"learnt": ["One."]}, "learnt has 1 texts, not 2 to 4"),
        ({"before": ""}, "before holds something else"),
        ({"reading": 2.5}, "reading is in whole minutes"),
        ({"running": True}, "running is in whole minutes"),
    ],
)
def test_a_faulty_opening_says_what_is_wrong_and_where(change, complaint):
    notebook = json.loads(NOTEBOOKS[0].read_text())
    told = notebook["metadata"]["xaihelpers"] | change
    notebook["metadata"]["xaihelpers"] = {name: value for name, value in told.items() if value is not None}
    title, _ = openings.title_and_question(notebook)
    with pytest.raises(ValueError, match=f"{re.escape(repr(title))}.*{complaint}"):
        openings.read_opening(notebook)


def test_a_first_cell_without_a_question_is_an_error():
    for source, complaint in (("Crowns", "no heading"), ("# 13 · Crowns\n\nRed.", "'Crowns'.*asks")):
        with pytest.raises(ValueError, match=complaint):
            openings.title_and_question({"cells": [{"cell_type": "markdown", "source": source}]})
