"""Corrections, completeness, causal responses and leakage: by hand, by pytorch-concepts and scikit-learn."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_concepts.nn.functional import intervention_score

from xaihelpers.scores import interventions, leakage

THETA = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
OFFSET = torch.zeros(2)


def test_uncertainty_corrects_what_lies_next_to_its_threshold():
    """One image of class 0 whose second concept is misread; only correcting that one mends it."""
    corrected, thresholds = torch.zeros(1, 2), torch.tensor([0.5, 0.5])
    right = []
    for values in ([[0.0, 0.45]], [[0.3, 0.95]]):  # the second is nearer, the first is nearer
        asked = (torch.tensor(values), corrected, THETA, OFFSET, torch.tensor([0]), "uncertainty", thresholds)
        right.append(interventions.intervention_curve(*asked)[2].item())  # half of the concepts
    assert right == [1, 0]


def test_completeness():
    assert interventions.completeness(0.6, 0.8, 5) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="does not exceed chance"):
        interventions.completeness(0.6, 0.2, 5)


def test_the_largest_effect_is_kept_and_the_rest_stays_at_its_mean():
    values = torch.tensor([[0.0, 10.0], [1.0, 30.0]])
    weights = torch.tensor([[5.0, 1.0], [1.0, 0.01]])  # effects 5 against 20, 1 against 0.2, by sd
    found = interventions.effective_concepts_logits(values, weights, torch.tensor([0.0, 7.0]), 1)
    # class 0: 5 · ½ + 1 · value 2; class 1: value 1 + 0.01 · 20 + 7
    assert torch.allclose(found, torch.tensor([[12.5, 7.2], [32.5, 8.2]]))
    # what speaks against a class counts alike
    against = interventions.effective_concepts_logits(values, -weights, torch.zeros(2), 1)
    assert torch.allclose(against, -found + torch.tensor([0.0, 7.0]))


def test_own_response_and_locality():
    before, after = torch.tensor([[0.0, 0.2], [0.1, 0.0]]), torch.tensor([[1.0, 0.3], [0.1, -0.5]])
    assert torch.allclose(
        interventions.own_response(before, after, torch.tensor([0, 1])), torch.tensor([1.0, -0.5])
    )
    values, own = torch.ones(1, 3), torch.tensor([[0.0, 1.0, 0.0]])
    other = torch.tensor([[1.0, 0.5, 0.0]])
    has_part = torch.tensor([True, True, False])
    assert interventions.locality(values, own, other, has_part).tolist() == [0.25]  # (1 − 0 + 0 − ½) / 2


def test_agreement_of_claimed_effects_with_real_ones():
    """Real effects 1 and −2: all claimed, none, the opposite, twice as much."""
    real = torch.tensor([1.0, -2.0])
    for claimed, expected in (([1.0, -2], 1), ([0.0, 0], 0), ([-1.0, 2], 0), ([2.0, -4], 1 - 3 / 9)):
        found = interventions.effect_agreement(real, torch.tensor(claimed))
        assert found == pytest.approx(expected)
    assert math.isnan(interventions.effect_agreement(0 * real, 0 * real))


def test_curve_of_corrections():
    """Beside pytorch-concepts, of a bottleneck of four concepts whose labels follow from the truth."""
    draw = torch.Generator().manual_seed(3)
    truth = (torch.rand(200, 4, generator=draw) < 0.4).float()
    weights, offset = torch.randn(4, 4, generator=draw), torch.randn(4, generator=draw)
    # each value is wrong by an amount of its own column, so that the oracle's order is one for all images
    sign = (torch.rand(200, 4, generator=draw) < 0.5).float() * 2 - 1
    values, labels = truth + sign * torch.arange(4, 0, -1) / 2, (truth @ weights + offset).argmax(1)
    curve = interventions.intervention_curve(values, truth, weights, offset, labels, "oracle")

    def head(concepts):
        return concepts @ weights + offset

    def accuracy(labels, scores, average=None):
        return (scores.argmax(1) == labels).mean()

    asked = head, values, truth, labels, [list(range(number)) for number in range(5)]
    theirs = intervention_score(*asked, activation=torch.nn.Identity(), scorer=accuracy, auc=False)
    assert curve.mean(1).tolist() == pytest.approx([float(one) for one in theirs])
    assert curve[0].mean() < 0.9 and curve[-1].mean() == 1  # there was something to correct


def columns(*lists):
    return torch.tensor(lists, dtype=torch.float32).T


def test_ctl_of_the_class_itself_and_of_the_concept_itself():
    """Four classes of 50: a concept tells one of two bits, a value that holds the class tells both."""
    labels = torch.arange(4).repeat_interleave(50)
    present = columns((labels >= 2).tolist())
    honest = leakage.concept_task_leakage(present, present, labels)
    assert honest.item() == pytest.approx(0, abs=0.02)
    assert leakage.concept_task_leakage(torch.zeros(200, 1), present, labels).item() == 0  # never below
    leaking = leakage.concept_task_leakage(columns(labels.tolist()), present, labels)
    # ln 4 − 9/400 of the value, ln 2 − 3/400 of the concept, by H(y) = ln 4 + 3/400
    expected = (math.log(4) - 9 / 400 - (math.log(2) - 3 / 400)) / (math.log(4) + 3 / 400)
    assert leaking.item() == pytest.approx(expected, abs=1e-9)


def test_icl_of_values_that_repeat_each_other():
    """Two independent concepts whose values are one: they share all, the concepts nothing."""
    one, other = torch.arange(400) % 2, (torch.arange(400) // 2) % 2
    present = columns(one.tolist(), other.tolist())
    same = columns(one.tolist(), one.tolist())
    found = leakage.inter_concept_leakage(same, present)
    assert found[0, 0] == found[1, 1] == 0
    entropy = math.log(2) + 1 / 800
    # the concepts' own term is −1/800, of counts that are exactly independent
    assert found[0, 1].item() == pytest.approx((math.log(2) - 1 / 800 + 1 / 800) / entropy, abs=1e-6)
    assert leakage.inter_concept_leakage(present, present).abs().max() < 1e-12


def test_auc_matrix_is_that_of_sklearn_either_way_round():
    rng = np.random.default_rng(1)
    values, present = rng.normal(size=(60, 1)), rng.random((60, 1)) < 0.4
    found = leakage.auc_matrix(torch.from_numpy(values), torch.from_numpy(present).float()).item()
    area = roc_auc_score(present[:, 0], values[:, 0])
    assert found == pytest.approx(max(area, 1 - area))


def test_impurity_of_the_truth_is_zero_and_of_swapped_names_as_by_hand():
    """Independent concepts tell each other at ½; with names swapped, 1 and ½ change places."""
    one, other = torch.arange(400) % 2, (torch.arange(400) // 2) % 2
    present = columns(one.tolist(), other.tolist())
    assert leakage.oracle_impurity(present, present) == 0
    # four entries that differ by ½ each: 2/2 · √(4 · ¼) = 1
    assert leakage.oracle_impurity(present.flip(1), present) == pytest.approx(1.0)
    assert math.isnan(leakage.oracle_impurity(present[:, :1], present[:, :1]))


def test_niche_impurity_is_one_half_of_pure_values_and_more_of_what_is_spread_over_many():
    generator = torch.Generator().manual_seed(0)
    present = (torch.rand(600, 4, generator=generator) < 0.5).float()
    blurred = present + 0.01 * torch.randn(present.shape, generator=generator)
    pure = leakage.niche_impurity(blurred[300:], present[300:], blurred[:300], present[:300])
    assert pure == pytest.approx(0.5, abs=0.05)
    # each value holds a quarter of each concept: the niche is all at β < ½, and nothing above it
    signs = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    mixed = blurred @ signs
    leaky = leakage.niche_impurity(mixed[300:], present[300:], mixed[:300], present[:300])
    assert leaky == pytest.approx((0.5 + 0.5 + 0.75 + 1) / 4, abs=0.05)
