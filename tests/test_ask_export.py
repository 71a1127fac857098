"""The answers that are kept as a table, with what was asked, by the command of the package's room."""

import json

import pandas as pd
import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask.__main__ import main
from xaihelpers.ask.cache import AnswersOnDisk


class Model:
    """Answers with the question's last word; refuses and cuts where told to."""

    name, warnings = "m", {}

    def __init__(self, identity="m 1", is_batch=False):
        self.identity, self.is_batch = identity, is_batch

    def answer(self, requests, seed, temperature):
        for position, one in enumerate(requests):
            word = one.turns[-1].text.split()[-1]
            more = {"truncated": word == "cut", "refused": word == "refused"}
            probabilities = {"A": 0.75, "B": 0.25} if one.options else None
            yield position, ask.Answer(word, "because", probabilities, 10, 2, 0.5, **more)


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


@pytest.fixture
def asked(tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    ask.ask(Model(), [ask.request("which one", tmp_path / "red.png", "AB", "Be short.", 9)], seed=3)
    ask.ask(
        Model("other 2"), [ask.request(f"q {word}", schema={"type": "object"}) for word in ("cut", "refused")]
    )


def test_the_table_holds_what_was_asked_and_what_was_answered(asked, tmp_path, capsys):
    file = tmp_path / "answers.parquet"
    assert main(["export", str(file)]) == 0
    assert "3 answers of 2 models" in capsys.readouterr().out
    table = pd.read_parquet(file)
    first = table.iloc[0]
    assert (first.model, first.seed, first.temperature, first.system) == ("m 1", 3, 0, "Be short.")
    assert (first.question, first.answer, first.reasoning) == ("which one", "one", "because")
    assert json.loads(first.options) == ["A", "B"] and json.loads(first.probabilities)["A"] == 0.75
    assert first.image_names == "red.png" and len(first.images) == 64 and first.max_tokens == 9
    assert (first.tokens_in, first.tokens_out, first.seconds) == (10, 2, 0.5)
    assert table.failure.tolist() == ["", "truncated", "refused"]
    assert json.loads(table.schema[1]) == {"type": "object"}
    assert table.asked_at.is_monotonic_increasing and (pd.Timestamp.now("UTC") - first.asked_at).seconds < 600
    assert str(tmp_path) not in table.to_csv(), "a file's folder tells nothing, and may tell a name"


def test_one_model_alone(asked, tmp_path):
    assert main(["export", str(tmp_path / "one.parquet"), "--model", "other"]) == 0
    assert set(pd.read_parquet(tmp_path / "one.parquet").model) == {"other 2"}


def test_what_cannot_be_exported_says_why(asked, tmp_path, capsys):
    assert main(["export", str(tmp_path / "answers.csv")]) == 1
    assert main(["export", str(tmp_path / "none.parquet"), "--model", "third"]) == 1
    shown = capsys.readouterr().err
    assert "ends in .parquet" in shown and "there are no answers of third" in shown


def test_answers_that_were_kept_without_their_request_are_there(asked, tmp_path):
    disk = AnswersOnDisk()
    disk.keep("old key", ask.Answer("of old"))
    disk.close()
    main(["export", str(tmp_path / "all.parquet")])
    old = pd.read_parquet(tmp_path / "all.parquet").set_index("key").loc["old key"]
    assert old.answer == "of old" and pd.isna(old.model) and pd.isna(old.asked_at)


def test_show_counts_by_model_and_shows_the_last(asked, capsys):
    assert main(["show"]) == 0
    shown = capsys.readouterr().out
    assert "other 2" in shown and "asked    which one red.png" in shown and "answered refused" in shown
    main(["show", "which", "--number", "1"])
    shown = capsys.readouterr().out
    assert "answered one" in shown and "other 2" not in shown
    main(["show", "never asked"])
    assert "No such answers" in capsys.readouterr().out


def test_a_batch_costs_half(asked):
    prices = {}
    for is_batch in (False, True):
        (answer,) = ask.ask(Model("m 3", is_batch), [ask.request("q w")], price=(2.0, 30.0))
        prices[is_batch] = answer.cost
    assert prices[True] == pytest.approx(prices[False] / 2) and prices[False] > 0
