import numpy as np
import pytest
import torch
from torch import nn

from xaihelpers.scores.autoxplain import attention_inside, attention_matrix, overlap, pearson, perturb, resampled, roc_auc


class Bright(nn.Module):
    """Two classes; the second one's logit is the sum of the left column of red."""

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), x[:, 0, :, 0].sum(1)], 1)


class Pixels(nn.Module):
    """A segmenter: class 1 where red is positive."""

    def forward(self, x):
        return {"out": torch.stack([torch.zeros_like(x[:, 0]), x[:, 0]], 1)}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_deletion_by_hand():
    image = torch.zeros(1, 3, 2, 2)
    image[:, 0, :, 0] = torch.tensor([3.0, 1.0])
    maps = torch.tensor([[[1.0, 0.1], [0.5, 0.0]]])  # in the order 3, 1, then nothing of note
    found = perturb(Bright(), image, maps, torch.tensor([1]), steps=4)
    p = sigmoid(np.array([4.0, 1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(found.deletion[0], p, rtol=1e-5)
    np.testing.assert_allclose(found.aopc, [np.mean(p[0] - p)], rtol=1e-4)
    np.testing.assert_allclose(found.deletion_auc, [np.sum((p[1:] + p[:-1]) / 2) / 4], rtol=1e-5)
    seen = sigmoid(3.0 * 1.0 + 1.0 * 0.5)
    np.testing.assert_allclose(found.seen, [seen], rtol=1e-5)
    np.testing.assert_allclose(found.average_drop, [(p[0] - seen) / p[0]], rtol=1e-4)
    assert found.insertion.shape == (1, 5) and found.insertion[0, -1] == found.deletion[0, 0]


def test_insertion_begins_blurred_and_ends_whole():
    images = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    maps = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(1))
    one = perturb(Bright(), images, maps, torch.tensor([0, 1, 1]), steps=5, batch_size=4)
    again = [perturb(Bright(), images[[i]], maps[[i]], torch.tensor([k]), steps=5) for i, k in enumerate((0, 1, 1))]
    for field in ("deletion", "insertion", "seen"):
        torch.testing.assert_close(getattr(one, field), torch.cat([getattr(part, field) for part in again]))  # whatever else is in the batch


def test_a_segmenter_is_asked_about_the_pixels_it_had():
    image = torch.full((1, 3, 4, 4), -1.0)
    image[:, 0, :2] = 2.0
    found = perturb(Pixels(), image, torch.ones(1, 1, 1), torch.tensor([1]), steps=2)  # one value: row-major order, the upper half first
    np.testing.assert_allclose(found.deletion[0], [sigmoid(2.0), 0.5, 0.5], rtol=1e-5)


def test_a_good_map_beats_its_reverse():
    image = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    good = torch.zeros(4, 8, 8)
    good[:, :, 0] = 1
    best, worst = (perturb(Bright(), image, maps, torch.ones(4), steps=8) for maps in (good, 1 - good))
    assert (best.deletion_auc < worst.deletion_auc).all() and (best.aopc > worst.aopc).all() and (best.average_drop < worst.average_drop).all()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="2 images need as many maps and classes, got 1 and 2"):
        perturb(Bright(), torch.zeros(2, 3, 4, 4), torch.zeros(1, 2, 2), torch.zeros(2))


def test_four_cells_by_hand():
    table = attention_matrix([True, True, False, False, True, True], [2.5, 2.0, 5, 0, np.nan, 4]).set_index("metric")
    assert table.value.round(6).to_dict() == {"CH": 40, "CL": 20, "WH": 20, "WL": 20, "Avg": 2.7} and (table.cases == 5).all()
    assert attention_matrix([True, False], [1, 1], threshold=1).set_index("metric").value.to_dict() == {"CH": 50, "CL": 0, "WH": 50, "WL": 0, "Avg": 1}
    assert attention_matrix([True], [np.nan]).cases.tolist() == [0] * 5


def test_pearson_with_its_interval():
    found = pearson([1, 2, 3, 4, np.nan], [1, 3, 2, 4, 9])
    assert found.cases == 4 and found.value == pytest.approx(0.8) and found.low < 0.8 < found.high <= 1
    assert np.isnan(pearson([1, 1, 1, 1], [1, 2, 3, 4]).value) and np.isnan(pearson([1, 2, 3], [1, 2, 3]).value)


def test_the_interval_over_groups_is_wider():
    rng = np.random.default_rng(0)
    image = np.repeat(np.arange(30), 4)
    x, y = rng.normal(size=30)[image] + 0.3 * rng.normal(size=120), rng.normal(size=30)[image] + 0.3 * rng.normal(size=120)
    alone, grouped = pearson(x, y), pearson(x, y, image)
    assert alone.value == grouped.value and grouped.high - grouped.low > 1.5 * (alone.high - alone.low)
    assert all(len(rows) == 120 and len(set(np.bincount(image[rows], minlength=30) % 4)) == 1 for rows in resampled(image, 5))


def test_overlap_and_share_by_hand():
    """Of a map 1, .5, 0, 0 and an object on the first and third pixel: min 1 of max 1 + .5 + 1, and 1 of 1.5."""
    maps, there = torch.tensor([[[1.0, 0.5], [0.0, 0.0]]]), torch.tensor([[[True, False], [True, False]]])
    assert overlap(maps, there).tolist() == pytest.approx([1 / 2.5]) and attention_inside(maps, there).tolist() == pytest.approx([1 / 1.5])
    assert overlap(there.float(), there).tolist() == [1.0] and attention_inside(0 * maps, there).isnan().all()


def test_roc_auc_and_its_interval():
    biased = np.arange(20) % 2 == 1
    assert roc_auc(biased, biased * 1.0)[:3] == (1.0, 1.0, 1.0) and roc_auc(biased, -1.0 * biased).value == 0.0
    found = roc_auc(biased, np.r_[np.nan, np.random.default_rng(0).normal(size=19)])
    assert found.low < found.value < found.high and found.cases == 19
    assert np.isnan(roc_auc(np.ones(4, bool), np.arange(4)).value)


def test_models_whose_images_are_alike_widen_the_matrix():
    """Ten models, each with ten images of one score: the interval is that of ten cases, not of a hundred."""
    score, model = np.repeat([4.0, 1.0] * 5, 10), np.repeat(np.arange(10), 10)
    alone, grouped = (attention_matrix(np.ones(100, bool), score, groups=of).set_index("metric") for of in (None, model))
    assert (alone.value == grouped.value).all() and (grouped.high - grouped.low)["Avg"] > 2 * (alone.high - alone.low)["Avg"]
