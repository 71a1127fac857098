"""A network as attention methods see it: the layer whose maps are weighted, what that layer gives, and the score of a class."""
import contextlib
import difflib
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn


class AttendError(ValueError):
    """A model, a layer, a class or a batch that no attention map can be made of; the message names it and the remedy."""


class Scored(NamedTuple):
    """What a network says of N images."""

    logits: torch.Tensor  # (N, K), or (N, K, H, W) of a segmenter
    classes: torch.Tensor  # (N,) int64, those asked for or the predicted ones
    own: torch.Tensor | None  # (N, H, W) bool, the pixels of a segmenter's class; None of a classifier


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """All of a model in evaluation mode for a while; each module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def logits_of(output) -> torch.Tensor:
    """Logits (N, K) or (N, K, H, W) of what a model of torchvision, timm or transformers returns."""
    if isinstance(output, dict) and "out" in output:  # torchvision's segmenters
        output = output["out"]
    output = getattr(output, "logits", output)
    output = output[0] if isinstance(output, tuple | list) else output
    if not torch.is_tensor(output) or output.ndim not in (2, 4):
        raise AttendError(f"the model's output ({type(output).__name__}{f' {tuple(output.shape)}' if torch.is_tensor(output) else ''}) is neither logits (N, K) nor (N, K, H, W): attend to a classifier or a segmenter")
    return output


def scored(output, classes: torch.Tensor | None = None, background: int = 0) -> Scored:
    """Logits with the classes (N,) asked for, by default the predicted ones: the likest, or, of a segmenter, the one with most pixels, `background` only where there is nothing else."""
    logits = logits_of(output)
    count = logits.shape[1]
    labels = logits.argmax(1) if logits.ndim == 4 else None  # (N, H, W)
    if classes is None and labels is None:
        classes = logits.argmax(1)
    elif classes is None:
        flat = labels.flatten(1)
        pixels = torch.zeros(len(flat), count, device=flat.device).scatter_add_(1, flat, torch.ones_like(flat, dtype=torch.float32))  # (N, K)
        if 0 <= background < count:
            pixels[:, background] = -1
        classes = pixels.argmax(1)
        classes = torch.where(pixels.gather(1, classes[:, None])[:, 0] > 0, classes, background)
    classes = torch.as_tensor(classes, device=logits.device).long()
    if classes.shape != logits.shape[:1] or (len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < count):
        raise AttendError(f"classes must be {len(logits)} numbers in 0..{count - 1}, one an image; got {classes.tolist()[:8]}")
    return Scored(logits, classes, None if labels is None else labels == classes[:, None, None])


def class_scores(logits: torch.Tensor, classes: torch.Tensor, own: torch.Tensor | None = None, probability: bool = False) -> torch.Tensor:
    """The score of each image's class, (N,): its logit or probability; of a segmenter the mean over its own pixels (N, H, W), 0 where it has none."""
    values = logits.float()
    values = values.softmax(1) if probability else values
    values = values[torch.arange(len(values), device=values.device), classes]  # (N,) or (N, H, W)
    return values if own is None else (values * own).sum((1, 2)) / own.sum((1, 2)).clamp(min=1)


def find_layer(model: nn.Module, inputs: torch.Tensor) -> str:
    """The last layer that gives maps over space: of a convolutional network the last maps before they are averaged, of a transformer the norm before its last attention, of a segmenter the last maps of its backbone.

    inputs: (1, 3, H, W) or more. Raises AttendError where there is none.
    """
    done, begun, hooks = [], [], []
    for name, module in model.named_modules():
        if name:
            hooks += [module.register_forward_pre_hook(lambda module, _, name=name: begun.append((name, len(done)))),
                      module.register_forward_hook(lambda module, _, output, name=name: done.append((name, module, output[0] if isinstance(output, tuple | list) and output else output)))]
    try:
        with torch.no_grad():
            logits = logits_of(model(inputs[:1]))
    finally:
        for hook in hooks:
            hook.remove()
    size, inside = inputs.shape[2:], "backbone." if logits.ndim == 4 and any(name.startswith("backbone.") for name, *_ in done) else ""
    same = nn.Dropout | nn.Identity | nn.AdaptiveAvgPool2d  # the same maps under another name
    over_space = {i: row for i, row in enumerate(done) if row[0].startswith(inside) and not isinstance(row[1], same) and torch.is_tensor(row[2]) and row[2].ndim in (3, 4) and min(_grid(row[2], size) or (0,)) > 1}
    spatial, tokens = ([i for i, row in over_space.items() if row[2].ndim == n] for n in (4, 3))
    modules = dict(model.named_modules())
    attentions = [(name, place) for name, place in begun if "attention" in type(modules[name]).__name__.lower()]
    if tokens and attentions and tokens[-1] > max(spatial, default=-1):
        last = next(row for row in attentions if (attentions[-1][0] + ".").startswith(row[0] + "."))  # the outermost, of one within another
        if norms := [i for i in tokens if i < last[1] and "norm" in type(done[i][1]).__name__.lower()]:
            return done[norms[-1]][0]
    if spatial:  # a map for each class is what CAM itself gives; those before it are asked for
        return done[max([i for i in spatial if done[i][2].shape[3 if _last(done[i][2], size) else 1] != logits.shape[1]], default=spatial[-1])][0]
    raise AttendError(f"{type(model).__name__} has no layer whose output lies over space, (N, d, h, w) or tokens (N, T, d), for inputs of {tuple(size)}: attention needs one; name it as layer=")


