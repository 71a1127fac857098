"""Maps that know nothing."""

import pytest
import torch
from timm.models.resnet import BasicBlock, ResNet

from xaihelpers.models.image_network import as_target
from xaihelpers.saliency import NULLS, attention_maps, null_maps, shuffled_weights


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    model = ResNet(BasicBlock, (1, 1, 1, 1), 7, channels=(8, 12, 16, 24))
    return as_target("tiny", model, 64, "tiny", layer="layer2")


@pytest.fixture(scope="module")
def images():
    return torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def test_random_draws_stay(network, images):
    """Recorded numbers rest on these very values."""
    drawn = null_maps(network, images, names=["random map"], seed=3)["random map"].maps
    expected = torch.tensor([0, 0.107197, 0.297954, 0.024011, 0.494529, 0.059101, 0.812242])
    torch.testing.assert_close(drawn[0, 0], expected, rtol=0, atol=1e-5)
    order = torch.randperm(24 * 7, generator=torch.Generator().manual_seed(3))
    shuffled = shuffled_weights(network, share=0.01, seed=3).model.fc.weight
    assert torch.equal(shuffled.flatten(), network.model.fc.weight.flatten()[order])


def test_what_each_null_knows(network, images):
    found = null_maps(network, images)
    assert tuple(found) == NULLS
    real = attention_maps(network, images)
    for name, result in found.items():
        assert len(result.maps) == 4 and result.maps.min() == 0 and result.maps.max() == 1
        # random weights are asked about what they predict themselves
        assert name == "random weights" or torch.equal(result.classes, real.classes), name
    centre = found["centre prior"].maps
    assert torch.equal(centre[0], centre[1]) and torch.allclose(centre, centre.flip(1))  # sees no picture
    of_another = null_maps(network, images, classes=(real.classes + 1) % 7)
    assert torch.equal(of_another["energy"].maps, found["energy"].maps)  # whatever the class
    for name in ("random map", "random weights"):
        again, other = (null_maps(network, images, seed=seed)[name].maps for seed in (0, 1))
        assert torch.equal(found[name].maps, again) and not torch.equal(again, other)
