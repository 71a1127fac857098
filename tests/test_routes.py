"""Routes for teaching: what they name exists, their minutes add up, and the README shows them."""

import pytest
import yaml

from xaihelpers.paths import PROJECT
from xaihelpers.teaching import route_tables, routes, what_is_read
from xaihelpers.teaching.openings import read_notebook

ROUTES = routes.read_routes()
LENGTHS = {"45": 45, "90": 90} | dict.fromkeys(("alignment", "conceptscore", "fse", "autoxplain", "sub"), 90)
each_route = pytest.mark.parametrize("route", ROUTES.values(), ids=list(ROUTES))

FITS = {"90": 1.2, "45": 1.5}  # how many of its minutes the reading of a step may take

STEP = {"notebook": "13", "minutes": 5, "kind": "read", "do": "Read.", "section": "1 · Crowns"}


def write(path, *steps):
    told = {"short": {"title": "Short", "audience": "anybody", "goal": "Say it.", "steps": list(steps)}}
    path.write_text(yaml.safe_dump(told))
    return path


def test_a_route_is_read(tmp_path):
    exercise = {"notebook": "14", "minutes": 2, "kind": "exercise", "do": "Do.", "exercise": 1}
    skip = {"notebook": "12", "minutes": 0, "kind": "skip", "do": "Skip.", "section": ["1 · A", "2 · B"]}
    route = routes.find_route("short", write(tmp_path / "routes.yaml", STEP, skip, exercise))
    assert route.minutes == 7 and route.notebooks == ["13", "14"]
    assert routes.clock(route) == [(0, 5), (5, 5), (5, 7)]
    assert [routes.where(step) for step in route.steps] == ["13 “Crowns”", "12 “A”, “B”", "14, exercise 1"]


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
    with pytest.raises(ValueError, match=f"route short, step 2: .*{complaint}"):
        routes.read_routes(write(tmp_path / "routes.yaml", STEP, step))


def test_a_route_without_a_goal_says_so(tmp_path):
    path = tmp_path / "routes.yaml"
    path.write_text(yaml.safe_dump({"short": {"title": "Short", "audience": "anybody", "steps": [STEP]}}))
    with pytest.raises(ValueError, match="route short: no goal"):
        routes.read_routes(path)


def test_a_route_that_is_not_there_says_which_are():
    with pytest.raises(ValueError, match="no route '46'; there are 45, 90, alignment"):
        routes.find_route("46")


def test_cells_belong_to_the_section_that_they_stand_in():
    sources = [
        "# 13 · Birds",
        "x = 1",
        "## 1 · A\n\ntext",
        "y = 2",
        "text\n\n## 2 · B",
        "## 3 · C\n\n## 4 · D",
        "z",
    ]
    kinds = ["markdown", "code", "markdown", "code", "markdown", "markdown", "code"]
    cells = [{"cell_type": kind, "source": source} for kind, source in zip(kinds, sources, strict=True)]
    notebook = {"cells": cells}
    assert routes.headings(notebook) == ["1 · A", "2 · B", "3 · C", "4 · D"]
    a, b, c, d = routes.headings(notebook)
    assert routes.sections_of_cells(notebook) == [("",), ("",), (a,), (a,), (a, b), (c, d), (d,)]


PAGE = {
    "cells": [
        {
            "cell_type": "markdown",
            "metadata": {},
            "source": "## 1 · A\n\n**Four birds.** Look.\n\n$$x$$\n\n|a|\n|-|",
        },
        {"cell_type": "code", "metadata": {"tags": ["predict"]}, "outputs": [{"data": {"text/html": ""}}]},
        {"cell_type": "markdown", "metadata": {}, "source": "Two more:\n\n- *Red.* One\n- Blue one `x` is"},
        {"cell_type": "code", "metadata": {}, "outputs": [{"data": {"text/html": ""}}, {"name": "stdout"}]},
        {"cell_type": "code", "metadata": {}, "outputs": [{"data": {"image/png": ""}}]},
    ]
}


@pytest.mark.parametrize(
    "told, cells, minutes",
    [
        ("text: Four birds.", [0], 3 / 200),
        ("equation, table: Four birds", [0, 0], 1.5),
        ("text, table, figure: Red.", [2, 3, 4], 2 / 200 + 1.5),
        ("text, print: Blue one x", [2, 3], 4 / 200 + 0.75),
    ],
)
def test_what_is_read_is_found_and_has_its_minutes(told, cells, minutes):
    found = what_is_read.find(what_is_read.read_look(told), PAGE["cells"], range(5))
    assert [one.cell for one in found] == cells
    assert what_is_read.minutes(found) == pytest.approx(minutes)


@pytest.mark.parametrize(
    "told, complaint",
    [
        ("text: Five birds", "0 paragraphs begin with 'Five birds'"),
        ("equation: Two more", "no equation below 'Two more'"),
    ],
)
def test_what_cannot_be_read_is_an_error(told, complaint):
    with pytest.raises(ValueError, match=complaint):
        what_is_read.find(what_is_read.read_look(told), PAGE["cells"], range(5))


