"""The file of ratings: SQLite, written at once with every answer, by any number of raters and kernels on one machine at a time.

A file holds studies. A study holds its items (pictures included, so that the file alone is enough to go on rating), the order in which each rater
sees them, and all answers ever given: one that was undone or replaced stays, marked by when and how it ended.
"""
import hashlib
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pandas as pd

from ..paths import data_home, ensure_writable
from .database import REMEDY, connected, writing
from .items import Item, Page, RatingError, choices, prepare

STANDING = "from ratings where study = ? and rater = ? and ended is null"
COLUMNS = ["item", "rater", "rating", "answer", "form", "position", "seconds", "time"]


@dataclass(frozen=True)
class Study:
    """A study in a file of ratings: its name, its form of answer and the ids of its items; made by `open_study`."""

    file: Path
    name: str
    form: str
    items: tuple[str, ...]


def ratings_file(name: str = "ratings.sqlite") -> Path:
    """The file of ratings: a bare name lies in `ratings/` of the data folder, or in the folder that XAI_RATINGS names; anything with a separator is a path."""
    is_path = "/" in name or os.sep in name or name.startswith(("~", "."))
    folder = Path(os.environ.get("XAI_RATINGS") or data_home() / "ratings")
    return (Path(name) if is_path else folder / name).expanduser().resolve()


def open_study(file: str | Path, name: str, items: Sequence[Item | dict] | None = None, form: str = "scale", question: str = "") -> Study:
    """Open a study, or begin it with `items`; without items it is taken as the file holds it.

    While nobody has rated, other items replace the earlier ones. Raises RatingError if items, form or question are no longer those that were rated, saying
    which; for an unknown study without items; for a file that is no file of ratings; FolderError if its folder cannot be written.
    """
    name, file = _name("study", name), Path(file)
    pages = None if items is None else prepare(items, form, question)
    if pages is None and name not in studies(file):
        raise RatingError(f"there is no study {name!r} in {file} (it holds: {', '.join(studies(file)) or 'none'}): give its items to begin it")
    ensure_writable(file.parent, REMEDY)
    with connected(file) as db, writing(db):
        row = db.execute("select form from studies where name = ?", [name]).fetchone()
        rated = db.execute("select count(*) from ratings where study = ?", [name]).fetchone()[0]
        if pages is not None and row and rated:
            _check_same(db, file, name, row[0], form, pages, rated)
        elif pages is not None:
            _begin(db, name, form, question, pages)
        form = db.execute("select form from studies where name = ?", [name]).fetchone()[0]
        ids = [i for (i,) in db.execute("select item from items where study = ? order by place", [name])]
    return Study(file, name, form, tuple(ids))


def order_of(study: Study, rater: str, seed: int = 0) -> list[str]:
    """The ids of the items in the order in which `rater` sees them: shuffled by seed, study and rater, and fixed when first asked for."""
    rater = _name("rater", rater)
    with connected(study.file) as db, writing(db):
        for (other,) in db.execute("select rater from orders where study = ?", [study.name]):
            if other != rater and other.casefold() == rater.casefold():
                raise RatingError(f"study {study.name!r} has a rater {other!r}: {rater!r} differs only in capitals; write it the same, or take another name")
        found = db.execute("select items from orders where study = ? and rater = ?", [study.name, rater]).fetchone()
        if found:
            return json.loads(found[0])
        order = list(study.items)
        random.Random(f"{seed}/{study.name}/{rater}").shuffle(order)
        db.execute("insert into orders values (?, ?, ?, ?)", [study.name, rater, json.dumps(order), seed])
    return order


def page_of(study: Study, item: str) -> Page:
    """An item as the file holds it. Raises RatingError if the study has no such item."""
    with connected(study.file) as db:
        row = db.execute("select shown, pictures, key, hidden from items where study = ? and item = ?", [study.name, item]).fetchone()
        if not row:
            raise RatingError(f"study {study.name!r} has no item {item!r}")
        pictures = [db.execute("select data from images where key = ?", [key]).fetchone()[0] for key in json.loads(row[1])]
    return Page(item, json.loads(row[0]), pictures, row[2], json.loads(row[3]))


