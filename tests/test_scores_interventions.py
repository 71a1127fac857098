"""Corrections, completeness and sparse heads, on cases worked out by hand."""

import pytest
import torch

from xaihelpers.scores import interventions

THETA = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
OFFSET = torch.zeros(2)


def test_a_curve_by_hand():
    """Two images of class 0 whose first concept is misread; correcting it decides."""
    values = torch.tensor([[0.0, 1.0], [0.1, 0.9]])
    corrected = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    asked = (values, corrected, THETA, OFFSET, torch.tensor([0, 0]))
    curve = interventions.intervention_curve(*asked, "oracle", shares=(0, 0.5, 1))
    assert curve.tolist() == [[0, 0], [1, 1], [1, 1]]
    area = interventions.curve_area(curve, (0, 0.5, 1))
    assert area.tolist() == [0.75, 0.75]


def test_uncertainty_corrects_what_lies_next_to_its_threshold():
    """One image of class 0 whose second concept is misread; only correcting that one mends it."""
    corrected, thresholds = torch.zeros(1, 2), torch.tensor([0.5, 0.5])
    right = []
    for values in ([[0.0, 0.45]], [[0.3, 0.95]]):  # the second is nearer, the first is nearer
        asked = (torch.tensor(values), corrected, THETA, OFFSET, torch.tensor([0]), "uncertainty", thresholds)
        right.append(interventions.intervention_curve(*asked, shares=(0.5,)).item())
    assert right == [1, 0]


def test_random_order_follows_its_seed_and_ends_with_all_corrected():
    values, corrected = torch.rand(50, 2), torch.ones(50, 2)
    asked = (values, corrected, THETA, OFFSET, torch.zeros(50, dtype=torch.int64))
    curves = [interventions.intervention_curve(*asked, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(curves[0], curves[1]) and not torch.equal(curves[0], curves[2])
    assert (curves[0][-1] == 1).all()


def test_what_curves_refuse():
    asked = (torch.zeros(1, 2), torch.zeros(1, 2), THETA, OFFSET, torch.tensor([0]))
    with pytest.raises(ValueError, match="policy must be one of random"):
        interventions.intervention_curve(*asked, "greedy")
    with pytest.raises(ValueError, match="needs thresholds="):
        interventions.intervention_curve(*asked, "uncertainty")


def test_completeness():
    assert interventions.completeness(0.6, 0.8, 5) == pytest.approx(2 / 3)
    assert interventions.completeness(0.2, 0.8, 5) == 0
    with pytest.raises(ValueError, match="does not exceed chance"):
        interventions.completeness(0.6, 0.2, 5)


def test_the_largest_effect_is_kept_and_the_rest_stays_at_its_mean():
    values = torch.tensor([[0.0, 10.0], [1.0, 30.0]])
    weights = torch.tensor([[5.0, 1.0], [1.0, 0.01]])  # effects 5 against 20, 1 against 0.2, by sd
    found = interventions.effective_concepts_logits(values, weights, torch.tensor([0.0, 7.0]), 1)
    # class 0: 5 · ½ + 1 · value 2; class 1: value 1 + 0.01 · 20 + 7
    assert torch.allclose(found, torch.tensor([[12.5, 7.2], [32.5, 8.2]]))
    whole = interventions.effective_concepts_logits(values, weights, torch.zeros(2), 2)
    assert torch.allclose(whole, values @ weights)
    with pytest.raises(ValueError, match="cannot keep 3 of 2"):
        interventions.effective_concepts_logits(values, weights, torch.zeros(2), 3)
