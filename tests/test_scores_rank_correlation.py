"""Kendall's tau: small cases by hand, scipy's, and intervals that hold the truth."""

from math import isnan, nan, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from xaihelpers.scores import rank_correlation


def test_tau_by_hand():
    """1 2 3 4 against 1 3 2 4: five pairs agree, one does not; against 1 1 2 3: five agree, one is tied."""
    scores = pd.DataFrame({"x": [1, 2, 3, 4], "y": [1, 3, 2, 4], "z": [1, 1, 2, 3], "c": [5, 5, 5, 5]})
    b, a = rank_correlation.kendall_matrix(scores).tau, rank_correlation.kendall_matrix(scores, "a").tau
    assert b.loc["x", "y"] == a.loc["x", "y"] == pytest.approx(4 / 6)
    assert b.loc["x", "z"] == pytest.approx(5 / sqrt(6 * 5)) and a.loc["x", "z"] == pytest.approx(5 / 6)
    assert b.loc["z", "z"] == 1 and a.loc["z", "z"] == pytest.approx(5 / 6)
    assert b["c"].isna().all() and a["c"].isna().all()
    pd.testing.assert_frame_equal(b, b.T)
    with pytest.raises(ValueError, match='"a" or "b", not \'c\''):
        rank_correlation.kendall_matrix(scores, "c")
    with pytest.raises(ValueError, match="columns must differ"):
        rank_correlation.kendall_matrix(pd.concat([scores, scores], axis=1))


def test_gaps_are_left_out_pair_by_pair():
    scores = pd.DataFrame(
        {"x": [1, 2, 3, 4, nan], "y": [1, 3, nan, 2, 9], "z": [4, 3, 2, 1, nan], "none": [nan] * 5}
    )
    result = rank_correlation.kendall_matrix(scores)
    assert result.cases.loc["x"].tolist() == [4, 3, 4, 0] and isnan(result.tau.loc["x", "none"])
    assert result.tau.loc["x", "y"] == pytest.approx(1 / 3) and result.tau.loc["x", "z"] == -1
    assert rank_correlation.kendall_matrix(scores[:0]).tau.isna().all(axis=None)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=2, max_size=40), st.integers(0, 100)
)
def test_tau_is_scipys(pairs, seed):
    """τ-b of the set and of a resample; bounded; its sign turns with a score; a monotone map is not seen."""
    scores = pd.DataFrame(pairs, columns=["x", "y"])
    result = rank_correlation.kendall_matrix(scores.assign(cube=scores["x"] ** 3, minus=-scores["x"]))
    np.testing.assert_allclose(
        result.tau.loc["x", "y"], kendalltau(scores["x"], scores["y"]).statistic, atol=1e-6
    )
    np.testing.assert_allclose(result.tau.loc["cube", "y"], result.tau.loc["x", "y"])
    np.testing.assert_allclose(result.tau.loc["minus", "y"], -result.tau.loc["x", "y"])
    tau, low, high = (table.to_numpy() for table in result[:3])
    assert ((np.abs(tau) <= 1 + 1e-9) | np.isnan(tau)).all() and ((low <= high) | np.isnan(low)).all()
    drawn = np.random.default_rng(seed).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=3)
    taus = rank_correlation.kendall_taus(*scores.to_numpy(float).T, drawn, "b")
    for times, value in zip(drawn, taus, strict=True):
        rows = np.repeat(np.arange(len(pairs)), times)
        np.testing.assert_allclose(
            value, kendalltau(scores["x"].iloc[rows], scores["y"].iloc[rows]).statistic, atol=1e-6
        )


def test_the_difference_is_paired():
    """Scores that order the items alike differ by nothing, whatever is drawn; noise lies below by its τ."""
    rng = np.random.default_rng(0)
    people = rng.integers(1, 5, 60).astype(float)
    good = people + rng.normal(0, 0.5, 60)
    alike = rank_correlation.kendall_tau(3 * good + 1, people, baseline=good)
    assert alike.value == 0 and alike.cases == 60
    noise = rng.normal(size=60)
    gain = rank_correlation.kendall_tau(noise, people, baseline=good)
    taus = [rank_correlation.kendall_tau(score, people).value for score in (noise, good)]
    assert gain.value == pytest.approx(taus[0] - taus[1]) and gain.high < 0
