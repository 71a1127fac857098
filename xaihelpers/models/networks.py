"""Networks by name (the shipped one, torchvision's, timm's, pytorchcv's), their weights, their input."""

import difflib
import importlib.util
import math
import re
from pathlib import Path

import timm
import torch
import torchvision
from timm.data import resolve_model_data_config
from timm.models.resnet import BasicBlock, ResNet
from torch import nn

from xaihelpers import paths
from xaihelpers.models.weights import ModelError, read_weights

FAMILIES = ("torchvision", "timm", "pytorchcv")  # the order in which a plain name is searched
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
SHIPPED = "aviary_resnet"


def aviary_resnet(n_classes: int) -> nn.Module:
    """The shipped architecture with fresh weights: ResNet-18-D (He et al. 2019) at half width.

    2.8 M parameters. Takes (N, 3, 224, 224) float32 under ImageNet's mean and standard deviation, returns
    logits (N, n_classes); its last maps are (N, 256, 7, 7).
    """
    # three 3x3 convolutions as the stem: the only stem of timm's ResNet whose width can be halved too
    return ResNet(
        BasicBlock,
        (2, 2, 2, 2),
        n_classes,
        stem_type="deep",
        stem_width=16,
        avg_down=True,
        channels=(32, 64, 128, 256),
    )


def find_network(name: str) -> tuple[str, str]:
    """Family and name within it of "family/name" or a plain name.

    Raises ModelError: an unknown name (with the nearest ones), a library that is not installed.
    """
    if name == SHIPPED:
        return "aviary", name
    prefix, slash, rest = name.partition("/")
    families, plain = ([prefix], rest) if slash and prefix in FAMILIES else (FAMILIES, name)
    names_of = {}
    for family in families:
        names = names_of[family] = _names(family)  # pytorchcv is imported only where it is needed
        with_tag = family == "timm" and plain.split(".")[0] in names  # timm: name.tag_of_its_weights
        if plain in names or with_tag:
            return family, plain
    if families == ["pytorchcv"] and not names_of["pytorchcv"]:
        raise ModelError(f"Backbone {name!r}: pytorchcv is not installed here (pip install -e '.[paper]').")
    nearest = difflib.get_close_matches(plain, sorted({SHIPPED}.union(*names_of.values())), 4)
    advice = f"do you mean {' or '.join(nearest)}?" if nearest else "no name is near it."
    if not names_of.get("pytorchcv", True):
        advice += " pytorchcv's names would count too, but it is not installed here."
    raise ModelError(f"There is no backbone {name!r} in {', '.join(families)}: {advice}")


def _names(family: str) -> list[str]:
    if family == "torchvision":
        return torchvision.models.list_models(module=torchvision.models)
    if family == "timm":
        return timm.list_models()
    if importlib.util.find_spec("pytorchcv") is None:
        return []
    from pytorchcv import model_provider

    return list(model_provider._models)


def build_network(family: str, name: str, n_classes: int | None = None) -> nn.Module:
    """The network with random weights (n_classes None: as published); leaves torch's random state alone."""
    head = {} if n_classes is None else {"num_classes": n_classes}
    with torch.random.fork_rng(devices=[]):
        if family == "aviary":
            return aviary_resnet(n_classes or 1000)
        if family == "timm":
            return timm.create_model(name, pretrained=False, **head)
        if family == "pytorchcv":
            from pytorchcv.model_provider import get_model

            return get_model(name, pretrained=False, **head)
        # their published weights expect inputs that the network shifts itself
        if name in ("googlenet", "inception_v3"):
            head |= {"transform_input": True, "init_weights": False}
        return torchvision.models.get_model(name, weights=None, **head)


