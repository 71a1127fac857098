"""Models that are no network: a function of a user's file, recorded answers, and their recording."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask.replayed_model import RecordedModel, ReplayedModel

SECRET = "sk-very-secret-of-tests"
ECHO = """
def answer(requests):
    found = []
    for request in requests:
        text = request.turns[-1].text
        sizes = " ".join(str(image.size) for image in request.turns[-1].images)
        if request.options:
            chances = {option: float(option == request.options[-1]) for option in request.options}
            found.append({"text": request.options[-1], "probabilities": chances})
        else:
            found.append(f"{text} {sizes}".strip())
    return found
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setenv("XAI_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(ECHO)
    return str(tmp_path / "mine.py")


OF_A = "def answer(requests): return [{'text': 'A', 'probabilities':"


class Model:
    """Answers with the question's last word, and fails for the word `lost`."""

    name, identity, base = "big", "big 1", "https://somewhere"

    def __init__(self):
        self.asked, self.warnings = [], Counter()

    def answer(self, requests, seed, temperature):
        for position, one in enumerate(requests):
            word = one.turns[-1].text.split()[-1]
            self.asked.append(word)
            if word == "stop":
                raise KeyboardInterrupt
            whole = ask.Answer(f"{word}!", tokens_in=7)
            yield position, ask.Answer(error="gone") if word == "lost" else whole


def words(*names):
    return [ask.request(f"say {name}") for name in names]


def test_a_function_of_ones_own_answers_text_image_and_options(mine):
    model = ask.load_vlm(f"python:{mine}", batch_size=2)
    picture = Image.new("L", (6, 4))
    requests = [*words("a", "b"), ask.request("see", picture), ask.request("choose", options=["A", "B"])]
    answers = ask.ask(model, requests)
    assert [answer.text for answer in answers] == ["say a", "say b", "see (6, 4)", "B"]
    assert answers[3].choice == "B" and answers[0].probabilities is None
    assert all(answer.cached for answer in ask.ask(model, requests))
    Path(mine).write_text(ECHO.replace('f"{text} ', 'f"now {text} '))
    assert ask.ask(ask.load_vlm(f"python:{mine}"), words("a"))[0].text == "now say a", "a changed function"


@pytest.mark.parametrize(
    "source, message",
    [
        ("def answer(requests):\n    return 1 / 0", r"line 2, in answer: return 1 / 0\nZeroDivisionError"),
        ("def answer(requests): return None", "answer returned no list"),
        ("def answer(requests): return ['yes']", "1 answers for 2 requests"),
        ("def answer(requests): return [1, 2]", "an object of type int for a request"),
        ("def answer(requests): return [{'txt': 'a'}] * 2", "the field 'txt'"),
        (f"{OF_A} {{'A': 1}}}}] * 2", "each of the options A, B"),
        (f"{OF_A} {{'A': 2, 'B': 0}}}}] * 2", "from 0 to 1"),
    ],
)
def test_what_is_wrong_with_a_function_is_named(source, message, tmp_path):
    (tmp_path / "bad.py").write_text(source)
    requests = [ask.request(word, options=["A", "B"]) for word in "xy"]
    with pytest.raises(ask.AskError, match=message):
        ask.ask(ask.load_vlm(f"python:{tmp_path / 'bad.py'}"), requests)


@pytest.mark.parametrize(
    "name", ["python:nowhere.py", "replay:nowhere.jsonl", "record:answers.jsonl", "record::a"]
)
def test_a_name_without_its_file_or_model_is_an_error(name):
    with pytest.raises(ask.AskError, match="no such Python file|no recorded answers|write record:FILE:MODEL"):
        ask.load_vlm(name)


def test_recorded_answers_take_the_models_place(tmp_path):
    picture = Image.new("RGB", (5, 5), "red")
    requests = [*words("a", "b", "a"), ask.request("see", picture, options=["A", "B"])]
    model = RecordedModel("answers.jsonl", Model())
    recorded = ask.ask(model, requests, seed=3)
    replayed = ask.load_vlm("replay:answers.jsonl")
    picture.save(tmp_path / "same.png")
    again = [*words("b", "a"), ask.request("see", Image.open(tmp_path / "same.png"), options=["A", "B"])]
    answers = ask.ask(replayed, again, seed=9)  # at temperature 0 the seed decides nothing
    assert [answer.text for answer in answers] == ["b!", "a!", "see!"]
    assert [recorded[n].text for n in (1, 0, 3)] == ["b!", "a!", "see!"]
    assert answers[0].tokens_in == 7
    lines = (tmp_path / "data" / "answers.jsonl").read_text().splitlines()
    assert len(lines) == 3 and json.loads(lines[0])["asked"] == "say a"
    assert not any(secret in line for line in lines for secret in (SECRET, "somewhere"))


def test_a_request_without_an_answer_is_named_with_the_remedy():
    ask.ask(RecordedModel("answers.jsonl", Model()), words("a"))
    ask.ask(RecordedModel("answers.jsonl", Model()), words("a"), seed=1, temperature=0.7)
    message = r"1 of 1 requests have no recorded answer.*seed 2, temperature 0.7"
    with pytest.raises(ask.AskError, match=message):
        ask.ask(ReplayedModel("answers.jsonl"), words("a"), seed=2, temperature=0.7)
    message = "2 of 3 requests have no recorded answer, .* 0 images: 'say b'.*record:answers.jsonl:MODEL"
    with pytest.raises(ask.AskError, match=message):
        ask.ask(ReplayedModel("answers.jsonl"), words("a", "b", "c"))


def test_an_interrupted_recording_goes_on(tmp_path):
    inner = Model()
    ask.ask(inner, words("a"))  # from the cache it is recorded as well, and what failed is not
    with pytest.raises(KeyboardInterrupt):
        ask.ask(RecordedModel("answers.jsonl", inner), words("a", "lost", "b", "stop"))
    assert inner.asked == ["a", "lost", "b", "stop"]
    file = tmp_path / "data" / "answers.jsonl"
    with file.open("a") as target:
        target.write('{"key": "cut o')
    assert len(ReplayedModel("answers.jsonl").answers) == 2
    ask.ask(RecordedModel("answers.jsonl", Model()), words("a", "c"))
    assert [json.loads(line)["text"] for line in file.read_text().splitlines()] == ["a!", "b!", "c!"]


def test_parquet_is_read_as_well(tmp_path):
    requests = [*words("a"), ask.request("which", options=["A", "B"])]
    ask.ask(RecordedModel("answers.jsonl", Model()), requests)
    rows = [json.loads(line) for line in (tmp_path / "data" / "answers.jsonl").read_text().splitlines()]
    rows[1]["probabilities"] = {"A": 0.25, "B": 0.75}
    pd.DataFrame(rows).to_parquet(tmp_path / "answers.parquet")
    answers = ask.ask(ReplayedModel(str(tmp_path / "answers.parquet")), requests)
    assert [answer.probabilities for answer in answers] == [None, {"A": 0.25, "B": 0.75}]
    with pytest.raises(ask.AskError, match="written as JSON lines"):
        RecordedModel(str(tmp_path / "answers.parquet"), Model())
    other = Model()
    other.name = "small"
    with pytest.raises(ask.AskError, match="holds answers of big, not of small"):
        RecordedModel("answers.jsonl", other)


@pytest.mark.parametrize("line", ["not json", '{"key": "k", "text": "t"}', "[1]"])
def test_a_broken_line_is_named(line, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "answers.jsonl").write_text(f"{line}\n")
    with pytest.raises(ask.AskError, match="answers.jsonl, line 1: no recorded answer"):
        ReplayedModel("answers.jsonl")
