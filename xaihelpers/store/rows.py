"""Rows of tensors by content: from the cache where they are there, else computed batch by batch."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from xaihelpers.store.shards import claim, read_shards, shard_folder, write_shard

log = logging.getLogger(__name__)

Rows = dict[str, torch.Tensor]  # tensors of one row per item, by name


def content_key(content: bytes | str) -> str:
    """The sha256 that rows are kept under."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def cached_rows(
    name: str,
    identity: str,
    items: dict[str, Any],
    shapes: dict[str, tuple[int, ...]],
    load: Callable[[Any], Any],
    forward: Callable[[list], tuple[Rows, torch.Tensor]],
    not_finite: Callable[[Any, int, int], Exception],
    batch_size: int,
    unit: str,
) -> Rows:
    """Tensors with one row for each item, from the cache or computed.

    The cache, `features/` in `paths.cache_home()`, is written batch by batch; processes that want the same
    rows at the same time share the work. If it cannot be written, one line of the log says so. Items that
    come close together lie in one batch.

    name, unit: of the network, and of one item, for the progress bar.
    identity: all that the rows depend on beside the content.
    items: {content key: item}. shapes: of one row of each tensor.
    load: prepares an item, in threads, one batch ahead.
    forward: prepared items -> tensors (B, …) by name, and which of the B rows are not finite, bool.
    not_finite: (first bad item, bad items, items of the batch) -> the error that is raised then.
    Returns float32 tensors (len(items), …), in the order of `items`.
    Raises what `load` raises, and what `not_finite` gives; what was computed before stays in the cache.
    """
    rows = {tensor: torch.empty(len(items), *shape) for tensor, shape in shapes.items()}
    folder = shard_folder(name, identity)
    row_of = {key: row for row, key in enumerate(items)}
    wanted = dict(row_of)  # those not there yet
    seen: set[Path] = set()  # shards read
    read_shards(folder, wanted, rows, seen)
    computed = 0
    writable = True
    parts: dict[str, list[str]] = {}  # sixteenths by content, which processes divide among themselves
    for key in wanted:
        parts.setdefault(key[0], []).append(key)
    # loading threads: as many as torch may use, so that limits set for processes side by side hold here too
    pool = ThreadPoolExecutor(torch.get_num_threads())
    with pool, tqdm(total=len(wanted), desc=name, unit=unit, leave=False, delay=1) as bar:
        while parts:
            with ExitStack() as locks:
                claimed = _claim_parts(folder, parts, 2 * batch_size, locks)
                read_shards(folder, wanted, rows, seen)  # what others wrote meanwhile
                keys = sorted((key for key in claimed if key in wanted), key=row_of.__getitem__)
                for batch, loaded in _load_batches(load, pool, items, keys, batch_size):
                    values, bad = forward(loaded)
                    good = [key for key, is_bad in zip(batch, bad.tolist(), strict=True) if not is_bad]
                    values = {tensor: part[~bad] for tensor, part in values.items()}
                    writable = writable and _write(folder, good, values)
                    if bad.any():
                        first = items[batch[int(bad.int().argmax())]]
                        raise not_finite(first, int(bad.sum()), len(batch))
                    places = [wanted.pop(key) for key in good]
                    for tensor, part in values.items():
                        rows[tensor][places] = part
                    computed += len(good)
                    bar.update(bar.total - len(wanted) - bar.n)
    cached = len(items) - computed
    log.info("%s features: %s from the cache, %s computed", unit, f"{cached:,}", f"{computed:,}")
    return rows


def _claim_parts(folder: Path, parts: dict[str, list[str]], enough: int, locks: ExitStack) -> list[str]:
    """Take parts, until they hold `enough` keys, for this process alone; returns their keys.

    Where all parts are in other processes' hands, waits for one of them.
    """
    keys: list[str] = []
    for part in list(parts):
        if len(keys) >= enough:
            break
        lock = claim(folder, part, wait=False)
        if lock:
            locks.enter_context(lock)
            keys += parts.pop(part)
    if not keys:
        part = next(iter(parts))
        locks.enter_context(claim(folder, part, wait=True))
        keys = parts.pop(part)
    return keys


def _write(folder: Path, keys: list[str], rows: Rows) -> bool:
    """Add rows to the cache; where that fails, they are good all the same: a warning, and False."""
    try:
        if keys:
            write_shard(folder, keys, rows)
    except OSError as error:
        log.warning(
            "features: the cache %s cannot be written (%s), results are kept in memory only: "
            "free some space, or set XAI_DATA to another folder",
            folder,
            error.strerror or error,
        )
        return False
    return True


def _load_batches(
    load: Callable[[Any], Any],
    pool: ThreadPoolExecutor,
    items: dict[str, Any],
    keys: list[str],
    batch_size: int,
) -> Iterator[tuple[list[str], list]]:
    """Batches of keys and their loaded items, loaded one batch ahead of the network.

    At an item that cannot be loaded the good ones before it make a last batch; then its error is raised.
    """
    batches = [keys[start : start + batch_size] for start in range(0, len(keys), batch_size)]

    def submit(number):
        return [pool.submit(load, items[key]) for key in batches[number]] if number < len(batches) else []

    ahead = submit(0)
    for number, batch in enumerate(batches):
        current, ahead = ahead, submit(number + 1)
        loaded, error = [], None
        for future in current:
            error = future.exception()
            if error:
                break
            loaded.append(future.result())
        if loaded:
            yield batch[: len(loaded)], loaded
        if error:
            for future in current + ahead:
                future.cancel()
            raise error
