"""A backbone: a network, its preprocessing, and the layer whose maps are averaged into features, f(X) = GAP(E)."""
import difflib
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import nn

from ..devices import device_of
from .networks import build_network, find_network, network_from_file, preprocessing, published_network
from .weights import BackboneError, weights_hash


@dataclass(frozen=True, eq=False)
class Backbone:
    """An image classifier in evaluation mode with its own preprocessing."""

    name: str
    model: nn.Module
    layer: str  # where the maps are taken: "forward_features" (timm), a submodule's output, or "submodule:input"
    resize: int | tuple[int, int]  # new length of the short side, or (height, width)
    crop: int  # side of the centred square that the network sees
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    n_features: int  # d
    map_size: tuple[int, int]  # H, W
    n_classes: int  # of its own head
    identity: str  # name, sha256 of the weights, preprocessing and layer: what its features depend on

    def cropped(self, image: Image.Image) -> Image.Image:
        """An RGB image resized and centrally cropped, (crop, crop) pixels."""
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms import functional as transforms

        size = [self.resize] if isinstance(self.resize, int) else list(self.resize)
        return transforms.center_crop(transforms.resize(image, size, InterpolationMode(self.interpolation)), [self.crop])

    def normalised(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels (..., 3, H, W) uint8 as the network takes them, float32 on the same device."""
        mean, std = (torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (self.mean, self.std))
        return pixels.float().div(255).sub_(mean).div_(std)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """The network's input for one RGB image, (3, crop, crop) float32."""
        return self.normalised(torch.from_numpy(np.array(self.cropped(image))).permute(2, 0, 1))


def load_backbone(name: str, weights: str = "", layer: str = "", device: str | torch.device = "cpu") -> Backbone:
    """A backbone by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    `name`: "aviary_resnet", "torchvision/…", "timm/…", "pytorchcv/…", or a plain name, searched in that order.
    `weights`: a safetensors file or torch state dict, of any class count; "" takes the published ones (of aviary_resnet
    the shipped ones). `layer`: the submodule whose output is the last feature map, or "submodule:input"; "" takes what
    enters the global average pooling. The identity is that of the weights as loaded: a network that is trained on must
    be saved and loaded anew.
    Raises BackboneError: unknown name or layer, weights that are absent, damaged or another network's, no maps (N, d, H, W).
    """
    family, plain = find_network(name)
    model = network_from_file(family, plain, weights) if str(weights) else published_network(family, plain)
    return _backbone(name, family, plain, model, layer, device)


def new_backbone(name: str, n_classes: int, start: str = "", device: str | torch.device = "cpu") -> Backbone:
    """A backbone to be trained: a network for `n_classes` with fresh weights, or all but its head from `start`.

    `start`: a weights file, "published" for those of the network's library, "" for fresh weights. Parameters require gradients; what is trained must be
    saved and loaded anew, since `identity` is that of the weights now. Raises BackboneError as load_backbone does.
    """
    family, plain = find_network(name)
    model = build_network(family, plain, n_classes)
    if start:
        source = published_network(family, plain) if start == "published" else network_from_file(family, plain, start)
        own = model.state_dict()
        model.load_state_dict({key: value if value.shape == own[key].shape else own[key] for key, value in source.state_dict().items()})
    backbone = _backbone(name, family, plain, model, "", device)
    backbone.model.requires_grad_(True)
    return backbone


def _backbone(name, family, plain, model, layer, device) -> Backbone:
    device = device_of(device, BackboneError)
    model = model.eval().requires_grad_(False)
    own = preprocessing(family, plain, model)
    layer = layer or _last_layer(family, plain, model)
    hashed = weights_hash(model)
    model = model.to(device, memory_format=torch.channels_last)  # 1.5 to 2.5 times faster on CPUs, and right for tensor cores
    with torch.inference_mode():
        maps, logits = _maps_and_logits(model, layer, torch.zeros(1, 3, own["crop"], own["crop"], device=device))
    if maps.ndim != 4 or min(maps.shape[2:]) < 2:
        raise BackboneError(f"{name}: layer {layer!r} gives {tuple(maps.shape)}, but maps (N, d, H, W) with H, W > 1 are "
                            "needed: name another submodule as layer=.")
    if logits.ndim != 2:
        raise BackboneError(f"{name}: its output {tuple(logits.shape)} is not logits (N, K): name an image classifier.")
    identity = " ".join([f"{family}/{plain} weights={hashed} layer={layer}", *(f"{key}={value}" for key, value in own.items())])
    return Backbone(name, model, layer, **own, n_features=maps.shape[1], map_size=tuple(maps.shape[2:]),
                    n_classes=logits.shape[1], identity=identity)


def feature_maps(backbone: Backbone, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Last feature maps (N, d, H, W) and logits (N, K) of normalised inputs (N, 3, crop, crop), in one pass."""
    return _maps_and_logits(backbone.model, backbone.layer, inputs)


def _maps_and_logits(model: nn.Module, layer: str, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    if layer == "forward_features":  # timm's name for the network without its head
        maps = model.forward_features(inputs)
        logits = model.forward_head(maps)
        if maps.ndim == 4 and maps.shape[1] != model.num_features == maps.shape[3]:
            maps = maps.permute(0, 3, 1, 2)  # some transformers keep channels last
        return maps, logits
    name, _, side = layer.partition(":")
    caught = {}

    def catch_input(module, arguments):
        caught["maps"] = arguments[0].clone()  # later layers may write into it

    def catch_output(module, arguments, output):
        caught["maps"] = output.clone()

    module = _submodule(model, name)
    hook = module.register_forward_pre_hook(catch_input) if side == "input" else module.register_forward_hook(catch_output)
    try:
        logits = model(inputs)
    finally:
        hook.remove()
    if "maps" not in caught:
        raise BackboneError(f"Layer {layer!r} is not used when the network runs: name another one as layer=.")
    maps = caught["maps"]
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
    raise BackboneError(f"{name}: which maps enter its global pooling is not known here: name their submodule as layer=, "
                        f"one of {children} or inside them.")


def _submodule(model: nn.Module, name: str) -> nn.Module:
    modules = dict(model.named_modules())
    if not name or name not in modules:
        near = difflib.get_close_matches(name, modules, 3) or [child for child, _ in model.named_children()]
        raise BackboneError(f"The network has no layer {name!r}: try {', '.join(near)}.")
    return modules[name]
