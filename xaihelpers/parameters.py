"""The parameters of a notebook: what its first cell declares, checked against what a run was given.

papermill only warns about a name that the notebook does not know, and takes any type. Here both are errors,
and the check needs nothing but the kernel's own input history, so it holds for the plain papermill command as
well.
"""

import ast
import contextlib
import difflib
import hashlib
import json

TYPES = {"int": int, "float": (int, float), "str": str, "bool": bool}
NOT_IDENTITY = ("results", "device")  # where and on what a run was made, not what was run


class ParameterError(ValueError):
    """A parameter is unknown or its value is of the wrong type."""


def declared_parameters(source: str) -> dict[str, tuple[str, object]]:
    """Read a parameters cell: name -> (type as written, default value).

    Empty if the cell holds anything but annotated assignments of literals.
    """
    found = {}
    try:
        for statement in ast.parse(source).body:
            found[statement.target.id] = ast.unparse(statement.annotation), ast.literal_eval(statement.value)
    except (SyntaxError, AttributeError, ValueError):  # a cell magic, no annotation, or not of a literal
        return {}
    return found


def has_type(value: object, kind: str) -> bool:
    """Whether `value` is of the declared `kind`: int, float, str, bool or list[...] of one of these.

    An int is welcome where a float is declared, a bool is no number. An unknown kind fits nothing.
    """
    if kind.startswith("list[") and kind.endswith("]"):
        return isinstance(value, list) and all(has_type(item, kind[5:-1]) for item in value)
    if isinstance(value, bool):
        return kind == "bool"
    return isinstance(value, TYPES.get(kind, ()))


def check_parameters(namespace: dict) -> dict[str, object]:
    """Check a notebook's parameters and return them, name -> value.

    namespace: the notebook's `globals()`. Its `In`, IPython's history of cells, tells the declared parameters
        from papermill's injected ones. Where no history is kept (nbval, plain Python) the annotated names of
        the namespace are the parameters, and only their types are checked.

    Cells may have been run again or out of order: what ran last counts. Where the notebook has since bound a
    parameter's name to something else (`data = load(data)`), the value given to the parameter is returned.

    Raises ParameterError: an unknown name, with the nearest known one; a wrong type; a parameters cell that
        has not been run.
    """
    history = [source for source in namespace.get("In", []) if source]
    declared, given = {}, {}  # name -> (type, value in force), name -> value that papermill gave
    if not history:
        declared = _annotated(namespace)
        given = {name: namespace.get(name) for name in declared}
    for source in history:
        cell = declared_parameters(source)
        if cell and (not declared or declared.keys() & cell.keys()):
            declared |= cell
            given = {name: value for name, value in given.items() if name not in cell}
        elif source.lstrip().startswith("# Parameters"):  # the first line of the cell that papermill adds
            given = _injected(source, namespace)
    if history and not declared:
        raise ParameterError(
            "Run the cell tagged 'parameters', the first one of the notebook, before this cell."
        )
    values = complete_parameters(declared, given)
    for name, (kind, _) in declared.items():
        if has_type(namespace.get(name), kind):
            values[name] = _plain(namespace[name], kind)
    return values


def complete_parameters(
    declared: dict[str, tuple[str, object]], given: dict[str, object]
) -> dict[str, object]:
    """All parameters of a run that is given some of them: name -> value, as `check_parameters` returns them.

    declared: as of `declared_parameters`.
    Raises ParameterError: an unknown name, with the nearest known one; a wrong type.
    """
    for name in given:
        if name not in declared:
            near = difflib.get_close_matches(name, declared, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(declared)}."
            raise ParameterError(f"This notebook has no parameter {name!r}: {hint}")
    values = {}
    for name, (kind, default) in declared.items():
        value = given.get(name, default)
        if not has_type(value, kind):
            raise ParameterError(_wrong(name, kind, value))
        values[name] = _plain(value, kind)
    return values


def parameters_hash(parameters: dict[str, object]) -> str:
    """Ten hexadecimal digits that name a run: a hash of its parameters but for NOT_IDENTITY."""
    what = {name: value for name, value in parameters.items() if name not in NOT_IDENTITY}
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:10]


def _injected(source: str, namespace: dict) -> dict[str, object]:
    values, statements = {}, []
    with contextlib.suppress(SyntaxError):  # a cell magic, in a cell of the reader's own
        statements = ast.parse(source).body
    for statement in statements:
        if isinstance(statement, ast.Assign):
            name = ast.unparse(statement.targets[0])
            try:
                values[name] = ast.literal_eval(statement.value)
            except ValueError:  # papermill writes float('nan') and float('inf')
                values[name] = namespace.get(name)
    return values


def _annotated(namespace: dict) -> dict[str, tuple[str, object]]:
    found = {}
    for name, kind in namespace.get("__annotations__", {}).items():
        kind = kind.__name__ if type(kind) is type else str(kind)
        if kind in TYPES or kind.startswith("list["):
            found[name] = kind, None
    return found


def _plain(value: object, kind: str) -> object:
    """1 and 1.0 are the same value of a float parameter, and so the same run."""
    if kind == "list[float]":
        return [float(item) for item in value]
    return float(value) if kind == "float" else value


def _wrong(name: str, kind: str, value: object) -> str:
    message = f"Parameter {name!r} must be {kind}, not {type(value).__name__} ({value!r})"
    if kind.startswith("list"):
        return f"{message}: give it to papermill as -y '{name}: [..., ...]'."
    if kind == "float" and isinstance(value, str):
        return f"{message}: write it with a point, as in 1.0e-3 (YAML takes 1e-3 for text)."
    return message + "."
