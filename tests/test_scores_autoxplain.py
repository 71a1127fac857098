"""The scores of attention: matrix and overlap, by hand and with clusters."""

import numpy as np
import pytest
import torch

from xaihelpers.scores import autoxplain


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


def test_models_whose_images_are_alike_widen_the_matrix():
    """Ten models, each with ten images of one score: the interval is that of ten cases, not of a hundred."""
    score, model = np.repeat([4.0, 1.0] * 5, 10), np.repeat(np.arange(10), 10)
    correct = np.ones(100, bool)
    alone = autoxplain.attention_matrix(correct, score).set_index("metric")
    grouped = autoxplain.attention_matrix(correct, score, clusters=model).set_index("metric")
    assert (alone.value == grouped.value).all()
    assert (grouped.high - grouped.low)["Avg"] > 2 * (alone.high - alone.low)["Avg"]
