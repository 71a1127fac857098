"""The format of OpenAI's chat completions: a chat as its messages, a reply as an Answer."""

import math
from collections.abc import Sequence

from xaihelpers.ask.messages import Answer, Turn, data_url, split_reasoning


class UnusableReply(Exception):
    """A reply without an answer in it: no choices, or no chat completion at all."""


class ErrorReply(UnusableReply):
    """A reply that calls itself a success, and whose content is an error in the server's own words."""


def to_messages(turns: Sequence[Turn]) -> list[dict]:
    """A chat in the form of the OpenAI API, images as data URLs."""
    messages = []
    for turn in turns:
        content = turn.text
        if turn.images:
            parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in turn.images]
            content = [*parts, {"type": "text", "text": turn.text}]
        messages.append({"role": turn.role, "content": content})
    return messages


def read_reply(reply, options: Sequence[str]) -> Answer:
    """The answer in a chat completion (JSON). Raises ErrorReply, or UnusableReply: there is none in it."""
    if isinstance(reply, dict) and reply.get("error"):
        error = reply["error"]
        words = error.get("message") if isinstance(error, dict) else error
        raise ErrorReply(f"its words: {words or error}")
    try:
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        message = choice["message"]
        separate_reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        text, reasoning = split_reasoning(_text(message.get("content")), separate_reasoning)
        refusal = message.get("refusal") or ""
        return Answer(
            text or refusal,
            reasoning,
            read_probabilities((choice.get("logprobs") or {}).get("content"), options),
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
            truncated=choice.get("finish_reason") == "length",
            refused=bool(refusal) or choice.get("finish_reason") == "content_filter",
        )
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        if isinstance(reply, dict):
            form = f"fields {', '.join(sorted(map(str, reply)))[:100]}"
        else:
            form = f"{type(reply).__name__}"
        raise UnusableReply(f"a reply without an answer in it, no chat completion ({form})") from error


def _text(content) -> str:
    """The text of a message, which some servers send in parts. Raises TypeError: it is something else."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not isinstance(content, str | None):
        raise TypeError(content)
    return content or ""


def read_probabilities(steps: Sequence[dict] | None, options: Sequence[str]) -> dict[str, float] | None:
    """The options' probabilities, renormalised; None where there are none, or none that can be read.

    They are read at the first token after the reasoning that is one of the options.

    steps: for each token of the answer `token` and `top_logprobs`, which have `token` and `logprob` each.
    """
    text = ""
    try:
        for step in steps or []:
            text += step["token"]
            mass = dict.fromkeys(options, 0.0)
            for candidate in step.get("top_logprobs") or []:
                option = candidate["token"].strip()
                if option in mass:
                    mass[option] += math.exp(candidate["logprob"])
            total = sum(mass.values())
            if step["token"].strip() in mass and total > 0 and split_reasoning(text)[0]:
                return {option: p / total for option, p in mass.items()}
    except (AttributeError, TypeError, KeyError):  # of another form: the answer itself is sound
        return None
    return None
