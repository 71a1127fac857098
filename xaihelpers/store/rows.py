"""Rows of tensors by content: from the cache where they are there, else computed batch by batch and written at once."""
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from .shards import claim, read_shards, shard_folder, write_shard

Rows = dict[str, torch.Tensor]


def content_key(content: bytes | str) -> str:
    """The sha256 that rows are kept under."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def cached_rows(name: str, identity: str, items: dict[str, Any], shapes: dict[str, tuple[int, ...]], load: Callable[[Any], Any],
                forward: Callable[[list], tuple[Rows, torch.Tensor]], not_finite: Callable[[Any, int, int], Exception], batch_size: int, unit: str) -> Rows:
    """Tensors of one row per item, float32, in the order of `items` {content key: item}.

    `shapes`: of one row of each tensor. `load` prepares an item, in threads and one batch ahead; `forward` makes of a list of prepared items (rows, bad):
    a dict of tensors (B, …), and which of its rows are not finite (B,) bool. The cache, `features/` in `paths.cache_home()`, is keyed by `identity` and
    the content, and written batch by batch; processes that want the same rows at the same time share the work. If it cannot be written, one line says so.
    Items that come close together lie in one batch. Raises what `load` raises, and `not_finite(first bad item, bad, batch)`; what was computed before stays.
    """
    out = {tensor: torch.empty(len(items), *shape) for tensor, shape in shapes.items()}
    folder, seen, wanted = shard_folder(name, identity), set(), {key: row for row, key in enumerate(items)}
    read_shards(folder, wanted, out, seen)
    computed, writable = 0, True
    parts = {}  # sixteenths by content: what processes side by side divide among themselves
    for key in wanted:
        parts.setdefault(key[0], []).append(key)
    place = dict(wanted)
    # loading threads: as many as torch may use, so that limits set for processes side by side hold here too
    pool = ThreadPoolExecutor(torch.get_num_threads())
    with pool, tqdm(total=len(wanted), desc=name, unit=unit, leave=False, delay=1) as bar:
        while parts:
            with ExitStack() as held:
                taken = []
                for part in list(parts):
                    if len(taken) < 2 * batch_size and (claimed := claim(folder, part, wait=False)):
                        held.enter_context(claimed)
                        taken += parts.pop(part)
                if not taken:  # all that is left is in other processes' hands: wait for one of them
                    part = next(iter(parts))
                    held.enter_context(claim(folder, part, wait=True))
                    taken = parts.pop(part)
                read_shards(folder, wanted, out, seen)  # what others wrote meanwhile
                taken = sorted((key for key in taken if key in wanted), key=place.__getitem__)
                for batch, loaded in _loaded(load, pool, items, taken, batch_size):
                    rows, bad = forward(loaded)
                    good = [key for key, is_bad in zip(batch, bad.tolist(), strict=True) if not is_bad]
                    rows = {tensor: values[~bad] for tensor, values in rows.items()}
                    writable = writable and _stored(folder, good, rows)
                    if bad.any():
                        raise not_finite(items[batch[int(bad.int().argmax())]], int(bad.sum()), len(batch))
                    numbers = [wanted.pop(key) for key in good]
                    for tensor, values in rows.items():
                        out[tensor][numbers] = values
                    computed += len(good)
                    bar.update(bar.total - len(wanted) - bar.n)
    print(f"{unit} features: {len(items) - computed:,} from the cache, {computed:,} computed")
    return out


def _stored(folder: Path, keys: list[str], rows: Rows) -> bool:
    """Add to the cache; where that fails the results are still good, so it is said and not raised."""
    try:
        if keys:
            write_shard(folder, keys, rows)
    except OSError as error:
        print(f"features: the cache {folder} cannot be written ({error.strerror or error}), results are kept in memory only: "
              "free some space, or set XAI_DATA to another folder")
        return False
    return True


def _loaded(load, pool, items, keys, batch_size) -> Iterator[tuple[list[str], list]]:
    """Batches of keys and their loaded items, loaded one batch ahead of the network.

    At an item that cannot be loaded the good ones before it make a last batch; then its error is raised.
    """
    batches = [keys[start:start + batch_size] for start in range(0, len(keys), batch_size)]

    def begin(number):
        return [pool.submit(load, items[key]) for key in batches[number]] if number < len(batches) else []

    ahead = begin(0)
    for number in range(len(batches)):
        now, ahead = ahead, begin(number + 1)
        loaded, error = [], None
        for future in now:
            error = future.exception()
            if error:
                break
            loaded.append(future.result())
        if loaded:
            yield batches[number][:len(loaded)], loaded
        if error:
            for future in now + ahead:
                future.cancel()
            raise error
