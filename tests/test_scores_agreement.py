"""Agreement of raters: small cases by hand, the libraries' own numbers, and ratings tables as they come."""

from math import isnan, nan

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xaihelpers.scores import agreement


def ratings(matrix):
    """The tidy table of a matrix, items as rows and raters as columns; None is a gap."""
    return pd.DataFrame(
        [
            {"item": f"i{i}", "rater": f"r{j}", "rating": value}
            for i, row in enumerate(matrix)
            for j, value in enumerate(row)
            if value is not None
        ]
    )


def test_a_good_table():
    table = ratings([[1, 2], [4, None], [3, 3]]).assign(order=1)
    checked = agreement.check_ratings(
        pd.concat([table, pd.DataFrame([{"item": "i1", "rater": "r1", "rating": None}])])
    )
    assert (
        list(checked.columns) == ["item", "rater", "rating"]
        and checked["rating"].tolist() == [1, 2, 4, 3, 3]
        and checked["rating"].dtype == int
    )
    as_text = table.assign(rating=table["rating"].astype(str))  # as read from a file of text
    assert agreement.check_ratings(as_text)["rating"].tolist() == [1, 2, 4, 3, 3]
    np.testing.assert_array_equal(agreement.rating_matrix(checked), [[1, 2], [4, nan], [3, 3]])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.drop(columns="rater"), "rater missing among item, rating"),
        (lambda t: t[t["rater"] == "r0"], "two raters or more; the table has only 'r0'"),
        (lambda t: t[:0], "two raters or more; the table has no rating"),
        (
            lambda t: t.assign(rating=[1, 2, 3, 5]),
            r"rating 5 of item 'i1' by rater 'r1' is outside the scale 1 … 4 \(1 such",
        ),
        (
            lambda t: t.assign(rating=[0, 2, 0, 4]),
            r"rating 0 of item 'i0' by rater 'r0' is outside the scale 1 … 4 \(2 such",
        ),
        (lambda t: t.assign(rating=[1, 2.5, 3, 4]), "rating 2.5 of item 'i0' by rater 'r1' is not whole"),
        (
            lambda t: t.assign(rating=[1, "good", 3, 4]),
            "rating 'good' of item 'i0' by rater 'r1' is no number",
        ),
        (lambda t: pd.concat([t, t[:1]]), "rater 'r0' rates item 'i0' more than once"),
        (lambda t: t.assign(rater=["r0", None, "r0", "r1"]), "1 ratings name no rater"),
    ],
)
def test_bad_tables(change, message):
    table = change(ratings([[1, 2], [3, 4]]))
    for measure in (agreement.check_ratings, agreement.krippendorff_alpha, agreement.fleiss_kappa):
        with pytest.raises(ValueError, match=message):
            measure(table)


def test_alpha_by_hand():
    """Two raters, ratings 1 1 / 1 2 / 2 2: nominal and ordinal are the same with two steps.

    n = 6 of 3 ones and 3 twos; D_o = 2/6, D_e = 2·3·3/(6·5).
    """
    assert agreement.krippendorff_alpha(ratings([[1, 1], [1, 2], [2, 2]])).value == pytest.approx(
        1 - (2 / 6) / (18 / 30)
    )


def test_alpha_is_the_librarys_and_takes_gaps():
    matrix = [[1, 2, 1], [4, None, 4], [3, 3, 2], [None, 2, None], [1, 1, None], [4, 3, 4]]
    result = agreement.krippendorff_alpha(ratings(matrix))
    with_nan = np.array([[nan if value is None else value for value in row] for row in matrix])
    assert result.value == pytest.approx(
        krippendorff.alpha(with_nan.T, value_domain=[1, 2, 3, 4], level_of_measurement="ordinal")
    )
    assert (
        result.cases == 5 and result.low < result.value < result.high <= 1
    )  # the item of one rater says nothing
    with pytest.raises(ValueError, match="no item has ratings of two raters"):
        agreement.krippendorff_alpha(ratings([[1, None], [None, 2]]))


