"""The format of OpenAI's chat completions: a request as messages, a reply as an Answer."""

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from xaihelpers.ask.messages import Answer, Request, open_image, plain_content, split_reasoning

MEDIA_TYPES = {b"\xff\xd8\xff": "jpeg", b"\x89PN": "png"}  # by the first three bytes of a file


class UnusableReply(Exception):
    """A reply without an answer in it: an error in the server's words, or no chat completion at all."""


def to_messages(request: Request) -> list[dict]:
    """A request in the form of the OpenAI API, images as data URLs. Raises ValueError as `data_url`."""
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in request.images]
    content = [*parts, {"type": "text", "text": request.text}] if parts else request.text
    return [{"role": "user", "content": content}]


def data_url(image: str | Path | Image.Image) -> str:
    """An image as a data URL, as people see it.

    A JPEG or PNG file is sent as it is where every program shows it alike (`plain_content`), anything else as
    a PNG of what `open_image` gives. Raises ValueError: a file that cannot be read, or is incomplete.
    """
    pixels, content = open_image(image), plain_content(image) or b""
    kind = MEDIA_TYPES.get(content[:3])
    if kind is None:
        buffer = io.BytesIO()
        pixels.save(buffer, "PNG")
        content, kind = buffer.getvalue(), "png"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def read_reply(reply, options: Sequence[str]) -> Answer:
    """The answer in a chat completion (JSON). Raises UnusableReply: there is none in it."""
    try:
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        message = choice["message"]
        content = message.get("content") or ""
        if isinstance(content, list):  # as some servers send it
            content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
        separate_reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        text, reasoning = split_reasoning(content, separate_reasoning)
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
        raise UnusableReply(f"no chat completion: {str(reply)[:200]}") from error


def read_probabilities(steps: Sequence[dict] | None, options: Sequence[str]) -> dict[str, float] | None:
    """The options' probabilities, renormalised; None where there are none.

    They are read at the first token after the reasoning that is one of the options.

    steps: for each token of the answer `token` and `top_logprobs`, which have `token` and `logprob` each.
    """
    text = ""
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
    return None
