"""A claim's quantity from printed numbers alone, with the interval that they allow, one for each reading.

An entry of `readings` in data/papers/relations.yaml says which cells, which formula, and where the interval
comes from; what is left open (the number of cases, what knows nothing would get) is a reading each.

Where f is a formula of shares or correlations x_i with limits l_i and u_i of their own, its limits are

    f − √Σ_i (f − min(f|l_i, f|u_i))²   and   f + √Σ_i (max(f|l_i, f|u_i) − f)²

with f|l_i: f with x_i at l_i (variance recovery: Zou and Donner, Statistics in Medicine 27, 2008), errors
unrelated. A share has Wilson's limits, one of 0 or 100 % Clopper and Pearson's; a correlation Fisher's, with
the variance 1/(n − 3) of artanh r, of Kendall's τ 0.437/(n − 4) (Fieller, Biometrika 44, 1957).
"""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from xaihelpers import claims
from xaihelpers.claims import Claim, by_interval
from xaihelpers.printed_cells import aligned, cells, fits, load_relations, parts_of, smallest
from xaihelpers.records import read_records
from xaihelpers.scores.intervals import Interval, interval
from xaihelpers.tables import REAL_RUNS

LARGEST = 1200  # of the numbers of cases that a share alone may fit


def readings(entry: dict) -> list[Interval]:
    """Every reading of an entry; none where it has no cells. Raises what `printed_cells.cells` raises."""
    found = []
    for change in [{}, *entry.get("also", [])] if "from" in entry else []:
        changed = entry | change
        floors = changed.get("floor", [0])
        if "guessers" in floors:
            floors = [*floors[:-1], *guessers()]
        for floor, n in product(floors, changed.get("cases", [None])):
            found.append(_reading(changed, parts_of(changed), floor, n))
    return found


@cache
def guessers() -> tuple[float, ...]:
    """Shares in % that those get who see only the options, where the wrong ones lie around the right one.

    From the recorded run of notebook 31 on all species of CUB-200-2011: nowhere else is a floor of theirs.
    """
    rows = read_records(REAL_RUNS)
    rows = rows[(rows.notebook == "31") & (rows.table == "blind ladder") & (rows.data == "CUB_200_2011")]
    return tuple(sorted(rows.value[rows.row.str.startswith("sets=class,")]))


def own_table(claim: Claim, several: list[Interval], undocumented: bool = False) -> str:
    """What a paper's own printed numbers say of its claim.

    Supported: all of several readings hold; undocumented, if a step that the paper leaves open could turn it
    round. Contradicted: all fail. Depends on the reading: one holds, another fails. Else it cannot be told.
    """
    said = {by_interval(claim, one) for one in several}
    if said == {claims.HOLDS}:
        return claims.UNDOCUMENTED if undocumented else claims.SUPPORTED
    if said == {claims.FAILS}:
        return claims.CONTRADICTED
    return claims.READING if {claims.HOLDS, claims.FAILS} <= said else claims.OPEN


def own_tables(ledger: dict[str, Claim]) -> tuple[pd.DataFrame, dict[str, list[Interval]]]:
    """The verdict of `own_table` on each claim, and its readings.

    Returns a row for each claim of `claims.load_claims`: `paper`, `claim`, `metric` (its unit), `verdict`,
    `readings` (what they say), `why`, and the first reading's value with the widest interval that a reading
    gives it; and claim -> readings.
    """
    relations = load_relations()
    rows, several = [], {}
    for claim in ledger.values():
        entry = relations["readings"].get(claim.id, {})
        several[claim.id] = found = readings(entry)
        row = {"paper": claim.paper, "claim": claim.id, "metric": claim.unit}
        row["verdict"] = own_table(claim, found, "open" in entry)
        row["readings"] = ", ".join(dict.fromkeys(by_interval(claim, one) for one in found))
        row["why"] = entry.get("why", "no number is printed")
        if "open" in entry:
            row["why"] += f"; open: {relations['steps'][entry['open']]}"
        alike = [one for one in found if one.value == found[0].value]
        widest = max(alike, key=lambda one: np.nan_to_num(one.high - one.low), default=None)
        rows.append(row | ({"value": np.nan} if widest is None else widest._asdict()))
    return pd.DataFrame(rows), several


