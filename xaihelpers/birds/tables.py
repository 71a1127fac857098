"""Reading one space-separated file: fast through pandas, and line by line only to say which line is wrong."""
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from .names import BirdsError

REMEDY = "Unpack the data set again (the aviary: delete its folder, it is drawn anew)."


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of the lines that are not blank. Raises BirdsError if the file is missing."""
    if not path.is_file():
        raise BirdsError(f"{path}: file missing. {REMEDY}")
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def broken_line(path: Path, number: int, problem: str) -> BirdsError:
    """The error for line `number` of `path`."""
    return BirdsError(f"{path}, line {number}: {problem}. {REMEDY}")


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
    """The lines `<id> <name>` of `path`, by id. Raises BirdsError for another line, an id twice, an empty file."""
    names: dict[int, str] = {}
    for number, line in lines_of(path):
        key, _, name = line.strip().partition(" ")
        if not key.isdigit() or not name.strip():
            raise broken_line(path, number, f"'<id> <name>' expected, found {line!r}")
        if int(key) in names:
            raise broken_line(path, number, f"id {key} for the second time")
        names[int(key)] = name.strip()
    if not names:
        raise BirdsError(f"{path}: the file is empty. {REMEDY}")
    return names


def read_table(path: Path, columns: dict[str, type]) -> pd.DataFrame:
    """The first fields of every line of `path` as int32 or float32 columns; further fields of a line are passed over.

    Raises BirdsError naming the first line with too few fields, or with one that is no finite number of its column's type.
    """
    if not path.is_file() or path.stat().st_size == 0:
        raise BirdsError(f"{path}: file {'empty' if path.is_file() else 'missing'}. {REMEDY}")
    try:
        table = pd.read_csv(path, sep=r"\s+", header=None, names=list(columns), usecols=range(len(columns)), engine="c", quoting=3,
                            dtype={name: "int32" if kind is int else "float32" for name, kind in columns.items()})
    except (ValueError, OverflowError) as error:  # pandas' parser errors are ValueErrors
        cause = error
    else:
        if np.isfinite(table.to_numpy()).all():
            return table
        cause = None
    kinds = list(columns.values())
    for number, line in lines_of(path):  # quick, for the file may have millions of lines
        fields = line.split()
        if len(fields) < len(kinds):
            raise broken_line(path, number, f"{len(fields)} fields where {len(kinds)} belong: {line[:60]!r}, the file is cut short or damaged")
        try:
            good = all([abs(kind(text)) < 2 ** 31 for kind, text in zip(kinds, fields)])
        except ValueError:
            good = False
        if not good:
            for (name, kind), text in zip(columns.items(), fields):
                to_number(path, number, name, kind, text)
    raise BirdsError(f"{path}: cannot be read as a table ({cause}). {REMEDY}") from cause


def to_number(path: Path, line: int, name: str, kind: Callable, text: str) -> float:
    """`text` as an int or float (`kind`), or a BirdsError that names its column and line."""
    try:
        value = kind(text)
        if not abs(value) < 2 ** 31:  # NaN and infinity too
            raise ValueError
    except ValueError:
        raise broken_line(path, line, f"{name} is {text[:40]!r}, which is not {'a whole' if kind is int else 'a'} number") from None
    return value
