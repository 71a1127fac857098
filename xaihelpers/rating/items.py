"""What a rater is shown: items, the forms of an answer, and a key that tells whether an item is still the same.

Forms: "scale", 1 to 4 for a whole explanation (paper conceptscore, section 3.5); "attention", 0 to 5 for what a model attends to (paper autoxplain, appendix A.4), "yes/somewhat/no" and "pick" one of a group
(paper sub, sections 4.2 and 5.3).
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

MAX_SIDE, LOSSLESS_SIDE = 640, 128  # pixels: larger pictures are made smaller, small ones are kept exactly
PICK_KEYS = "123456789abcdefghijklmnopqrstvwxyz"  # without u, which undoes


class RatingError(ValueError):
    """A study, an item or an answer that cannot be; the message names it and the remedy."""


class Choice(NamedTuple):
    """One answer: the key that gives it, the answer as kept, its label, and its number in the tidy table."""

    key: str
    answer: str
    label: str
    rating: float


FORMS = {
    "scale": [Choice("1", "1", "does not fit", 1), Choice("2", "2", "fits in part", 2), Choice("3", "3", "fits on the whole", 3),
              Choice("4", "4", "fits exactly", 4)],
    "yes/somewhat/no": [Choice("y", "yes", "yes", 1), Choice("s", "somewhat", "somewhat", 0.5), Choice("n", "no", "no", 0)],
    "attention": [Choice(str(n), str(n), label, n) for n, label in enumerate(("nothing to do with it", "the object is not made out", "a small part of it", "made out, with much besides", "most of it, little besides", "all of it, nothing else"))],
    "pick": [],  # each item brings its own options
}
QUESTIONS = {
    "scale": "Take the concepts and their weights together, as one description. How well does it fit the picture?",
    "yes/somewhat/no": "Does the picture show it?",
    "attention": "Only what a model attends to is visible. How well does it attend to the object that it names?",
    "pick": "Which one does the picture show?",
}


@dataclass(frozen=True)
class Item:
    """One thing to rate. `id`: its name in the tables, never shown. `image`: a file, a PIL image, or an array (H, W, 3) or (H, W) of bytes.

    Shown if given: `prediction` (the class that a model predicts), `concepts` (pairs of a name and its weight, in the order shown), `reference` (a second
    picture), `question` (instead of the study's). `options`: what form "pick" picks from. `hidden`: what an analysis wants to know and a rater must not
    (model, truth): kept with the study, never sent to the browser; JSON's types only.
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
    """An item made ready: `shown` (JSON's types: all its texts), `pictures` (encoded bytes, one or two), `key` (a hash of all a rater sees), `hidden`."""

    id: str
    shown: dict
    pictures: list[bytes]
    key: str
    hidden: dict


def choices(form: str, options: Sequence[str] = ()) -> list[Choice]:
    """The answers of a form; those of "pick" are `options`, with keys 1 to 9, then letters. Raises RatingError for an unknown form."""
    if form not in FORMS:
        raise RatingError(f"there is no form {form!r}: the forms are {', '.join(FORMS)}")
    return FORMS[form] or [Choice(key, option, option, number) for number, (key, option) in enumerate(zip(PICK_KEYS, options), 1)]


def prepare(items: Sequence[Item | dict], form: str, question: str = "") -> list[Page]:
    """Items (dicts will do) made ready for one form.

    Raises RatingError, naming the item, for a duplicate id, a missing or unreadable picture, a weight that is no number, options that do not fit the form;
    and for no items.
    """
    choices(form)
    pages = [_page(_item(item), form, question) for item in items]
    ids = [page.id for page in pages]
    if not ids:
        raise RatingError("a study needs items, and none were given")
    if len(set(ids)) < len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise RatingError(f"{ids.count(twice)} items have the id {twice!r}: ratings could not be told apart, give each its own")
    return pages


def _item(item: Item | dict) -> Item:
    if isinstance(item, Item):
        return item
    known = [f.name for f in fields(Item)]
    if unknown := [name for name in item if name not in known]:
        raise RatingError(f"an item has no {unknown[0]!r}; it has {', '.join(known)}")
    if missing := [name for name in ("id", "image") if name not in item]:
        raise RatingError(f"an item lacks its {missing[0]}: {dict(item)!r:.200}")
    return Item(**item)


def _page(item: Item, form: str, question: str) -> Page:
    if not isinstance(item.id, str) or not item.id.strip():
        raise RatingError(f"an item's id must be a text, not {item.id!r}")
    options = list(map(str, item.options))
    if form == "pick" and not 2 <= len(set(options)) == len(options) <= len(PICK_KEYS):
        raise RatingError(f"item {item.id!r} has the options {options}: form \"pick\" needs 2 to {len(PICK_KEYS)} different ones")
    if form != "pick" and options:
        raise RatingError(f"item {item.id!r} has options, which only form \"pick\" takes, not {form!r}")
    for name, weight in item.concepts:
        if not isinstance(weight, (int, float, np.number)) or not math.isfinite(weight):
            raise RatingError(f"item {item.id!r}, concept {name!r}: its weight is {weight!r}, not a finite number")
    concepts = [[str(name), round(float(weight), 2) + 0.0] for name, weight in item.concepts]  # as printed: noise behind the digits shown is no change
    shown = {"question": item.question or question or QUESTIONS[form], "prediction": item.prediction, "options": options, "concepts": concepts}
    images = [_opened(image, item.id) for image in (item.image, item.reference) if image is not None]
    if not images:
        raise RatingError(f"item {item.id!r} has no picture")
    digest = hashlib.sha256(json.dumps([form, shown], sort_keys=True).encode())
    for image in images:
        digest.update(f"{image.size}".encode() + image.tobytes())
    try:
        hidden = json.loads(json.dumps(item.hidden))
    except TypeError as error:
        raise RatingError(f"item {item.id!r}: hidden can hold only texts, numbers, lists and dicts ({error})") from error
    return Page(item.id, shown, [_encoded(image) for image in images], digest.hexdigest(), hidden)


def _opened(image, item: str) -> Image.Image:
    """Any image as RGB of at most MAX_SIDE pixels, upright and on white; raises RatingError."""
    if isinstance(image, (str, Path)):
        path = Path(image).expanduser()
        if not path.is_file():
            raise RatingError(f"item {item!r}: there is no picture {path}")
        try:
            with Image.open(path) as file:
                image = file.copy()
        except OSError as error:
            raise RatingError(f"item {item!r}: the picture {path} cannot be read ({error}); replace it") from error
    elif not isinstance(image, Image.Image):
        array = np.asarray(image)
        if array.dtype != np.uint8 or not (array.ndim == 2 or array.ndim == 3 and array.shape[2] == 3):
            raise RatingError(f"item {item!r}: an array must be (H, W, 3) or (H, W) of uint8, not {array.shape} of {array.dtype}")
        image = Image.fromarray(array)
    image = ImageOps.exif_transpose(image).convert("RGBA")
    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    return image


def _encoded(image: Image.Image) -> bytes:
    """PNG for small pictures, else JPEG; from pixels alone, so without the file's name, comments or camera data, which could tell too much."""
    bare, out = Image.new("RGB", image.size), io.BytesIO()
    bare.paste(image)
    bare.save(out, "PNG") if max(image.size) <= LOSSLESS_SIDE else bare.save(out, "JPEG", quality=92, subsampling=0)
    return out.getvalue()
