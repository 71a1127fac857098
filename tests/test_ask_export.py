"""The answers that are kept as a table, with what was asked, by the command of the package's room."""

import json

import pandas as pd
import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask.__main__ import main


class Model:
    """Answers with the question's last word; refuses and cuts where told to."""

    name, warnings = "m", {}

    def __init__(self, identity="m 1"):
        self.identity = identity

    def answer(self, requests, seed, temperature):
        for position, one in enumerate(requests):
            word = one.turns[-1].text.split()[-1]
            more = {"truncated": word == "cut", "refused": word == "refused"}
            probabilities = {"A": 0.75, "B": 0.25} if one.options else None
            yield position, ask.Answer(word, "because", probabilities, 10, 2, 0.5, **more)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    ask.ask(Model(), [ask.request("which one", tmp_path / "red.png", "AB", "Be short.", 9)], seed=3)
    others = [ask.request(f"q {word}", schema={"type": "object"}) for word in ("cut", "refused")]
    ask.ask(Model("other 2"), others)


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
    assert main(["show"]) == 0
    shown = capsys.readouterr().out
    assert "other 2" in shown and "asked    which one red.png" in shown and "answered refused" in shown


def test_what_cannot_be_exported_says_why(asked, tmp_path, capsys):
    assert main(["export", str(tmp_path / "answers.csv")]) == 1
    assert main(["export", str(tmp_path / "none.parquet"), "--model", "third"]) == 1
    assert main(["export", str(tmp_path / "one.parquet"), "--model", "other"]) == 0
    assert set(pd.read_parquet(tmp_path / "one.parquet").model) == {"other 2"}
    shown = capsys.readouterr().err
    assert "ends in .parquet" in shown and "there are no answers of third" in shown
