"""Attention maps: by hand, against the established libraries, RISE, batches, and bad input."""

from functools import partial

import numpy as np
import pytest
import pytorch_grad_cam
import timm
import torch
import torch.nn.functional as F
import torchcam.methods
import torchvision
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from pytorch_grad_cam.utils.svd_on_activations import get_2d_projection
from timm.models.resnet import BasicBlock, ResNet
from torch import nn
from torchvision.models import VisionTransformer

from xaihelpers.models import ModelError, find_layer
from xaihelpers.models.layers import to_feature_maps
from xaihelpers.saliency import (
    METHODS,
    SaliencyError,
    activations_and_gradients,
    attention_maps,
    combine_maps,
    score_classes,
)
from xaihelpers.saliency.hooks import class_scores


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build().eval()


def tiny_resnet():
    return ResNet(BasicBlock, (1, 1, 1, 1), 7, channels=(8, 12, 16, 24), drop_path_rate=0.0)


def tiny_vit():
    return timm.create_model(
        "vit_tiny_patch16_224", img_size=64, patch_size=8, depth=3, embed_dim=24, num_heads=2, num_classes=5
    )


def tiny_swin():
    return timm.create_model(
        "swin_tiny_patch4_window7_224",
        img_size=64,
        window_size=2,
        depths=(1, 1, 1, 1),
        embed_dim=8,
        num_heads=(1, 1, 1, 1),
        num_classes=4,
    )


def torchvision_vit():
    model = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=4)
    nn.init.normal_(model.heads.head.weight)  # born as zeros
    return model


def segmenter(name):
    return torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)


@pytest.fixture
def images():
    return torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))


# By hand: a network of one convolution, whose maps are known


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
    _, maps, gradients = activations_and_gradients(Mean(), PIXELS, "pick", torch.tensor([0]))
    weights = torch.tensor([[1.0, 2.0]]) if method == "cam" else None
    combined = combine_maps(method, maps, gradients, weights)[0]
    torch.testing.assert_close(combined, raw, rtol=1e-4, atol=1e-6)  # 1e-6 in Grad-CAM++'s denominator
    shown = attention_maps(Mean(), PIXELS, method, [0])
    torch.testing.assert_close(shown.maps[0], raw / raw.max(), rtol=1e-4, atol=1e-6)


def test_the_predicted_class_and_others():
    shown = attention_maps(Mean(), PIXELS.repeat(2, 1, 1, 1), "gradcam")
    assert shown.classes.tolist() == [0, 0] and not shown.constant.any()
    # only green counts for the other class, and against it: nothing is left
    other = attention_maps(Mean(), PIXELS, "gradcam", [1])
    assert other.constant.tolist() == [True] and other.maps.abs().sum() == 0


def test_eigencam_is_the_first_principal_component():
    maps = torch.randn(4, 6, 5, 5, generator=torch.Generator().manual_seed(0)).relu()
    ours = combine_maps("eigencam", maps)
    theirs = torch.from_numpy(get_2d_projection(maps.numpy())).float()
    # the sign of a component is arbitrary; ours is that of more activation
    for mine, other, cells in zip(ours, theirs, maps, strict=True):
        sign = ((other - other.mean()) * (cells.mean(0) - cells.mean())).sum().sign()
        torch.testing.assert_close(mine, (sign * other).relu(), rtol=1e-4, atol=1e-4)


# Against the established libraries, after their scaling


def their_scaling(maps, size):
    """grad-cam's: each map in [0, 1], upsampled, and scaled again.

    Its 1e-7 is felt by maps as small as those of random weights, so it gets the maps before our scaling.
    """
    for _ in range(2):
        maps = maps - maps.amin((1, 2), keepdim=True)
        maps = maps / (1e-7 + maps.amax((1, 2), keepdim=True))
        maps = F.interpolate(maps[:, None], size, mode="bilinear")[:, 0]
    return maps


def raw_maps(model, images, method, classes):
    layer = find_layer(model, images)
    _, maps, gradients = activations_and_gradients(model, images, layer, torch.as_tensor(classes))
    return combine_maps(method, maps, gradients)


LIBRARY = {
    "gradcam": "GradCAM",
    "gradcam++": "GradCAMPlusPlus",
    "layercam": "LayerCAM",
    "xgradcam": "XGradCAM",
}


def close(ours, theirs):
    torch.testing.assert_close(ours, torch.as_tensor(np.asarray(theirs)).float(), rtol=0, atol=1e-4)
    assert ours.std() > 0.01  # not all the same


