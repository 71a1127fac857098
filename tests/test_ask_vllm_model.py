"""vLLM in this process, by a stand-in with the interface of 0.33: what it is given, what is read from it."""

import math
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import vllm_model
from xaihelpers.ask.failures import failure_kind


class VLLMClientError(Exception):
    pass


@dataclass
class SamplingParams:
    """The fields that are used, no others, as vLLM refuses unknown ones."""

    max_tokens: int = 16
    temperature: float = 1.0
    seed: int | None = None
    logprobs: int | None = None
    structured_outputs: object = None


@dataclass
class StructuredOutputsParams:
    json: dict | str | None = None


@dataclass
class LLM:
    model: str
    revision: str | None = None
    calls: list = field(default_factory=list)

    def __post_init__(self):
        if "broken" in self.model:
            raise RuntimeError("Engine core initialization failed.\nSee root cause above.")

    def chat(self, messages, sampling_params, use_tqdm=True):
        assert len(messages) == len(sampling_params) and use_tqdm is False
        self.calls.append((messages, sampling_params))
        questions = [content_of(chat) for chat in messages]
        if any("too long" in question for question in questions):
            raise VLLMClientError("The decoder prompt (length 9999) is longer than the maximum model length")
        return [output(question, given) for question, given in zip(questions, sampling_params, strict=True)]


def content_of(chat):
    content = chat[-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def output(question, given):
    text, reason, steps = f"{question}, answered", "stop", None
    if question == "cut":
        text, reason = "half an ans", "length"
    if question == "think":
        text = "<think>it is red</think>A"
    if given.logprobs:
        assert given.logprobs == 20
        likely = {1: ("A", 0.5), 2: (" B", 0.25), 3: ("x", 0.25)}
        steps = [
            {
                token: SimpleNamespace(logprob=math.log(p), rank=None, decoded_token=name)
                for token, (name, p) in likely.items()
            }
        ]
        text = "A"
    said = SimpleNamespace(text=text, token_ids=[1, 9], logprobs=steps, finish_reason=reason)
    return SimpleNamespace(outputs=[said], prompt_token_ids=[0] * 7)


@pytest.fixture(autouse=True)
def vllm(monkeypatch, tmp_path):
    package = ModuleType("vllm")
    package.LLM, package.SamplingParams = LLM, SamplingParams
    exceptions, sampling = ModuleType("vllm.exceptions"), ModuleType("vllm.sampling_params")
    exceptions.VLLMClientError, sampling.StructuredOutputsParams = VLLMClientError, StructuredOutputsParams
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


def test_a_folder_goes_by_its_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    model = ask.load_vlm("vllm:mine")
    assert model.engine.model == str(tmp_path / "mine") and model.engine.revision is None
    assert model.identity.startswith("vllm:mine ") and str(tmp_path) not in model.identity
    (tmp_path / "mine" / "config.json").write_text("{ }")
    assert ask.load_vlm("vllm:mine").identity != model.identity


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
    assert first == SamplingParams(max_tokens=9, temperature=0.5, seed=4, logprobs=20)
    assert second == SamplingParams(5, 0.5, 4, None, StructuredOutputsParams(json=schema))
    assert answers[0].probabilities == pytest.approx({"A": 2 / 3, "B": 1 / 3})


def test_some_at_a_time_those_of_one_image_together(tmp_path):
    files = [tmp_path / f"{name}.png" for name in "ab"]
    for number, file in enumerate(files):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(file)
    model = ask.load_vlm("vllm:m", batch_size=3)
    asked = [ask.request(f"q{n} of {file.stem}", file) for n in range(2) for file in files]
    answers = ask.ask(model, asked)
    calls = [[content_of(chat) for chat in chats] for chats, _ in model.engine.calls]
    assert calls == [["q0 of a", "q1 of a", "q0 of b"], ["q1 of b"]]
    assert [answer.text for answer in answers] == [f"{one.turns[-1].text}, answered" for one in asked]


def test_a_request_that_vllm_refuses_is_alone_without_an_answer():
    model = ask.VllmModel("m")
    answers = ask.ask(model, questions("a", "b", "too long", "c", "d"))
    assert [bool(answer.error) for answer in answers] == [False, False, True, False, False]
    assert "VLLMClientError: The decoder prompt (length 9999)" in answers[2].error
    assert failure_kind(answers[2], False) == "failed"


def test_a_model_that_does_not_load_and_a_missing_vllm_say_what_to_do(monkeypatch):
    with pytest.raises(ask.AskError, match="vLLM cannot load the model 'broken' .Engine core init.*has room"):
        ask.load_vlm("vllm:broken")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ask.AskError, match=r"vllm:m needs vLLM.*pip install '.\[vllm\]'.*name server:m here"):
        ask.load_vlm("vllm:m")
