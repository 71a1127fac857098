"""`ask(model, requests)`: one way to question any model; every answer is kept on disk as it comes."""

import json
import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace

import diskcache
from filelock import FileLock
from tqdm.auto import tqdm

from xaihelpers import paths, spending
from xaihelpers.ask.messages import Answer, Request, request_keys, request_record

log = logging.getLogger(__name__)
LONGER = 4  # times as many tokens for an answer that max_tokens ended
# a full disk, a lock that another process holds, a file that may not be written: the file is not damaged;
# SQLITE_ERROR is: its tables are of another program ("no such column: key")
NOT_DAMAGE = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.IntegrityError)


def ask(
    model, requests: Sequence[Request], seed: int = 0, temperature: float = 0.0, progress: bool = True
) -> list[Answer]:
    """The answer to each request, in order.

    Equal requests are asked once. What was answered earlier is read from the disk, or from the answers that
    ship. An answer that could not be had holds its `error`: it is counted in the line logged at the end, is
    not kept, and is asked for again next time.

    model: as `load_vlm` gives it.
    seed, temperature: of sampling; at 0 the most probable token is taken each time.
    progress: show a bar, and log a line at the end.
    Raises AskError: the model cannot be asked at all, or an image cannot be read. Answers that came before an
        error, an interruption or a kill are kept.
    Raises SpendingError: what may be spent is spent, or a model on another machine has no price.
    """
    account = spending.account()
    price = account.price_of(model.name, getattr(model, "base", ""))
    settings = {"seed": seed, "temperature": temperature}
    keys = request_keys(requests, model.identity, settings)
    request_of = dict(zip(reversed(keys), reversed(requests), strict=True))  # the first request of each key
    answers: dict[str, Answer] = {}
    failures: list[str] = []
    with closing(AnswersOnDisk()) as disk:
        for key in request_of:
            if (answer := disk.get(key)) is not None:
                answers[key] = answer
        n_cached = len(answers)
        with closing(ReadyAnswers()) as ready:
            for key in request_of:
                if key not in answers and (answer := ready.get(key)) is not None:
                    answers[key] = answer
        n_ready = len(answers) - n_cached
        missing = [key for key in dict.fromkeys(keys) if key not in answers]
        account.expect(model.name, price, [request_of[key] for key in missing], n_cached + n_ready)
        try:
            if missing:
                new_answers = model.answer([request_of[key] for key in missing], seed, temperature)
                bar = tqdm(new_answers, f"asking {model.name}", len(missing), disable=not progress)
                for position, answer in bar:
                    key = missing[position]
                    answers[key] = answer
                    if answer.error:
                        failures.append(answer.error)
                    else:
                        asked = {"model": model.identity, **settings, **request_record(request_of[key])}
                        disk.keep(key, answer, asked)
                    account.add(model.name, answer, request_of[key], price)
        finally:
            account.under_way.clear()  # of requests that were cut off
            if progress or failures:
                n_asked = len(answers) - n_cached - n_ready
                lost = f", {len(failures)} without an answer (first: {failures[0]})" if failures else ""
                left = f", {len(missing) - n_asked} left" if n_asked < len(missing) else ""
                warned = model.warnings.items() if missing else ()
                warnings = "".join(f"; {count} × {text}" for text, count in warned)
                log.info(
                    "%s: %d asked, %d from the cache%s%s%s%s",
                    model.name,
                    n_asked,
                    n_cached,
                    f", {n_ready} that ship (XAI_RECORD_AGAIN=1 asks anew)" if n_ready else "",
                    left,
                    lost,
                    warnings,
                )
    return [answers[key] for key in keys]


def ask_whole(
    model, requests: Sequence[Request], is_whole: Callable[[Answer], bool] | None = None, **settings
) -> list[Answer]:
    """The answer to each request, in order; one that max_tokens ended is asked for once more.

    model, settings: as of `ask`.
    is_whole: whether an answer that was cut off holds all that is wanted of it; without it none does.
    Raises as `ask` does.
    """
    answers = ask(model, requests, **settings)
    cut = []
    for n, answer in enumerate(answers):
        if answer.truncated and not (is_whole and is_whole(answer)):
            cut.append(n)
    longer = [replace(requests[n], max_tokens=LONGER * requests[n].max_tokens) for n in cut]
    for n, answer in zip(cut, ask(model, longer, **settings) if cut else (), strict=True):
        answers[n] = answer
    return answers