@pytest.mark.parametrize("method", LIBRARY)
@pytest.mark.parametrize("build", [tiny_resnet, tiny_vit])
def test_equal_to_grad_cam(method, build, images):
    model, classes = seeded(build), [1, 4, 0]
    layer = {tiny_resnet: "layer4", tiny_vit: "blocks.2.norm1"}[build]
    assert find_layer(model, images) == layer

    def as_grid(tokens):
        return tokens[:, 1:].transpose(1, 2).unflatten(2, (8, 8))

    options = {"reshape_transform": as_grid} if build is tiny_vit else {}
    peer = getattr(pytorch_grad_cam, LIBRARY[method])
    with peer(model=model, target_layers=[model.get_submodule(layer)], **options) as library:
        theirs = library(input_tensor=images, targets=[ClassifierOutputTarget(k) for k in classes])
    ours = attention_maps(model, images, method, classes, batch_size=2)
    raw = raw_maps(model, images, method, classes)
    assert ours.classes.tolist() == classes
    close(their_scaling(raw, (64, 64)), theirs)
    low, high = raw.amin((1, 2), keepdim=True), raw.amax((1, 2), keepdim=True)
    scaled = torch.where(high > low, (raw - low) / (high - low), 0)
    torch.testing.assert_close(ours.maps, scaled, rtol=0, atol=1e-5)
    assert torch.equal(ours.constant, (high == low).flatten())


@pytest.mark.parametrize(
    "method, library",
    [
        ("cam", "CAM"),
        ("gradcam", "GradCAM"),
        ("layercam", "LayerCAM"),
        ("xgradcam", "XGradCAM"),
        ("scorecam", "ScoreCAM"),
    ],
)
def test_equal_to_torch_cam(method, library, images):
    model, classes = seeded(tiny_resnet), [1, 4, 0]
    options = {"fc_layer": "fc"} if method == "cam" else {}
    with getattr(torchcam.methods, library)(model, "layer4", **options) as extractor:
        logits = model(images.clone().requires_grad_())
        theirs = extractor(classes, logits)[0].detach()
    close(attention_maps(model, images, method, classes, batch_size=5).maps, theirs)


@pytest.mark.parametrize(
    "name, layer",
    [
        ("lraspp_mobilenet_v3_large", "backbone.16"),
        ("fcn_resnet50", "backbone.layer4"),
        ("deeplabv3_resnet50", "backbone.layer4"),
    ],
)
def test_segmenters(name, layer, images):
    model = seeded(lambda: segmenter(name))
    assert find_layer(model, images) == layer
    scores = score_classes(model(images))
    labels = scores.logits.argmax(1)
    for k, pixels, row in zip(scores.classes, scores.class_pixels, labels, strict=True):
        counts = row.flatten().bincount(minlength=5)
        assert (pixels == (row == k)).all() and (counts[k] == counts[1:].max() or counts[1:].sum() == 0)

    class Out(nn.Module):  # the library takes tensors only
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return self.inner(x)["out"]

    def target(k, pixels):
        return lambda output: (output[k] * pixels).sum() / pixels.sum().clamp(min=1)

    targets = [target(k, pixels) for k, pixels in zip(scores.classes, scores.class_pixels, strict=True)]
    with pytorch_grad_cam.GradCAM(model=Out(), target_layers=[model.get_submodule(layer)]) as library:
        theirs = library(input_tensor=images, targets=targets)
    ours = their_scaling(raw_maps(model, images, "gradcam", scores.classes), (64, 64))
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0, atol=1e-4)


# RISE


def test_rise_against_its_definition(images):
    model = seeded(tiny_resnet)
    settings = {"n_masks": 40, "cells": 3, "keep": 0.4, "seed": 5, "batch_size": 16}
    ours = attention_maps(model, images[:2], "rise", **settings)
    generator = torch.Generator().manual_seed(5)
    grids = (torch.rand(40, 3, 3, generator=generator) < 0.4).float()
    corners = [torch.randint(0, 22, (40,), generator=generator) for _ in range(2)]
    corners = torch.stack(corners, 1)
    total = torch.zeros(2, 64, 64)
    with torch.no_grad():
        classes = model(images[:2]).argmax(1)
        for grid, (top, left) in zip(grids, corners, strict=True):
            whole = F.interpolate(grid[None, None], (88, 88), mode="bilinear")
            mask = whole[0, 0, top : top + 64, left : left + 64]
            probability = model(images[:2] * mask).softmax(1)[torch.arange(2), classes]
            total += probability[:, None, None] * mask
    low, high = total.amin((1, 2), keepdim=True), total.amax((1, 2), keepdim=True)
    torch.testing.assert_close(ours.maps, (total - low) / (high - low), rtol=0, atol=1e-4)
    assert torch.equal(ours.maps, attention_maps(model, images[:2], "rise", **settings).maps)


