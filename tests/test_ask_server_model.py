"""A model behind a server that fails in every way: nothing lost, nothing asked twice, errors counted."""

import json
import logging
import math
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from faulty_server import said
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import server_model
from xaihelpers.ask.failures import failure_kind

KEY = "sk-secret-of-the-user"


def likely(*steps):
    """Log-probabilities: for each step a dictionary from tokens to them, the answer's token first."""
    content = []
    for step in steps:
        top = [{"token": token, "logprob": p, "bytes": None} for token, p in step.items()]
        content.append({"token": next(iter(step)), "logprob": 0.0, "bytes": None, "top_logprobs": top})
    return {"content": content}


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(server_model, "BACK_OFF", lambda state: 0.02)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def logged(caplog, monkeypatch):
    """All that the package logs, as a list of messages."""
    caplog.set_level(logging.INFO, "xaihelpers")
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    monkeypatch.setattr(logging.getLogger("xaihelpers"), "handlers", [handler])
    return messages


def questions(n, **more):
    return [ask.request(f"q{i}", **more) for i in range(n)]


def by_text(table):
    """A reply for each question's text: what `table` says, or an answer."""

    def reply(body, times):
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        return table.get(text, (200, {}, said(f"{text}, answered")))

    return reply


def test_a_server_that_fails_in_every_way(serve, logged):
    """Each question meets its own fault once or twice; every one is answered at last."""
    faults = [
        (429, {"Retry-After": "0.7"}, {"error": {"message": "slow down"}}),
        (500, {}, b"oops"),
        (503, {}, {"error": "busy"}),
        (200, {}, json.dumps(said()).encode()[:40]),
        None,
        (200, {}, {**said(), "choices": []}),
        (200, {}, {"object": "chat.completion"}),
        (200, {}, []),
        (200, {"content-type": "text/html"}, b"<html>gateway</html>"),
        (200, {}, {**said(), "choices": [{"index": 0}]}),
        (408, {}, {}),
        (200, {"content-length": "9999", "connection": "close"}, b'{"id"'),
    ]

    def reply(body, times):
        number = int(body["messages"][-1]["content"][1:])
        if times <= 1 + (number >= len(faults)):
            return faults[number % len(faults)]
        return 200, {}, said(f"answer {number}")

    faulty = serve(reply)
    model = ask.load_vlm("server:m", timeout=0.6)
    answers = ask.ask(model, questions(2 * len(faults)))
    assert [answer.text for answer in answers] == [f"answer {i}" for i in range(2 * len(faults))]
    assert not any(answer.error for answer in answers)
    assert set(faulty.came.values()) == {2, 3}, "each asked until it was answered, and no more"
    assert answers[0].seconds > 0.7, "waited for as long as it said"
    (line,) = logged
    for what in ("24 asked", "3 × RateLimitError", "6 × InternalServerError", "3 × APITimeoutError"):
        assert what in line
    assert sum(model.warnings.values()) == 3 * len(faults)
    before = sum(faulty.came.values())
    assert all(answer.cached for answer in ask.ask(model, questions(2 * len(faults))))
    assert sum(faulty.came.values()) == before, "a rerun asks nothing"


def test_a_server_that_takes_so_many_requests_a_second(serve):
    """Who is refused has everybody wait as long as the server says: none runs out of tries."""
    taken, lock = [], threading.Lock()

    def reply(body, times):
        with lock:
            now = time.monotonic()
            taken[:] = [moment for moment in taken if now - moment < 0.5]
            if len(taken) >= 8:
                wait = 0.51 - (now - taken[0])
                return 429, {"Retry-After": f"{wait:.2f}"}, {"error": {"message": "rate limit"}}
            taken.append(now)
        return 200, {}, said("B")

    serve(reply)
    answers = ask.ask(ask.ServerModel("m"), questions(80))
    assert [answer.text for answer in answers] == 80 * ["B"]


