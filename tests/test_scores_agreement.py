"""Agreement: small cases by hand, the libraries that do one thing at a time, and ratings tables as they come."""
from itertools import combinations
from math import isnan, nan, sqrt

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from xaihelpers.scores import agreement as A


def ratings(matrix):
    """The tidy table of a matrix, items as rows and raters as columns; None is a gap."""
    return pd.DataFrame([{"item": f"i{i}", "rater": f"r{j}", "rating": value}
                         for i, row in enumerate(matrix) for j, value in enumerate(row) if value is not None])


# Kendall

def test_tau_by_hand():
    """1 2 3 4 against 1 3 2 4: five pairs agree, one does not; against 1 1 2 3: five agree, one is tied."""
    scores = pd.DataFrame({"x": [1, 2, 3, 4], "y": [1, 3, 2, 4], "z": [1, 1, 2, 3], "c": [5, 5, 5, 5]})
    b, a = A.kendall_matrix(scores).tau, A.kendall_matrix(scores, "a").tau
    assert b.loc["x", "y"] == a.loc["x", "y"] == pytest.approx(4 / 6)
    assert b.loc["x", "z"] == pytest.approx(5 / sqrt(6 * 5)) and a.loc["x", "z"] == pytest.approx(5 / 6)
    assert b.loc["z", "z"] == 1 and a.loc["z", "z"] == pytest.approx(5 / 6)
    assert b["c"].isna().all() and a["c"].isna().all()
    pd.testing.assert_frame_equal(b, b.T)
    with pytest.raises(ValueError, match='"a" or "b", not \'c\''):
        A.kendall_matrix(scores, "c")
    with pytest.raises(ValueError, match="columns must differ"):
        A.kendall_matrix(pd.concat([scores, scores], axis=1))


def test_gaps_are_left_out_pair_by_pair():
    scores = pd.DataFrame({"x": [1, 2, 3, 4, nan], "y": [1, 3, nan, 2, 9], "z": [4, 3, 2, 1, nan], "none": [nan] * 5})
    found = A.kendall_matrix(scores)
    assert found.cases.loc["x"].tolist() == [4, 3, 4, 0] and isnan(found.tau.loc["x", "none"])
    assert found.tau.loc["x", "y"] == pytest.approx(1 / 3) and found.tau.loc["x", "z"] == -1
    assert A.kendall_matrix(scores[:0]).tau.isna().all(axis=None)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=2, max_size=40), st.integers(0, 100))
def test_tau_is_scipys(pairs, seed):
    """τ-b of the whole set and of a resample; bounded; the sign turns with a score; a monotone map changes nothing."""
    scores = pd.DataFrame(pairs, columns=["x", "y"])
    found = A.kendall_matrix(scores.assign(cube=scores["x"] ** 3, minus=-scores["x"]), resamples=20, seed=seed)
    np.testing.assert_allclose(found.tau.loc["x", "y"], kendalltau(scores["x"], scores["y"]).statistic, atol=1e-6)
    np.testing.assert_allclose(found.tau.loc["cube", "y"], found.tau.loc["x", "y"])
    np.testing.assert_allclose(found.tau.loc["minus", "y"], -found.tau.loc["x", "y"])
    tau, low, high = (table.to_numpy() for table in found[:3])
    assert ((np.abs(tau) <= 1 + 1e-9) | np.isnan(tau)).all() and ((low <= high) | np.isnan(low)).all()
    drawn = np.random.default_rng(seed).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=3)
    for times, value in zip(drawn, A._taus(*scores.to_numpy(float).T, drawn, "b")):
        rows = np.repeat(np.arange(len(pairs)), times)
        np.testing.assert_allclose(value, kendalltau(scores["x"].iloc[rows], scores["y"].iloc[rows]).statistic, atol=1e-6)


