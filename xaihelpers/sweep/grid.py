"""Grids of parameters: what is to vary, expanded into points, each a run with its own folder of results.

A grid names a notebook and says what is `fixed`, which values each name of its `grid` takes (all
combinations), which names of its `zip` vary together, and how many `draws`, that is seeds, there are of each.
A point is one run of the notebook; its folder of results is the one that the notebook itself would write.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path

from xaihelpers.parameters import (
    ParameterError,
    complete_parameters,
    declared_parameters,
    parameters_hash,
)
from xaihelpers.paths import PROJECT

NOTEBOOKS = PROJECT / "notebooks"
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")  # whole numbers, both ends included


class GridError(ValueError):
    """A grid names what does not exist, or gives it a value of the wrong type; nothing has been started."""


@dataclass(frozen=True)
class Grid:
    """What is to vary in one notebook, as it was asked for; nothing of it is checked yet."""

    notebook: str  # its number, its name or its file
    fixed: dict[str, object] = field(default_factory=dict)
    # name -> its values, or the text "0..63" for a range; all combinations are run
    grid: dict[str, list] = field(default_factory=dict)
    zip: dict[str, list] = field(default_factory=dict)  # name -> its values; the first go with the first, …
    draws: int = 0  # seeds of each combination, from that of `fixed` or the default; 0: the seed is one value
    source: str = "the grid"  # where it stands, for errors


@dataclass(frozen=True)
class Point:
    """One run of a notebook."""

    notebook: Path
    parameters: dict[str, object]  # all of them, as the run will record them
    changed: dict[str, object]  # those that differ from the notebook's defaults
    swept: tuple[str, ...]  # names that take several values in the grid it came from
    results: Path  # the folder of all results

    @property
    def id(self) -> str:
        """The number of the notebook."""
        return self.notebook.name[:2]

    @property
    def name(self) -> str:
        """The name of its folder of results: number of the notebook and hash of the parameters."""
        return f"{self.id}-{parameters_hash(self.parameters)}"

    @property
    def folder(self) -> Path:
        """Where the run writes its results."""
        return self.results / self.name

    @property
    def title(self) -> str:
        """The notebook and what is varied, or else changed, in one line."""
        shown = self.swept or self.changed
        return ", ".join([self.notebook.stem, *(f"{name} = {self.parameters[name]}" for name in shown)])


def expand(grids: list[Grid], results: Path, notebooks: Path = NOTEBOOKS) -> list[Point]:
    """All points of the grids, in order, each once.

    Two combinations that make the same run, as 1 and 1.0 do, are one point.

    results: the folder of all results. notebooks: the folder of the notebooks that are named by number.
    Raises GridError, with all that is wrong in all of the grids: an unknown notebook, an unknown parameter
        (with the nearest known one), a value of the wrong type, `zip` lists of different lengths, a name
        given twice, draws of a notebook without `seed`.
    """
    points: dict[Path, Point] = {}
    faults = []
    for grid in grids:
        try:
            for point in _expand(grid, results, notebooks):
                points.setdefault(point.folder, point)
        except GridError as error:
            faults.append(str(error))
    if faults:
        raise GridError("\n".join(faults))
    return list(points.values())


def find_notebook(name: str, notebooks: Path = NOTEBOOKS) -> Path:
    """The file of a notebook that is named by its number, its name or a path. Raises GridError if none is."""
    known = {path.name[:2]: path for path in sorted(notebooks.glob("[0-9][0-9]_*.ipynb"))}
    if name in known:
        return known[name]
    for place in (notebooks / name, notebooks / f"{name}.ipynb", Path(name)):
        if place.is_file():
            return place.resolve()
    raise GridError(f"No notebook {name} in {notebooks}; there are: {' '.join(known) or 'none'}.")


def notebook_parameters(notebook: Path) -> dict[str, tuple[str, object]]:
    """What the parameters cell of a notebook declares: name -> (type as written, default).

    Raises GridError for a file that is no notebook, or has no such cell.
    """
    return _declared(notebook, notebook.stat().st_mtime_ns)


@cache
def _declared(notebook: Path, _changed: int) -> dict[str, tuple[str, object]]:
    try:
        cells = json.loads(notebook.read_text())["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise GridError(f"{notebook} is no notebook: {error}") from error
    for cell in cells:
        if "parameters" in cell["metadata"].get("tags", []):
            if declared := declared_parameters("".join(cell["source"])):
                return declared
    raise GridError(
        f"{notebook} has no parameters: its first code cell must be tagged 'parameters' and hold nothing but "
        "`name: type = literal`"
    )


def _expand(grid: Grid, results: Path, notebooks: Path) -> list[Point]:
    notebook = find_notebook(grid.notebook, notebooks)
    declared = notebook_parameters(notebook)
    about = f"{notebook.name}, {grid.source}"
    varied = _varied(grid, declared, about)
    try:
        fixed = complete_parameters(declared, grid.fixed)
    except ParameterError as error:
        raise GridError(f"{about}: {error}") from error
    defaults = complete_parameters(declared, {})
    if grid.draws:
        first = fixed["seed"]
        varied.append([{"seed": first + draw} for draw in range(grid.draws)])
    points = []
    for parts in product(*varied):
        given = {**grid.fixed}
        for part in parts:
            given |= part
        try:
            parameters = complete_parameters(declared, given)
        except ParameterError as error:
            raise GridError(f"{about}: {error}") from error
        changed = {name: value for name, value in parameters.items() if value != defaults[name]}
        swept = [name for part in varied if len(part) > 1 for name in part[0]]
        points.append(Point(notebook, parameters, changed, tuple(swept), results))
    return points


def _varied(grid: Grid, declared: dict[str, tuple[str, object]], about: str) -> list[list[dict]]:
    """The dimensions of a grid, each a list of what is given together. Raises GridError."""
    for name in ("results", "device"):
        if name in {**grid.grid, **grid.zip} or (name == "results" and name in grid.fixed):
            remedy = "name the folder by --results" if name == "results" else "fix it to one value"
            raise GridError(f"{about}: {name!r} does not tell runs apart: {remedy}.")
    for names, others, where in (
        (grid.grid, grid.zip, "in grid and in zip"),
        (grid.fixed, {**grid.grid, **grid.zip}, "as fixed and as varied"),
    ):
        if twice := sorted(set(names) & set(others)):
            raise GridError(f"{about}: {twice[0]!r} is given twice, {where}.")
    if grid.draws and "seed" not in declared:
        raise GridError(f"{about}: draws need a parameter 'seed', which this notebook does not have.")
    if grid.draws and "seed" in {**grid.grid, **grid.zip}:
        raise GridError(f"{about}: draws are seeds, and 'seed' is varied as well: leave one of them out.")
    values = {}
    for name, column in {**grid.grid, **grid.zip}.items():
        if isinstance(column, str) and (bounds := RANGE.fullmatch(column)):
            column = list(range(int(bounds[1]), int(bounds[2]) + 1))
        if not isinstance(column, list) or not column:
            raise GridError(f"{about}: {name!r} needs a list of one value or more, not {column!r}.")
        kind = declared[name][0] if name in declared else ""
        values[name] = [_as_list(value, kind) for value in column]
    lengths = {name: len(values[name]) for name in grid.zip}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise GridError(f"{about}: the lists of zip are to be equally long, and are not: {counts}.")
    dimensions = [[{name: value} for value in values[name]] for name in grid.grid]
    if grid.zip:
        rows = zip(*(values[name] for name in grid.zip), strict=True)
        dimensions.append([dict(zip(grid.zip, row, strict=True)) for row in rows])
    return dimensions


def _as_list(value: object, kind: str) -> object:
    """One value of a varied list parameter may be written without brackets: 0.1 is [0.1]."""
    return [value] if kind.startswith("list[") and not isinstance(value, list) else value
