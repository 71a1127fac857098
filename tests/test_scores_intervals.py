"""Bootstrap intervals: of constants, of nothing, of groups, and their coverage of a known mean."""

from math import isnan, nan, sqrt

import numpy as np
import pytest
import torch

from xaihelpers.scores import mean_interval


def test_interval_of_constants_and_of_nothing():
    assert mean_interval([0.25] * 7) == (0.25, 0.25, 0.25, 7)
    assert mean_interval([nan, 3.0, nan]) == (3.0, 3.0, 3.0, 1)
    for nothing in ([], [nan, nan]):
        value, low, high, cases = mean_interval(nothing)
        assert isnan(value) and isnan(low) and isnan(high) and cases == 0


def test_interval_leaves_nan_out():
    scores = [0.0, 1.0, 1.0, 0.0, 1.0, 0.5]
    assert mean_interval([nan, *scores, nan]) == mean_interval(scores)
    value, low, high, cases = mean_interval(torch.tensor(scores).view(2, 3))
    assert value == pytest.approx(3.5 / 6) and 0 < low < value < high < 1 and cases == 6
    other = mean_interval(scores, seed=1)
    assert other.value == value and other != mean_interval(scores)


def test_interval_of_groups_draws_whole_groups():
    """Copies of a case in its group add no evidence; with one group alone the cases are drawn."""
    scores, groups = np.repeat([0.0, 1.0, 1.0, 0.0, 1.0], 20), np.repeat(np.arange(5), 20)
    plain, grouped = mean_interval(scores), mean_interval(scores, groups=groups)
    assert plain.value == grouped.value == pytest.approx(0.6) and plain.cases == grouped.cases == 100
    assert grouped.high - grouped.low > 3 * (plain.high - plain.low)
    assert mean_interval(scores, groups=0 * groups) == plain
    # NaN leaves with its group
    assert mean_interval([nan, *scores], groups=[9, *groups]) == grouped


def test_interval_of_normal_scores():
    """95 % intervals hold the true mean in about 95 % of samples and are as wide as normal theory says."""
    rng = np.random.default_rng(0)
    intervals = [mean_interval(rng.normal(5, 2, 60), resamples=400) for _ in range(300)]
    covered = np.mean([i.low <= 5 <= i.high for i in intervals])
    assert 0.90 < covered < 0.98
    assert np.mean([i.high - i.low for i in intervals]) == pytest.approx(2 * 1.96 * 2 / sqrt(60), rel=0.05)
