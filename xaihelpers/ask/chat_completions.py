"""The format of OpenAI's chat completions: a chat as its messages, a reply as an Answer."""

import math
from collections.abc import Sequence

from xaihelpers.ask.messages import Answer, Turn, data_url, split_reasoning


class UnusableReply(Exception):
    """A reply without an answer in it: no choices, or no chat completion at all."""


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
    """The answer in a chat completion (JSON). Raises UnusableReply: there is none in it."""
    try:
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        message = choice["message"]
        separate_reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        text, reasoning = split_reasoning(message.get("content") or "", separate_reasoning)
        return Answer(
            text,
            reasoning,
            _probabilities(choice, options),
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
            truncated=choice.get("finish_reason") == "length",
        )
    except (AttributeError, TypeError, IndexError, KeyError) as error:
        raise UnusableReply("a reply without an answer in it") from error


def _probabilities(choice: dict, options: Sequence[str]) -> dict[str, float] | None:
    """The options' probabilities, renormalised; None where the server gives none.

    They are read at the first token after the reasoning that is one of the options.
    """
    text = ""
    for token in (choice.get("logprobs") or {}).get("content") or []:
        text += token["token"]
        mass = dict.fromkeys(options, 0.0)
        for candidate in token.get("top_logprobs") or []:
            option = candidate["token"].strip()
            if option in mass:
                mass[option] += math.exp(candidate["logprob"])
        total = sum(mass.values())
        if token["token"].strip() in mass and total > 0 and split_reasoning(text)[0]:
            return {option: p / total for option, p in mass.items()}
    return None
