"""Requests and answers: prompts, images, the keys under which answers are kept, and how an answer fails."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from xaihelpers import paths
from xaihelpers.ask.thoughts import split_reasoning
from xaihelpers.datasets.images import as_seen, is_converted, load_image, orientation
from xaihelpers.text_files import TextFileError, read_text

PROMPTS = paths.PROJECT / "data" / "prompts"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
PLAIN_MODES = ("1", "L", "P", "RGB")  # of the pixels that every program shows alike
KINDS = ("failed", "truncated", "refused", "unparsable")  # of failures, see `failure_kind`
MARKED = 2.0  # % of failed answers from which on a result is marked
REFUSAL = re.compile(
    r"\b(?:i['’]?m|i am|we are|we['’]re) (?:sorry|unable|not able)\b"
    r"|\b(?:i|we) (?:can ?not|can['’]?t|won['’]?t|must decline|am afraid)\b"
    r"|\bunable to (?:help|assist)\b",
    re.I,
)


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
    reasoning: what stood in the marks of a thought (`ask.thoughts`), or in a field of its own.
    probabilities: by option, at the place where the answer names one (`ask.reading.named_option`); None where
        it names none, no options were asked for, or the model gives no probabilities.
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
    """A request of one question; images: one or several. Raises AskError as Request does."""
    images = (images,) if isinstance(images, (str, Path, Image.Image)) else tuple(images)
    return Request(text, images, tuple(options), max_tokens)


def prompt(name: str | Path, **fields: str) -> str:
    """The text of a prompt, its placeholders {…} filled in.

    name: "fse_chain" for data/prompts/fse_chain.txt, or a file.
    fields: a value for each placeholder; other braces, as of a JSON example, stay as they are.
    Raises AskError: a file that cannot be read, or lacks the placeholder of a field.
    """
    file = paths.find(f"{name}.txt", PROMPTS) or paths.find(name) or Path(name)
    try:
        text = read_text(file).strip()
    except TextFileError as error:
        known = ", ".join(sorted(path.stem for path in PROMPTS.glob("*.txt")))
        raise AskError(f"{name}: no prompt that can be read ({error}), nor one of {known}") from error
    for field in fields:
        if f"{{{field}}}" not in text:
            raise AskError(f"{file}: the prompt has no place for {{{field}}}; it needs {', '.join(fields)}")
    return PLACEHOLDER.sub(lambda match: str(fields.get(match[1], match[0])), text)


def lettered_options(options: Sequence[str], mark: str = ".") -> str:
    """Options as lines "A. …", "B. …"; mark ")" gives "A) …"."""
    return "\n".join(f"{chr(65 + i)}{mark} {option}" for i, option in enumerate(options))


def failure_kind(answer: Answer, holds: bool) -> str:
    """Which of `KINDS` an answer is, empty where it holds what was asked for.

    failed: it could not be had, by the server or the network, and is left out. The others are wrong answers.
    truncated: max_tokens ended it. refused: the model, or a filter of its server, says so.
    unparsable: anything else that the reader of answers cannot read.

    holds: whether the answer's reader found what it wants.
    """
    if answer.error:
        return "failed"
    if holds:
        return ""
    if answer.truncated and not answer.refused:
        return "truncated"
    return "refused" if answer.refused or REFUSAL.search(answer.text) else "unparsable"


def without_thoughts(answer: Answer) -> Answer:
    """An answer as it is read, whoever gave it and whenever: what its text holds of thoughts is reasoning."""
    text, reasoning = split_reasoning(answer.text, answer.reasoning)
    return answer if text == answer.text.strip() else replace(answer, text=text, reasoning=reasoning)


def open_image(image: str | Path | Image.Image) -> Image.Image:
    """An image as people see it, RGB: see `datasets.images.as_seen`.

    Raises ValueError: a file that cannot be read, which is named, or grey values of an unknown range.
    """
    return as_seen(image) if isinstance(image, Image.Image) else load_image(image)


def plain_content(image: str | Path | Image.Image) -> bytes | None:
    """The bytes of a file that shows what it holds: upright, opaque, sRGB or grey with 8 bits; else None."""
    if isinstance(image, Image.Image):
        return None
    try:
        with Image.open(image) as opened:
            is_opaque = opened.mode in PLAIN_MODES and not opened.has_transparency_data
            is_plain = is_opaque and orientation(opened) == 1 and not is_converted(opened)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # `open_image` says what is wrong with it
    return Path(image).read_bytes() if is_plain else None


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
            in_memory = isinstance(image, Image.Image)
            place = id(image) if in_memory else str(image)
            if place not in hashes:
                content = plain_content(image)
                if content is None:
                    seen = open_image(image)
                    content = repr(seen.size).encode() + seen.tobytes()
                hashes[place] = hashlib.sha256(content).hexdigest()
            images.append({"sha256": hashes[place], "name": "" if in_memory else Path(image).name})
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
