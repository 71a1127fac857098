"""Requests and answers: their images, and the keys under which answers are kept."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from xaihelpers.datasets.images import as_seen, load_image, orientation

THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.S)
PLAIN_MODES = ("1", "L", "P", "RGB")  # of the pixels that every program shows alike


class AskError(ValueError):
    """A model cannot be asked, or a request is invalid; the message names it and the remedy."""


@dataclass(frozen=True)
class Request:
    """A question to be answered.

    images: files or PIL images, placed before the text.
    options: answers to choose from ("A", "B", …), whose probabilities are wanted.
    max_tokens: upper limit of the answer's length.

    Raises AskError: equal options, or max_tokens below 1.
    """

    text: str
    images: tuple[str | Path | Image.Image, ...] = ()
    options: tuple[str, ...] = ()
    max_tokens: int = 256

    def __post_init__(self):
        if len(set(self.options)) < len(self.options):
            raise AskError(f"options must be different: {', '.join(map(repr, self.options))}")
        if self.max_tokens < 1:
            raise AskError(f"max_tokens is {self.max_tokens}: an answer needs at least 1")


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

    @property
    def choice(self) -> str | None:
        """The most probable option; None where there are no probabilities."""
        return max(self.probabilities, key=self.probabilities.get) if self.probabilities else None


def request(text: str, images: Sequence = (), options: Sequence[str] = (), max_tokens: int = 256) -> Request:
    """A request of one question.

    images: one image or several. Raises AskError as Request does.
    """
    images = (images,) if isinstance(images, (str, Path, Image.Image)) else tuple(images)
    return Request(text, images, tuple(options), max_tokens)


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

    Raises ValueError: a file that cannot be read, which is named, or grey values of an unknown range.
    """
    return as_seen(image) if isinstance(image, Image.Image) else load_image(image)


def is_plain_file(image: str | Path | Image.Image) -> bool:
    """Whether an image is a file that shows what it holds: upright, opaque, grey or RGB with 8 bits."""
    if isinstance(image, Image.Image):
        return False
    try:
        with Image.open(image) as opened:
            is_opaque = opened.mode in PLAIN_MODES and not opened.has_transparency_data
            return is_opaque and orientation(opened) == 1
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False  # `open_image` says what is wrong with it


def request_records(requests: Sequence[Request]) -> list[dict]:
    """Requests as JSON: question, options and limit, each image by its content and its file's name.

    The content is the sha256 of a plain file, or of the size and the pixels of what is seen of any other
    image, each of which is read once. Raises ValueError as `open_image`.
    """
    hashes: dict[str | int, str] = {}  # by file, or by the id of an image that the requests keep alive
    records = []
    for asked in requests:
        images = []
        for image in asked.images:
            is_file = not isinstance(image, Image.Image)
            place = str(image) if is_file else id(image)
            if place not in hashes:
                hashes[place] = _image_hash(image)
            images.append({"sha256": hashes[place], "name": Path(image).name if is_file else ""})
        record = {"question": asked.text, "images": images, "options": list(asked.options)}
        records.append(record | {"max_tokens": asked.max_tokens})
    return records


def request_keys(records: Sequence[dict], model: str, settings: dict) -> list[str]:
    """The cache key of each record of `request_records`: a hash of all that its answer depends on.

    That is the model's identity, the settings (JSON), and of the record all but the names of files.
    """
    keys = []
    for record in records:
        turn = ["user", record["question"], [image["sha256"] for image in record["images"]]]
        parts = [model, settings, record["options"], record["max_tokens"], [turn]]
        keys.append(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest())
    return keys


def _image_hash(image: str | Path | Image.Image) -> str:
    if is_plain_file(image):
        return hashlib.sha256(Path(image).read_bytes()).hexdigest()
    seen = open_image(image)
    return hashlib.sha256(repr(seen.size).encode() + seen.tobytes()).hexdigest()
