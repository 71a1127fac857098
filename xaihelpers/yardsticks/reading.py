"""What one yardstick says of one model: cases, beside what knows nothing gets on the same cases.

    value   = mean of the cases
    lead    = mean of (case − what the blind gets on the same case), turned so that high is good

A statistic that has no cases of its own (an area over all images, a leakage) is cut into FOLDS pseudo-values

    p_f = F t − (F − 1) t_(−f),   centred on t,

of which the mean is the statistic and the spread the jackknife's over folds of images.

yardsticks.csv lists all yardsticks in the order of the lines: paper (or "literature", "control"), truth that
it asks for, unit, bounds, whether high or low is good, the function that gives its cases, and its needs; what
it measures, in a sentence, and, where it has no ladder (`scores.exchange`), why.
"""

from collections.abc import Callable
from math import isfinite, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from xaihelpers.scores.exchange import Ladder
from xaihelpers.scores.intervals import Interval, interval

ABOVE, BELOW, OPEN = "above blind", "below blind", "cannot be told"
RANKS = {BELOW: 0, OPEN: 1, ABOVE: 2}
FOLDS = 10
YARDSTICKS = pd.read_csv(Path(__file__).with_name("yardsticks.csv")).fillna({"unit": "", "no_ladder": ""})


class Reading(NamedTuple):
    """A yardstick's cases of one model, NaN where a case does not count; shares from 0 to 1 before `of`."""

    cases: np.ndarray  # (n,)
    blind: dict  # what knows nothing -> (n,) of the same cases, or one number for all
    clusters: np.ndarray | None = None  # (n,), which cases belong together
    bounds: tuple[float, float] | None = None  # least and greatest case, where the list does not say them
    ladder: Callable[[], Ladder | None] | None = None  # makes the exchange, where the yardstick has one
    about: tuple | None = None  # the yardstick's row of the list

    def of(self, about: tuple) -> "Reading":
        """The same in the unit of a yardstick. about: its row of the list."""
        scale = 100 if about.unit == "%" else 1
        cases, blind = scale * np.asarray(self.cases, float), {}
        for name, some in self.blind.items():
            blind[name] = scale * np.broadcast_to(np.asarray(some, float), cases.shape)
        bounds = self.bounds or (None if np.isnan(about.least) else (about.least, about.most))
        return Reading(cases, blind, self.clusters, bounds, self.ladder, about)

    @property
    def sign(self) -> int:
        """1 where high is good, −1 where low is."""
        return -1 if self.about.good == "low" else 1

    def value(self) -> Interval:
        """The mean of the cases with its 95 % interval."""
        return _mean(self.cases, self.clusters, self.bounds)

    def hardest(self) -> tuple[str, float]:
        """The blind rival that does best, and its mean; "", NaN where there is none."""
        best = "", nan
        for name, cases in self.blind.items():
            both = np.isfinite(cases) & np.isfinite(self.cases)
            mean = float(cases[both].mean()) if both.any() else nan
            if isfinite(mean) and not self.sign * mean <= self.sign * best[1]:
                best = name, mean
        return best

    def lead(self) -> Interval:
        """By how much the model does better than the hardest blind rival, paired; high is good."""
        lead = self.sign * (self.cases - self.blind.get(self.hardest()[0], nan))
        extent = self.bounds and self.bounds[1] - self.bounds[0]
        return _mean(lead, self.clusters, self.bounds and (-extent, extent))


def _mean(cases: np.ndarray, clusters: np.ndarray | None, bounds: tuple[float, float] | None) -> Interval:
    # a mean without bounds is no share, even where all its cases happen to be 0 or 1
    return interval(cases, statistic="mean" if bounds else np.mean, clusters=clusters, bounds=bounds)


def judged(
    judge: Callable, own: object, rivals: dict, clusters: np.ndarray | None, ladder: Callable | None = None
) -> Reading:
    """What a judge (object -> cases (n,)) says of the model's own and of each rival's."""
    return Reading(judge(own), {name: judge(one) for name, one in rivals.items()}, clusters, ladder=ladder)


def verdict(lead: Interval) -> str:
    """Whether the whole interval of a lead lies above 0, below 0, or neither."""
    if lead.low > 0:
        return ABOVE
    return BELOW if lead.high < 0 else OPEN


def pseudo_cases(statistic: Callable, n: int, seed: int = 0, groups: np.ndarray | None = None) -> np.ndarray:
    """The pseudo-values (FOLDS, …), or of as many images or groups as there are, of a statistic of n images.

    statistic: rows (m,) int -> a number, or several. seed: which images make a fold.
    groups: (n,), cases that stay together in a fold.
    Raises ValueError for fewer than two images, or groups.
    """
    group_of = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(group_of.max(initial=-1)) + 1
    if n_groups < 2:
        raise ValueError(f"{n_groups} case has no spread: give two cases or more that can be left out")
    folds = min(FOLDS, n_groups)
    fold_of = (np.random.default_rng(seed).permutation(n_groups) % folds)[group_of]
    whole = np.asarray(statistic(np.arange(n)), float)
    without = [np.asarray(statistic(np.flatnonzero(fold_of != fold)), float) for fold in range(folds)]
    pseudo = folds * whole - (folds - 1) * np.array(without)
    return pseudo - pseudo.mean(0) + whole
