"""Networks by name: the shipped one, torchvision's, timm's and pytorchcv's, with weights and preprocessing."""
import difflib
import importlib.util
import math
import re
from pathlib import Path

import torch
from torch import nn

from .. import paths
from .weights import BackboneError, read_weights

FAMILIES = ("torchvision", "timm", "pytorchcv")  # the order in which a plain name is searched
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def aviary_resnet(n_classes: int) -> nn.Module:
    """The shipped architecture with fresh weights: ResNet-18-D (He et al. 2019) at half width, 2.8 M parameters.

    Takes (N, 3, 224, 224) float32 under ImageNet's mean and standard deviation, returns logits (N, n_classes);
    its last maps are (N, 256, 7, 7).
    """
    from timm.models.resnet import BasicBlock, ResNet

    # three 3x3 convolutions as the stem: the only stem of timm's ResNet whose width can be halved too
    return ResNet(BasicBlock, (2, 2, 2, 2), n_classes, stem_type="deep", stem_width=16, avg_down=True,
                  channels=(32, 64, 128, 256))


def find_network(name: str) -> tuple[str, str]:
    """Family and name within it of "family/name" or a plain name. Raises BackboneError with the nearest names."""
    if name == "aviary_resnet":
        return "aviary", name
    prefix, slash, rest = name.partition("/")
    families, plain = ([prefix], rest) if slash and prefix in FAMILIES else (FAMILIES, name)
    known = {}
    for family in families:
        names = known[family] = _names(family)  # imports the library, so only as far as needed
        if plain in names or (family == "timm" and plain.split(".")[0] in names):  # timm: name.tag_of_its_weights
            return family, plain
    if families == ["pytorchcv"] and not known["pytorchcv"]:
        raise BackboneError(f"Backbone {name!r}: pytorchcv is not installed here (pip install pytorchcv).")
    near = difflib.get_close_matches(plain, sorted({"aviary_resnet"}.union(*known.values())), 4)
    advice = f"do you mean {' or '.join(near)}?" if near else "no name is near it."
    absent = "" if known.get("pytorchcv", True) else " pytorchcv's names would count too, but it is not installed here."
    raise BackboneError(f"There is no backbone {name!r} in {', '.join(families)}: {advice}{absent}")


def _names(family: str) -> list[str]:
    if family == "torchvision":
        import torchvision

        return torchvision.models.list_models(module=torchvision.models)
    if family == "timm":
        import timm

        return timm.list_models()
    if importlib.util.find_spec("pytorchcv") is None:
        return []
    from pytorchcv import model_provider

    return list(model_provider._models)


def build_network(family: str, name: str, n_classes: int | None = None) -> nn.Module:
    """The network with random weights, leaving torch's random state as it was; n_classes None: as published."""
    head = {} if n_classes is None else {"num_classes": n_classes}
    with torch.random.fork_rng(devices=[]):
        if family == "aviary":
            return aviary_resnet(n_classes or 1000)
        if family == "timm":
            import timm

            return timm.create_model(name, pretrained=False, **head)
        if family == "pytorchcv":
            from pytorchcv.model_provider import get_model

            return get_model(name, pretrained=False, **head)
        import torchvision

        if name in ("googlenet", "inception_v3"):  # their published weights expect inputs that the network shifts itself
            head |= {"transform_input": True, "init_weights": False}
        return torchvision.models.get_model(name, weights=None, **head)


def preprocessing(family: str, name: str, model: nn.Module) -> dict:
    """The network's own resize (short side, or height and width), crop, interpolation, mean and std."""
    if family == "aviary":
        return {"resize": 224, "crop": 224, "interpolation": "bilinear", **IMAGENET}
    if family == "torchvision":
        from torchvision.models import get_model_weights

        own = get_model_weights(name).DEFAULT.transforms()
        return {"resize": own.resize_size[0], "crop": own.crop_size[0], "interpolation": own.interpolation.value,
                "mean": tuple(own.mean), "std": tuple(own.std)}
    if family == "pytorchcv":  # as its authors evaluate: a crop of 0.875 of the short side
        crop = model.in_size[0]
        return {"resize": math.ceil(crop / 0.875), "crop": crop, "interpolation": "bilinear", **IMAGENET}
    from timm.data import resolve_model_data_config

    own = resolve_model_data_config(model)
    height, width = own["input_size"][1:]
    if height != width or own["crop_mode"] not in ("center", "squash"):
        raise BackboneError(f"{name}: its preprocessing ({height}x{width} pixels, crop mode {own['crop_mode']}) "
                            "is not supported here: choose a network with a square input.")
    size = math.floor(height / own["crop_pct"])
    return {"resize": (size, size) if own["crop_mode"] == "squash" else size, "crop": height,
            "interpolation": own["interpolation"], "mean": tuple(own["mean"]), "std": tuple(own["std"])}


