"""A provider's batches, by a server on this machine: nothing handed in twice, nothing lost."""

import collections
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from xaihelpers import ask
from xaihelpers.ask import batch_model
from xaihelpers.ask.failures import failure_kind

KEY = "sk-secret-of-the-user"


def said(text, **more):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message, **more}
    return {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


class Provider(ThreadingHTTPServer):
    """Keeps files and batches; a batch ends after `looks` looks at it, its lines as `reply(body)` says."""

    daemon_threads = True

    def __init__(self, reply, looks=1):
        self.reply, self.looks, self.end = reply, looks, "completed"
        self.files, self.batches, self.looked, self.has_batches = {}, {}, collections.Counter(), True
        self.problems, self.lost_replies, self.lock = None, 0, threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, address):
        pass  # a client that was killed

    def lines(self, number=0):
        """What the number-th batch asks, as JSON."""
        return [json.loads(line) for line in self.files[list(self.batches.values())[number]["input_file_id"]]]

    def questions(self):
        """The questions of all batches, in order."""
        lines = [line for number in range(len(self.batches)) for line in self.lines(number)]
        return [line["body"]["messages"][-1]["content"] for line in lines]

    def look(self, batch):
        self.looked[batch["id"]] += 1
        if self.looked[batch["id"]] < self.looks:
            return batch | {"status": "in_progress"}
        if self.problems:
            return batch | {"status": "failed", "errors": {"data": [{"message": self.problems}]}}
        if not batch.get("output_file_id"):
            results = {"out": [], "err": []}
            for line in map(json.loads, self.files[batch["input_file_id"]]):
                found = self.reply(line["body"])
                if found is not None:
                    status, body = found
                    response = {"status_code": status, "body": body}
                    results["out" if status == 200 else "err"].append(
                        json.dumps({"custom_id": line["custom_id"], "response": response, "error": None})
                    )
            for kind, lines in results.items():
                self.files[f"{kind}-{batch['id']}"] = lines[::-1]  # in an order of its own
            batch |= {"output_file_id": f"out-{batch['id']}", "error_file_id": f"err-{batch['id']}"}
        return batch | {"status": self.end}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def send(self, content, status=200):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        provider, content = self.server, self.rfile.read(int(self.headers["content-length"]))
        assert self.headers["authorization"] == f"Bearer {KEY}"
        with provider.lock:
            if not provider.has_batches:
                self.send({"error": {"message": "Not Found"}}, 404)
            elif self.path.endswith("/files"):
                name = f"file-{len(provider.files)}"
                provider.files[name] = re.findall(rb'\{"custom_id".*\}', content)
                self.send({"id": name, "object": "file", "filename": "x", "bytes": 1, "created_at": 0})
            else:
                given = json.loads(content)
                batch = {"id": f"batch-{len(provider.batches)}", "object": "batch", "created_at": 0, **given}
                provider.batches[batch["id"]] = batch
                if provider.lost_replies:
                    provider.lost_replies -= 1
                    self.close_connection = True
                    return
                self.send(batch | {"status": "validating"})

    def do_GET(self):
        provider, name = self.server, self.path.partition("?")[0].split("/")
        with provider.lock:
            if "files" in name:
                self.send("\n".join(provider.files[name[-2]]).encode())
            elif name[-1] == "batches":
                self.send({"object": "list", "data": list(provider.batches.values()), "has_more": False})
            elif name[-1] in provider.batches:
                self.send(provider.look(provider.batches[name[-1]]))
            else:
                self.send({"error": {"message": "no such batch"}}, 404)


def answered(body):
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return 200, said(f"{text}, answered")


@pytest.fixture(autouse=True)
def data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


@pytest.fixture
def provide(monkeypatch):
    providers = []

    def start(reply=answered, **settings):
        providers.append(Provider(reply, **settings))
        monkeypatch.setenv("OPENAI_BASE_URL", providers[-1].address)
        return providers[-1]

    yield start
    for each in providers:
        each.shutdown()
        each.server_close()


def model_of():
    return ask.BatchModel("m", poll=0.01)


def questions(n, **more):
    return [ask.request(f"q{i}", **more) for i in range(n)]


def texts(n):
    return [f"q{i}, answered" for i in range(n)]


def open_notes(data_home):
    return list((data_home / "open_batches").glob("*.json"))


