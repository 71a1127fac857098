"""Attention maps of classifiers and segmenters by eight methods, whole batches at once, on the model's device (autoxplain, section 2)."""
from typing import NamedTuple

import torch
from torch import nn

from ..backbones import Backbone
from ..kernels.masking import mask_images, upsample_maps
from .networks import AttendError, Scored, class_scores, class_weights, evaluating, find_layer, logits_of, observe, scored

METHODS = ("cam", "gradcam", "gradcam++", "layercam", "scorecam", "eigencam", "xgradcam", "rise")


class Attention(NamedTuple):
    """Where a network looks, for N images."""

    maps: torch.Tensor  # (N, h, w) float32 in [0, 1], of the layer's resolution; RISE's of the images'
    classes: torch.Tensor  # (N,) int64, the classes asked about
    constant: torch.Tensor  # (N,) bool, images of which a method says nothing: one value everywhere, shown as 0


def attend(model: nn.Module, inputs: torch.Tensor, method: str = "gradcam", classes=None, layer: str = "", batch_size: int = 64, background: int = 0, n_masks: int = 2000, cells: int = 7, keep: float = 0.5, seed: int = 0) -> Attention:
    """Attention maps of images, scaled to [0, 1] each.

    model: a classifier or a segmenter, (N, 3, H, W) -> (N, K) or (N, K, H, W), or a Backbone. inputs: (N, 3, H, W) float, normalised, on its device. method: one of METHODS. classes: (N,), by default those
    predicted. layer: a submodule's name; "" finds the last that lies over space. background: a segmenter's class that is not predicted. n_masks, cells, keep, seed: RISE's masks, of cells x cells, each kept with probability `keep`.
    A segmenter's CAM needs the layer before its last 1 x 1 convolution. Raises AttendError: an unknown method or class, no such layer or none over space, NaN maps or gradients, a model for which CAM is not defined.
    """
    if isinstance(model, Backbone):  # its layer may be a side of a module, which cannot be weighed
        model, layer = model.model, layer or (model.layer if model.layer in dict(model.model.named_modules()) else "")
    if method not in METHODS:
        raise AttendError(f"unknown method {method!r}: there are {', '.join(METHODS)}")
    if inputs.ndim != 4 or not inputs.is_floating_point() or not len(inputs):
        raise AttendError(f"inputs must be floating point (N, 3, H, W) with one image or more, got {inputs.dtype} {tuple(inputs.shape)}")
    classes = None if classes is None else torch.as_tensor(classes, device=inputs.device)
    parts = []
    with evaluating(model):
        layer = layer or ("" if method == "rise" else find_layer(model, inputs))
        for start in range(0, len(inputs), batch_size):
            part, wanted = inputs[start:start + batch_size], None if classes is None else classes[start:start + batch_size]
            if method == "rise":
                parts.append(_rise(model, part, wanted, background, n_masks, cells, keep, seed, batch_size))
                continue
            found, maps, slopes = observe(model, part, layer, wanted, background, gradients=method in ("gradcam", "gradcam++", "layercam", "xgradcam"))
            weights = class_weights(model, maps, found.logits)[found.classes] if method == "cam" else _scorecam(model, part, found, maps, batch_size) if method == "scorecam" else None
            parts.append((weigh(method, maps, slopes, weights), found.classes))
    raw, classes = torch.cat([maps for maps, _ in parts]), torch.cat([which for _, which in parts])
    if len(bad := (~raw.isfinite()).flatten(1).any(1).nonzero()):
        raise AttendError(f"the map of image {int(bad[0])} by {method} is NaN or infinite ({len(bad)} of {len(raw)} images): check the inputs, or run the network in float32")
    maps, constant = _scaled(raw)
    return Attention(maps, classes, constant)


def weigh(method: str, maps: torch.Tensor, slopes: torch.Tensor | None = None, weights: torch.Tensor | None = None) -> torch.Tensor:
    """The weighted sum of maps A (N, d, h, w) that a method is, (N, h, w), not scaled; slopes G: dS/dA; weights (N, d), of CAM and Score-CAM.

    Grad-CAM: mean of G. Grad-CAM++: sum of relu(G) G^2 / (2 G^2 + sum(A) G^3). XGrad-CAM: sum(G A) / sum(A). LayerCAM: relu(G) A, cell by cell. EigenCAM: projection on the first principal component.
    Of all but CAM what is negative is cut off.
    """
    if method == "eigencam":
        return _principal(maps).relu()
    if method == "layercam":
        return (slopes.relu() * maps).sum(1).relu()
    if method == "gradcam":
        weights = slopes.mean((2, 3))
    elif method == "gradcam++":
        share = slopes**2 / (2 * slopes**2 + maps.sum((2, 3), keepdim=True) * slopes**3 + 1e-6)
        weights = (slopes.relu() * torch.where(slopes != 0, share, 0)).sum((2, 3))
    elif method == "xgradcam":
        weights = (slopes * maps).sum((2, 3)) / (maps.sum((2, 3)) + 1e-7)
    found = torch.einsum("nd,ndhw->nhw", weights, maps)
    return found if method == "cam" else found.relu()


