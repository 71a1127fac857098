"""What one yardstick says of one model: cases, beside what knows nothing gets on the same cases.

    value   = mean of the cases
    lead    = mean of (case − what the blind gets on the same case), turned so that high is good

A statistic that has no cases of its own (an area over all images, a leakage) is cut into FOLDS pseudo-values

    p_f = F t − (F − 1) t_(−f),   centred on t,

of which the mean is the statistic and the spread the jackknife's over folds of images, so that two models on
the same images can be compared fold by fold.
"""

from collections.abc import Callable
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from xaihelpers.scores.intervals import Interval, interval

DRAWN, LABELLED, UNLABELLED = TRUTHS = ("drawn", "labelled", "unlabelled")
ABOVE, BELOW, OPEN = VERDICTS = ("above blind", "below blind", "cannot be told")
FOLDS = 10


class Cases(NamedTuple):
    """What a yardstick finds; shares from 0 to 1, NaN where a case does not count."""

    own: np.ndarray  # (n,)
    blind: dict  # what knows nothing -> (n,) of the same cases, or one number for all
    clusters: np.ndarray | None = None  # (n,), which cases belong together
    sighted: float | None = None  # what knows all there is to know, and bounds, where they are not
    bounds: tuple[float, float] | None = None  # those of the yardstick


class Reading(NamedTuple):
    """A yardstick's cases of one model in its unit, NaN where a case does not count."""

    about: NamedTuple  # the yardstick's row of the list
    cases: np.ndarray  # (n,)
    blind: dict[str, np.ndarray]  # what knows nothing -> (n,), the same cases
    clusters: np.ndarray | None
    sighted: float
    bounds: tuple[float, float] | None

    @property
    def yardstick(self) -> str:
        """Its name."""
        return self.about.yardstick

    @property
    def sign(self) -> int:
        """1 where high is good, −1 where low is."""
        return -1 if self.about.good == "low" else 1

    def value(self) -> Interval:
        """The mean of the cases with its 95 % interval."""
        return self._mean(self.cases, self.bounds)

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
        return self._difference(self.blind.get(self.hardest()[0], nan))

    def over(self, other: "Reading") -> Interval:
        """By how much this model does better than another one on the same cases, paired; high is good.

        Raises ValueError for a reading of another yardstick or of other cases.
        """
        if other.yardstick != self.yardstick or len(other.cases) != len(self.cases):
            raise ValueError(
                f"{self.yardstick} of {len(self.cases)} cases cannot be paired with {other.yardstick} of "
                f"{len(other.cases)}: read both models on the same images with the same settings"
            )
        return self._difference(other.cases)

    def _difference(self, other: np.ndarray | float) -> Interval:
        extent = self.bounds and self.bounds[1] - self.bounds[0]
        return self._mean(self.sign * (self.cases - other), self.bounds and (-extent, extent))

    def _mean(self, cases: np.ndarray, bounds: tuple[float, float] | None) -> Interval:
        # a mean without bounds is no share, even where all its cases happen to be 0 or 1
        statistic = "mean" if bounds else np.mean
        return interval(cases, statistic=statistic, clusters=self.clusters, bounds=bounds)


def reading(about: NamedTuple, found: Cases) -> Reading:
    """The cases of a yardstick in its unit. about: its row of the list."""
    scale = 100 if about.unit == "%" else 1
    own = scale * np.asarray(found.own, float)
    blind = {}
    for name, cases in found.blind.items():
        blind[name] = scale * np.broadcast_to(np.asarray(cases, float), own.shape)
    bounds = found.bounds or (None if np.isnan(about.least) else (about.least, about.most))
    sighted = about.sighted if found.sighted is None else scale * found.sighted
    return Reading(about, own, blind, found.clusters, sighted, bounds)


def verdict(lead: Interval) -> str:
    """One of VERDICTS: whether the whole interval of a lead lies above 0, below 0, or neither."""
    if lead.low > 0:
        return ABOVE
    return BELOW if lead.high < 0 else OPEN


def pseudo_cases(statistic: Callable, n: int, seed: int = 0, groups: np.ndarray | None = None) -> np.ndarray:
    """The pseudo-values (FOLDS,), or of as many images or groups as there are, of a statistic of n images.

    statistic: rows (m,) int -> float. seed: which images make a fold.
    groups: (n,), cases that stay together in a fold.
    Raises ValueError for fewer than two images, or groups.
    """
    group_of = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(group_of.max(initial=-1)) + 1
    if n_groups < 2:
        raise ValueError(f"{n_groups} case has no spread: give two cases or more that can be left out")
    folds = min(FOLDS, n_groups)
    fold_of = (np.random.default_rng(seed).permutation(n_groups) % folds)[group_of]
    whole = float(statistic(np.arange(n)))
    without = np.array([float(statistic(np.flatnonzero(fold_of != fold))) for fold in range(folds)])
    pseudo = folds * whole - (folds - 1) * without
    return pseudo - pseudo.mean() + whole
