"""A model behind a server that fails in every way: nothing lost, nothing asked twice, errors counted."""

import logging
import math
import os
import subprocess
import sys
import time

import openai
import pytest
from faulty_server import said
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import server_model
from xaihelpers.ask.messages import failure_kind

KEY = "sk-secret-of-the-user"


def likely(*steps):
    """Log-probabilities: for each step a dictionary from tokens to them, the answer's token first."""
    content = []
    for step in steps:
        top = [{"token": token, "logprob": p, "bytes": None} for token, p in step.items()]
        content.append({"token": next(iter(step)), "logprob": 0.0, "bytes": None, "top_logprobs": top})
    return {"content": content}


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "xaihelpers")
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(openai._base_client, "MAX_RETRY_DELAY", 0.02)
    monkeypatch.setattr(server_model, "RETRIES", 3)
    monkeypatch.setattr(server_model, "TIMEOUT", 0.6)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def questions(n, **more):
    return [ask.request(f"q{i}", **more) for i in range(n)]


def by_text(table):
    """A reply for each question's text: what `table` says, or an answer."""

    def reply(body, times):
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        return table.get(text, (200, {}, said(f"{text}, answered")))

    return reply


def test_a_server_that_fails_in_every_way(serve, caplog):
    """Each question meets its own fault twice; every one is answered at last."""
    faults = [
        (429, {"Retry-After": "0.4"}, {"error": {"message": "slow down"}}),
        (500, {}, b"oops"),
        (503, {}, {"error": "busy"}),
        (408, {}, {}),
        (200, {"content-length": "9999", "connection": "close"}, b'{"id"'),
        None,
    ]

    def reply(body, times):
        number = int(body["messages"][-1]["content"][1:])
        return faults[number] if times < 3 else (200, {}, said(f"answer {number}"))

    faulty = serve(reply)
    model = ask.load_vlm("server:m")
    answers = ask.ask(model, questions(len(faults)))
    assert [answer.text for answer in answers] == [f"answer {i}" for i in range(len(faults))]
    assert set(faulty.came.values()) == {3}, "each asked until it was answered, and no more"
    assert answers[0].seconds > 0.8, "waited for as long as it said"
    assert caplog.messages == ["m: 6 asked, 0 from the cache"]
    assert ask.ask(model, questions(len(faults))) == answers
    assert sum(faulty.came.values()) == 3 * len(faults), "a rerun asks nothing"


def test_what_the_server_will_never_answer_is_this_request_s_error(serve, caplog):
    message = f"maximum context length is 8 tokens, key {KEY}"
    refusal = (400, {}, {"error": {"message": message, "code": "context_length_exceeded"}})
    too_large = "'max_tokens' or 'max_completion_tokens' is too large: 256. The context length is 128."
    limit = (400, {}, {"error": {"message": too_large, "param": "max_tokens"}})
    faulty = serve(by_text({"q1": refusal, "q2": limit, "q3": (500, {}, {}), "q4": (200, {}, [])}))
    model = ask.load_vlm("server:m")
    answers = ask.ask(model, questions(5))
    assert [bool(answer.error) for answer in answers] == [False, True, True, True, True]
    for answer, words in zip(answers[1:], ("maximum context", "too large", "500", "no chat"), strict=True):
        assert words in answer.error
    assert faulty.came == {"q0": 1, "q1": 1, "q2": 1, "q3": 4, "q4": 1}, "again where that may help"
    assert "4 without an answer (first: " in caplog.messages[-1]
    assert KEY not in answers[1].error + caplog.messages[-1]
    ask.ask(model, questions(5))
    assert faulty.came["q0"] == 1 and faulty.came["q1"] == 2, "asked again next time"


def test_a_server_that_refuses_everything(serve, capsys, caplog):
    for status, error, says in (
        (401, {"message": f"Incorrect key {KEY}"}, r"refuses \(401\): check OPENAI_BASE_URL, OPENAI_API_KEY"),
        (429, {"message": "exceeded", "code": "insufficient_quota"}, r"refuses \(429\).*account's credit"),
    ):
        refusal = (status, {"x-should-retry": "false"}, {"error": error})
        faulty = serve(by_text({f"q{i}": refusal for i in range(1, 50)}))
        model = ask.load_vlm(f"server:m{status}", batch_size=1)
        with pytest.raises(ask.AskError, match=says) as caught:
            ask.ask(model, questions(50))
        assert len(faulty.bodies) == 2, "nothing more is asked"
        assert KEY not in "".join([str(caught.value), *capsys.readouterr(), caplog.text, repr(vars(model))])
        assert ask.ask(model, questions(1))[0].text and len(faulty.bodies) == 2, "what came before is kept"


