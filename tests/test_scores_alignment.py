"""CGIM, CEM and CLM on cases worked out by hand, their bounds and invariances, their chance levels, and the intervals."""
from dataclasses import replace
from math import isnan, nan, sqrt

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from xaihelpers.bottlenecks import ConceptOutputs
from xaihelpers.scores import alignment as S
from xaihelpers.scores import mean_interval


def outputs_of(values, predictions, weights):
    """ConceptOutputs of lists: values (N, L), predicted classes (N,), class weights (L, K)."""
    values, weights = torch.tensor(values, dtype=torch.float32), torch.tensor(weights, dtype=torch.float32)
    logits = F.one_hot(torch.tensor(predictions), weights.shape[1]).float()
    return ConceptOutputs(values, values * weights.T[torch.tensor(predictions)], weights, logits, [f"concept {j}" for j in range(len(weights))],
                          [f"class {k}" for k in range(weights.shape[1])])


# CGIM. Two concepts; images 0 and 1 of class 0 and image 3 of class 1 are predicted correctly, image 2, of class 0 and with huge values, is not.
VALUES, LABELS, PREDICTIONS = [[1, 2], [3, 0], [100, 100], [0, 4]], torch.tensor([0, 0, 0, 1]), [0, 0, 1, 1]
WEIGHTS, TRUTH = [[3, 0], [4, 5]], torch.tensor([[0.5, 0.5], [0, 1]])


def test_mean_values_by_hand():
    assert S.mean_values(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS).tolist() == [[2, 0], [1, 4]]


def test_cgim_by_hand():
    scores = S.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, TRUTH)
    # Rows: θ (3 0), (4 5); Û* (2 0), (1 4); θ ⊙ Û* (6 0), (4 20); of V (½ ½), (0 1).
    by_concept = [[1 / sqrt(2), 5 / sqrt(41)], [1 / sqrt(2), 4 / sqrt(17)], [1 / sqrt(2), 5 / sqrt(26)]]
    # Columns: θ (3 4), (0 5); Û* (2 1), (0 4); θ ⊙ Û* (6 4), (0 20); of V (½ 0), (½ 1).
    by_class = [[3 / 5, 2 / sqrt(5)], [2 / sqrt(5), 2 / sqrt(5)], [3 / sqrt(13), 2 / sqrt(5)]]
    np.testing.assert_allclose(scores["concept"], by_concept)
    np.testing.assert_allclose(scores["class"], by_class)


def test_class_without_a_correct_image_is_left_out():
    """A third class, whose one image is taken for the first, counts in CGIM 1 and leaves the others' CGIM 2 and 3 as they were."""
    outputs = outputs_of([*VALUES, [7, 7]], [*PREDICTIONS, 0], [[3, 0, 0], [4, 5, 3]])
    labels, truth = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([[0.5, 0.5, 1], [0, 1, 1]])
    assert S.mean_values(outputs, labels)[:, 2].isnan().all()
    scores, before = S.cgim(outputs, labels, truth), S.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, TRUTH)
    np.testing.assert_allclose(scores["concept"][0], [1 / sqrt(6), 0.8])
    np.testing.assert_allclose(scores["concept"][1:], before["concept"][1:])
    np.testing.assert_allclose(scores["class"], torch.cat([before["class"], torch.tensor([[1 / sqrt(2)], [nan], [nan]])], 1))


def test_zeros_have_no_direction():
    truth = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    scores = S.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, truth)
    assert scores["concept"].isnan().tolist() == [[True, False]] * 3 and scores["class"].isnan().tolist() == [[True, False]] * 3


