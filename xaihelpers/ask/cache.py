"""`ask(model, requests)`: one way to question any model; every answer is kept on disk as it comes."""

import json
import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict

import diskcache
import torch
from filelock import FileLock
from tqdm.auto import tqdm

from xaihelpers import paths, spending
from xaihelpers.ask.batch_model import BatchModel
from xaihelpers.ask.local_model import LocalModel
from xaihelpers.ask.messages import Answer, AskError, Request, request_keys, request_record
from xaihelpers.ask.python_model import PythonModel
from xaihelpers.ask.replayed_model import RecordedModel, ReplayedModel
from xaihelpers.ask.server_model import ServerModel
from xaihelpers.ask.vllm_model import VllmModel
from xaihelpers.devices import resolve_device

log = logging.getLogger(__name__)
BATCH_FACTOR = 0.5  # of the price of a token, in a provider's batch
# a full disk, a lock that another process holds, a file that may not be written: the file is not damaged;
# SQLITE_ERROR is: its tables are of another program ("no such column: key")
NOT_DAMAGE = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.IntegrityError)


def load_vlm(
    name: str = "annotator",
    device: str | torch.device = "cpu",
    batch_size: int = 0,
    concurrency: int = 64,
    timeout: float = 300.0,
) -> LocalModel | ServerModel | BatchModel | VllmModel | PythonModel | ReplayedModel | RecordedModel:
    """Load a vision-language model.

    name: the shipped "annotator" or "judge", a folder or a name on Hugging Face; or "server:NAME" for a model
        behind an OpenAI-compatible server, whose address and key are read from OPENAI_BASE_URL and
        OPENAI_API_KEY; "batch:NAME" for the same by its batches, which take up to a day and cost half;
        "vllm:NAME" for a folder or a name on Hugging Face, run here by vLLM; "python:FILE" for a function of
        your own; "replay:FILE" for answers that "record:FILE:MODEL" wrote while MODEL, any of these, was
        asked.
    device, batch_size: of a local model; 0 stands for 16 on a GPU and 32 on a CPU.
    concurrency, timeout: of a server: requests at a time at most, and seconds that each may take.
    Raises AskError: the model cannot be loaded, no server is named, there is no such device; as
        `PythonModel`, `ReplayedModel` and `RecordedModel` do; a `batch_size` below 0.
    """
    _check_batch_size(batch_size)
    if name.startswith("python:"):
        return PythonModel(name.removeprefix("python:"), batch_size)
    if name.startswith("replay:"):
        return ReplayedModel(name.removeprefix("replay:"))
    if name.startswith("record:"):
        file, _, recorded = name.removeprefix("record:").partition(":")
        if not file or not recorded:
            raise AskError(f"{name}: write record:FILE:MODEL, as record:answers.jsonl:annotator")
        return RecordedModel(file, load_vlm(recorded, device, batch_size, concurrency, timeout))
    if name.startswith("server:"):
        return ServerModel(name.removeprefix("server:"), concurrency, timeout=timeout)
    if name.startswith("batch:"):
        return BatchModel(name.removeprefix("batch:"), timeout=timeout)
    if name.startswith("vllm:"):
        return VllmModel(name.removeprefix("vllm:"), batch_size)
    return LocalModel(name, resolve_device(device, AskError), batch_size)


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 0:
        raise AskError(f"batch_size is {batch_size}: it has to be 1 or more, or 0 for the usual one")


def vlm_loader(
    device: str | torch.device = "cpu", keep: str = "", batch_size: int = 0
) -> Callable[[str], LocalModel | ServerModel]:
    """A function from names to loaded models that holds one at a time, and besides it the one named `keep`.

    For notebooks that go through a list of models: one is released before the next is loaded, whoever else
    still names it. batch_size: as of `load_vlm`. The function raises AskError as `load_vlm` does.
    """
    _check_batch_size(batch_size)
    loaded: dict[str, LocalModel | ServerModel] = {}

    def load(name: str) -> LocalModel | ServerModel:
        if name not in loaded:
            if name != keep:
                for other in set(loaded) - {keep}:
                    released = loaded.pop(other)
                    if isinstance(released, LocalModel):
                        released.release()
            loaded[name] = load_vlm(name, device, batch_size)
        return loaded[name]

    return load


