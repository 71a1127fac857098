"""Reading one space-separated file: fast through pandas, and line by line only to say which line is wrong."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.datasets.dataset import DatasetError

LARGEST = 2**31
REMEDY = "Unpack the data set again (the aviary: delete its folder, it is drawn anew)."


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line that is not blank. Raises DatasetError if the file is missing."""
    if not path.is_file():
        raise DatasetError(f"{path}: file missing. {REMEDY}")
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def broken_line(path: Path, number: int, problem: str) -> DatasetError:
    """The error for line `number` of `path`."""
    return DatasetError(f"{path}, line {number}: {problem}. {REMEDY}")


def check_rows(good, path: Path, problem: str, values, rows=None) -> None:
    """Raise for the first row of `path` that is not `good`, with its line number and, in {}, its value.

    `good`, `values` (n,): in the file's order, or the file's `rows` (n,) where some were left out.
    """
    bad = np.flatnonzero(~np.asarray(good, dtype=bool))
    if len(bad):
        wanted = bad[0] if rows is None else rows[bad[0]]
        number = next(number for row, (number, _) in enumerate(lines_of(path)) if row == wanted)
        raise broken_line(path, number, problem.format(np.asarray(values)[bad[0]]))


def read_names(path: Path) -> dict[int, str]:
    """The lines `<id> <name>` of `path`, by id.

    Raises DatasetError: a missing or an empty file, another line, an id that stands twice.
    """
    names: dict[int, str] = {}
    for number, line in lines_of(path):
        key, _, name = line.strip().partition(" ")
        if not key.isdigit() or not name.strip():
            raise broken_line(path, number, f"'<id> <name>' expected, found {line!r}")
        if int(key) in names:
            raise broken_line(path, number, f"id {key} for the second time")
        names[int(key)] = name.strip()
    if not names:
        raise DatasetError(f"{path}: the file is empty. {REMEDY}")
    return names


def read_table(path: Path, columns: dict[str, type]) -> pd.DataFrame:
    """The first fields of every line of `path` as int32 or float32 columns; further fields are passed over.

    Raises DatasetError: a missing or an empty file, or, naming the line, too few fields or one that is no
        finite number of its column's type.
    """
    if not path.is_file() or path.stat().st_size == 0:
        state = "empty" if path.is_file() else "missing"
        raise DatasetError(f"{path}: file {state}. {REMEDY}")
    try:
        table = pd.read_csv(
            path,
            sep=r"\s+",
            header=None,
            names=list(columns),
            usecols=range(len(columns)),
            engine="c",
            quoting=3,
            dtype={name: "int32" if kind is int else "float32" for name, kind in columns.items()},
        )
    except (ValueError, OverflowError) as error:  # pandas' parser errors are ValueErrors
        cause = error
    else:
        if np.isfinite(table.to_numpy()).all():
            return table
        cause = None
    _raise_for_line(path, columns)
    raise DatasetError(f"{path}: cannot be read as a table ({cause}). {REMEDY}") from cause


def _raise_for_line(path: Path, columns: dict[str, type]) -> None:
    """Raise for the first line with too few fields or one of another kind; quick, there may be millions."""
    kinds = list(columns.values())
    for number, line in lines_of(path):
        fields = line.split()
        if len(fields) < len(kinds):
            raise broken_line(
                path,
                number,
                f"{len(fields)} fields where {len(kinds)} belong: {line[:60]!r}, the file is truncated or "
                "damaged",
            )
        used = fields[: len(kinds)]
        try:
            good = all([abs(kind(text)) < LARGEST for kind, text in zip(kinds, used, strict=True)])
        except ValueError:
            good = False
        if not good:
            for (name, kind), text in zip(columns.items(), used, strict=True):
                to_number(path, number, name, kind, text)


def to_number(path: Path, line: int, name: str, kind: type, text: str) -> float:
    """`text` as an int or float (`kind`). Raises DatasetError naming its column and line where it is none."""
    try:
        value = kind(text)
        if not abs(value) < LARGEST:  # NaN and infinity too
            raise ValueError
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise broken_line(path, line, f"{name} is {text[:40]!r}, which is not {wanted}") from None
    return value
