"""CGIM, CEM and CLM on cases worked out by hand, their bounds, invariances and chance levels."""

import itertools
from dataclasses import replace
from math import isnan, nan, sqrt

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from xaihelpers.outputs import ConceptOutputs, read_outputs, save_outputs
from xaihelpers.scores import alignment


def outputs_of(values, predictions, weights):
    """ConceptOutputs of lists: values (N, L), predicted classes (N,), class weights (L, K)."""
    values, weights = torch.tensor(values, dtype=torch.float32), torch.tensor(weights, dtype=torch.float32)
    logits = F.one_hot(torch.tensor(predictions), weights.shape[1]).float()
    return ConceptOutputs(
        values,
        values * weights.T[torch.tensor(predictions)],
        weights,
        logits,
        [f"concept {j}" for j in range(len(weights))],
        [f"class {k}" for k in range(weights.shape[1])],
    )


# CGIM. Two concepts; images 0 and 1 of class 0 and image 3 of class 1 are predicted correctly; image 2, of
# class 0 and with huge values, is not.
VALUES, LABELS, PREDICTIONS = [[1, 2], [3, 0], [100, 100], [0, 4]], torch.tensor([0, 0, 0, 1]), [0, 0, 1, 1]
WEIGHTS, TRUTH = [[3, 0], [4, 5]], torch.tensor([[0.5, 0.5], [0, 1]])


def test_mean_values_by_hand():
    means = alignment.mean_values(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS)
    assert means.tolist() == [[2, 0], [1, 4]]


def test_cgim_by_hand():
    scores = alignment.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, TRUTH)
    # Rows: θ (3 0), (4 5); Û* (2 0), (1 4); θ ⊙ Û* (6 0), (4 20); of V (½ ½), (0 1).
    by_concept = [[1 / sqrt(2), 5 / sqrt(41)], [1 / sqrt(2), 4 / sqrt(17)], [1 / sqrt(2), 5 / sqrt(26)]]
    # Columns: θ (3 4), (0 5); Û* (2 1), (0 4); θ ⊙ Û* (6 4), (0 20); of V (½ 0), (½ 1).
    by_class = [[3 / 5, 2 / sqrt(5)], [2 / sqrt(5), 2 / sqrt(5)], [3 / sqrt(13), 2 / sqrt(5)]]
    np.testing.assert_allclose(scores["concept"], by_concept)
    np.testing.assert_allclose(scores["class"], by_class)


def test_class_without_a_correct_image_is_left_out():
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


def test_what_nobody_annotated_is_left_out():
    """A third concept without labels changes no cosine of the others; its own is NaN."""
    values = [[*row, 9] for row in VALUES]
    outputs = outputs_of(values, PREDICTIONS, [*WEIGHTS, [7, -7]])
    scores = alignment.cgim(outputs, LABELS, torch.cat([TRUTH, torch.full((1, 2), nan)]))
    before = alignment.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, TRUTH)
    np.testing.assert_allclose(scores["class"], before["class"])
    np.testing.assert_allclose(scores["concept"][:, :2], before["concept"])
    assert scores["concept"][:, 2].isnan().all()


def test_zeros_have_no_direction():
    truth = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    scores = alignment.cgim(outputs_of(VALUES, PREDICTIONS, WEIGHTS), LABELS, truth)
    assert scores["concept"].isnan().tolist() == [[True, False]] * 3
    assert scores["class"].isnan().tolist() == [[True, False]] * 3


