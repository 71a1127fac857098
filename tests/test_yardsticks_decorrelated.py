"""Planted labels and colours of parts, of birds whose attributes are set at random."""

import numpy as np
import pytest
import torch
from PIL import Image

from xaihelpers.yardsticks.decorrelated import colours_of_parts, wrong_at_random


def test_as_many_groups_are_wrong_of_other_birds():
    """Group by group what is stated wrongly goes to as many birds, whole, and nothing else changes."""
    names = ["a::1", "a::2", "b::1", "b::2"]
    truth = torch.tensor([[1.0, 0, 1, 0]] * 40)
    stated = truth.clone()
    stated[:10, :2] = torch.tensor([0.0, 1])
    made = wrong_at_random(truth, stated, names, np.random.default_rng(0))
    assert (made != truth).any(1).sum() == 10 and not (made != truth)[:10].any(1).all()
    assert torch.equal(made[:, 2:], truth[:, 2:]) and (made[:, :2].sum(1) == 1).all()


def test_colours_of_parts_by_hand(tmp_path):
    """Half of the picture is the red left wing, a quarter the green right one, one part; there is no beak."""
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[:10, :, 0], pixels[10:, :10, 1] = 255, 51
    Image.fromarray(pixels).save(tmp_path / "a.png")
    mask = np.zeros((10, 10), int)
    mask[:5], mask[5:, :5] = 1, 2
    found = colours_of_parts([tmp_path / "a.png"], [mask], ["left wing", "right wing", "beak"])
    red, green, blue = found[0, :9].reshape(3, 3).T
    assert red.tolist() == [0, 1, 1] and blue.tolist() == [0, 0, 0]
    assert green.tolist() == pytest.approx([0, 0, 0.2])
    assert found.shape == (1, 20) and found[0, 9] == 75 / 250 and not found[0, 10:].any()
