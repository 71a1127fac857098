"""Grids of parameters: what a command line or a file asks for, expanded into points.

A point is one run of a notebook with its parameters. An entry of a file of grids names a `notebook`, perhaps
a `preset`, what is `fixed`, which values each name of its `grid` takes (all combinations), and how many
`seeds` there are of each.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import NamedTuple

import yaml

from xaihelpers.parameters import Parameter, complete_parameters, declared_parameters, parameters_hash
from xaihelpers.text_files import read_yaml

ENTRY = ("notebook", "preset", "fixed", "grid", "seeds")


class Point(NamedTuple):
    """One run of a notebook."""

    notebook: Path
    changed: dict  # the parameters that differ from the notebook's defaults
    folder: Path  # where `records` writes its results: named by the notebook and a hash of all parameters
    copy: Path  # where the executed notebook goes; one that failed ends in .failed.ipynb

    def __str__(self) -> str:
        return ", ".join([self.notebook.stem, *(f"{name} = {value}" for name, value in self.changed.items())])


def known_notebooks(folder: Path) -> dict[str, Path]:
    """All notebooks by the first two characters of their names: the numbered ones, then appendices, as A1."""
    numbered, appendices = folder.glob("[0-9][0-9]_*.ipynb"), folder.glob("appendix/A[0-9]_*.ipynb")
    return {path.name[:2]: path for path in [*sorted(numbered), *sorted(appendices)]}


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """What the cell tagged `parameters` declares, by name."""
    cells = json.loads(notebook.read_text())["cells"]
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    return declared_parameters("".join(tagged[0]["source"])) if tagged else {}


def parameters_at(point: Point) -> dict[str, object]:
    """All parameters of a point, by name."""
    return {name: default for name, (_, default, _) in parameters_of(point.notebook).items()} | point.changed


def needs_of(notebook: Path) -> list[str]:
    """The numbers of the notebooks that run before one: 00, which draws the world; "*" means all others."""
    return json.loads(notebook.read_text())["metadata"].get("xaihelpers", {}).get("needs", ["00"])


def read_preset(name: str, notebook: Path, folder: Path) -> dict:
    """The parameters in a YAML file: a path, or what stands between in NN.name.yaml in a folder of presets.

    Raises ValueError: no such file, with those that there are, or one that holds no mapping.
    """
    number = notebook.name[:2]
    files = [file for file in (folder / f"{number}.{name}.yaml", Path(name)) if file.is_file()]
    if not files:
        known = ", ".join(sorted(path.name for path in folder.glob(f"{number}.*.yaml"))) or "none"
        raise ValueError(f"There is no preset {name} of {notebook.name}; there are: {known}.")
    content = read_yaml(files[0])
    if not isinstance(content, dict):
        raise ValueError(f"{files[0]} must hold parameters, as `name: value` lines.")
    return {key: value for key, value in content.items() if key != "results"}


def read_values(text: str, kind: str) -> list:
    """The values that "a,b,c" gives to a parameter; of a list parameter "[a,b],[c]" are two, "a" is [a]."""
    read = yaml.load(f"[{text}]", yaml.BaseLoader if "str" in kind else yaml.SafeLoader) or [""]
    if not kind.startswith("list["):
        return read
    return [value if isinstance(value, list) else [value] for value in read]


def asked_entries(options: argparse.Namespace) -> list[dict]:
    """What the command line asks for, as entries of a file of grids. Raises ValueError."""
    varied, entries, grid = options.assignments or options.presets or options.seeds, [], {}
    if varied and (not options.ids or any(name.endswith(".yaml") for name in options.ids)):
        raise ValueError("Name the notebooks that -p, -f or --seeds are for: run 11 -p seed=1,2")
    for text in options.assignments:
        parameter, equals, values = text.partition("=")
        if not equals or parameter in grid:
            raise ValueError(f"-p {text}: write -p name=value or -p name=value,value, once for each name.")
        grid[parameter] = values
    for name in options.ids or known_notebooks(options.notebooks) or ["00"]:
        if name.endswith(".yaml"):
            content = read_yaml(name)
            entries += content if isinstance(content, list) else [content]
        else:
            entries.append(
                {"notebook": name, "preset": options.presets, "grid": grid, "seeds": options.seeds}
            )
    return entries


def points_of(entry: dict, notebooks: Path, results: Path) -> list[Point]:
    """All points of an entry: each combination of the values in its `grid`, each with its number of `seeds`.

    Raises ValueError: an unknown key, notebook or name, a wrong type, a value off its scale, no value.
    """
    if not isinstance(entry, dict) or "notebook" not in entry or not entry.keys() <= set(ENTRY):
        raise ValueError(f"An entry of a grid is a mapping with the keys {', '.join(ENTRY)}, not {entry!r}.")
    known, number = known_notebooks(notebooks), str(entry["notebook"]).zfill(2)
    if number not in known:
        raise ValueError(f"No notebook {number} in {notebooks}; there are: {' '.join(known) or 'none'}.")
    notebook, points, fixed = known[number], [], {}
    presets = entry.get("preset") or []
    for preset in presets if isinstance(presets, list) else [presets]:
        fixed |= read_preset(str(preset), notebook, notebooks / "presets")
    fixed |= entry.get("fixed") or {}
    declared, grid = parameters_of(notebook), {}
    try:
        for name, values in (entry.get("grid") or {}).items():
            kind = declared[name].kind if name in declared else "str"
            grid[name] = read_values(values, kind) if isinstance(values, str) else values
        if "results" in fixed or {"results", "device"} & grid.keys():
            raise ValueError("results and device do not tell runs apart: name the folder by --results.")
        defaults, given = complete_parameters(declared, {}), complete_parameters(declared, fixed)
        if seeds := entry.get("seeds"):
            grid["seed"] = [given["seed"] + number for number in range(seeds)]
        if empty := [name for name, values in grid.items() if not values]:
            raise ValueError(f"{empty[0]} has no value: give one or more, and seeds of 1 or more")
        for values in itertools.product(*grid.values()):
            given = complete_parameters(declared, fixed | dict(zip(grid, values, strict=True)))
            changed = {name: value for name, value in given.items() if value != defaults[name]}
            folder = results / f"{number}-{parameters_hash(given)}"
            copy = f"{notebook.stem}{folder.name[2:] if changed else ''}.ipynb"
            points.append(Point(notebook, changed, folder, results / "notebooks" / copy))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{notebook.name}: {error}") from error
    return points


def take_part(points: list[Point], part: str) -> list[Point]:
    """Every n-th point from the i-th, of "i/n". Raises ValueError for another text."""
    first, _, parts = part.partition("/")
    if not (first.isdigit() and parts.isdigit() and 1 <= int(first) <= int(parts)):
        raise ValueError(f"--part {part}: write i/n, with i from 1 to n.")
    return points[int(first) - 1 :: int(parts)]
