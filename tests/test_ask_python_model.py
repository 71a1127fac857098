"""A function of a user's file in a model's place."""

from pathlib import Path

import pytest
from PIL import Image

from xaihelpers import ask, paths

ECHO = """
def answer(requests):
    found = []
    for request in requests:
        text = request.text
        sizes = " ".join(str(image.size) for image in request.images)
        if request.options:
            chances = {option: float(option == request.options[-1]) for option in request.options}
            found.append({"text": request.options[-1], "probabilities": chances})
        else:
            found.append(f"{text} {sizes}".strip())
    return found
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


def test_a_function_of_ones_own_answers_text_image_and_options(tmp_path):
    mine = Path(tmp_path / "mine.py")
    mine.write_text(ECHO)
    model = ask.load_vlm(f"python:{mine}", batch_size=2)
    requests = [ask.request("say a"), ask.request("say b"), ask.request("see", Image.new("L", (6, 4)))]
    requests.append(ask.request("choose", options=["A", "B"]))
    answers = ask.ask(model, requests)
    assert [answer.text for answer in answers] == ["say a", "say b", "see (6, 4)", "B"]
    assert answers[3].choice == "B" and answers[0].probabilities is None
    assert ask.ask(model, requests) == answers
    mine.write_text(ECHO.replace('f"{text} ', 'f"now {text} '))
    assert ask.ask(ask.load_vlm(f"python:{mine}"), requests[:1])[0].text == "now say a", "a changed function"


def test_what_is_wrong_with_a_function_is_named(tmp_path):
    requests = [ask.request(word, options=["A", "B"]) for word in "xy"]
    for number, (source, message) in enumerate(
        (
            ("return 1 / 0", r"line 1, in answer: .*\nZeroDivisionError"),
            ("return None", "object is not iterable.* has to return a list"),
            ("return ['yes']", "1 answers for 2 requests"),
            ("return [1, 2]", "an object of type int is no answer"),
            ("return [{'text': 'A', 'probabilities': {'A': 1}}] * 2", "the options A, B"),
            ("return [{'text': 'A', 'probabilities': {'A': 70, 'B': 30}}] * 2", "0 or more and 1 in sum"),
        )
    ):
        file = tmp_path / f"bad{number}.py"
        file.write_text(f"def answer(requests): {source}")
        with pytest.raises(ask.AskError, match=message):
            ask.ask(ask.load_vlm(f"python:{file}"), requests)


def test_names_of_models_that_are_not_there(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ask.AskError, match="no such Python file"):
        ask.load_vlm("python:nowhere.py")
    message = "server:gpt: 1 answers are not among those kept, and no server is named to ask: set OPENAI"
    with pytest.raises(ask.AskError, match=message):
        ask.ask(ask.load_vlm("server:gpt"), [ask.request("which")])
    with pytest.raises(ask.AskError, match="must be auto, cpu or cuda, not 'tpu'"):
        ask.load_vlm("anything", device="tpu")
    with pytest.raises(ask.AskError, match="batch_size is -1"):
        ask.load_vlm("annotator", batch_size=-1)