def test_what_the_server_will_never_answer_is_this_request_s_error(serve, logged):
    message = f"maximum context length is 8 tokens, key {KEY}"
    refusal = (400, {}, {"error": {"message": message, "code": "context_length_exceeded"}})
    too_large = "'max_tokens' or 'max_completion_tokens' is too large: 256. The context length is 128."
    limit = (400, {}, {"error": {"message": too_large, "param": "max_tokens"}})
    faulty = serve(by_text({"q1": refusal, "q2": limit, "q3": (500, {}, {})}))
    answers = ask.ask(ask.ServerModel("m", tries=3), questions(4))
    assert [bool(answer.error) for answer in answers] == [False, True, True, True]
    assert "maximum context length" in answers[1].error and "too large" in answers[2].error
    assert "InternalServerError" in answers[3].error
    assert faulty.came == {"q0": 1, "q1": 1, "q2": 1, "q3": 3}, "not tried again, but where that may help"
    assert "3 without an answer (first: " in logged[-1]
    assert KEY not in answers[1].error + logged[-1]
    ask.ask(ask.ServerModel("m", tries=3), questions(4))
    assert faulty.came == {"q0": 1, "q1": 2, "q2": 2, "q3": 6}, "but asked again next time"


REFUSALS = {
    401: ({"message": f"Incorrect API key {KEY}"}, r"refuses \(401\): check OPENAI_BASE_URL, OPENAI_API_KEY"),
    403: ({}, r"refuses \(403\)"),
    404: ({"message": "no model m"}, r"refuses \(404\)"),
    429: ({"message": "You exceeded your quota", "code": "insufficient_quota"}, "no credit left"),
}


@pytest.mark.parametrize("status", REFUSALS)
def test_a_server_that_refuses_everything(serve, status, capsys, logged):
    error, says = REFUSALS[status]
    refusal = (status, {}, {"error": error})
    faulty = serve(by_text({f"q{i}": refusal for i in range(1, 50)}))
    model = ask.load_vlm("server:m", concurrency=1)
    with pytest.raises(ask.AskError, match=says) as caught:
        ask.ask(model, questions(50))
    assert len(faulty.bodies) == 2, "nothing more is asked"
    shown = "".join([str(caught.value), *capsys.readouterr(), *logged, repr(model), repr(vars(model))])
    assert KEY not in shown
    assert ask.ask(model, questions(1))[0].cached, "what came before is kept"


def test_a_dead_server_is_found_dead(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pass-word@127.0.0.1:9/v1")
    model = ask.ServerModel("m", concurrency=4, tries=2)
    message = "left 8 requests in a row without an answer, the last by .*Cannot connect to host 127.0.0.1:9"
    with pytest.raises(ask.AskError, match=f"{message}.* it goes on from here") as caught:
        ask.ask(model, questions(1000))
    assert "pass-word" not in str(caught.value) + model.identity
    (answer,) = ask.ask(model, questions(1))
    assert "Cannot connect" in answer.error, "of a few, each has its own error"


def test_an_image_that_cannot_be_read_is_named(serve, tmp_path):
    serve(lambda body, times: (200, {}, said()))
    (tmp_path / "no.png").write_bytes(b"no image")
    with pytest.raises(ask.AskError, match="no.png: no image"):
        ask.ask(ask.load_vlm("server:m"), [ask.request("q", tmp_path / "no.png")])


def test_a_server_that_changes_its_form_midway_is_named_and_nothing_is_lost(serve):
    usual = []

    def reply(body, times):
        with faulty.lock:
            usual.append(body["messages"][-1]["content"])
            if len(usual) > 6:
                return 200, {}, {"object": "response", "output": [{"type": "message"}]}
        return 200, {}, said()

    faulty = serve(reply)
    with pytest.raises(ask.AskError, match="8 requests in a row without an answer") as caught:
        ask.ask(ask.ServerModel("m", concurrency=4, tries=2), questions(30))
    kept = "6 replies before were as usual, and are kept"
    for words in (kept, "UnusableReply", "no chat completion (fields object, output)"):
        assert words in str(caught.value)
    back = serve(by_text({}))
    assert len(ask.ask(ask.load_vlm("server:m"), questions(30))) == 30
    assert len(back.bodies) == 24, "what came before the change is not asked again"


USE_OTHER = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
)
ONLY_DEFAULT = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value"
)