def random_outputs(seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    values, weights = scale * torch.randn(30, 5, generator=generator), torch.randn(5, 4, generator=generator)
    logits = values @ weights
    contributions = values * weights.T[logits.argmax(1)]
    outputs = ConceptOutputs(values, contributions, weights, logits, list("vwxyz"), list("abcd"))
    labels = torch.where(torch.rand(30, generator=generator) < 0.7, logits.argmax(1), 0)
    return outputs, labels, torch.rand(5, 4, generator=generator)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_cgim_is_a_cosine(seed, scale):
    """In [-1, 1], whatever the scales of the values and of V; 1 where V is the importance itself.

    It changes its sign with V or θ.
    """
    outputs, labels, truth = random_outputs(seed)
    scores = alignment.cgim(outputs, labels, truth)
    scaled = alignment.cgim(random_outputs(seed, scale)[0], labels, scale * truth)
    turned = alignment.cgim(replace(outputs, class_weights=-outputs.class_weights), labels, truth)
    for way, shape in (("concept", (3, 5)), ("class", (3, 4))):
        assert scores[way].shape == shape
        assert (scores[way].abs() <= 1 + 1e-9).logical_or(scores[way].isnan()).all()
        torch.testing.assert_close(scaled[way], scores[way], equal_nan=True, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(alignment.cgim(outputs, labels, -truth)[way], -scores[way], equal_nan=True)
        signs = torch.tensor([[-1], [1], [-1]])  # θ, Û*, θ ⊙ Û*
        torch.testing.assert_close(turned[way] * signs, scores[way], equal_nan=True)
        itself = alignment.cgim(outputs, labels, outputs.class_weights)[way][0]
        torch.testing.assert_close(itself, torch.ones(shape[1], dtype=torch.float64))


def test_cgim_of_bad_input():
    outputs = outputs_of(VALUES, PREDICTIONS, [[3, 0, 1], [4, 5, 1]])
    with pytest.raises(ValueError, match=r"truth is \(3, 2\), but there are 2 concepts and 3 classes"):
        alignment.cgim(outputs, LABELS, torch.zeros(3, 2))
    outputs.class_weights = None
    with pytest.raises(ValueError, match="this model has none"):
        alignment.cgim(outputs, LABELS, torch.zeros(2, 3))


# Importance and ranking


def test_importance_by_hand():
    outputs = outputs_of(VALUES, PREDICTIONS, WEIGHTS)
    assert alignment.concept_importance(outputs, "value").tolist() == VALUES
    # of the predicted class, right or wrong
    assert alignment.concept_importance(outputs, "weight").tolist() == [[3, 4], [3, 4], [0, 5], [0, 5]]
    assert alignment.concept_importance(outputs, "product").tolist() == [[3, 8], [9, 0], [0, 500], [0, 20]]
    with pytest.raises(ValueError, match="one of weight, value, product, contrast, not 'theta'"):
        alignment.concept_importance(outputs, "theta")
    outputs.class_weights = None
    # contributions do not need a linear head
    assert alignment.concept_importance(outputs, "product").tolist()[0] == [3, 8]
    with pytest.raises(ValueError, match='"weight" needs'):
        alignment.concept_importance(outputs, "weight")


def test_top_concepts():
    scores = torch.tensor([[1.0, 3.0, 3.0, -5.0, 1.0], [-1.0, -4.0, -2.0, -3.0, -9.0]])
    # signed; equal ones in concept order
    assert alignment.top_concepts(scores, 5).tolist() == [[1, 2, 0, 4, 3], [0, 2, 3, 1, 4]]
    assert alignment.top_concepts(scores, 2).tolist() == [[1, 2], [0, 2]]
    assert alignment.top_concepts(torch.zeros(1, 300), 300).tolist() == [list(range(300))]
    eligible = torch.tensor([True, False, True, True, False])
    assert alignment.top_concepts(scores, 3, eligible).tolist() == [[2, 0, 3], [0, 2, 3]]
    for first, some, n in ((0, None, 5), (6, None, 5), (4, eligible, 3)):
        with pytest.raises(ValueError, match=f"cannot take the first {first} of {n} concepts"):
            alignment.top_concepts(scores, first, some)


# CEM


def test_concept_existence_by_hand():
    scores = torch.tensor([[0.1, 0.9, 0.5, -2.0], [4.0, 3.0, 2.0, 1.0]])
    present = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 1]])
    # concept 1 is there; concept 0 is not
    assert alignment.concept_existence(scores, present, 1).tolist() == [1, 0]
    # 1, 2, 0: there, not, there
    np.testing.assert_allclose(alignment.concept_existence(scores, present, 3), [2 / 3, 0])
    assert alignment.concept_existence(scores, present, 4).tolist() == [0.75, 0.25]
    assert alignment.concept_existence(scores, present.bool(), 4).tolist() == [0.75, 0.25]
    untold = torch.tensor([[1, nan, 0, 1], [0, 0, 0, 1]])
    found = alignment.concept_existence(scores, untold, 3)  # 1, 2, 0: nobody knows, not, there
    np.testing.assert_allclose(found, [1 / 2, 0])
    assert alignment.concept_existence(scores, untold, 1).isnan().tolist() == [True, False]


