"""Attention maps of classifiers and segmenters by eight methods, in batches on the model's device.

Paper autoxplain, section 2, takes these methods as given. The map v of a class c, before it is scaled:

    CAM         v = sum_j theta_jc A_j
    Grad-CAM    v = relu(sum_j w_j A_j),  w_j = mean over x, y of G_j
    Grad-CAM++  the same,  w_j = sum relu(G_j) G_j^2 / (2 G_j^2 + G_j^3 sum(A_j))
    XGrad-CAM   the same,  w_j = sum(G_j A_j) / sum(A_j)
    LayerCAM    v = relu(sum_j relu(G_j) A_j), cell by cell
    Score-CAM   as Grad-CAM,  w = softmax over j of S_c(image through A_j, scaled to [0, 1])
    EigenCAM    v = relu(projection of the cells' vectors A_.xy on their first principal component)
    RISE        v = 2 / m sum_i p_c(image through M_i) M_i

    A, G, S_c, c  maps, their gradients, scores and classes, as of `hooks`
    theta, w      weights of the last linear layer (K, d), of the maps (N, d)
    M_i           masks (m, H, W): random grids of cells, half of them kept, upsampled, cut at random corners
    p_c           probabilities of the class (N, m)

CAM: Zhou et al. 2016. Grad-CAM: Selvaraju et al. 2017. Grad-CAM++: Chattopadhay et al. 2018.
XGrad-CAM: Fu et al. 2020. LayerCAM: Jiang et al. 2021. Score-CAM: Wang et al. 2020.
EigenCAM: Muhammad and Yeasin 2020. RISE: Petsiuk et al. 2018.
"""

from typing import NamedTuple

import torch
from torch import nn

from xaihelpers.masks import mask_images, upsample_maps
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.layers import find_layer
from xaihelpers.saliency import hooks
from xaihelpers.saliency.hooks import SaliencyError

METHODS = ("cam", "gradcam", "gradcam++", "layercam", "scorecam", "eigencam", "xgradcam", "rise")


class AttentionMaps(NamedTuple):
    """Attention maps of N images."""

    maps: torch.Tensor  # (N, h, w) float32 in [0, 1], of the layer's resolution; RISE's of the images'
    classes: torch.Tensor  # (N,) int64, the classes asked about
    constant: torch.Tensor  # (N,) bool, whether a map has the same value everywhere; it is then 0


def attention_maps(
    model: nn.Module | ImageNetwork,
    inputs: torch.Tensor,
    method: str = "gradcam",
    classes=None,
    layer: str = "",
    batch_size: int = 64,
    all_pixels: bool = False,
    **of_rise,
) -> AttentionMaps:
    """Attention maps of images, each scaled to [0, 1].

    model: a classifier or a segmenter, (N, 3, H, W) -> (N, K) or (N, K, H, W), which is put into evaluation
        mode, or an ImageNetwork. inputs: (N, 3, H, W), normalised, on its device. method: one of METHODS.
    classes: (N,), by default those predicted. all_pixels: as of `score_classes`.
    layer: a submodule's name; "" takes the last over space, by `models.find_layer`. A segmenter's CAM needs
        the layer before its last 1 x 1 convolution.
    of_rise: n_masks, cells, seed, see `rise`; other methods take no notice.
    Raises SaliencyError: an unknown method; and as `activations_and_gradients`, `class_weights` and `rise`.
    """
    if method not in METHODS:
        raise SaliencyError(f"unknown method {method!r}: there are {', '.join(METHODS)}")
    if isinstance(model, ImageNetwork):
        layer, model = layer or model.layer, model.model
    model, parts = model.eval(), []
    if not layer and method != "rise":
        layer = find_layer(model)
    for start in range(0, len(inputs), batch_size):
        batch = inputs[start : start + batch_size]
        asked = None if classes is None else classes[start : start + batch_size]
        if method == "rise":
            parts.append(rise(model, batch, asked, batch_size=batch_size, **of_rise))
            continue
        about = model, batch, layer, asked, all_pixels
        scores, maps, gradients = hooks.activations_and_gradients(*about)
        weights = None
        if method == "cam":
            weights = hooks.class_weights(model, maps, scores.logits)[scores.classes]
        elif method == "scorecam":
            weights = _scorecam_weights(model, batch, scores, maps, batch_size)
        parts.append((combine_maps(method, maps, gradients, weights), scores.classes))
    raw, classes = (torch.cat(part) for part in zip(*parts, strict=True))
    hooks.require_finite(raw, f"the maps by {method}")
    maps, constant = scaled_maps(raw)
    return AttentionMaps(maps, classes, constant)


