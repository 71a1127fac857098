"""Intervals of scores, of Kendall's tau and of ratios: by hand, their coverage, and where there is none."""

from math import inf, isnan, nan, sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, norm, t
from sklearn.metrics import roc_auc_score

from xaihelpers.scores import PERCENT, interval, over_draws
from xaihelpers.scores.intervals import ratio_interval
from xaihelpers.scores.rank_correlation import kendall_tau, kendall_taus

REPEATS = 200


def crossed(rng, n_draws, n_images, of_draws, of_images, of_cells):
    """Draws that judge the same images: (draws, images, numbers), with the spread of each factor."""
    draw, image = np.repeat(np.arange(n_draws), n_images), np.tile(np.arange(n_images), n_draws)
    numbers = of_draws * rng.normal(size=n_draws)[draw] + of_images * rng.normal(size=n_images)[image]
    return draw, image, numbers + of_cells * rng.normal(size=len(draw))


def mean_of_draws(rng):
    draw, image, numbers = crossed(rng, 5, 60, 0.3, 1, 1)
    return interval(numbers, clusters=image, draws=draw), 0


def paired_difference(rng):
    image = np.repeat(np.arange(40), 3)
    easy = rng.normal(size=40)[image]
    better, worse = rng.random(120) < norm.cdf(easy + 0.3), rng.random(120) < norm.cdf(easy)
    measured = interval(1.0 * better - worse, clusters=image)
    return measured, norm.cdf(0.3 / sqrt(2)) - 0.5


def area_of_draws(rng):
    """Fits that tell the two kinds of images apart more or less well."""
    draw, image, values = crossed(rng, 5, 16, 0, 1, 1)
    positive = image < 7
    lead = (1 + 0.3 * rng.normal(size=5))[draw]
    measured = interval(positive, values + lead * positive, statistic="auc", clusters=image, draws=draw)
    return measured, norm.cdf(1 / sqrt(4.09))


def share_near_none(rng):
    """Often of none at all, where it is Clopper and Pearson's."""
    return interval(100.0 * (rng.random(90) < 0.02), bounds=PERCENT), 2


@pytest.mark.parametrize("kind", [mean_of_draws, paired_difference, area_of_draws, share_near_none])
def test_the_interval_covers_the_truth(kind):
    rng = np.random.default_rng(20)
    covered = 0
    for _ in range(REPEATS):
        measured, truth = kind(rng)
        covered += measured.low <= truth <= measured.high
    assert 0.92 <= covered / REPEATS <= 0.98


def test_normal_theory_for_a_plain_mean():
    scores = np.random.default_rng(0).normal(5, 2, 60)
    measured = interval(scores)
    half_width = 2.001 * scores.std(ddof=1) / sqrt(60)  # t of 59 degrees of freedom
    assert measured.value == pytest.approx(scores.mean()) and measured.cases == 60
    assert measured.high - measured.value == pytest.approx(half_width, rel=1e-3)
    assert measured.effective == pytest.approx(60)
    scores = np.array([0.1, 1.0, 0.7, 0.2, 0.9, 0.4])
    clusters = pd.Series(list("abcdef"), index=range(10, 16))
    once, copied = interval(scores), interval(scores.repeat(20), clusters=clusters.repeat(20))
    assert copied[:3] == pytest.approx(once[:3]) and copied.cases == 120 and copied.effective < 7
    # NaN leaves with its cluster
    assert interval([nan, *scores], clusters=["z", *clusters])[:3] == pytest.approx(once[:3])
    assert interval(torch.tensor(scores).view(2, 3)) == interval(scores)


def test_a_single_draw_is_no_factor():
    """Of one draw the interval is that over its clusters alone, which are crossed."""
    rng = np.random.default_rng(4)
    rows, columns = (part.ravel() for part in np.mgrid[:8, :8])
    values = rng.normal(size=8)[rows] + rng.normal(size=8)[columns] + rng.normal(size=64)
    assert over_draws(values[None], [rows, columns]) == interval(values, clusters=[rows, columns])


