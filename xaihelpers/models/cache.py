"""Rows of tensors kept under the content they were computed from: one safetensors file a batch.

A folder, of `features/` in `paths.cache_home()`, holds what one network in one precision makes of images or
texts. A file of it holds tensors of B rows, and in its header the content's key of each row and a checksum of
each tensor. It appears whole and never changes, so that readers need no lock; a damaged one is set aside, and
its rows are computed again. After an interruption, what was computed before is there.
"""

import contextlib
import hashlib
import json
import logging
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from tqdm.auto import tqdm

from xaihelpers import paths
from xaihelpers.models.weights import ModelError

log = logging.getLogger(__name__)
FORMAT = 2  # of the files; another one lies in folders of its own
READERS = 8  # threads that read and hash image files
Rows = dict[str, torch.Tensor]  # tensors of one row per item, by name


def content_key(content: bytes | str) -> str:
    """The sha256 that rows are kept under."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def file_keys(files: Sequence[Path]) -> list[str]:
    """The key of each file's content. Raises ModelError naming a file that cannot be read."""

    def key_of(file: Path) -> str:
        try:
            return content_key(file.read_bytes())
        except OSError as error:
            raise ModelError(
                f"{file}: image file cannot be read ({error.strerror}). Restore it, or drop it from the list."
            ) from error

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(key_of, files))


def cached_rows(
    name: str,
    identity: str,
    keys: Sequence[str],
    items: Sequence,
    shapes: dict[str, tuple[int, ...]],
    load: Callable[[Any], Any],
    forward: Callable[[list], tuple[Rows, torch.Tensor]],
    batch_size: int,
    unit: str,
    what: str = "features",
) -> Rows:
    """Tensors with one row for each item, from the cache or computed, each distinct key once.

    Of processes that want rows of one network at the same time, one computes and the others wait for it. A
    cache that cannot be written is told in one line of the log.

    identity: all that the rows depend on beside the content.
    keys: of the items' content. shapes: of one row of each tensor.
    load: prepares an item, in threads, one batch ahead.
    forward: prepared items -> tensors (B, …) by name, and which of the B rows are not finite, bool.
    name, unit, what: of the network, of one item and of its rows, in messages.
    Returns float32 tensors (len(items), …), in their order.
    Raises ModelError: no item, a batch size below 1, rows that are not finite; and what `load` raises. What
        was computed before stays in the cache.
    """
    if not len(items) or batch_size < 1:
        raise ModelError(
            f"at least one {unit} and a batch size of 1 or more are needed, not {len(items)} and {batch_size}"
        )
    item_of = dict(zip(reversed(keys), reversed(items), strict=True))  # the first of each key
    row_of = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    rows = {tensor: torch.empty(len(row_of), *shape) for tensor, shape in shapes.items()}
    folder, missing, seen = _folder(name, identity), dict(row_of), set()
    _fill(folder, missing, rows, seen)
    computed = len(missing)
    if missing:
        with _alone(folder), tqdm(desc=name, unit=unit, total=computed, leave=False, delay=1) as bar:
            _fill(folder, missing, rows, seen)  # what others wrote meanwhile
            computed = len(missing)
            bar.update(bar.total - computed)
            writable = True
            for batch, loaded in _loaded(load, list(missing), item_of, batch_size):
                values, bad = forward(loaded)
                good = [key for key, is_bad in zip(batch, bad.tolist(), strict=True) if not is_bad]
                values = {tensor: part[~bad] for tensor, part in values.items()}
                writable = writable and _write(folder, good, values)
                if bad.any():
                    first = item_of[batch[int(bad.int().argmax())]]
                    raise ModelError(
                        f"{first}: {name} gives NaN or infinite {what} for {int(bad.sum())} of {len(batch)} "
                        f"{unit}s, this one first: check the weights and the {unit}."
                    )
                places = [missing.pop(key) for key in good]
                for tensor, part in values.items():
                    rows[tensor][places] = part
                bar.update(len(good))
    cached = len(row_of) - computed
    log.info("%s features: %s from the cache, %s computed", unit, f"{cached:,}", f"{computed:,}")
    if len(row_of) == len(keys):
        return rows
    order = torch.tensor([row_of[key] for key in keys])
    return {tensor: part[order] for tensor, part in rows.items()}


def _folder(name: str, identity: str) -> Path:
    """The folder of everything computed under one identity; created here, if that is possible."""
    plain = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
    folder = paths.cache_home() / "features" / f"{plain}-{content_key(f'{FORMAT} {identity}')[:16]}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob("*.tmp"):  # of killed processes
            if time.time() - unfinished.stat().st_mtime > 3600:
                unfinished.unlink()
    return folder


def _alone(folder: Path) -> contextlib.AbstractContextManager:
    """The sole right among processes to compute rows of a folder; waits for it."""
    try:
        return FileLock(folder / "computing.lock").acquire()
    except OSError:  # the folder cannot be written: nothing is shared, so nothing needs a lock
        return contextlib.nullcontext()


def _fill(folder: Path, missing: dict[str, int], rows: Rows, seen: set[Path]) -> None:
    """Fill rows from files of the folder that are not `seen` yet, taking their keys out of `missing`."""
    for file in sorted(set(folder.glob("*.safetensors")) - seen):
        seen.add(file)
        if not missing:
            return
        try:
            with safe_open(file, framework="pt") as content:
                header = json.loads(content.metadata()["index"])
                found = {key: place for place, key in enumerate(header["keys"]) if key in missing}
                if not found or not set(rows) <= set(content.keys()):  # written without maps
                    continue
                parts = {tensor: content.get_tensor(tensor) for tensor in rows}
            damaged = [tensor for tensor, part in parts.items() if _checksum(part) != header[tensor]]
            if damaged:
                raise ValueError(f"checksum of {damaged[0]} is wrong")
        except FileNotFoundError:
            continue  # another process has found it damaged
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            paths.set_aside(file, error)
            continue
        there, places = list(found.values()), [missing.pop(key) for key in found]
        for tensor, part in parts.items():
            rows[tensor][places] = part[there]


def _write(folder: Path, keys: list[str], rows: Rows) -> bool:
    """Add a file to the cache; where that fails, its rows are good all the same: a warning, and False."""
    index = {"keys": keys} | {tensor: _checksum(part) for tensor, part in rows.items()}
    try:
        if keys:
            content = save(rows, metadata={"index": json.dumps(index)})
            paths.write_whole(folder / f"{uuid.uuid4().hex}.safetensors", content)
    except OSError as error:
        log.warning(
            "features: the cache %s cannot be written (%s), results are kept in memory only: "
            "free some space, or set XAI_DATA to another folder",
            folder,
            error.strerror or error,
        )
        return False
    return True


def _checksum(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.contiguous().numpy().data)


def _loaded(
    load: Callable[[Any], Any], keys: list[str], item_of: dict[str, Any], batch_size: int
) -> Iterator[tuple[list[str], list]]:
    """Batches of keys and their loaded items, loaded one batch ahead of the network."""
    batches = [keys[start : start + batch_size] for start in range(0, len(keys), batch_size)]
    # as many threads as torch may use, so that limits set for processes side by side hold here too
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        # a batch is submitted when it is drawn
        loads = (pool.map(load, [item_of[key] for key in batch]) for batch in batches)
        ahead = next(loads, None)  # none is left if other processes computed them all meanwhile
        for batch in batches:
            current, ahead = ahead, next(loads, None)
            yield batch, list(current)
