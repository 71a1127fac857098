"""The SQLite file behind the ratings: created where there is none, refused where it is something else."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from xaihelpers.rating.items import RatingError

APPLICATION_ID = 0x78726174  # marks the file as one of ratings ("xrat")
VERSION = 1  # of the tables below
TIMEOUT = 30  # seconds that one writer waits for another
REMEDY = "make room or permit writing there, or name another file for the ratings"
TABLES = """
create table studies (name text primary key, form text not null, question text not null,
    created text not null);
create table images (key text primary key, data blob not null);
create table items (study text not null, item text not null, place integer not null, key text not null,
    shown text not null, pictures text not null, hidden text not null, primary key (study, item));
create table orders (study text not null, rater text not null, items text not null, seed integer not null,
    primary key (study, rater));
create table ratings (id integer primary key autoincrement, study text not null, rater text not null,
    item text not null, form text not null, answer text not null, rating real not null,
    position integer not null, seconds real, time text not null, ended text, ended_by text);
create unique index one_in_force on ratings (study, rater, item) where ended is null;
"""


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """A transaction that has the write lock from its beginning: what it reads stays until it writes."""
    database.execute("begin immediate")
    try:
        yield
    except BaseException:
        database.execute("rollback")
        raise
    database.execute("commit")


@contextlib.contextmanager
def connection(file: Path, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection for one piece of work: none stays open, so that a killed kernel holds no lock.

    file: created with empty tables if it does not exist and `read_only` is false.
    Raises RatingError: if the file is a folder, damaged, or a database of another program or version, or
        cannot be used (full disk, no permission, another writer that does not finish).
    """
    if file.is_dir():
        raise RatingError(f"{file} is a folder, not a file of ratings")
    database = None
    try:
        database = _open_read_only(file) if read_only else _open_for_writing(file)
        _check_version(database, file)
        database.execute(
            "pragma synchronous = full"
        )  # an answer is on the disk before the next item is shown
        yield database
    except sqlite3.OperationalError as error:
        raise RatingError(f"cannot use the file of ratings {file} ({error}): {REMEDY}") from error
    except sqlite3.DatabaseError as error:
        raise RatingError(
            f"{file} is no file of ratings, or is damaged ({error}): name another, or restore it from a copy"
        ) from error
    finally:
        if database is not None:
            database.close()


def _open_read_only(file: Path) -> sqlite3.Connection:
    # SQLite needs to create a file beside the one that it reads, unless told that nobody writes to it
    # (immutable). In a read-only folder the former is impossible and the latter true.
    nobody_writes = not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()
    mode = "immutable=1" if nobody_writes else "mode=ro"
    address = f"{file.resolve().as_uri()}?{mode}"
    return sqlite3.connect(address, uri=True, timeout=TIMEOUT, isolation_level=None)


def _open_for_writing(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=TIMEOUT, isolation_level=None)
    try:
        if _pragma(database, "user_version") == 0:
            _create_tables(database)
    except BaseException:
        database.close()
        raise
    return database


def _create_tables(database: sqlite3.Connection) -> None:
    """Create the tables in an empty file; a file with tables stays as it is."""
    if database.execute("select count(*) from sqlite_master").fetchone()[0]:
        return  # another program's, or created by another process in this moment: `_check_version` decides
    deadline = time.monotonic() + TIMEOUT
    while _pragma(database, "journal_mode") != "wal":  # SQLite's timeout does not apply to this change
        try:
            database.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    with transaction(database):
        if _pragma(database, "user_version") == 0:
            for statement in TABLES.split(";"):
                if statement.strip():
                    database.execute(statement)
            database.execute(f"pragma application_id = {APPLICATION_ID}")
            database.execute(f"pragma user_version = {VERSION}")


def _check_version(database: sqlite3.Connection, file: Path) -> None:
    version = _pragma(database, "application_id"), _pragma(database, "user_version")
    if version != (APPLICATION_ID, VERSION):
        raise RatingError(
            f"{file} is a database of another program or version: name another file for the ratings"
        )


def _pragma(database: sqlite3.Connection, name: str):
    return database.execute(f"pragma {name}").fetchone()[0]
