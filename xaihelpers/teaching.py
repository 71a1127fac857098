"""What a lesson needs: stubs that are told from wrong answers, and checks that stop nothing.

A stub leaves `...` where an answer belongs: as a value, within a collection, or returned by a function.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Blank(AssertionError):
    """An exercise whose stub is as it was."""


def begun(**answers) -> None:
    """Raise Blank, which names it, if one of the answers is still a stub's `...`, or holds one.

    answers: name -> value; of a function what it returns for an input of the check's own.
    """
    for name, answer in answers.items():
        parts = answer.values() if isinstance(answer, dict) else answer
        held = list(parts) if isinstance(answer, dict | list | tuple | set) else []
        if any(part is ... for part in (answer, *held)):
            raise Blank(f"{name} is still blank")


@contextmanager
def checking(number: int) -> Iterator[None]:
    """Print what an exercise's check finds blank or wrong, and stop nothing, as in students' copies."""
    try:
        yield
    except Blank as error:
        print(f"Exercise {number} is open: {error}.")
    except AssertionError as error:
        print(f"Exercise {number} is not right yet: {error}")
    except Exception as error:  # a student's answer can be anything
        print(f"Exercise {number} is not right yet: its check stopped with {type(error).__name__}: {error}")