def random_outputs(seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    values, weights = scale * torch.randn(30, 5, generator=generator), torch.randn(5, 4, generator=generator)
    logits = values @ weights
    outputs = ConceptOutputs(values, values * weights.T[logits.argmax(1)], weights, logits, list("vwxyz"), list("abcd"))
    return outputs, torch.where(torch.rand(30, generator=generator) < 0.7, logits.argmax(1), 0), torch.rand(5, 4, generator=generator)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_cgim_is_a_cosine(seed, scale):
    """In [-1, 1], whatever the scales of the values and of V; 1 where V is the importance itself; turned round with the sign of V or θ."""
    outputs, labels, truth = random_outputs(seed)
    scores = S.cgim(outputs, labels, truth)
    scaled = S.cgim(random_outputs(seed, scale)[0], labels, scale * truth)
    turned = S.cgim(replace(outputs, class_weights=-outputs.class_weights), labels, truth)
    for way, shape in (("concept", (3, 5)), ("class", (3, 4))):
        assert scores[way].shape == shape and (scores[way].abs() <= 1 + 1e-9).logical_or(scores[way].isnan()).all()
        torch.testing.assert_close(scaled[way], scores[way], equal_nan=True, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(S.cgim(outputs, labels, -truth)[way], -scores[way], equal_nan=True)
        torch.testing.assert_close(turned[way] * torch.tensor([[-1], [1], [-1]]), scores[way], equal_nan=True)  # θ, Û*, θ ⊙ Û*
        torch.testing.assert_close(S.cgim(outputs, labels, outputs.class_weights)[way][0], torch.ones(shape[1], dtype=torch.float64))


def test_cgim_of_bad_input():
    outputs = outputs_of(VALUES, PREDICTIONS, [[3, 0, 1], [4, 5, 1]])
    with pytest.raises(ValueError, match=r"truth is \(3, 2\), but there are 2 concepts and 3 classes"):
        S.cgim(outputs, LABELS, torch.zeros(3, 2))
    outputs.class_weights = None
    with pytest.raises(ValueError, match="this model has none"):
        S.cgim(outputs, LABELS, torch.zeros(2, 3))


# Importance and ranking

def test_importance_by_hand():
    outputs = outputs_of(VALUES, PREDICTIONS, WEIGHTS)
    assert S.importance(outputs, "value").tolist() == VALUES
    assert S.importance(outputs, "weight").tolist() == [[3, 4], [3, 4], [0, 5], [0, 5]]  # of the predicted class, right or wrong
    assert S.importance(outputs, "product").tolist() == [[3, 8], [9, 0], [0, 500], [0, 20]]
    with pytest.raises(ValueError, match="one of weight, value, product, not 'theta'"):
        S.importance(outputs, "theta")
    outputs.class_weights = None
    assert S.importance(outputs, "product").tolist()[0] == [3, 8]  # contributions do not need a linear head
    with pytest.raises(ValueError, match='"weight" needs'):
        S.importance(outputs, "weight")


def test_top_concepts():
    scores = torch.tensor([[1.0, 3.0, 3.0, -5.0, 1.0], [-1.0, -4.0, -2.0, -3.0, -9.0]])
    assert S.top_concepts(scores, 5).tolist() == [[1, 2, 0, 4, 3], [0, 2, 3, 1, 4]]  # signed; equal ones in concept order
    assert S.top_concepts(scores, 2).tolist() == [[1, 2], [0, 2]]
    assert S.top_concepts(torch.zeros(1, 300), 300).tolist() == [list(range(300))]
    among = torch.tensor([True, False, True, True, False])
    assert S.top_concepts(scores, 3, among).tolist() == [[2, 0, 3], [0, 2, 3]]
    for l, passed in ((0, None), (6, None), (4, among)):
        with pytest.raises(ValueError, match=f"cannot take the first {l} of {5 if passed is None else 3} concepts"):
            S.top_concepts(scores, l, passed)


# CEM

def test_concept_existence_by_hand():
    scores = torch.tensor([[0.1, 0.9, 0.5, -2.0], [4.0, 3.0, 2.0, 1.0]])
    present = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 1]])
    assert S.concept_existence(scores, present, 1).tolist() == [1, 0]  # concept 1 is there; concept 0 is not
    np.testing.assert_allclose(S.concept_existence(scores, present, 3), [2 / 3, 0])  # 1, 2, 0: there, not, there
    assert S.concept_existence(scores, present, 4).tolist() == [0.75, 0.25]
    assert S.concept_existence(scores, present.bool(), 4).tolist() == [0.75, 0.25]


@pytest.mark.parametrize("shape", [(2, 5), (3, 4), (1, 4)])
def test_concept_existence_wants_labels_of_its_concepts(shape):
    with pytest.raises(ValueError, match=r"scores are \(2, 4\) and labels"):
        S.concept_existence(torch.zeros(2, 4), torch.zeros(shape), 1)


def test_chance_of_concept_existence():
    generator = torch.Generator().manual_seed(0)
    present = torch.rand(4000, 20, generator=generator) < 0.3
    for l in (1, 3, 5):
        found = S.concept_existence(torch.rand(4000, 20, generator=generator), present, l).mean()
        assert found.item() == pytest.approx(present.float().mean().item(), abs=4 * sqrt(0.21 / 4000 / l))


# CLM

def test_concept_points():
    points = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [nan, nan]], [[5.0, 6.0], [nan, nan], [7.0, 8.0]]])
    found = S.concept_points(points, [(1, 2), (), (0,)])
    assert found.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(found[0], [[[3, 4], [nan, nan]], [[nan, nan]] * 2, [[1, 2], [nan, nan]]])
    np.testing.assert_array_equal(found[1], [[[nan, nan], [7, 8]], [[nan, nan]] * 2, [[5, 6], [nan, nan]]])


def both(point, other=(nan, nan)):
    return torch.tensor([[[point, other]]], dtype=torch.float32)  # (1, 1, 2, 2)


