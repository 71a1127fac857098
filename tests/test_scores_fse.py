"""CRI, the attention matrix and overlaps on cases worked out by hand, and the paper's names."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.scores import autoxplain, interval
from xaihelpers.scores.fse import cri_table, paper_names


def answers(correct, **columns):
    rows = pd.DataFrame({"correct": correct, "mode": "slow"}).astype({"correct": bool})
    return rows.assign(**({"invalid": False, "failure": "", "seed": 0} | columns))


class TestCri:
    def test_worked_by_hand(self):
        rows = answers([1, 0, 0, 0], invalid=[False, True, False, True], seed=[0, 0, 1, 1])
        row = cri_table(rows, ["mode"]).iloc[0]
        assert (row["mode"], row.value, row.invalid, row.cases) == ("slow", 25.0, 50.0, 4)
        assert row.sd == pytest.approx(np.std([50, 0], ddof=1)) and row.low <= 25 <= row.high
        assert np.isnan(cri_table(answers([1, 0]), ["mode"]).sd[0])  # one seed has no spread

    def test_parts_come_in_their_order(self):
        rows = answers([1, 0, 1, 1], t=[2, 2, 0, 1], sets=[*"baab"])
        table = cri_table(rows, ["sets", "t"])
        found = table[["sets", "t", "value"]].values.tolist()
        assert found == [["b", 2, 100], ["a", 2, 0], ["a", 0, 100], ["b", 1, 100]]
        assert table.cases.dtype == int and table.cases.sum() == 4

    def test_the_interval_is_over_units_where_their_cases_belong_together(self):
        rows = answers([1, 1, 1, 0, 0, 0, 1, 0], row=[5, 5, 5, 7, 7, 7, 9, 9])
        by_unit, by_case = cri_table(rows, ["mode"], units=["row"]).iloc[0], cri_table(rows, ["mode"]).iloc[0]
        expected = interval(100.0 * rows["correct"], clusters=rows["row"])
        assert (by_unit.value, by_unit.low, by_unit.high) == expected[:3] and by_unit.cases == 8
        assert by_unit.high - by_unit.low > by_case.high - by_case.low

    def test_answers_that_could_not_be_had_are_left_out(self):
        rows = answers([1, 0, 0, 0], failure=["", "", "failed", "failed"])
        row = cri_table(rows, ["mode"]).iloc[0]
        assert (row.value, row.cases, row.failed) == (50, 2, 50)
        assert len(cri_table(answers([]), ["mode"])) == 0


def test_whose_names_are_the_papers():
    assert paper_names("server:gpt-4o", "CUB_200_2011") == ("GPT-4o", "CUB-Bird")
    assert paper_names("Qwen/Qwen2-VL-7B-Instruct", "/where/flowers102") == ("QwenVL2-7b", "Flower")
    assert paper_names("annotator", "/where/my_birds") == ("annotator", "my_birds")
    # somebody's model of the same last name is not the paper's
    assert paper_names("openai/gpt-4o", "")[0] == paper_names("gpt-4o", "")[0] == "GPT-4o"
    for other in ("somebody/gpt-4o", "somebody/Qwen2-VL-7B-Instruct", "server:gpt-5"):
        assert paper_names(other, "")[0] == other
    assert paper_names("/models/qwen2-vl-7b-instruct", "")[0] == "QwenVL2-7b"
    assert paper_names("./annotator", "")[0] == "annotator"


def test_four_cells_by_hand():
    correct = [True, True, False, False, True, True]
    table = autoxplain.attention_matrix(correct, [2.5, 2.0, 5, 0, np.nan, 4]).set_index("metric")
    assert table.value.round(6).to_dict() == {"CH": 40, "CL": 20, "WH": 20, "WL": 20, "Avg": 2.7}
    assert (table.cases == 5).all()
    lower = autoxplain.attention_matrix([True, False], [1, 1], threshold=1).set_index("metric")
    assert lower.value.to_dict() == {"CH": 50, "CL": 0, "WH": 50, "WL": 0, "Avg": 1}
    assert autoxplain.attention_matrix([True], [np.nan]).cases.tolist() == [0] * 5


def test_overlap_and_share_by_hand():
    """A map 1, .5, 0, 0 and an object on the first and third pixel: min 1 of max 1 + .5 + 1, and 1 of 1.5."""
    maps = torch.tensor([[[1.0, 0.5], [0.0, 0.0]]])
    object_pixels = torch.tensor([[[True, False], [True, False]]])
    assert autoxplain.soft_iou(maps, object_pixels).tolist() == pytest.approx([1 / 2.5])
    assert autoxplain.attention_inside(maps, object_pixels).tolist() == pytest.approx([1 / 1.5])
    assert autoxplain.soft_iou(object_pixels.float(), object_pixels).tolist() == [1.0]
    assert autoxplain.attention_inside(0 * maps, object_pixels).isnan().all()
    # the object has two of four pixels, so each map shows its two hottest
    object_pixels = torch.tensor([[[True, False], [True, False]]])
    maps = torch.tensor([[[0.9, 0.8], [0.1, 0.0]], [[0.2, 0.1], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.9]]])
    objects = object_pixels.expand(3, -1, -1)
    assert autoxplain.inside_at_equal_area(maps, objects).tolist() == pytest.approx([0.5, 1.0, 0.0])
    # three pixels tie for the second place, one of them on the object: a third of it counts
    tied = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    assert autoxplain.inside_at_equal_area(tied, object_pixels).tolist() == pytest.approx([(1 + 1 / 3) / 2])
    # a map with the same value everywhere has the object's share of the picture; no object, no answer
    assert autoxplain.inside_at_equal_area(0 * tied, object_pixels).tolist() == pytest.approx([0.5])
    assert autoxplain.inside_at_equal_area(tied, object_pixels & False).isnan().all()