def test_answers_come_from_batches_and_their_notes_go(provide, data_home, caplog, monkeypatch):
    caplog.set_level(logging.INFO, logger="xaihelpers")
    monkeypatch.setattr(batch_model, "MOST_REQUESTS", 4)
    provider = provide(looks=3)
    model = model_of()
    answers = ask.ask(model, questions(5, options="AB", max_tokens=7), seed=3)
    assert [answer.text for answer in answers] == texts(5) and answers[0].tokens_in == 5
    line, batch = provider.lines()[0], provider.batches["batch-0"]
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert (batch["endpoint"], batch["completion_window"]) == ("/v1/chat/completions", "24h")
    body = line["body"]
    assert (body["model"], body["max_tokens"], body["seed"], body["top_logprobs"]) == ("m", 7, 3, 20)
    assert open_notes(data_home) == []
    assert [len(provider.lines(i)) for i in range(2)] == [4, 1], "files hold as many as they may"
    assert "4 requests are handed in (batch-0). It takes up to a day" in caplog.text
    server = ask.load_vlm("server:m")
    kept = ask.ask(server, questions(5, options="AB", max_tokens=7), seed=3)
    assert all(answer.cached for answer in kept) and len(provider.batches) == 2, "shared with the server"
    assert model.is_batch and not server.is_batch


RUN = """
import sys
from xaihelpers import ask
model = ask.BatchModel("m", poll=0.01)
answers = ask.ask(model, [ask.request(f"q{i}") for i in range(int(sys.argv[1]))], progress=False)
print("texts", sum(answer.text == f"q{i}, answered" for i, answer in enumerate(answers)))
"""


def test_a_run_that_is_killed_goes_on_with_its_batch(provide, data_home):
    provider = provide(looks=10**6)
    run = [sys.executable, "-c", RUN, "6"]
    first = subprocess.Popen(run, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while not sum(provider.looked.values()) and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait(30)
    (note,) = open_notes(data_home)
    assert KEY not in note.read_text()
    provider.looks = 1
    answers = ask.ask(model_of(), questions(8))  # two more than before
    assert [answer.text for answer in answers] == texts(8)
    assert provider.questions() == [f"q{i}" for i in range(8)], "each was handed in once"
    assert open_notes(data_home) == []


def test_a_provider_that_refuses_says_why(provide, data_home):
    provider = provide()
    provider.problems = "Enqueued token limit reached"
    with pytest.raises(ask.AskError, match="refuses batch-0: Enqueued token limit reached.*run again"):
        ask.ask(model_of(), questions(2))
    provider.has_batches = False
    with pytest.raises(ask.AskError, match="no batches at all .then name server:") as caught:
        ask.ask(model_of(), questions(2))
    assert KEY not in str(caught.value) and open_notes(data_home) == []


def test_a_batch_whose_reply_was_lost_is_found_by_its_file(provide, data_home):
    provider = provide()
    provider.lost_replies = 1
    with pytest.raises(ask.AskError, match="batch:m: .*goes on from here"):
        ask.ask(model_of(), questions(3))
    assert len(open_notes(data_home)) == len(provider.batches) == 1
    assert [answer.text for answer in ask.ask(model_of(), questions(3))] == texts(3)
    assert len(provider.batches) == 1


def test_the_four_failures_are_kept_apart_and_only_what_failed_is_handed_in_again(provide):
    replies = {
        "whole": (200, said("B")),
        "failed": (400, {"error": {"message": "context too long", "code": "context_length_exceeded"}}),
        "failed, too": None,  # in no file, as of a batch that has expired
        "failed by another form": (200, {"output": "B"}),
        "truncated": (200, said("The bird", finish_reason="length")),
        "refused": (200, said("I cannot help with that")),
        "refused before": (400, {"error": {"message": "flagged", "code": "content_filter"}}),
        "unparsable": (200, said("a bird")),
    }
    provider = provide(lambda body: replies[body["messages"][-1]["content"]])
    provider.end = "expired"
    answers = ask.ask(model_of(), [ask.request(name) for name in replies])
    kinds = [failure_kind(answer, answer.text == "B") for answer in answers]
    assert kinds == ["", *(re.match(r"\w+", name)[0] for name in list(replies)[1:])]
    assert "context too long" in answers[1].error and "expired, without this answer" in answers[2].error
    ask.ask(model_of(), [ask.request(name) for name in replies])
    assert provider.questions()[len(replies) :] == ["failed", "failed, too", "failed by another form"]


def test_what_fails_for_a_refused_parameter_is_handed_in_again_without_it(provide, data_home):
    schema = {"type": "object"}

    def reply(body):
        if "max_tokens" in body:
            text = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            return 400, {"error": {"message": text, "param": "max_tokens"}}
        if "response_format" in body:
            return 400, {"error": {"message": "not supported", "param": "response_format"}}
        return answered(body)

    provider = provide(reply)
    answers = ask.ask(model_of(), questions(3, schema=schema))
    assert [answer.text for answer in answers] == texts(3)
    assert len(provider.batches) == 3 and open_notes(data_home) == []
    body = provider.lines(2)[0]["body"]
    assert body["max_completion_tokens"] == 256 and "response_format" not in body