def scaled_maps(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps (..., h, w) scaled to [0, 1] each, and which of them are constant, (...) bool; those become 0."""
    low, high = maps.amin((-2, -1), keepdim=True), maps.amax((-2, -1), keepdim=True)
    constant = high <= low
    return (maps - low) / torch.where(constant, 1, high - low), constant[..., 0, 0]


def combine_maps(method: str, maps: torch.Tensor, gradients=None, weights=None) -> torch.Tensor:
    """The equations above: maps A (N, d, h, w) as v (N, h, w), not scaled.

    gradients: G (N, d, h, w), for the methods that need them. weights: (N, d), for CAM and Score-CAM.
    """
    if method == "eigencam":
        cells = maps.flatten(2).mT.double()  # (N, hw, d)
        centred = cells - cells.mean(1, keepdim=True)
        left, scales, _ = torch.linalg.svd(centred, full_matrices=False)
        projection = left[:, :, 0] * scales[:, :1]
        sign = (projection * centred.mean(2)).sum(1, keepdim=True).sign()
        projection = projection * torch.where(sign == 0, 1, sign)  # so that it grows with the mean
        return projection.unflatten(1, maps.shape[2:]).float().relu()
    if method == "layercam":
        return (gradients.relu() * maps).sum(1).relu()
    if method == "gradcam":
        weights = gradients.mean((2, 3))
    elif method == "gradcam++":
        denominator = 2 * gradients**2 + maps.sum((2, 3), keepdim=True) * gradients**3 + 1e-6
        alpha = torch.where(gradients != 0, gradients**2 / denominator, 0)
        weights = (gradients.relu() * alpha).sum((2, 3))
    elif method == "xgradcam":
        weights = (gradients * maps).sum((2, 3)) / (maps.sum((2, 3)) + 1e-7)
    weighted = torch.einsum("nd,ndhw->nhw", weights, maps)
    return weighted if method == "cam" else weighted.relu()


@torch.no_grad()
def _scorecam_weights(model, inputs, scores, maps: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Weights (N, d): softmax over the maps of the class's score for the image seen through each of them."""
    masks = scaled_maps(maps)[0].flatten(0, 1)  # (N d, h, w)
    image_of = torch.arange(len(maps), device=maps.device).repeat_interleave(maps.shape[1])
    masked_scores = []
    for part, rows in zip(masks.split(batch_size), image_of.split(batch_size), strict=True):
        masked = mask_images(inputs, part, rows, alpha=None)
        masked_scores.append(scores.again(model(masked), rows))
    return torch.cat(masked_scores).view(maps.shape[:2]).softmax(1)


@torch.no_grad()
def rise(
    model, inputs, classes=None, n_masks=2000, cells=7, seed=0, batch_size=64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps v (N, H, W), not scaled, and the classes (N,) asked about.

    n_masks: random masks, of cells x cells each, the same on every device. batch_size: masks in a pass of one
    image. Raises SaliencyError: no masks, classes out of range.
    """
    if n_masks < 1:
        raise SaliencyError(f"RISE needs a mask or more, not n_masks {n_masks}")
    scores = hooks.score_classes(model(inputs), classes)
    size = inputs.shape[2:]
    cell_size = [-(-side // cells) for side in size]  # pixels, rounded up
    full = tuple((cells + 1) * side for side in cell_size)
    generator = torch.Generator().manual_seed(seed)
    grids = (torch.rand(n_masks, cells, cells, generator=generator) < 0.5).float().to(inputs.device)
    corners = [torch.randint(0, side, (n_masks,), generator=generator) for side in cell_size]
    corners = torch.stack(corners, 1).to(inputs.device)  # (m, 2)
    total = torch.zeros(len(inputs), *size, device=inputs.device)
    for grid, corner in zip(grids.split(batch_size), corners.split(batch_size), strict=True):
        masks = upsample_maps(grid, size, corner, full)
        probabilities = []
        for row in range(len(inputs)):
            rows = torch.full((len(grid),), row)
            masked = (inputs[row] * masks[:, None]).to(inputs.dtype)
            probabilities.append(scores.again(model(masked), rows, probability=True))
        total += torch.einsum("nm,mhw->nhw", torch.stack(probabilities), masks)
    return total / (n_masks * 0.5), scores.classes
