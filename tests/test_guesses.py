"""Guesses before a result: what is said, what is kept, whose first guess counts; and an exercise's check."""

import logging
import sqlite3

import numpy as np
import pytest

from xaihelpers import rating
from xaihelpers.teaching import guesses
from xaihelpers.teaching.exercises import checking

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
    ask().reveal(float("nan"))
    assert said(caplog) == ["This run has no result to hold a guess against."]


def test_the_first_guess_of_a_person_counts_and_is_compared(file, caplog):
    asked = ask()
    asked.board.values = {"guess": 40.0}
    assert asked.value is None  # moving is not committing
    asked.board._receive(None, {"press": "commit"}, [])
    again = ask(90)
    assert (asked.value, again.value, ask().value) == (40, 40, 40)
    assert "Your first guess counts: 40 %." in caplog.messages
    assert ask(name="another question").value is None
    assert len(rating.ratings(file)) == 1
    again.reveal(np.float32(42.5), 35, 50)
    assert said(caplog)[1:] == ["Your guess: 40 %, off by 2.5 points, inside the interval."]


def test_others_are_told_by_how_many_were_nearer(file, caplog, monkeypatch):
    for person, number in (("ann", 10), ("ben", 52), ("eve", 49), ("me", 54)):
        monkeypatch.setenv("XAI_RATER", person)
        asked = ask(number, "of 100")
    asked.reveal(50)
    assert said(caplog) == [
        "Result: 50 of 100.",
        "Your guess: 54 of 100, off by 4.",
        "3 other guesses: off by 2 (median), 2 of them nearer than yours.",
    ]


@pytest.mark.parametrize("guess", [-1, 101, float("nan"), "40", True + 1j])
def test_what_is_no_guess_is_refused(file, guess):
    with pytest.raises(ValueError, match="from 0 to 100 %"):
        ask(guess)
    assert not file.exists()


def test_limits_without_room(file):
    with pytest.raises(ValueError, match="room"):
        guesses.ask("x", QUESTION, "%", 5, 5)


def test_a_damaged_file_hides_no_result(file, caplog):
    sqlite3.connect(file).execute("create table t (x)")
    ask(40).reveal(42)
    assert "Your guess: 40 %, off by 2 points." in caplog.text
    assert "The guess counts here alone" in caplog.text


def test_the_check_of_an_exercise_says_what_is_wrong_and_stops_nothing(capsys):
    with checking(1):
        raise AssertionError("crowns is not set")
    with checking(2):
        len(None)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Exercise 1 is open: crowns is not set"
    assert said[1].startswith("Exercise 2 is open: its check stopped with TypeError")