def share_interval(share: float, n: float) -> Interval:
    """A share in % of n cases: Wilson's interval, of 0 and 100 % Clopper and Pearson's."""
    k = round(share / 100 * n)
    low, high = proportion_confint(k, n, method="beta" if k in (0, n) else "wilson")
    return Interval(share, 100 * low, 100 * high, int(n), n)


def correlation_interval(r: float, n: int, kind: str = "Pearson", best_of: int = 1) -> Interval:
    """A correlation of n cases, "Pearson" or "Kendall"; the best of several has Bonferroni's interval."""
    variance = 1 / (n - 3) if kind == "Pearson" else 0.437 / (n - 4)
    margin = stats.norm.isf(0.025 / best_of) * np.sqrt(variance)
    low, high = np.tanh(np.arctanh(r) + np.array([-margin, margin]))
    return Interval(r, low, high, n, n)


def combined(formula: str, parts: dict[str, list[Interval]], **constants: float) -> Interval:
    """A formula of the means of parts, each of one or several shares or correlations (module docstring)."""
    means = {name: float(np.mean([one.value for one in several])) for name, several in parts.items()}
    means |= constants
    value = float(pd.eval(formula, local_dict=means))
    below, above = 0.0, 0.0
    for name, several in parts.items():
        for one in several:
            moved = [means[name] + (end - one.value) / len(several) for end in (one.low, one.high)]
            ends = [float(pd.eval(formula, local_dict=means | {name: end})) for end in moved]
            below, above = np.hypot(below, value - min(ends)), np.hypot(above, max(ends) - value)
    n = sum(one.cases for several in parts.values() for one in several)
    return Interval(value, value - below, value + above, n, n)


def _reading(entry: dict, parts: dict, floor: float, n: float | str | None) -> Interval:
    """One reading. n: cases of each share or correlation; "fits", "fit together": the smallest that does."""
    source, by = entry["from"], entry.get("by", [])
    if source == "kinds":
        first, second = (cells(parts[name]).number for name in "ab")
        limits = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
        n = len(first) + len(second)
        return Interval(first.mean() - second.mean(), *limits, n, n)
    if source in ("cells", "correlation", "once", "margin"):
        numbers = aligned(parts, by)[0].assign(floor=floor)
    if source == "cells":
        values = numbers.eval(entry["value"])
        if "least_of" in entry:
            values = values.groupby([key for key in by if key != entry["least_of"]]).min()
        # the keys of three levels or more that stand for several cells: of two none tells where a third lies
        levels = [values.index.get_level_values(name) for name in values.index.names]
        clusters = [one for one in levels if one.nunique() >= 3 and one.has_duplicates]
        return interval(values, clusters=None if entry.get("clusters") == "none" else clusters or None)
    if source == "correlation":
        clusters = numbers.index.get_level_values(entry["clusters"])
        return interval(numbers.a, numbers.b, statistic="correlation", clusters=clusters)
    if source in ("once", "margin"):
        value = numbers.eval(entry["value"]).iloc[0]
        margin = numbers.eval(entry["margin"]).iloc[0] if source == "margin" else np.nan
        return Interval(value, value - margin, value + margin, 1, 1)
    if n == "fit together":
        n = smallest(fits([text for spec in parts.values() for text in cells(spec).value], LARGEST))
    of_part = {name: _limits(entry, spec, n) for name, spec in parts.items()}
    return combined(entry["value"], of_part, floor=floor)


def _limits(entry: dict, spec: dict | str, n: float | str | None) -> list[Interval]:
    """The intervals of a part's cells by themselves; with `take` of the one number."""
    source, rows = entry["from"], cells(spec)
    if "below" in spec:
        return [share_interval(100 * (rows.number < spec["below"]).mean(), len(rows))]
    if "take" in spec:
        rows = rows.head(1).assign(number=rows.number.agg(spec["take"]))
    found = []
    for text, number, half in rows[["value", "number", "half"]].itertuples(index=False):
        if source in ("Pearson", "Kendall"):
            found.append(correlation_interval(number, n, source, entry.get("best_of", 1)))
        elif source == "rounding":
            found.append(Interval(number, number - half, number + half, 1, 1))
        else:
            found.append(share_interval(number, smallest(fits([text], LARGEST)) if n == "fits" else n))
    return found
