"""Layers of networks: the last one that lies over space, and its output as feature maps (N, d, h, w)."""

import math
from typing import NamedTuple

import torch
from torch import nn

from xaihelpers.models.weights import ModelError

MAX_PREFIX_TOKENS = 8  # class and register tokens that may stand before those of the patches
PASSING_ON = (nn.Dropout, nn.Identity, nn.AdaptiveAvgPool2d)  # their maps are those of an earlier layer


def logits_of(output) -> torch.Tensor:
    """Logits (N, K) or (N, K, H, W) from whatever a model of torchvision, timm or transformers returns.

    Raises ModelError for an output that is neither.
    """
    if isinstance(output, dict) and "out" in output:  # torchvision's segmenters
        output = output["out"]
    output = getattr(output, "logits", output)
    output = output[0] if isinstance(output, tuple | list) else output
    if not torch.is_tensor(output) or output.ndim not in (2, 4):
        shape = f" {tuple(output.shape)}" if torch.is_tensor(output) else ""
        raise ModelError(
            f"the model's output ({type(output).__name__}{shape}) is neither logits (N, K) nor (N, K, H, W): "
            "give a classifier or a segmenter"
        )
    return output


def find_layer(model: nn.Module, inputs: torch.Tensor) -> str:
    """Name of the last layer whose output lies over space.

    Of a convolutional network these are the last maps before they are averaged, of a transformer the norm
    before its last attention, of a segmenter the last maps of its backbone.

    model: a classifier or a segmenter. inputs: (1, 3, H, W) or more; one image is passed through.
    Raises ModelError where there is no such layer, or where the output is no logits.
    """
    logits, finished, entered = _trace(model, inputs[:1])
    size = inputs.shape[2:]
    places = _places_over_space(finished, size, segmenter=logits.ndim == 4)
    spatial = [place for place in places if finished[place].output.ndim == 4]
    tokens = [place for place in places if finished[place].output.ndim == 3]
    if tokens and tokens[-1] > max(spatial, default=-1):
        norm = _norm_before_last_attention(model, finished, entered, tokens)
        if norm is not None:
            return norm
    if spatial:
        # One map per class is what CAM itself gives: the maps before it are wanted.
        n_classes = logits.shape[1]
        hidden = [place for place in spatial if _n_channels(finished[place].output, size) != n_classes]
        return finished[max(hidden, default=spatial[-1])].name
    raise ModelError(
        f"{type(model).__name__} has no layer whose output lies over space, (N, d, h, w) or tokens (N, T, "
        f"d), for inputs of {tuple(size)}: attention needs one; name it as layer="
    )


class _Call(NamedTuple):
    """A finished call of a module."""

    name: str
    module: nn.Module
    output: object


class _Entry(NamedTuple):
    """A module that is entered."""

    name: str
    n_finished: int  # calls that had been finished by then


def _trace(model: nn.Module, inputs: torch.Tensor) -> tuple[torch.Tensor, list[_Call], list[_Entry]]:
    """Logits, and the calls of all submodules in one forward pass, as they end and as they begin."""
    finished, entered, hooks = [], [], []

    def watch(name: str, module: nn.Module) -> None:
        def before(module, arguments):
            entered.append(_Entry(name, len(finished)))

        def after(module, arguments, output):
            first = output[0] if isinstance(output, tuple | list) and output else output
            finished.append(_Call(name, module, first))

        hooks.append(module.register_forward_pre_hook(before))
        hooks.append(module.register_forward_hook(after))

    for name, module in model.named_modules():
        if name:
            watch(name, module)
    try:
        with torch.no_grad():
            logits = logits_of(model(inputs))
    finally:
        for hook in hooks:
            hook.remove()
    return logits, finished, entered


def _places_over_space(finished: list[_Call], size, segmenter: bool) -> list[int]:
    """Positions of the calls whose output has several rows and columns; of a segmenter's backbone only."""
    has_backbone = segmenter and any(call.name.startswith("backbone.") for call in finished)
    prefix = "backbone." if has_backbone else ""
    places = []
    for place, (name, module, output) in enumerate(finished):
        if not name.startswith(prefix) or isinstance(module, PASSING_ON):
            continue
        if not torch.is_tensor(output) or output.ndim not in (3, 4):
            continue
        grid = _grid(output, size)
        if grid is not None and min(grid) > 1:
            places.append(place)
    return places


def _norm_before_last_attention(model, finished: list[_Call], entered: list[_Entry], tokens) -> str | None:
    """Name of the last norm over tokens that ends before the last attention begins; None without one."""
    modules = dict(model.named_modules())
    attentions = [entry for entry in entered if "attention" in type(modules[entry.name]).__name__.lower()]
    if not attentions:
        return None
    innermost = attentions[-1].name + "."
    # of attentions within one another the outermost
    last = next(entry for entry in attentions if innermost.startswith(entry.name + "."))
    norms = [
        place
        for place in tokens
        if place < last.n_finished and "norm" in type(finished[place].module).__name__.lower()
    ]
    return finished[norms[-1]].name if norms else None


def _channels_last(output: torch.Tensor, size) -> bool:
    """Whether 4-D maps are (N, h, w, d): which pair of axes has the aspect ratio of the inputs."""
    height, width = size
    misfit = [abs(output.shape[axis] * width - output.shape[axis + 1] * height) for axis in (1, 2)]
    return misfit[0] < misfit[1]


def _n_channels(output: torch.Tensor, size) -> int:
    return output.shape[3 if _channels_last(output, size) else 1]


def _grid(output: torch.Tensor, size) -> tuple[int, int] | None:
    """Height and width in cells of an output for inputs of `size`; None if it does not lie over space."""
    if output.ndim == 4:
        return tuple(output.shape[1:3] if _channels_last(output, size) else output.shape[2:])
    for n_prefix in range(MAX_PREFIX_TOKENS + 1):
        n_cells = output.shape[1] - n_prefix
        if n_cells < 2:
            return None
        height = round(math.sqrt(n_cells * size[0] / size[1]))
        if height == 0 or n_cells % height != 0:
            continue
        width = n_cells // height
        if abs(height * size[1] - width * size[0]) < max(size):
            return height, width
    return None


def to_feature_maps(output: torch.Tensor, size) -> torch.Tensor:
    """A layer's output as feature maps (N, d, h, w).

    output: (N, d, h, w); or (N, h, w, d); or tokens (N, T, d), whose class and register tokens are left out.
    size: height and width of the network's inputs, in pixels.
    Raises ModelError for any other output.
    """
    grid = _grid(output, size) if torch.is_tensor(output) and output.ndim in (3, 4) else None
    if grid is None or math.prod(grid) < 2:
        shape = tuple(output.shape) if torch.is_tensor(output) else type(output).__name__
        raise ModelError(
            f"the layer gives {shape}, which does not lie over space: name another one as layer="
        )
    if output.ndim == 4:
        return output.permute(0, 3, 1, 2) if _channels_last(output, size) else output
    return output[:, output.shape[1] - math.prod(grid) :].transpose(1, 2).unflatten(2, grid)
