"""A function of a user's file in a model's place."""

from pathlib import Path

import pytest
from PIL import Image

from xaihelpers import ask, paths

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


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(ECHO)
    return str(tmp_path / "mine.py")


OF_A = "def answer(requests): return [{'text': 'A', 'probabilities':"


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
        ("def answer(requests): return None", "object is not iterable.* has to return a list"),
        ("def answer(requests): return ['yes']", "1 answers for 2 requests"),
        ("def answer(requests): return [1, 2]", "an object of type int is no answer"),
        ("def answer(requests): return [{'txt': 'a'}] * 2", "unexpected keyword argument 'txt'"),
        (f"{OF_A} {{'A': 1}}}}] * 2", "the options A, B"),
    ],
)
def test_what_is_wrong_with_a_function_is_named(source, message, tmp_path):
    (tmp_path / "bad.py").write_text(source)
    requests = [ask.request(word, options=["A", "B"]) for word in "xy"]
    with pytest.raises(ask.AskError, match=message):
        ask.ask(ask.load_vlm(f"python:{tmp_path / 'bad.py'}"), requests)


def test_a_name_without_its_file_is_an_error():
    with pytest.raises(ask.AskError, match="no such Python file"):
        ask.load_vlm("python:nowhere.py")