@pytest.mark.parametrize("shape", [(2, 5), (3, 4), (1, 4)])
def test_concept_existence_wants_labels_of_its_concepts(shape):
    with pytest.raises(ValueError, match=r"importance is \(2, 4\) and present"):
        alignment.concept_existence(torch.zeros(2, 4), torch.zeros(shape), 1)


def test_chance_of_concept_existence():
    generator = torch.Generator().manual_seed(0)
    present = torch.rand(4000, 20, generator=generator) < 0.3
    for first in (1, 3, 5):
        importance = torch.rand(4000, 20, generator=generator)
        existence = alignment.concept_existence(importance, present, first).mean().item()
        assert existence == pytest.approx(present.float().mean().item(), abs=4 * sqrt(0.21 / 4000 / first))


# CLM


def test_concept_points():
    points = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [nan, nan]], [[5.0, 6.0], [nan, nan], [7.0, 8.0]]])
    placed = alignment.concept_points(points, [(1, 2), (), (0,)])
    assert placed.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(placed[0], [[[3, 4], [nan, nan]], [[nan, nan]] * 2, [[1, 2], [nan, nan]]])
    np.testing.assert_array_equal(placed[1], [[[nan, nan], [7, 8]], [[nan, nan]] * 2, [[5, 6], [nan, nan]]])


def both(point, other=(nan, nan)):
    return torch.tensor([[[point, other]]], dtype=torch.float32)  # (1, 1, 2, 2)


def test_ranks_by_hand():
    """A 2 x 2 map on a 2 x 2 image, and on one of 4 x 4, where each corner repeats its cell.

    4 lies left above, 1 right below.
    """
    small = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]]])

    def ranks(size, *points):
        return [alignment.location_ranks(small, both(point), size).item() for point in points]

    assert ranks((2, 2), (0, 0), (1, 0), (0, 1), (1, 1)) == [0, 1, 2, 3]
    # Half-pixel centres: the rows are 4 3.75 3.25 3, then 3.5 …, 2.5 …, 2 1.75 1.25 1.
    assert ranks((4, 4), (0, 0), (1, 0), (0, 1), (3, 3)) == [0, 1, 2, 15]
    assert ranks((4, 4), (2, 0), (1, 1), (3, 0)) == [3, 4, 5]  # 3.25 twice, then 3
    assert ranks((4, 4), (nan, nan)) == [16]
    rank = alignment.location_ranks(small, both((1, 0)), (2, 2))
    assert alignment.concept_location(rank, (2, 2), 6, 1).item() == 1  # among 2 pixels
    assert alignment.concept_location(rank, (2, 2), 3, 1).item() == 0  # not among 1


def test_either_side_hits():
    small = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]]])
    for sides in (((1, 1), (0, 0)), ((0, 0), (1, 1)), ((0, 0), (nan, nan)), ((nan, nan), (0, 0))):
        assert alignment.location_ranks(small, both(*sides), (2, 2)).item() == 0
    assert alignment.location_ranks(small, both((1, 1), (0, 1)), (2, 2)).item() == 2


def test_ranks_are_those_of_upsample_and_sort():
    generator = torch.Generator().manual_seed(3)
    size, maps = (37, 50), torch.randn(20, 3, 7, 7, generator=generator)
    points = torch.rand(20, 3, 2, 2, generator=generator) * torch.tensor([size[1], size[0]])
    points[torch.rand(20, 3, 2, generator=generator) < 0.3] = nan
    ranks = alignment.location_ranks(maps, points, size)
    upsampled = F.interpolate(maps.double(), size, mode="bilinear", align_corners=False)
    exact = 0
    for n in range(20):
        for j in range(3):
            seen = [upsampled[n, j, int(y), int(x)] for x, y in points[n, j] if not x.isnan()]
            if seen:
                above = (upsampled[n, j] > max(seen) + 1e-9).sum()
                as_high = (upsampled[n, j] >= max(seen) - 1e-9).sum()
                assert above <= ranks[n, j] < as_high  # the border has equal pixels
                exact += above + 1 == as_high
            else:
                assert ranks[n, j] == size[0] * size[1]
    assert exact > 25 and (ranks == size[0] * size[1]).sum() >= 2


