"""vLLM in this process, by a stand-in with the interface of 0.33: what it is given, what is read from it."""

import math
import sys
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import vllm_model


class VLLMClientError(Exception):
    pass


class LLM:
    """Keeps what it is given; answers each question, the last in words of a length that is cut."""

    def __init__(self, model, revision=None):
        if "broken" in model:
            raise RuntimeError("Engine core initialization failed.\nSee root cause above.")
        self.model, self.revision, self.calls = model, revision, []

    def chat(self, messages, sampling_params, use_tqdm=True):
        assert len(messages) == len(sampling_params) and use_tqdm is False
        self.calls.append((messages, sampling_params))
        contents = [chat[-1]["content"] for chat in messages]
        questions = [content if isinstance(content, str) else content[-1]["text"] for content in contents]
        if "too long" in questions:
            raise VLLMClientError("The decoder prompt (length 9999) is longer than the maximum model length")
        return [output(question, given) for question, given in zip(questions, sampling_params, strict=True)]


def output(question, given):
    text = {"think": "<think>it is red</think>A", "cut": "half an ans"}.get(question, f"{question}, answered")
    likely = [("A", 0.5), (" B", 0.25), ("x", 0.25)]
    named = [SimpleNamespace(logprob=math.log(p), decoded_token=name) for name, p in likely]
    said = SimpleNamespace(
        text=text, token_ids=[1, 9], finish_reason="length" if question == "cut" else "stop"
    )
    said.logprobs = [dict(enumerate(named))] if hasattr(given, "logprobs") and given.logprobs else None
    return SimpleNamespace(outputs=[said], prompt_token_ids=[0] * 7)


@pytest.fixture(autouse=True)
def vllm(monkeypatch, tmp_path):
    package, exceptions, sampling = map(ModuleType, ("vllm", "vllm.exceptions", "vllm.sampling_params"))
    package.LLM = LLM
    package.SamplingParams = sampling.StructuredOutputsParams = SimpleNamespace
    exceptions.VLLMClientError = VLLMClientError
    for module in (package, exceptions, sampling):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    hub = SimpleNamespace(_commit_hash="0a1b")
    monkeypatch.setattr(vllm_model.AutoConfig, "from_pretrained", lambda name: hub)


def questions(*texts, **more):
    return [ask.request(text, **more) for text in texts]


def test_answers_are_read_and_kept():
    model = ask.load_vlm("vllm:somebody/vision")
    assert (model.name, model.identity) == ("somebody/vision", "vllm:somebody/vision 0a1b")
    assert (model.engine.model, model.engine.revision) == ("somebody/vision", "0a1b")
    first = ask.ask(model, questions("q", "cut", "think"))
    assert [(a.text, a.reasoning, a.truncated) for a in first] == [
        ("q, answered", "", False),
        ("half an ans", "", True),
        ("A", "it is red", False),
    ]
    assert (first[0].tokens_in, first[0].tokens_out) == (7, 2)
    again = ask.ask(model, questions("q", "cut", "think"))
    assert again == first and len(model.engine.calls) == 1
    answers = ask.ask(model, questions("a", "too long", "b"))
    assert [bool(answer.error) for answer in answers] == [False, True, False]
    assert "VLLMClientError: The decoder prompt (length 9999)" in answers[1].error


def test_what_vllm_is_given(tmp_path):
    Image.new("RGB", (3, 2), (9, 0, 0)).save(tmp_path / "red.png")
    model, schema = ask.VllmModel("m"), {"type": "object"}
    asked = [
        ask.request("which", [tmp_path / "red.png"], "AB", "Be short.", 9),
        ask.request("judge", max_tokens=5, schema=schema),
    ]
    answers = dict(model.answer(asked, 4, 0.5))
    (((chat, other), (first, second)),) = model.engine.calls
    assert chat[0] == {"role": "system", "content": "Be short."}
    picture, text = chat[1]["content"]
    assert picture["type"] == "image_pil" and picture["image_pil"].getpixel((0, 0)) == (9, 0, 0)
    assert text == {"type": "text", "text": "which"} and other == [{"role": "user", "content": "judge"}]
    assert (first.max_tokens, first.temperature, first.seed, first.logprobs) == (9, 0.5, 4, 20)
    assert second.max_tokens == 5 and second.structured_outputs.json == schema
    assert answers[0].probabilities == pytest.approx({"A": 2 / 3, "B": 1 / 3})


def test_a_model_that_does_not_load_and_a_missing_vllm_say_what_to_do(monkeypatch):
    with pytest.raises(ask.AskError, match="vLLM cannot load the model 'broken' .Engine core init.*has room"):
        ask.load_vlm("vllm:broken")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ask.AskError, match=r"vllm:m needs vLLM.*pip install vllm.*name server:m here"):
        ask.load_vlm("vllm:m")
