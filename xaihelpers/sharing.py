"""Which share of the work is this run's: runs that differ only in `shard` divide what they have to ask.

Each begins with its own share and then takes what is left of the others', so the answers, which all keep in
one cache, are whole in every run, and no second pass is needed.
"""

from collections.abc import Sequence
from typing import NamedTuple

BLOCKS = 16  # of a share; before each the cache is read again


class Share(NamedTuple):
    """Number `shard` of `shards`."""

    shard: int = 0
    shards: int = 1


_share = Share()


def begin(shard: int = 0, shards: int = 1) -> Share:
    """Set the share of this process. Raises ValueError: `shard` is not one of 0 to `shards` - 1."""
    global _share
    if not 0 <= shard < shards:
        raise ValueError(f"shard {shard} of {shards}: shards are numbered from 0 to {shards - 1}")
    _share = Share(shard, shards)
    return _share


def share() -> Share:
    """The share of this process: all, unless a run has begun with another."""
    return _share


def blocks_in_turn(items: Sequence, share: Share) -> list[list]:
    """All items, in the order in which a share goes through them; one block where it is all.

    Blocks of its own share come first; those of others follow from their ends, where their owners come last.
    """
    if share.shards == 1:
        return [list(items)] if items else []
    parts = _cut(items, share.shards)
    blocks = _cut(parts[share.shard], BLOCKS)
    for step in range(1, share.shards):
        blocks += _cut(parts[(share.shard + step) % share.shards], BLOCKS)[::-1]
    return [block for block in blocks if block]


def _cut(items: Sequence, n: int) -> list[list]:
    """Items in n parts of about equal size, in their order."""
    cuts = [number * len(items) // n for number in range(n + 1)]
    return [list(items[start:end]) for start, end in zip(cuts, cuts[1:], strict=False)]
