"""CGIM, CEM and CLM on cases worked out by hand, their bounds, invariances and chance levels."""

import itertools
from dataclasses import replace
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score

from xaihelpers.bottlenecks.fits import Fit
from xaihelpers.outputs import ConceptOutputs
from xaihelpers.scores import alignment


def outputs_of(values, predictions, weights):
    """ConceptOutputs of lists: values (N, L), predicted classes (N,), class weights (L, K)."""
    values, weights = torch.tensor(values, dtype=torch.float32), torch.tensor(weights, dtype=torch.float32)
    logits = F.one_hot(torch.tensor(predictions), weights.shape[1]).float()
    contributions = values * weights.T[torch.tensor(predictions)]
    names = [f"concept {j}" for j in range(len(weights))], [f"class {k}" for k in range(weights.shape[1])]
    return ConceptOutputs(values, contributions, weights, logits, *names)


# CGIM. Two concepts; images 0 and 1 of class 0 and image 3 of class 1 are predicted correctly; image 2, of
# class 0 and with huge values, is not.
VALUES, LABELS, PREDICTIONS = [[1, 2], [3, 0], [100, 100], [0, 4]], torch.tensor([0, 0, 0, 1]), [0, 0, 1, 1]
WEIGHTS, TRUTH = [[3, 0], [4, 5]], torch.tensor([[0.5, 0.5], [0, 1]])


def test_cgim_by_hand():
    outputs = outputs_of(VALUES, PREDICTIONS, WEIGHTS)
    assert alignment.mean_values(outputs, LABELS).tolist() == [[2, 0], [1, 4]]
    scores = alignment.cgim(outputs, LABELS, TRUTH)
    # Rows: θ (3 0), (4 5); Û* (2 0), (1 4); θ ⊙ Û* (6 0), (4 20); of V (½ ½), (0 1).
    by_concept = [[1 / sqrt(2), 5 / sqrt(41)], [1 / sqrt(2), 4 / sqrt(17)], [1 / sqrt(2), 5 / sqrt(26)]]
    # Columns: θ (3 4), (0 5); Û* (2 1), (0 4); θ ⊙ Û* (6 4), (0 20); of V (½ 0), (½ 1).
    by_class = [[3 / 5, 2 / sqrt(5)], [2 / sqrt(5), 2 / sqrt(5)], [3 / sqrt(13), 2 / sqrt(5)]]
    np.testing.assert_allclose(scores["concept"], by_concept)
    np.testing.assert_allclose(scores["class"], by_class)
    # zeros have no direction
    scores = alignment.cgim(outputs, LABELS, torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    for way in ("concept", "class"):
        assert scores[way].isnan().tolist() == [[True, False]] * 3


def test_what_is_left_out():
    """A third class, whose one image is taken for the first, counts in CGIM 1 alone.

    The others' CGIM 2 and 3 stay as they were.
    """
    outputs = outputs_of([*VALUES, [7, 7]], [*PREDICTIONS, 0], [[3, 0, 0], [4, 5, 3]])
    labels, truth = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([[0.5, 0.5, 1], [0, 1, 1]])
    assert alignment.mean_values(outputs, labels)[:, 2].isnan().all()
    scores = alignment.cgim(outputs, labels, truth)
    before = alignment.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, TRUTH)
    np.testing.assert_allclose(scores["concept"][0], [1 / sqrt(6), 0.8])
    np.testing.assert_allclose(scores["concept"][1:], before["concept"][1:])
    third = torch.tensor([[1 / sqrt(2)], [nan], [nan]])
    np.testing.assert_allclose(scores["class"], torch.cat([before["class"], third], 1))
    # a third concept without labels changes no cosine of the others; its own is NaN
    values = [[*row, 9] for row in VALUES]
    outputs = outputs_of(values, PREDICTIONS, [*WEIGHTS, [7, -7]])
    scores = alignment.cgim(outputs, LABELS, torch.cat([TRUTH, torch.full((1, 2), nan)]))
    before = alignment.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, TRUTH)
    np.testing.assert_allclose(scores["class"], before["class"])
    np.testing.assert_allclose(scores["concept"][:, :2], before["concept"])
    assert scores["concept"][:, 2].isnan().all()


def test_bad_input_is_named():
    outputs = replace(outputs_of(VALUES, PREDICTIONS, WEIGHTS), class_weights=None)
    with pytest.raises(ValueError, match="this model has none"):
        alignment.cgim(outputs, LABELS, TRUTH)
    with pytest.raises(ValueError, match=r"importance is \(2, 4\) and present \(2, 5\)"):
        alignment.concept_existence(torch.zeros(2, 4), torch.zeros(2, 5), 1)
    with pytest.raises(ValueError, match='"leave out" or "miss", not \'skip\''):
        alignment.concept_location(RANKS, (12, 12), 1, 1, hidden="skip")
    with pytest.raises(ValueError, match="alpha"):
        alignment.concept_location(RANKS, (12, 12), 13, 1)


