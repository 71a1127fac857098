"""A backbone: a network, its preprocessing, and the layer whose maps are averaged, f(X) = GAP(E)."""

import difflib
from dataclasses import dataclass

import torch
from torch import nn

from xaihelpers.devices import resolve_device
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.networks import (
    build_network,
    find_network,
    network_from_file,
    preprocessing,
    published_network,
)
from xaihelpers.models.weights import ModelError, weights_hash

# How the released code of published bottlenecks cuts and scales photographs of CUB: the centre, not resized.
# "koh": Koh et al. 2020, whose bottlenecks sub measures; "posthoc": Yuksekgonul et al. 2023.
_HALF = {"resize": 0, "mean": (0.5, 0.5, 0.5), "std": (2.0, 2.0, 2.0)}
PUBLISHED_TRANSFORMS = {"koh": {"crop": 299, **_HALF}, "posthoc": {"crop": 224, **_HALF}}


@dataclass(frozen=True, eq=False, kw_only=True)
class Backbone(ImageNetwork):
    """An image classifier whose last feature maps E (N, d, H, W) are averaged into features f(X) (N, d)."""

    n_features: int  # d
    map_size: tuple[int, int]  # H, W


def load_backbone(
    name: str,
    weights: str = "",
    layer: str = "",
    device: str | torch.device = "cpu",
    transform: str = "",
) -> Backbone:
    """A backbone by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    The identity is that of the weights as loaded: a network that is trained further must be saved and loaded
    anew.

    name: "aviary_resnet", "torchvision/…", "timm/…", "pytorchcv/…", or a plain name, in this order.
    weights: a safetensors file or torch state dict, of any class count; "" takes the published ones (of
        aviary_resnet the shipped ones).
    layer: the submodule whose output is the last feature map, or "submodule:input"; "" takes what enters the
        global average pooling.
    transform: "" takes the network's own preprocessing, else one of `PUBLISHED_TRANSFORMS`.
    Raises ModelError: an unknown name, layer, device or transform; weights that are absent, damaged or
        another network's; no maps (N, d, H, W) or logits (N, K).
    """
    family, plain_name = find_network(name)
    if str(weights):
        model = network_from_file(family, plain_name, weights)
    else:
        model = published_network(family, plain_name)
    return _backbone(name, family, plain_name, model, layer, device, transform)


def new_backbone(name: str, n_classes: int, start: str = "", device: str | torch.device = "cpu") -> Backbone:
    """A backbone to be trained: a network for `n_classes`, all but its head from `start`.

    Parameters require gradients. What is trained must be saved and loaded anew, since `identity` is that of
    the weights now.

    start: a weights file, "published" for those of the network's library, "" for fresh weights.
    Raises ModelError as `load_backbone`.
    """
    family, plain_name = find_network(name)
    model = build_network(family, plain_name, n_classes)
    if start == "published":
        _copy_matching(published_network(family, plain_name), model)
    elif start:
        _copy_matching(network_from_file(family, plain_name, start), model)
    backbone = _backbone(name, family, plain_name, model, "", device)
    backbone.model.requires_grad_(True)
    return backbone


def _copy_matching(source: nn.Module, target: nn.Module) -> None:
    """Copy the weights of one network to another of its architecture, but for those of another shape."""
    state = target.state_dict()
    for key, value in source.state_dict().items():
        if value.shape == state[key].shape:
            state[key] = value
    target.load_state_dict(state)