# of 144 pixels, twelve to one alpha; 144: hidden
RANKS = torch.tensor([[0, 11, 12, 143], [2, 144, 5, 40], [144, 144, 144, 0]])


def test_concept_location_by_hand():
    def location(alpha, first, hidden="leave out"):
        return alignment.concept_location(RANKS, (12, 12), alpha, first, hidden).tolist()

    for first in (1, 2):
        *seen, unseen = location(1, first)
        assert seen == [1, 1] and isnan(unseen)
    assert location(1, 4) == pytest.approx([1 / 2, 2 / 3, 1])  # rank 12 is just outside
    assert location(3, 4) == pytest.approx([3 / 4, 2 / 3, 1])
    for first in (1, 2):
        *seen, unseen = location(3, first)
        assert seen == [1, 1] and isnan(unseen)
    assert location(1, 4, hidden="miss") == [0.5, 0.5, 0.25]
    assert location(12, 3, hidden="miss") == pytest.approx([1, 2 / 3, 0])  # hidden is never a hit
    # ⌊224·224/12⌋ = 4181
    assert alignment.concept_location(torch.tensor([[4181, 4180]]), (224, 224), 1, 2).tolist() == [0.5]


def test_concept_location_of_bad_input():
    with pytest.raises(ValueError, match='"leave out" or "miss", not \'skip\''):
        alignment.concept_location(RANKS, (12, 12), 1, 1, hidden="skip")
    for first in (0, 5):
        with pytest.raises(ValueError, match=f"the first {first} of 4"):
            alignment.concept_location(RANKS, (12, 12), 1, first)
    for alpha in (-1, 13, nan):
        with pytest.raises(ValueError, match="alpha"):
            alignment.concept_location(RANKS, (12, 12), alpha, 1)


@given(
    st.lists(st.lists(st.integers(0, 144), min_size=3, max_size=3), min_size=1, max_size=6),
    st.floats(0, 12),
    st.floats(0, 12),
    st.integers(1, 3),
    st.sampled_from(["leave out", "miss"]),
)
def test_larger_alpha_never_loses_a_hit(ranks, alpha, other, first, hidden):
    ranks, alphas = torch.tensor(ranks), sorted((alpha, other))
    small = alignment.concept_location(ranks, (12, 12), alphas[0], first, hidden)
    large = alignment.concept_location(ranks, (12, 12), alphas[1], first, hidden)
    assert ((0 <= small) & (small <= large) & (large <= 1) | (small.isnan() & large.isnan())).all()
    if hidden == "miss":
        assert not small.isnan().any()
        left = alignment.concept_location(ranks, (12, 12), alphas[1], first)
        assert ((large <= left) | left.isnan()).all()


def test_chance_of_concept_location():
    """Random points on random maps lie in Ω with probability α/12, whatever the map."""
    generator, n = torch.Generator().manual_seed(5), 3000
    points = torch.full((n, 1, 2, 2), nan)
    points[:, :, 0] = torch.rand(n, 1, 2, generator=generator) * 60
    ranks = alignment.location_ranks(torch.randn(n, 1, 7, 7, generator=generator), points, (60, 60))
    for alpha in (1, 3, 6):
        p = alpha / 12
        share = alignment.concept_location(ranks, (60, 60), alpha, 1).mean().item()
        assert share == pytest.approx(p, abs=3.5 * sqrt(p * (1 - p) / n))


# Overlap with the true region


def test_region_overlap_by_hand():
    # Ω of alpha 3 is the first three rows
    ramp = torch.arange(144.0, 0, -1).view(1, 12, 12).expand(5, 12, 12)
    masks = torch.zeros(5, 12, 12, dtype=torch.bool)
    masks[0, :3] = masks[1, 3:] = masks[2, :6] = masks[3, 2, :9] = True
    overlap = alignment.region_overlap(ramp, masks, 3)
    assert overlap.tolist()[:4] == [1, 0, 0.5, 0.25] and isnan(overlap[4])
    for chunk in (1, 2, 5):
        torch.testing.assert_close(alignment.region_overlap(ramp, masks, 3, chunk), overlap, equal_nan=True)
    # masks as read from a file
    from_file = alignment.region_overlap(ramp, 7 * masks.byte(), 3)
    torch.testing.assert_close(from_file, overlap, equal_nan=True)
    with pytest.raises(ValueError, match="5 maps, but 1 masks"):
        alignment.region_overlap(ramp, masks[:1], 3)


