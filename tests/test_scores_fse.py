"""CRI on cases worked out by hand, and the paper's names."""

import numpy as np
import pandas as pd
import pytest

from xaihelpers.scores import interval
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

    def test_no_answers(self):
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