def ask(
    model,
    requests: Sequence[Request],
    seed: int = 0,
    temperature: float = 0.0,
    price: tuple[float, float] | None = None,
    progress: bool = True,
) -> list[Answer]:
    """The answer to each request, in order.

    Equal requests are asked once. What was answered earlier is read from the disk. An answer that could not
    be had holds its `error`: it is counted in the line logged at the end, is not kept, and is asked for again
    next time.

    model: as `load_vlm` gives it.
    seed, temperature: of sampling; at 0 the most probable token is taken each time.
    price: of a million tokens in and out; None takes that of the open account (`spending`), into which all
        answers are written. A `batch:` model costs a share of it, by default half.
    progress: show a bar, and log a line at the end.
    Raises AskError: the model cannot be asked at all, or an image cannot be read. Answers that came before an
        error, an interruption or a kill are kept.
    Raises SpendingError: what may be spent is spent, or a model on another machine has no price.
    """
    account, started = spending.account(), time.perf_counter()
    cost_of = account.price_of(model.name, getattr(model, "base", ""))
    if price is not None:
        cost_of = cost_of._replace(per_million_in=price[0], per_million_out=price[1])
        cost_of = cost_of._replace(batch_factor=BATCH_FACTOR)
    if getattr(model, "is_batch", False):
        cost_of = cost_of.in_batches()
    price = (cost_of.per_million_in, cost_of.per_million_out)
    line = account.line(model.name)
    settings = {"seed": seed, "temperature": temperature}
    keys = request_keys(requests, model.identity, settings)
    request_of = dict(zip(reversed(keys), reversed(requests), strict=True))  # the first request of each key
    answers: dict[str, Answer] = {}
    failures: list[str] = []
    with closing(AnswersOnDisk()) as disk:
        for key in request_of:
            if (answer := disk.get(key)) is not None:
                answers[key] = answer
        missing = [key for key in dict.fromkeys(keys) if key not in answers]
        n_cached = len(answers)
        line.cached += len(answers.keys() - line.keys)
        line.keys |= answers.keys()
        try:
            if missing:
                account.may_ask(model.name, cost_of)
                new_answers = model.answer([request_of[key] for key in missing], seed, temperature)
                for position, answer in _progress_bar(new_answers, len(missing), model.name, price, progress):
                    key = missing[position]
                    answers[key] = answer
                    if answer.error:
                        failures.append(answer.error)
                    else:
                        asked = {"model": model.identity, **settings, **request_record(request_of[key])}
                        disk.keep(key, answer, asked)
                    line.keys.add(key)
                    account.add(model.name, answer, len(request_of[key].images), cost_of)
                    if len(answers) < len(request_of):
                        account.may_ask(model.name, cost_of)
        finally:
            line.seconds += time.perf_counter() - started
            account.keep_progress()
            if keep := getattr(model, "keep", None):  # of a RecordedModel
                keep(request_of, answers, seed, temperature)
            if progress or failures:
                warnings = model.warnings if missing else {}
                n_asked = len(answers) - n_cached
                to_ask = len(request_of) - n_cached
                log.info("%s", _summary(model.name, n_asked, n_cached, to_ask, failures, warnings))
    for answer in answers.values():
        answer.cost = _cost(answer, price)
    return [answers[key] for key in keys]


def _progress_bar(
    new_answers: Iterable[tuple[int, Answer]],
    total: int,
    name: str,
    price: tuple[float, float],
    shown: bool,
) -> Iterator[tuple[int, Answer]]:
    """The (position, answer) pairs as they come, under a bar with the tokens and the cost so far."""
    tokens_in = tokens_out = 0
    cost = 0.0
    with tqdm(total=total, desc=f"asking {name}", disable=not shown) as bar:
        for position, answer in new_answers:
            yield position, answer
            tokens_in += answer.tokens_in
            tokens_out += answer.tokens_out
            cost += _cost(answer, price)
            note = f"{tokens_in:,} tokens in, {tokens_out:,} out"
            if any(price):
                note += f", cost {cost:.4f}"
            bar.set_postfix_str(note, refresh=False)
            bar.update()


def _summary(
    name: str, n_asked: int, n_cached: int, n_missing: int, failures: list[str], warnings: dict[str, int]
) -> str:
    line = f"{name}: {n_asked} asked, {n_cached} from the cache"
    if n_asked < n_missing:
        line += f", {n_missing - n_asked} left"
    if failures:
        line += f", {len(failures)} without an answer (first: {failures[0]})"
    return "; ".join([line, *(f"{count} × {warning}" for warning, count in warnings.items())])


def _cost(answer: Answer, price: tuple[float, float]) -> float:
    return (answer.tokens_in * price[0] + answer.tokens_out * price[1]) / 1e6


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
        del row["cached"], row["cost"]
        tag = None if asked is None else json.dumps({**asked, "time": time.time()}, ensure_ascii=False)
        self._attempt(lambda cache: cache.set(key, row, tag=tag))

    def all(self) -> Iterator[tuple[str, Answer, dict]]:
        """(key, answer, what was asked) of all that can be read, in the order in which they came."""
        for key in self._attempt(list) or []:
            answer = self.get(key)
            if answer is not None:
                _, tag = self._attempt(lambda cache, key=key: cache.get(key, tag=True)) or (None, None)
                yield key, answer, json.loads(tag or "{}")

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
            except diskcache.Timeout as error:  # locked for a minute
                problem = error
                break
            except (sqlite3.Error, OSError) as error:
                problem = error
                self.close()
                if _is_damage(error):
                    self._set_aside(error, is_certain=attempt > 0)
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
        # Neither a memory map nor a write-ahead log, whose index is one: where another process truncates a
        # mapped file, reading it kills this one; and network file systems do not support it.
        settings = {
            "eviction_policy": "none",
            "sqlite_mmap_size": 0,
            "sqlite_journal_mode": "truncate",
            "sqlite_synchronous": 2,
        }
        return diskcache.Cache(str(self.folder), disk=diskcache.JSONDisk, **settings)

    def _set_aside(self, error: Exception, is_certain: bool) -> None:
        """Set the damaged file aside, one process at a time: what another has begun anew stays."""
        # without the right to write a lock nothing can be moved, either
        with suppress(OSError), FileLock(self.folder.with_suffix(".lock")):
            if is_certain or not self._is_intact():
                paths.set_aside(self.folder, error)

    def _is_intact(self) -> bool:
        """Whether the file is missing or sound: another process may have replaced the damaged one already."""
        file = self.folder / diskcache.core.DBNAME
        if not file.exists():
            return True
        try:
            with closing(sqlite3.connect(file)) as connection:
                return connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
        except sqlite3.Error as error:
            return not _is_damage(error)


def _is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no sound cache."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:  # an OSError has no such code
        return True
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, NOT_DAMAGE)
