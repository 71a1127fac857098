"""What all parts of one benchmark choose alike: birds and attributes (sub, section 4.2)."""

import json
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from xaihelpers import paths
from xaihelpers.datasets.dataset import DatasetError


def shared_choice(
    folder: Path, shard: int, shards: int, about: dict[str, object], choose: Callable[[], dict]
) -> dict:
    """What `choose` returns, made by the first shard of a benchmark and read by the others.

    It lies in choice.json of the benchmark's folder. Shards that begin together wait for one of them; a run
    in one shard always chooses anew.

    about: name -> value of each parameter that the choice depends on, as JSON types.
    choose: returns what JSON can hold.
    Raises DatasetError: a shard that there is not, files of another number of shards, or a choice with other
        parameters.
    Raises FolderError if the folder cannot be written.
    """
    if not 0 <= shard < shards:
        raise DatasetError(f"shard {shard} of {shards}: shards are numbered from 0 to {shards - 1}")
    paths.ensure_writable(folder, "make room or permit writing there, or name another benchmark")
    for file in sorted(folder.glob("data/*.parquet")):
        if not file.name.endswith(f"-of-{shards:05d}.parquet"):
            raise DatasetError(
                f"{folder} holds {file.name}, of a run in another number of shards than {shards}: name "
                "another benchmark, or remove it"
            )
    file = folder / "choice.json"
    with FileLock(folder / ".choice.lock"):
        if shards == 1 or not file.exists():
            stored = {"about": about, "choice": choose()}
            paths.write_whole(file, json.dumps(stored, indent=1).encode())
            return stored["choice"]
        stored = json.loads(file.read_text())
        for name, value in about.items():
            if (then := stored["about"].get(name)) != value:
                raise DatasetError(
                    f"{file} was chosen with another {name} ({then}, not {value}): shards share their "
                    "choice; name another benchmark, or remove this one"
                )
        return stored["choice"]