def test_kappa_by_hand():
    """Items rated 1 1 / 1 2 / 2 2: P̄ = 2/3, P_e = 1/2, κ = 1/3."""
    assert agreement.fleiss_kappa(ratings([[1, 1], [1, 2], [2, 2]])).value == pytest.approx(1 / 3)


def test_kappa_with_gaps():
    table = ratings([[1, 1], [1, 2], [2, 2], [3, None], [None, 4]])
    with pytest.raises(ValueError, match=r"2 of 5 items have gaps, the first 'i3' \(no rating by r1\)"):
        agreement.fleiss_kappa(table)
    result = agreement.fleiss_kappa(table, incomplete="leave out")
    assert result.value == pytest.approx(1 / 3) and result.cases == 3
    with pytest.raises(ValueError, match="no item is rated by all"):
        agreement.fleiss_kappa(ratings([[1, None], [None, 2]]), "leave out")
    with pytest.raises(ValueError, match='"error" or "leave out"'):
        agreement.fleiss_kappa(table, "drop")


def test_nothing_to_agree_on():
    same = ratings([[2, 2], [2, 2]])
    for result in (agreement.krippendorff_alpha(same), agreement.fleiss_kappa(same)):
        assert isnan(result.value) and isnan(result.low) and result.cases == 2


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(2, 5))
def test_agreement_of_the_like_minded_and_of_strangers(seed, raters):
    rng = np.random.default_rng(seed)
    alike = ratings(np.repeat(rng.permuted([1, 2, 3, 4] * 10)[:, None], raters, axis=1).tolist())
    strangers = ratings(rng.integers(1, 5, (400, raters)).tolist())
    for measure in (agreement.krippendorff_alpha, agreement.fleiss_kappa):
        perfect = measure(alike)
        assert perfect.value == perfect.high == pytest.approx(1) and 0.7 < perfect.low < 1
        assert abs(measure(strangers).value) < 0.2
        shuffled = strangers.sample(frac=1, random_state=seed)
        assert measure(shuffled).value == pytest.approx(measure(strangers).value)


def test_a_file_of_ratings(tmp_path):
    file = tmp_path / "ratings.csv"
    with pytest.raises(ValueError, match="ratings.csv cannot be read as a table of ratings .* notebook 71"):
        agreement.read_ratings(file)
    file.write_text("item,rating\n007,3\n")
    assert agreement.read_ratings(file, ("item", "rating"))["item"].tolist() == ["007"]  # an item is a name
    with pytest.raises(
        ValueError, match="needs the columns item, rater, rating; rater missing among item, rating"
    ):
        agreement.read_ratings(file)


