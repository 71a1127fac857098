"""How many cases printed shares can have been shares of, and how often luck would find as few.

Shares p in % with d decimals that were measured on the same n cases are all k/n up to rounding,

    |100 k/n − p| ≤ 10^−d / 2  for some whole k

(the GRIM test turned round: Brown and Heathers, Social Psychological and Personality Science 8, 2017).
Something always fits, so each n is held against random shares with as many decimals.
"""

from functools import cache

import numpy as np

from xaihelpers.printed_cells import SLACK, decimals, half_unit


def fits(texts: list[str], largest: int) -> np.ndarray:
    """Which numbers of cases n = 1 … `largest` make every printed share of 100 a fraction k/n, (largest,)."""
    n, every = np.arange(1, largest + 1), np.ones(largest, bool)
    for text in texts:
        k = np.round(float(text) / 100 * n)
        every &= abs(100 * k / n - float(text)) <= half_unit(text) + SLACK
    return every


def smallest(fitting: np.ndarray) -> float:
    """The smallest number of cases that fits, NaN if none does. fitting: as of `fits`."""
    return float(fitting.argmax() + 1) if fitting.any() else np.nan


@cache
def _printable(n_decimals: int, largest: int) -> np.ndarray:
    """(printable shares, largest) of bool: which shares of that precision are k/n."""
    units = 100 * 10**n_decimals
    table = np.zeros((units + 1, largest), bool)
    for n in range(1, largest + 1):
        table[np.rint(units * np.arange(n + 1) / n).astype(int), n - 1] = True
    return table


def random_fits(texts: list[str], largest: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """How many of as many random shares with as many decimals are k/n, (draws, largest)."""
    count = np.zeros((draws, largest), np.int8)
    for text in texts:
        table = _printable(decimals(text), largest)
        count += table[rng.integers(len(table), size=draws)]
    return count


def luck(texts: list[str], largest: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Share of random tables that some number of cases up to n fits, (2, largest): all shares, all but one.

    Of two shares or one only the first row: all but one of them says nothing.
    """
    count = random_fits(texts, largest, draws, rng)
    needed = [len(texts), len(texts) - 1] if len(texts) > 2 else [len(texts)]
    return np.array([np.logical_or.accumulate(count >= m, axis=1).mean(0) for m in needed])


def recovered(fitting: np.ndarray, lucky: np.ndarray, likely: float) -> float:
    """The number of cases of shares: the smallest that fits all or, where none does, all but one.

    NaN where more than `likely` of the random tables fit one as small. Its multiples fit as well.
    fitting: (shares, largest), `fits` of each. lucky: as of `luck`.
    """
    for left_out, curve in enumerate(lucky):
        n = smallest(fitting.sum(axis=0) >= len(fitting) - left_out)
        if not np.isnan(n):
            return n if curve[int(n) - 1] <= likely else np.nan
    return np.nan


def shuffled(
    groups: list[tuple[list[str], np.ndarray, np.ndarray]], likely: float, rng: np.random.Generator
) -> int:
    """How many groups have a number of cases `recovered` once all shares have changed places between them.

    A share takes the place of one with as many decimals, so that each group keeps its luck.

    groups: texts, `fits` of each (shares, largest), and `luck`. likely: as of `recovered`.
    """
    fitting = np.concatenate([of_group[1] for of_group in groups])
    precision = np.array([decimals(text) for of_group in groups for text in of_group[0]])
    for n_decimals in np.unique(precision):
        places = np.flatnonzero(precision == n_decimals)
        fitting[places] = fitting[rng.permutation(places)]
    ends = np.cumsum([len(of_group[0]) for of_group in groups])[:-1]
    count = 0
    for mixed, of_group in zip(np.split(fitting, ends), groups, strict=True):
        count += not np.isnan(recovered(mixed, of_group[2], likely))
    return count
