"""How notebooks open and close, their exercises and what they give to slides, as files."""

import re

import pytest
from made_up_lesson import CLOSING, OPENING, TOLD, markdown, names_read, names_set, notebook

from xaihelpers.paths import PROJECT
from xaihelpers.teaching.exercises import exercises_of, role
from xaihelpers.teaching.openings import (
    closing_text,
    opening_text,
    read_notebook,
    read_opening,
    reading_minutes,
    running_minutes,
    title_and_question,
)

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
RUNNING = running_minutes((PROJECT / "README.md").read_text())
EXERCISES = range(2, 5)
MEASURED = r"\b(?!(?:0|20|50|80|95|100) ?%)\d+ ?%|\d\.\d|\d points"  # of a run; levels of chance may be told

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_an_opening_is_read_and_written_word_for_word():
    opening = read_opening(notebook())
    assert opening.title == "Crowns"
    assert opening.question == "Is there a crown in the picture?"
    assert opening_text(opening) in OPENING
    assert closing_text(opening) == CLOSING


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"goals": None}, "no goals"),
        ({"goals": TOLD["goals"][:2]}, "goals has 2 texts, not 3"),
        ({"goals": [*TOLD["goals"][:2], "go " * 21]}, "more than 20 words"),
        ({"goals": "three"}, "something else than texts"),
        ({"learnt": ["One."]}, "learnt has 1 texts, not 2 to 4"),
        ({"before": ""}, "before holds something else"),
        ({"reading": 2.5}, "reading is in whole minutes"),
        ({"running": True}, "running is in whole minutes"),
    ],
)
def test_a_faulty_opening_says_what_is_wrong_and_where(change, complaint):
    made = notebook()
    told = {name: value for name, value in {**TOLD, **change}.items() if value is not None}
    made["metadata"]["xaihelpers"] = told
    with pytest.raises(ValueError, match=f"'Crowns'.*{complaint}"):
        read_opening(made)


def test_a_first_cell_without_a_question_is_an_error():
    with pytest.raises(ValueError, match="no heading"):
        title_and_question({"cells": [markdown("Crowns")]})
    with pytest.raises(ValueError, match="'Crowns'.*asks"):
        title_and_question({"cells": [markdown("# 13 · Crowns\n\nThey are red.")]})


def test_minutes_are_words_and_figures():
    shown = [{"data": {"image/png": ""}}, {"data": {"text/html": ""}}, {"data": {"text/plain": "1"}}]
    cells = [markdown("word " * 360), {"cell_type": "code", "source": "f()", "outputs": shown}]
    assert reading_minutes({"cells": cells}) == 3.0
    table = "\n## The notebooks\n\n| id | what | 2 CPU cores | knobs |\n|---|---|---|---|\n"
    rows = (
        "| 13 | [crowns](x) | 61 s | `a` |\n| 14 | [hats](x) | 60 s | `b`, `c` |\n\n## Next\n| 15 | 99 s | |"
    )
    assert running_minutes(table + rows) == {"13": 2, "14": 1}


@each_notebook
def test_the_first_and_the_last_cell_say_what_the_metadata_say(path):
    told = read_notebook(path)
    opening = read_opening(told)
    first = next(cell for cell in told["cells"] if cell["cell_type"] == "markdown")
    last = told["cells"][-1]
    assert opening_text(opening) in first["source"]
    assert last["cell_type"] == "markdown" and last["source"].strip() == closing_text(opening)


@each_notebook
def test_goals_and_what_was_learnt_hold_no_numbers_of_a_run(path):
    opening = read_opening(read_notebook(path))
    texts = (*opening.goals, *opening.learnt)
    assert [text for text in texts if re.search(MEASURED, text)] == []


@each_notebook
def test_minutes_fit_the_prose_and_the_readme(path):
    told = read_notebook(path)
    opening, estimate = read_opening(told), reading_minutes(told)
    assert max(1, estimate / 1.5) <= opening.reading <= max(1.5, estimate * 1.5), f"about {estimate:.0f}"
    assert opening.running == RUNNING[path.name[:2]]


def test_names_are_those_of_the_cell_itself():
    source = (
        "import a.b\nif x:\n    c, d = 1, [e + n for e in y]\ndef f(g):\n    h = g + m\nfor i in z: k[i] = 1"
    )
    assert names_set(source) == {"a", "c", "d", "f", "i", "k"}
    assert names_read(source) == {"x", "n", "y", "m", "z", "k", "i"}


@each_notebook
def test_exercises_are_graded_stubbed_folded_and_checked(path):
    told = read_notebook(path)
    exercises = exercises_of(told)
    assert len(exercises) in EXERCISES
    for exercise in exercises:
        left_open = names_set(exercise.stub) & names_set(exercise.answer)  # beside what a stub gives
        assert left_open, f"exercise {exercise.number}: the answer sets nothing of the stub"
        assert left_open & names_read(exercise.check), (
            f"exercise {exercise.number}: its check reads none of {left_open}"
        )
        assert exercise.answer.startswith(f"# Answer {exercise.number}: ")
        assert "print(" in exercise.check and "assert " in exercise.check
    for cell in told["cells"]:
        if role(cell) in ("answer", "check"):
            assert cell["metadata"].get("jupyter", {}).get("source_hidden"), (
                f"not folded: {cell['source'][:60]}"
            )


@each_notebook
def test_exercises_come_under_their_heading_in_the_end(path):
    cells = read_notebook(path)["cells"]
    first = next(i for i, cell in enumerate(cells) if role(cell))
    headings = [i for i, cell in enumerate(cells) if "## Exercises" in cell["source"].splitlines()]
    assert headings == [first - 1]
