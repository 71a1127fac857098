"""What an OpenAI-compatible server is sent, and which parts of it this server will not have."""

import re
from collections import Counter

from xaihelpers.ask.messages import Request

UNSUPPORTED = re.compile(
    "unsupported|not support|unrecogni[sz]ed|unexpected|unknown|not permitted|not allowed|extra (field|input)"
    "|not available|not enabled|must be|at most",
    re.I,
)
# a server may refuse them
OPTIONAL_PARAMETERS = ("top_logprobs", "logprobs", "seed", "temperature", "response_format")


class RequestBody:
    """The bodies of chat completions for one model of one server.

    What the server refuses is left out or renamed from then on: `refused` has it, `warnings` counts it.
    """

    def __init__(self, model: str):
        self.model = model
        self.warnings: Counter[str] = Counter()
        # parameters that the server refuses for this model -> the name that it wants, "" where it wants none
        self.refused: dict[str, str] = {}
        self._most_logprobs = 20

    def parameters(self, request: Request, messages: list[dict], seed: int, temperature: float) -> dict:
        """All that a request asks of any server; messages: its turns, as of `to_messages`."""
        parameters = {
            "model": self.model,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "temperature": temperature,
            "seed": seed,
        }
        if request.options:
            parameters |= {"logprobs": True, "top_logprobs": 20}
        if request.schema is not None:
            form = {"name": "answer", "schema": request.schema, "strict": True}
            parameters["response_format"] = {"type": "json_schema", "json_schema": form}
        return parameters

    def accepted(self, parameters: dict) -> dict:
        """The body that this server takes: parameters that it has refused are left out or renamed."""
        body = {}
        for name, value in parameters.items():
            sent_name = self.refused.get(name, name)
            if sent_name:
                body[sent_name] = min(value, self._most_logprobs) if name == "top_logprobs" else value
        return body

    def adapt(self, text: str, parameter: str | None, body: dict) -> bool:
        """Whether the server refused a parameter that can be left out or renamed; from now on it is.

        text: its error's, with its code. parameter: that it names, if any. body: what it was sent.
        """
        unsupported = re.search("unsupported|not support", text, re.I)
        if "max_tokens" in body and "max_completion_tokens" in text and unsupported:
            return self._refuse("max_tokens", "max_completion_tokens")

        def refused(name: str) -> bool:
            if parameter:
                return parameter.partition(".")[0] == name
            return re.search(rf"\b{name}\b", text) is not None

        name = next((name for name in OPTIONAL_PARAMETERS if name in body and refused(name)), None)
        if name is None and "response_format" in body and re.search(r"\bjson_?schema\b", text, re.I):
            name = "response_format"
        if name is None or not UNSUPPORTED.search(text):
            return False
        if name == "top_logprobs" and body[name] > 5:
            self._most_logprobs = 5
            self.warnings["top_logprobs refused by the server, asked with 5"] = 1
            return True
        return self._refuse(name, "")

    def _refuse(self, name: str, replacement: str) -> bool:
        how = f"with {replacement}" if replacement else "without"
        self.warnings[f"{name} refused by the server, asked {how}"] = 1
        # of logprobs and top_logprobs neither is of use without the other
        names = ("logprobs", "top_logprobs") if "logprobs" in name else (name,)
        self.refused |= dict.fromkeys(names, replacement)
        return True
