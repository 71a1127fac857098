"""The controls of a board: what a person can set, and what the kernel accepts of it.

A control is a dict for the browser. Its `kind` says what it looks like, and `checked` what its value may be.

| kind | value |
|---|---|
| choice | one of the options |
| range | a number from low to high |
| point | a place [x, y] in the area of the picture, from 0 to 1 each; None before anybody pointed |
| weights | pairs [name, weight] in their order, each name once and one of the options |
| press | none: a button, told to the board when it is pressed |
"""

import math
from collections.abc import Sequence
from numbers import Real


def choice(name: str, label: str, options: Sequence[str]) -> dict:
    """A menu of options, all different."""
    return {"kind": "choice", "name": name, "label": label, "options": [str(option) for option in options]}


def slider(name: str, label: str, low: float, high: float, step: float) -> dict:
    """A slider from low to high."""
    return {"kind": "range", "name": name, "label": label, "low": low, "high": high, "step": step}


def point(name: str, label: str) -> dict:
    """A place in the picture, by a click or the arrow keys."""
    return {"kind": "point", "name": name, "label": label}


def weights(name: str, label: str, options: Sequence[str], step: float = 0.1) -> dict:
    """A list of names with weights that can be lengthened, shortened, reweighted and reordered."""
    options = [str(option) for option in options]
    return {"kind": "weights", "name": name, "label": label, "options": options, "step": step}


def press(name: str, label: str, key: str = "") -> dict:
    """A button. key: pressed on the keyboard, it does the same."""
    return {"kind": "press", "name": name, "label": label, "key": key}


def checked(control: dict, value):
    """A value as the control's kind has it. Raises ValueError if it cannot be one."""
    kind = control["kind"]
    if kind == "choice" and value in control["options"]:
        return value
    if kind == "range" and _finite(value) and control["low"] <= value <= control["high"]:
        return value
    if kind == "point" and (value is None or _is_point(value)):
        return value
    if kind == "weights" and _are_weights(control["options"], value):
        return [[name, float(weight)] for name, weight in value]
    raise ValueError(f"{control['label']} cannot be {value!r}")


def _finite(value) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _is_point(value) -> bool:
    return len(value) == 2 and all(_finite(part) and 0 <= part <= 1 for part in value)


def _are_weights(options: list[str], value) -> bool:
    names = [name for name, _ in value]
    known = set(names) <= set(options) and len(set(names)) == len(names)
    return known and all(_finite(weight) for _, weight in value)
