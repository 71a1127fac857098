"""`ask(model, requests)`: one way to question any model; every answer is kept on disk as it comes."""

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, fields, replace
from math import inf

import diskcache
from filelock import FileLock
from tqdm.auto import tqdm

from xaihelpers import paths, spending
from xaihelpers.ask.messages import Answer, AskError, Request, request_keys, request_records, without_thoughts

log = logging.getLogger(__name__)
PATIENCE = 60.0  # seconds in which a file that others write is tried again; diskcache's opening does not wait
REMEDY = "make room, permit writing there, or set XAI_DATA"
LONGER = 4  # times as many tokens for an answer that max_tokens ended
FIELDS = {field.name for field in fields(Answer)}
# Neither a memory map nor a write-ahead log, whose index is one: where another process truncates a mapped
# file, reading it kills this one; and network file systems do not support it.
SETTINGS = {
    "eviction_policy": "none",
    "sqlite_mmap_size": 0,
    "sqlite_journal_mode": "truncate",
    "sqlite_synchronous": 2,
}


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
    Raises AskError: the model cannot be asked at all, answers cannot be kept, or a temperature below 0.
        Answers that came before an error, an interruption or a kill are kept.
    Raises SpendingError: what may be spent is spent, or a model on another machine has no price.
    Raises ValueError for an image that cannot be read.
    """
    if not 0 <= temperature < inf:
        raise AskError(f"temperature is {temperature}: 0 takes the most probable token, above 0 samples")
    account = spending.account()
    price = account.price_of(model.name, getattr(model, "base", ""))
    settings = {"seed": seed, "temperature": temperature}
    records = request_records(requests)
    keys = request_keys(records, model.identity, settings)
    numbers: dict[str, int] = {}  # of the first request of each key
    for number, key in enumerate(keys):
        numbers.setdefault(key, number)
    cache, answers = open_cache(numbers)
    n_cached, failures = len(answers), []
    answers |= shipped_answers(numbers.keys() - answers.keys())
    n_kept = len(answers)
    missing = [key for key in numbers if key not in answers]
    questions = [requests[numbers[key]] for key in missing]
    with closing(cache):
        account.expect(model.name, price, questions, n_kept)
        new = model.answer(questions, seed, temperature) if missing else ()
        shown = tqdm(new, f"asking {model.name}", len(missing), disable=not (progress and missing))
        try:
            for position, answer in shown:
                key = missing[position]
                answers[key] = answer
                if answer.error:
                    failures.append(answer.error)
                else:
                    _keep(cache, key, answer, {"model": model.identity, **settings, **records[numbers[key]]})
                account.add(model.name, answer, questions[position], price)
        finally:
            account.under_way.clear()  # of requests that were cut off
            n_asked = len(answers) - n_kept
            told = f"{n_asked} asked, {n_cached} from the cache"
            if n_kept > n_cached:
                told += f", {n_kept - n_cached} that ship (XAI_RECORD_AGAIN=1 asks anew)"
            if n_asked < len(missing):
                told += f", {len(missing) - n_asked} left"
            if failures:
                told += f", {len(failures)} without an answer (first: {failures[0]})"
            if progress or failures:
                log.info("%s: %s", model.name, told)
    read = {key: without_thoughts(answer) for key, answer in answers.items()}
    return [read[key] for key in keys]


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


def open_cache(keys: Iterable[str] = ()) -> tuple[diskcache.Cache, dict[str, Answer]]:
    """The answers on disk, in `answers/` of `paths.cache_home()` (SQLite, JSON), and those to some keys.

    A damaged file is set aside under another name and a new one begun; one that another process has begun
    meanwhile stays. A row of another version is not among the answers.
    Raises AskError: a folder that may not be written, a full disk.
    """
    folder = paths.cache_home() / "answers"
    file, given_up, n_damaged = folder / diskcache.core.DBNAME, time.monotonic() + PATIENCE, 0
    while True:
        answers, opened = {}, file.exists() and file.stat().st_ino
        try:
            cache = diskcache.Cache(str(folder), disk=diskcache.JSONDisk, **SETTINGS)
            for key in keys:
                row = cache.get(key, retry=True)
                if row is not None and row.keys() <= FIELDS:
                    answers[key] = Answer(**row)
            return cache, answers
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error) and time.monotonic() < given_up:
                time.sleep(0.05)
                continue
            if isinstance(error, (sqlite3.OperationalError, OSError)) or n_damaged:
                raise AskError(f"Answers cannot be kept in {folder} ({error}): {REMEDY}") from error
            with FileLock(folder.with_suffix(".lock")):
                if file.exists() and file.stat().st_ino == opened:
                    paths.set_aside(folder, error)
            n_damaged += 1


def _keep(cache: diskcache.Cache, key: str, answer: Answer, asked: dict) -> None:
    """Write an answer; on return it is on the disk.

    asked: model, settings and request (JSON), for those who read the answers without asking.
    """
    tag = json.dumps({**asked, "time": time.time()}, ensure_ascii=False)
    try:
        cache.set(key, asdict(answer), tag=tag, retry=True)
    except (sqlite3.Error, OSError) as error:
        raise AskError(f"Answers cannot be kept in {cache.directory} ({error}): {REMEDY}") from error


def latest_identity(name: str) -> str | None:
    """Under which identity the latest answers of a local model of this name are kept; None of none."""
    query = """SELECT json_extract(tag, '$.model') AS model FROM Cache
        WHERE json_valid(tag) AND instr(model, ?) = 1 ORDER BY store_time DESC LIMIT 1"""
    with closing(open_cache()[0]) as cache:
        row = cache._sql(query, (f"{name} ",)).fetchone()
    return row and row[0]


def shipped_answers(keys: Iterable[str]) -> dict[str, Answer]:
    """Those of the answers that ship (data/answers, in the cache's own format), of the shipped annotator.

    They stand in where the cache has none, unless the environment variable XAI_RECORD_AGAIN is set.
    """
    file, answers = paths.answers_home() / diskcache.core.DBNAME, {}
    if os.environ.get("XAI_RECORD_AGAIN") or not file.exists():
        return answers
    disk = diskcache.JSONDisk(str(file.parent))
    # unlike diskcache, which writes its settings, this leaves the file as it is
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for key in keys:
            query = "SELECT mode, value FROM Cache WHERE key = ?"
            if row := connection.execute(query, (disk.put(key)[0],)).fetchone():
                answers[key] = Answer(**disk.fetch(row[0], None, row[1], False))
    return answers