def test_ranks_by_hand():
    """A 2 x 2 map on a 2 x 2 image, and on one of 4 x 4, where each corner repeats its cell and 4 lies left above, 1 right below."""
    small = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]]])
    assert [S.location_ranks(small, both(p), (2, 2)).item() for p in ((0, 0), (1, 0), (0, 1), (1, 1))] == [0, 1, 2, 3]
    # Half-pixel centres: the rows are 4 3.75 3.25 3, then 3.5 …, 2.5 …, 2 1.75 1.25 1.
    assert [S.location_ranks(small, both(p), (4, 4)).item() for p in ((0, 0), (1, 0), (0, 1), (3, 3))] == [0, 1, 2, 15]
    assert [S.location_ranks(small, both(p), (4, 4)).item() for p in ((2, 0), (1, 1), (3, 0))] == [3, 4, 5]  # 3.25 twice, then 3
    assert S.location_ranks(small, both((nan, nan)), (4, 4)).item() == 16
    hit = S.concept_location(S.location_ranks(small, both((1, 0)), (2, 2)), (2, 2), 6, 1)
    miss = S.concept_location(S.location_ranks(small, both((1, 0)), (2, 2)), (2, 2), 3, 1)
    assert (hit.item(), miss.item()) == (1, 0)  # among 2 pixels, not among 1


def test_either_side_hits():
    small = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]]])
    for sides in (((1, 1), (0, 0)), ((0, 0), (1, 1)), ((0, 0), (nan, nan)), ((nan, nan), (0, 0))):
        assert S.location_ranks(small, both(*sides), (2, 2)).item() == 0
    assert S.location_ranks(small, both((1, 1), (0, 1)), (2, 2)).item() == 2


def test_ranks_are_those_of_upsample_and_sort():
    generator = torch.Generator().manual_seed(3)
    size, maps = (37, 50), torch.randn(20, 3, 7, 7, generator=generator)
    points = torch.rand(20, 3, 2, 2, generator=generator) * torch.tensor([size[1], size[0]])
    points[torch.rand(20, 3, 2, generator=generator) < 0.3] = nan
    ranks, upsampled = S.location_ranks(maps, points, size), F.interpolate(maps.double(), size, mode="bilinear", align_corners=False)
    exact = 0
    for n in range(20):
        for j in range(3):
            seen = [upsampled[n, j, int(y), int(x)] for x, y in points[n, j] if not x.isnan()]
            if seen:
                above, as_high = (upsampled[n, j] > max(seen) + 1e-9).sum(), (upsampled[n, j] >= max(seen) - 1e-9).sum()
                assert above <= ranks[n, j] < as_high  # the border has equal pixels
                exact += above + 1 == as_high
            else:
                assert ranks[n, j] == size[0] * size[1]
    assert exact > 25 and (ranks == size[0] * size[1]).sum() >= 2


RANKS = torch.tensor([[0, 11, 12, 143], [2, 144, 5, 40], [144, 144, 144, 0]])  # of 144 pixels, twelve to one alpha; 144: hidden


def test_concept_location_by_hand():
    by = {(alpha, l): S.concept_location(RANKS, (12, 12), alpha, l).tolist() for alpha in (1, 3) for l in (1, 2, 4)}
    assert by[1, 1][:2] == [1, 1] and isnan(by[1, 1][2])
    assert by[1, 2][:2] == [1, 1] and isnan(by[1, 2][2])
    assert by[1, 4] == pytest.approx([1 / 2, 2 / 3, 1])  # rank 12 is just outside
    assert by[3, 4] == pytest.approx([3 / 4, 2 / 3, 1])
    misses = S.concept_location(RANKS, (12, 12), 1, 4, hidden="miss").tolist()
    assert misses == [0.5, 0.5, 0.25]
    assert S.concept_location(RANKS, (12, 12), 12, 3, hidden="miss").tolist() == pytest.approx([1, 2 / 3, 0])  # hidden is never a hit
    assert S.concept_location(torch.tensor([[4181, 4180]]), (224, 224), 1, 2).tolist() == [0.5]  # ⌊224·224/12⌋ = 4181


def test_concept_location_of_bad_input():
    with pytest.raises(ValueError, match='"leave out" or "miss", not \'skip\''):
        S.concept_location(RANKS, (12, 12), 1, 1, hidden="skip")
    for l in (0, 5):
        with pytest.raises(ValueError, match=f"the first {l} of 4"):
            S.concept_location(RANKS, (12, 12), 1, l)
    for alpha in (-1, 13, nan):
        with pytest.raises(ValueError, match="alpha"):
            S.concept_location(RANKS, (12, 12), alpha, 1)