def test_interval_of_tau_holds_the_truth():
    """Of a bivariate normal with r = 0.6, τ = 2/π arcsin r = 0.41: 95 % intervals hold it nearly as often."""
    rng, truth, held = np.random.default_rng(0), 2 / np.pi * np.arcsin(0.6), 0
    for _ in range(100):
        x = rng.normal(size=80)
        found = A.kendall_matrix(pd.DataFrame({"x": x, "y": 0.6 * x + 0.8 * rng.normal(size=80)}), resamples=200)
        held += found.low.loc["x", "y"] <= truth <= found.high.loc["x", "y"]
    assert 87 <= held <= 100


# Ratings tables

def test_a_good_table():
    table = ratings([[1, 2], [4, None], [3, 3]]).assign(order=1)
    checked = A.check_ratings(pd.concat([table, pd.DataFrame([{"item": "i1", "rater": "r1", "rating": None}])]))
    assert list(checked.columns) == ["item", "rater", "rating"] and checked["rating"].tolist() == [1, 2, 4, 3, 3] and checked["rating"].dtype == int
    assert A.check_ratings(table.assign(rating=table["rating"].astype(str)))["rating"].tolist() == [1, 2, 4, 3, 3]  # as read from a file of text
    np.testing.assert_array_equal(A.rating_matrix(checked), [[1, 2], [4, nan], [3, 3]])


@pytest.mark.parametrize("change, message", [
    (lambda t: t.drop(columns="rater"), "rater missing among item, rating"),
    (lambda t: t[t["rater"] == "r0"], "two raters or more; the table has only 'r0'"),
    (lambda t: t[:0], "two raters or more; the table has no rating"),
    (lambda t: t.assign(rating=[1, 2, 3, 5]), r"rating 5 of item 'i1' by rater 'r1' is outside the scale 1 … 4 \(1 such"),
    (lambda t: t.assign(rating=[0, 2, 0, 4]), r"rating 0 of item 'i0' by rater 'r0' is outside the scale 1 … 4 \(2 such"),
    (lambda t: t.assign(rating=[1, 2.5, 3, 4]), "rating 2.5 of item 'i0' by rater 'r1' is not whole"),
    (lambda t: t.assign(rating=[1, "good", 3, 4]), "rating 'good' of item 'i0' by rater 'r1' is no number"),
    (lambda t: pd.concat([t, t[:1]]), "rater 'r0' rates item 'i0' more than once"),
    (lambda t: t.assign(rater=["r0", None, "r0", "r1"]), "1 ratings name no rater"),
])
def test_bad_tables(change, message):
    table = change(ratings([[1, 2], [3, 4]]))
    for measure in (A.check_ratings, A.krippendorff_alpha, A.fleiss_kappa):
        with pytest.raises(ValueError, match=message):
            measure(table)


# Raters among themselves

def test_alpha_by_hand():
    """Two raters, ratings 1 1 / 1 2 / 2 2: nominal and ordinal are the same with two steps. n = 6 of 3 ones and 3 twos; D_o = 2/6, D_e = 2·3·3/(6·5)."""
    assert A.krippendorff_alpha(ratings([[1, 1], [1, 2], [2, 2]])).value == pytest.approx(1 - (2 / 6) / (18 / 30))


def test_alpha_is_the_librarys_and_takes_gaps():
    matrix = [[1, 2, 1], [4, None, 4], [3, 3, 2], [None, 2, None], [1, 1, None], [4, 3, 4]]
    found = A.krippendorff_alpha(ratings(matrix))
    with_nan = np.array([[nan if value is None else value for value in row] for row in matrix])
    assert found.value == pytest.approx(krippendorff.alpha(with_nan.T, value_domain=[1, 2, 3, 4], level_of_measurement="ordinal"))
    assert found.cases == 5 and found.low < found.value < found.high <= 1  # the item of one rater says nothing
    with pytest.raises(ValueError, match="no item has ratings of two raters"):
        A.krippendorff_alpha(ratings([[1, None], [None, 2]]))