@pytest.mark.parametrize(
    "status, message, param, name, sent",
    [
        (400, USE_OTHER + " instead.", "max_tokens", "max_tokens", {"max_completion_tokens": 7}),
        (400, ONLY_DEFAULT + " is supported.", "temperature", "temperature", {"max_tokens": 7}),
        (422, "Extra inputs are not permitted: seed", None, "seed", {"max_tokens": 7, "temperature": 0}),
        (400, "logprobs is not supported by this engine", None, "logprobs", {"seed": 3}),
        (400, "You are not allowed to request logprobs from this model", "logprobs", "logprobs", {"seed": 3}),
    ],
)
def test_a_parameter_that_is_refused_is_left_out_once_for_all(
    serve, logged, status, message, param, name, sent
):
    refusal = (status, {}, {"error": {"message": message, "param": param}})
    faulty = serve(lambda body, times: refusal if name in body else (200, {}, said()))
    model = ask.load_vlm("server:m", concurrency=1)
    answers = ask.ask(model, questions(4, options="AB", max_tokens=7), seed=3)
    assert [answer.text for answer in answers] == ["A"] * 4
    unsent = {name, "top_logprobs"} if name == "logprobs" else {name}
    assert sent.items() <= faulty.bodies[-1].items() and not unsent & faulty.bodies[-1].keys()
    assert len(faulty.bodies) == 5, "refused once, remembered for the others"
    assert f"1 × {name} refused by the server, asked with" in logged[-1]
    ask.ask(model, questions(8, options="AB", max_tokens=7), seed=3)
    assert len(faulty.bodies) == 9 and "refused" not in logged[-1]


def test_fewer_log_probabilities_where_twenty_are_refused(serve):
    refusal = (400, {}, {"error": {"message": "top_logprobs must be at most 5"}})
    faulty = serve(lambda body, times: refusal if body.get("top_logprobs", 0) > 5 else (200, {}, said()))
    ask.ask(ask.load_vlm("server:m"), questions(1, options="AB"))
    assert faulty.bodies[-1]["top_logprobs"] == 5


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
        "of another form": {"content": [{"tok": "A"}]},
    }
    serve(lambda body, times: (200, {}, said("A", logprobs=steps[body["messages"][-1]["content"]])))
    answers = ask.ask(ask.load_vlm("server:m"), [ask.request(name, options="AB") for name in steps])
    found = [answer.probabilities and answer.probabilities["A"] for answer in answers]
    assert found == [*map(pytest.approx, (0.625 / 0.875, 0.5, 0.2)), None, None, None]


def test_reasoning_and_what_was_cut(serve):
    replies = {
        "field": said("B", message={"reasoning_content": "it is blue"}),
        "other field": said("B", message={"reasoning": "it is blue"}),
        "tags": said("<think>it is blue</think>\nB"),
        "cut": said("a very long ans", "length"),
        "cut in thought": said("<think>it is", "length"),
        "no text": said(None),
        "parts": said([{"type": "text", "text": "A "}, {"type": "text", "text": "bird"}]),
    }
    serve(lambda body, times: (200, {}, replies[body["messages"][-1]["content"]]))
    answers = ask.ask(ask.load_vlm("server:m"), [ask.request(name) for name in replies])
    whole = ("B", "it is blue", False)
    cut = [("a very long ans", "", True), ("", "it is", True), ("", "", False), ("A bird", "", False)]
    found = [(answer.text, answer.reasoning, answer.truncated) for answer in answers]
    assert found == [whole, whole, whole, *cut]
    assert (answers[0].tokens_in, answers[0].tokens_out) == (5, 2)