def test_rise_finds_the_pixel_that_counts():
    class Corner(nn.Module):
        def forward(self, x):
            return torch.stack([8 * x[:, 0, 4, 4], torch.zeros(len(x))], 1)

    shown = attention_maps(Corner(), torch.ones(1, 3, 32, 32), "rise", n_masks=2000, cells=4)
    y, x = divmod(int(shown.maps[0].argmax()), 32)
    assert abs(y - 4) <= 4 and abs(x - 4) <= 4


# Batches, layers, devices


@pytest.mark.parametrize("method", METHODS)
def test_an_image_does_not_depend_on_its_batch(method, images):
    model = seeded(tiny_resnet)
    together = attention_maps(model, images, method, n_masks=20)
    alone = torch.cat([attention_maps(model, image[None], method, n_masks=20).maps for image in images])
    torch.testing.assert_close(together.maps, alone, rtol=0, atol=1e-4)
    assert together.maps.shape == ((3, 64, 64) if method == "rise" else (3, 2, 2))
    assert together.maps.amin() == 0 and together.maps.amax() == 1


def test_nothing_of_the_model_changes(images):
    model = seeded(tiny_resnet).train()
    model.bn1.eval()  # frozen, as in fine-tuning
    before = {key: value.clone() for key, value in model.state_dict().items()}
    attention_maps(model, images, "gradcam")
    assert model.training and model.layer1.training and not model.bn1.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_as_many_classes_as_a_map_is_wide():
    model, images = seeded(tiny_resnet), torch.randn(1, 3, 224, 224)  # 7 classes, maps of 7 x 7
    assert find_layer(model, images) == "layer4"


def test_in_inference_mode(images):
    model = seeded(tiny_resnet)
    with torch.inference_mode():
        inside = attention_maps(model, images * 1.0)
    torch.testing.assert_close(inside.maps, attention_maps(model, images).maps)


@pytest.mark.parametrize("n_maps", [12, 1100])
def test_many_cells_and_many_maps_have_the_same_first_component(n_maps):
    maps = torch.randn(1, n_maps, 33, 33, generator=torch.Generator().manual_seed(0))
    maps = maps / torch.arange(1, n_maps + 1).view(1, n_maps, 1, 1)
    cells = maps[0].flatten(1).T.double()
    along = torch.linalg.svd(cells - cells.mean(0))[0][:, 0]
    ours = combine_maps("eigencam", maps)[0].flatten()
    sign = (along * (cells.mean(1) - cells.mean())).sum().sign()
    expected = (sign * along).relu()
    torch.testing.assert_close(ours / ours.max(), (expected / expected.max()).float(), rtol=0, atol=1e-3)


def test_a_named_layer_and_the_layers_of_other_networks(images):
    model = seeded(tiny_resnet)
    assert attention_maps(model, images, "layercam", layer="layer2").maps.shape == (3, 8, 8)
    last_layers = {
        "squeezenet1_0": "features",
        "mobilenet_v3_small": "features",
        "convnext_tiny": "features",
        "swin_t": "permute",
        "densenet121": "features",
        "efficientnet_b0": "features",
        "resnet18": "layer4",
        "vgg11": "features",
    }
    for name, layer in last_layers.items():
        network = seeded(partial(torchvision.models.get_model, name, weights=None))
        assert find_layer(network, torch.zeros(1, 3, 64, 64)) == layer, name
    vit_layer = find_layer(seeded(torchvision_vit), torch.zeros(1, 3, 32, 32))
    assert vit_layer == "encoder.layers.encoder_layer_1.ln_1"
    assert attention_maps(seeded(tiny_swin), images, "gradcam").maps.shape == (3, 2, 2)
    # behind the last attention of a vision transformer only the class token counts
    vit = attention_maps(seeded(torchvision_vit), torch.randn(2, 3, 32, 32), "gradcam")
    assert vit.maps.shape == (2, 4, 4) and not vit.constant.any()


