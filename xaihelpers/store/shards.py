"""Rows on disk: safetensors shards, one per batch, that many processes may read and write at once.

A folder holds what one network in one precision makes of images or texts. A shard holds tensors of B rows
(of a backbone: pooled (B, d), logits (B, K) and perhaps maps (B, d, H, W), float32). Its header holds the
sha256 of each row's content and a checksum of each row. A shard appears whole (written aside, then renamed)
and never changes, so readers need no lock; a damaged one is set aside, and its rows are computed again.
"""

import contextlib
import hashlib
import json
import time
import uuid
import zlib
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from xaihelpers import paths


def shard_folder(name: str, identity: str) -> Path:
    """The folder of everything computed under one identity; created here, if that is possible."""
    plain = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
    digest = hashlib.sha256(identity.encode()).hexdigest()
    folder = paths.cache_home() / "features" / f"{plain}-{digest[:16]}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob("*.tmp"):  # of killed processes
            if time.time() - unfinished.stat().st_mtime > 3600:
                unfinished.unlink()
    return folder


def read_shards(
    folder: Path, wanted: dict[str, int], tensors: dict[str, torch.Tensor], seen: set[Path]
) -> None:
    """Fill the rows of tensors that are found in shards not `seen` before.

    A damaged shard is set aside.

    wanted: {content key: row}; a key that is found is taken out. tensors: by name, changed in place.
    seen: gets the shards that are read.
    """
    for shard in sorted(folder.glob("*.safetensors")):
        if not wanted or shard in seen:
            continue
        seen.add(shard)
        try:
            keys = _read_shard(shard, wanted, tensors)
        except FileNotFoundError:
            continue  # another process has found it damaged
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            paths.set_aside(shard, error)
            continue
        for key in keys:
            del wanted[key]


def _read_shard(shard: Path, wanted: dict[str, int], tensors: dict[str, torch.Tensor]) -> list[str]:
    """Fill what one shard holds; returns the keys. Raises ValueError or SafetensorError: it is damaged."""
    with safe_open(shard, framework="pt") as file:
        header = json.loads(file.metadata()["index"])
        rows = [(row, key) for row, key in enumerate(header["keys"]) if key in wanted]
        if not rows or not set(tensors) <= set(file.keys()):  # written without maps
            return []
        for name, target in tensors.items():
            source = file.get_tensor(name)
            if source.shape[1:] != target.shape[1:] or source.dtype != target.dtype:
                raise ValueError(f"{name} has shape {tuple(source.shape)}")
            for row, key in rows:
                if _checksum(source[row]) != header[name][row]:
                    raise ValueError(f"checksum of {name} is wrong")
                target[wanted[key]] = source[row]
    return [key for _, key in rows]


def write_shard(folder: Path, keys: list[str], tensors: dict[str, torch.Tensor]) -> None:
    """Write one shard, whole or not at all.

    keys: B content keys. tensors: (B, …) by name. Raises OSError: no room, not allowed.
    """
    header = {"keys": keys}
    for name, tensor in tensors.items():
        header[name] = [_checksum(row) for row in tensor]
    content = save(tensors, metadata={"index": json.dumps(header)})
    paths.write_whole(folder / f"{uuid.uuid4().hex}.safetensors", content)


def claim(folder: Path, part: str, wait: bool) -> contextlib.AbstractContextManager | None:
    """The sole right among processes to compute one part of the items.

    Returns a context manager that gives it back, or None while another process has it and `wait` is False.
    """
    try:
        return FileLock(folder / f"{part}.lock").acquire(timeout=-1 if wait else 0)
    except Timeout:
        return None
    except OSError:  # the folder cannot be written: nothing is shared, so nothing needs a lock
        return contextlib.nullcontext()


def _checksum(row: torch.Tensor) -> int:
    return zlib.crc32(row.contiguous().numpy().data)