def test_kappa_by_hand():
    """Items rated 1 1 / 1 2 / 2 2: P̄ = 2/3, P_e = 1/2, κ = 1/3."""
    assert A.fleiss_kappa(ratings([[1, 1], [1, 2], [2, 2]])).value == pytest.approx(1 / 3)


def test_kappa_with_gaps():
    table = ratings([[1, 1], [1, 2], [2, 2], [3, None], [None, 4]])
    with pytest.raises(ValueError, match=r"2 of 5 items have gaps, the first 'i3' \(no rating by r1\)"):
        A.fleiss_kappa(table)
    found = A.fleiss_kappa(table, incomplete="leave out")
    assert found.value == pytest.approx(1 / 3) and found.cases == 3
    with pytest.raises(ValueError, match="no item is rated by all"):
        A.fleiss_kappa(ratings([[1, None], [None, 2]]), "leave out")
    with pytest.raises(ValueError, match='"error" or "leave out"'):
        A.fleiss_kappa(table, "drop")


def test_nothing_to_agree_on():
    same = ratings([[2, 2], [2, 2]])
    for found in (A.krippendorff_alpha(same), A.fleiss_kappa(same)):
        assert isnan(found.value) and isnan(found.low) and found.cases == 2


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(2, 5))
def test_agreement_of_the_like_minded_and_of_strangers(seed, raters):
    rng = np.random.default_rng(seed)
    alike = ratings(np.repeat(rng.permuted([1, 2, 3, 4] * 10)[:, None], raters, axis=1).tolist())
    strangers = ratings(rng.integers(1, 5, (400, raters)).tolist())
    for measure in (A.krippendorff_alpha, A.fleiss_kappa):
        assert measure(alike, resamples=5)[:3] == pytest.approx((1, 1, 1))
        assert abs(measure(strangers, resamples=5).value) < 0.2
        shuffled = strangers.sample(frac=1, random_state=seed)
        assert measure(shuffled, resamples=5).value == pytest.approx(measure(strangers, resamples=5).value)


# Calibration

def test_calibration():
    people = np.array([1, 2, 2, 3, 4, 4.0])
    linear = A.calibrate(2 * people - 1, people, "linear")
    np.testing.assert_allclose(linear([1, 3, nan, 7, 99]), [1, 2, nan, 4, 4])  # clipped to the scale
    isotonic = A.calibrate([1, 1, 2, 2, 3, 4], [1, 2, 1, 2, 3, 4])
    np.testing.assert_allclose(isotonic([1, 2, 3, 4, 5]), [1.5, 1.5, 3, 4, 4])
    assert np.isnan(isotonic([nan])).all()
    with pytest.raises(ValueError, match="there are 4"):
        A.calibrate([1, 2, 3, 4, nan], [1, 2, 3, 4, 4])
    with pytest.raises(ValueError, match="answers that differ"):
        A.calibrate([2] * 6, people)
    with pytest.raises(ValueError, match="one answer and one rating"):
        A.calibrate([1, 2], people)
    with pytest.raises(ValueError, match="kind must be"):
        A.calibrate(people, people, "spline")


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=5, max_size=30).filter(lambda p: len({a for a, _ in p}) > 1))
def test_calibration_is_monotone(pairs):
    found = A.calibrate(*zip(*pairs))(np.linspace(0, 5, 21))
    assert (np.diff(found) >= -1e-12).all() and found.min() >= 1 and found.max() <= 4


# Which metrics predict people

VALUES = {(): 0.0, ("a",): 0.3, ("b",): 0.2, ("c",): 0.0, ("a", "b"): 0.4, ("a", "c"): 0.5, ("b", "c"): 0.2, ("a", "b", "c"): 0.45}


def test_shapley_by_hand():
    """a joins first (twice of six orders) for 0.3, after b for 0.2, after c for 0.5, and last (twice) for 0.25; so on."""
    found = A.shapley(VALUES)
    assert found["a"] == pytest.approx((2 * 0.3 + 0.2 + 0.5 + 2 * 0.25) / 6)
    assert found["b"] == pytest.approx((2 * 0.2 + 0.1 + 0.2 + 2 * -0.05) / 6)
    assert found["c"] == pytest.approx((2 * 0.0 + 0.2 + 0.0 + 2 * 0.05) / 6)
    assert found.sum() == pytest.approx(0.45)


