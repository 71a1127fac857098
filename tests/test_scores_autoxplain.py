"""The scores of attention: matrix, overlap, AUC and correlation, by hand and with groups."""

import numpy as np
import pytest
import torch

from xaihelpers.scores.autoxplain import (
    attention_inside,
    attention_matrix,
    bootstrap_rows,
    pearson,
    roc_auc,
    soft_iou,
)


def test_four_cells_by_hand():
    correct = [True, True, False, False, True, True]
    table = attention_matrix(correct, [2.5, 2.0, 5, 0, np.nan, 4]).set_index("metric")
    assert table.value.round(6).to_dict() == {"CH": 40, "CL": 20, "WH": 20, "WL": 20, "Avg": 2.7}
    assert (table.cases == 5).all()
    lower = attention_matrix([True, False], [1, 1], threshold=1).set_index("metric")
    assert lower.value.to_dict() == {"CH": 50, "CL": 0, "WH": 50, "WL": 0, "Avg": 1}
    assert attention_matrix([True], [np.nan]).cases.tolist() == [0] * 5


def test_pearson_with_its_interval():
    correlation = pearson([1, 2, 3, 4, np.nan], [1, 3, 2, 4, 9])
    assert correlation.cases == 4 and correlation.value == pytest.approx(0.8)
    assert correlation.low < 0.8 < correlation.high <= 1
    assert np.isnan(pearson([1, 1, 1, 1], [1, 2, 3, 4]).value)  # constant
    assert np.isnan(pearson([1, 2, 3], [1, 2, 3]).value)  # too few


def test_the_interval_over_groups_is_wider():
    rng = np.random.default_rng(0)
    image = np.repeat(np.arange(30), 4)
    x = rng.normal(size=30)[image] + 0.3 * rng.normal(size=120)
    y = rng.normal(size=30)[image] + 0.3 * rng.normal(size=120)
    alone, grouped = pearson(x, y), pearson(x, y, image)
    assert alone.value == grouped.value and grouped.high - grouped.low > 1.5 * (alone.high - alone.low)
    for rows in bootstrap_rows(image, 5):
        assert len(rows) == 120 and len(set(np.bincount(image[rows], minlength=30) % 4)) == 1


def test_overlap_and_share_by_hand():
    """A map 1, .5, 0, 0 and an object on the first and third pixel: min 1 of max 1 + .5 + 1, and 1 of 1.5."""
    maps = torch.tensor([[[1.0, 0.5], [0.0, 0.0]]])
    object_pixels = torch.tensor([[[True, False], [True, False]]])
    assert soft_iou(maps, object_pixels).tolist() == pytest.approx([1 / 2.5])
    assert attention_inside(maps, object_pixels).tolist() == pytest.approx([1 / 1.5])
    assert soft_iou(object_pixels.float(), object_pixels).tolist() == [1.0]
    assert attention_inside(0 * maps, object_pixels).isnan().all()


def test_roc_auc_and_its_interval():
    biased = np.arange(20) % 2 == 1
    assert roc_auc(biased, biased * 1.0)[:3] == (1.0, 1.0, 1.0)
    assert roc_auc(biased, -1.0 * biased).value == 0.0
    area = roc_auc(biased, np.r_[np.nan, np.random.default_rng(0).normal(size=19)])
    assert area.low < area.value < area.high and area.cases == 19
    assert np.isnan(roc_auc(np.ones(4, bool), np.arange(4)).value)


def test_models_whose_images_are_alike_widen_the_matrix():
    """Ten models, each with ten images of one score: the interval is that of ten cases, not of a hundred."""
    score, model = np.repeat([4.0, 1.0] * 5, 10), np.repeat(np.arange(10), 10)
    correct = np.ones(100, bool)
    alone = attention_matrix(correct, score).set_index("metric")
    grouped = attention_matrix(correct, score, groups=model).set_index("metric")
    assert (alone.value == grouped.value).all()
    assert (grouped.high - grouped.low)["Avg"] > 2 * (alone.high - alone.low)["Avg"]
