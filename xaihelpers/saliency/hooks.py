"""A network as attention methods see it: a layer's maps, a class's score, and the gradients between them.

A    maps               (N, d, h, w)
G    gradients          (N, d, h, w)  dS_c / dA
S_c  class_scores(...)  (N,)          of a classifier its logit, of a segmenter the mean of its logits
                                      over the pixels that are predicted to be of the class
c    classes            (N,)
"""

import math
from typing import NamedTuple

import torch
from torch import nn

from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.layers import logits_of, submodule, to_feature_maps


class SaliencyError(ValueError):
    """A model, a layer, a class or a batch that has no attention map; the message names it and the remedy."""


def network_inputs(network: ImageNetwork, pixels: torch.Tensor) -> torch.Tensor:
    """Pixels (N, 3, H, W) uint8 as a network takes them, on its device."""
    return network.normalised(pixels.to(next(network.model.parameters()).device))


class ClassScores(NamedTuple):
    """Logits of N images, and the class that each image's score is of."""

    logits: torch.Tensor  # (N, K), or (N, K, H, W) of a segmenter
    classes: torch.Tensor  # (N,) int64, those asked for or the predicted ones
    class_pixels: torch.Tensor  # (N, H W) bool, which the score is the mean over; (N, 1) of a classifier

    def again(self, output, rows: torch.Tensor, probability: bool = False) -> torch.Tensor:
        """Scores (n,) of the same classes, over the same pixels, for changed images of these rows (n,)."""
        return class_scores(logits_of(output), self.classes[rows], self.class_pixels[rows], probability)


def score_classes(output, classes=None, all_pixels: bool = False) -> ClassScores:
    """Logits with the classes asked for, by default the predicted ones.

    classes: (N,); None takes the class of the largest logit, of a segmenter the class with most pixels,
        the background, class 0, only where there is nothing else.
    all_pixels: of a segmenter, `class_pixels` are all pixels, as in the authors' code, and not those that
        are predicted to be of the class.
    Raises SaliencyError for classes that are not one per image or out of range.
    """
    logits = logits_of(output)
    n_images, n_classes = logits.shape[:2]
    labels = logits.argmax(1).reshape(n_images, math.prod(logits.shape[2:]))  # (N, H W), or (N, 1)
    if classes is None:
        counts = torch.zeros(n_images, n_classes, device=labels.device)
        counts = counts.scatter_add(1, labels, torch.ones_like(labels, dtype=counts.dtype))
        counts[:, 0] = 0.5  # the background's: less than one pixel, more than none
        classes = counts.argmax(1)
    classes = torch.as_tensor(classes, device=logits.device).long()
    if classes.shape != (n_images,) or not ((classes >= 0) & (classes < n_classes)).all():
        raise SaliencyError(
            f"classes must be {n_images} numbers in 0..{n_classes - 1}, one per image; got "
            f"{classes.tolist()[:8]}"
        )
    class_pixels = (labels == classes[:, None]) | all_pixels | (logits.ndim == 2)
    return ClassScores(logits, classes, class_pixels)


def class_scores(logits, classes, class_pixels, probability: bool = False) -> torch.Tensor:
    """The score of each image's class, (N,): its logit or probability, of a segmenter the mean over pixels.

    All as of `ClassScores`; the score is 0 where there are no pixels.
    """
    values = logits.float().softmax(1) if probability else logits.float()
    values = values[torch.arange(len(values), device=values.device), classes].reshape(class_pixels.shape)
    return (values * class_pixels).sum(1) / class_pixels.sum(1).clamp(min=1)


def activations_and_gradients(
    model: nn.Module, inputs: torch.Tensor, layer: str, classes=None, all_pixels: bool = False
) -> tuple[ClassScores, torch.Tensor, torch.Tensor]:
    """Scores, a layer's maps (N, d, h, w), and the gradients of the scores by them (N, d, h, w), of a batch.

    model: a classifier or a segmenter; it is put into evaluation mode. classes, all_pixels: as of
    `score_classes`.
    Raises SaliencyError: a layer that is not used or that the score does not depend on, maps that are not
        finite, classes out of range; ModelError: no such layer, one that does not lie over space.
    """
    leaf = gradients = None  # nothing is recorded before the leaf

    def catch(module, arguments, output):
        nonlocal leaf
        is_tensor = torch.is_tensor(output)
        leaf = (output if is_tensor else output[0]).detach().clone().requires_grad_()
        torch.set_grad_enabled(True)  # from here on; the caller's setting comes back below
        passed_on = leaf.clone()  # later layers may write into this one
        return passed_on if is_tensor else type(output)([passed_on, *output[1:]])

    hook = submodule(model.eval(), layer).register_forward_hook(catch)
    try:
        with torch.inference_mode(False), torch.no_grad():
            scores = score_classes(model(inputs), classes, all_pixels)
            total = class_scores(*scores).sum()
            if total.requires_grad:
                (gradients,) = torch.autograd.grad(total, leaf, allow_unused=True)
    finally:
        hook.remove()
    if gradients is None:
        why = "is not used when the network runs" if leaf is None else "does not change the score"
        raise SaliencyError(f"the layer {layer!r} {why}: name another one")
    maps, gradients = (to_feature_maps(one, inputs.shape[2:]).float() for one in (leaf.detach(), gradients))
    require_finite(maps, f"the maps at layer {layer!r}")
    return scores._replace(logits=scores.logits.detach()), maps, gradients


def require_finite(values: torch.Tensor, what: str) -> None:
    """Raise SaliencyError for values (N, ...) that are NaN or infinite, naming the first image."""
    bad = (~values.flatten(1).sum(1).isfinite()).nonzero()
    if len(bad):
        raise SaliencyError(
            f"{what} are NaN or infinite in image {int(bad[0])} ({len(bad)} of {len(values)} images): check "
            "the inputs, or run the network in float32"
        )


def class_weights(model: nn.Module, maps: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Weights (K, d) of the linear layer between the means of the maps and the logits, which CAM needs.

    Of a segmenter they are the weights of its last 1 x 1 convolution. Raises SaliencyError where there is no
    such layer, or where something lies between the means and the logits (a norm, another layer).
    """
    shape = (logits.shape[1], maps.shape[1], *([] if logits.ndim == 2 else [1, 1]))
    for module in reversed(list(model.modules())):
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.shape == shape:
            weights = module.weight.detach().flatten(1)  # (K, d)
            rebuilt = nn.functional.linear(maps.mean((2, 3)), weights, module.bias)
            if logits.ndim == 4 or (rebuilt - logits).abs().max() <= 1e-2 * logits.abs().max():
                return weights
    raise SaliencyError(
        f"{type(model).__name__} does not make its {logits.shape[1]} logits of the means of these "
        f"{maps.shape[1]} maps by a linear layer, which CAM needs: choose gradcam, or another layer"
    )