def test_shares_of_all_and_of_none_are_exact():
    """Clopper and Pearson: none of 20 leaves up to 1 − .025^(1/20)."""
    most = 1 - 0.025 ** (1 / 20)
    assert interval(np.zeros(20), bounds=PERCENT)[:3] == pytest.approx((0, 0, 100 * most))
    assert interval([100, 0, 0, 0], bounds=PERCENT) == interval([100, 0, 0, 0])
    no_change = interval(np.zeros(20), bounds=(-100, 100))  # a difference of two shares is none
    assert no_change[:3] == pytest.approx((0, -100 * most, 100 * most))
    assert interval([1, 0, 0, 0], bounds=PERCENT).high < 10  # one percent in one case is no share
    # by the clusters, not by the cases
    clustered = interval(np.zeros(100), clusters=np.repeat(np.arange(20), 5), bounds=(0, 1))
    assert clustered[:3] == pytest.approx((0, 0, most)) and clustered.effective == 20
    perfect = interval(np.arange(20) < 9, 1.0 * (np.arange(20) < 9), statistic="auc")
    assert perfect[:3] == pytest.approx((1, 1 - most, 1))


def test_what_cannot_be_told_has_no_interval():
    value, low, high, cases, effective = interval([nan, nan])
    assert isnan(value) and isnan(low) and isnan(high) and cases == effective == 0
    alone = interval([0.25] * 7), interval([nan, 3.0]), interval([2.0, 4.0], clusters=[5, 5])
    for measured in (*alone, interval([1e9 / 3] * 10)):  # which differ by rounding from their mean
        assert measured.value in (0.25, 3.0, pytest.approx(1e9 / 3))
        assert isnan(measured.low) and isnan(measured.high)
    # but with bounds it has
    assert interval([3.0] * 20, bounds=(0, 5)).low == pytest.approx(3 * 0.025 ** (1 / 20))
    constant = interval(np.ones(9), np.arange(9), statistic="correlation")
    assert isnan(constant.value) and isnan(constant.low)


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


def test_tau_by_hand():
    """1 2 3 4 against 1 1 2 3: five pairs agree, one is tied."""
    x, y = [1, 2, 3, 4, nan], [1, 1, 2, 3, 2]  # a gap is left out
    assert kendall_tau(x, y).value == pytest.approx(5 / sqrt(6 * 5)) and kendall_tau(x, y).cases == 4
    assert kendall_tau(x, y, variant="a").value == pytest.approx(5 / 6)
    assert isnan(kendall_tau(x, [5] * 5).value)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=2, max_size=40), st.integers(0, 100)
)
def test_tau_is_scipys(pairs, seed):
    """τ-b of all items and of some."""
    x, y = np.array(pairs, float).T
    kept = np.random.default_rng(seed).random((3, len(x))) < 0.7
    kept[0] = kept[:, :2] = True
    for some, value in zip(kept, kendall_taus(x, y, kept), strict=True):
        np.testing.assert_allclose(value, kendalltau(x[some], y[some]).statistic, atol=1e-6)


def test_the_difference_is_paired():
    rng = np.random.default_rng(0)
    people, noise = rng.integers(1, 5, 60).astype(float), rng.normal(size=60)
    good = people + rng.normal(0, 0.5, 60)
    assert kendall_tau(3 * good + 1, people, baseline=good).value == 0  # they order the items alike
    gain, taus = kendall_tau(noise, people, good), [kendall_tau(x, people).value for x in (noise, good)]
    assert gain.value == pytest.approx(taus[0] - taus[1]) and gain.high < 0 and gain.cases == 60


def test_the_interval_covers_the_ratio():
    """Where the cases of a cluster agree, which count once."""
    n, size, ratio, rng, covered = 25, 6, 0.3, np.random.default_rng(0), 0
    for _ in range(300):
        below = rng.normal(2, 1.5, n).repeat(size)
        above = ratio * below + rng.normal(0, 1, n).repeat(size)
        found = ratio_interval(above, below, np.arange(n).repeat(size))
        covered += found.low <= ratio <= found.high
    assert 0.92 <= covered / 300 <= 0.98 and found.cases == n * size and found.effective == n


def test_means_below_that_are_zero_or_constant():
    part = np.array([0.3, 0.7, 0.1, 0.6, 0.9])  # a ratio that is the same in each case has no spread
    assert ratio_interval(100 * part, part)[:3] == pytest.approx([100, 100, 100])
    found = ratio_interval([1.0, 2.0, 1.0, 2.0], [1.0, -1.2, 0.9, -0.8])
    assert found.low == -inf and found.high == inf and np.isfinite(found.value)
    above = np.array([1.0, 2.0, 4.0])
    found = ratio_interval(above, np.full(3, 2.0))
    margin = t.ppf(0.975, 2) * above.std(ddof=1) / np.sqrt(3) / 2
    assert found[:3] == pytest.approx((7 / 6, 7 / 6 - margin, 7 / 6 + margin))
    assert np.isnan(ratio_interval([1.0, 2.0], [0.0, 0.0]).value)
