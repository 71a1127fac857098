"""Networks by name, ready to be explained, trained, or used for their features f(X) = GAP(E)."""

import math
from pathlib import Path

import torch
import torchvision
from timm.data import resolve_model_data_config
from torch import nn

from xaihelpers.datasets import Dataset
from xaihelpers.models.image_network import IMAGENET, ImageNetwork, as_target
from xaihelpers.models.layers import find_layer, layer_output
from xaihelpers.models.networks import build_network, find_network, load_network, segmenters
from xaihelpers.models.weights import ModelError, weights_hash

# How the released code of published bottlenecks cuts and scales photographs of CUB: the centre, not resized.
# "koh": Koh et al. 2020, whose bottlenecks sub measures; "posthoc": Yuksekgonul et al. 2023.
_HALF = {"resize": 0, "mean": (0.5, 0.5, 0.5), "std": (2.0, 2.0, 2.0)}
PUBLISHED_TRANSFORMS = {"koh": {"crop": 299, **_HALF}, "posthoc": {"crop": 224, **_HALF}}

READERS = ("aviary_reader", "studio_reader")


def load_target(
    name: str,
    weights: str | Path = "",
    device: str | torch.device = "cpu",
    data: Dataset | None = None,
    size: int = 0,
) -> ImageNetwork:
    """A network by name, with its own preprocessing, ready to be explained.

    name: any classifier that `load_backbone` takes, vision transformers as well; one of torchvision's
        segmenters; "clip/NAME", a `clip_probe` trained on `data`; or a shipped reader of attributes,
        `READERS`, as a classifier of the aviary's species.
    weights: a file, or "" for the published ones.
    size: side of a segmenter's square input in pixels; 0 takes torchvision's 520.
    Raises ModelError: an unknown name; weights that are absent, damaged or another network's; no layer over
        space.
    """
    if name.startswith("clip/") and data is not None:
        from xaihelpers.models.clip_probe import clip_probe  # open_clip takes seconds to import

        return clip_probe(name.removeprefix("clip/"), data, weights, device)
    if name in READERS and not str(weights):
        from xaihelpers.substitute.attribute_reader import SpeciesReader, load_reader

        reader = SpeciesReader(load_reader(name))
        about = {"layer": "reader.maps", "mean": (0.5,) * 3, "std": (0.5,) * 3}
        return as_target(name, reader, 224, f"{name} weights={weights_hash(reader)}", device, **about)
    family, plain_name = "segmenter", name.removeprefix("torchvision/")
    if plain_name not in segmenters():
        family, plain_name = find_network(name)
    model, class_names = load_network(family, plain_name, weights)
    changed = {"resize": size, "crop": size} if size and family == "segmenter" else {}
    return _network(name, family, plain_name, model, device, class_names=class_names, **changed)


def load_backbone(
    name: str,
    weights: str | Path = "",
    layer: str = "",
    device: str | torch.device = "cpu",
    transform: str = "",
) -> ImageNetwork:
    """A network with maps that are averaged, by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    The identity is that of the weights as loaded: a network that is trained further must be saved and loaded
    anew.

    name: "aviary_resnet", "efficientnet-lite2", "torchvision/…", "timm/…", "pytorchcv/…", or a plain name, in
        this order.
    weights: a safetensors file or torch state dict, of any class count; "" takes the published ones (of
        aviary_resnet the shipped ones).
    layer: the submodule whose output is the last feature map; "" takes the usual one, see `find_layer`.
    transform: "" takes the network's own preprocessing, else one of `PUBLISHED_TRANSFORMS`.
    Raises ModelError: an unknown name, device or transform; weights that are absent, damaged or another
        network's; no such layer; no maps (N, d, H, W).
    """
    if transform not in ("", *PUBLISHED_TRANSFORMS):
        raise ModelError(
            f"transform must be empty or one of {', '.join(PUBLISHED_TRANSFORMS)}, not {transform!r}"
        )
    family, plain_name = find_network(name)
    model, class_names = load_network(family, plain_name, weights)
    changed = PUBLISHED_TRANSFORMS.get(transform, {})
    network = _network(name, family, plain_name, model, device, layer, class_names, **changed)
    zeros = torch.zeros(1, 3, network.crop, network.crop, device=next(model.parameters()).device)
    with torch.inference_mode():
        output, _ = layer_output(network.model, network.layer, zeros)
    if output.ndim != 4:
        raise ModelError(
            f"{name}: layer {network.layer!r} gives {tuple(output.shape)}, but maps (N, d, H, W) are needed: "
            "name another network, or another submodule as layer="
        )
    return network


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
        state = model.state_dict()
        for key, value in source.state_dict().items():
            if value.shape == state[key].shape:
                state[key] = value
        model.load_state_dict(state)
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
    options = fields | {"layer": layer, "class_names": class_names}
    return as_target(name, model, fields["crop"], identity, device, **options)


def preprocessing(family: str, name: str, model: nn.Module) -> dict:
    """The network's own resize (short side, or height and width), crop, interpolation, mean and std.

    Raises ModelError: a preprocessing of timm that is not square or crops otherwise than in the centre.
    """
    if family == "aviary":
        return {"resize": 224, "crop": 224, "interpolation": "bilinear", **IMAGENET}
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
    if height != width or config["crop_mode"] not in ("center", "squash"):
        raise ModelError(f"{name}: its input of {height} x {width} pixels is no square cut from the centre")
    size = math.floor(height / config["crop_pct"])
    return {
        "resize": (size, size) if config["crop_mode"] == "squash" else size,
        "crop": height,
        "interpolation": config["interpolation"],
        "mean": tuple(config["mean"]),
        "std": tuple(config["std"]),
    }
