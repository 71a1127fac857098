"""Maps that know nothing."""

import pytest
import torch
from timm.models.resnet import BasicBlock, ResNet

from xaihelpers.models.image_network import as_target
from xaihelpers.saliency import NULLS, SaliencyError, null_maps, shuffled_weights


def test_what_each_null_knows():
    torch.manual_seed(0)
    model = ResNet(BasicBlock, (1, 1, 1, 1), 7, channels=(8, 12, 16, 24))
    network = as_target("tiny", model, 64, "tiny", layer="layer2")
    images = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    found = {name: null_maps(network, images, name) for name in NULLS}
    with pytest.raises(SaliencyError, match="unknown null 'centre prio': there are centre prior"):
        null_maps(network, images, "centre prio")
    for maps in found.values():
        assert len(maps) == 4 and maps.min() == 0 and maps.max() == 1
    centre = found["centre prior"]
    assert torch.equal(centre[0], centre[1]) and torch.allclose(centre, centre.flip(1))  # sees no picture
    for name in ("random map", "random weights"):
        again, other = (null_maps(network, images, name, seed=seed) for seed in (0, 1))
        assert torch.equal(found[name], again) and not torch.equal(again, other)
    # recorded numbers rest on these very values
    drawn = null_maps(network, images, "random map", seed=3)
    expected = torch.tensor([0, 0.107197, 0.297954, 0.024011, 0.494529, 0.059101, 0.812242])
    torch.testing.assert_close(drawn[0, 0], expected, rtol=0, atol=1e-5)
    order = torch.randperm(24 * 7, generator=torch.Generator().manual_seed(3))
    shuffled = shuffled_weights(network, share=0.01, seed=3).model
    assert torch.equal(shuffled.fc.weight.flatten(), model.fc.weight.flatten()[order])
    assert torch.equal(shuffled.conv1.weight, model.conv1.weight)
