"""Guesses before a result: what is printed, what is kept, whose first guess counts."""

import logging
import sqlite3

import numpy as np
import pytest

from xaihelpers import rating
from xaihelpers.teaching import guesses

QUESTION = "How many of 100 concepts are there?"


@pytest.fixture
def file(tmp_path, monkeypatch, caplog):
    """The file of guesses, in a folder of this test."""
    monkeypatch.setenv("XAI_RATINGS", str(tmp_path))
    monkeypatch.delenv("XAI_RATER", raising=False)
    caplog.set_level(logging.INFO, logger="xaihelpers")
    return tmp_path / "guesses.sqlite"


def ask(guess=None, unit="%", name="13-first"):
    return guesses.ask(name, QUESTION, unit, 0, 100, guess)


def said(caplog):
    return caplog.messages[-1].splitlines()


def test_without_a_person_nothing_is_kept_and_nothing_waits(file, caplog):
    asked = ask()
    asked.reveal(42.345, 35.5, 50.2)
    assert said(caplog) == ["Result: 42.3 [35.5, 50.2] %.", "No guess was made."]
    assert asked.value is None
    assert not file.exists()
    data, _ = asked._repr_mimebundle_()
    assert QUESTION in data["text/html"]
    assert "0x" not in data["text/plain"]


@pytest.mark.parametrize(
    "unit, line",
    [
        ("%", "Your guess: 40 %, off by 2.5 points, inside the interval."),
        ("points", "Your guess: 40 points, off by 2.5 points, inside the interval."),
        ("of 50", "Your guess: 40 of 50, off by 2.5, inside the interval."),
        ("ms", "Your guess: 40 ms, off by 2.5 ms, inside the interval."),
    ],
)
def test_a_number_is_committed_and_compared(file, caplog, unit, line):
    ask(40, unit).reveal(np.float32(42.5), 35, 50)
    assert said(caplog)[1:] == [line]


def test_the_first_guess_of_a_person_counts(file, caplog):
    ask(40)
    again = ask(90)
    assert again.value == 40
    assert again.board.closed
    assert "Your first guess counts: 40 %." in caplog.messages
    assert ask().value == 40  # in a later run, without a number
    assert ask(name="another question").value is None
    assert len(rating.ratings(file)) == 1


def test_others_are_told_by_how_many_were_nearer(file, caplog, monkeypatch):
    for person, number in (("ann", 10), ("ben", 52), ("eve", 49)):
        monkeypatch.setenv("XAI_RATER", person)
        ask(number)
    monkeypatch.setenv("XAI_RATER", "me")
    ask(54).reveal(50)
    assert said(caplog) == [
        "Result: 50 %.",
        "Your guess: 54 %, off by 4 points.",
        "3 other guesses: off by 2 points (median), 2 of them nearer than yours.",
    ]
    monkeypatch.setenv("XAI_RATER", "silent")
    ask().reveal(50)
    assert said(caplog)[1:] == ["No guess was made.", "4 other guesses: off by 3 points (median)."]


def test_the_slider_commits_once(file, caplog):
    asked = ask()
    assert "Not committed" in asked.board.text
    asked.board.values = {"guess": 71.0}
    assert asked.value is None  # moving is not committing
    asked.board._receive(None, {"press": "commit"}, [])
    assert asked.value == 71
    assert asked.board.closed
    assert "71 %" in asked.board.text
    asked.board._receive(None, {"press": "commit"}, [])
    assert len(rating.ratings(file)) == 1
    asked.reveal(71)
    assert "off by 0 points" in said(caplog)[1]


@pytest.mark.parametrize("guess", [-1, 101, float("nan"), "40", True + 1j])
def test_what_is_no_guess_is_refused(file, guess):
    with pytest.raises(ValueError, match="from 0 to 100 %"):
        ask(guess)
    assert not file.exists()


def test_limits_without_room(file):
    with pytest.raises(ValueError, match="room"):
        guesses.ask("x", QUESTION, "%", 5, 5)


def test_a_run_without_a_result_says_so(file, caplog):
    ask(40).reveal(float("nan"))
    assert said(caplog) == ["This run has no result to hold a guess against."]


def test_a_damaged_file_hides_no_result(file, caplog):
    sqlite3.connect(file).execute("create table t (x)")
    ask(40).reveal(42)
    assert "Your guess: 40 %, off by 2 points." in caplog.text
    assert "The guess counts here alone" in caplog.text