@given(st.lists(st.lists(st.integers(0, 144), min_size=3, max_size=3), min_size=1, max_size=6), st.floats(0, 12), st.floats(0, 12), st.integers(1, 3),
       st.sampled_from(["leave out", "miss"]))
def test_larger_alpha_never_loses_a_hit(ranks, one, other, l, hidden):
    small, large = (S.concept_location(torch.tensor(ranks), (12, 12), alpha, l, hidden) for alpha in sorted((one, other)))
    assert ((0 <= small) & (small <= large) & (large <= 1) | (small.isnan() & large.isnan())).all()
    if hidden == "miss":
        assert not small.isnan().any()
        left = S.concept_location(torch.tensor(ranks), (12, 12), max(one, other), l)
        assert ((large <= left) | left.isnan()).all()


def test_chance_of_concept_location():
    """Random points on random maps lie in Ω with probability α/12, whatever the map."""
    generator, n = torch.Generator().manual_seed(5), 3000
    points = torch.full((n, 1, 2, 2), nan)
    points[:, :, 0] = torch.rand(n, 1, 2, generator=generator) * 60
    ranks = S.location_ranks(torch.randn(n, 1, 7, 7, generator=generator), points, (60, 60))
    for alpha in (1, 3, 6):
        p = alpha / 12
        assert S.concept_location(ranks, (60, 60), alpha, 1).mean().item() == pytest.approx(p, abs=3.5 * sqrt(p * (1 - p) / n))


# Overlap with the true region

def test_region_overlap_by_hand():
    ramp = torch.arange(144.0, 0, -1).view(1, 12, 12).expand(5, 12, 12)  # Ω of alpha 3 is the first three rows
    masks = torch.zeros(5, 12, 12, dtype=torch.bool)
    masks[0, :3] = masks[1, 3:] = masks[2, :6] = masks[3, 2, :9] = True
    overlap = S.region_overlap(ramp, masks, 3)
    assert overlap.tolist()[:4] == [1, 0, 0.5, 0.25] and isnan(overlap[4])
    for chunk in (1, 2, 5):
        torch.testing.assert_close(S.region_overlap(ramp, masks, 3, chunk), overlap, equal_nan=True)
    torch.testing.assert_close(S.region_overlap(ramp, 7 * masks.byte(), 3), overlap, equal_nan=True)  # masks as read from a file
    with pytest.raises(ValueError, match="5 maps, but 1 masks"):
        S.region_overlap(ramp, masks[:1], 3)


@pytest.mark.parametrize("alpha", [1, 6])
def test_overlap_agrees_with_the_ranks(alpha):
    """A mask of one pixel overlaps iff its rank is a hit; then by one pixel of all in Ω."""
    generator = torch.Generator().manual_seed(7)
    maps, points = torch.randn(40, 7, 7, generator=generator), torch.randint(0, 24, (40, 2), generator=generator)
    masks = torch.zeros(40, 24, 24, dtype=torch.bool)
    masks[torch.arange(40), points[:, 1], points[:, 0]] = True
    hits = S.concept_location(S.location_ranks(maps[:, None], points[:, None, None].float(), (24, 24)), (24, 24), alpha, 1)
    assert 0 < hits.sum() < 40
    torch.testing.assert_close(S.region_overlap(maps, masks, alpha), hits / (alpha * 48))


# Intervals

def test_interval_of_constants_and_of_nothing():
    assert mean_interval([0.25] * 7) == (0.25, 0.25, 0.25, 7)
    assert mean_interval([nan, 3.0, nan]) == (3.0, 3.0, 3.0, 1)
    for nothing in ([], [nan, nan]):
        value, low, high, cases = mean_interval(nothing)
        assert isnan(value) and isnan(low) and isnan(high) and cases == 0


def test_interval_leaves_nan_out():
    scores = [0.0, 1.0, 1.0, 0.0, 1.0, 0.5]
    assert mean_interval([nan, *scores, nan]) == mean_interval(scores)
    value, low, high, cases = mean_interval(torch.tensor(scores).view(2, 3))
    assert value == pytest.approx(3.5 / 6) and 0 < low < value < high < 1 and cases == 6
    assert mean_interval(scores, seed=1)[:1] == mean_interval(scores)[:1] and mean_interval(scores, seed=1) != mean_interval(scores)


def test_interval_of_normal_scores():
    """95 % intervals hold the true mean in about 95 % of samples, and are as wide as the normal theory says."""
    rng = np.random.default_rng(0)
    intervals = [mean_interval(rng.normal(5, 2, 60), resamples=400) for _ in range(300)]
    covered = np.mean([i.low <= 5 <= i.high for i in intervals])
    assert 0.90 < covered < 0.98
    assert np.mean([i.high - i.low for i in intervals]) == pytest.approx(2 * 1.96 * 2 / sqrt(60), rel=0.05)
