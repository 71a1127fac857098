"""A network as attention methods see it: a layer's maps, a class's score, and the gradients between them.

The score S_c of class c is, of a classifier, its logit; of a segmenter, the mean of its logits over the
pixels that are predicted to be of the class. The gradients are G = dS_c / dA.

    A    maps               (N, d, h, w)
    G    gradients          (N, d, h, w)
    S_c  class_scores(...)  (N,)
    c    classes            (N,)
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from xaihelpers.models.layers import logits_of, submodule, to_feature_maps


class SaliencyError(ValueError):
    """A model, a layer, a class or a batch that has no attention map; the message names it and the remedy."""


class ClassScores(NamedTuple):
    """Logits of N images, and the class that each image's score is of."""

    logits: torch.Tensor  # (N, K), or (N, K, H, W) of a segmenter
    classes: torch.Tensor  # (N,) int64, those asked for or the predicted ones
    # (N, H, W) bool, the pixels that a segmenter's score is the mean over; None for a classifier
    class_pixels: torch.Tensor | None


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put all of a model into evaluation mode for a while; each module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def score_classes(
    output, classes: torch.Tensor | None = None, background: int = 0, all_pixels: bool = False
) -> ClassScores:
    """Logits with the classes asked for, by default the predicted ones.

    output: what a classifier or a segmenter returns.
    classes: (N,); None takes the class of the largest logit, of a segmenter the class with most pixels,
        `background` only where there is nothing else.
    all_pixels: of a segmenter, `class_pixels` are all pixels, as in the authors' code, and not those that
        are predicted to be of the class.
    Raises SaliencyError for classes that are not one per image or out of range; ModelError for an output that
        is no logits.
    """
    logits = logits_of(output)
    n_classes = logits.shape[1]
    labels = logits.argmax(1) if logits.ndim == 4 else None  # (N, H, W)
    if classes is None:
        classes = logits.argmax(1) if labels is None else _most_frequent(labels, n_classes, background)
    classes = torch.as_tensor(classes, device=logits.device).long()
    in_range = len(classes) == 0 or 0 <= int(classes.min()) <= int(classes.max()) < n_classes
    if classes.shape != logits.shape[:1] or not in_range:
        raise SaliencyError(
            f"classes must be {len(logits)} numbers in 0..{n_classes - 1}, one per image; got "
            f"{classes.tolist()[:8]}"
        )
    class_pixels = None if labels is None else (labels == classes[:, None, None]) | all_pixels
    return ClassScores(logits, classes, class_pixels)


def _most_frequent(labels: torch.Tensor, n_classes: int, background: int) -> torch.Tensor:
    """The class with most pixels in labels (N, H, W), (N,) int64; `background` only where it is alone."""
    flat = labels.flatten(1)
    ones = torch.ones_like(flat, dtype=torch.float32)
    counts = torch.zeros(len(flat), n_classes, device=flat.device).scatter_add_(1, flat, ones)  # (N, K)
    if 0 <= background < n_classes:
        counts[:, background] = -1
    classes = counts.argmax(1)
    present = counts.gather(1, classes[:, None])[:, 0] > 0
    return torch.where(present, classes, background)


def class_scores(
    logits: torch.Tensor,
    classes: torch.Tensor,
    class_pixels: torch.Tensor | None = None,
    probability: bool = False,
) -> torch.Tensor:
    """The score of each image's class, (N,): its logit, or its probability.

    logits: (N, K), or (N, K, H, W) of a segmenter.
    class_pixels: (N, H, W) bool, over which a segmenter's score is the mean; it is 0 where there are none.
    """
    values = logits.float()
    values = values.softmax(1) if probability else values
    values = values[torch.arange(len(values), device=values.device), classes]  # (N,) or (N, H, W)
    if class_pixels is None:
        return values
    return (values * class_pixels).sum((1, 2)) / class_pixels.sum((1, 2)).clamp(min=1)


