"""Attention maps: by hand, against the established libraries, RISE, batches, and bad input."""

import pytest
import torch
import torchcam.methods
from sklearn.decomposition import PCA
from timm.models.resnet import BasicBlock, ResNet
from torch import nn

from xaihelpers import saliency
from xaihelpers.models import ModelError
from xaihelpers.saliency.hooks import class_scores


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build().eval()


def tiny_resnet():
    return ResNet(BasicBlock, (1, 1, 1, 1), 7, channels=(8, 12, 16, 24), drop_path_rate=0.0)


@pytest.fixture
def images():
    return torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def test_gradcam_plus_plus_by_hand():
    """G is 1/4 and 1/2 in four cells, sum(A) is 4 and 1: w is four times G^3 / (2 G^2 + sum(A) G^3)."""
    maps = torch.tensor([[[[4.0, 0], [0, 0]], [[0, 0], [0, 1]]]])
    gradients = torch.tensor([0.25, 0.5]).view(1, 2, 1, 1).expand_as(maps)
    first, second = (4 * g**3 / (2 * g**2 + total * g**3) for g, total in ((0.25, 4), (0.5, 1)))
    raw = saliency.combine_maps("gradcam++", maps, gradients)[0]
    expected = first * maps[0, 0] + second * maps[0, 1]
    torch.testing.assert_close(raw, expected, rtol=1e-4, atol=1e-6)  # 1e-6 in its denominator


def test_equal_to_torch_cam(images):
    classes = [1, 4, 0]
    for library in ("CAM", "GradCAM", "LayerCAM", "XGradCAM", "ScoreCAM"):
        model, options = seeded(tiny_resnet), {"fc_layer": "fc"} if library == "CAM" else {}
        with getattr(torchcam.methods, library)(model, "layer4", **options) as extractor:
            logits = model(images.clone().requires_grad_())
            theirs = extractor(classes, logits)[0].detach()
        ours = saliency.attention_maps(model.train(), images, library.lower(), classes, batch_size=2)
        assert not model.training and all(parameter.grad is None for parameter in model.parameters())
        torch.testing.assert_close(ours.maps, theirs, rtol=0, atol=1e-4)
        assert ours.classes.tolist() == classes


def test_eigencam_is_the_first_component():
    maps = torch.randn(1, 30, 15, 15, generator=torch.Generator().manual_seed(0))
    maps = maps / torch.arange(1, 31).view(1, 30, 1, 1)
    cells = maps[0].flatten(1).T.double()
    along = torch.from_numpy(PCA(1).fit_transform(cells)[:, 0])
    ours = saliency.combine_maps("eigencam", maps)[0].flatten()
    sign = (along * (cells.mean(1) - cells.mean())).sum().sign()
    torch.testing.assert_close(ours, (sign * along).relu().float(), rtol=0, atol=1e-4)


def test_bad_input_is_named(images):
    model = seeded(tiny_resnet)
    model.extra = nn.Conv2d(3, 3, 1)
    for wrong, message in (
        ({"method": "lime"}, "unknown method 'lime': there are cam, gradcam"),
        ({"layer": "layer5"}, "no layer 'layer5': try layer4"),
        ({"layer": "extra"}, "is not used"),
        ({"classes": [0, 7, 1]}, "classes must be 3 numbers in 0..6, one per image"),
        ({"method": "cam", "layer": "layer3"}, "does not make its 7 logits of the means of these 16 maps"),
    ):
        with pytest.raises((saliency.SaliencyError, ModelError), match=message):
            saliency.attention_maps(**({"model": model, "inputs": images} | wrong))
    images[1] = torch.nan
    for method, whose in (("gradcam", "at layer 'layer4'"), ("rise", "by rise")):
        with pytest.raises(saliency.SaliencyError, match=f"maps {whose} are NaN or infinite in image 1"):
            saliency.attention_maps(model, images, method, n_masks=2)
    half = saliency.attention_maps(model.bfloat16(), images[:1].bfloat16(), "rise", n_masks=2)
    assert half.maps.shape == (1, 64, 64), "masked pictures are of the model's precision"


def test_a_layer_may_be_written_into_and_one_of_several_outputs(images):
    """As later layers do in place, and as attention layers return their weights beside the tokens."""

    class Pair(nn.Conv2d):
        def forward(self, x):
            return super().forward(x), x

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.fc = Pair(3, 2, 1), nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(self.pair(x)[0].relu_().mean((2, 3)))

    model = seeded(Two)
    _, maps, gradients = saliency.activations_and_gradients(model, images, "pair", torch.tensor([0, 1, 0]))
    torch.testing.assert_close(maps, model.pair(images)[0].detach())
    torch.testing.assert_close(gradients[0, 1], (maps[0, 1] > 0) * model.fc.weight[0, 1].detach() / 64**2)


def test_a_segmenters_score_over_its_own_or_all_pixels():
    """The mean of z_c over the pixels of c, or over all."""
    logits = torch.randn(4, 3, 7, 7, generator=torch.Generator().manual_seed(0))
    own, everywhere = (saliency.score_classes(logits, all_pixels=every) for every in (False, True))
    assert torch.equal(own.classes, everywhere.classes) and everywhere.class_pixels.all()
    of_class = logits[torch.arange(4), own.classes]
    torch.testing.assert_close(class_scores(*everywhere), of_class.mean((1, 2)))
    wanted = [scores[logits[row].argmax(0) == own.classes[row]].mean() for row, scores in enumerate(of_class)]
    torch.testing.assert_close(class_scores(*own), torch.stack(wanted))