def test_oblong_inputs():
    images = torch.randn(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    assert attention_maps(seeded(tiny_resnet), images).maps.shape == (1, 2, 3)
    assert to_feature_maps(torch.zeros(1, 1 + 8 * 12, 5), (64, 96)).shape == (1, 5, 8, 12)
    assert to_feature_maps(torch.zeros(1, 8, 12, 5), (64, 96)).shape == (1, 5, 8, 12)
    assert attention_maps(seeded(tiny_resnet), images, "rise", n_masks=4).maps.shape == (1, 64, 96)


# Bad input


def test_bad_input_is_named(images):
    model = seeded(tiny_resnet)
    for wrong, message in (
        ({"method": "lime"}, "unknown method 'lime': there are cam, gradcam"),
        ({"layer": "layer5"}, "no layer 'layer5': try layer"),
        ({"classes": [0, 1]}, r"classes must be 3 numbers in 0\.\.6"),
        ({"classes": [0, 1, 7]}, r"in 0\.\.6"),
        ({"method": "cam", "layer": "layer3"}, "does not make its 7 logits of the means of these 16 maps"),
        ({"method": "rise", "keep": 1.0}, "keep between 0 and 1"),
    ):
        with pytest.raises(SaliencyError, match=message):
            attention_maps(model, images, **wrong)
    with pytest.raises(ModelError, match=r"gives \(3, 7\), which does not lie over space"):
        attention_maps(model, images, layer="fc")
    with pytest.raises(SaliencyError, match="inputs must be floating point"):
        attention_maps(model, images.to(torch.uint8))
    with pytest.raises(ModelError, match="has no layer whose output lies over space"):
        attention_maps(nn.Sequential(nn.Flatten(), nn.Linear(12288, 3)), images)
    with pytest.raises(ModelError, match="neither logits"):
        attention_maps(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(0)), images)


def test_values_that_are_not_finite_are_named(images):
    model, broken = seeded(tiny_resnet), images.clone()
    broken[1] = torch.nan
    with pytest.raises(SaliencyError, match="maps of image 1 at layer 'layer4' are NaN"):
        attention_maps(model, broken)
    with pytest.raises(SaliencyError, match="map of image 1 by rise is NaN"):
        attention_maps(model, broken, "rise", n_masks=4)

    class Sharp(nn.Module):  # finite maps, an infinite gradient at 0
        def __init__(self):
            super().__init__()
            self.maps = nn.Conv2d(3, 2, 1, bias=False)

        def forward(self, x):
            return self.maps(x).abs().sqrt().mean((2, 3))

    with pytest.raises(SaliencyError, match="gradients of image 0 at layer 'maps' are NaN"):
        attention_maps(Sharp(), torch.zeros(1, 3, 4, 4))


@pytest.mark.parametrize("build, size", [(tiny_vit, 64), (torchvision_vit, 32)])
def test_no_cam_behind_a_class_token_or_a_norm(build, size):
    with pytest.raises(SaliencyError, match="which CAM needs: choose gradcam"):
        attention_maps(seeded(build), torch.randn(1, 3, size, size), "cam")


def test_a_layer_that_is_not_used(images):
    unused = seeded(tiny_resnet)
    unused.extra = nn.Conv2d(3, 3, 1)
    with pytest.raises(SaliencyError, match="is not used"):
        attention_maps(unused, images, layer="extra")


def test_a_class_without_pixels_has_no_score():
    scores = score_classes({"out": torch.randn(1, 3, 4, 4)})
    nowhere = torch.zeros(1, 4, 4, dtype=torch.bool)
    assert class_scores(scores.logits, scores.classes, nowhere).tolist() == [0]


def test_a_segmenters_score_over_its_own_or_all_pixels():
    """The mean of z_c over the pixels of c, or over all: Grad-CAM of a linear head is the same by both."""

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.maps, self.head = nn.Identity(), nn.Conv2d(5, 3, 1)

        def forward(self, maps):
            return F.interpolate(self.head(self.maps(maps)), (28, 28), mode="bilinear")

    model = seeded(Cells)
    maps = 3 * torch.randn(4, 5, 7, 7, generator=torch.Generator().manual_seed(0))  # every class somewhere
    with torch.no_grad():
        logits = model(maps)
    own, everywhere = (score_classes(logits, all_pixels=every) for every in (False, True))
    assert torch.equal(own.classes, everywhere.classes) and everywhere.class_pixels.all()
    of_all = logits[torch.arange(4), own.classes].mean((1, 2))
    assert torch.allclose(class_scores(*everywhere), of_all, atol=1e-6)
    assert not torch.allclose(class_scores(*own), of_all, atol=1e-2)
    pair = {}
    for method in ("gradcam", "layercam"):
        pair[method] = [
            attention_maps(model, maps, method, layer="maps", all_pixels=every).maps
            for every in (False, True)
        ]
    assert torch.allclose(*pair["gradcam"], atol=1e-4) and not torch.allclose(*pair["layercam"], atol=1e-2)
