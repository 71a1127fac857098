"""The interval of a ratio of means: coverage, and where the lower mean may be zero."""

from math import inf

import numpy as np
import pytest
from scipy.stats import t

from xaihelpers.claims import Claim, decide
from xaihelpers.scores.ratios import ratio_interval


def test_the_interval_covers_the_ratio():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(500):
        below = rng.normal(2, 1.5, 40)
        above = 0.6 * below + rng.normal(0, 1, 40)
        found = ratio_interval(above, below)
        covered += found.low <= 0.6 <= found.high
    assert 0.92 <= covered / 500 <= 0.98


def test_clusters_that_agree_count_once():
    rng, covered = np.random.default_rng(1), 0
    for _ in range(500):
        below = rng.normal(2, 1.5, 25).repeat(6)
        above = 0.3 * below + rng.normal(0, 1, 25).repeat(6)
        found = ratio_interval(above, below, np.arange(25).repeat(6))
        covered += found.low <= 0.3 <= found.high
    assert 0.92 <= covered / 500 <= 0.98 and found.cases == 150 and found.effective == 25


def test_a_lower_mean_that_may_be_zero_has_no_bounds():
    found = ratio_interval([1.0, 2.0, 1.0, 2.0], [1.0, -1.2, 0.9, -0.8])
    assert found.low == -inf and found.high == inf and np.isfinite(found.value)
    claim = Claim("c", "", "", "", "", "%", "above", 0.2, 0.1, np.nan, "")
    assert str(decide(claim, found, {})) == "cannot be told"


def test_a_constant_lower_mean_is_a_mean():
    above = np.array([1.0, 2.0, 4.0])
    found = ratio_interval(above, np.full(3, 2.0))
    margin = t.ppf(0.975, 2) * above.std(ddof=1) / np.sqrt(3) / 2
    assert found[:3] == pytest.approx((7 / 6, 7 / 6 - margin, 7 / 6 + margin))


def test_too_little_to_tell():
    assert np.isnan(ratio_interval([1.0], [2.0]).value)
    assert np.isnan(ratio_interval([1.0, 2.0], [0.0, 0.0]).value)
    with pytest.raises(ValueError):
        ratio_interval([1.0, 2.0], [1.0])
