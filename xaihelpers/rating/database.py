"""The SQLite file behind the ratings: opened for one piece of work at a time, made where there is none, refused where it is something else."""
import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from .items import RatingError

APPLICATION, VERSION = 0x78726174, 1  # marks the file as one of ratings ("xrat"), and its tables' form
WAIT = 30  # seconds that one writer waits for another
REMEDY = "make room or permit writing there, or name another file for the ratings"
TABLES = """
create table studies (name text primary key, form text not null, question text not null, created text not null);
create table images (key text primary key, data blob not null);
create table items (study text not null, item text not null, place integer not null, key text not null, shown text not null, pictures text not null,
    hidden text not null, primary key (study, item));
create table orders (study text not null, rater text not null, items text not null, seed integer not null, primary key (study, rater));
create table ratings (id integer primary key autoincrement, study text not null, rater text not null, item text not null, form text not null,
    answer text not null, rating real not null, position integer not null, seconds real, time text not null, ended text, ended_by text);
create unique index one_in_force on ratings (study, rater, item) where ended is null;
"""


@contextlib.contextmanager
def writing(db) -> Iterator[None]:
    """One transaction that holds the right to write from its beginning: what it reads cannot change before it writes."""
    db.execute("begin immediate")
    try:
        yield
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")


@contextlib.contextmanager
def connected(file: Path, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection for one piece of work. None is kept open: the file is whole whenever nobody writes, and a killed kernel holds nothing."""
    if file.is_dir():
        raise RatingError(f"{file} is a folder, not a file of ratings")
    db = None
    try:
        db = _opened(file, read_only)
        yield db
    except sqlite3.OperationalError as error:  # full disk, read-only file, another writer that does not end
        raise RatingError(f"cannot use the file of ratings {file} ({error}): {REMEDY}") from error
    except sqlite3.DatabaseError as error:
        raise RatingError(f"{file} is no file of ratings, or is damaged ({error}): name another, or restore it from a copy") from error
    finally:
        if db is not None:
            db.close()


def _opened(file: Path, read_only: bool) -> sqlite3.Connection:
    if read_only:
        # A file that another program may yet write to is read in the ordinary way; that needs a file beside it, which a read-only folder
        # does not permit, but then nobody writes.
        frozen = not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()
        db = sqlite3.connect(f"{file.resolve().as_uri()}?{'immutable=1' if frozen else 'mode=ro'}", uri=True, timeout=WAIT, isolation_level=None)
    else:
        db = sqlite3.connect(file, timeout=WAIT, isolation_level=None)
    try:
        if not read_only and db.execute("pragma user_version").fetchone()[0] == 0:
            _make_tables(db, file)
        found = db.execute("pragma application_id").fetchone()[0], db.execute("pragma user_version").fetchone()[0]
        if found != (APPLICATION, VERSION):
            raise RatingError(f"{file} is a database of another program or version: name another file for the ratings")
        db.execute("pragma synchronous = full")  # an answer is on the disk before the next picture is shown
    except BaseException:
        db.close()
        raise
    return db


def _make_tables(db, file: Path) -> None:
    if db.execute("select count(*) from sqlite_master").fetchone()[0]:
        return  # another program's, or just made beside us: the caller looks again
    end = time.monotonic() + WAIT
    while db.execute("pragma journal_mode").fetchone()[0] != "wal":  # this change alone does not wait for other connections by itself
        try:
            db.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
    with writing(db):
        if db.execute("pragma user_version").fetchone()[0] == 0:
            for statement in filter(str.strip, TABLES.split(";")):
                db.execute(statement)
            db.execute(f"pragma application_id = {APPLICATION}")
            db.execute(f"pragma user_version = {VERSION}")