def _backbone(
    name: str,
    family: str,
    plain_name: str,
    model: nn.Module,
    layer: str,
    device: str | torch.device,
    transform: str = "",
) -> Backbone:
    device = resolve_device(device, ModelError)
    model = model.eval().requires_grad_(False)
    if transform not in ("", *PUBLISHED_TRANSFORMS):
        raise ModelError(
            f"transform must be empty or one of {', '.join(PUBLISHED_TRANSFORMS)}, not {transform!r}"
        )
    fields = preprocessing(family, plain_name, model) | PUBLISHED_TRANSFORMS.get(transform, {})
    layer = layer or _last_layer(family, plain_name, model)
    digest = weights_hash(model)
    # channels last: 1.5 to 2.5 times faster on CPUs, and right for tensor cores
    model = model.to(device, memory_format=torch.channels_last)
    blank = torch.zeros(1, 3, fields["crop"], fields["crop"], device=device)
    with torch.inference_mode():
        maps, logits = _maps_and_logits(model, layer, blank)
    if maps.ndim != 4 or min(maps.shape[2:]) < 2:
        raise ModelError(
            f"{name}: layer {layer!r} gives {tuple(maps.shape)}, but maps (N, d, H, W) with H, W > 1 are "
            "needed: name another submodule as layer=."
        )
    if logits.ndim != 2:
        raise ModelError(
            f"{name}: its output {tuple(logits.shape)} is not logits (N, K): name an image classifier."
        )
    settings = " ".join(f"{key}={value}" for key, value in fields.items())
    return Backbone(
        name=name,
        model=model,
        layer=layer,
        **fields,
        n_features=maps.shape[1],
        map_size=tuple(maps.shape[2:]),
        n_classes=logits.shape[1],
        identity=f"{family}/{plain_name} weights={digest} layer={layer} {settings}",
    )


def feature_maps(backbone: Backbone, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Last feature maps (N, d, H, W) and logits (N, K) of normalised inputs (N, 3, crop, crop).

    One forward pass gives both. Raises ModelError: a layer that the network does not have, or does not use.
    """
    return _maps_and_logits(backbone.model, backbone.layer, inputs)


def _maps_and_logits(model: nn.Module, layer: str, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    if layer == "forward_features":  # timm's name for the network without its head
        maps = model.forward_features(inputs)
        logits = model.forward_head(maps)
        channels_last = maps.ndim == 4 and maps.shape[1] != model.num_features == maps.shape[3]
        if channels_last:  # as in some transformers
            maps = maps.permute(0, 3, 1, 2)
        return maps, logits
    name, _, side = layer.partition(":")
    captured = []  # copies, since later layers may write into the tensor

    def capture_input(module, arguments):
        captured.append(arguments[0].clone())

    def capture_output(module, arguments, output):
        captured.append(output.clone())

    module = _submodule(model, name)
    if side == "input":
        hook = module.register_forward_pre_hook(capture_input)
    else:
        hook = module.register_forward_hook(capture_output)
    try:
        logits = model(inputs)
    finally:
        hook.remove()
    if not captured:
        raise ModelError(f"Layer {layer!r} is not used when the network runs: name another one as layer=.")
    maps = captured[-1]
    if name == "features" and type(model).__name__ == "DenseNet":
        maps = maps.relu()  # torchvision's has this ReLU in no module
    return maps, logits


def _last_layer(family: str, name: str, model: nn.Module) -> str:
    """Where the maps that are averaged over space lie in networks of this family."""
    if family in ("aviary", "timm"):
        return "forward_features"
    modules = dict(model.named_modules())
    for candidate in ("features.final_pool", "avgpool"):
        if candidate in modules:
            return f"{candidate}:input"
    for candidate in ("features", "layer4", "conv5", "layers"):
        if candidate in modules:
            return candidate
    children = ", ".join(child for child, _ in model.named_children())
    raise ModelError(
        f"{name}: which maps enter its global pooling is not known here: name their submodule as layer=, "
        f"one of {children} or inside them."
    )


def _submodule(model: nn.Module, name: str) -> nn.Module:
    modules = dict(model.named_modules())
    if not name or name not in modules:
        nearest = difflib.get_close_matches(name, modules, 3)
        nearest = nearest or [child for child, _ in model.named_children()]
        raise ModelError(f"The network has no layer {name!r}: try {', '.join(nearest)}.")
    return modules[name]