def _last(output, size):
    """Whether maps (4-D) keep their channels last."""
    fits = [abs(output.shape[a] * size[1] - output.shape[a + 1] * size[0]) for a in (1, 2)]  # h / w as of the input
    return fits[0] < fits[1]


def _grid(output, size) -> tuple[int, int] | None:
    """Height and width of what a layer gives for inputs of `size`; None where it does not lie over space."""
    if output.ndim == 4:
        return tuple(output.shape[1:3] if _last(output, size) else output.shape[2:])
    for prefix in range(9):  # class and register tokens come first
        h = math.sqrt((output.shape[1] - prefix) * size[0] / size[1]) if output.shape[1] > prefix + 1 else 0
        if h and (h := round(h)) and (output.shape[1] - prefix) % h == 0 and abs(h * size[1] - (output.shape[1] - prefix) // h * size[0]) < max(size):
            return h, (output.shape[1] - prefix) // h
    return None


def as_maps(output: torch.Tensor, size) -> torch.Tensor:
    """A layer's output as maps (N, d, h, w): (N, d, h, w) itself, (N, h, w, d), or tokens (N, T, d) without class and register tokens. Raises AttendError for any other."""
    grid = _grid(output, size) if torch.is_tensor(output) and output.ndim in (3, 4) else None
    if not grid or math.prod(grid) < 2:
        shape = tuple(output.shape) if torch.is_tensor(output) else type(output).__name__
        raise AttendError(f"the layer gives {shape}, which does not lie over space: name another one as layer=")
    if output.ndim == 4:
        return output.permute(0, 3, 1, 2) if _last(output, size) else output
    return output[:, output.shape[1] - math.prod(grid):].transpose(1, 2).unflatten(2, grid)


def observe(model: nn.Module, inputs: torch.Tensor, layer: str, classes: torch.Tensor | None = None, background: int = 0, gradients: bool = True):
    """(Scored, maps (N, d, h, w), gradients of the class's score by them or None) of a batch.

    Nothing is recorded before the layer, so the backward pass costs only what lies behind it. Raises AttendError: no such layer, one that is not used, NaN or infinite maps or gradients.
    """
    modules = dict(model.named_modules())
    if layer not in modules or not layer:
        near = difflib.get_close_matches(layer, modules, 3) or [name for name, _ in model.named_children()]
        raise AttendError(f"{type(model).__name__} has no layer {layer!r}: try {', '.join(near)}")
    caught = {}

    def catch(module, arguments, output):
        first = output[0] if isinstance(output, tuple | list) else output
        if not gradients:
            caught["output"] = first.detach().clone()  # later layers may write into it
            return None
        leaf = caught["output"] = first.detach().requires_grad_()
        torch.set_grad_enabled(True)  # from here on; the caller's setting comes back below
        again = leaf.clone()  # what later layers may write into
        return type(output)([again, *output[1:]]) if isinstance(output, tuple | list) else again

    hook = modules[layer].register_forward_hook(catch)
    try:
        with torch.inference_mode(False), torch.no_grad():
            found = scored(model(inputs), classes, background)
            if "output" not in caught:
                raise AttendError(f"the layer {layer!r} is not used when the network runs: name another one")
            slopes = None
            if gradients:
                with torch.enable_grad():
                    slopes, = torch.autograd.grad(class_scores(*found).sum(), caught["output"], allow_unused=True)
                if slopes is None:
                    raise AttendError(f"the score does not depend on the layer {layer!r}: name another one")
    finally:
        hook.remove()
    maps = as_maps(caught["output"].detach(), inputs.shape[2:])
    slopes = None if slopes is None else as_maps(slopes, inputs.shape[2:])
    for what, values in (("maps", maps), ("gradients", slopes)):
        if values is not None and len(bad := (~values.sum((1, 2, 3)).isfinite()).nonzero()):
            raise AttendError(f"the {what} of image {int(bad[0])} at layer {layer!r} are NaN or infinite ({len(bad)} of {len(values)} images): check the inputs, or run the network in float32")
    return found._replace(logits=found.logits.detach()), maps.float(), None if slopes is None else slopes.float()


def class_weights(model: nn.Module, maps: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Weights (K, d) of the linear layer that makes logits (N, K) of the maps' (N, d, h, w) means, which CAM needs; of a segmenter those of its last 1 x 1 convolution.

    Raises AttendError where there is none, or where something lies between (a norm, another layer): CAM is not defined there.
    """
    kind, rest = (nn.Linear, ()) if logits.ndim == 2 else (nn.Conv2d, (1, 1))
    for module in reversed(list(model.modules())):
        if isinstance(module, kind) and module.weight.shape == (logits.shape[1], maps.shape[1], *rest):
            weights = module.weight.detach().flatten(1)
            made = maps.mean((2, 3)) @ weights.T + (0 if module.bias is None else module.bias)
            if logits.ndim == 4 or (made - logits).abs().max() <= 1e-2 * logits.abs().max():
                return weights
    raise AttendError(f"{type(model).__name__} does not make its {logits.shape[1]} logits of the means of these {maps.shape[1]} maps by a linear layer, which CAM needs: choose gradcam, or another layer")
