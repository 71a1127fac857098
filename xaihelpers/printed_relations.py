"""What printed numbers must obey, and whether a check would have found a slip.

A relation of data/papers/relations.yaml names a whole, its parts and a formula. Each printed number stands
for half a unit of its last digit to either side; a relation is violated if the whole's interval and the one
that the parts allow do not meet.
"""

from itertools import product

import numpy as np
import pandas as pd

from xaihelpers.printed_cells import aligned

KINDS = ("equal", "at least", "at most")
NO_PARTS = ("paper", "table", "check", "by", "exact", *KINDS)
SLACK = 1e-9


def bounds(formula: str, numbers: pd.DataFrame, halves: pd.DataFrame) -> pd.DataFrame:
    """The least and the greatest value, `low` and `high`, that a formula of printed numbers can have.

    formula: of the columns' names, monotone in each. numbers, halves: as of `printed_cells.aligned`.
    """
    corners = []
    for signs in product((-1, 1), repeat=numbers.shape[1]):
        corners.append((numbers + halves * list(signs)).eval(formula))
    corners = pd.concat(corners, axis=1)
    return pd.DataFrame({"low": corners.min(axis=1), "high": corners.max(axis=1)})


def violated(whole: pd.Series, half: pd.Series, low: pd.Series, high: pd.Series) -> pd.Series:
    """Whether what prints as the whole lies beside what its parts allow."""
    return (whole + half < low - SLACK) | (whole - half > high + SLACK)


def check(relation: dict, planted: list[int], rng: np.random.Generator) -> pd.DataFrame:
    """A relation, a row for each whole: whether it is violated, and what the check would have found.

    planted: sizes of slips in units of the last digit, upwards or downwards by a coin.
    Returns `whole`, `low`, `high`, `violated`, `kind`; of relations that hold, whether a slip of u units
    (column u) and the whole of another row ("shuffled") is found; and "false alarm", with a whole that
    follows from parts within their rounding.
    """
    parts = {name: spec for name, spec in relation.items() if name not in NO_PARTS}
    numbers, halves = aligned(parts, relation["by"])
    unit, halves = 2 * halves.whole, halves * (not relation.get("exact", False))
    found = []
    for kind in (kind for kind in KINDS if kind in relation):
        rows = bounds(relation[kind], numbers.drop(columns="whole"), halves.drop(columns="whole"))
        follows = (numbers + halves * rng.uniform(-1, 1, numbers.shape)).eval(relation[kind])
        if kind == "at least":
            rows["high"], follows = np.inf, follows.clip(lower=numbers.whole)
        if kind == "at most":
            rows["low"], follows = -np.inf, follows.clip(upper=numbers.whole)
        limits = halves.whole, rows.low, rows.high
        rows["violated"] = violated(numbers.whole, *limits)
        rows["false alarm"] = violated((follows / unit).round() * unit, *limits)
        for units in planted:
            slip = units * unit * rng.choice([-1, 1], len(unit))
            rows[units] = violated(numbers.whole + slip, *limits).where(~rows.violated)
        shuffled = violated(rng.permutation(numbers.whole), *limits)
        rows["shuffled"] = shuffled.where(~rows.violated & (numbers.whole.nunique() > 1))
        about = {name: relation[name] for name in ("paper", "table", "check")}
        of = [", ".join(key) if isinstance(key, tuple) else str(key) for key in rows.index]
        found.append(rows.assign(whole=numbers.whole, of=of, kind=kind, **about))
    return pd.concat(found, ignore_index=True)
