"""Where a map lies and how alike two maps are, on cases worked out by hand; boxes as a network crops them."""

import numpy as np
import pytest
import torch

from xaihelpers import datasets
from xaihelpers.models import crop_boxes, crop_masks, load_backbone
from xaihelpers.scores.localisation import localisation, map_correlations


def test_localisation_by_hand():
    """Four units of attention, three in a box of two pixels; a constant map; a picture without a box."""
    maps, boxes = torch.zeros(3, 4, 4), torch.zeros(3, 4, 4, dtype=torch.bool)
    maps[0, 0, :2] = torch.tensor([3.0, 1.0])
    maps[2] = torch.eye(4)
    boxes[0, :2, 0] = boxes[1, 0, 0] = True
    found = localisation(maps, boxes)
    assert {name: float(value[0]) for name, value in found.items() if "object" not in name} == {
        "attention in the box": 75,
        "box at equal area": 50,
        "hottest pixel in the box": 100,
    }
    assert np.isnan(found["object at equal area"]).all()
    assert all(np.isnan(values[1:]).all() for values in found.values())
    assert localisation(maps, boxes, boxes)["object at equal area"][0] == 50


def test_map_correlations():
    one = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0))
    other = torch.stack([one[0] ** 3, -one[1], torch.zeros(5, 5)])
    assert map_correlations(one, other) == pytest.approx([1, -1, np.nan], nan_ok=True)


def test_crop_boxes_hold_the_drawn_object():
    world, rows = datasets.load("aviary"), [0, 700, 2399]
    network = load_backbone("aviary_resnet")
    boxes, drawn = crop_boxes(network, world, rows), crop_masks(network, world, rows) > 0
    assert (drawn & ~boxes).sum() <= 0.01 * drawn.sum() and boxes.sum() < 4 * drawn.sum()
    assert not crop_boxes(network, datasets.load("aviary"), []).any()
