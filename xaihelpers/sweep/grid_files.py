"""Grids as they are asked for: YAML files, and what stands on the command line."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from xaihelpers.parameters import has_type
from xaihelpers.sweep.grid import NOTEBOOKS, RANGE, Grid, GridError, find_notebook, notebook_parameters

KEYS = ("notebook", "preset", "fixed", "grid", "zip", "draws")
TRUTHS = {"true": True, "false": False}


def read_grids(file: str | Path, notebooks: Path = NOTEBOOKS) -> list[Grid]:
    """The grids of a YAML file: one mapping of these keys, or a list of them.

    notebook: its number, name or file. preset: a file of parameters, as of `find_preset`.
    fixed: name -> value. grid, zip: name -> list of values, or a range 0..63. draws: how many seeds.
    All but `notebook` may be missing.
    Raises GridError: no such file, no YAML, an unknown key, a value of the wrong kind.
    """
    content = _yaml(Path(file))
    entries = content if isinstance(content, list) else [content]
    grids = []
    for number, entry in enumerate(entries, start=1):
        source = f"{Path(file).name}, entry {number}" if len(entries) > 1 else Path(file).name
        grids.append(_read_entry(entry, source, notebooks))
    if not grids:
        raise GridError(f"{file} holds no grid.")
    return grids


def command_grids(
    ids: Sequence[str],
    assignments: Sequence[str] = (),
    presets: Sequence[str] = (),
    draws: int = 0,
    notebooks: Path = NOTEBOOKS,
) -> list[Grid]:
    """The grid of each notebook that a command line asks for.

    ids: notebooks. assignments: "name=values", as of `parse_values`; several values make a grid.
    presets: files of parameters, as of `find_preset`; later ones win, and assignments win over all of them.
    Raises GridError: an unknown notebook, an assignment that is none, an unknown name, a value of the wrong
        type, a file that is not there.
    """
    if not ids:
        raise GridError("Name the notebooks that -p, -f or --draws are for, for instance: run 11 -p seed=1,2")
    grids = []
    for name in ids:
        notebook = find_notebook(name, notebooks)
        declared = notebook_parameters(notebook)
        fixed: dict[str, object] = {}
        for preset in presets:
            fixed |= read_preset(find_preset(preset, notebook))
        varied: dict[str, list] = {}
        for text in assignments:
            parameter, equals, values = text.partition("=")
            if not equals:
                raise GridError(f"-p {text}: write -p name=value, or -p name=value,value for several.")
            kind = declared[parameter][0] if parameter in declared else "str"
            if parameter in varied:
                raise GridError(f"-p {text}: {parameter!r} is given twice; write its values in one -p.")
            varied[parameter] = parse_values(values, kind, f"-p {text}")
            fixed.pop(parameter, None)
        fixed |= {name: values[0] for name, values in varied.items() if len(values) == 1}
        grid = {name: values for name, values in varied.items() if len(values) > 1}
        grids.append(Grid(str(notebook), fixed, grid, draws=draws, source="the command line"))
    return grids


def parse_values(text: str, kind: str, about: str = "") -> list:
    """The values that "a,b,c" gives to a parameter of a type; a list is written in brackets, "[a,b],[c]".

    One value of a list parameter may be written without brackets: it is a list of one. Whole numbers have a
    range, "0..63". Quotes protect commas.

    kind: as declared: int, float, str, bool or list[...] of one of these.
    about: where the text stands, for errors.
    Raises GridError: a text that cannot be read, a value of the wrong type.
    """
    try:
        read = yaml.load(f"[{text}]", Loader=yaml.BaseLoader)  # all of it stays text
    except yaml.YAMLError as error:
        raise GridError(f"{about}: cannot read {text!r}; quote what holds brackets or commas.") from error
    if not read and not kind.startswith("list["):
        read = [""]
    if not read:
        raise GridError(f"{about}: no value; an empty list is written [].")
    values = []
    for value in read:
        bounds = RANGE.fullmatch(value) if kind == "int" and isinstance(value, str) else None
        if bounds:
            values += range(int(bounds[1]), int(bounds[2]) + 1)
        else:
            values.append(_typed(value, kind, about))
    if not values:
        raise GridError(f"{about}: the range {text} is empty; write the smaller number first.")
    return values


def find_preset(name: str, notebook: Path) -> Path:
    """The file of parameters that a name means for a notebook.

    That is a path; a file beside the notebook, whose number may stand for its name ("11.paper.yaml"); or what
    stands between: "paper" is notebooks/11_posthoc_bottleneck.paper.yaml.
    Raises GridError if there is none, with those that there are.
    """
    beside = notebook.parent
    short = name.removeprefix(f"{notebook.name[:2]}.")
    for place in (
        Path(name),
        beside / name,
        beside / f"{notebook.stem}.{short}",
        beside / f"{notebook.stem}.{name}.yaml",
    ):
        if place.is_file():
            return place.resolve()
    known = ", ".join(sorted(path.name for path in beside.glob(f"{notebook.stem}.*.yaml"))) or "none"
    raise GridError(f"There is no file {name} for {notebook.name}; beside it there are: {known}.")


def read_preset(file: Path) -> dict[str, object]:
    """The parameters of a papermill YAML file, without `results`. Raises GridError if it holds no mapping."""
    content = _yaml(file)
    if not isinstance(content, dict):
        raise GridError(f"{file} must hold parameters, as `name: value` lines.")
    return {name: value for name, value in content.items() if name != "results"}


def _read_entry(entry: object, source: str, notebooks: Path) -> Grid:
    if not isinstance(entry, dict) or "notebook" not in entry:
        raise GridError(f"{source}: a grid is a mapping with the key notebook, for instance 'notebook: 11'.")
    if unknown := [str(key) for key in entry if key not in KEYS]:
        raise GridError(f"{source}: unknown key {unknown[0]!r}; a grid has {', '.join(KEYS)}.")
    for key in ("fixed", "grid", "zip"):
        if not isinstance(entry.get(key) or {}, dict):
            raise GridError(f"{source}: {key!r} must hold `name: value` lines.")
    draws = entry.get("draws") or 0
    if not has_type(draws, "int") or draws < 0:
        raise GridError(f"{source}: 'draws' is a number of seeds, not {draws!r}.")
    number = entry["notebook"]
    name = f"{number:02d}" if isinstance(number, int) else str(number)
    fixed: dict[str, object] = {}
    if entry.get("preset"):
        fixed = read_preset(find_preset(str(entry["preset"]), find_notebook(name, notebooks)))
    varied = [{**(entry.get(key) or {})} for key in ("grid", "zip")]
    fixed = {name: value for name, value in fixed.items() if not any(name in names for names in varied)}
    return Grid(name, fixed | (entry.get("fixed") or {}), *varied, draws, source)


def _typed(value: object, kind: str, about: str) -> object:
    """Text, or a list of texts, as a value of a declared type."""
    if kind.startswith("list["):
        items = value if isinstance(value, list) else [value]
        return [_typed(item, kind[5:-1], about) for item in items]
    try:
        if not isinstance(value, str):
            raise ValueError
        if kind == "bool":
            return TRUTHS[value.lower()]
        return {"int": int, "float": float}.get(kind, str)(value)
    except (ValueError, KeyError):
        shown = "a list" if isinstance(value, list) else repr(value)
        raise GridError(f"{about}: {shown} is no {kind}.") from None


def _yaml(file: Path) -> object:
    try:
        return yaml.safe_load(file.read_text())
    except OSError as error:
        raise GridError(f"{file} cannot be read ({error.strerror}).") from error
    except yaml.YAMLError as error:
        raise GridError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