def published_network(family: str, name: str) -> nn.Module:
    """The network with the weights that its library publishes, from that library's own cache or the network.

    Raises BackboneError that says what to download and where to put it.
    """
    if family == "aviary":
        return network_from_file(family, name, paths.models_home() / "aviary_resnet.safetensors")
    try:
        if family == "torchvision":
            from torchvision.models import get_model_weights

            place = Path(torch.hub.get_dir()) / "checkpoints"
            published = get_model_weights(name).DEFAULT
            what = f"download {published.url} to {place}"
            state = published.get_state_dict(check_hash=True, progress=False, weights_only=True)
            return load_strictly(family, name, state, published.url)
        if family == "timm":
            import timm

            published = timm.get_pretrained_cfg(name)
            if not published.has_weights:
                raise BackboneError(f"timm publishes no weights of {name}: pass weights= with a file of yours.")
            hub = published.hf_hub_id and f"model.safetensors of {published.hf_hub_id} on the Hugging Face hub"
            what = f"download {hub or published.url}"
            with torch.random.fork_rng(devices=[]):
                return timm.create_model(name, pretrained=True)
        from pytorchcv.models.common.model_store import get_model_file

        what = f"download pytorchcv's {name} from its releases to ~/.torch/models"
        file = Path(get_model_file(name))  # checks the hash; its own loader would unpickle anything
        own = build_network(family, name).state_dict()
        return load_strictly(family, name, {key: value for key, value in read_weights(file).items() if key in own}, file)
    except BackboneError:
        raise
    except Exception as error:  # each library fails in its own ways when there is no connection
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BackboneError(f"The weights of {family}/{name} could not be had ({reason}): "
                            f"{what}, or pass the file as weights=.") from error


def network_from_file(family: str, name: str, file: str | Path) -> nn.Module:
    """The network with the weights of a file, strictly matched; a head of another class count is built to fit."""
    file = Path(file).expanduser()
    if not file.is_file():
        made_by = " Notebook 91 makes it, or pass another file as weights=." if family == "aviary" else ""
        raise BackboneError(f"{file}: there is no such weights file.{made_by}")
    return load_strictly(family, name, read_weights(file), file)


def load_strictly(family: str, name: str, state: dict[str, torch.Tensor], source) -> nn.Module:
    """The network with exactly these weights. Raises BackboneError with the first keys that do not fit."""
    if name.startswith("densenet") and family == "torchvision":  # published under the keys of its first version
        state = {re.sub(r"(\.denselayer\d+\.(?:norm|conv))\.(\d)\.", r"\1\2.", key): value for key, value in state.items()}
    model = build_network(family, name)
    own = model.state_dict()
    other = [key for key in own if key in state and own[key].shape != state[key].shape]
    heads = {(own[key].shape[:1], state[key].shape[:1]) for key in other}
    if len(heads) == 1 and all(own[key].shape[1:] == state[key].shape[1:] for key in other):  # only the class count differs
        model = build_network(family, name, heads.pop()[1][0])
        own = model.state_dict()
        other = [key for key in own if key in state and own[key].shape != state[key].shape]
    missing, unexpected = [key for key in own if key not in state], [key for key in state if key not in own]
    if missing or unexpected or other:
        kinds = {"missing": missing, "unexpected": unexpected, "of another shape": other}
        said = ", ".join(f"{len(keys)} {kind} (first: {keys[0]})" for kind, keys in kinds.items() if keys)
        if other:
            said += f": {tuple(state[other[0]].shape)} instead of {tuple(own[other[0]].shape)}"
        raise BackboneError(f"{source}: these are not the weights of {name}: {said}. Name the network they belong to.")
    model.load_state_dict(state)
    return model
