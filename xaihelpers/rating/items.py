"""What a rater is shown: items, the forms of an answer, and a hash that tells whether an item has changed.

| form | answer | source |
|---|---|---|
| "scale" | 1 to 4, for a whole explanation | paper conceptscore, section 3.5 |
| "attention" | 0 to 5, for what a model attends to | paper autoxplain, appendix A.4 |
| "yes/somewhat/no" | whether an attribute is present | paper sub, section 4.3 |
| "pick" | one option of a group | paper sub, section 5.4 |
"""

import hashlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from xaihelpers import paths

MAX_SIDE = 640  # pixels: larger images are scaled down
LOSSLESS_SIDE = 128  # pixels: images up to this size are stored exactly, as PNG
PICK_KEYS = "123456789abcdefghijklmnopqrstvwxyz"  # without u, the key for undo


class RatingError(ValueError):
    """An invalid study, item or answer; the message names it and the remedy."""


class Choice(NamedTuple):
    """One possible answer: its key on the keyboard, the text stored, its label, its number in the table."""

    key: str
    answer: str
    label: str
    rating: float


FORMS = {
    "scale": [
        Choice("1", "1", "does not fit", 1),
        Choice("2", "2", "fits in part", 2),
        Choice("3", "3", "fits on the whole", 3),
        Choice("4", "4", "fits exactly", 4),
    ],
    "yes/somewhat/no": [
        Choice("y", "yes", "yes", 1),
        Choice("s", "somewhat", "somewhat", 0.5),
        Choice("n", "no", "no", 0),
    ],
    "attention": [
        Choice("0", "0", "nothing to do with it", 0),
        Choice("1", "1", "the object is not made out", 1),
        Choice("2", "2", "a small part of it", 2),
        Choice("3", "3", "made out, with much besides", 3),
        Choice("4", "4", "most of it, little besides", 4),
        Choice("5", "5", "all of it, nothing else", 5),
    ],
    "pick": [],  # each item has options of its own
}
QUESTIONS = {
    "scale": (
        "Take the concepts and their weights together, as one description. How well does it fit the picture?"
    ),
    "yes/somewhat/no": "Does the picture show it?",
    "attention": (
        "Only what a model attends to is visible. How well does it attend to the object that it names?"
    ),
    "pick": "Which one does the picture show?",
}


@dataclass(frozen=True)
class Item:
    """One thing to rate.

    id: its name in the tables, never shown.
    image: a file, a PIL image, or an array (H, W, 3) or (H, W) of uint8.
    prediction: the class that a model predicts; shown if given.
    concepts: pairs (name, weight) in the order in which they are shown.
    options: the options of form "pick"; no other form takes any.
    question: shown instead of the study's question.
    reference: a second image.
    hidden: what an analysis needs and a rater must not see (model, truth), as JSON types; stored with the
        study, never sent to the browser.
    """

    id: str
    image: object
    prediction: str = ""
    concepts: Sequence[tuple[str, float]] = ()
    options: Sequence[str] = ()
    question: str = ""
    reference: object = None
    hidden: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """An item ready to be shown.

    id, hidden: those of the item. shown: all its texts, as JSON types. pictures: one or two encoded images.
    key: hash of all that a rater sees.
    """

    id: str
    shown: dict
    pictures: list[bytes]
    key: str
    hidden: dict


def choices(form: str, options: Sequence[str] = ()) -> list[Choice]:
    """The possible answers of a form.

    options: those of an item of form "pick"; their keys are 1 to 9, then letters, and their ratings 1, 2, …
    Raises RatingError: for an unknown form.
    """
    if form not in FORMS:
        raise RatingError(f"there is no form {form!r}: the forms are {', '.join(FORMS)}")
    if FORMS[form]:
        return FORMS[form]
    keyed_options = enumerate(zip(PICK_KEYS, options, strict=False), 1)  # there are more keys than options
    return [Choice(key, option, option, number) for number, (key, option) in keyed_options]


def prepare(items: Sequence[Item | dict], form: str, question: str = "") -> list[Page]:
    """Make items ready to be shown in one form; a dict stands for an `Item` with these fields.

    Raises RatingError: without items; for an unknown form or field and a missing id or image; for two items
        of one id; for a missing, unreadable or wrongly shaped image, a weight that is not a finite number,
        options that do not fit the form, and `hidden` that JSON cannot hold. It names the item.
    """
    choices(form)
    pages = [_prepare_page(_as_item(item), form, question) for item in items]
    ids = [page.id for page in pages]
    if not ids:
        raise RatingError("a study needs items, and none were given")
    if len(set(ids)) < len(ids):
        duplicate = next(item_id for item_id in ids if ids.count(item_id) > 1)
        raise RatingError(
            f"{ids.count(duplicate)} items have the id {duplicate!r}: ratings could not be told apart, "
            "give each its own"
        )
    return pages