def test_importance_by_hand():
    """Of the predicted class, right or wrong; the contrast is with the class of the second highest logit."""
    outputs = outputs_of(VALUES, PREDICTIONS, WEIGHTS)
    assert alignment.concept_importance(outputs, "value").tolist() == VALUES
    assert alignment.concept_importance(outputs, "weight").tolist() == [[3, 4], [3, 4], [0, 5], [0, 5]]
    assert alignment.concept_importance(outputs, "product").tolist() == [[3, 8], [9, 0], [0, 500], [0, 20]]
    # class 1 before class 0: θ_1 − θ_0 = (−3, 1), and û − ū = (−1, 3)
    contrast = alignment.concept_importance(outputs, "contrast", torch.tensor([1.0, 1.0]))
    assert contrast[3].tolist() == [3, 3]


def test_a_model_in_other_writings():
    """By hand; and that a concept without weights, or with one value in all images, keeps its scale."""
    outputs = replace(outputs_of([[1, 4]], [1], WEIGHTS), thresholds=torch.tensor([0.0, 3.0]))
    other = alignment.reparameterised(outputs, *torch.tensor([[1, 2], [10, -1], [2, 0.5]]))
    assert other.values.tolist() == [[0, 1]] and other.class_weights.tolist() == [[6.5, 5], [6, 8]]
    assert other.contributions.tolist() == [[0, 8]] and other.thresholds.tolist() == [-2, 0.5]
    outputs, centre = outputs_of([[1, 2], [1, 4]], [1, 0], [[3, 1], [0, 0]]), torch.full((2,), 0.7)
    fit = Fit(outputs, torch.zeros(2, 2), centre, None)
    found = alignment.writings(fit)
    (before,) = alignment.View([fit]).importance("contrast")
    for other in found.values():
        assert other.outputs.values.abs().max() < 10
        (contrast,) = alignment.View([other]).importance("contrast")
        torch.testing.assert_close(contrast, before, atol=1e-5, rtol=1e-4)
    # contributions do not need a linear head
    headless = fit._replace(outputs=replace(outputs, class_weights=None))
    assert len(found) == 8 and list(alignment.writings(headless)) == ["as fitted"]
    assert alignment.bases_of(headless.outputs) == ("value", "product")


def test_readings_by_hand():
    """Contributions −3, 2 and 1; the third concept is absent, by its value, and argues by that."""
    outputs = outputs_of([[1, 2, -1]], [0], [[-3, 0], [1, 0], [-1, 0]])
    fit = Fit(outputs, torch.zeros(1, 3), torch.tensor([2.0, 0.0, 0.0]), None)
    written, readings = alignment.views([fit], {"raw values": [fit]})
    assert list(readings) == ["by presence alone", "by size", "another head: raw values"]
    asked = {name: view.importance("product")[0][0].tolist() for name, view in readings.items()}
    assert asked["by presence alone"] == [-3, 2, -inf] and asked["by size"] == [3, 2, 1]
    assert asked["another head: raw values"] == written["as fitted"].importance("product")[0][0].tolist()
    # of the contrast presence is to lie above the mean value
    assert readings["by presence alone"].importance("contrast")[0][0].tolist() == [-inf, 2, -inf]


def test_a_region_by_threshold():
    """A map from 0 to 10 over the width: at x = 2 of 4 pixels it reaches 2/3 of its range."""
    maps = torch.tensor([[[[0.0, 10 / 3, 20 / 3, 10]] * 4]])  # (1, 1, 4, 4)
    at = torch.tensor([[[[2.5, 1.0], [nan, nan]]]])
    assert alignment.reached(maps, at, (4, 4), 0.6).item() == 1
    assert alignment.reached(maps, at, (4, 4), 0.7).item() == 0
    assert alignment.reached(maps, torch.full_like(at, nan), (4, 4), 0.6).isnan().all()
    near = alignment.near_points(at, (4, 4), (4, 4))[0, 0]
    assert near.flatten().argmax() in (2, 6)  # the cells above and below the point


