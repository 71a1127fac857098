"""A server of chat completions that answers in the forms that the prompts ask for, by chance.

A model whose name holds "reason" reasons before it answers and refuses log-probabilities, as such models do.
"""

import hashlib
import json
import random
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STAGES = ("Background", "Superclass", "SalientFeatures", "DetailedFeatures", "AuxiliaryFeatures")
WORDS = (
    "long short red blue grey round pointed wing bill tail wheel petal leaf roof stripe shore field".split()
)


def answer_to(text: str, chance: random.Random) -> str:
    """An answer in the form that a prompt asks for."""

    def some(count: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(count))

    if "JSON object" in text:
        return json.dumps({stage: [some(2), some(3)] for stage in STAGES})
    if "JSON list" in text:
        return json.dumps([some(2) for _ in range(5)])
    if "Score:" in text:
        return f"Evaluation: {some(12)}.\nJustification: {some(6)}.\nScore: {chance.randint(0, 5)}"
    if "the number only" in text:
        return str(chance.randint(1, 4))
    if letters := re.findall(r"^([A-Z])[.):] ", text, re.M):
        return chance.choice(letters)
    return some(2)


def reply(body: dict) -> tuple[int, dict]:
    """Status and content of the answer to a request."""
    chance = random.Random(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest())
    reasons = "reason" in body["model"]
    if reasons and body.get("logprobs"):
        message = "logprobs is not supported by this model"
        return 400, {"error": {"message": message, "type": "invalid_request_error", "param": "logprobs"}}
    content = body["messages"][-1]["content"]
    if not isinstance(content, str):
        content = "\n".join(part["text"] for part in content if part["type"] == "text")
    text = answer_to(content, chance)
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    if reasons:
        steps = (f"> {' '.join(chance.choices(WORDS, k=6))}." for _ in range(7))
        choice["message"]["reasoning_content"] = "\n".join(steps)
    if body.get("logprobs"):
        letters = [{"token": letter, "logprob": -1.0 - i} for i, letter in enumerate("ABCDE")]
        letters.sort(key=lambda token: token["token"] != text)
        choice["logprobs"] = {"content": [{"token": text, "logprob": -0.1, "top_logprobs": letters}]}
    usage = {"prompt_tokens": len(content) // 4, "completion_tokens": len(text) // 4 + 1}
    return 200, {"object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, content = reply(body)
        if self.server.log and status == 200:
            asked = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
            with self.server.lock, open(self.server.log, "a") as file:
                file.write(f"{asked}\n")
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """Answers at `address`, on a free port, until the process ends.

    log: a file that gets a line for each request it answers, a hash of what was asked.
    """

    daemon_threads, request_queue_size = True, 64

    def __init__(self, log: Path | None = None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.log, self.lock = log, threading.Lock()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/v1"
        threading.Thread(target=self.serve_forever, daemon=True).start()