def rate(study: Study, rater: str, item: str, answer: str, position: int = 0, seconds: float | None = None, key: str = "") -> None:
    """Keep one answer; on return it is on the disk. An earlier answer of this rater to this item is marked as replaced.

    `position`: the item's place in the rater's order, from 1. `seconds`: how long it was looked at. `key`: of the page that was seen, if it is to be compared.
    Raises RatingError for an answer that the form does not have, and where the item is no longer the one that was seen.
    """
    rater, page = _name("rater", rater), page_of(study, item)
    if key and key != page.key:
        raise RatingError(f"item {item!r} of study {study.name!r} was replaced after it was shown: run the cell again")
    number = {choice.answer: choice.rating for choice in choices(study.form, page.shown["options"])}
    if str(answer) not in number:
        raise RatingError(f"{answer!r} is no answer to item {item!r}: form {study.form!r} has {', '.join(number)}")
    with connected(study.file) as db, writing(db):
        where = [study.name, rater, item]
        db.execute("update ratings set ended = ?, ended_by = 'replaced' where study = ? and rater = ? and item = ? and ended is null", [_now(), *where])
        db.execute("insert into ratings (study, rater, item, form, answer, rating, position, seconds, time) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   [*where, study.form, str(answer), number[str(answer)], position, seconds, _now()])


def undo(study: Study, rater: str) -> str | None:
    """Take back the rater's latest answer that stands, and return its item (None if there is none); the row stays, marked as undone."""
    with connected(study.file) as db, writing(db):
        last = db.execute(f"select id, item {STANDING} order by id desc limit 1", [study.name, _name("rater", rater)]).fetchone()
        if last:
            db.execute("update ratings set ended = ?, ended_by = 'undone' where id = ?", [_now(), last[0]])
    return last[1] if last else None


def rated(study: Study, rater: str) -> dict[str, str]:
    """The rater's answers that stand: item -> answer, in the order given."""
    with connected(study.file) as db:
        return dict(db.execute(f"select item, answer {STANDING} order by id", [study.name, _name("rater", rater)]).fetchall())


def studies(file: str | Path) -> list[str]:
    """The names of the studies in a file; none if the file does not exist."""
    if not Path(file).exists():
        return []
    with connected(Path(file), read_only=True) as db:
        return [name for (name,) in db.execute("select name from studies order by created, name")]


def ratings(file: str | Path, study: str = "", history: bool = False, hidden: bool = False) -> pd.DataFrame:
    """The answers that stand as a tidy table, one a row: item, rater, rating, answer, form, position, seconds, time (UTC).

    `rating`: 1 to 4, or 0 to 5 for attention; 1, 0.5 or 0 for yes, somewhat or no; the option's number for "pick". `study` may be left out where the file has one. `history`: also
    answers that were undone or replaced, with `ended` and `ended_by`. `hidden`: what the items kept hidden, as further columns.
    Raises RatingError for no such file or study, or several.
    """
    if not Path(file).exists():
        raise RatingError(f"there is no file of ratings {file}: nobody has rated, or it lies elsewhere")
    held = studies(file)
    if (study and study not in held) or (not study and len(held) != 1):
        raise RatingError(f"{f'there is no study {study!r} in' if study else 'name the study in'} {file}; it holds: {', '.join(held) or 'none'}")
    columns = COLUMNS + (["ended", "ended_by"] if history else [])
    with connected(Path(file), read_only=True) as db:
        which = "" if history else "and ended is null"
        rows = db.execute(f"select {', '.join(columns)} from ratings where study = ? {which} order by id", [study or held[0]]).fetchall()
        about = {i: json.loads(text) for i, text in db.execute("select item, hidden from items where study = ?", [study or held[0]])}
    table = pd.DataFrame(rows, columns=columns).astype({"rating": float, "position": int, "seconds": float})
    if hidden:
        names = [name for name in dict.fromkeys(name for item in about.values() for name in item) if name not in columns]
        table = table.assign(**{name: [about[item].get(name) for item in table["item"]] for name in names})
    return table


def export(file: str | Path, csv: str | Path, study: str = "") -> pd.DataFrame:
    """Write the tidy table of `ratings`, with what the items kept hidden, to a CSV file, whole or not at all, and return it."""
    table, csv = ratings(file, study, hidden=True), Path(csv)
    ensure_writable(csv.parent, "make room or permit writing there, or name another file to export to")
    part = csv.with_name(f".{csv.name}.{os.getpid()}.part")
    try:
        table.to_csv(part, index=False)
        os.replace(part, csv)
    finally:
        part.unlink(missing_ok=True)
    return table


def _begin(db, name: str, form: str, question: str, pages: list[Page]) -> None:
    """Put a study's items into the file, in the place of earlier ones that nobody has rated."""
    for table, column in (("studies", "name"), ("items", "study"), ("orders", "study")):
        db.execute(f"delete from {table} where {column} = ?", [name])
    db.execute("insert into studies values (?, ?, ?, ?)", [name, form, question, _now()])
    for place, page in enumerate(pages):
        keys = [hashlib.sha256(data).hexdigest() for data in page.pictures]
        db.executemany("insert or ignore into images values (?, ?)", zip(keys, page.pictures))
        texts = [json.dumps(value) for value in (page.shown, keys, page.hidden)]
        db.execute("insert into items values (?, ?, ?, ?, ?, ?, ?)", [name, page.id, place, page.key, *texts])
    db.execute("delete from images where key not in (select value from items, json_each(items.pictures))")  # those of the earlier items


def _check_same(db, file: Path, name: str, stored_form: str, form: str, pages: list[Page], rated: int) -> None:
    remedy = "give the study a new name, or open it without items to go on with those in the file"
    if form != stored_form:
        raise RatingError(f"study {name!r} in {file} has {rated} ratings of form {stored_form!r}, not {form!r}: {remedy}")
    old = dict(db.execute("select item, key from items where study = ?", [name]).fetchall())
    new = {page.id: page.key for page in pages}
    groups = {"changed": [i for i in new if i in old and old[i] != new[i]], "new": [i for i in new if i not in old],
              "missing": [i for i in old if i not in new]}
    if any(groups.values()):
        found = ", ".join(f"{len(ids)} {kind} (first {ids[0]!r})" for kind, ids in groups.items() if ids)
        raise RatingError(f"study {name!r} in {file} has {rated} ratings, but its items are no longer those that were rated: {found}; {remedy}")


def _name(kind: str, name: str) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise RatingError(f"the {kind}'s name must be a printable text, not {name!r}")
    return name.strip()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
