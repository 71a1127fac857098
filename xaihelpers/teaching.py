"""What a lesson needs: a guess before a result, and an exercise's check that says what is open."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Guess:
    """A question about a result that is still to come, and the guess, if one was made; made by `ask`."""

    question: str
    unit: str
    low: float
    high: float
    value: float | None

    def reveal(self, value: float, low: float | None = None, high: float | None = None) -> None:
        """Log the result and how far off the guess was.

        value, low, high: the result and its interval, in the question's unit; NaN where a run has none.
        """
        value = float(value)
        if math.isnan(value):
            log.info("This run has no result to hold a guess against.")
            return
        has_interval = low is not None and high is not None and not math.isnan(float(low) + float(high))
        interval = f" [{_number(low)}, {_number(high)}]" if has_interval else ""
        log.info("Result: %s%s %s.", _number(value), interval, self.unit)
        if self.value is None:
            log.info("No guess was made.")
            return
        inside = ", inside the interval" if has_interval and low <= self.value <= high else ""
        off = _number(abs(self.value - value))
        if not self.unit.startswith("of "):  # the difference of two counts has no unit
            off += " points" if self.unit == "%" else f" {self.unit}"
        log.info("Your guess: %s %s, off by %s%s.", _number(self.value), self.unit, off, inside)

    def __repr__(self) -> str:
        guess = "none yet" if self.value is None else f"{_number(self.value)} {self.unit}"
        return f"{self.question}\nYour guess, {_range(self.low, self.high, self.unit)}: {guess}."


def ask(name: str, question: str, unit: str, low: float, high: float, guess: float | None = None) -> Guess:
    """A question about a result that is still to come, with the guess of whoever runs the notebook.

    name: of the question, for errors. unit: as "%", "points", "of 5".
    low, high: between which a guess may lie. guess: None where none was made.
    Raises ValueError for limits without room between them, and for a guess that is no number there.
    """
    if not low < high:
        raise ValueError(f"a guess of {name!r} must have room between low and high, not {low} and {high}")
    if guess is not None and not (isinstance(guess, Real) and low <= guess <= high):
        raise ValueError(f"a guess of {name!r} is a number {_range(low, high, unit)}, not {guess!r}")
    return Guess(question, unit, low, high, guess)


@contextmanager
def checking(number: int) -> Iterator[None]:
    """Print what an exercise's check finds wrong, and stop nothing: as students' copies run their checks."""
    try:
        yield
    except AssertionError as error:
        print(f"Exercise {number} is open: {error}")
    except Exception as error:  # a student's answer can be anything
        print(f"Exercise {number} is open: its check stopped with {type(error).__name__}: {error}")


def _range(low: float, high: float, unit: str) -> str:
    return f"from {_number(low)} to {_number(high)} {unit}"


def _number(value: float) -> str:
    """A number with three digits, large ones whole."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
