"""Agreement of raters: small cases by hand."""

from math import isnan

import numpy as np
import pandas as pd
import pytest

from xaihelpers.scores import agreement


def ratings(matrix):
    """The tidy table of a matrix, items as rows and raters as columns; None is a gap."""
    rows = []
    for i, row in enumerate(matrix):
        rows += [{"item": f"i{i}", "rater": f"r{j}", "rating": value} for j, value in enumerate(row)]
    return pd.DataFrame(rows).dropna()


def test_a_rating_that_is_no_step_of_the_scale_is_named():
    with pytest.raises(ValueError, match=r"rating 0 of item 'i0' by rater 'r0' .* 1 … 4 \(2 such in all\)"):
        agreement.krippendorff_alpha(ratings([[0, 2], [0, 4]]))
    with pytest.raises(ValueError, match="rating 2.5 of item 'i0' by rater 'r1'"):
        agreement.fleiss_kappa(ratings([[1, 2.5], [3, 4]]))


def test_alpha_and_kappa_by_hand():
    """Two raters, ratings 1 1 / 1 2 / 2 2: nominal and ordinal are the same with two steps.

    α: n = 6 of 3 ones and 3 twos; D_o = 2/6, D_e = 2·3·3/(6·5). κ: P̄ = 2/3, P_e = 1/2.
    """
    table = ratings([[1, 1], [1, 2], [2, 2], [3, None], [None, 4]])  # an item of one rater says nothing
    assert agreement.krippendorff_alpha(table).value == pytest.approx(1 - (2 / 6) / (18 / 30))
    kappa = agreement.fleiss_kappa(table)
    assert kappa.value == pytest.approx(1 / 3) and kappa.cases == 3
    same = ratings([[2, 2], [2, 2]])
    for result in (agreement.krippendorff_alpha(same), agreement.fleiss_kappa(same)):
        assert isnan(result.value) and isnan(result.low) and result.cases == 2
    apart = ratings([[1, None], [None, 2]])
    assert isnan(agreement.fleiss_kappa(apart).value)
    with pytest.raises(ValueError, match="no item has ratings of two raters"):
        agreement.krippendorff_alpha(apart)


def test_one_rater_left_out_by_hand():
    """Two raters: each one's reference is the other, and a rater's correlation is theirs."""
    first, second, judge = [0, 1, 3, 5], [1, 1, 2, 5], [0.0, 2.0, 1.0, 4.0]
    table = ratings(list(zip(first, second, strict=True)))
    scores = pd.Series(judge, ["i0", "i1", "i2", "i3"])
    found = agreement.leave_one_rater_out(table, scores)
    assert found["rater"].value == pytest.approx(np.corrcoef(first, second)[0, 1])
    with_both = [np.corrcoef(judge, one)[0, 1] for one in (first, second)]
    assert found["judge"].value == pytest.approx(np.mean(with_both)) and found["judge"].cases == 4
    assert found["judge less rater"].value == pytest.approx(found["judge"].value - found["rater"].value)
    table = ratings([[0, 1, 3], [1, 1, None], [3, 2, 4], [5, 5, 1]])  # three ratings are too few
    found = agreement.leave_one_rater_out(table, scores)
    pairs = ([0, 1, 3, 5], [2, 1, 3, 3]), ([1, 1, 2, 5], [1.5, 1, 3.5, 3])  # a rater, and the others' means
    assert found["rater"].value == pytest.approx(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))
    assert isnan(agreement.leave_one_rater_out(table, scores.iloc[:3])["judge"].value)


def test_ratings_that_cannot_be_read_as_they_stand(tmp_path):
    file = tmp_path / "own.csv"
    for rows, message in (
        ("a,x,4/5,\na,y,1,\n", "line 2: rating is '4/5', not a number from 1 to 4"),
        ("a,x,1,\na,y,2,\n a , x,3,\n", "line 4: an item is rated again .item 'a', rater 'x'"),
        ("a,,1,\na,y,2,\n", "line 2: a rating names no item or no rater"),
        ("a,x,1,one.png\na,y,2,two.png\n", "line 3: its image was another one before .item 'a'"),
    ):
        file.write_text(f"item,rater,rating,image\n{rows}")
        with pytest.raises(ValueError, match=f"own.csv.*{message}"):
            agreement.read_ratings(file, (*agreement.COLUMNS, "image"))
    file.write_text("item,rating\na,1\nb,1\na,1\n")  # of one who has no name
    with pytest.raises(ValueError, match="line 4: an item is rated again .item 'a'"):
        agreement.read_ratings(file, ("item", "rating"))


def test_ratings_on_another_scale_are_refused(tmp_path, caplog):
    """Of a scale that ends at 1; where it begins at 1 they are off it."""
    file = tmp_path / "own.csv"
    file.write_text("item,rater,rating\na,x,0.8\na,y,1\nb,x,0.25\n")
    with pytest.raises(ValueError, match="own.csv: none of 3 scores from 0 to 5 is above 1: .* give 5 times"):
        agreement.read_ratings(file, low=0, high=5)
    with pytest.raises(ValueError, match="line 2: rating is '0.8', not a number from 1 to 4"):
        agreement.read_ratings(file)
    assert agreement.read_ratings(file, low=0, high=1)["rating"].tolist() == [0.8, 1, 0.25]
    file.write_text("item,rater,rating\na,x,0\na,y,1\nb,x,\n")
    assert not caplog.records and len(agreement.read_ratings(file, low=0, high=5)) == 3
    assert "none of 2 scores from 0 to 5 is above 1" in caplog.text