@pytest.mark.parametrize("alpha", [1, 6])
def test_overlap_agrees_with_the_ranks(alpha):
    """A mask of one pixel overlaps iff its rank is a hit; then by one pixel of all in Ω."""
    generator = torch.Generator().manual_seed(7)
    maps = torch.randn(40, 7, 7, generator=generator)
    points = torch.randint(0, 24, (40, 2), generator=generator)
    masks = torch.zeros(40, 24, 24, dtype=torch.bool)
    masks[torch.arange(40), points[:, 1], points[:, 0]] = True
    ranks = alignment.location_ranks(maps[:, None], points[:, None, None].float(), (24, 24))
    hits = alignment.concept_location(ranks, (24, 24), alpha, 1)
    assert 0 < hits.sum() < 40
    torch.testing.assert_close(alignment.region_overlap(maps, masks, alpha), hits / (alpha * 48))


# Devices


def test_tensors_on_different_devices_are_named():
    outputs, maps = outputs_of(VALUES, PREDICTIONS, WEIGHTS), torch.zeros(2, 3, 3)
    importance, elsewhere = torch.zeros(4, 2), "on cpu, .* on meta"
    with pytest.raises(ValueError, match=f"outputs {elsewhere}"):
        alignment.mean_values(outputs, LABELS.to("meta"))
    with pytest.raises(ValueError, match="labels on cpu, truth on meta"):
        alignment.cgim(outputs, LABELS, TRUTH.to("meta"))
    with pytest.raises(ValueError, match="importance on cpu, present on meta"):
        alignment.concept_existence(importance, torch.zeros(4, 2, device="meta"), 1)
    with pytest.raises(ValueError, match="importance on cpu, eligible on meta"):
        alignment.top_concepts(importance, 1, torch.ones(2, dtype=torch.bool, device="meta"))
    with pytest.raises(ValueError, match="points are on meta, maps on cpu"):
        alignment.location_ranks(maps[None], torch.zeros(1, 2, 2, 2, device="meta"), (3, 3))
    with pytest.raises(ValueError, match=f"concept_maps {elsewhere}"):
        alignment.region_overlap(maps, torch.zeros(2, 6, 6, device="meta"), 1)


# Rows


def test_outputs_in_another_order_have_the_same_scores(tmp_path):
    """Outputs of a file are matched with labels by the images' ids, or refused."""
    outputs, labels, truth = random_outputs(3)
    ids = [f"{row}.png" for row in range(30)]
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    shuffled = {name: getattr(outputs, name)[order] for name in ("values", "contributions", "logits")}
    shuffled = replace(outputs, image_ids=[ids[row] for row in order], **shuffled)
    read = read_outputs(save_outputs(shuffled, tmp_path / "mine.safetensors"))
    assert read.accuracy(labels) != outputs.accuracy(labels)  # by position they are other images
    assert read.accuracy(labels, ids) == outputs.accuracy(labels)
    mean = alignment.mean_values(outputs, labels)
    torch.testing.assert_close(alignment.mean_values(read, labels, ids), mean, equal_nan=True)
    scores = alignment.cgim(outputs, labels, truth)
    of_file = alignment.cgim(read, labels, truth, ids)
    for way in ("concept", "class"):
        torch.testing.assert_close(of_file[way], scores[way], equal_nan=True)
    foreign = [f"crow/{row}.png" for row in range(30)]
    refused = "30 of the 30 images wanted have no row, the first 'crow/0.png', 'crow/1.png', 'crow/2.png';"
    scored = (
        lambda names: read.accuracy(labels, names),
        lambda names: alignment.mean_values(read, labels, names),
        lambda names: alignment.cgim(read, labels, truth, names),
    )
    for score in scored:
        with pytest.raises(ValueError, match=refused):
            score(foreign)
    with pytest.raises(ValueError, match="30 rows without image ids"):
        outputs.accuracy(labels, ids)


