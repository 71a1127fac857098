"""Intervals: their coverage of the truth on simulated data of each kind, and the cases that have none."""

from math import isnan, nan, sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from xaihelpers.scores import PERCENT, interval
from xaihelpers.scores.rank_correlation import kendall_tau

REPEATS = 500


def crossed(rng, n_draws, n_images, of_draws, of_images, of_cells):
    """Draws that judge the same images: (draws, images, numbers), with the spread of each factor."""
    draw, image = np.repeat(np.arange(n_draws), n_images), np.tile(np.arange(n_images), n_draws)
    numbers = of_draws * rng.normal(size=n_draws)[draw] + of_images * rng.normal(size=n_images)[image]
    return draw, image, numbers + of_cells * rng.normal(size=len(draw))


def mean_of_clusters(rng):
    cluster = np.repeat(np.arange(20), 5)
    return interval(rng.normal(size=20)[cluster] + rng.normal(size=100), clusters=cluster), 0


def mean_of_draws(rng):
    draw, image, numbers = crossed(rng, 5, 60, 0.3, 1, 1)
    return interval(numbers, clusters=image, draws=draw), 0


def mean_where_draws_matter(rng):
    draw, image, numbers = crossed(rng, 8, 60, 1, 1, 1)
    return interval(numbers, clusters=image, draws=draw), 0


def mean_where_draws_do_not(rng):
    draw, image, numbers = crossed(rng, 5, 60, 0, 1, 1)
    return interval(numbers, clusters=image, draws=draw), 0


def mean_of_two_clusters(rng):
    """Of models that see the same images, as in a matrix of models and images."""
    model, image, numbers = crossed(rng, 12, 40, 0.5, 1, 1)
    return interval(numbers, clusters=[model, image]), 0


def share(rng):
    return interval(100.0 * (rng.random(80) < 0.35)), 35


def share_near_one(rng):
    return interval(rng.random(60) < 0.95), 0.95


def share_of_draws(rng):
    draw, image, numbers = crossed(rng, 6, 60, 0.3, 1, 1)
    return interval(numbers > 0.7, clusters=image, draws=draw), 1 - norm.cdf(0.7 / sqrt(2.09))


def paired_difference(rng):
    image = np.repeat(np.arange(40), 3)
    easy = rng.normal(size=40)[image]
    better, worse = rng.random(120) < norm.cdf(easy + 0.3), rng.random(120) < norm.cdf(easy)
    measured = interval(better, worse, statistic="difference", clusters=image)
    return measured, norm.cdf(0.3 / sqrt(2)) - 0.5


def correlation(rng):
    image = np.repeat(np.arange(30), 3)
    x, noise = (rng.normal(size=30)[image] + rng.normal(size=90) for _ in range(2))
    return interval(x, 0.6 * x + 0.8 * noise, statistic="correlation", clusters=image), 0.6


def area_under_curve(rng):
    biased = np.arange(40) < 18
    return interval(biased, rng.normal(size=40) + biased, statistic="auc"), norm.cdf(1 / sqrt(2))


def area_of_clusters(rng):
    cluster = np.repeat(np.arange(30), 4)
    positive = cluster < 14
    values = rng.normal(size=30)[cluster] + rng.normal(size=120) + positive
    return interval(positive, values, statistic="auc", clusters=cluster), norm.cdf(1 / 2)


def kendall(rng):
    x = rng.normal(size=60)
    return kendall_tau(x, 0.6 * x + 0.8 * rng.normal(size=60)), 2 / np.pi * np.arcsin(0.6)


def any_function(rng):
    """A ratio of two means of the same cases."""
    parts = rng.gamma(2, 1, size=(50, 2))
    return interval(*parts.T, statistic=lambda a, b: a.mean() / (a.mean() + b.mean())), 0.5


def difference_of_draws(rng):
    draw, image, easy = crossed(rng, 5, 40, 0.3, 1, 1)
    *_, lead = crossed(rng, 5, 40, 0.2, 0.5, 1)
    return interval(easy + lead + 0.5, easy, statistic="difference", clusters=image, draws=draw), 0.5


def correlation_of_draws(rng):
    draw, image, x = crossed(rng, 5, 20, 0.3, 1, 1)
    *_, noise = crossed(rng, 5, 20, 0.3, 1, 1)
    return interval(x, 0.6 * x + 0.8 * noise, statistic="correlation", clusters=image, draws=draw), 0.6


def area_of_draws(rng):
    """Fits that tell the two kinds of images apart more or less well."""
    draw, image, values = crossed(rng, 5, 16, 0, 1, 1)
    positive = image < 7
    lead = (1 + 0.3 * rng.normal(size=5))[draw]
    measured = interval(positive, values + lead * positive, statistic="auc", clusters=image, draws=draw)
    return measured, norm.cdf(1 / sqrt(4.09))


def kendall_of_draws(rng):
    draw, image, x = crossed(rng, 5, 30, 0.3, 1, 1)
    *_, noise = crossed(rng, 5, 30, 0.3, 1, 1)
    return kendall_tau(x, 0.6 * x + 0.8 * noise, clusters=[image, draw]), 2 / np.pi * np.arcsin(0.6)


def share_near_none(rng):
    """Often of none at all, where it is Clopper and Pearson's."""
    return interval(100.0 * (rng.random(90) < 0.02), bounds=PERCENT), 2


