"""Agreement of raters, and which metrics predict people: small cases by hand, and the libraries' numbers."""

from math import isnan, nan

import krippendorff
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from xaihelpers.scores import agreement, metric_selection


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
    assert list(checked.columns) == ["item", "rater", "rating"]
    assert checked["rating"].tolist() == [1, 2, 4, 3, 3] and checked["rating"].dtype == int
    as_text = table.assign(rating=table["rating"].astype(str))  # as read from a file of text
    assert agreement.check_ratings(as_text)["rating"].tolist() == [1, 2, 4, 3, 3]
    np.testing.assert_array_equal(agreement.rating_matrix(checked), [[1, 2], [4, nan], [3, 3]])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.drop(columns="rater"), "rater missing among item, rating"),
        (lambda t: t[t["rater"] == "r0"], "two raters or more; the table has only 'r0'"),
        (lambda t: t[:0], "two raters or more; the table has no rating"),
        ([1, 2, 3, 5], r"rating 5 of item 'i1' by rater 'r1' is outside the scale 1 … 4 \(1 such"),
        ([0, 2, 0, 4], r"rating 0 of item 'i0' by rater 'r0' is outside the scale 1 … 4 \(2 such"),
        ([1, 2.5, 3, 4], "rating 2.5 of item 'i0' by rater 'r1' is not whole"),
        ([1, "good", 3, 4], "rating 'good' of item 'i0' by rater 'r1' is no number"),
        (lambda t: pd.concat([t, t[:1]]), "rater 'r0' rates item 'i0' more than once"),
        (lambda t: t.assign(rater=["r0", None, "r0", "r1"]), "1 ratings name no rater"),
    ],
)
def test_bad_tables(change, message):
    table = ratings([[1, 2], [3, 4]])
    table = table.assign(rating=change) if isinstance(change, list) else change(table)
    for measure in (agreement.check_ratings, agreement.krippendorff_alpha, agreement.fleiss_kappa):
        with pytest.raises(ValueError, match=message):
            measure(table)


def test_alpha_and_kappa_by_hand():
    """Two raters, ratings 1 1 / 1 2 / 2 2: nominal and ordinal are the same with two steps.

    n = 6 of 3 ones and 3 twos; D_o = 2/6, D_e = 2·3·3/(6·5).
    """
    assert agreement.krippendorff_alpha(ratings([[1, 1], [1, 2], [2, 2]])).value == pytest.approx(
        1 - (2 / 6) / (18 / 30)
    )
    # items rated 1 1 / 1 2 / 2 2: P̄ = 2/3, P_e = 1/2, κ = 1/3
    assert agreement.fleiss_kappa(ratings([[1, 1], [1, 2], [2, 2]])).value == pytest.approx(1 / 3)
    same = ratings([[2, 2], [2, 2]])
    for result in (agreement.krippendorff_alpha(same), agreement.fleiss_kappa(same)):
        assert isnan(result.value) and isnan(result.low) and result.cases == 2


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


def test_a_file_of_ratings(tmp_path):
    """Names that look like numbers or gaps stay names."""
    file = tmp_path / "ratings.csv"
    with pytest.raises(ValueError, match="ratings.csv cannot be read as a table of ratings .* notebook 71"):
        agreement.read_ratings(file)
    file.write_text("item,rating\n007,3\n")
    assert agreement.read_ratings(file, ("item", "rating"))["item"].tolist() == ["007"]
    message = "needs the columns item, rater, rating; rater missing among item, rating"
    with pytest.raises(ValueError, match=message):
        agreement.read_ratings(file)
    file.write_text("item,rater,rating,model\n1.0,007,3,2.0\nNA,null,,-\n3,b,4,my-model.v2\n")
    table = agreement.read_ratings(file)
    assert table["item"].tolist() == ["1.0", "NA", "3"] and table["rater"].tolist() == ["007", "null", "b"]
    assert table["model"].tolist() == ["2.0", "-", "my-model.v2"]
    assert table["rating"].isna().tolist() == [False, True, False] and table["rating"].mean() == 3.5


