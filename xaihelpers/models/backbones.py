"""Networks by name, ready to be explained, trained, or used for their features f(X) = GAP(E)."""

import math
from pathlib import Path

import torch
import torchvision
from timm.data import resolve_model_data_config
from torch import nn

from xaihelpers.datasets import Dataset
from xaihelpers.models.image_network import IMAGENET, ImageNetwork, as_target
from xaihelpers.models.layers import find_layer
from xaihelpers.models.networks import build_network, find_network, load_network
from xaihelpers.models.weights import ModelError, weights_hash

# How the released code of published bottlenecks cuts and scales photographs of CUB: the centre, not resized.
# "koh": Koh et al. 2020, whose bottlenecks sub measures; "posthoc": Yuksekgonul et al. 2023.
_HALF = {"resize": 0, "mean": (0.5, 0.5, 0.5), "std": (2.0, 2.0, 2.0)}
TRANSFORMS = {"": {}, "koh": {"crop": 299, **_HALF}, "posthoc": {"crop": 224, **_HALF}}


def load_backbone(
    name: str,
    weights: str | Path = "",
    layer: str = "",
    device: str | torch.device = "cpu",
    transform: str = "",
    data: Dataset | None = None,
    size: int = 0,
) -> ImageNetwork:
    """A network by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    The identity is that of the weights as loaded: a network that is trained further must be saved and loaded
    anew.

    name: a network of `find_network`, vision transformers and torchvision's segmenters as well; or
        "clip/NAME", a `clip_probe` trained on `data`.
    weights: a safetensors file or torch state dict, of any class count; "" takes the published or shipped
        ones.
    layer: the submodule whose output is the last feature map; "" takes the usual one, see `find_layer`.
    transform: "" takes the network's own preprocessing, else one of `TRANSFORMS`.
    size: side of a segmenter's square input in pixels; 0 takes torchvision's 520.
    Raises ModelError: an unknown name, device or transform; weights that are absent, damaged or another
        network's; no such layer, or none over space.
    """
    if transform not in TRANSFORMS:
        raise ModelError(f"transform must be one of {[*TRANSFORMS]}, not {transform!r}")
    if name.startswith("clip/") and data is not None:
        from xaihelpers.models.clip_probe import clip_probe  # open_clip takes seconds to import

        return clip_probe(name.removeprefix("clip/"), data, weights, device, layer)
    family, plain_name = find_network(name)
    model, class_names = load_network(family, plain_name, weights)
    changed = {"resize": size, "crop": size} if size and family == "segmenter" else TRANSFORMS[transform]
    return _network(name, family, plain_name, model, device, layer, class_names, **changed)


def new_backbone(
    name: str, n_classes: int, start: str = "", device: str | torch.device = "cpu"
) -> ImageNetwork:
    """A backbone to be trained: a network for `n_classes`, all but its head from `start`.

    Parameters require gradients. What is trained must be saved and loaded anew, since `identity` is that of
    the weights now.

    start: a weights file, "published" for those of the network's library, "" for fresh weights.
    Raises ModelError as `load_backbone`.
    """
    family, plain_name = find_network(name)
    model = build_network(family, plain_name, n_classes)
    if start:
        source, _ = load_network(family, plain_name, "" if start == "published" else start)
        own = model.state_dict()
        fitting = {key: value for key, value in source.state_dict().items() if value.shape == own[key].shape}
        model.load_state_dict(fitting, strict=False)
    backbone = _network(name, family, plain_name, model, device)
    backbone.model.requires_grad_(True)
    return backbone


def _network(
    name: str,
    family: str,
    plain_name: str,
    model: nn.Module,
    device: str | torch.device,
    layer: str = "",
    class_names: list[str] | None = None,
    **changed,
) -> ImageNetwork:
    """A network with its own preprocessing, but for what is `changed` of it."""
    fields = preprocessing(family, plain_name, model) | changed
    layer = layer or find_layer(model)
    settings = " ".join(f"{key}={value}" for key, value in fields.items())
    identity = f"{family}/{plain_name} weights={weights_hash(model)} layer={layer} {settings}"
    return as_target(name, model, fields["crop"], identity, device, layer, class_names, **fields)


def preprocessing(family: str, name: str, model: nn.Module) -> dict:
    """The network's own resize (of the short side), crop, interpolation, mean and std.

    Raises ModelError: a preprocessing of timm that is no square cut from the centre.
    """
    if family in ("aviary", "reader"):
        levels = IMAGENET if family == "aviary" else {"mean": (0.5,) * 3, "std": (0.5,) * 3}
        return {"resize": 224, "crop": 224, "interpolation": "bilinear", **levels}
    if family in ("torchvision", "segmenter"):
        published = torchvision.models.get_model_weights(name).DEFAULT.transforms()
        return {
            "resize": published.resize_size[0],
            "crop": getattr(published, "crop_size", published.resize_size)[0],  # none of a segmenter
            "interpolation": published.interpolation.value,
            "mean": tuple(published.mean),
            "std": tuple(published.std),
        }
    if family == "pytorchcv":  # as its authors evaluate: a crop of 0.875 of the short side
        crop = model.in_size[0]
        return {"resize": math.ceil(crop / 0.875), "crop": crop, "interpolation": "bilinear", **IMAGENET}
    config = resolve_model_data_config(model)
    height, width = config["input_size"][1:]
    if height != width or config["crop_mode"] != "center":
        raise ModelError(f"{name}: its input of {height} x {width} pixels is no square cut from the centre")
    return {
        "resize": math.floor(height / config["crop_pct"]),
        "crop": height,
        "interpolation": config["interpolation"],
        "mean": tuple(config["mean"]),
        "std": tuple(config["std"]),
    }
