"""Corrections, causal effects and leakage: by hand and by pytorch-concepts."""

import math

import pytest
import torch
from torch_concepts.nn.functional import intervention_score

from xaihelpers.scores import interventions, leakage

THETA = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
OFFSET = torch.zeros(2)


def test_uncertainty_corrects_what_lies_next_to_its_threshold():
    """One image of class 0 whose second concept is misread; only correcting that one mends it."""
    corrected, thresholds = torch.zeros(1, 2), torch.tensor([0.5, 0.5])
    right = []
    for values in ([[0.0, 0.45]], [[0.3, 0.95]]):  # the second is nearer, the first is nearer
        asked = (torch.tensor(values), corrected, THETA, OFFSET, torch.tensor([0]), thresholds)
        right.append(interventions.intervention_curve(*asked)[2].item())  # half of the concepts
    assert right == [1, 0]


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
    # each column is one step further from its threshold, so that the order is one for all images
    sign = (torch.rand(200, 4, generator=draw) < 0.5).float() * 2 - 1
    values, labels = 0.5 + sign * torch.arange(1, 5), (truth @ weights + offset).argmax(1)
    curve = interventions.intervention_curve(values, truth, weights, offset, labels, torch.full((4,), 0.5))

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
