"""Tables of experiments that take longer than a notebook may: recorded ones, and those of a run that goes on.

A recorded run is a folder of data/long_runs: run.json as of `records`, and its tables as NAME.csv.gz.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from xaihelpers.paths import PROJECT, results_home, write_whole

FOLDER = PROJECT / "data" / "long_runs"
Tables = dict[str, pd.DataFrame]  # by name


def recorded(notebook: str, names: Sequence[str], parameters: dict, free: Iterable[str]) -> Tables:
    """The tables of a notebook's recorded run that belong with this run; none where there is no such run.

    names: of the tables. parameters: of this run. free: the parameters in which the recorded run may differ.
    """
    fixed = parameters.keys() - set(free)
    for folder in sorted(FOLDER.glob(f"{notebook}-*")):
        made_with = json.loads((folder / "run.json").read_text())["parameters"]
        if all(made_with.get(name) == parameters[name] for name in fixed):
            return {name: pd.read_csv(folder / f"{name}.csv.gz") for name in names}
    return {}


def finished(folder: str, experiment: str, make: Callable[[], Tables]) -> Tables:
    """The tables of an experiment: read where an earlier run has kept them, else made and kept.

    folder: as of `paths.results_home`; "" keeps nothing. experiment: its name.
    """
    if not folder:
        return make()
    place = results_home(folder) / experiment.replace("/", "+")
    if not (place / "finished").exists():
        tables = make()
        keep(tables, place)
        write_whole(place / "finished", "\n".join(tables).encode())
    names = (place / "finished").read_text().split("\n")
    return {name: pd.read_csv(place / f"{name}.csv.gz") for name in names}


def keep(tables: Tables, folder: Path) -> None:
    """Write tables into a folder as NAME.csv.gz, the same bytes for the same tables."""
    for name, table in tables.items():
        content = table.to_csv(index=False, float_format="%.6g").encode()
        write_whole(folder / f"{name}.csv.gz", gzip.compress(content, mtime=0))
