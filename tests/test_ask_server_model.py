"""A model behind a server that fails in every way: nothing lost, nothing asked twice, errors counted."""

import asyncio
import collections
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import chat_completions, server_model
from xaihelpers.ask.failures import failure_kind

KEY = "sk-secret-of-the-user"


def said(text="A", finish="stop", **more):
    """A chat completion."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, **more.pop("message", {})},
        **more,
    }
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }


def likely(*steps):
    """Log-probabilities: for each step a dictionary from tokens to them, the answer's token first."""
    return {
        "content": [
            {
                "token": next(iter(step)),
                "logprob": 0.0,
                "bytes": None,
                "top_logprobs": [{"token": token, "logprob": p, "bytes": None} for token, p in step.items()],
            }
            for step in steps
        ]
    }


class Faulty(ThreadingHTTPServer):
    """Replies to each question as `reply(body, how often this question came)` says.

    That is (status, headers, content), or None to be silent.
    """

    daemon_threads, request_queue_size = True, 64

    def __init__(self, reply):
        self.reply = reply
        self.bodies, self.heads = [], []
        self.came = collections.Counter()
        self.lock = threading.Lock()
        self.now = self.most = 0  # requests under way
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, address):
        pass  # a client that gave up


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_POST(self):
        body, faulty = json.loads(self.rfile.read(int(self.headers["content-length"]))), self.server
        content = body["messages"][-1]["content"]
        question = content if isinstance(content, str) else content[-1]["text"]
        with faulty.lock:
            faulty.bodies.append(body)
            faulty.heads.append((self.path, self.headers.get("authorization")))
            faulty.came[question] += 1
            faulty.now += 1
            faulty.most = max(faulty.most, faulty.now)
            times = faulty.came[question]
        try:
            reply = faulty.reply(body, times)
        finally:
            with faulty.lock:
                faulty.now -= 1
        if reply is None:
            time.sleep(3)
            return
        status, headers, content = reply
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (
            {"content-type": "application/json", "content-length": str(len(content))} | headers
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(server_model, "BACK_OFF", lambda state: 0.02)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def start(reply):
        servers.append(Faulty(reply))
        monkeypatch.setenv("OPENAI_BASE_URL", servers[-1].address)
        return servers[-1]

    yield start
    for each in servers:
        each.shutdown()
        each.server_close()


@pytest.fixture
def logged():
    """All that the package logs, as a list of messages."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("xaihelpers")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield messages
    logger.removeHandler(handler)
    logger.setLevel(level)


def questions(n, **more):
    return [ask.request(f"q{i}", **more) for i in range(n)]


def test_a_server_that_fails_in_every_way(serve, logged):
    """Each question meets its own fault once or twice; every one is answered at last."""
    faults = [
        (429, {"Retry-After": "0.05"}, {"error": {"message": "slow down"}}),
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
        return (
            faults[number % len(faults)]
            if times <= 1 + (number >= len(faults))
            else (200, {}, said(f"answer {number}"))
        )

    faulty = serve(reply)
    model = ask.load_vlm("server:m", timeout=0.6)
    answers = ask.ask(model, questions(2 * len(faults)))
    assert [answer.text for answer in answers] == [f"answer {i}" for i in range(2 * len(faults))] and not any(
        answer.error for answer in answers
    )
    assert set(faulty.came.values()) == {2, 3}, "each asked until it was answered, and no more"
    (line,) = logged
    assert f"{2 * len(faults)} asked" in line
    assert "3 × RateLimitError, tried again" in line
    assert "6 × InternalServerError, tried again" in line
    assert "3 × APITimeoutError, tried again" in line
    assert sum(model.warnings.values()) == 3 * len(faults)
    before = sum(faulty.came.values())
    assert (
        all(answer.cached for answer in ask.ask(model, questions(2 * len(faults))))
        and sum(faulty.came.values()) == before
    ), "a rerun asks nothing"


def test_retry_after_is_waited_for(serve):
    serve(lambda body, times: (429, {"Retry-After": "0.7"}, {}) if times == 1 else (200, {}, said()))
    (answer,) = ask.ask(ask.load_vlm("server:m"), questions(1))
    assert answer.text == "A" and 0.7 <= answer.seconds < 3


def test_what_the_server_will_never_answer_is_this_request_s_error(serve, logged):
    def reply(body, times):
        return (
            (
                400,
                {},
                {
                    "error": {
                        "message": f"maximum context length is 8 tokens, key {KEY}",
                        "code": "context_length_exceeded",
                    }
                },
            )
            if body["messages"][-1]["content"] == "q1"
            else (200, {}, said())
        )

    faulty = serve(reply)
    answers = ask.ask(ask.load_vlm("server:m"), questions(4))
    assert [bool(answer.error) for answer in answers] == [
        False,
        True,
        False,
        False,
    ] and "maximum context length" in answers[1].error
    assert faulty.came["q1"] == 1, "not tried again"
    assert "1 without an answer (first: BadRequestError" in logged[-1]
    assert KEY not in answers[1].error + logged[-1]
    ask.ask(ask.load_vlm("server:m"), questions(4))
    assert faulty.came == {"q0": 1, "q1": 2, "q2": 1, "q3": 1}, "but asked again next time"


def test_tries_end(serve):
    faulty = serve(
        lambda body, times: (500, {}, {}) if body["messages"][-1]["content"] == "q1" else (200, {}, said())
    )
    model = ask.ServerModel("m", tries=3)
    answers = ask.ask(model, questions(3))
    assert faulty.came["q1"] == 3 and "InternalServerError" in answers[1].error and answers[2].text == "A"


@pytest.mark.parametrize(
    "status, body, says",
    [
        (
            401,
            {"error": {"message": f"Incorrect API key {KEY}"}},
            r"refuses \(401\): check OPENAI_BASE_URL, OPENAI_API_KEY",
        ),
        (403, {}, r"refuses \(403\)"),
        (404, {"error": {"message": "no model m"}}, r"refuses \(404\)"),
        (
            429,
            {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}},
            "no credit left",
        ),
    ],
)
def test_a_server_that_refuses_everything(serve, status, body, says, capsys, logged):
    faulty = serve(
        lambda given, times: (
            (status, {}, body) if given["messages"][-1]["content"] != "q0" else (200, {}, said())
        )
    )
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
    with pytest.raises(
        ask.AskError,
        match="left 8 requests in a row without an answer, the last by "
        ".*Cannot connect to host 127.0.0.1:9.* it goes on from here",
    ) as caught:
        ask.ask(model, questions(1000))
    assert "pass-word" not in str(caught.value) + model.identity
    (answer,) = ask.ask(model, questions(1))
    assert "Cannot connect" in answer.error, "of a few, each has its own error"


@pytest.mark.parametrize(
    "status, message, param, sent, unsent, name",
    [
        (
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "max_tokens",
            {"max_completion_tokens": 7},
            {"max_tokens"},
            "max_tokens",
        ),
        (
            400,
            "Unsupported value: 'temperature' does not support 0 with this model. "
            "Only the default (1) value is supported.",
            "temperature",
            {"max_tokens": 7},
            {"temperature"},
            "temperature",
        ),
        (
            422,
            "Extra inputs are not permitted: seed",
            None,
            {"max_tokens": 7, "temperature": 0},
            {"seed"},
            "seed",
        ),
        (
            400,
            "logprobs is not supported by this engine",
            None,
            {"seed": 3},
            {"logprobs", "top_logprobs"},
            "logprobs",
        ),
        (
            400,
            "You are not allowed to request logprobs from this model",
            "logprobs",
            {"seed": 3},
            {"logprobs", "top_logprobs"},
            "logprobs",
        ),
    ],
)
def test_a_parameter_that_is_refused_is_left_out_once_for_all(
    serve, logged, status, message, param, sent, unsent, name
):
    refused = min(unsent) if len(unsent) == 1 else "logprobs"
    faulty = serve(
        lambda body, times: (
            (status, {}, {"error": {"message": message, "param": param}})
            if refused in body
            else (200, {}, said())
        )
    )
    model = ask.load_vlm("server:m", concurrency=1)
    answers = ask.ask(model, questions(4, options="AB", max_tokens=7), seed=3)
    assert [answer.text for answer in answers] == ["A"] * 4
    assert sent.items() <= faulty.bodies[-1].items() and not unsent & faulty.bodies[-1].keys()
    assert len(faulty.bodies) == 5, "refused once, remembered for the others"
    assert f"1 × {name} refused by the server, asked with" in logged[-1]
    ask.ask(model, questions(8, options="AB", max_tokens=7), seed=3)
    assert len(faulty.bodies) == 9 and "refused" not in logged[-1]


def test_fewer_log_probabilities_where_twenty_are_refused(serve):
    faulty = serve(
        lambda body, times: (
            (400, {}, {"error": {"message": "top_logprobs must be at most 5"}})
            if body.get("top_logprobs", 0) > 5
            else (200, {}, said(logprobs=likely({"A": -0.1, "B": -2.3})))
        )
    )
    (answer,) = ask.ask(ask.load_vlm("server:m"), questions(1, options="AB"))
    assert faulty.bodies[-1]["top_logprobs"] == 5 and answer.choice == "A"


def test_a_limit_that_is_too_high_is_no_refused_parameter(serve):
    faulty = serve(
        lambda body, times: (
            400,
            {},
            {
                "error": {
                    "message": "'max_tokens' or 'max_completion_tokens' is too large: 256. "
                    "The maximum context length is at most 128.",
                    "param": "max_tokens",
                }
            },
        )
    )
    (answer,) = ask.ask(ask.load_vlm("server:m"), questions(1))
    assert "too large" in answer.error and len(faulty.bodies) == 1


def test_probabilities_of_the_options_worked_by_hand(serve):
    log = {"half": -0.6931471805599453, "quarter": -1.3862943611198906, "eighth": -2.0794415416798357}
    steps = {
        "plain": likely(
            {"A": log["half"], "B": log["quarter"], " A": log["eighth"], "x": log["eighth"]}
        ),  # A: 1/2 + 1/8, B: 1/4
        "after a word": likely({"Answer": 0.0}, {" B": log["quarter"], "A": log["quarter"]}),
        "after its thoughts": likely(
            {"<think>": 0.0},
            {"A": log["half"], "B": log["eighth"]},
            {"</think>": 0.0},
            {"B": log["half"], "A": log["eighth"]},
        ),
        "none": likely({"x": 0.0}),
        "nothing": None,
    }
    serve(lambda body, times: (200, {}, said("A", logprobs=steps[body["messages"][-1]["content"]])))
    answers = ask.ask(ask.load_vlm("server:m"), [ask.request(name, options="AB") for name in steps])
    assert [answer.probabilities and answer.probabilities["A"] for answer in answers] == [
        pytest.approx(0.625 / 0.875),
        pytest.approx(0.5),
        pytest.approx(0.2),
        None,
        None,
    ]


def test_reasoning_and_what_was_cut(serve):
    replies = {
        "field": said("B", message={"reasoning_content": "it is blue"}),
        "other field": said("B", message={"reasoning": "it is blue"}),
        "tags": said("<think>it is blue</think>\nB"),
        "cut": said("a very long ans", "length"),
        "cut in thought": said("<think>it is", "length"),
        "no text": said(None),
    }
    serve(lambda body, times: (200, {}, replies[body["messages"][-1]["content"]]))
    answers = ask.ask(ask.load_vlm("server:m"), [ask.request(name) for name in replies])
    assert [(answer.text, answer.reasoning, answer.truncated) for answer in answers] == [
        *[("B", "it is blue", False)] * 3,
        ("a very long ans", "", True),
        ("", "it is", True),
        ("", "", False),
    ]
    assert (answers[0].tokens_in, answers[0].tokens_out) == (5, 2)


def test_what_the_server_is_sent(serve, tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    faulty = serve(lambda body, times: (200, {}, said()))
    ask.ask(
        ask.load_vlm("server:vision-1"),
        [ask.request("which", [tmp_path / "red.png"] * 2, "AB", "Be short.", 9)],
        seed=4,
        temperature=0.5,
    )
    (body,), ((path, authorization),) = faulty.bodies, faulty.heads
    assert path == "/v1/chat/completions" and authorization == f"Bearer {KEY}"
    system, user = body.pop("messages")
    assert body == {
        "model": "vision-1",
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 4,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert system == {"role": "system", "content": "Be short."} and [
        part["type"] for part in user["content"]
    ] == ["image_url", "image_url", "text"]
    assert (
        user["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
        and user["content"][2]["text"] == "which"
    )


class TestIdentity:
    def test_an_answer_belongs_to_the_model_s_name_not_to_the_address(self, serve):
        first = serve(lambda body, times: (200, {}, said("first")))
        ask.ask(ask.load_vlm("server:m"), questions(2))
        second = serve(lambda body, times: (200, {}, said("second")))
        assert first.address != second.address
        assert [answer.text for answer in ask.ask(ask.load_vlm("server:m"), questions(2))] == ["first"] * 2
        assert [answer.text for answer in ask.ask(ask.load_vlm("server:n"), questions(2))] == ["second"] * 2
        assert len(first.bodies) == len(second.bodies) == 2

    def test_a_label_tells_models_of_one_name_apart(self, serve, monkeypatch):
        monkeypatch.delenv("XAI_MODEL_LABEL", raising=False)
        faulty = serve(lambda body, times: (200, {}, said(f"answer {len(faulty.bodies)}")))
        answers = {}
        for label in ("", "4 bits", "8 bits", "", "4 bits"):
            monkeypatch.setenv("XAI_MODEL_LABEL", label)
            (answer,) = ask.ask(ask.load_vlm("server:m"), questions(1))
            assert answers.setdefault(label, answer.text) == answer.text
        assert list(answers.values()) == ["answer 1", "answer 2", "answer 3"]
        monkeypatch.delenv("XAI_MODEL_LABEL")
        assert ask.ask(ask.load_vlm("server:m"), questions(1))[0].text == "answer 1"

    def test_identity_holds_neither_address_nor_key(self, monkeypatch):
        monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pass-word@some.host:8000/v1?token=abc")
        monkeypatch.delenv("XAI_MODEL_LABEL", raising=False)
        assert ask.load_vlm("server:m").identity == "server:m"
        monkeypatch.setenv("XAI_MODEL_LABEL", "4 bits")
        assert ask.load_vlm("server:m").identity == "server:m 4 bits"


def test_as_many_at_a_time_as_are_allowed(serve):
    faulty = serve(lambda body, times: time.sleep(0.05) or (200, {}, said()))
    assert len(ask.ask(ask.load_vlm("server:m", concurrency=6), questions(40))) == 40
    assert faulty.most == 6


def test_images_are_encoded_when_their_turn_comes(serve, tmp_path, monkeypatch):
    Image.new("RGB", (6, 4)).save(tmp_path / "black.png")
    encoded, most = [], []
    faulty = serve(lambda body, times: time.sleep(0.02) or (200, {}, said()))
    monkeypatch.setattr(
        chat_completions,
        "data_url",
        lambda image: (
            encoded.append(1)
            or most.append(len(encoded) - len(faulty.bodies))
            or "data:image/png;base64,AA=="
        ),
    )
    ask.ask(ask.load_vlm("server:m", concurrency=3), questions(30, images=[tmp_path / "black.png"]))
    assert len(encoded) == 30 and max(most) <= 6, "those under way, and no others"


def test_an_image_that_cannot_be_read_is_named(serve, tmp_path):
    serve(lambda body, times: (200, {}, said()))
    (tmp_path / "no.png").write_bytes(b"no image")
    with pytest.raises(ask.AskError, match="no.png: no image"):
        ask.ask(ask.load_vlm("server:m"), [ask.request("q", tmp_path / "no.png")])


def test_within_a_running_event_loop(serve):
    serve(lambda body, times: (200, {}, said()))

    async def cell():
        return ask.ask(ask.load_vlm("server:m"), questions(3))

    assert [answer.text for answer in asyncio.run(cell())] == ["A"] * 3


RUN = """
import logging, pathlib, signal, sys
from xaihelpers import ask, paths
# a shell that runs the tests in the background has it ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
paths.cache_home = lambda: pathlib.Path(sys.argv[1])
answers = ask.ask(ask.load_vlm("server:m", concurrency=4), [ask.request(f"q{i}") for i in range(60)])
print("texts", sum(answer.text == f"q{i}, answered" for i, answer in enumerate(answers)))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_goes_on_where_it_was(serve, tmp_path, how):
    answered = []  # questions whose answer has been sent for long enough to lie on disk

    def reply(body, times):
        time.sleep(0.05)
        answered.append(body["messages"][-1]["content"])
        return 200, {}, said(f"{body['messages'][-1]['content']}, answered")

    faulty = serve(reply)
    run = [sys.executable, "-c", RUN, str(tmp_path / "kept")]
    first = subprocess.Popen(
        run,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    while len(answered) < 20 and first.poll() is None:
        time.sleep(0.01)
    os.kill(first.pid, how)
    out, err = first.communicate(timeout=240)
    assert first.returncode not in (0, None), err
    came, asked = len(answered), len(faulty.bodies)
    assert came < 60, "it was ended in the middle"
    if how == signal.SIGINT:
        assert "left" in out and "KeyboardInterrupt" in err
    second = subprocess.run(
        run, capture_output=True, text=True, timeout=240, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert "texts 60" in second.stdout, second.stderr
    again = len(faulty.bodies) - asked
    assert 60 - came <= again <= 60 - came + 12, "only what had not come, or was under way"
    assert KEY not in out + err + second.stdout + second.stderr
    assert KEY.encode() not in b"".join(
        file.read_bytes() for file in (tmp_path / "kept").rglob("*") if file.is_file()
    )
    third = subprocess.run(
        run, capture_output=True, text=True, timeout=240, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert "texts 60" in third.stdout and len(faulty.bodies) == asked + again


def by_text(table):
    """A reply for each question's text: what `table` says, or an answer."""

    def reply(body, times):
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        return table.get(text, (200, {}, said(f"{text}, answered")))

    return reply


def test_requests_about_one_image_are_sent_together_and_answered_in_the_order_asked(serve, tmp_path):
    files = [tmp_path / f"{name}.png" for name in "abc"]
    for number, file in enumerate(files):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(file)
    faulty = serve(by_text({}))
    asked = [ask.request(f"q{n} of {file.stem}", file) for n in range(3) for file in files]
    answers = ask.ask(ask.load_vlm("server:m", concurrency=1), asked)
    sent = [body["messages"][-1]["content"][-1]["text"] for body in faulty.bodies]
    assert sent == [f"q{n} of {name}" for name in "abc" for n in range(3)]
    assert [answer.text for answer in answers] == [f"{one.turns[-1].text}, answered" for one in asked]


SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}, "reason": {"type": "string"}},
    "required": ["score", "reason"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("how", ["offered", "refused by name", "refused by its content"])
def test_answers_by_a_schema_where_the_server_offers_it(serve, how, logged):
    refusal = {
        "refused by name": {"message": "not supported by this model", "param": "response_format"},
        "refused by its content": {"message": "Extra inputs are not permitted: json_schema"},
    }.get(how)

    def reply(body, times):
        if refusal and "response_format" in body:
            return 400, {}, {"error": refusal}
        return 200, {}, said('{"score": 4, "reason": "it looks at the bird"}')

    faulty = serve(reply)
    answers = ask.ask(ask.load_vlm("server:m", concurrency=1), questions(3, schema=SCHEMA))
    assert [json.loads(answer.text)["score"] for answer in answers] == [4] * 3
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    assert faulty.bodies[0]["response_format"] == form
    if refusal:
        assert len(faulty.bodies) == 4 and "response_format" not in faulty.bodies[-1]
        assert "1 × response_format refused by the server, asked without" in logged[-1]
    else:
        assert len(faulty.bodies) == 3 and all(body["response_format"] == form for body in faulty.bodies)
    ask.ask(ask.load_vlm("server:m"), questions(3, schema=SCHEMA))
    before = len(faulty.bodies)
    ask.ask(ask.load_vlm("server:m"), questions(3))
    assert len(faulty.bodies) == before + 3, "without a schema it is another request"


OTHER_FORMS = {
    "other fields": {"object": "response", "output": [{"type": "message"}]},
    "a list": [{"generated_text": "A"}],
    "a content that is no text": said({"answer": "A"}),
    "a page": b"<html>moved</html>",
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_a_server_that_changes_its_form_midway_is_named_and_nothing_is_lost(serve, form):
    usual = []

    def reply(body, times):
        question = body["messages"][-1]["content"]
        with faulty.lock:
            if len(usual) == 6:
                return 200, {}, OTHER_FORMS[form]
            usual.append(question)
        return 200, {}, said(f"{question}, answered")

    faulty = serve(reply)
    with pytest.raises(ask.AskError) as caught:
        ask.ask(ask.ServerModel("m", concurrency=4, tries=2), questions(30))
    said_so = str(caught.value)
    assert "8 requests in a row without an answer" in said_so
    assert "6 replies before were of the usual form, and are kept: see what has changed" in said_so
    if form == "other fields":
        assert "UnusableReply" in said_so and "no chat completion (fields object, output)" in said_so
    back = serve(by_text({}))
    answers = ask.ask(ask.load_vlm("server:m"), questions(30))
    assert [answer.text for answer in answers] == [f"q{i}, answered" for i in range(30)]
    assert len(back.bodies) == 24, "what came before the change is not asked again"


def test_parts_of_a_reply_in_another_form_leave_the_answer(serve):
    parts = [{"type": "text", "text": "A "}, {"type": "text", "text": "bird"}]
    replies = {
        "parts": said(parts),
        "log-probabilities": said("A", logprobs={"content": [{"tok": "A"}]}),
        "other log-probabilities": said("A", logprobs={"content": "A"}),
    }
    serve(lambda body, times: (200, {}, replies[body["messages"][-1]["content"]]))
    asked = [ask.request(name, options="AB") for name in replies]
    answers = ask.ask(ask.load_vlm("server:m"), asked)
    assert [(answer.text, answer.probabilities) for answer in answers] == [
        ("A bird", None),
        ("A", None),
        ("A", None),
    ]


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
    again = ask.ask(ask.load_vlm("server:m"), asked)
    assert [failure_kind(answer, answer.text == "B") for answer in again] == kinds
    assert faulty.came["failed"] == 2 and faulty.came["refused before"] == 1, "only what failed"