def test_concept_existence_by_hand():
    scores = torch.tensor([[1.0, 3.0, 3.0, -5.0, 1.0]])  # signed; equal ones in concept order
    assert alignment.top_concepts(scores, 5).tolist() == [[1, 2, 0, 4, 3]]
    eligible = torch.tensor([True, False, True, True, False])
    assert alignment.top_concepts(scores, 3, eligible).tolist() == [[2, 0, 3]]
    with pytest.raises(ValueError, match="cannot take the first 4 of 3 concepts"):
        alignment.top_concepts(scores, 4, eligible)
    scores = torch.tensor([[0.1, 0.9, 0.5, -2.0], [4.0, 3.0, 2.0, 1.0]])
    present = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 1]])
    # concept 1 is there; concept 0 is not
    assert alignment.concept_existence(scores, present, 1).tolist() == [1, 0]
    # 1, 2, 0: there, not, there
    np.testing.assert_allclose(alignment.concept_existence(scores, present.bool(), 3), [2 / 3, 0])
    untold = torch.tensor([[1, nan, 0, 1], [0, 0, 0, 1]])
    found = alignment.concept_existence(scores, untold, 3)  # 1, 2, 0: nobody knows, not, there
    np.testing.assert_allclose(found, [1 / 2, 0])
    assert alignment.concept_existence(scores, untold, 1).isnan().tolist() == [True, False]


def test_points_and_their_ranks_by_hand():
    """A 2 x 2 map on an image of as many pixels, 4 left above and 1 right below; of two sides the better."""
    small = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]]])
    hidden = (nan, nan)
    for sides, rank in (
        (((1, 0), hidden), 1),
        (((1, 1), (0, 0)), 0),
        (((1, 1), (0, 1)), 2),
        ((hidden, (0, 0)), 0),
        ((hidden, hidden), 4),
    ):
        points = torch.tensor([[sides]], dtype=torch.float32)  # (1, 1, 2, 2)
        assert alignment.location_ranks(small, points, (2, 2)).item() == rank
    points = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [nan, nan]]])
    placed = alignment.concept_points(points, [(1, 2), (), (0,)])
    np.testing.assert_array_equal(placed, [[[[3, 4], hidden], [hidden] * 2, [[1, 2], hidden]]])


# of 144 pixels, twelve to one alpha; 144: hidden
RANKS = torch.tensor([[0, 11, 12, 143], [2, 144, 5, 40], [144, 144, 144, 0]])


def test_concept_location_by_hand():
    def location(alpha, first, hidden="leave out"):
        return alignment.concept_location(RANKS, (12, 12), alpha, first, hidden).tolist()

    *seen, unseen = location(1, 2)
    assert seen == [1, 1] and isnan(unseen)
    assert location(1, 4) == pytest.approx([1 / 2, 2 / 3, 1])  # rank 12 is just outside
    assert location(3, 4) == pytest.approx([3 / 4, 2 / 3, 1])
    assert location(1, 4, hidden="miss") == [0.5, 0.5, 0.25]
    assert location(12, 3, hidden="miss") == pytest.approx([1, 2 / 3, 0])  # hidden is never a hit
    # ⌊224·224/12⌋ = 4181
    assert alignment.concept_location(torch.tensor([[4181, 4180]]), (224, 224), 1, 2).tolist() == [0.5]


def test_overlap_of_regions_by_hand():
    regions = torch.zeros(5, 12, 12, dtype=torch.bool)
    regions[:, :3] = True
    masks = torch.zeros_like(regions)
    masks[0, :3] = masks[1, 3:] = masks[2, :6] = masks[3, 2, :9] = True
    overlap = alignment.region_iou(regions, masks)
    assert overlap.tolist()[:4] == [1, 0, 0.5, 0.25] and isnan(overlap[4])


def test_areas_under_the_curve_are_sklearn_s_and_within_groups_count_pairs_of_one_group_alone():
    rng = np.random.default_rng(0)
    values, groups = rng.normal(size=(60, 3)).round(1), rng.integers(0, 4, 60)
    present = (values + rng.normal(size=(60, 3)) > 0).astype(float)
    present[:, 2] = 1  # no pair
    arrays = torch.from_numpy(values), torch.from_numpy(present)
    whole = alignment.concept_aucs(*arrays)
    expected = [roc_auc_score(present[:, j], values[:, j]) for j in range(2)]
    assert whole[:2].tolist() == pytest.approx(expected) and whole[2].isnan()
    within = alignment.concept_aucs(*arrays, torch.from_numpy(groups))
    higher, pairs = 0.0, 0
    for i, k in itertools.product(range(60), range(60)):
        if groups[i] == groups[k] and present[i, 0] > present[k, 0]:
            higher += (values[i, 0] > values[k, 0]) + 0.5 * (values[i, 0] == values[k, 0])
            pairs += 1
    assert within[0].item() == pytest.approx(higher / pairs)