def preprocessing(family: str, name: str, model: nn.Module) -> dict:
    """The network's own resize (short side, or height and width), crop, interpolation, mean and std.

    Raises ModelError: a preprocessing of timm that is not square or crops otherwise than in the centre.
    """
    if family == "aviary":
        return {"resize": 224, "crop": 224, "interpolation": "bilinear", **IMAGENET}
    if family == "torchvision":
        published = torchvision.models.get_model_weights(name).DEFAULT.transforms()
        return {
            "resize": published.resize_size[0],
            "crop": published.crop_size[0],
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
        raise ModelError(
            f"{name}: its preprocessing ({height}x{width} pixels, crop mode {config['crop_mode']}) is not "
            "supported here: choose a network with a square input."
        )
    size = math.floor(height / config["crop_pct"])
    return {
        "resize": (size, size) if config["crop_mode"] == "squash" else size,
        "crop": height,
        "interpolation": config["interpolation"],
        "mean": tuple(config["mean"]),
        "std": tuple(config["std"]),
    }


def published_network(family: str, name: str) -> nn.Module:
    """The network with the weights that its library publishes, from that library's own cache or the network.

    Raises ModelError that says what to download and where to put it.
    """
    if family == "aviary":
        return network_from_file(family, name, paths.models_home() / f"{SHIPPED}.safetensors")
    load = {"torchvision": _from_torchvision, "timm": _from_timm, "pytorchcv": _from_pytorchcv}[family]
    try:
        return load(name)
    except ModelError:
        raise
    except Exception as error:  # each library fails in its own ways when there is no connection
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(
            f"The weights of {family}/{name} could not be had ({lines[0]}): "
            f"{_where_published(family, name)}, or pass the file as weights=."
        ) from error


def _from_torchvision(name: str) -> nn.Module:
    published = torchvision.models.get_model_weights(name).DEFAULT
    state = published.get_state_dict(check_hash=True, progress=False, weights_only=True)
    return load_strictly("torchvision", name, state, published.url)


def _from_timm(name: str) -> nn.Module:
    if not timm.get_pretrained_cfg(name).has_weights:
        raise ModelError(f"timm publishes no weights of {name}: pass weights= with a file of yours.")
    with torch.random.fork_rng(devices=[]):
        return timm.create_model(name, pretrained=True)


def _from_pytorchcv(name: str) -> nn.Module:
    from pytorchcv.models.common.model_store import get_model_file

    file = Path(get_model_file(name))  # checks the hash; its own loader would unpickle anything
    expected = build_network("pytorchcv", name).state_dict()
    state = {key: value for key, value in read_weights(file).items() if key in expected}
    return load_strictly("pytorchcv", name, state, file)


def _where_published(family: str, name: str) -> str:
    """What to download, and where to put it."""
    if family == "torchvision":
        url = torchvision.models.get_model_weights(name).DEFAULT.url
        return f"download {url} to {Path(torch.hub.get_dir()) / 'checkpoints'}"
    if family == "timm":
        config = timm.get_pretrained_cfg(name)
        if config.hf_hub_id:
            return f"download model.safetensors of {config.hf_hub_id} on the Hugging Face hub"
        return f"download {config.url}"
    return f"download pytorchcv's {name} from its releases to ~/.torch/models"


def network_from_file(family: str, name: str, file: str | Path) -> nn.Module:
    """The network with the weights of a file, strictly matched but for the number of classes.

    file: a name among the shipped weights or under XAI_DATA, or a path.
    Raises ModelError: no such file, one that cannot be read, weights of another network.
    """
    place = paths.find(file, paths.models_home(), paths.data_home())
    if place is None or not place.is_file():
        remedy = " Make it by python recipes/backbone.py, or pass another file as weights=."
        made_by = remedy if family == "aviary" else ""
        raise ModelError(f"{file}: there is no such weights file.{made_by}")
    return load_strictly(family, name, read_weights(place), place)


def load_strictly(family: str, name: str, state: dict[str, torch.Tensor], source: str | Path) -> nn.Module:
    """The network with exactly these weights. Raises ModelError with the first keys that do not fit."""
    # published under the keys of its first version
    if family == "torchvision" and name.startswith("densenet"):
        state = {
            re.sub(r"(\.denselayer\d+\.(?:norm|conv))\.(\d)\.", r"\1\2.", key): value
            for key, value in state.items()
        }
    model = build_network(family, name)
    expected = model.state_dict()
    n_classes = _other_class_count(expected, state)
    if n_classes is not None:
        model = build_network(family, name, n_classes)
        expected = model.state_dict()
    differing = {
        "missing": [key for key in expected if key not in state],
        "unexpected": [key for key in state if key not in expected],
        "of another shape": _of_another_shape(expected, state),
    }
    if any(differing.values()):
        counts = [f"{len(keys)} {kind} (first: {keys[0]})" for kind, keys in differing.items() if keys]
        reason = ", ".join(counts)
        if differing["of another shape"]:
            key = differing["of another shape"][0]
            reason += f": {tuple(state[key].shape)} instead of {tuple(expected[key].shape)}"
        raise ModelError(
            f"{source}: these are not the weights of {name}: {reason}. Name the network they belong to."
        )
    model.load_state_dict(state)
    return model


def _of_another_shape(expected: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> list[str]:
    return [key for key in expected if key in state and expected[key].shape != state[key].shape]


def _other_class_count(expected: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> int | None:
    """The class count of weights that differ from the expected ones in it alone; None for any others."""
    keys = _of_another_shape(expected, state)
    first_sides = {(expected[key].shape[:1], state[key].shape[:1]) for key in keys}
    same_beyond = all(expected[key].shape[1:] == state[key].shape[1:] for key in keys)
    if len(first_sides) != 1 or not same_beyond:
        return None
    _, given = first_sides.pop()
    return given[0] if given else None