def activations_and_gradients(
    model: nn.Module,
    inputs: torch.Tensor,
    layer: str,
    classes: torch.Tensor | None = None,
    background: int = 0,
    with_gradients: bool = True,
    all_pixels: bool = False,
) -> tuple[ClassScores, torch.Tensor, torch.Tensor | None]:
    """Scores, a layer's maps (N, d, h, w), and the gradients of the scores by them (N, d, h, w), of a batch.

    Nothing is recorded before the layer, so the backward pass costs only what lies behind it.

    inputs: (N, 3, H, W), on the model's device. classes, background, all_pixels: as of `score_classes`.
    with_gradients: False gives None in the place of the gradients.
    Raises SaliencyError: a layer that is not used or that the score does not depend on, classes out of
        range, NaN or infinite maps or gradients; ModelError: no such layer, one that does not lie over space,
        an output that is no logits.
    """
    module = submodule(model, layer)
    caught = {}

    def catch(module, arguments, output):
        first = output[0] if isinstance(output, tuple | list) else output
        if not with_gradients:
            caught["maps"] = first.detach().clone()  # later layers may write into it
            return None
        leaf = caught["maps"] = first.detach().requires_grad_()
        torch.set_grad_enabled(True)  # from here on; the caller's setting comes back below
        passed_on = leaf.clone()  # later layers may write into this one
        return type(output)([passed_on, *output[1:]]) if isinstance(output, tuple | list) else passed_on

    gradients = None
    hook = module.register_forward_hook(catch)
    try:
        with torch.inference_mode(False), torch.no_grad():
            scores = score_classes(model(inputs), classes, background, all_pixels)
            if "maps" not in caught:
                raise SaliencyError(
                    f"the layer {layer!r} is not used when the network runs: name another one"
                )
            if with_gradients:
                gradients = _gradients(scores, caught["maps"], layer)
    finally:
        hook.remove()
    maps = to_feature_maps(caught["maps"].detach(), inputs.shape[2:])
    _require_finite(maps, "maps", layer)
    if gradients is not None:
        gradients = to_feature_maps(gradients, inputs.shape[2:])
        _require_finite(gradients, "gradients", layer)
        gradients = gradients.float()
    return scores._replace(logits=scores.logits.detach()), maps.float(), gradients


def _gradients(scores: ClassScores, activations: torch.Tensor, layer: str) -> torch.Tensor:
    with torch.enable_grad():
        total = class_scores(*scores).sum()
        (gradients,) = torch.autograd.grad(total, activations, allow_unused=True)
    if gradients is None:
        raise SaliencyError(f"the score does not depend on the layer {layer!r}: name another one")
    return gradients


def _require_finite(values: torch.Tensor, what: str, layer: str) -> None:
    """Raise SaliencyError for values (N, d, h, w) that are NaN or infinite, naming the first image."""
    bad = (~values.sum((1, 2, 3)).isfinite()).nonzero()
    if len(bad):
        raise SaliencyError(
            f"the {what} of image {int(bad[0])} at layer {layer!r} are NaN or infinite "
            f"({len(bad)} of {len(values)} images): check the inputs, or run the network in float32"
        )


def class_weights(model: nn.Module, maps: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Weights (K, d) of the linear layer between the means of the maps and the logits, which CAM needs.

    Of a segmenter they are the weights of its last 1 x 1 convolution.

    maps: (N, d, h, w). logits: (N, K), or (N, K, H, W) of a segmenter.
    Raises SaliencyError where there is no such layer, or where something lies between the means and the
        logits (a norm, another layer): CAM is not defined there.
    """
    layer_type, kernel = (nn.Linear, ()) if logits.ndim == 2 else (nn.Conv2d, (1, 1))
    shape = (logits.shape[1], maps.shape[1], *kernel)
    for module in reversed(list(model.modules())):
        if not isinstance(module, layer_type) or module.weight.shape != shape:
            continue
        weights = module.weight.detach().flatten(1)  # (K, d)
        if logits.ndim == 4:
            return weights
        rebuilt = maps.mean((2, 3)) @ weights.T + (0 if module.bias is None else module.bias)
        if (rebuilt - logits).abs().max() <= 1e-2 * logits.abs().max():
            return weights
    raise SaliencyError(
        f"{type(model).__name__} does not make its {logits.shape[1]} logits of the means of these "
        f"{maps.shape[1]} maps by a linear layer, which CAM needs: choose gradcam, or another layer"
    )