def test_what_the_server_is_sent(serve, tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    faulty = serve(by_text({}))
    asked = [ask.request("which", [tmp_path / "red.png"] * 2, "AB", "Be short.", 9)]
    ask.ask(ask.load_vlm("server:vision-1"), asked, seed=4, temperature=0.5)
    (body,), ((path, authorization),) = faulty.bodies, faulty.heads
    assert path == "/v1/chat/completions" and authorization == f"Bearer {KEY}"
    system, user = body.pop("messages")
    settings = {"model": "vision-1", "max_tokens": 9, "temperature": 0.5, "seed": 4}
    assert body == {**settings, "logprobs": True, "top_logprobs": 20}
    assert system == {"role": "system", "content": "Be short."}
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
answers = ask.ask(ask.load_vlm("server:m", concurrency=4), [ask.request(f"q{i}") for i in range(60)])
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


SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


@pytest.mark.parametrize("is_offered", [True, False])
def test_answers_by_a_schema_where_the_server_offers_it(serve, is_offered, logged):
    refusal = {"error": {"message": "Extra inputs are not permitted: json_schema"}}

    def reply(body, times):
        if not is_offered and "response_format" in body:
            return 400, {}, refusal
        return 200, {}, said('{"score": 4}')

    faulty = serve(reply)
    answers = ask.ask(ask.load_vlm("server:m", concurrency=1), questions(3, schema=SCHEMA))
    assert [json.loads(answer.text)["score"] for answer in answers] == [4] * 3
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    assert faulty.bodies[0]["response_format"] == form
    if is_offered:
        assert len(faulty.bodies) == 3 and all(body["response_format"] == form for body in faulty.bodies)
    else:
        assert len(faulty.bodies) == 4 and "response_format" not in faulty.bodies[-1]
        assert "1 × response_format refused by the server, asked without" in logged[-1]
    before = len(faulty.bodies)
    ask.ask(ask.load_vlm("server:m"), questions(3))
    assert len(faulty.bodies) == before + 3, "without a schema it is another request"


def test_failed_truncated_refused_and_unparsable_are_kept_apart(serve):
    replies = {
        "whole": (200, {}, said("B")),
        "failed": (400, {}, {"error": {"message": "context too long", "code": "context_length_exceeded"}}),
        "truncated": (200, {}, said("The bird is", "length")),
        "refused by the model": (200, {}, said("I'm sorry, but I can't help with that.")),
        "refused in a field": (200, {}, said(None, message={"refusal": "No."})),
        "refused by a filter": (200, {}, said("", "content_filter")),
        "refused before": (400, {}, {"error": {"message": "flagged", "code": "content_filter"}}),
        "unparsable": (200, {}, said("a bird")),
    }
    faulty = serve(lambda body, times: replies[body["messages"][-1]["content"]])
    asked = [ask.request(name) for name in replies]
    answers = ask.ask(ask.load_vlm("server:m"), asked)
    kinds = [failure_kind(answer, answer.text == "B") for answer in answers]
    assert kinds == ["", *(name.split()[0] for name in list(replies)[1:])]
    ask.ask(ask.load_vlm("server:m"), asked)
    assert faulty.came["failed"] == 2 and faulty.came["refused before"] == 1, "only what failed"


@pytest.mark.parametrize(
    "reply, words",
    [
        (
            {"error": {"message": "Unexpected endpoint or method. (POST /chat/completions)"}},
            "Unexpected endpoint",
        ),
        ({"error": "model 'm' not found", "object": "error"}, "model 'm' not found"),
    ],
)
def test_an_error_that_calls_itself_a_success_is_quoted_and_asked_once(serve, reply, words):
    faulty = serve(lambda body, times: (200, {}, reply))
    with pytest.raises(ask.AskError, match=f"{re.escape(words)}.*end in /v1"):
        ask.ask(ask.load_vlm("server:m", concurrency=4), questions(92))
    assert set(faulty.came.values()) == {1} and len(faulty.bodies) <= 4