@pytest.mark.parametrize("name", FITS)
def test_what_is_read_fits_its_minutes(name):
    late = []
    for step, (begin, end) in zip(ROUTES[name].steps, routes.clock(ROUTES[name]), strict=True):
        if step.kind == "read":
            assert step.look, f"minute {begin} to {end}: what of the section is read?"
            notebook = read_notebook(routes.notebook_path(step.notebook))
            minutes = what_is_read.minutes(routes.read_parts(step, notebook))
            late += [(begin, end, round(minutes, 1))] if minutes > FITS[name] * step.minutes else []
    assert late == []


@each_route
def test_a_route_says_what_it_leads_to_and_what_it_leaves_out(route):
    assert route.goal.startswith("At the end you can say ") and route.goal[-1] == "."
    page = "\n".join(route_tables.readme_section({route.name: route}).splitlines())
    assert route.goal in page and route.start in page
    for number, sections in routes.left_out(route).items():
        named = {s for step in route.steps if step.notebook == number for s in step.sections}
        assert not named & set(sections)
        assert all(f"“{routes.short_name(section)}”" in page for section in sections)


def test_the_long_route_reads_or_skips_every_section_and_explains_its_words():
    kept = {"Exercises", "What was learnt", "What the paper leaves open", "What this notebook cannot tell"}
    kept |= {"A model of your own, from outside", "What did not reproduce here, and why"}
    assert {s for sections in routes.left_out(ROUTES["90"]).values() for s in sections} <= kept
    assert {"û", "θ", "product", "contrast", "draw", "S+", "S−", "recall"} <= set(dict(ROUTES["90"].words))


def test_every_kind_of_route_is_there():
    assert {name: route.minutes for name, route in ROUTES.items()} == LENGTHS


@each_route
def test_notebooks_sections_predictions_and_exercises_exist(route):
    routes.check_route(route)


@each_route
def test_a_step_says_in_one_sentence_what_to_do(route):
    for step in route.steps:
        assert len(step.do) <= 160 and step.do[-1] in ".?"
        assert step.kind != "discuss" or step.do.endswith("?") or step.notes or "sentence" in step.do


def test_the_long_routes_have_all_that_a_session_needs():
    for name, route in ROUTES.items():
        kinds = {step.kind for step in route.steps}
        assert {"read", "predict", "discuss"} <= kinds
        assert route.steps[0].kind == "discuss", "an opener"
        if name not in ("45", "90"):
            assert {"run", "exercise"} <= kinds
    assert [number[0] for number in ROUTES["45"].notebooks] == ["0", "1", "2", "3", "4", "5"]
    assert ROUTES["90"].notebooks == ["00", "13", "32", "42", "53", "62"]


def test_a_notebook_is_run_before_its_result_is_read():
    for route in ROUTES.values():
        ran = {step.notebook: place for place, step in enumerate(route.steps) if step.kind == "run"}
        for notebook, place in ran.items():
            assert not [s for s in route.steps[:place] if s.notebook == notebook and s.kind == "read"]


def test_a_prediction_is_made_before_its_answer_is_read_and_its_answer_is_read_then():
    for route in ROUTES.values():
        for place, step in enumerate(route.steps):
            if step.kind != "predict":
                continue
            asks, answers = sections_that_ask_and_answer(step.notebook)
            mine = [other.notebook == step.notebook and other.kind == "read" for other in route.steps]
            before = {
                s
                for read, other in zip(mine[:place], route.steps, strict=False)
                if read
                for s in other.sections
            }
            after = {
                s
                for read, o in zip(mine[place:], route.steps[place:], strict=True)
                if read
                for s in o.sections
            }
            where = f"{route.name}: notebook {step.notebook}"
            assert not (answers - asks) & before, f"{where}: {before} gives the answer away"
            assert answers & after, f"{where}: the answer is in {answers}, which nobody reads"


def sections_that_ask_and_answer(number):
    notebook = read_notebook(routes.notebook_path(number))
    asks, answers = set(), set()
    for cell, sections in zip(notebook["cells"], routes.sections_of_cells(notebook), strict=True):
        tags = set(cell["metadata"].get("tags", []))
        asks |= set(sections) if "predict" in tags else set()
        answers |= set(sections) if {"reveal", "reveals"} & tags else set()
    return asks, answers


def test_the_readme_shows_the_routes():
    readme = (PROJECT / "README.md").read_text()
    section = route_tables.readme_section(ROUTES)
    assert section in readme, "python -m xaihelpers.teaching routes --write"
    assert route_tables.with_section(readme, section) == readme
    headings = [line for line in readme.splitlines() if line.startswith("## ")]
    assert headings.index("## Routes") == headings.index("## The notebooks") + 1
