"""The format of OpenAI's chat completions: a request as messages, a reply as an Answer."""

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from xaihelpers.ask.messages import Answer, Request, open_image, plain_content
from xaihelpers.ask.reading import option_step
from xaihelpers.ask.thoughts import split_reasoning

MEDIA_TYPES = {b"\xff\xd8\xff": "jpeg", b"\x89PN": "png"}  # by the first three bytes of a file
# why an answer ended, as servers say it
CUT = ("length", "max_tokens", "max_output_tokens", "model_length")
FILTERED = ("content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist")


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
        if isinstance(content, list):  # as some servers send it, a thought in parts without a text
            content = "".join(part.get("text", "") for part in content)
        names = ("reasoning_content", "reasoning", "thinking")
        apart = next((message[name] for name in names if message.get(name)), "")
        text, reasoning = split_reasoning(content, apart)
        refusal, ended = message.get("refusal") or "", str(choice.get("finish_reason")).lower()
        tokens_in = _count(usage.get("prompt_tokens"))
        return Answer(
            text or refusal,
            reasoning,
            read_probabilities((choice.get("logprobs") or {}).get("content"), options, ended in CUT),
            tokens_in=tokens_in,
            # some servers count what was thought in the total alone
            tokens_out=max(
                _count(usage.get("completion_tokens")), _count(usage.get("total_tokens")) - tokens_in
            ),
            truncated=ended in CUT,
            refused=bool(refusal) or ended in FILTERED,
        )
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise UnusableReply(f"no chat completion: {str(reply)[:200]}") from error


def _count(value: object) -> int:
    """A number of tokens; 0 where a server gives none."""
    return max(0, int(value)) if isinstance(value, int | float) and math.isfinite(value) else 0


def read_probabilities(
    steps: Sequence[dict] | None, options: Sequence[str], cut: bool = False
) -> dict[str, float] | None:
    """The options' probabilities, renormalised; None where there are none.

    They are read at the token with which the answer names an option (`ask.reading.option_step`).

    steps: for each token of the answer `token` and `top_logprobs`, which have `token` and `logprob` each.
    cut: whether max_tokens ended the answer.
    """
    tokens = [step["token"] for step in steps or []]
    step = option_step(tokens, "".join, options, cut) if options else None
    if step is None:
        return None
    mass = dict.fromkeys(options, 0.0)
    for candidate in steps[step].get("top_logprobs") or []:
        option = candidate["token"].strip()
        if option in mass:
            mass[option] += math.exp(candidate["logprob"])
    total = sum(mass.values())
    return {option: p / total for option, p in mass.items()} if total > 0 else None
