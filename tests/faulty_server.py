"""A server on this machine that replies as a test wants it to."""

import collections
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def said(text="A", finish="stop", **more):
    """A chat completion."""
    message = {"role": "assistant", "content": text, **more.pop("message", {})}
    choice = {"index": 0, "finish_reason": finish, "message": message, **more}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    about = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return {**about, "choices": [choice], "usage": usage}


class Faulty(ThreadingHTTPServer):
    """Replies to each question as `reply(body, how often this question came)` says.

    That is (status, headers, content), or None to be silent.
    """

    daemon_threads, request_queue_size = True, 64

    def __init__(self, reply):
        self.reply, self.bodies, self.heads = reply, [], []
        self.came, self.lock = collections.Counter(), threading.Lock()
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
            times = faulty.came[question]
        reply = faulty.reply(body, times)
        if reply is None:
            time.sleep(3)
            return
        status, headers, content = reply
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        usual = {"content-type": "application/json", "content-length": str(len(content))}
        for name, value in (usual | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


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