class ReadyAnswers:
    """The answers that ship (data/answers, in the cache's own format): of the shipped annotator, to read.

    They stand in where the cache has none, unless the environment variable XAI_RECORD_AGAIN is set.
    """

    def __init__(self):
        self._file = file = paths.answers_home() / diskcache.core.DBNAME
        self._connection = None
        if file.exists() and not os.environ.get("XAI_RECORD_AGAIN"):
            # unlike diskcache, which writes its settings, this leaves the file as it is
            self._connection = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
            self._disk = diskcache.JSONDisk(str(file.parent))

    def get(self, key: str) -> Answer | None:
        """The answer that ships under a key of `request_keys`; None where there is none."""
        if self._connection is None:
            return None
        query = "SELECT mode, value FROM Cache WHERE key = ?"
        try:
            row = self._connection.execute(query, (self._disk.put(key)[0],)).fetchone()
        except sqlite3.Error as error:
            log.warning("%s cannot be read (%s): restore it; its answers are asked for", self._file, error)
            self.close()
            return None
        return row and Answer(**self._disk.fetch(row[0], None, row[1], False), cached=True)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class AnswersOnDisk:
    """The cache of answers: an SQLite file in `answers/` of `paths.cache_home()`, with values as JSON.

    A damaged cache is set aside under another name and a new one begun. Where answers cannot be kept (a full
    disk, a folder that may not be written), this is logged once; `get` then finds nothing and `keep` does
    nothing.
    """

    def __init__(self):
        self.folder = paths.cache_home() / "answers"
        self._cache: diskcache.Cache | None = None
        self._usable = True
        self._attempt(lambda cache: None)

    def get(self, key: str) -> Answer | None:
        """The answer kept under `key`; None where there is none, or none that can be read."""
        try:
            row = self._attempt(lambda cache: cache.get(key))
            return None if row is None else Answer(**row, cached=True)
        except (TypeError, ValueError, zlib.error):  # a row of another version, or a damaged value
            return None

    def keep(self, key: str, answer: Answer, asked: dict | None = None) -> None:
        """Write an answer; on return it is on the disk, or a warning has said why not.

        asked: model, settings and request (JSON), for those who read the answers without asking.
        """
        row = asdict(answer)
        del row["cached"]
        tag = None if asked is None else json.dumps({**asked, "time": time.time()}, ensure_ascii=False)
        self._attempt(lambda cache: cache.set(key, row, tag=tag))

    def identity_of(self, name: str) -> str | None:
        """Under which identity the latest answers of a local model of this name are kept; None of none."""
        query = """SELECT json_extract(tag, '$.model') AS model FROM Cache
            WHERE json_valid(tag) AND instr(model, ?) = 1 ORDER BY store_time DESC LIMIT 1"""
        rows = self._attempt(lambda cache: cache._sql(query, (f"{name} ",)).fetchall())
        return rows[0][0] if rows else None

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        if self._cache is not None:
            with suppress(sqlite3.Error):
                self._cache.close()
            self._cache = None

    def _attempt(self, operation: Callable[[diskcache.Cache], object]) -> object:
        """What `operation` returns; None where the cache cannot be used.

        After an error the file is opened afresh, since another process may have replaced it. A damaged file
        is set aside.
        """
        problem: Exception | None = None
        for attempt in range(3 if self._usable else 0):
            try:
                if self._cache is None:
                    self._cache = self._open()
                return operation(self._cache)
            except (sqlite3.Error, OSError, diskcache.Timeout) as error:
                problem = error
                self.close()
                if _is_damage(error) and attempt > 0:
                    self._set_aside(error)
        if problem is not None:
            self._usable = False
            log.warning(
                "Answers cannot be kept in %s (%s): they are used, but will be asked for again next time. "
                "Make room or permit writing there.",
                self.folder,
                problem,
            )
        return None

    def _open(self) -> diskcache.Cache:
        file = self.folder / diskcache.core.DBNAME
        self._opened = file.stat().st_ino if file.exists() else None
        # Neither a memory map nor a write-ahead log, whose index is one: where another process truncates a
        # mapped file, reading it kills this one; and network file systems do not support it.
        settings = {
            "eviction_policy": "none",
            "sqlite_mmap_size": 0,
            "sqlite_journal_mode": "truncate",
            "sqlite_synchronous": 2,
        }
        return diskcache.Cache(str(self.folder), disk=diskcache.JSONDisk, **settings)

    def _set_aside(self, error: Exception) -> None:
        """Set the damaged file aside; one that another process has begun anew meanwhile stays."""
        # without the right to write a lock nothing can be moved, either
        with suppress(OSError), FileLock(self.folder.with_suffix(".lock")):
            if (self.folder / diskcache.core.DBNAME).stat().st_ino == self._opened:
                paths.set_aside(self.folder, error)


def _is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no sound cache."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:  # an OSError has no such code
        return True
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, NOT_DAMAGE)
