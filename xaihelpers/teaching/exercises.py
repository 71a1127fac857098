"""Exercises in a notebook: a task, a stub, a folded answer and a check, told apart by the cells' tags.

| tag | cell |
|---|---|
| exercise | the task, under a heading `Exercise 1 · look`, `change` or `build` |
| stub | what a student begins with; runs without an error |
| answer | sets what the stub left open |
| check | raises AssertionError after the stub, passes after the answer |
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ROLES = ("exercise", "stub", "answer", "check")
GRADES = ("look", "change", "build")


@dataclass(frozen=True)
class Exercise:
    """An exercise: its number, its grade, and the sources of its four cells."""

    number: int
    grade: str
    text: str
    stub: str
    answer: str
    check: str


def role(cell: dict) -> str:
    """Which part of an exercise a cell is; empty for any other cell. Raises ValueError if it is two."""
    roles = [name for name in ROLES if name in cell["metadata"].get("tags", [])]
    if len(roles) > 1:
        raise ValueError(f"a cell is both {roles[0]} and {roles[1]}: {_source(cell)[:60]!r}")
    return roles[0] if roles else ""


def exercises_of(notebook: dict) -> list[Exercise]:
    """The exercises of a notebook (as JSON or of nbformat), in order.

    Raises ValueError: for cells of an exercise that are not four in a row, or a heading of another form.
    """
    cells = notebook["cells"]
    marked = [i for i, cell in enumerate(cells) if role(cell)]
    found = []
    for place in range(0, len(marked), len(ROLES)):
        rows = marked[place : place + len(ROLES)]
        roles = [role(cells[i]) for i in rows]
        if roles != [*ROLES] or rows != [*range(rows[0], rows[0] + len(ROLES))]:
            raise ValueError(f"exercise {len(found) + 1} is {roles}, not four cells in a row: {ROLES}")
        sources = [_source(cells[i]) for i in rows]
        heading = re.match(r"### Exercise (\d+) · (\w+)\n", sources[0])
        if not heading or int(heading[1]) != len(found) + 1 or heading[2] not in GRADES:
            wanted = f"### Exercise {len(found) + 1} · look, change or build"
            raise ValueError(f"the heading of an exercise is not {wanted!r}: {sources[0][:60]!r}")
        found.append(Exercise(int(heading[1]), heading[2], *sources))
    return found


@contextmanager
def checking(number: int) -> Iterator[None]:
    """Run an exercise's check so that what is still wrong is printed and nothing stops, as Run All would.

    An answer that the check cannot even read, because it is of another kind, is told in the same way.
    """
    try:
        yield
    except AssertionError as error:
        print(f"Exercise {number} is open: {error}")
    except Exception as error:  # a student's answer can be anything
        print(f"Exercise {number} is open: its check stopped with {type(error).__name__}: {error}")


def _source(cell: dict) -> str:
    return "".join(cell["source"])