def test_one_rater_left_out_by_hand():
    """Two raters: each one's reference is the other, and a rater's correlation is theirs."""
    first, second, judge = [0, 1, 3, 5], [1, 1, 2, 5], [0.0, 2.0, 1.0, 4.0]
    table = ratings(list(zip(first, second, strict=True)))
    found = agreement.leave_one_rater_out(table, pd.Series(judge, ["i0", "i1", "i2", "i3"]))
    assert found["rater"].value == pytest.approx(np.corrcoef(first, second)[0, 1])
    with_both = [np.corrcoef(judge, one)[0, 1] for one in (first, second)]
    assert found["judge"].value == pytest.approx(np.mean(with_both)) and found["judge"].cases == 4
    table = ratings([[0, 1, 3], [1, 1, None], [3, 2, 4], [5, 5, 1]])  # three ratings are too few
    found = agreement.leave_one_rater_out(table, pd.Series(judge, ["i0", "i1", "i2", "i3"]))
    pairs = ([0, 1, 3, 5], [2, 1, 3, 3]), ([1, 1, 2, 5], [1.5, 1, 3.5, 3])  # a rater, and the others' means
    assert found["rater"].value == pytest.approx(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))
    table = ratings([[0, 1], [1, 1], [3, None], [5, 4], [2, 3], [4, 4]])
    judge = pd.Series([0.0, 2.0, 1.0, 4.0, nan, 3.0], [f"i{i}" for i in range(6)])
    assert agreement.leave_one_rater_out(table, judge)["judge"].cases == 4
    assert isnan(agreement.leave_one_rater_out(table, judge.iloc[:3])["judge"].value)


@pytest.mark.parametrize(
    "rows, message",
    [
        ("a,x,4/5\na,y,1\n", r"line 2: rating is '4/5', not a number from 1 to 4"),
        ('a,x,1\n\na,y,"4,0"\n', "line 4: rating is '4,0', not a number"),
        ("a,x,1\na,y,5\n", "line 3: rating is '5'"),
        ("a,x,1\na,y,NA\n", "line 3: rating is 'NA'"),
        ("a,x,nan\n", "line 2: rating is 'nan'"),
        ("a,x,1\na,y,2\na , x,3\n", r"line 4: rater 'x' rates item 'a' more than once \(1 such"),
        ("a,,1\na,y,2\n", "line 2: 1 ratings name no rater"),
        ("a,x\n", "line 2: 2 values under 3 columns"),
    ],
)
def test_ratings_that_cannot_be_read_as_they_stand(rows, message, tmp_path):
    (tmp_path / "own.csv").write_text(f"item,rater,rating\n{rows}")
    with pytest.raises(ValueError, match=f"own.csv.*{message}"):
        agreement.read_ratings(tmp_path / "own.csv")


def test_an_item_is_one_thing_and_an_answer_one_answer(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("item,rater,rating,image\na,x,1,one.png\na,y,2,two.png\n")
    with pytest.raises(ValueError, match="line 3: item 'a' has had another image before"):
        agreement.read_ratings(file, (*agreement.COLUMNS, "image"))
    file.write_text("item,rating\na,1\nb,1\na,1\n")
    with pytest.raises(ValueError, match="line 4: item 'a' is rated more than once"):
        agreement.read_ratings(file, ("item", "rating"))


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_ratings_as_programs_save_them(ends, tmp_path):
    """A byte order mark, line endings, blanks, letters composed or not, an item that somebody skipped."""
    lines = ["item , rater,rating,note", "ma\u00efs, x,4.0,", "mai\u0308s,y , 1,None", "NA,x,,", "NA,y,2,NA"]
    (tmp_path / "own.csv").write_bytes(("\ufeff" + ends.join(lines) + ends).encode())
    table = agreement.read_ratings(tmp_path / "own.csv")
    assert table.groupby("item").rating.mean().to_dict() == {"ma\u00efs": 2.5, "NA": 2.0}
    assert table["rating"].isna().sum() == 1 and table["note"].tolist() == ["", "None", "", "NA"]
    assert agreement.check_ratings(table)["rating"].tolist() == [4, 1, 2]


VALUES = {(): 0.0, ("a",): 0.3, ("b",): 0.2, ("c",): 0.0, ("a", "b"): 0.4, ("a", "c"): 0.5, ("b", "c"): 0.2}
VALUES["a", "b", "c"] = 0.45


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
