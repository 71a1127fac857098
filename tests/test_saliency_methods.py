"""Attention maps: by hand, against the established libraries, RISE, batches, and bad input."""

from functools import partial

import pytest
import torch
import torchcam.methods
import torchvision
from timm.models.resnet import BasicBlock, ResNet
from torch import nn
from torchvision.models import VisionTransformer

from xaihelpers import saliency
from xaihelpers.models import ModelError, find_layer
from xaihelpers.models.layers import to_feature_maps
from xaihelpers.saliency.hooks import class_scores


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build().eval()


def tiny_resnet():
    return ResNet(BasicBlock, (1, 1, 1, 1), 7, channels=(8, 12, 16, 24), drop_path_rate=0.0)


def torchvision_vit():
    model = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=4)
    nn.init.normal_(model.heads.head.weight)  # born as zeros
    return model


@pytest.fixture
def images():
    return torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))


class Mean(nn.Module):
    """Two maps, the red and the green channel; the logits are 1 x red and 2 x green, -1 x green."""

    def __init__(self):
        super().__init__()
        self.pick = nn.Conv2d(3, 2, 1, bias=False)
        self.fc = nn.Linear(2, 2, bias=False)
        self.pick.weight.data = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]])[:, :, None, None]
        self.fc.weight.data = torch.tensor([[1.0, 2.0], [0.0, -1.0]])

    def forward(self, x):
        return self.fc(self.pick(x).mean((2, 3)))


RED, GREEN = torch.tensor([[4.0, 0], [0, 0]]), torch.tensor([[0.0, 0], [0, 1]])
PIXELS = torch.stack([RED, GREEN, torch.zeros(2, 2)])[None]


