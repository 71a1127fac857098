"""Cells of the papers' printed tables, and what they must obey: entries of data/papers/relations.yaml.

A printed number stands for all that print alike: 45.90 for 45.895 to 45.905, half a unit of the last digit to
either side. A relation names a whole, its parts and a formula; it is violated if the whole's interval and the
one that the parts allow do not meet.
"""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import yaml

from xaihelpers.tables import FOLDER, key_text

SLACK = 1e-9  # a value half-way between two printable ones may be rounded either way


@cache
def load_relations() -> dict:
    """data/papers/relations.yaml: relations, steps and readings."""
    return yaml.safe_load((FOLDER / "relations.yaml").read_text())


@cache
def _table(name: str) -> pd.DataFrame:
    rows = pd.read_csv(FOLDER / f"{name}.csv", dtype=str).drop(columns=["unit", "note"], errors="ignore")
    rows["number"] = pd.to_numeric(rows.value, errors="coerce")
    rows = rows[rows.number.notna()]
    keys = {key: rows[key].map(key_text) for key in rows.columns.drop(["metric", "value", "number"])}
    return rows.assign(**keys, half=rows.value.map(half_unit))


def half_unit(text: str) -> float:
    """How far a number may lie from what is printed: half a unit of the last digit."""
    n_decimals = len(text.partition(".")[2])
    return 0.5 * 10.0**-n_decimals


def cells(spec: dict | str) -> pd.DataFrame:
    """The printed cells that an entry of relations.yaml chooses, with `value` (text), `number` and `half`.

    spec: its file or files `in`, wanted values of columns, `without`; or a text as if it were printed.
    Raises FileNotFoundError for an unknown file, KeyError for an unknown column, ValueError if none is left.
    """
    if isinstance(spec, str):
        return pd.DataFrame({"value": [spec], "number": [float(spec)], "half": [half_unit(spec)]})
    names = spec["in"] if isinstance(spec["in"], list) else [spec["in"]]
    rows = pd.concat([_table(name) for name in names], ignore_index=True)
    for key, wanted in spec.items():
        if key not in ("in", "by", "take", "below", "without", "stated"):
            rows = rows[rows[key].isin(_texts(wanted))]
    for key, unwanted in spec.get("without", {}).items():
        rows = rows[~rows[key].isin(_texts(unwanted))]
    if rows.empty:
        raise ValueError(f"no printed cell is {spec}")
    return rows


def _texts(wanted) -> list[str]:
    return [key_text(one) for one in (wanted if isinstance(wanted, list) else [wanted])]


def parts_of(entry: dict) -> dict[str, dict | str]:
    """The cells of an entry's formula, whose names have one letter."""
    return {name: spec for name, spec in entry.items() if len(name) == 1}


def aligned(parts: dict[str, dict | str], by: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Parts beside each other, a row for each key that all of them have: numbers, and half units.

    parts: name -> cells. by: the columns that are keys; a part that has none of them stands in each row.
    Raises ValueError if a part has several cells of a key and no `take`.
    """
    numbers, halves, alone = {}, {}, {}
    for name, spec in parts.items():
        rows = cells(spec)
        take = spec.get("take") if isinstance(spec, dict) else None
        keys = [key for key in by if key in rows]
        grouped = rows.groupby(keys or np.zeros(len(rows)), sort=False)[["number", "half"]]
        if not take and (grouped.size() > 1).any():
            raise ValueError(f"several printed cells of a key are {spec}: say what to take")
        taken = grouped.agg(take or "first")
        if keys:
            numbers[name], halves[name] = taken.number, taken.half
        else:
            alone[name] = taken.iloc[0]
    index = [0] if not numbers else None
    numbers, halves = pd.DataFrame(numbers, index), pd.DataFrame(halves, index)
    numbers, halves = numbers.dropna(), halves[numbers.notna().all(axis=1)]
    for name, (number, half) in alone.items():
        numbers[name], halves[name] = number, half
    return numbers[[*parts]], halves[[*parts]]


def bounds(formula: str, numbers: pd.DataFrame, halves: pd.DataFrame) -> pd.DataFrame:
    """The least and the greatest value, `low` and `high`, that a formula of printed numbers can have.

    formula: of the columns' names, monotone in each. numbers, halves: as of `aligned`.
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
    parts = parts_of(relation) | {"whole": relation["whole"]}
    numbers, halves = aligned(parts, relation["by"])
    unit, halves = 2 * halves.whole, halves * (not relation.get("exact", False))
    found = []
    for kind in ("equal", "at least", "at most"):
        if kind not in relation:
            continue
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


def fits(texts: list[str], largest: int) -> np.ndarray:
    """Which numbers of cases n = 1 … `largest` make every printed share of 100 a fraction k/n, (largest,).

    The GRIM test turned round (Brown and Heathers, Social Psychological and Personality Science 8, 2017).
    """
    n, every = np.arange(1, largest + 1), np.ones(largest, bool)
    for text in texts:
        k = np.round(float(text) / 100 * n)
        every &= abs(100 * k / n - float(text)) <= half_unit(text) + SLACK
    return every


def smallest(fitting: np.ndarray) -> float:
    """The smallest number of cases that fits, NaN if none does. fitting: as of `fits`."""
    return float(fitting.argmax() + 1) if fitting.any() else np.nan
