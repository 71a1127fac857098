"""What one yardstick says of one model: cases, beside what knows nothing gets on the same cases.

    value   = mean of the cases
    lead    = mean of (case − what the blind gets on the same case), turned so that high is good

A statistic that has no cases of its own (an area over all images, a leakage) is cut into FOLDS pseudo-values

    p_f = F t − (F − 1) t_(−f),   centred on t,

of which the mean is the statistic and the spread the jackknife's over folds of images, so that two models on
the same images can be compared fold by fold.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xaihelpers.scores.intervals import PERCENT, Interval, interval

DRAWN, LABELLED, UNLABELLED = TRUTHS = ("drawn", "labelled", "unlabelled")
ABOVE, BELOW, OPEN = VERDICTS = ("above blind", "below blind", "cannot be told")
FOLDS = 10


class Reading(NamedTuple):
    """One yardstick's cases of one model, NaN where a case does not count."""

    yardstick: str  # as notebook 62 calls it
    paper: str  # or "literature", "control"
    truth: str  # one of TRUTHS: what it needs
    cases: np.ndarray  # (n,)
    blind: dict[str, np.ndarray]  # what knows nothing -> (n,), the same cases
    clusters: np.ndarray | None = None  # (n,), which cases belong together
    unit: str = ""  # "%", or none
    bounds: tuple[float, float] | None = None
    low_is_good: bool = False
    sighted: float = float("nan")  # what knows all there is to know

    @property
    def sign(self) -> int:
        """1 where high is good, −1 where low is."""
        return -1 if self.low_is_good else 1

    def value(self) -> Interval:
        """The mean of the cases with its 95 % interval."""
        return self._mean(self.cases, self.bounds)

    def hardest(self) -> tuple[str, float]:
        """The blind rival that does best, and its mean; "", NaN where there is none."""
        means = {}
        for name, cases in self.blind.items():
            both = np.isfinite(cases) & np.isfinite(self.cases)
            means[name] = float(cases[both].mean()) if both.any() else float("nan")
        means = {name: mean for name, mean in means.items() if np.isfinite(mean)}
        if not means:
            return "", float("nan")
        name = max(means, key=lambda one: self.sign * means[one])
        return name, means[name]

    def lead(self) -> Interval:
        """By how much the model does better than the hardest blind rival, paired; high is good."""
        name, _ = self.hardest()
        return self._difference(self.blind[name] if name else np.full(len(self.cases), np.nan))

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

    def _difference(self, other: np.ndarray) -> Interval:
        bounds = None
        if self.bounds is not None:
            extent = self.bounds[1] - self.bounds[0]
            bounds = (-extent, extent)
        difference = self.sign * (self.cases - other)
        return self._mean(difference, bounds)

    def _mean(self, cases: np.ndarray, bounds: tuple[float, float] | None) -> Interval:
        # a mean without bounds is no share, even where all its cases happen to be 0 or 1
        statistic = "mean" if bounds else np.mean
        return interval(cases, statistic=statistic, clusters=self.clusters, bounds=bounds)


class Missing(NamedTuple):
    """Yardsticks that what was given cannot support."""

    yardsticks: tuple[str, ...]
    why: str
    give: str  # what would make them possible


def verdict(lead: Interval) -> str:
    """One of VERDICTS: whether the whole interval of a lead lies above 0, below 0, or neither."""
    if lead.low > 0:
        return ABOVE
    return BELOW if lead.high < 0 else OPEN


def pseudo_cases(
    statistic: Callable[[np.ndarray], float],
    n: int,
    folds: int = FOLDS,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """The pseudo-values (folds,) of a statistic of n images, as of the module.

    statistic: rows (m,) int -> float. folds: at most n. seed: which images make a fold.
    groups: (n,), cases that stay together in a fold.
    Raises ValueError for fewer than two images, or groups.
    """
    group_of = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(group_of.max(initial=-1)) + 1
    if n_groups < 2:
        raise ValueError(f"{n_groups} case has no spread: give two cases or more that can be left out")
    folds = min(folds, n_groups)
    fold_of = (np.random.default_rng(seed).permutation(n_groups) % folds)[group_of]
    whole = float(statistic(np.arange(n)))
    without = np.array([float(statistic(np.flatnonzero(fold_of != fold))) for fold in range(folds)])
    pseudo = folds * whole - (folds - 1) * without
    return pseudo - pseudo.mean() + whole


def share(yardstick: str, paper: str, truth: str, cases, blind: dict, **more) -> Reading:
    """A reading in %, of cases from 0 to 1 and blind ones likewise."""
    cases = 100 * np.asarray(cases, float)
    blind = {name: 100 * np.broadcast_to(np.asarray(one, float), cases.shape) for name, one in blind.items()}
    return Reading(yardstick, paper, truth, cases, blind, unit="%", bounds=PERCENT, **more)