@pytest.mark.parametrize(
    "method, raw",
    [
        ("cam", RED + 2 * GREEN),
        ("gradcam", (RED + 2 * GREEN) / 4),  # the mean's gradient is a quarter of the weight in every cell
        ("layercam", RED / 4 + GREEN / 2),
        ("xgradcam", RED / 4 + GREEN / 2),  # sum(G A) / sum(A) is the same quarter
        # G is 1/4 (red) and 1/2 (green), sum(A) is 4 and 1: four times G^3 / (2 G^2 + sum(A) G^3)
        (
            "gradcam++",
            4 * 0.25**3 / (2 * 0.25**2 + 4 * 0.25**3) * RED + 4 * 0.5**3 / (2 * 0.5**2 + 0.5**3) * GREEN,
        ),
    ],
)
def test_methods_by_hand(method, raw):
    _, maps, gradients = saliency.activations_and_gradients(Mean(), PIXELS, "pick", torch.tensor([0]))
    weights = torch.tensor([[1.0, 2.0]]) if method == "cam" else None
    combined = saliency.combine_maps(method, maps, gradients, weights)[0]
    torch.testing.assert_close(combined, raw, rtol=1e-4, atol=1e-6)  # 1e-6 in Grad-CAM++'s denominator
    shown = saliency.attention_maps(Mean(), PIXELS, method, layer="pick")
    assert shown.classes.tolist() == [0] and not shown.constant.any()
    torch.testing.assert_close(shown.maps[0], raw / raw.max(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("library", ["CAM", "GradCAM", "LayerCAM", "XGradCAM", "ScoreCAM"])
def test_equal_to_torch_cam(library, images):
    model, classes = seeded(tiny_resnet), [1, 4, 0]
    options = {"fc_layer": "fc"} if library == "CAM" else {}
    with getattr(torchcam.methods, library)(model, "layer4", **options) as extractor:
        logits = model(images.clone().requires_grad_())
        theirs = extractor(classes, logits)[0].detach()
    ours = saliency.attention_maps(model.train(), images, library.lower(), classes, batch_size=2)
    assert not model.training and all(parameter.grad is None for parameter in model.parameters())
    torch.testing.assert_close(ours.maps, theirs, rtol=0, atol=1e-4)
    assert ours.classes.tolist() == classes


def test_eigencam_is_the_first_component():
    """Also of many maps, where it is found the other way round."""
    for n_maps in (12, 300):
        maps = torch.randn(1, n_maps, 15, 15, generator=torch.Generator().manual_seed(0))
        maps = maps / torch.arange(1, n_maps + 1).view(1, n_maps, 1, 1)
        cells = maps[0].flatten(1).T.double()
        along = torch.linalg.svd(cells - cells.mean(0), full_matrices=False)[0][:, 0]
        ours = saliency.combine_maps("eigencam", maps)[0].flatten()
        sign = (along * (cells.mean(1) - cells.mean())).sum().sign()
        expected = (sign * along).relu()
        torch.testing.assert_close(ours / ours.max(), (expected / expected.max()).float(), rtol=0, atol=1e-3)


def test_layers_of_networks(images):
    assert saliency.attention_maps(seeded(tiny_resnet), images, "layercam", layer="layer2").maps.shape == (
        3,
        8,
        8,
    )
    for name, layer in (("mobilenet_v3_small", "features"), ("swin_t", "permute"), ("resnet18", "layer4")):
        network = seeded(partial(torchvision.models.get_model, name, weights=None))
        assert find_layer(network) == layer, name
    # behind the last attention of a vision transformer only the class token counts
    vit = saliency.attention_maps(seeded(torchvision_vit), torch.randn(2, 3, 32, 32), "gradcam")
    assert vit.maps.shape == (2, 4, 4) and not vit.constant.any()
    assert to_feature_maps(torch.zeros(1, 1 + 8 * 12, 5), (64, 96)).shape == (1, 5, 8, 12)
    assert to_feature_maps(torch.zeros(1, 8, 12, 5), (64, 96)).shape == (1, 5, 8, 12)


def test_bad_input_is_named(images):
    model = seeded(tiny_resnet)
    model.extra = nn.Conv2d(3, 3, 1)
    for wrong, message in (
        ({"method": "lime"}, "unknown method 'lime': there are cam, gradcam"),
        ({"layer": "extra"}, "is not used"),
        ({"layer": "fc"}, r"gives \(3, 7\), which does not lie over space"),
        ({"classes": [0, 1]}, r"classes must be 3 numbers in 0\.\.6"),
        ({"classes": [0, 1, 7]}, r"in 0\.\.6"),
        ({"method": "cam", "layer": "layer3"}, "does not make its 7 logits of the means of these 16 maps"),
        ({"method": "rise", "keep": 1.0}, "keep between 0 and 1"),
        ({"inputs": images.to(torch.uint8)}, "inputs must be floating point"),
        (
            {"model": nn.Sequential(nn.Flatten(), nn.Linear(12288, 3))},
            "no layer whose output lies over space",
        ),
        ({"model": nn.Conv2d(3, 4, 1), "layer": "", "method": "rise", "classes": [9] * 3}, r"in 0\.\.3"),
    ):
        with pytest.raises((saliency.SaliencyError, ModelError), match=message):
            saliency.attention_maps(**({"model": model, "inputs": images} | wrong))
    images[1] = torch.nan
    for method, whose in (("gradcam", "at layer 'layer4'"), ("rise", "by rise")):
        with pytest.raises(saliency.SaliencyError, match=f"maps {whose} are NaN or infinite in image 1"):
            saliency.attention_maps(model, images, method)


def test_a_layer_may_be_written_into_and_one_of_several_outputs(images):
    """As later layers do in place, and as attention layers return their weights beside the tokens."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.fc = Pair(), nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(self.pair(x)[0].relu_().mean((2, 3)))

    class Pair(nn.Conv2d):
        def __init__(self):
            super().__init__(3, 2, 1)

        def forward(self, x):
            return super().forward(x), x

    model = seeded(Two)
    _, maps, gradients = saliency.activations_and_gradients(model, images, "pair", torch.tensor([0, 1, 0]))
    torch.testing.assert_close(maps, model.pair(images)[0].detach())
    torch.testing.assert_close(gradients[0, 1], (maps[0, 1] > 0) * model.fc.weight[0, 1].detach() / 64**2)


def test_a_segmenters_score_over_its_own_or_all_pixels():
    """The mean of z_c over the pixels of c, or over all; none without a pixel."""
    logits = torch.randn(4, 3, 7, 7, generator=torch.Generator().manual_seed(0))
    own, everywhere = (saliency.score_classes(logits, all_pixels=every) for every in (False, True))
    assert torch.equal(own.classes, everywhere.classes) and everywhere.class_pixels.all()
    of_class = logits[torch.arange(4), own.classes]
    torch.testing.assert_close(class_scores(*everywhere), of_class.mean((1, 2)))
    wanted = [scores[logits[row].argmax(0) == own.classes[row]].mean() for row, scores in enumerate(of_class)]
    torch.testing.assert_close(class_scores(*own), torch.stack(wanted))
    nowhere = torch.zeros(4, 7, 7, dtype=torch.bool)
    assert class_scores(logits, own.classes, nowhere).tolist() == [0] * 4