@given(st.lists(st.floats(-1, 1), min_size=15, max_size=15), st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_shapley_axioms(worth, single):
    """The values add up to the whole set's; a game of sums gives each its own term."""
    names = list("abcd")
    subsets = [s for size in range(5) for s in combinations(names, size)]
    assert A.shapley(dict(zip(subsets, [0.0, *worth]))).sum() == pytest.approx(worth[-1], abs=1e-9)
    own = dict(zip(names, single))
    np.testing.assert_allclose(A.shapley({s: sum(own[n] for n in s) for s in subsets}), single, atol=1e-9)


def test_greedy_by_hand():
    found = A.greedy(VALUES)
    assert found["metric"].tolist() == ["a", "c", "b"] and found["chosen"].tolist() == [True, True, False]
    assert found["value"].tolist() == [0.3, 0.5, 0.45] and found["gain"].tolist() == pytest.approx([0.3, 0.2, -0.05])


def test_the_metric_that_predicts_is_found():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=120)
    people = np.clip(np.round(2.5 + quality), 1, 4)
    metrics = pd.DataFrame({"noise": rng.normal(size=120), "good": quality + 0.5 * rng.normal(size=120), "fair": -quality + 1.5 * rng.normal(size=120)})
    values = A.subset_values(metrics, people, repeats=2)
    assert len(values) == 2 ** 3 and values[()] == 0 and abs(values["noise",]) < 0.2
    assert values["good",] > values["fair",] > 0.2  # a negative relation predicts as well
    share = A.shapley(values)
    assert share.idxmax() == "good" and abs(share["noise"]) < 0.06 and share.sum() == pytest.approx(values["noise", "good", "fair"])
    assert A.greedy(values)["metric"].tolist()[:2] == ["good", "fair"]
    metrics.iloc[:3, 0] = nan
    assert A.subset_values(metrics, people, repeats=1) == A.subset_values(metrics[3:], people[3:], repeats=1)


def test_subsets_of_bad_input():
    with pytest.raises(ValueError, match="at most 10 metrics"):
        A.subset_values(pd.DataFrame(np.zeros((50, 11))), np.zeros(50))
    with pytest.raises(ValueError, match="9 items have all metrics and a rating: too few for 5 folds"):
        A.subset_values(pd.DataFrame({"a": range(10)}), [nan, *range(9)])


def test_a_file_of_ratings(tmp_path):
    file = tmp_path / "ratings.csv"
    with pytest.raises(ValueError, match="ratings.csv cannot be read as a table of ratings .* notebook 71"):
        A.read_ratings(file)
    file.write_text("item,rating\n007,3\n")
    assert A.read_ratings(file, ("item", "rating"))["item"].tolist() == ["007"]  # an item is a name
    with pytest.raises(ValueError, match="needs the columns item, rater, rating; rater missing among item, rating"):
        A.read_ratings(file)


def test_gain_is_paired():
    """Two scores that order the same items alike differ by nothing, whatever is drawn; a score of noise lies below by its τ."""
    rng = np.random.default_rng(0)
    people = rng.integers(1, 5, 60).astype(float)
    good = people + rng.normal(0, 0.5, 60)
    table = pd.DataFrame({1: good, 2: 3 * good + 1, 3: rng.normal(size=60), "people": people})
    gain = A.kendall_gain(table, "people", 1).set_index("score")
    assert gain.loc[2, ["value", "low", "high"]].tolist() == [0, 0, 0] and gain.cases.tolist() == [60, 60]
    taus = A.kendall_matrix(table).tau
    assert gain.loc[3, "value"] == pytest.approx(taus.loc[3, "people"] - taus.loc[1, "people"]) and gain.loc[3, "high"] < 0