# Zero and gauge


def random_model(seed=0, n=40, n_concepts=6, n_classes=5):
    """A linear model with a bias, whose outputs can be written in other ways."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n, n_concepts, generator=generator) + 1
    weights = torch.randn(n_concepts, n_classes, generator=generator)
    logits = values @ weights
    names = [f"concept {j}" for j in range(n_concepts)], [f"class {k}" for k in range(n_classes)]
    return ConceptOutputs(values, values * weights.T[logits.argmax(1)], weights, logits, *names)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_the_contrast_is_the_same_however_the_model_is_written(seed):
    """Another zero and another gauge move the ranking by the product, and not by the contrast."""
    outputs, centre = random_model(seed), torch.full((6,), 0.7)
    generator = torch.Generator().manual_seed(seed + 1)
    zero, gauge = 3 * torch.randn(6, generator=generator), 3 * torch.randn(6, generator=generator)
    other = alignment.reparameterised(outputs, zero, gauge)
    assert torch.equal(other.predictions, outputs.predictions)
    before = alignment.concept_importance(outputs, "contrast", centre)
    after = alignment.concept_importance(other, "contrast", centre - zero)
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)
    products = [alignment.concept_importance(one, "product") for one in (outputs, other)]
    assert not torch.equal(products[0].argmax(1), products[1].argmax(1))


def test_another_zero_and_gauge_are_the_same_model():
    """Logits from the rewritten values and weights differ by a constant for each image and for each class."""
    outputs, zero, gauge = random_model(), torch.arange(6.0), torch.arange(6.0) - 2
    other = alignment.reparameterised(outputs, zero, gauge)
    logits = other.values @ other.class_weights
    bias = zero @ outputs.class_weights  # what the bias takes over
    difference = logits + bias - outputs.logits  # (N, K), alike in all classes
    torch.testing.assert_close(difference, difference[:, :1].expand_as(difference), atol=1e-4, rtol=0)
    torch.testing.assert_close(other.contributions, other.values * other.class_weights.T[other.predictions])


def test_contrast_by_hand():
    """Class 1 before class 0: (θ_1 − θ_0)(û − ū) = (5 − 4)(4 − 1) for the second concept."""
    outputs = replace(outputs_of([[1, 4]], [1], WEIGHTS), logits=torch.tensor([[1.0, 2.0]]))
    contrast = alignment.concept_importance(outputs, "contrast", torch.tensor([1.0, 1.0]))
    assert contrast.tolist() == [[0, 3]]
    with pytest.raises(ValueError, match="needs centre="):
        alignment.concept_importance(outputs, "contrast")
    for function in (alignment.reparameterised, lambda o: alignment.concept_importance(o, "contrast")):
        with pytest.raises(ValueError, match="has none"):
            function(replace(outputs, class_weights=None))


def test_the_ceiling_holds_for_rows_that_sum_to_zero():
    """No weights whose rows sum to zero come closer to V than its own centred rows, which reach it."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(6, 5, generator=generator).double()
    ceiling = alignment.cgim_ceiling(truth)
    centred = truth - truth.mean(1, keepdim=True)
    torch.testing.assert_close(F.cosine_similarity(centred, truth, dim=1), ceiling)
    weights = torch.randn(2000, 6, 5, generator=generator).double()
    weights = weights - weights.mean(2, keepdim=True)
    assert (F.cosine_similarity(weights, truth.expand_as(weights), dim=2) <= ceiling + 1e-9).all()
    assert alignment.cgim_ceiling(torch.ones(1, 4)).item() == 0
    assert alignment.cgim_ceiling(torch.zeros(1, 4)).isnan().all()


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


def test_a_reader_of_the_individual_is_found_within_its_group():
    """Groups that all have a concept, but for one bird each: told apart whatever the groups' means."""
    groups = torch.arange(10).repeat_interleave(20)
    present = torch.zeros(200, 1)
    present[:40] = 1
    present[[5, 25]] = 0
    noise = 0.1 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    assert alignment.concept_aucs(present + noise + 5 * groups[:, None], present, groups) == 1.0
    of_group = groups[:, None].float() + noise
    assert abs(alignment.concept_aucs(of_group, present, groups).item() - 0.5) < 0.35
