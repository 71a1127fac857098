"""Maps that know nothing: what each is made of, and networks whose weights are shuffled."""

import pytest
import torch
from timm.models.resnet import BasicBlock, ResNet

from xaihelpers.models.image_network import as_target
from xaihelpers.saliency import NULLS, SaliencyError, attention_maps, null_maps, shuffled_weights


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    model = ResNet(BasicBlock, (1, 1, 1, 1), 7, channels=(8, 12, 16, 24))
    return as_target("tiny", model, 64, "tiny")


@pytest.fixture(scope="module")
def images():
    return torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def test_what_each_null_knows(network, images):
    found = null_maps(network, images, layer="layer2")
    assert tuple(found) == NULLS
    real = attention_maps(network, images, layer="layer2")
    for name, result in found.items():
        assert len(result.maps) == 4 and result.maps.min() == 0 and result.maps.max() == 1
        if name != "random weights":  # it is asked about what it predicts itself
            assert torch.equal(result.classes, real.classes), name
    centre = found["centre prior"].maps
    assert torch.equal(centre[0], centre[1]) and torch.allclose(centre, centre.flip(1))  # sees no picture
    assert divmod(int(centre[0].argmax()), 32) in [(y, x) for y in (15, 16) for x in (15, 16)]
    assert not torch.equal(found["random map"].maps[0], found["random map"].maps[1])
    energy = found["energy"].maps
    assert energy.shape == real.maps.shape and not torch.allclose(energy, real.maps)
    of_another = null_maps(network, images, layer="layer2", classes=(real.classes + 1) % 7)
    assert torch.equal(of_another["energy"].maps, energy)  # whatever the class


def test_energy_by_hand(network, images):
    caught = {}
    hook = network.model.layer3.register_forward_hook(
        lambda module, inputs, output: caught.update(maps=output)
    )
    with torch.no_grad():
        network.model(images)
    hook.remove()
    raw = caught["maps"].square().mean(1)
    low, high = raw.amin((1, 2), keepdim=True), raw.amax((1, 2), keepdim=True)
    ours = null_maps(network, images, layer="layer3", names=["energy"], batch_size=3)
    assert list(ours) == ["energy"]
    torch.testing.assert_close(ours["energy"].maps, (raw - low) / (high - low), rtol=0, atol=1e-5)


def test_draws_differ_and_repeat(network, images):
    drawn = ("random map", "random weights")
    first, again, other = (null_maps(network, images, seed=seed, names=drawn) for seed in (0, 0, 1))
    for name in drawn:
        assert torch.equal(first[name].maps, again[name].maps)
        assert not torch.equal(first[name].maps, other[name].maps)


def test_shuffled_weights_are_the_same_values_elsewhere(network):
    before = {name: value.clone() for name, value in network.model.named_parameters()}
    shuffled = shuffled_weights(network, seed=3)
    for name, value in shuffled.model.named_parameters():
        assert torch.equal(value.flatten().sort()[0], before[name].flatten().sort()[0]), name
    moved = [n for n, value in shuffled.model.named_parameters() if not torch.equal(value, before[n])]
    assert {"conv1.weight", "layer4.0.conv2.weight", "fc.weight"} <= set(moved)
    assert all(torch.equal(value, before[name]) for name, value in network.model.named_parameters())
    assert shuffled.identity != network.identity


@pytest.mark.parametrize(
    "share, changed", [(0.0, []), (0.01, ["fc.bias", "fc.weight"]), (0.1, ["fc", "layer4"])]
)
def test_a_share_is_of_the_last_layers(network, share, changed):
    shuffled = dict(shuffled_weights(network, share).model.named_parameters())
    moved = [n for n, value in network.model.named_parameters() if not torch.equal(value, shuffled[n])]
    assert bool(moved) == bool(changed)
    assert all(name.startswith(tuple(changed)) for name in moved)
    assert all(any(name.startswith(part) for name in moved) for part in changed if part != "fc.bias")


def test_a_map_follows_the_last_layer_only_if_it_asks_for_a_class(network, images):
    """Shuffling the last linear layer moves Grad-CAM of a class, and leaves what knows no class as it was."""
    classes = attention_maps(network, images).classes
    headless = shuffled_weights(network, 0.01)
    for method, follows in (("gradcam", True), ("eigencam", False)):
        own, other = (attention_maps(net, images, method, classes, "layer2") for net in (network, headless))
        assert torch.allclose(own.maps, other.maps, atol=1e-5) != follows, method


def test_bad_input_is_named(network, images):
    with pytest.raises(SaliencyError, match="unknown null 'noise': there are centre prior, random map"):
        null_maps(network, images, names=["noise"])
    with pytest.raises(SaliencyError, match="one for each of the 4 images, got 3"):
        null_maps(network, images, classes=torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="lies between 0 and 1, not at 1.5"):
        shuffled_weights(network, 1.5)
    with pytest.raises(SaliencyError, match="no layer 'layer9'"):
        null_maps(network, images, layer="layer9")
