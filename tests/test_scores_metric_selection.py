"""Which metrics predict people: a game by hand, Shapley's axioms, and a metric that is known to predict."""

from math import nan

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores import metric_selection

VALUES = {
    (): 0.0,
    ("a",): 0.3,
    ("b",): 0.2,
    ("c",): 0.0,
    ("a", "b"): 0.4,
    ("a", "c"): 0.5,
    ("b", "c"): 0.2,
    ("a", "b", "c"): 0.45,
}


def test_shapley_by_hand():
    """a joins first (2 of 6 orders) for 0.3, after b for 0.2, after c for 0.5, last (2) for 0.25; so on."""
    result = metric_selection.shapley_values(VALUES)
    assert result["a"] == pytest.approx((2 * 0.3 + 0.2 + 0.5 + 2 * 0.25) / 6)
    assert result["b"] == pytest.approx((2 * 0.2 + 0.1 + 0.2 + 2 * -0.05) / 6)
    assert result["c"] == pytest.approx((2 * 0.0 + 0.2 + 0.0 + 2 * 0.05) / 6)
    assert sum(result.values()) == pytest.approx(0.45)


def test_greedy_by_hand():
    result = metric_selection.greedy_selection(VALUES)
    assert result["metric"].tolist() == ["a", "c", "b"] and result["chosen"].tolist() == [True, True, False]
    assert result["value"].tolist() == [0.3, 0.5, 0.45]
    assert result["gain"].tolist() == pytest.approx([0.3, 0.2, -0.05])
    cases = {(): np.zeros((1, 40)), ("a",): np.linspace(0, 0.4, 40)[None]}
    row = metric_selection.greedy_selection(cases).iloc[0]
    assert row["low"] < row["gain"] == pytest.approx(0.2) and row["high"] > 0.2
    clustered = metric_selection.greedy_selection(cases, np.arange(40) // 10).iloc[0]
    assert clustered["low"] < row["low"] and clustered["chosen"]


def test_items_with_gaps_are_left_out():
    rng = np.random.default_rng(0)
    metrics = pd.DataFrame({"noise": rng.normal(size=60), "good": np.arange(60) + rng.normal(size=60)})
    people = np.arange(60.0) // 15
    metrics.iloc[:3, 0] = nan
    values = metric_selection.subset_values(metrics, people, draws=1)
    assert len(values) == 2**2 and values[()] == 0 and values["good",] > 0.5 > 0.2 > abs(values["noise",])
    assert values == pytest.approx(metric_selection.subset_values(metrics[3:], people[3:], draws=1))


def predictive_tau(metrics, people, seed):
    """Kendall's τ-b as the docstring says it, by scipy: the mean over folds, items counting alike."""
    taus = np.zeros(len(people))
    for train, test in KFold(5, shuffle=True, random_state=seed).split(people):
        model = make_pipeline(StandardScaler(), Ridge(1.0)).fit(metrics[train], people[train])
        taus[test] = kendalltau(model.predict(metrics[test]), people[test]).statistic
    return taus.mean()


def test_the_items_parts_add_up_to_the_value():
    rng = np.random.default_rng(1)
    people = rng.integers(1, 5, 53).astype(float)
    metrics = pd.DataFrame(people[:, None] + rng.normal(0, 2, (53, 2)), columns=["a", "b"])
    cases = metric_selection.subset_cases(metrics, people, draws=3, seed=7)
    assert cases["a", "b"].shape == (3, 53) and (cases[()] == 0).all()
    for draw in range(3):
        expected = predictive_tau(metrics.to_numpy(), people, 7 + draw)
        assert cases["a", "b"][draw].mean() == pytest.approx(expected)
    parts = metric_selection.shapley_values(cases)
    of_means = metric_selection.shapley_values(
        metric_selection.subset_values(metrics, people, draws=3, seed=7)
    )
    assert {name: part.mean() for name, part in parts.items()} == pytest.approx(of_means)


def test_subsets_of_bad_input():
    with pytest.raises(ValueError, match="at most 10 metrics"):
        metric_selection.subset_values(pd.DataFrame(np.zeros((50, 11))), np.zeros(50))
    with pytest.raises(ValueError, match="9 items have all metrics and a rating: too few for 5 folds"):
        metric_selection.subset_values(pd.DataFrame({"a": range(10)}), [nan, *range(9)])