def test_a_dead_server_is_found_dead(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pass-word@127.0.0.1:9/v1")
    model = ask.load_vlm("server:m", batch_size=4)
    message = "left 8 requests in a row without an answer, the last by .*refused.* run again when it"
    with pytest.raises(ask.AskError, match=message) as caught:
        ask.ask(model, questions(1000))
    assert "pass-word" not in str(caught.value) + model.identity
    (answer,) = ask.ask(model, questions(1))
    assert "APIConnectionError" in answer.error, "of a few, each has its own error"


USE_OTHER = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
ONLY_DEFAULT = "'temperature' does not support 0 with this model. Only the default (1) value is supported."


@pytest.mark.parametrize(
    "status, message, name, sent",
    [
        (400, USE_OTHER, "max_tokens", {"max_completion_tokens": 7}),
        (400, ONLY_DEFAULT, "temperature", {"max_tokens": 7}),
        (422, "Extra inputs are not permitted: seed", "seed", {"max_tokens": 7, "temperature": 0}),
        (400, "logprobs is not supported by this engine", "logprobs", {"seed": 3}),
        (400, "top_logprobs must be at most 5", "top_logprobs", {"top_logprobs": 5}),
    ],
)
def test_a_parameter_that_is_refused_is_left_out_once_for_all(serve, caplog, status, message, name, sent):
    refusal = (status, {}, {"error": {"message": message}})
    faulty = serve(lambda body, times: refusal if body.get(name, 5) != 5 else (200, {}, said()))
    model = ask.load_vlm("server:m", batch_size=1)
    answers = ask.ask(model, questions(4, options="AB", max_tokens=7), seed=3)
    assert [answer.text for answer in answers] == ["A"] * 4
    assert sent.items() <= faulty.bodies[-1].items() and faulty.bodies[-1].get(name, 5) == 5
    assert (name == "logprobs") != ("top_logprobs" in faulty.bodies[-1]), "neither without the other"
    assert len(faulty.bodies) == 5, "refused once, remembered for the others"
    assert f"m: the server refuses {name}, asked with" in caplog.messages[0]


def test_probabilities_of_the_options_worked_by_hand(serve):
    half, quarter, eighth = map(math.log, (1 / 2, 1 / 4, 1 / 8))
    steps = {
        # A: 1/2 + 1/8, B: 1/4
        "plain": likely({"A": half, "B": quarter, " A": eighth, "x": eighth}),
        "after a word": likely({"Answer": 0.0}, {" B": quarter, "A": quarter}),
        "after its thoughts": likely(
            {"<think>": 0.0}, {"A": half, "B": eighth}, {"</think>": 0.0}, {"B": half, "A": eighth}
        ),
        "none": likely({"x": 0.0}),
        "nothing": None,
        "an article": likely({"A": half, "B": quarter}, {" Clark": 0.0}, {" Nutcracker": 0.0}),
        "a word": likely({"B": half, "A": quarter}, {"lue": 0.0}),
        "two": likely({"A": half, "B": quarter}, {" or": 0.0}, {" B": half, " A": half}),
    }
    serve(lambda body, times: (200, {}, said("A", logprobs=steps[body["messages"][-1]["content"]])))
    answers = ask.ask(ask.load_vlm("server:m"), [ask.request(name, options="AB") for name in steps])
    found = [answer.probabilities and answer.probabilities["A"] for answer in answers]
    assert found == [*map(pytest.approx, (0.625 / 0.875, 0.5, 0.2)), *[None] * 5]


def test_what_stands_in_a_reply_and_why_it_may_not_hold(serve):
    """Text, reasoning, and whether it was cut; what failed, was cut, refused or cannot be read, apart."""
    thought, cut = ("B", "it is blue", ""), "a very long ans"
    too_long = {"error": {"message": "context too long", "code": "context_length_exceeded"}}
    replies = {
        "field": (said("B", message={"reasoning_content": "it is blue"}), thought),
        "tags": (said("<think>it is blue</think>\nB"), thought),
        "otherwise cut": (said(cut, "MAX_TOKENS"), (cut, "", "truncated")),
        "parts": (said([{"type": "text", "text": "A "}, {"text": "bird"}]), ("A bird", "", "unparsable")),
        "no text": (said(None), ("", "", "unparsable")),
        "cut": (said(cut, "length"), (cut, "", "truncated")),
        "cut in thought": (said("<think>it is", "length"), ("", "it is", "truncated")),
        "failed": (too_long, ("", "", "failed")),
        "by the model": (said("I'm sorry."), ("I'm sorry.", "", "refused")),
        "in a field": (said(None, message={"refusal": "No."}), ("No.", "", "refused")),
        "by a filter": (said("", "content_filter"), ("", "", "refused")),
        "before": ({"error": {"message": "flagged", "code": "content_filter"}}, (None, "", "refused")),
    }

    def reply(body, times):
        content, _ = replies[body["messages"][-1]["content"]]
        return 400 if "error" in content else 200, {}, content

    faulty = serve(reply)
    asked = [ask.request(name) for name in replies]
    answers = ask.ask(ask.load_vlm("server:m"), asked)
    for answer, (_, (text, *others)) in zip(answers, replies.values(), strict=True):
        assert [answer.reasoning, failure_kind(answer, answer.text == "B")] == others
        assert text in (answer.text, None)
    assert (answers[0].tokens_in, answers[0].tokens_out) == (5, 2)
    ask.ask(ask.load_vlm("server:m"), asked)
    assert faulty.came["failed"] == 2 and faulty.came["before"] == 1, "only what failed"


def test_what_the_server_is_sent(serve, tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    faulty = serve(by_text({}))
    asked = [ask.request("which", [tmp_path / "red.png"] * 2, "AB", 9)]
    ask.ask(ask.load_vlm("server:vision-1"), asked, seed=4, temperature=0.5)
    (body,), ((path, authorization),) = faulty.bodies, faulty.heads
    assert path == "/v1/chat/completions" and authorization == f"Bearer {KEY}"
    (user,) = body.pop("messages")
    settings = {"model": "vision-1", "max_tokens": 9, "temperature": 0.5, "seed": 4}
    assert body == {**settings, "logprobs": True, "top_logprobs": 20}
    first, second, text = user["content"]
    assert first == second and first["image_url"]["url"].startswith("data:image/png;base64,")
    assert text == {"type": "text", "text": "which"}


def test_an_answer_belongs_to_the_model_s_name_and_label_not_to_address_or_key(serve, monkeypatch):
    monkeypatch.delenv("XAI_MODEL_LABEL", raising=False)
    first = serve(by_text({"q0": (200, {}, said("first"))}))
    ask.ask(ask.load_vlm("server:m"), questions(1))
    second = serve(by_text({"q0": (200, {}, said("second"))}))
    assert first.address != second.address
    assert ask.ask(ask.load_vlm("server:m"), questions(1))[0].text == "first"
    assert ask.ask(ask.load_vlm("server:n"), questions(1))[0].text == "second"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pass-word@some.host:8000/v1?token=abc")
    assert ask.load_vlm("server:m").identity == "server:m"
    monkeypatch.setenv("XAI_MODEL_LABEL", "4 bits")
    assert ask.load_vlm("server:m").identity == "server:m 4 bits"


RUN = """
import pathlib, sys
from xaihelpers import ask, paths
paths.cache_home = lambda: pathlib.Path(sys.argv[1])
answers = ask.ask(ask.load_vlm("server:m", batch_size=4), [ask.request(f"q{i}") for i in range(60)])
print("texts", sum(answer.text == f"q{i}, answered" for i, answer in enumerate(answers)))
"""


def test_a_run_that_is_killed_goes_on_where_it_was(serve, tmp_path):
    answered = []  # questions whose answer has been sent for long enough to lie on disk

    def reply(body, times):
        time.sleep(0.05)
        answered.append(body["messages"][-1]["content"])
        return 200, {}, said(f"{body['messages'][-1]['content']}, answered")

    faulty = serve(reply)
    run = [sys.executable, "-c", RUN, str(tmp_path / "kept")]
    given = {"text": True, "env": os.environ | {"OMP_NUM_THREADS": "1"}}
    first = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given)
    while len(answered) < 20 and first.poll() is None:
        time.sleep(0.01)
    first.kill()
    out, err = first.communicate(timeout=240)
    assert first.returncode not in (0, None), err
    came, asked = len(answered), len(faulty.bodies)
    assert came < 60, "it was ended in the middle"
    second = subprocess.run(run, capture_output=True, timeout=240, **given)
    assert "texts 60" in second.stdout, second.stderr
    again = len(faulty.bodies) - asked
    assert 60 - came <= again <= 60 - came + 12, "only what had not come, or was under way"
    assert KEY not in out + err + second.stdout + second.stderr
    kept = [file.read_bytes() for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    assert KEY.encode() not in b"".join(kept)
