"""Which metrics predict people: a game by hand, Shapley's axioms, and a metric that is known to predict."""

from itertools import combinations
from math import nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores import metric_selection
from xaihelpers.scores.intervals import over_draws

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


@given(
    st.lists(st.floats(-1, 1), min_size=15, max_size=15), st.lists(st.floats(-1, 1), min_size=4, max_size=4)
)
def test_shapley_axioms(worth, single):
    """The values add up to the whole set's; a game of sums gives each its own term."""
    names = list("abcd")
    subsets = [s for size in range(5) for s in combinations(names, size)]
    game = dict(zip(subsets, [0.0, *worth], strict=True))
    assert sum(metric_selection.shapley_values(game).values()) == pytest.approx(worth[-1], abs=1e-9)
    term = dict(zip(names, single, strict=True))
    sums = {subset: sum(term[name] for name in subset) for subset in subsets}
    found = metric_selection.shapley_values(sums)
    np.testing.assert_allclose([found[name] for name in names], single, atol=1e-9)


def test_greedy_by_hand():
    result = metric_selection.greedy_selection(VALUES)
    assert result["metric"].tolist() == ["a", "c", "b"] and result["chosen"].tolist() == [True, True, False]
    assert result["value"].tolist() == [0.3, 0.5, 0.45] and result["gain"].tolist() == pytest.approx(
        [0.3, 0.2, -0.05]
    )


def test_the_metric_that_predicts_is_found():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=120)
    people = np.clip(np.round(2.5 + quality), 1, 4)
    metrics = pd.DataFrame(
        {
            "noise": rng.normal(size=120),
            "good": quality + 0.5 * rng.normal(size=120),
            "fair": -quality + 1.5 * rng.normal(size=120),
        }
    )
    values = metric_selection.subset_values(metrics, people, draws=2)
    assert len(values) == 2**3 and values[()] == 0 and abs(values["noise",]) < 0.2
    assert values["good",] > values["fair",] > 0.2  # a negative relation predicts as well
    share = metric_selection.shapley_values(values)
    assert max(share, key=share.get) == "good"
    assert abs(share["noise"]) < 0.06
    assert sum(share.values()) == pytest.approx(values["noise", "good", "fair"])
    assert metric_selection.greedy_selection(values)["metric"].tolist()[:2] == ["good", "fair"]
    metrics.iloc[:3, 0] = nan
    with_gaps = metric_selection.subset_values(metrics, people, draws=1)
    without = metric_selection.subset_values(metrics[3:], people[3:], draws=1)
    assert with_gaps == pytest.approx(without)


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


def test_intervals_cover_the_value_that_further_items_give():
    """Of 60 studies of 60 items, the intervals of two metrics' Shapley values, one of them blind."""
    rng = np.random.default_rng(2)

    def study(n):
        quality = rng.normal(size=n)
        metrics = {"blind": rng.normal(size=n), "good": quality + rng.normal(size=n)}
        people = np.clip(np.round(2.5 + quality), 1, 4)
        cases = metric_selection.subset_cases(pd.DataFrame(metrics), people, draws=2)
        return metric_selection.shapley_values(cases)

    true = {name: values.mean() for name, values in study(2000).items()}
    found = [study(60) for _ in range(60)]
    widths = [over_draws(one["good"]).high - over_draws(one["good"]).low for one in found]
    spread = np.std([one["good"].mean() for one in found])
    assert 0.75 < np.mean(widths) / (4 * spread) < 1.5  # ±2 standard errors
    inside = [over_draws(one["good"]) for one in found]
    assert sum(each.low < true["good"] < each.high for each in inside) >= 50
    blind = [over_draws(one["blind"]) for one in found]
    assert sum(each.low < 0.03 and each.high > -0.1 for each in blind) >= 54


def test_greedy_gains_have_intervals():
    cases = {(): np.zeros((1, 40)), ("a",): np.linspace(0, 0.4, 40)[None]}
    row = metric_selection.greedy_selection(cases).iloc[0]
    assert row["low"] < row["gain"] == pytest.approx(0.2) and row["high"] > 0.2
    clustered = metric_selection.greedy_selection(cases, np.arange(40) // 10).iloc[0]
    assert clustered["low"] < row["low"] and clustered["chosen"]


def test_subsets_of_bad_input():
    with pytest.raises(ValueError, match="at most 10 metrics"):
        metric_selection.subset_values(pd.DataFrame(np.zeros((50, 11))), np.zeros(50))
    with pytest.raises(ValueError, match="9 items have all metrics and a rating: too few for 5 folds"):
        metric_selection.subset_values(pd.DataFrame({"a": range(10)}), [nan, *range(9)])
