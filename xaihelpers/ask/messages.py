"""Requests and answers: the turns of a chat, their images, and the keys under which answers are cached."""

import base64
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from xaihelpers.datasets.images import as_seen, load_image, orientation

THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.S)
ROLES = ("system", "user", "assistant")
MEDIA_TYPES = {b"\xff\xd8\xff": "jpeg", b"\x89PN": "png"}  # by the first three bytes of a file
PLAIN_MODES = ("1", "L", "P", "RGB")  # of the pixels that every program shows alike


class AskError(ValueError):
    """A model cannot be asked, or a request is invalid; the message names it and the remedy."""


@dataclass(frozen=True)
class Turn:
    """One message of a chat.

    role: "system", "user" or "assistant".
    images: files or PIL images, placed before the text.
    """

    role: str
    text: str
    images: tuple[str | Path | Image.Image, ...] = ()


@dataclass(frozen=True)
class Request:
    """A chat to be answered.

    turns: the messages; the last one is the user's.
    options: answers to choose from ("A", "B", …), whose probabilities are wanted.
    max_tokens: upper limit of the answer's length.
    schema: a JSON schema that the answer is to follow. Servers that can are held to it; others, and models on
        this machine, answer as the text says, so it has to say the same.

    Raises AskError: no turn of the user at the end, an unknown role, equal or empty options, or max_tokens
        below 1.
    """

    turns: tuple[Turn, ...]
    options: tuple[str, ...] = ()
    max_tokens: int = 256
    schema: dict | None = None

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
        """The images of all turns, in order."""
        return [image for turn in self.turns for image in turn.images]


@dataclass
class Answer:
    """What a model answered.

    text: the answer, without the reasoning before it.
    reasoning: what stood in <think>…</think>, or in a field of its own.
    probabilities: by option; None where no options were asked for or the model gives no probabilities.
    tokens_in, tokens_out, seconds: size of prompt and answer, and time taken.
    truncated: whether max_tokens ended the answer.
    refused: whether the model's server says that it is a refusal, or that a filter kept the answer back.
    error: why there is no answer; empty otherwise.
    cached: whether the answer was read from the disk.
    """

    text: str = ""
    reasoning: str = ""
    probabilities: dict[str, float] | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    truncated: bool = False
    refused: bool = False
    error: str = ""
    cached: bool = field(default=False, compare=False)

    @property
    def choice(self) -> str | None:
        """The most probable option; None where there are no probabilities."""
        return max(self.probabilities, key=self.probabilities.get) if self.probabilities else None


def request(
    text: str,
    images: Sequence = (),
    options: Sequence[str] = (),
    system: str = "",
    max_tokens: int = 256,
    schema: dict | None = None,
) -> Request:
    """A request of one question.

    images: one image or several, placed before the text. system: an optional system message.
    schema: as of `Request`.
    Raises AskError as Request does.
    """
    images = (images,) if isinstance(images, (str, Path, Image.Image)) else tuple(images)
    turns = [Turn("system", system)] if system else []
    turns.append(Turn("user", text, images))
    return Request(tuple(turns), tuple(options), max_tokens, schema)


def split_reasoning(text: str, reasoning: str = "") -> tuple[str, str]:
    """Separate a model's output into answer and reasoning.

    text: the output; what stands in <think>…</think>, closed or not, is reasoning. Where the chat template
        has opened the tag, all before a first </think> is reasoning too.
    reasoning: what a server has separated already; it comes first.
    """
    if "</think>" in text.partition("<think>")[0]:
        text = f"<think>{text}"
    thoughts = [thought.strip() for thought in (reasoning, *THOUGHT.findall(text))]
    return THOUGHT.sub("", text).strip(), "\n".join(filter(None, thoughts))


def open_image(image: str | Path | Image.Image) -> Image.Image:
    """An image as people see it, RGB: see `datasets.images.as_seen`.

    Raises AskError: a file that cannot be read, or grey values of an unknown range; it is named.
    """
    try:
        return as_seen(image) if isinstance(image, Image.Image) else load_image(image)
    except ValueError as error:
        raise _unreadable(image, error.__cause__ or error) from error


def data_url(image: str | Path | Image.Image) -> str:
    """An image as a data URL, as people see it.

    A JPEG or PNG file is sent as it is where every program shows it alike: upright, opaque, grey or RGB with
    8 bits. Anything else is sent as a PNG of what `open_image` gives.

    Raises AskError: a file that cannot be read, or is incomplete.
    """
    pixels = open_image(image)
    content = Path(image).read_bytes() if _is_plain_file(image) else b""
    kind = MEDIA_TYPES.get(content[:3])
    if kind is None:
        buffer = io.BytesIO()
        pixels.save(buffer, "PNG")
        content, kind = buffer.getvalue(), "png"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def request_keys(requests: Sequence[Request], model: str, settings: dict) -> list[str]:
    """The cache key of each request: a hash of all that its answer depends on.

    That is the model's identity, the settings (JSON), every turn, the options, the limit, the schema, and the
    content of the images, each of which is read once. Raises AskError: an image file that cannot be read.
    """
    hashes: dict[str | int, str] = {}  # by file name, or by the id of an image that the requests keep alive

    def image_hash(image) -> str:
        name = _image_name(image)
        if name not in hashes:
            hashes[name] = _image_hash(image)
        return hashes[name]

    keys = []
    for item in requests:
        turns = []
        for turn in item.turns:
            image_hashes = [image_hash(image) for image in turn.images]
            turns.append([turn.role, turn.text, image_hashes])
        parts = [model, settings, item.options, item.max_tokens, turns]
        if item.schema is not None:  # an answer without keeps the key that it has always had
            parts.append(item.schema)
        keys.append(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest())
    return keys


def request_record(asked: Request) -> dict:
    """A request as JSON: its turns, each image by its sha256 and the name of its file without the folder."""
    turns = []
    for turn in asked.turns:
        images = []
        for image in turn.images:
            name = "" if isinstance(image, Image.Image) else Path(image).name
            images.append({"sha256": _image_hash(image), "name": name})
        turns.append({"role": turn.role, "text": turn.text, "images": images})
    limits = {"options": list(asked.options), "max_tokens": asked.max_tokens, "schema": asked.schema}
    return {"turns": turns, **limits}


def _image_name(image: str | Path | Image.Image) -> str | int:
    """What tells images apart without reading them: a file's name, the id of an image in memory."""
    return id(image) if isinstance(image, Image.Image) else str(image)


def _image_hash(image: str | Path | Image.Image) -> str:
    """The sha256 of a plain file, or of the size and the pixels of what is seen of any other image."""
    if _is_plain_file(image):
        return hashlib.sha256(Path(image).read_bytes()).hexdigest()
    image = open_image(image)
    return hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()


def _is_plain_file(image: str | Path | Image.Image) -> bool:
    """Whether an image is a file that shows what it holds: upright, opaque, grey or RGB with 8 bits."""
    if isinstance(image, Image.Image):
        return False
    try:
        with Image.open(image) as opened:
            is_opaque = opened.mode in PLAIN_MODES and not opened.has_transparency_data
            return is_opaque and orientation(opened) == 1
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _unreadable(image, error) from error


def _unreadable(image: str | Path, reason: object) -> AskError:
    return AskError(f"{image}: no image that can be read ({reason}). Restore it, or leave it out.")