def test_names_that_look_like_numbers_or_gaps_stay_names(tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text("item,rater,rating,model\n1.0,007,3,2.0\nNA,null,,-\n3,b,4,my-model.v2\n")
    table = agreement.read_ratings(file)
    assert table["item"].tolist() == ["1.0", "NA", "3"] and table["rater"].tolist() == ["007", "null", "b"]
    assert table["model"].tolist() == ["2.0", "-", "my-model.v2"]
    assert table["rating"].isna().tolist() == [False, True, False] and table["rating"].mean() == 3.5


def test_items_of_one_image_belong_together():
    """Each item stands four times: only the number of images counts."""
    rows = [[1, 2], [2, 2], [3, 4], [4, 4], [1, 1], [3, 2]]
    table, copies = ratings(rows), ratings(rows * 4)
    names = [f"i{i}" for i in range(len(rows) * 4)]
    image = pd.Series(np.arange(len(names)) % len(rows), names)
    for measure in (agreement.krippendorff_alpha, agreement.fleiss_kappa):
        single, repeated, together = measure(table), measure(copies), measure(copies, clusters=[image])
        assert repeated.high - repeated.low < 0.7 * (single.high - single.low)
        assert 0.8 < (together.high - together.low) / (single.high - single.low) < 1.3


def simulated(rng, n_items, n_raters, noise):
    """Items of a true value from 0 to 5, raters who see it with noise, and a judge with as much noise."""
    truth = rng.uniform(0, 5, n_items)
    matrix = (truth[:, None] + rng.normal(0, noise, (n_items, n_raters))).round().clip(0, 5)
    judge = truth + rng.normal(0, noise, n_items)
    table = ratings(matrix.astype(int).tolist())
    return table, pd.Series(judge, [f"i{i}" for i in range(n_items)]), truth


def test_a_judge_as_noisy_as_the_raters_reaches_their_ceiling():
    table, judge, truth = simulated(np.random.default_rng(0), 400, 4, 1.0)
    found = agreement.leave_one_rater_out(table, judge)
    assert found["judge less rater"].low < 0 < found["judge less rater"].high
    assert abs(found["judge less rater"].value) < 0.05 and 0.6 < found["rater"].value < 0.9
    gap = found["judge"].value - found["rater"].value
    assert found["judge less rater"].value == pytest.approx(gap)
    better = agreement.leave_one_rater_out(table, pd.Series(truth, judge.index))
    assert better["judge less rater"].low > 0 and better["rater"].value == found["rater"].value
    noise = np.random.default_rng(1).normal(size=400)
    blind = agreement.leave_one_rater_out(table, pd.Series(noise, judge.index))
    assert blind["judge less rater"].high < 0 and blind["judge"].low < 0 < blind["judge"].high


def test_the_mean_of_all_raters_would_flatter_the_judge():
    """The same judge, held against a mean that holds one rater more, and against those that a rater meets."""
    table, judge, _ = simulated(np.random.default_rng(2), 300, 3, 1.5)
    fair = agreement.leave_one_rater_out(table, judge)["judge"].value
    of_all = table.groupby("item").rating.mean()
    assert np.corrcoef(judge, of_all[judge.index])[0, 1] > fair + 0.02


def test_one_rater_left_out_by_hand():
    """Two raters: each one's reference is the other, and a rater's correlation is theirs."""
    first, second, judge = [0, 1, 3, 5], [1, 1, 2, 5], [0.0, 2.0, 1.0, 4.0]
    table = ratings(list(zip(first, second, strict=True)))
    found = agreement.leave_one_rater_out(table, pd.Series(judge, ["i0", "i1", "i2", "i3"]))
    assert found["rater"].value == pytest.approx(np.corrcoef(first, second)[0, 1])
    with_both = [np.corrcoef(judge, one)[0, 1] for one in (first, second)]
    assert found["judge"].value == pytest.approx(np.mean(with_both)) and found["judge"].cases == 4


def test_items_without_a_score_or_a_second_rating_are_left_out():
    table = ratings([[0, 1], [1, 1], [3, None], [5, 4], [2, 3], [4, 4]])
    judge = pd.Series([0.0, 2.0, 1.0, 4.0, nan, 3.0], [f"i{i}" for i in range(6)])
    assert agreement.leave_one_rater_out(table, judge)["judge"].cases == 4
    assert isnan(agreement.leave_one_rater_out(table, judge.iloc[:3])["judge"].value)


def test_maps_of_one_image_widen_the_ceiling():
    rng = np.random.default_rng(3)
    table, judge, _ = simulated(rng, 40, 3, 1.0)
    copies = pd.concat([table.assign(item=table["item"] + f"-{n}") for n in range(4)])
    judges = pd.concat([judge.set_axis(judge.index + f"-{n}") for n in range(4)])
    image = pd.Series([name.split("-")[0] for name in judges.index], judges.index)
    alone = agreement.leave_one_rater_out(copies, judges)["rater"]
    together = agreement.leave_one_rater_out(copies, judges, clusters=[image])["rater"]
    assert together.high - together.low > 1.5 * (alone.high - alone.low)
