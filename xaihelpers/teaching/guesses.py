"""A guess before a result: asked, committed once, and held against the result and the guesses of others.

Guesses lie in a file of ratings (`guesses.sqlite`, see `rating.ratings_file`), one row each. The person is
named by the environment variable XAI_RATER. A run without a person makes none, and goes on.
"""

import logging
import math
import os
from numbers import Real

import pandas as pd

from xaihelpers import rating
from xaihelpers.paths import FolderError
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import press, slider

log = logging.getLogger(__name__)
STEPS = 100  # of the slider


def ask(name: str, question: str, unit: str, low: float, high: float, guess: float | None = None) -> "Guess":
    """A question about a result that is still to come; shown in a notebook, it has a slider and a button.

    name: of the question, the same for everybody. unit: as "%", "points", "of 5".
    low, high: between which a guess may lie.
    guess: a number commits it at once. The first guess of a person counts, also in a later run.
    Raises ValueError: for limits without room between them, and for a guess that is no number from low to
        high.
    """
    if not low < high:
        raise ValueError(f"a guess of {name!r} must have room between low and high, not {low} and {high}")
    asked = Guess(name, question, unit, low, high)
    if guess is not None:
        asked.commit(guess)
    return asked


class Guess:
    """A person's guess, made by `ask`; `value` is what was committed, or None."""

    def __init__(self, name: str, question: str, unit: str, low: float, high: float):
        self.name, self.question, self.unit = name, question, unit
        self.low, self.high = float(low), float(high)
        self.person = os.environ.get("XAI_RATER", "").strip() or "anonymous"
        self.value = None
        own = self._kept().query("rater == @self.person").rating
        if len(own):
            self.value = float(own.iloc[0])
        range_ = f"{_number(self.low)} to {self._said(self.high)}"
        controls = [
            slider("guess", f"your guess, {range_}", self.low, self.high, (self.high - self.low) / STEPS),
            press("commit", "commit"),
        ]
        start = (self.low + self.high) / 2 if self.value is None else min(max(self.value, low), high)
        presses = {"commit": lambda values: self.commit(values["guess"])}
        self.board = Board(question, controls, {"guess": start}, self._line, presses)
        self.board.closed = self.value is not None

    def commit(self, guess: float) -> None:
        """Commit a guess; where the person has made one before, that one stays.

        Raises ValueError: for one that is no number from low to high.
        """
        is_number = isinstance(guess, Real) and math.isfinite(guess)
        if not is_number or not self.low <= guess <= self.high:
            range_ = f"from {_number(self.low)} to {self._said(self.high)}"
            raise ValueError(f"a guess of {self.name!r} is a number {range_}, not {guess!r}")
        if self.value is None:
            self.value = float(guess)
            try:
                kept = [rating.ratings_file("guesses.sqlite"), self.name, self.person, self.name]
                _, self.value = rating.commit(*kept, f"{guess:g}", self.value, self.question)
            except (rating.RatingError, FolderError) as error:
                log.warning("The guess counts here alone: %s", error)
        if self.value != guess:
            log.info("Your first guess counts: %s.", self._said(self.value))
        self.board.closed = True
        self.board.redraw()

    def reveal(self, value: float, low: float | None = None, high: float | None = None) -> None:
        """Log the result, how far off the guess was, and how far off those of others were, if any are kept.

        value, low, high: the result and its interval, in the question's unit; NaN where a run has none.
        """
        value = float(value)
        if math.isnan(value):
            log.info("This run has no result to hold a guess against.")
            return
        has_interval = low is not None and high is not None and not math.isnan(float(low) + float(high))
        interval = f" [{_number(low)}, {_number(high)}]" if has_interval else ""
        lines = [f"Result: {_number(value)}{interval} {self.unit}."]
        if self.value is None:
            lines.append("No guess was made.")
        else:
            inside = ", inside the interval" if has_interval and low <= self.value <= high else ""
            off = self._distance(abs(self.value - value))
            lines.append(f"Your guess: {self._said(self.value)}, off by {off}{inside}.")
        lines += self._others(value)
        log.info("%s", "\n".join(lines))

    def _others(self, value: float) -> list[str]:
        """What is said of the guesses of others: nothing where there are none."""
        off = (self._kept().query("rater != @self.person").rating - value).abs()
        if off.empty:
            return []
        people = "1 other guess" if len(off) == 1 else f"{len(off)} other guesses"
        line = f"{people}: off by {self._distance(off.median())} (median)"
        if self.value is None:
            return [f"{line}."]
        nearer = int((off < abs(self.value - value)).sum())
        return [f"{line}, {nearer} of them nearer than yours."]

    def _kept(self):
        try:
            return rating.committed(rating.ratings_file("guesses.sqlite"), self.name)
        except rating.RatingError as error:
            log.warning("The guesses of others are left out: %s", error)
            return pd.DataFrame(columns=["rater", "rating"])

    def _line(self, values: dict) -> tuple[None, str]:
        if self.value is None:
            return None, "Not committed yet."
        return None, f"Committed by {self.person}: {self._said(self.value)}."

    def _said(self, value: float) -> str:
        return f"{_number(value)} {self.unit}".strip()

    def _distance(self, value: float) -> str:
        """A difference, in words: that of two percentages is in points, that of two counts has no unit."""
        unit = "points" if self.unit == "%" else self.unit
        return _number(value) if unit.startswith("of ") else f"{_number(value)} {unit}".strip()

    def __repr__(self) -> str:
        return f"<guess of {self.name}: {'none' if self.value is None else self._said(self.value)}>"

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        return self.board._repr_mimebundle_(**kwargs)


def _number(value: float) -> str:
    """A number with three digits, large ones whole."""
    value = float(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
