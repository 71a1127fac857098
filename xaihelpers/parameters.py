"""The parameters of a notebook: what its first cell declares, checked against what a run was given.

papermill only warns about a name that the notebook does not know, and takes any type. Here both are errors,
and so is a number off its scale: a count of nothing, a share above 1. The check needs nothing but the
kernel's own names and history, so it holds for the plain papermill command as well.
"""

import ast
import difflib
import hashlib
import json
import re
from math import inf
from typing import NamedTuple

TYPES = {"int": int, "float": (int, float), "str": str, "bool": bool}
RENAMED = {"draws": ("n_fits", "n_random", "n_planted")}  # what earlier runs called it
NOT_IDENTITY = ("results", "device")  # where and on what a run was made, not what was run
# Whole numbers that count something; 0 of them only where the comment says what 0 means
COUNTS = re.compile(
    r"n_\w+|batch_size|birds_per_attribute|code_steps|epochs|first|images_per_class|k|largest|"
    r"letter_tokens|max_tokens|permutations|raters|rounds|shards|shuffles|sides?|size|steps|top|top_k"
)
SHARES = re.compile(
    r"accuracy|beta|dots|errors|failures|keep_share|least_overlap|likely|other_betas|prevalences|reach|recognised"
)
PERCENTAGES = re.compile(r"corrected|cutoff|decorrelated|precision|recall")


class ParameterError(ValueError):
    """A parameter is unknown, or its value is of the wrong type or off its scale."""


class Parameter(NamedTuple):
    """A parameter as a cell declares it: `name: kind = default  # meaning`."""

    kind: str  # as written
    default: object
    meaning: str = ""


def declared_parameters(source: str) -> dict[str, Parameter]:
    """Read a parameters cell: name -> what it declares.

    Empty if the cell holds anything but annotated assignments of literals.
    """
    found, lines = {}, source.splitlines()
    try:
        for statement in ast.parse(source).body:
            rest = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
            what = ast.unparse(statement.annotation), ast.literal_eval(statement.value)
            found[statement.target.id] = Parameter(*what, rest.partition("#")[2].strip())
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

    namespace: the notebook's `globals()`. The annotated names of the parameters cell are the parameters, with
        the values that they have now; its `In`, IPython's history of cells, holds the cell that papermill has
        added, the last where it was run again. Where no history is kept (nbval, plain Python) only types are
        checked, and what is told without a comment.

    Raises ParameterError: as `complete_parameters`; a parameters cell that has not been run.
    """
    history = [source for source in namespace.get("In", []) if source]
    cell = next(filter(None, map(declared_parameters, history)), {})  # without a history, all names are its
    declared, given = {}, {}
    for name, kind in namespace.get("__annotations__", {}).items():
        kind = kind.__name__ if type(kind) is type else str(kind)
        if (kind in TYPES or kind.startswith("list[")) and (name in cell or not history):
            meaning = cell[name].meaning if name in cell else "0: its comment is not known here"
            declared[name], given[name] = Parameter(kind, None, meaning), namespace.get(name)
    if history and not declared:
        raise ParameterError(
            "Run the cell tagged 'parameters', the first one of the notebook, before this cell."
        )
    added = [source for source in history if source.lstrip().startswith("# Parameters")]  # by papermill
    for name in re.findall(r"^(\w+) = ", added[-1], re.M) if added else ():
        given.setdefault(name)
    return complete_parameters(declared, given)


def complete_parameters(declared: dict[str, Parameter], given: dict[str, object]) -> dict[str, object]:
    """All parameters of a run that is given some of them: name -> value, as `check_parameters` returns them.

    declared: as of `declared_parameters`. 1 and 1.0 are the same value of a float, and so the same run.
    Raises ParameterError: an unknown name, with its new one or the nearest known; a wrong type; a number off
        its scale, as of `_scale`.
    """
    for name in given:
        if name not in declared:
            near = [new for new in RENAMED.get(name, ()) if new in declared]
            near = near or difflib.get_close_matches(name, declared, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(declared)}."
            raise ParameterError(f"This notebook has no parameter {name!r}: {hint}")
    values = {}
    for name, (kind, default, meaning) in declared.items():
        value = given.get(name, default)
        if not has_type(value, kind):
            raise ParameterError(_wrong(name, kind, value))
        low, high, wanted = _scale(name, kind, meaning)
        for number in value if isinstance(value, list) else [value]:
            if wanted and not low <= number <= high:
                raise ParameterError(f"{name} is {number}: it has to be {wanted} ({meaning})")
        value = float(value) if kind == "float" else value
        values[name] = [float(item) for item in value] if kind == "list[float]" else value
    return values


def parameters_hash(parameters: dict[str, object]) -> str:
    """Ten hexadecimal digits that name a run: a hash of its parameters but for NOT_IDENTITY."""
    what = {name: value for name, value in parameters.items() if name not in NOT_IDENTITY}
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:10]


def _scale(name: str, kind: str, meaning: str) -> tuple[float, float, str]:
    """The least and the greatest that a number may be, and both in words; no words for what is no number."""
    if "int" in kind and (name == "seed" or COUNTS.fullmatch(name)):
        least = 0 if name == "seed" or re.search(r"(?<![\d.,])0(?![\d.,]\d)", meaning) else 1
        return least, inf, f"{least} or more"
    if PERCENTAGES.fullmatch(name):
        least = 1 if "float" in kind else 0  # of 0.85 a share is meant
        return least, 100, f"{least} to 100, in %"
    if "threshold" in name and "probability" not in meaning:
        return 0, 5, "0 to 5, as scores are"
    if "threshold" in name or SHARES.fullmatch(name):
        return 0, 1, "0 to 1, a share"
    return -inf, inf, "a number" if "float" in kind else ""


def _wrong(name: str, kind: str, value: object) -> str:
    message = f"Parameter {name!r} must be {kind}, not {type(value).__name__} ({value!r})"
    if kind.startswith("list"):
        return f"{message}: give it to papermill as -y '{name}: [..., ...]'."
    if kind == "float" and isinstance(value, str):
        return f"{message}: write it with a point, as in 1.0e-3 (YAML takes 1e-3 for text)."
    return f"{message}."
