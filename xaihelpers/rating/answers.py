"""The answers in a file of ratings, by any number of raters and kernels on one machine at a time.

All answers ever given stay: one that was undone or replaced keeps the time and the reason of its end.
"""

import json
import os
from pathlib import Path

import pandas as pd

from xaihelpers.paths import ensure_writable
from xaihelpers.rating.database import connection, transaction
from xaihelpers.rating.items import RatingError, choices
from xaihelpers.rating.study import Study, checked_name, read_page, studies, utc_now

COLUMNS = ["item", "rater", "rating", "answer", "form", "position", "seconds", "time"]
HISTORY_COLUMNS = ["ended", "ended_by"]


def rate(
    study: Study,
    rater: str,
    item: str,
    answer: str,
    position: int = 0,
    seconds: float | None = None,
    key: str = "",
) -> None:
    """Store one answer; on return it is on the disk. An earlier one to this item is marked as replaced.

    position: the item's place in the rater's order, from 1. seconds: how long it was in view.
    key: of the page that the rater saw, to be compared with the stored one; "" compares nothing.
    Raises RatingError: for an answer that the form does not have; for an unknown item; if the item is no
        longer the one that was seen; for an invalid name of the rater; if the file cannot be used.
    """
    rater, page = checked_name("rater", rater), read_page(study, item)
    if key and key != page.key:
        raise RatingError(
            f"item {item!r} of study {study.name!r} was replaced after it was shown: run the cell again"
        )
    numbers = {choice.answer: choice.rating for choice in choices(study.form, page.shown["options"])}
    answer = str(answer)
    if answer not in numbers:
        raise RatingError(
            f"{answer!r} is no answer to item {item!r}: form {study.form!r} has {', '.join(numbers)}"
        )
    with connection(study.file) as database, transaction(database):
        database.execute(
            "update ratings set ended = ?, ended_by = 'replaced' "
            "where study = ? and rater = ? and item = ? and ended is null",
            [utc_now(), study.name, rater, item],
        )
        database.execute(
            "insert into ratings (study, rater, item, form, answer, rating, position, seconds, time) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [study.name, rater, item, study.form, answer, numbers[answer], position, seconds, utc_now()],
        )


def undo(study: Study, rater: str) -> str | None:
    """Take back the rater's latest current answer; returns its item or None. The row stays, marked undone.

    Raises RatingError: for an invalid name of the rater; if the file cannot be used.
    """
    with connection(study.file) as database, transaction(database):
        last = database.execute(
            "select id, item from ratings where study = ? and rater = ? and ended is null "
            "order by id desc limit 1",
            [study.name, checked_name("rater", rater)],
        ).fetchone()
        if last is None:
            return None
        rating_id, item = last
        database.execute(
            "update ratings set ended = ?, ended_by = 'undone' where id = ?", [utc_now(), rating_id]
        )
    return item


def current_answers(study: Study, rater: str) -> dict[str, str]:
    """The rater's answers that were neither undone nor replaced: item -> answer, in the order given.

    Raises RatingError: for an invalid name of the rater; if the file cannot be used.
    """
    with connection(study.file) as database:
        rows = database.execute(
            "select item, answer from ratings where study = ? and rater = ? and ended is null order by id",
            [study.name, checked_name("rater", rater)],
        )
        return dict(rows.fetchall())


def ratings(file: str | Path, study: str = "", history: bool = False, hidden: bool = False) -> pd.DataFrame:
    """The current answers as a tidy table, one a row.

    Columns: item, rater, rating, answer, form, position, seconds, time (UTC). The rating is 1 to 4 for form
    "scale", 0 to 5 for "attention", 1, 0.5 or 0 for yes, somewhat or no, the option's number for "pick".
    study: may be left out where the file has only one.
    history: adds the answers that were undone or replaced, with the columns `ended` and `ended_by`.
    hidden: adds what the items keep hidden, as further columns.
    Raises RatingError: for a missing file or study, for several studies without a name, and for a file that
        is no file of ratings.
    """
    if not Path(file).exists():
        raise RatingError(f"there is no file of ratings {file}: nobody has rated, or it lies elsewhere")
    study = _known_study(Path(file), study)
    columns = COLUMNS + HISTORY_COLUMNS if history else COLUMNS
    current = "" if history else "and ended is null"
    with connection(Path(file), read_only=True) as database:
        rows = database.execute(
            f"select {', '.join(columns)} from ratings where study = ? {current} order by id", [study]
        ).fetchall()
        stored = database.execute("select item, hidden from items where study = ?", [study])
        hidden_of_item = {item: json.loads(text) for item, text in stored}
    table = pd.DataFrame(rows, columns=columns)
    table = table.astype({"rating": float, "position": int, "seconds": float})
    if hidden:
        names = dict.fromkeys(name for values in hidden_of_item.values() for name in values)
        for name in names:
            if name not in columns:
                table[name] = [hidden_of_item[item].get(name) for item in table["item"]]
    return table


def export(file: str | Path, csv: str | Path, study: str = "") -> pd.DataFrame:
    """Write the table of `ratings`, with what the items keep hidden, to a CSV file, whole or not at all.

    Lists among what is hidden are written as JSON.

    Raises RatingError: as `ratings`. Raises FolderError: if the CSV file's folder cannot be written.
    """
    table, csv = ratings(file, study, hidden=True), Path(csv)
    ensure_writable(csv.parent, "make room or permit writing there, or name another file to export to")
    part = csv.with_name(f".{csv.name}.{os.getpid()}.part")
    try:
        table.map(_csv_value).to_csv(part, index=False)
        os.replace(part, csv)
    finally:
        part.unlink(missing_ok=True)
    return table


def _csv_value(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _known_study(file: Path, study: str) -> str:
    """The name of a study of a file; "" means its only one."""
    known = studies(file)
    listed = ", ".join(known) or "none"
    if study and study not in known:
        raise RatingError(f"there is no study {study!r} in {file}; it holds: {listed}")
    if not study and len(known) != 1:
        raise RatingError(f"name the study in {file}; it holds: {listed}")
    return study or known[0]
