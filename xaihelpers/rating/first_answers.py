"""Answers of which the first counts, one row each in a file of ratings: guesses, choices made stage by stage.

They need no picture in the file. Several raters and kernels may write at once: the index of answers in force
decides who was first.
"""

from pathlib import Path

import pandas as pd

from xaihelpers.paths import ensure_writable
from xaihelpers.rating.answers import COLUMNS, ratings
from xaihelpers.rating.database import REMEDY, connection, transaction
from xaihelpers.rating.study import checked_name, studies, utc_now


def commit(
    file: str | Path,
    study: str,
    rater: str,
    item: str,
    answer: str,
    rating: float,
    question: str = "",
    position: int = 0,
    seconds: float | None = None,
) -> tuple[str, float]:
    """Store an answer unless the rater has given one to this item; returns the answer and rating that stand.

    On return it is on the disk. The columns are those of `ratings`; the study is begun if there is none.
    Raises RatingError: for an empty name, and if the file cannot be used. Raises FolderError: if its folder
        cannot be written.
    """
    file, study, rater = Path(file), checked_name("study", study), checked_name("rater", rater)
    ensure_writable(file.parent, REMEDY)
    with connection(file) as database, transaction(database):
        database.execute(
            "insert or ignore into studies values (?, 'first answer', ?, ?)", [study, question, utc_now()]
        )
        database.execute(
            "insert or ignore into ratings "
            "(study, rater, item, form, answer, rating, position, seconds, time) "
            "values (?, ?, ?, 'first answer', ?, ?, ?, ?, ?)",
            [study, rater, item, answer, rating, position, seconds, utc_now()],
        )
        standing = database.execute(
            "select answer, rating from ratings where study = ? and rater = ? and item = ? and ended is null",
            [study, rater, item],
        )
        return standing.fetchone()


def committed(file: str | Path, study: str) -> pd.DataFrame:
    """All answers of a study, as `ratings` has them; an empty table where there is no file or study.

    Raises RatingError: if the file is no file of ratings.
    """
    if study not in studies(file):
        return pd.DataFrame(columns=COLUMNS)
    return ratings(file, study)
