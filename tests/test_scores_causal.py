"""Causal responses, by hand."""

import math

import pytest
import torch

from xaihelpers.scores import causal


def test_own_response_is_of_the_attribute_that_came():
    before, after = torch.tensor([[0.0, 0.2], [0.1, 0.0]]), torch.tensor([[1.0, 0.3], [0.1, -0.5]])
    assert torch.allclose(causal.own_response(before, after, torch.tensor([0, 1])), torch.tensor([1.0, -0.5]))


@pytest.mark.parametrize(
    "claimed, expected",
    [([1.0, -2.0], 1.0), ([0.0, 0.0], 0.0), ([-1.0, 2.0], 0.0), ([2.0, -4.0], 1 - 3 / 9)],
)
def test_agreement_of_claimed_effects_with_real_ones(claimed, expected):
    """Real effects 1 and −2: all claimed, none, the opposite, twice as much."""
    zero = torch.zeros(2)
    found = causal.effect_agreement(zero, torch.tensor([1.0, -2.0]), zero, torch.tensor(claimed))
    assert found == pytest.approx(expected)


def test_agreement_of_nothing_with_nothing_is_unknown():
    zero = torch.zeros(2)
    assert math.isnan(causal.effect_agreement(zero, zero, zero, zero))


def test_locality_leaves_out_what_has_no_part():
    values, own = torch.ones(1, 3), torch.tensor([[0.0, 1.0, 0.0]])
    other = torch.tensor([[1.0, 0.5, 0.0]])
    has_part = torch.tensor([True, True, False])
    assert causal.locality(values, own, other, has_part).tolist() == [0.25]  # (1 − 0 + 0 − ½) / 2
    with pytest.raises(ValueError, match="no concept lies on a part"):
        causal.locality(values, own, other, torch.zeros(3, dtype=bool))
