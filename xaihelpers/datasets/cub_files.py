"""The text files of CUB-200-2011's format, each read whole; what is wrong in one is named by its line."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.text_files import read_text

REMEDY = "Unpack the data set again (the aviary: delete its folder, it is drawn anew)."
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def _lines(file: Path) -> list[tuple[int, str]]:
    """Number (from 1) and text of each line that is not blank."""
    if not file.is_file():
        raise DatasetError(f"{file}: file missing. {REMEDY}")
    lines = enumerate(read_text(file).split("\n"), 1)
    lines = [(number, line.strip()) for number, line in lines if line.strip()]
    if not lines:
        raise DatasetError(f"{file}: the file is empty. {REMEDY}")
    return lines


def check_lines(good, file: Path, problem: str, values, rows: pd.Index | None = None) -> None:
    """Raise for the first row of a file that is not `good`, with its line and, in {}, its value.

    good, values: (n,), of the lines that are not blank, in their order, or of those in `rows` (n,).
    """
    bad = np.flatnonzero(~np.asarray(good, dtype=bool))
    if len(bad):
        row = bad[0] if rows is None else rows[bad[0]]
        found = problem.format(list(values)[bad[0]])
        raise DatasetError(f"{file}, line {_lines(file)[row][0]}: {found}. {REMEDY}")


def read_names(file: Path, counted: bool = False) -> pd.Series:
    """The lines `<id> <name>` of a file, names by id; counted: ids run 1, 2, 3, …"""
    lines = [line for _, line in _lines(file)]
    split = [re.fullmatch(r"([0-9]{1,9})\s+(.+)", line) for line in lines]
    check_lines(split, file, "'<id> <name>' expected, found {!r}", lines)
    names = pd.Series([match[2] for match in split], [int(match[1]) for match in split], dtype=object)
    names.index.name = file.name
    check_lines(~names.index.duplicated(), file, "id {} for the second time", names.index)
    if counted:
        in_order = names.index == np.arange(1, len(names) + 1)
        check_lines(in_order, file, "id {} out of order (they count from 1)", names.index)
    return names


def numbers_in_lines(file: Path, count: int, more: bool = False) -> np.ndarray:
    """The numbers of every line, (n, count) float64. more: further fields are passed over."""
    lines = [line for _, line in _lines(file)]
    row = re.compile(r"\s+".join([NUMBER] * count) + (r"(\s|$)" if more else "$"))
    found = [line[:60] for line in lines]
    check_lines([row.match(line) for line in lines], file, f"{count} numbers expected, found {{!r}}", found)
    return np.array([line.split()[:count] for line in lines], dtype=float)


def _read_numbers(file: Path, names: list[str]) -> pd.DataFrame:
    """The first fields of every line as columns of numbers; further fields are passed over."""
    options = {"names": names, "usecols": range(len(names)), "header": None, "quoting": 3}
    try:
        table = pd.read_csv(file, sep=r"\s+", encoding="utf-8-sig", **options)
        if np.isfinite(table.to_numpy()).all() and not (table.dtypes == bool).any():
            return table
    except (ValueError, TypeError, OSError):  # pandas' parser errors are ValueErrors
        pass
    # pandas reads millions of lines quickly but does not say where it failed
    return pd.DataFrame(numbers_in_lines(file, len(names), more=True), columns=names)


def read_rows(
    file: Path, keys: list[pd.Index], columns: dict[str, tuple | pd.Index | None], others_too: bool = False
) -> list[np.ndarray]:
    """Columns of a table that has just one row for each image (and part, or attribute), in their order.

    keys: the known ids of its first columns, named by the file that lists them: the images, and perhaps parts
        or attributes.
    columns: those that follow; and the only values they may have, numbers or the ids of another file.
    others_too: rows of other images are passed over.
    Returns an array for each column, in the shape of the keys.
    """
    names = [f"{ids.name.removesuffix('s.txt')} id" for ids in keys]
    table = _read_numbers(file, [*names, *columns])
    for name, allowed in columns.items():
        if allowed is not None:
            known = allowed.name if isinstance(allowed, pd.Index) else allowed
            check_lines(table[name].isin(allowed), file, f"{name} {{}} is not in {known}", table[name])
    if others_too:
        table = table[table[names[0]].isin(keys[0])]
    for name, ids in zip(names, keys, strict=True):
        problem = f"{name} {{}} is not in {ids.name} (one of the two is damaged)"
        check_lines(table[name].isin(ids), file, problem, table[name], table.index)
    held, wanted = pd.MultiIndex.from_frame(table[names]), pd.MultiIndex.from_product(keys, names=names)
    problem = ", ".join(f"{name} {{0[{k}]}}" for k, name in enumerate(names)) + " for the second time"
    check_lines(~held.duplicated(), file, problem, held, table.index)
    places = held.get_indexer(wanted)
    if (places < 0).any():
        first = zip(names, wanted[places.argmin()], strict=True)
        told = " and ".join(f"{name} {number}" for name, number in first)
        raise DatasetError(
            f"{file}: no row for {told}, and {(places < 0).sum():,} such in all: the file is truncated. "
            f"{REMEDY}"
        )
    shape = [len(ids) for ids in keys]
    return [table[name].to_numpy()[places].reshape(shape) for name in columns]
