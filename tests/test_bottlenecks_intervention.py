"""Test-time intervention: what "absent" and "present" mean without bounds, and values that a person sets."""

import pytest
import torch

from xaihelpers.bottlenecks.intervention import intervene, value_range


def test_the_two_clusters_of_a_concept():
    # present in 4 of 100, so above the 95th percentile
    rare = torch.tensor([0.0, 1, 0, 1] * 24 + [9, 9, 11, 11])[:, None]
    low, high = value_range(rare)
    assert low.item() == pytest.approx(0.5) and high.item() == pytest.approx(10)
    low, high = value_range(torch.full((20, 2), 3.0))
    assert low.tolist() == high.tolist() == [3, 3]


def test_corrections_by_hand():
    values = torch.tensor([[0.0, 5.0, 2.0], [7.0, -3.0, 2.0]])
    known = torch.tensor([[1.0, 0.0, torch.nan], [1.0, 0.0, torch.nan]])
    low, high = torch.tensor([-1.0, 0.0, -9.0]), torch.tensor([4.0, 6.0, 9.0])
    # what says so more clearly already stays: 7 is above 4, −3 below 0
    assert intervene(values, known, low, high).tolist() == [[4, 0, 2], [7, -3, 2]]
    assert intervene(values, None) is values
    with pytest.raises(ValueError, match="known must be 0, 1 or NaN, but row 1, concept 2 is 3"):
        intervene(values, torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 3.0]]), low, high)
    with pytest.raises(ValueError, match="has no range of training values"):
        intervene(values, known, None, None)
