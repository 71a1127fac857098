"""Layers of networks: the last one that lies over space, by name, and its output as maps (N, d, h, w)."""

import difflib
import math

import torch
from torch import nn

from xaihelpers.models.weights import ModelError

MAX_PREFIX_TOKENS = 8  # class and register tokens that may stand before those of the patches
# Of transformers: the list of their blocks, which block, and its norm. Behind the last attention only the
# class token counts, so the norm before it is taken.
BLOCKS = (
    ("transformer.resblocks", -2, "ln_2"),  # open_clip
    ("encoder.layers", -1, "ln_1"),  # torchvision
    ("blocks", -1, "norm1"),  # timm
)
# Of the others: the last maps before they are averaged, by the names that libraries give them; the first of
# these that a network has.
LAST_MAPS = (
    "reader.maps",  # a reader of attributes as a classifier
    "features.stage4",  # pytorchcv
    "permute",  # Swin of torchvision
    "layer4",  # ResNets
    "features",  # most of torchvision
    "trunk_output",  # RegNet
    "Mixed_7c",  # Inception
    "inception5b",  # GoogLeNet
    "conv5",  # ShuffleNet
    "norm",  # Swin of timm
    "layers",  # MNASNet
    "bn2",  # EfficientNet of timm
    "stages",  # ConvNeXt, RegNet, ResNets of CLIP in timm
    "blocks",  # MobileNet of timm, MaxViT
)
INSIDE = ("backbone", "tower", "trunk")  # of a segmenter and of a tower: the network that has the maps


def logits_of(output) -> torch.Tensor:
    """Logits (N, K) or (N, K, H, W) from whatever a model of torchvision, timm or transformers returns.

    Raises ModelError for an output that is neither.
    """
    if isinstance(output, dict) and "out" in output:  # torchvision's segmenters
        output = output["out"]
    output = getattr(output, "logits", output)
    output = output[0] if isinstance(output, tuple | list) else output
    if not torch.is_tensor(output) or output.ndim not in (2, 4):
        raise ModelError(
            f"the model's output ({_described(output)}) is neither logits (N, K) nor (N, K, H, W): give a "
            "classifier or a segmenter"
        )
    return output


def _described(output) -> str:
    return str(tuple(output.shape)) if torch.is_tensor(output) else type(output).__name__


def find_layer(model: nn.Module) -> str:
    """Name of a network's last layer that lies over space, by the tables above.

    Raises ModelError for a network that they do not know.
    """
    modules = dict(model.named_modules())
    for inside in INSIDE:
        if inside in modules:
            return f"{inside}.{find_layer(modules[inside])}"
    for name, number, norm in BLOCKS:
        if name in modules and hasattr(modules[name][number], norm):
            return f"{name}.{_child(modules[name], number)}.{norm}"
    for name in LAST_MAPS:
        if name in modules:
            is_list = isinstance(modules[name], nn.ModuleList)  # which is never called itself
            return f"{name}.{_child(modules[name], -1)}" if is_list else name
    if isinstance(model, nn.ModuleDict):  # the stages of a segmenter's backbone
        return _child(model, -1)
    raise ModelError(
        f"{type(model).__name__} has no layer whose output lies over space that is known here by its name: "
        f"name it as layer=, one of {', '.join([*modules][-8:])} or before"
    )


def _child(modules: nn.Module, number: int) -> str:
    return list(dict(modules.named_children()))[number]


def submodule(model: nn.Module, name: str) -> nn.Module:
    """A submodule by name. Raises ModelError for an unknown one, with the nearest."""
    modules = dict(model.named_modules())
    if not name or name not in modules:
        nearest = difflib.get_close_matches(name, modules, 3)
        nearest = nearest or [child for child, _ in model.named_children()]
        raise ModelError(f"The network has no layer {name!r}: try {', '.join(nearest)}.")
    return modules[name]


def layer_output(model: nn.Module, layer: str, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a layer gives, as maps (N, d, h, w), and the network's logits, by one forward pass.

    Raises ModelError: a layer that the network does not have, does not use, or that does not lie over space;
        an output that is no logits.
    """
    captured = []  # copies, since later layers may write into the tensor

    def capture(module, arguments, output):
        first = output[0] if isinstance(output, tuple | list) else output
        captured.append(first.clone())

    hook = submodule(model, layer).register_forward_hook(capture)
    try:
        logits = logits_of(model(inputs.contiguous(memory_format=torch.channels_last)))
    finally:
        hook.remove()
    if not captured:
        raise ModelError(f"Layer {layer!r} is not used when the network runs: name another one as layer=.")
    output = captured[-1]
    if layer == "features" and type(model).__name__ == "DenseNet":
        output = output.relu()  # torchvision's has this ReLU in no module
    return to_feature_maps(output, inputs.shape[2:]), logits


def _channels_last(output: torch.Tensor, size) -> bool:
    """Whether 4-D maps are (N, h, w, d): which pair of axes has the aspect ratio of the inputs."""
    height, width = size
    misfit = [abs(output.shape[axis] * width - output.shape[axis + 1] * height) for axis in (1, 2)]
    return misfit[0] < misfit[1]


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
        raise ModelError(
            f"the layer gives {_described(output)}, which does not lie over space: name another one as layer="
        )
    if output.ndim == 4:
        return output.permute(0, 3, 1, 2) if _channels_last(output, size) else output
    return output[:, output.shape[1] - math.prod(grid) :].transpose(1, 2).unflatten(2, grid)
