"""Rows of tensors kept under the content they were computed from: one safetensors file a batch.

A folder, of `features/` in `paths.cache_home()`, holds what one network in one precision makes of images or
texts. A file of it holds tensors of B rows, and in its header the content's key of each row. It appears whole
and never changes, so that readers need no lock; a damaged one is set aside, and its rows are computed again.
"""

import hashlib
import json
import logging
import uuid
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
from xaihelpers.datasets.images import is_converted
from xaihelpers.models.weights import ModelError

log = logging.getLogger(__name__)
FORMAT = 2  # of the files; another one lies in folders of its own
READERS = 8  # threads that read and hash image files
Rows = dict[str, torch.Tensor]  # tensors of one row per item, by name


def content_key(content: bytes | str) -> str:
    """The sha256 that rows are kept under."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def file_keys(files: Sequence[Path]) -> list[str]:
    """The key of each file's content; one of its own where colours are converted, which once they were not.

    Raises OSError naming a file that cannot be read.
    """

    def key_of(file: Path) -> str:  # hashed in its thread: whole files would pile up in memory
        content = file.read_bytes()
        return content_key(content + b" in sRGB" if is_converted(content) else content)

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(key_of, files))


def cached_rows(
    name: str,
    identity: str,
    keys: Sequence[str],
    items: Sequence,
    shapes: dict[str, tuple[int, ...]],
    load: Callable[[Any], Any],
    forward: Callable[[list], Rows],
    batch_size: int,
    unit: str,
) -> Rows:
    """Tensors with one row for each item, from the cache or computed, each distinct key once.

    Of processes that want rows of one network at the same time, one computes and the others wait for it.

    identity: all that the rows depend on beside the content.
    keys: of the items' content. shapes: of one row of each tensor.
    load: prepares an item, in threads, one batch ahead.
    forward: prepared items -> tensors (B, …) by name.
    name, unit: of the network and of one item, in messages.
    Returns float32 tensors (len(items), …), in their order.
    Raises ModelError: no item, rows that are not finite; OSError: a cache that cannot be written; and what
        `load` raises. What was computed before stays in the cache.
    """
    if not len(items):
        raise ModelError(f"at least one {unit} is needed")
    item_of = dict(zip(keys, items, strict=True))
    row_of = {key: row for row, key in enumerate(item_of)}
    rows = {tensor: torch.empty(len(row_of), *shape) for tensor, shape in shapes.items()}
    plain = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
    identity_key = content_key(f"{FORMAT} {identity}")[:16]
    folder = paths.cache_home() / "features" / f"{plain}-{identity_key}"
    missing = _fill(folder, row_of, rows)
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "computing.lock"):
            missing = _fill(folder, missing, rows)  # what others wrote meanwhile
            todo = list(missing)
            batches = [todo[n : n + batch_size] for n in range(0, len(todo), batch_size)]
            loads = _loaded(load, [[item_of[key] for key in batch] for batch in batches])
            progress = tqdm(batches, name, unit=unit, unit_scale=batch_size, leave=False, delay=1)
            for batch, loaded in zip(progress, loads, strict=True):
                values = forward(loaded)
                finite = torch.stack([part.flatten(1).isfinite().all(1) for part in values.values()]).all(0)
                good = [key for key, is_good in zip(batch, finite.tolist(), strict=True) if is_good]
                values = {tensor: part[finite] for tensor, part in values.items()}
                content = save(values, metadata={"index": json.dumps({"keys": good})})
                paths.write_whole(folder / f"{uuid.uuid4().hex}.safetensors", content)
                if bad := [item_of[key] for key in batch if key not in good]:
                    raise ModelError(
                        f"{bad[0]}: {name} gives NaN or infinite values for this {unit}, and {len(bad)} in "
                        f"all: check the weights and the {unit}."
                    )
                for tensor, part in values.items():
                    rows[tensor][[row_of[key] for key in good]] = part
    cached = len(row_of) - len(missing)
    log.info("%s features: %s from the cache, %s computed", unit, f"{cached:,}", f"{len(missing):,}")
    if len(row_of) == len(keys):
        return rows
    order = torch.tensor([row_of[key] for key in keys])
    return {tensor: part[order] for tensor, part in rows.items()}


def _fill(folder: Path, wanted: dict[str, int], rows: Rows) -> dict[str, int]:
    """Fill rows from the folder's files; returns what of `wanted`, rows by key, is not there."""
    missing = dict(wanted)
    for file in sorted(folder.glob("*.safetensors")):
        if not missing:
            break
        try:
            with safe_open(file, framework="pt") as content:
                keys = json.loads(content.metadata()["index"])["keys"]
                found = {key: place for place, key in enumerate(keys) if key in missing}
                if not found or not set(rows) <= set(content.keys()):  # written without maps
                    continue
                parts = {tensor: content.get_tensor(tensor) for tensor in rows}
        except FileNotFoundError:
            continue  # another process has found it damaged
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            paths.set_aside(file, error)
            continue
        there, places = list(found.values()), [missing.pop(key) for key in found]
        for tensor, part in parts.items():
            rows[tensor][places] = part[there]
    return missing


def _loaded(load: Callable[[Any], Any], batches: list[list]) -> Iterator[list]:
    """The loaded items of each batch, one batch ahead of the network."""
    # as many threads as torch may use, so that limits set for processes side by side hold here too
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        # a batch is submitted when it is drawn
        loads = (pool.map(load, batch) for batch in batches)
        ahead = next(loads, None)  # none is left if other processes computed them all meanwhile
        for _ in batches:
            current, ahead = ahead, next(loads, None)
            yield list(current)