def _principal(maps: torch.Tensor) -> torch.Tensor:
    """Each cell's place along the first principal component of an image's cells, (N, h, w), turned so that more activation is more."""
    cells = maps.flatten(2).transpose(1, 2).double()  # (N, hw, d)
    centred = cells - cells.mean(1, keepdim=True)
    count, each = centred.shape[1:]
    if min(count, each) > 1024:  # two thin products a step instead of a Gram matrix
        axis = torch.ones(len(centred), each, 1, dtype=centred.dtype, device=centred.device) / each
        for _ in range(200):
            axis = torch.nn.functional.normalize(centred.mT @ (centred @ axis), dim=1)
        along = (centred @ axis)[:, :, 0]
    elif each <= count:
        along = (centred @ torch.linalg.eigh(centred.mT @ centred)[1][:, :, -1:])[:, :, 0]
    else:
        values, vectors = torch.linalg.eigh(centred @ centred.mT)
        along = vectors[:, :, -1] * values[:, -1:].clamp(min=0).sqrt()
    sign = (along * (cells.mean(2) - cells.mean((1, 2))[:, None])).sum(1, keepdim=True).sign()
    return (along * torch.where(sign == 0, 1, sign)).unflatten(1, maps.shape[2:]).float()


def _scaled(maps):
    """Maps (..., h, w) in [0, 1] each, and which of them are constant (...), whose map is 0."""
    low, high = maps.amin((-2, -1), keepdim=True), maps.amax((-2, -1), keepdim=True)
    constant = high <= low
    return (maps - low) / torch.where(constant, 1, high - low), constant[..., 0, 0]


@torch.no_grad()
def _scorecam(model, inputs, found: Scored, maps, batch_size) -> torch.Tensor:
    """Weights (N, d): softmax over the maps of the class's score for the image seen through each of them."""
    count, each = maps.shape[:2]
    through, rows = _scaled(maps)[0].flatten(0, 1), torch.arange(count, device=maps.device).repeat_interleave(each)
    values = []
    for part in torch.arange(count * each, device=maps.device).split(batch_size):
        seen, of = mask_images(inputs, through[part], rows[part], alpha=None), rows[part]
        values.append(class_scores(logits_of(model(seen)), found.classes[of], None if found.own is None else found.own[of]))
    return torch.cat(values).unflatten(0, (count, each)).softmax(1)


@torch.no_grad()
def _rise(model, inputs, classes, background, n_masks, cells, keep, seed, batch_size):
    """Mean of random masks, weighted by the probability that the class keeps under them: maps (N, H, W) and classes."""
    if n_masks < 1 or cells < 1 or not 0 < keep < 1:
        raise AttendError(f"RISE needs one mask or more of one cell or more, and keep between 0 and 1; got n_masks {n_masks}, cells {cells}, keep {keep}")
    found = scored(model(inputs), classes, background)
    size = inputs.shape[2:]
    cell = [-(-side // cells) for side in size]  # pixels of a cell, rounded up
    full = tuple((cells + 1) * side for side in cell)
    made = torch.Generator().manual_seed(seed)  # the same masks wherever it runs
    grids = (torch.rand(n_masks, cells, cells, generator=made) < keep).float().to(inputs.device)
    corners = torch.stack([torch.randint(0, side, (n_masks,), generator=made) for side in cell], 1).to(inputs.device)
    total = torch.zeros(len(inputs), *size, device=inputs.device)
    for part in torch.arange(n_masks, device=inputs.device).split(batch_size):
        masks = upsample_maps(grids[part], size, corners[part], full)  # (m, H, W), those of one pass
        values = []
        for n in range(len(inputs)):
            own = None if found.own is None else found.own[n].expand(len(part), -1, -1)
            values.append(class_scores(logits_of(model(_seen_through(inputs[n], masks, grids[part], corners[part], full))), found.classes[n].expand(len(part)), own, probability=True))
        total += torch.einsum("nm,mhw->nhw", torch.stack(values), masks)
    return total / (n_masks * keep), found.classes


def _seen_through(image, masks, grids, corners, full):
    """One image (3, H, W) through each mask, (m, 3, H, W): on a GPU by the kernel, from the grids; elsewhere by the masks that are there already."""
    if image.is_cuda:
        return mask_images(image[None], grids, torch.zeros(len(grids), dtype=torch.int64), alpha=None, corners=corners, full=full)
    return image * masks[:, None]
