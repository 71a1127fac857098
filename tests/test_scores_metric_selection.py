"""Which metrics predict people: a game by hand, Shapley's axioms, and a metric that is known to predict."""

from itertools import combinations
from math import nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert result.sum() == pytest.approx(0.45)


@given(
    st.lists(st.floats(-1, 1), min_size=15, max_size=15), st.lists(st.floats(-1, 1), min_size=4, max_size=4)
)
def test_shapley_axioms(worth, single):
    """The values add up to the whole set's; a game of sums gives each its own term."""
    names = list("abcd")
    subsets = [s for size in range(5) for s in combinations(names, size)]
    game = dict(zip(subsets, [0.0, *worth], strict=True))
    assert metric_selection.shapley_values(game).sum() == pytest.approx(worth[-1], abs=1e-9)
    term = dict(zip(names, single, strict=True))
    sums = {subset: sum(term[name] for name in subset) for subset in subsets}
    np.testing.assert_allclose(metric_selection.shapley_values(sums), single, atol=1e-9)


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
    values = metric_selection.subset_values(metrics, people, repeats=2)
    assert len(values) == 2**3 and values[()] == 0 and abs(values["noise",]) < 0.2
    assert values["good",] > values["fair",] > 0.2  # a negative relation predicts as well
    share = metric_selection.shapley_values(values)
    assert (
        share.idxmax() == "good"
        and abs(share["noise"]) < 0.06
        and share.sum() == pytest.approx(values["noise", "good", "fair"])
    )
    assert metric_selection.greedy_selection(values)["metric"].tolist()[:2] == ["good", "fair"]
    metrics.iloc[:3, 0] = nan
    assert metric_selection.subset_values(metrics, people, repeats=1) == metric_selection.subset_values(
        metrics[3:], people[3:], repeats=1
    )


def test_subsets_of_bad_input():
    with pytest.raises(ValueError, match="at most 10 metrics"):
        metric_selection.subset_values(pd.DataFrame(np.zeros((50, 11))), np.zeros(50))
    with pytest.raises(ValueError, match="9 items have all metrics and a rating: too few for 5 folds"):
        metric_selection.subset_values(pd.DataFrame({"a": range(10)}), [nan, *range(9)])
