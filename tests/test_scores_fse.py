"""CRI, the attention matrix and overlaps on cases worked out by hand, and the paper's names."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.scores import autoxplain, interval
from xaihelpers.scores.fse import cri_table, measured, mode_in_sets, over_cases, paper_names, right_by_case
from xaihelpers.scores.intervals import deviation


def answers(correct, **columns):
    """Answers about one image each, of one class each, unless other columns are given."""
    about = {"model": "m", "data": "d", "seed": 0, "failure": "", "invalid": False, "mode": "slow"}
    about |= {"centre": range(len(correct)), "label": range(len(correct)), "row": range(len(correct))}
    return pd.DataFrame({"correct": np.array(correct, bool)} | about | columns)


def test_worked_by_hand():
    row = cri_table(answers([1, 0, 0, 0], invalid=[False, True, False, True]), ["mode"]).iloc[0]
    assert (row["mode"], row.value, row.invalid, row.cases) == ("slow", 25.0, 50.0, 4)
    assert row.low <= 25 <= row.high
    # answers that could not be had are left out
    row = cri_table(answers([1, 0, 0, 0], failure=["", "", "failed", "failed"]), ["mode"]).iloc[0]
    assert (row.value, row.cases, row.failed) == (50, 2, 50)
    row = cri_table(answers([0, 0], failure="failed"), ["mode"]).iloc[0]
    assert np.isnan(row.value) and (row.cases, row.failed) == (0, 100)
    assert len(cri_table(answers([]), ["mode"])) == 0


def test_a_case_asked_in_turns_counts_once_by_those_that_came():
    failure = ["", "", "failed", "failed", "failed"]
    turns = answers([1, 0, 0, 0, 1], row=[7, 7, 7, 9, 9], centre=0, label=0, failure=failure)
    assert right_by_case(turns).droplevel([0, 1, 2, 3, 5]).to_dict() == {7: 50}


def test_cases_of_one_set_and_of_one_class_hang_together():
    """Three sets of four cases, all right or all wrong: three things are known, not twelve."""
    groups = np.repeat([0, 1, 2], 4)
    values = right_by_case(answers(groups > 0, centre=groups, label=groups))
    assert over_cases(values)[:3] == interval(values, clusters=groups, bounds=(0, 100))[:3]
    apart = over_cases(right_by_case(answers(groups > 0)))
    assert over_cases(values).high - over_cases(values).low > apart.high - apart.low


def test_the_same_answers_differ_by_nothing_and_narrowly():
    """A model that ignores its words: 300 pairs of five classes, none of which differs."""
    groups = np.repeat(range(5), 60)
    same = right_by_case(answers(groups > 1, centre=groups, label=groups))
    nothing = over_cases(same - same, (-100, 100))
    assert nothing.value == 0 and -2 < nothing.low < 0 < nothing.high < 2
    assert over_cases(same * 0).high > 50  # of a share of zeros five classes tell little


def test_a_difference_of_modes_and_its_readings():
    """Three of four right by words and two by the picture; no case in balanced sets; other data left out."""
    slow, fast = answers([1, 1, 1, 0], given="words"), answers([1, 0, 0, 1], given="picture")
    both = pd.concat([slow, fast]).assign(sets="class")
    both = pd.concat([both, both.assign(data="other", correct=True)])
    modes = {"given": "words"}, {"given": "picture"}
    found = mode_in_sets(both, ["class", "balanced"], ["d"], *modes)
    assert found["candidate sets: class"].tolist() == [0, 100, 100, -100]
    first, readings = measured(found)
    assert (first.value, first.cases) == (25, 4) and readings == {"candidate sets: balanced": None}
    level, _ = measured(mode_in_sets(both, ["class"], ["d"], modes[0]), (0, 100))
    assert level.value == 75


def test_the_spread_of_runs():
    """Two columns, of variance 1 and 0; with three runs it may be half as large or six times."""
    found = deviation(pd.DataFrame({"t = 1": [1.0, 2.0, 3.0], "t = 2": [5.0, 5.0, 5.0]}))
    assert found.value == pytest.approx(0.5**0.5)
    assert found.low / found.value == pytest.approx(0.52, abs=0.01)
    assert found.high / found.value == pytest.approx(6.28, abs=0.01)


def test_whose_names_are_the_papers():
    assert paper_names("server:gpt-4o", "CUB_200_2011") == ("GPT-4o", "CUB-Bird")
    assert paper_names("Qwen/Qwen2-VL-7B-Instruct", "/where/flowers102") == ("QwenVL2-7b", "Flower")
    assert paper_names("annotator", "/where/my_birds") == ("annotator", "my_birds")
    # somebody's model of the same last name is not the paper's
    assert paper_names("openai/gpt-4o", "")[0] == paper_names("gpt-4o", "")[0] == "GPT-4o"
    assert paper_names("somebody/gpt-4o", "")[0] == "somebody/gpt-4o"
    assert paper_names("/models/qwen2-vl-7b-instruct", "")[0] == "QwenVL2-7b"


def test_four_cells_by_hand():
    correct = [True, True, False, False, True, True]
    table = autoxplain.attention_matrix(correct, [2.5, 2.0, 5, 0, np.nan, 4]).set_index("metric")
    assert table.value.round(6).to_dict() == {"CH": 40, "CL": 20, "WH": 20, "WL": 20, "Avg": 2.7}
    assert (table.cases == 5).all()
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
