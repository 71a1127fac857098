"""Copies of notebooks for students and teachers: what is taken out, what is put in, and that they run."""

import contextlib
import io
import json
import re
from unittest.mock import Mock

import nbformat
import pytest
from made_up_lesson import code, names_read, names_set, notebook

from xaihelpers.paths import PROJECT
from xaihelpers.teaching import lessons, routes
from xaihelpers.teaching.exercises import checking, role
from xaihelpers.teaching.openings import read_notebook
from xaihelpers.teaching.routes import Route, Step

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
ROUTES = routes.read_routes()
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


LESSON = notebook()
STEPS = (
    Step("13", (), 3, "discuss", "What is a crown?", ("It depends.",), 0),
    Step("13", (), 2, "predict", "Guess.", (), 0),
    Step("13", ("1 · Crowns",), 5, "read", "Read.", (), 0),
    Step("13", (), 4, "discuss", "And now?", ("A hat.",), 0),
    Step("13", (), 6, "exercise", "Do it.", (), 1),
)
ROUTE = Route("short", "Short", "anybody", STEPS)


@pytest.fixture
def folder(tmp_path):
    """A folder with the made-up notebook."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "13_crowns.ipynb").write_text(json.dumps(LESSON))
    (tmp_path / "notebooks" / "hat.png").write_bytes(b"a hat")
    return tmp_path / "notebooks"


def run(notebook, **answers):
    """Run the cells as Run All does; returns what is printed. answers: names set before the checks."""
    namespace, said = {"guesses": Mock(), "plot": Mock(), "table": Mock()}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                namespace |= answers if "check" in cell["metadata"]["tags"] else {}
                exec(cell["source"], namespace)
    return said.getvalue()


def test_a_students_copy_lacks_answers_and_what_gives_them_away():
    made = lessons.student_copy(LESSON)
    assert [role(cell) for cell in made["cells"] if role(cell)] == ["exercise", "stub", "check"]
    shown = [output.get("text") for cell in made["cells"] for output in cell.get("outputs", [])]
    assert [text for text in shown if text] == ["three\n"], "what is printed before the guess, alone"
    assert "secret" not in json.dumps(made) and "crowns = x" not in json.dumps(made)
    assert notebook() == LESSON, "the notebook itself is left as it is"


@pytest.mark.parametrize(
    "answer, sentence",
    [
        ({}, "Exercise 1 is open: crowns is not set\n"),
        ({"crowns": 4}, "Exercise 1 is open: crowns is another number\n"),
        ({"crowns": 3}, "Exercise 1: right\n"),
    ],
)
def test_a_students_copy_runs_to_its_end_and_says_what_is_wrong(answer, sentence):
    said = run(lessons.student_copy(LESSON), **answer)
    assert sentence in said and said.endswith("behind\n")


def test_an_answer_that_a_check_cannot_read_is_told_as_well(capsys):
    with checking(2):
        len(None)
    assert "Exercise 2 is open: its check stopped with TypeError" in capsys.readouterr().out


def test_a_check_with_a_text_over_lines_is_an_error():
    cells = [*LESSON["cells"][:19], code("assert x, '''a\nb'''", "check")]
    with pytest.raises(ValueError, match="check of exercise 1 has a text over several lines"):
        lessons.student_copy({"cells": cells})


def test_a_teachers_copy_is_unfolded_and_has_notes_where_they_are_due():
    made = lessons.teacher_copy(LESSON, list(zip(STEPS, routes.clock(ROUTE), strict=True)))
    assert not [cell for cell in made["cells"] if cell["metadata"].get("jupyter")]
    assert "the secret\n" in [
        output.get("text") for cell in made["cells"] for output in cell.get("outputs", [])
    ]
    order = [cell["source"].split("\n")[0] for cell in made["cells"]]
    order = [line for line in order if line.startswith(("# 13", "> **", "## ", "my_guess", "### "))]
    assert order == [
        "# 13 · Crowns",
        "> **Minute 0 to 3 · discuss.** What is a crown?",
        "> **Minute 5 to 10 · read.** Read.",
        "## 1 · Crowns",
        "> **Minute 3 to 5 · predict.** Guess.",
        "my_guess = None",
        "> **Minute 10 to 14 · discuss.** And now?",
        "## 2 · Hats",
        "### Shares",
        "## 3 · More",
        "## Exercises",
        "> **Minute 14 to 20 · exercise.** Do it.",
        "### Exercise 1 · look",
        "## What was learnt",
    ]
    assert "> - A hat." in json.dumps(made)


def test_a_lesson_is_a_folder_that_begins_with_its_plan(folder, tmp_path):
    plan = lessons.write_lesson(ROUTE, "student", tmp_path / "lesson", folder)
    assert sorted(path.name for path in plan.parent.glob("*.ipynb")) == ["00_plan.ipynb", "13_crowns.ipynb"]
    text = read_notebook(plan)["cells"][0]["source"]
    assert "# Short" in text and "| 5–10 | read | 13 [Crowns](13_crowns.ipynb#1-" in text
    assert "A hat." not in text
    assert (plan.parent / "hat.png").read_bytes() == b"a hat"
    for path in plan.parent.glob("*.ipynb"):
        nbformat.validate(nbformat.read(path, as_version=4))
    plan = lessons.write_lesson(ROUTE, "teacher", tmp_path / "other", folder)
    assert "- A hat." in read_notebook(plan)["cells"][0]["source"]


def test_a_lesson_is_made_again_unless_somebody_has_worked_in_it(folder, tmp_path):
    plan = lessons.write_lesson(ROUTE, "student", tmp_path / "lesson", folder)
    lessons.write_lesson(ROUTE, "student", tmp_path / "lesson", folder)
    work = plan.with_name("13_crowns.ipynb")
    work.write_text(work.read_text().replace("# your code", "# my code"))
    with pytest.raises(ValueError, match="13_crowns.ipynb was changed since it was made"):
        lessons.write_lesson(ROUTE, "student", tmp_path / "lesson", folder)
    assert "# my code" in work.read_text()


@each_notebook
def test_no_answer_and_nothing_that_it_prints_is_in_a_students_copy(path):
    notebook = read_notebook(path)
    made = lessons.student_copy(notebook)
    left = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    given = {line.strip() for cell in notebook["cells"] if role(cell) != "answer" for line in lines_of(cell)}
    for cell in notebook["cells"]:
        if role(cell) == "answer":
            own = {line.strip() for line in lines_of(cell)} - given
            assert own and not [
                line for source in left for line in source.splitlines() if line.strip() in own
            ]
    begun = next(i for i, cell in enumerate(made["cells"]) if role(cell))
    assert [cell["outputs"] for cell in made["cells"][begun:] if cell.get("outputs")] == []
    tags = [set(cell["metadata"].get("tags", [])) for cell in made["cells"]]
    asks = next((i for i, own in enumerate(tags) if "predict" in own), len(tags))
    assert not [cell for cell in made["cells"][asks + 1 :] if cell.get("outputs")]
    assert all(asks < i for i, own in enumerate(tags) if {"reveal", "reveals"} & own)


def lines_of(cell):
    return cell["source"].splitlines()


@each_notebook
def test_a_students_copy_needs_no_name_that_an_answer_alone_sets(path):
    cells = [cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]
    sources = {id(cell): re.sub(r"(?m)^\s*[%!].*$", "pass", cell["source"]) for cell in cells}
    answers = [cell for cell in cells if role(cell) == "answer"]
    set_by_answers = set().union(*(names_set(sources[id(cell)]) for cell in answers))
    first = min(cells.index(cell) for cell in answers)
    others = [cell for cell in cells if role(cell) != "answer"]
    set_by_others = set().union(*(names_set(sources[id(cell)]) for cell in others))
    for cell in cells[first:]:  # those before cannot need it
        if role(cell) == "answer":
            continue
        own = names_read(sources[id(cell)]) & (set_by_answers - set_by_others)
        assert not own, f"{own} is set by an answer alone, and read in {cell['source'][:60]!r}"


@pytest.mark.parametrize("who", ["student", "teacher"])
@pytest.mark.parametrize("route", ROUTES.values(), ids=list(ROUTES))
def test_every_route_becomes_a_lesson(route, who, tmp_path):
    plan = lessons.write_lesson(route, who, tmp_path)
    assert len(list(tmp_path.glob("*.ipynb"))) == 1 + len(route.notebooks)
    for path in tmp_path.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        if who == "student":
            assert not [cell for cell in notebook.cells if role(cell) == "answer"]
    text = read_notebook(plan)["cells"][0]["source"]
    for step in route.steps:
        assert step.do in text
        assert all((note in text) == (who == "teacher") for note in step.notes)
