"""Planted maps: what the network reads, what the map shows, and what asking again finds out."""

import numpy as np
import pytest
import torch

from xaihelpers.saliency import planted_maps
from xaihelpers.saliency.perturbation import perturb
from xaihelpers.saliency.planted_maps import EvidenceNetwork, Regions, evidence, plant_maps

N, SIDE = 6, 56


@pytest.fixture(scope="module")
def regions():
    """Four squares that do not touch, the same in every picture."""
    found = []
    for top, left, side in ((8, 8, 12), (36, 8, 12), (8, 36, 12), (40, 40, 6)):
        region = torch.zeros(N, SIDE, SIDE, dtype=torch.bool)
        region[:, top : top + side, left : left + side] = True
        found.append(region)
    return Regions(*found)


def hottest(maps):
    """Whether each map's hottest cell lies in the own region's quarter, the upper left one."""
    place = maps.flatten(1).argmax(1)
    return [(int(p) // 14 < 7) and (int(p) % 14 < 7) for p in place]


def p_of(inputs):
    return EvidenceNetwork()(inputs).softmax(1)[:, 1]


def test_all_evidence_visible_and_none(regions):
    assert torch.allclose(evidence(regions.own).mean((1, 2)), torch.ones(N))
    shown = plant_maps("reads a dot", 0.0, regions)
    sure = torch.sigmoid(torch.tensor(4.0))
    assert torch.allclose(p_of(shown.inputs), sure.expand(N))
    covered = shown.inputs.masked_fill(regions.own[:, None], 0)
    assert torch.allclose(p_of(covered), (1 - sure).expand(N))
    half = shown.inputs.clone()
    half[:, :, :14] = 0  # the upper half of the part
    assert torch.allclose(p_of(half), torch.full((N,), 0.5), atol=1e-5)


@pytest.mark.parametrize("fault", planted_maps.MAP_FAULTS)
def test_honest_without_a_dose(fault, regions):
    shown = plant_maps(fault, 0.0, regions)
    assert torch.equal(shown.inputs[:, 0], evidence(regions.own)) and all(hottest(shown.maps))


@pytest.mark.parametrize(
    "fault, read, seen",
    [
        ("reads another part", "other", False),
        ("reads the background", "background", False),
        ("reads a dot", "dot", False),
        ("hides a dot", "dot", True),
        ("map of another part", "own", False),
    ],
)
def test_what_is_read_and_what_is_shown(fault, read, seen, regions):
    shown = plant_maps(fault, 1.0, regions)
    assert torch.equal(shown.inputs[:, 0], evidence(getattr(regions, read)))
    assert hottest(shown.maps) == [seen] * N


def test_half_of_the_images_or_half_of_the_evidence(regions):
    shown = plant_maps("reads another part", 0.5, regions)
    own = (shown.inputs[:, 0] == evidence(regions.own)).flatten(1).all(1)
    assert own.sum() == N / 2
    mixed = plant_maps("reads a dot", 0.5, regions).inputs[:, 0]
    assert torch.allclose(mixed, (evidence(regions.own) + evidence(regions.dot)) / 2)


def test_deletion_finds_a_hidden_dot_and_not_an_honest_one(regions):
    ones = torch.ones(N, dtype=torch.int64)
    areas = {}
    for fault in ("reads a dot", "hides a dot"):
        shown = plant_maps(fault, 1.0, regions)
        curves = perturb(EvidenceNetwork(), shown.inputs, shown.maps, ones, 10, insertion_from="zeros")
        areas[fault] = float(curves.deletion_auc.mean())
    assert areas["hides a dot"] > areas["reads a dot"] + 0.3


def test_a_random_map_changes_with_the_seed(regions):
    one, other = (plant_maps(planted_maps.RANDOM_MAP, 1.0, regions, seed) for seed in (0, 1))
    assert not torch.equal(one.maps, other.maps)


def test_regions_of_a_mask():
    """A bird in the upper left corner: the patch goes to the next corner, the dot to the one after."""
    mask = np.zeros((20, 20), int)
    mask[0:6, 0:6] = 1
    mask[0:3, 0:3] = 2
    own, other, patch, dot = planted_maps.regions_from_mask(mask, [2], [1])
    assert own.sum() == 9 and other.sum() == 27
    assert patch.sum() == 9 and patch[:3, 17:].all()
    assert dot.sum() == 16 and dot[16:, :4].all()
    assert planted_maps.centre_pixel(own) == (1.5, 1.5)
    assert np.isnan(planted_maps.centre_pixel(mask == 7)).all()


def test_what_cannot_be_planted(regions):
    with pytest.raises(ValueError, match="no fault 'blurs'"):
        plant_maps("blurs", 0.5, regions)
    with pytest.raises(ValueError, match="between 0, honest, and 1"):
        plant_maps("reads a dot", -0.1, regions)
    with pytest.raises(ValueError, match="region 0 has no pixel"):
        evidence(torch.zeros(2, 4, 4, dtype=torch.bool))