def _as_item(item: Item | dict) -> Item:
    if isinstance(item, Item):
        return item
    known = [field_.name for field_ in fields(Item)]
    unknown = [name for name in item if name not in known]
    if unknown:
        raise RatingError(f"an item has no {unknown[0]!r}; it has {', '.join(known)}")
    missing = [name for name in ("id", "image") if name not in item]
    if missing:
        raise RatingError(f"an item lacks its {missing[0]}: {dict(item)!r:.200}")
    return Item(**item)


def _prepare_page(item: Item, form: str, question: str) -> Page:
    if not isinstance(item.id, str) or not item.id.strip():
        raise RatingError(f"an item's id must be a text, not {item.id!r}")
    shown = {
        "question": item.question or question or QUESTIONS[form],
        "prediction": item.prediction,
        "options": _checked_options(item, form),
        "concepts": _rounded_concepts(item),
    }
    images = [_load_image(image, item.id) for image in (item.image, item.reference) if image is not None]
    if not images:
        raise RatingError(f"item {item.id!r} has no picture")
    digest = hashlib.sha256(json.dumps([form, shown], sort_keys=True).encode())
    for image in images:
        digest.update(f"{image.size}".encode() + image.tobytes())
    try:
        hidden = json.loads(json.dumps(item.hidden))
    except TypeError as error:
        raise RatingError(
            f"item {item.id!r}: hidden can hold only texts, numbers, lists and dicts ({error})"
        ) from error
    return Page(item.id, shown, [_encode(image) for image in images], digest.hexdigest(), hidden)


def _checked_options(item: Item, form: str) -> list[str]:
    options = [str(option) for option in item.options]
    if form != "pick" and options:
        raise RatingError(f'item {item.id!r} has options, which only form "pick" takes, not {form!r}')
    distinct = len(set(options)) == len(options)
    if form == "pick" and not (distinct and 2 <= len(options) <= len(PICK_KEYS)):
        raise RatingError(
            f"item {item.id!r} has the options {options}: "
            f'form "pick" needs 2 to {len(PICK_KEYS)} different ones'
        )
    return options


def _rounded_concepts(item: Item) -> list[list]:
    """Names and weights as they are printed: a change beyond the digits shown is no change of the item."""
    concepts = []
    for name, weight in item.concepts:
        if not isinstance(weight, int | float | np.number) or not math.isfinite(weight):
            raise RatingError(
                f"item {item.id!r}, concept {name!r}: its weight is {weight!r}, not a finite number"
            )
        concepts.append([str(name), round(float(weight), 2) + 0.0])  # + 0.0 makes -0.0 a plain 0.0
    return concepts


def _load_image(image, item_id: str) -> Image.Image:
    """Any image as RGB with sides of at most MAX_SIDE pixels, upright and on white.

    Raises RatingError: for a missing or unreadable file, and for an array of another shape or dtype.
    """
    if isinstance(image, str | Path):
        path = paths.find(image) or Path(image)
        if not path.is_file():
            raise RatingError(f"item {item_id!r}: there is no picture {path}")
        try:
            with Image.open(path) as file:
                image = file.copy()
        except OSError as error:
            raise RatingError(
                f"item {item_id!r}: the picture {path} cannot be read ({error}); replace it"
            ) from error
    elif not isinstance(image, Image.Image):
        array = np.asarray(image)
        is_grey = array.ndim == 2
        is_colour = array.ndim == 3 and array.shape[2] == 3
        if array.dtype != np.uint8 or not (is_grey or is_colour):
            raise RatingError(
                f"item {item_id!r}: an array must be (H, W, 3) or (H, W) of uint8, "
                f"not {array.shape} of {array.dtype}"
            )
        image = Image.fromarray(array)
    image = ImageOps.exif_transpose(image).convert("RGBA")
    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    return image


def _encode(image: Image.Image) -> bytes:
    """PNG for small images, else JPEG; the pixels alone, since a file's comment may tell too much."""
    bare = Image.new("RGB", image.size)
    bare.paste(image)
    buffer = io.BytesIO()
    if max(image.size) <= LOSSLESS_SIDE:
        bare.save(buffer, "PNG")
    else:
        bare.save(buffer, "JPEG", quality=92, subsampling=0)
    return buffer.getvalue()
