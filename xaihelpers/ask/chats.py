"""A question to a model, and its answer."""
import base64
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.S)
ROLES = ("system", "user", "assistant")


class AskError(ValueError):
    """A model cannot be asked, or a request is not as needed; the message names it and the remedy."""


@dataclass(frozen=True)
class Turn:
    """One message of a chat: role "system", "user" or "assistant", text, and images (files or PIL images), which stand before the text."""
    role: str
    text: str
    images: tuple[str | Path | Image.Image, ...] = ()


@dataclass(frozen=True)
class Request:
    """A chat to be answered. `options`: answers to choose from ("A", "B", …), whose probabilities are wanted; `max_tokens`: at most so many in the answer."""
    turns: tuple[Turn, ...]
    options: tuple[str, ...] = ()
    max_tokens: int = 256

    def __post_init__(self):
        if not self.turns or self.turns[-1].role != "user":
            raise AskError("a request is a chat that ends with the user's turn")
        if unknown := {turn.role for turn in self.turns} - set(ROLES):
            raise AskError(f"a turn is of {', '.join(ROLES)}, not of {', '.join(sorted(unknown))}")
        if len(set(self.options)) < len(self.options) or "" in self.options:
            raise AskError(f"options must be different and not empty: {', '.join(map(repr, self.options))}")
        if self.max_tokens < 1:
            raise AskError(f"max_tokens is {self.max_tokens}: an answer needs at least 1")

    @property
    def images(self) -> list[str | Path | Image.Image]:
        """Of all turns, in order."""
        return [image for turn in self.turns for image in turn.images]


@dataclass
class Answer:
    """`text` without the reasoning that a model wrote before it in <think>…</think> or in a field of its own; `probabilities` by option, None where the model gives none
    or no options were asked for; `cut` where max_tokens ended it; `cost` by the price of this call, also where it was paid before (`cached`); an `error` where there is no answer."""
    text: str = ""
    reasoning: str = ""
    probabilities: dict[str, float] | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cut: bool = False
    cost: float = 0.0
    error: str = ""
    cached: bool = field(default=False, compare=False)

    @property
    def choice(self) -> str | None:
        """The most probable option; None where there are no probabilities."""
        return max(self.probabilities, key=self.probabilities.get) if self.probabilities else None


def request(text: str, images: Sequence = (), options: Sequence[str] = (), system: str = "", max_tokens: int = 256) -> Request:
    """A request of one question, with one image or several before it."""
    images = (images,) if isinstance(images, (str, Path, Image.Image)) else tuple(images)
    return Request(((Turn("system", system),) if system else ()) + (Turn("user", text, images),), tuple(options), max_tokens)


def split_reasoning(text: str, reasoning: str = "") -> tuple[str, str]:
    """Answer and reasoning of a model's output: what stands in <think>…</think>, closed or cut, is reasoning, beside what the server kept apart already.

    Some models begin within their reasoning, since their template opened it: so all before a first </think> without <think> is reasoning too.
    """
    if "</think>" in text.partition("<think>")[0]:
        text = f"<think>{text}"
    return THOUGHT.sub("", text).strip(), "\n".join(part.strip() for part in (reasoning, *THOUGHT.findall(text)) if part.strip())


def open_image(image: str | Path | Image.Image) -> Image.Image:
    """An image as RGB; raises AskError naming a file that cannot be read."""
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    try:
        with Image.open(image) as opened:
            return opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # SyntaxError: Pillow's word for some broken PNGs
        raise AskError(f"{image}: no image that can be read ({error}). Restore it, or leave it out.") from error


def data_url(image: str | Path | Image.Image) -> str:
    """An image as a data URL: a JPEG or PNG file as it is, anything else as PNG."""
    whole = open_image(image)  # raises for a file that is none, or half of one
    content = b"" if isinstance(image, Image.Image) else Path(image).read_bytes()
    kind = {b"\xff\xd8\xff": "jpeg", b"\x89PN": "png"}.get(content[:3])
    if kind is None:
        whole.save(buffer := io.BytesIO(), "PNG")
        content, kind = buffer.getvalue(), "png"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def request_keys(requests: Sequence[Request], model: str, settings: dict) -> list[str]:
    """What each answer depends on, as a hash: model, settings, every turn, options, limit, and the content of its images, each of which is read once. Raises AskError naming a file."""
    hashed: dict[str | int, str] = {}  # by file, or by object: the requests keep their images alive

    def content(image) -> str:
        name = id(image) if isinstance(image, Image.Image) else str(image)
        if name not in hashed:
            hashed[name] = _image_hash(image)
        return hashed[name]

    return [hashlib.sha256(json.dumps([model, settings, one.options, one.max_tokens, [[turn.role, turn.text, [content(image) for image in turn.images]] for turn in one.turns]],
                                      sort_keys=True).encode()).hexdigest() for one in requests]


def _image_hash(image: str | Path | Image.Image) -> str:
    if isinstance(image, Image.Image):
        image = image.convert("RGB")
        return hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()
    try:
        return hashlib.sha256(Path(image).read_bytes()).hexdigest()
    except OSError as error:
        raise AskError(f"{image}: no image that can be read ({error.strerror}). Restore it, or leave it out.") from error
