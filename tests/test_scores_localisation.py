"""Where a map lies and how alike two maps are, on cases worked out by hand; boxes as a network crops them."""

import numpy as np
import pytest
import torch

from xaihelpers import datasets
from xaihelpers.models import crop_boxes, crop_masks, load_backbone
from xaihelpers.scores.localisation import localisation, map_correlations


def test_localisation_by_hand():
    """Four units of attention, three of them in a box of two pixels; a part beside the hottest one."""
    maps, boxes = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool)
    maps[0, 0, :2] = torch.tensor([3.0, 1.0])
    boxes[0, :2, 0] = True
    points = torch.tensor([[[0.5, 1.5], [torch.nan, torch.nan]]])  # one pixel below
    found = localisation(maps, boxes, points, reach=0.25)
    assert {name: float(value[0]) for name, value in found.items() if "object" not in name} == {
        "attention in the box": 75,
        "box at equal area": 50,
        "hottest pixel in the box": 100,
        "hottest pixel at a part": 100,
    }
    assert np.isnan(found["object at equal area"]).all()
    assert localisation(maps, boxes, points, boxes, reach=0.2)["hottest pixel at a part"] == [0]
    assert localisation(maps, boxes, points, boxes)["object at equal area"] == [50]


def test_what_says_nothing_has_no_place():
    boxes = torch.zeros(2, 4, 4, dtype=torch.bool)
    boxes[0, 0, 0] = True
    maps = torch.stack([torch.ones(4, 4), torch.eye(4)])  # a constant map; a picture without a box
    found = localisation(maps, boxes, torch.full((2, 1, 2), torch.nan))
    assert all(np.isnan(values).all() for values in found.values())


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