KINDS = [
    mean_of_clusters,
    mean_of_draws,
    mean_where_draws_matter,
    mean_where_draws_do_not,
    mean_of_two_clusters,
    share,
    share_near_one,
    share_of_draws,
    paired_difference,
    correlation,
    area_under_curve,
    area_of_clusters,
    kendall,
    any_function,
    difference_of_draws,
    correlation_of_draws,
    area_of_draws,
    kendall_of_draws,
    share_near_none,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_interval_covers_the_truth(kind):
    rng = np.random.default_rng(20)
    covered = 0
    for _ in range(REPEATS):
        measured, truth = kind(rng)
        covered += measured.low <= truth <= measured.high
    assert 0.92 <= covered / REPEATS <= 0.98


def test_cases_of_one_fit_do_not_cover_the_next():
    """What the draws are for: without them the interval misses the truth in most repeats."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(REPEATS):
        _, image, numbers = crossed(rng, 1, 60, 1, 1, 1)
        measured = interval(numbers, clusters=image)
        covered += measured.low <= 0 <= measured.high
    assert covered / REPEATS < 0.5


def test_normal_theory_for_a_plain_mean():
    scores = np.random.default_rng(0).normal(5, 2, 60)
    measured = interval(scores)
    half_width = 2.001 * scores.std(ddof=1) / sqrt(60)  # t of 59 degrees of freedom
    assert measured.value == pytest.approx(scores.mean()) and measured.cases == 60
    assert measured.high - measured.value == pytest.approx(half_width, rel=1e-3)
    assert measured.effective == pytest.approx(60)


def test_shares_of_all_and_of_none_are_exact():
    """Clopper and Pearson: none of 20 leaves up to 1 − .025^(1/20)."""
    most = 1 - 0.025 ** (1 / 20)
    assert interval(np.zeros(20), bounds=(0, 1))[:3] == pytest.approx((0, 0, most))
    assert interval(np.zeros(20), bounds=PERCENT)[:3] == pytest.approx((0, 0, 100 * most))
    assert interval([100, 0, 0, 0], bounds=PERCENT) == interval([100, 0, 0, 0])
    no_change = interval(np.zeros(20), bounds=(-100, 100))  # a difference of two shares is none
    assert no_change[:3] == pytest.approx((0, -100 * most, 100 * most))
    assert interval([1, 0, 0, 0], bounds=PERCENT).high < 10  # one percent in one case is no share
    assert interval(np.full(20, 100.0))[:3] == pytest.approx((100, 100 * (1 - most), 100))
    # by the clusters, not by the cases
    clustered = interval(np.zeros(100), clusters=np.repeat(np.arange(20), 5), bounds=(0, 1))
    assert clustered[:3] == pytest.approx((0, 0, most)) and clustered.effective == 20
    same = interval(np.ones(20), np.ones(20), statistic="difference")
    assert same[:3] == pytest.approx((0, -most, most))
    perfect = interval(np.arange(20) < 9, 1.0 * (np.arange(20) < 9), statistic="auc")
    assert perfect[:3] == pytest.approx((1, 1 - most, 1))


def test_what_cannot_be_told_has_no_interval():
    for nothing in ([], [nan, nan]):
        value, low, high, cases, effective = interval(nothing)
        assert isnan(value) and isnan(low) and isnan(high) and cases == effective == 0
    for measured in (
        interval([0.25] * 7),
        interval([0.0] * 7),
        interval([nan, 3.0, nan]),
        interval([2.0, 4.0], clusters=[5, 5]),
    ):
        assert measured.value in (0.0, 0.25, 3.0) and isnan(measured.low) and isnan(measured.high)
    # but with bounds it has
    assert interval([3.0] * 20, bounds=(0, 5)).low == pytest.approx(3 * 0.025 ** (1 / 20))
    constant = interval(np.ones(9), np.arange(9), statistic="correlation")
    assert isnan(constant.value) and isnan(constant.low) and constant.cases == 9


def test_copies_of_a_case_in_its_cluster_add_no_evidence():
    scores = np.array([0.1, 1.0, 0.7, 0.2, 0.9, 0.4])
    clusters = pd.Series(list("abcdef"), index=range(10, 16))
    once, copied = interval(scores), interval(scores.repeat(20), clusters=clusters.repeat(20))
    assert copied[:3] == pytest.approx(once[:3]) and copied.cases == 120
    assert copied.effective < 7
    # NaN leaves with its cluster
    assert interval([nan, *scores], clusters=["z", *clusters])[:3] == pytest.approx(once[:3])
    tensor = torch.tensor(scores).view(2, 3)
    assert interval(tensor) == interval(scores)


@pytest.mark.parametrize("statistic", ["correlation", "auc"])
def test_what_is_left_without_a_group_is_computed_at_once(statistic):
    """By sums and ranks of all cases: the same as the statistic of what is left, group by group."""
    rng = np.random.default_rng(1)
    x, group = 100 + rng.normal(size=60).round(1), rng.integers(0, 9, 60)
    y = (x + rng.normal(size=60)).round(1)  # with ties
    if statistic == "auc":
        x = x > 100
        group[x] = group[x] % 7  # some groups are of one kind

    def from_library(x, y):
        return np.corrcoef(x, y)[0, 1] if statistic == "correlation" else roc_auc_score(x, y)

    bounds = (-1, 1) if statistic == "correlation" else (0, 1)
    quick = interval(x, y, statistic=statistic, clusters=group)
    assert quick == pytest.approx(interval(x, y, statistic=from_library, clusters=group, bounds=bounds))


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="one of mean, difference, correlation, auc, not 'median'"):
        interval([1, 2], statistic="median")
    with pytest.raises(ValueError, match='"difference" is of 2 columns, not 1'):
        interval([1, 2], statistic="difference")
    with pytest.raises(ValueError, match=r"a row for each case, but have \[3, 2\] rows"):
        interval([1, 2, 3], clusters=[0, 1])
