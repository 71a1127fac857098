"""Studies in a file of ratings: what is rated, and in which order each rater sees it.

A file holds studies. A study holds its items (images included, so that the file alone is enough to go on
rating), the order of each rater, and the answers, see `xaihelpers.rating.answers`.
"""

import hashlib
import json
import os
import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from xaihelpers.paths import data_home, ensure_writable, where_to_write
from xaihelpers.rating.database import REMEDY, connection, transaction
from xaihelpers.rating.items import Item, Page, RatingError, prepare


@dataclass(frozen=True)
class Study:
    """A study in a file of ratings: its name, its form and the ids of its items; made by `open_study`."""

    file: Path
    name: str
    form: str
    items: tuple[str, ...]


def ratings_file(name: str = "ratings.sqlite") -> Path:
    """The path of a file of ratings.

    name: a path, or a name in the folder that the environment variable XAI_RATINGS names, by default
        `ratings/` of the data folder; see `paths.where_to_write`.
    """
    return where_to_write(name, Path(os.environ.get("XAI_RATINGS") or data_home() / "ratings"))


def open_study(
    file: str | Path,
    name: str,
    items: Sequence[Item | dict] | None = None,
    form: str = "scale",
    question: str = "",
) -> Study:
    """Open a study, or begin it with `items`.

    items: while nobody has rated, they replace the study's earlier ones; None takes the study as the file
        holds it.
    form: "scale", "yes/somewhat/no", "attention" or "pick".
    question: shown with every item that has none of its own.
    Raises RatingError: if items, form or question are no longer those that were rated; for an unknown study
        without items; for items that `prepare` refuses; for a file that is no file of ratings or cannot be
        used.
    Raises FolderError: if the file's folder cannot be written.
    """
    name, file = checked_name("study", name), Path(file)
    pages = None if items is None else prepare(items, form, question)
    if pages is None and name not in studies(file):
        known = ", ".join(studies(file)) or "none"
        raise RatingError(
            f"there is no study {name!r} in {file} (it holds: {known}): give its items to begin it"
        )
    ensure_writable(file.parent, REMEDY)
    with connection(file) as database, transaction(database):
        stored = database.execute("select form from studies where name = ?", [name]).fetchone()
        n_ratings = database.execute("select count(*) from ratings where study = ?", [name]).fetchone()[0]
        if pages is not None and stored and n_ratings:
            _check_unchanged(database, file, name, stored[0], form, pages, n_ratings)
        elif pages is not None:
            _write_items(database, name, form, question, pages)
        form = database.execute("select form from studies where name = ?", [name]).fetchone()[0]
        rows = database.execute("select item from items where study = ? order by place", [name])
        ids = tuple(item for (item,) in rows)
    return Study(file, name, form, ids)


def item_order(study: Study, rater: str, seed: int = 0) -> list[str]:
    """The ids of the items in the order in which a rater sees them.

    seed: shuffles, together with the names of study and rater; an order once given stays.
    Raises RatingError: for a name that is empty or not printable, or differs from another rater's only in
        capitals; if the file cannot be used.
    """
    rater = checked_name("rater", rater)
    with connection(study.file) as database, transaction(database):
        for (other,) in database.execute("select rater from orders where study = ?", [study.name]):
            if other != rater and other.casefold() == rater.casefold():
                raise RatingError(
                    f"study {study.name!r} has a rater {other!r}: {rater!r} differs only in capitals; "
                    "write it the same, or take another name"
                )
        key = [study.name, rater]
        stored = database.execute("select items from orders where study = ? and rater = ?", key).fetchone()
        if stored:
            return json.loads(stored[0])
        order = list(study.items)
        random.Random(f"{seed}/{study.name}/{rater}").shuffle(order)
        database.execute("insert into orders values (?, ?, ?, ?)", [*key, json.dumps(order), seed])
    return order


def read_page(study: Study, item: str) -> Page:
    """An item as the file holds it.

    Raises RatingError: if the study has no such item; if the file cannot be used.
    """
    with connection(study.file) as database:
        row = database.execute(
            "select shown, pictures, key, hidden from items where study = ? and item = ?", [study.name, item]
        ).fetchone()
        if not row:
            raise RatingError(f"study {study.name!r} has no item {item!r}")
        shown, picture_keys, key, hidden = row
        pictures = []
        for picture_key in json.loads(picture_keys):
            image = database.execute("select data from images where key = ?", [picture_key]).fetchone()
            pictures.append(image[0])
    return Page(item, json.loads(shown), pictures, key, json.loads(hidden))


def studies(file: str | Path) -> list[str]:
    """The names of the studies in a file, oldest first; none if the file does not exist.

    Raises RatingError: if it is no file of ratings.
    """
    if not Path(file).exists():
        return []
    with connection(Path(file), read_only=True) as database:
        return [name for (name,) in database.execute("select name from studies order by created, name")]


def _write_items(
    database: sqlite3.Connection, name: str, form: str, question: str, pages: list[Page]
) -> None:
    """Put a study's items into the file, in the place of earlier ones that nobody has rated."""
    for table, column in (("studies", "name"), ("items", "study"), ("orders", "study")):
        database.execute(f"delete from {table} where {column} = ?", [name])
    database.execute("insert into studies values (?, ?, ?, ?)", [name, form, question, utc_now()])
    for place, page in enumerate(pages):
        keys = [hashlib.sha256(data).hexdigest() for data in page.pictures]
        for key, data in zip(keys, page.pictures, strict=True):
            database.execute("insert or ignore into images values (?, ?)", [key, data])
        texts = [json.dumps(value) for value in (page.shown, keys, page.hidden)]
        row = [name, page.id, place, page.key, *texts]
        database.execute("insert into items values (?, ?, ?, ?, ?, ?, ?)", row)
    # images of the earlier items
    database.execute(
        "delete from images where key not in (select value from items, json_each(items.pictures))"
    )


def _check_unchanged(
    database: sqlite3.Connection,
    file: Path,
    name: str,
    stored_form: str,
    form: str,
    pages: list[Page],
    n_ratings: int,
) -> None:
    """Raise RatingError if form or items differ from those that were rated."""
    remedy = "give the study a new name, or open it without items to go on with those in the file"
    if form != stored_form:
        raise RatingError(
            f"study {name!r} in {file} has {n_ratings} ratings of form {stored_form!r}, "
            f"not {form!r}: {remedy}"
        )
    old = dict(database.execute("select item, key from items where study = ?", [name]).fetchall())
    new = {page.id: page.key for page in pages}
    differences = {
        "changed": [item for item in new if item in old and old[item] != new[item]],
        "new": [item for item in new if item not in old],
        "missing": [item for item in old if item not in new],
    }
    parts = [f"{len(ids)} {kind} (first {ids[0]!r})" for kind, ids in differences.items() if ids]
    if parts:
        raise RatingError(
            f"study {name!r} in {file} has {n_ratings} ratings, but its items are no longer those that were "
            f"rated: {', '.join(parts)}; {remedy}"
        )


def checked_name(kind: str, name: str) -> str:
    """A name without blanks around it. Raises RatingError if it is empty or not printable."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise RatingError(f"the {kind}'s name must be a printable text, not {name!r}")
    return name.strip()


def utc_now() -> str:
    """The time in ISO 8601, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
