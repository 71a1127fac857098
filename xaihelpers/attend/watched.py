"""The networks that are watched: classifiers and segmenters by name, the names of their classes, and which of them an image's label is."""
import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from .. import aviary, everyday
from ..backbones import Backbone, BackboneError
from ..backbones.networks import IMAGENET, find_network, network_from_file, preprocessing, published_network
from ..backbones.weights import read_weights, weights_hash
from ..birds import class_name
from ..devices import device_of
from ..objects import SUFFIXES, Objects, known_name, load_objects
from ..paths import PROJECT, data_home
from ..worlds import part_mask
from .networks import AttendError, find_layer, logits_of

SEGMENTED_AT = 520  # torchvision's segmenters: pixels of the short side


def segmenters() -> list[str]:
    """Names of torchvision's semantic segmenters."""
    import torchvision

    return torchvision.models.list_models(module=torchvision.models.segmentation)


def load_watched(name: str, weights: str = "", device: "str | torch.device" = "cpu", pictures: Objects | None = None, size: int = 0) -> Backbone:
    """A classifier (any name that `backbones.load_backbone` takes, and vision transformers as well), one of torchvision's segmenters, or "clip/NAME", a `clip_probe` trained on `pictures`, with its own preprocessing.

    weights: a file, or "" for the published ones. size: side of a segmenter's square input in pixels; 0 takes torchvision's 520. Raises BackboneError as load_backbone does.
    """
    plain = name.removeprefix("torchvision/")
    if name.startswith("clip/") and pictures is not None:
        return clip_probe(name.removeprefix("clip/"), pictures, weights, device)
    if plain not in segmenters():
        family, own_name = find_network(name)
        model = network_from_file(family, own_name, weights) if str(weights) else published_network(family, own_name)
        own = preprocessing(family, own_name, model)
        return dataclasses.replace(watched(name, model, own["crop"], f"{family}/{own_name} weights={weights_hash(model)} {own}", device), **own)
    import torchvision

    entry = torchvision.models.get_model_weights(plain).DEFAULT
    state = read_weights(Path(weights).expanduser()) if weights else _published(plain, entry)
    model = torchvision.models.get_model(plain, weights=None, weights_backbone=None, num_classes=len(entry.meta["categories"]), aux_loss=any(key.startswith("aux_classifier") for key in state))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise BackboneError(f"{weights or name}: these are not the weights of {plain}: {str(error).splitlines()[1].strip()}") from error
    return watched(name, model, size or SEGMENTED_AT, f"torchvision/{plain} weights={weights_hash(model)} size={size or SEGMENTED_AT}", device)


def _published(name, entry):
    try:
        return entry.get_state_dict(check_hash=True, progress=False, weights_only=True)
    except Exception as error:  # no connection, in many ways
        raise BackboneError(f"The weights of {name} could not be had ({str(error).splitlines()[0]}): download {entry.url} to {Path(torch.hub.get_dir()) / 'checkpoints'}, or pass the file as weights=.") from error


class _Probe(torch.nn.Module):
    """The image tower of a CLIP with a linear layer on its unit embeddings: (N, 3, H, W) -> (N, K)."""

    def __init__(self, tower, weights, bias):
        super().__init__()
        self.tower, self.head = tower, torch.nn.Linear(weights.shape[1], weights.shape[0])
        self.head.weight.data, self.head.bias.data = weights, bias

    def forward(self, x):
        return self.head(torch.nn.functional.normalize(self.tower(x), dim=-1))


def clip_probe(name: str, pictures: Objects, weights: str = "", device: "str | torch.device" = "cpu", seed: int = 0) -> Backbone:
    """A CLIP's image tower as a classifier of a data set's classes: a vision transformer to watch, in seconds.

    Its linear layer is a logistic regression (scikit-learn) on the embeddings of the training split. name, weights: as `clip.load_clip` takes them. Raises ClipError; AttendError where there are no two classes to train on.
    """
    from open_clip.transform import PreprocessCfg
    from sklearn.linear_model import LogisticRegression

    from .. import clip

    train = np.flatnonzero(pictures.images.train)
    if pictures.images.label.iloc[train].nunique() < max(2, len(pictures.classes)):
        raise AttendError(f"{name}: its linear layer is trained on the training split, but {pictures.root.name} has images of {pictures.images.label.iloc[train].nunique()} of its {len(pictures.classes)} classes there")
    model = clip.load_clip(name, weights, device=device)
    rows = clip.embed_images(model, pictures.images.path.iloc[train].tolist())
    fitted = LogisticRegression(C=100, tol=1e-6, max_iter=3000, random_state=seed).fit(rows.double().numpy(), pictures.images.label.iloc[train])  # to its end, so that rounding, as by other threads, does not show
    if len(fitted.coef_) == 1:  # two classes: one row of weights, which speaks for the second
        fitted.coef_, fitted.intercept_ = np.concatenate([-fitted.coef_, fitted.coef_]) / 2, np.concatenate([-fitted.intercept_, fitted.intercept_]) / 2
    probe = _Probe(model.model.visual, torch.tensor(fitted.coef_, dtype=torch.float32), torch.tensor(fitted.intercept_, dtype=torch.float32))
    own = PreprocessCfg(**model.model.visual.preprocess_cfg)
    side = own.size if isinstance(own.size, int) else own.size[0]
    return dataclasses.replace(watched(name, probe, side, f"{model.identity} probe {seed}", device), interpolation=own.interpolation, mean=tuple(own.mean), std=tuple(own.std))


def watched(name: str, model: torch.nn.Module, size: int, identity: str, device: "str | torch.device" = "cpu", like: Backbone | None = None) -> Backbone:
    """Any network of yours as one to be watched: it takes square inputs of `size` pixels, prepared as for `like`, or under ImageNet's mean and standard deviation."""
    model = model.eval().requires_grad_(False).to(device_of(device, BackboneError), memory_format=torch.channels_last)
    blank = torch.zeros(1, 3, size, size, device=next(model.parameters()).device)
    layer, n_classes = find_layer(model, blank), logits_of(model(blank)).shape[1]
    own = {key: getattr(like, key) for key in ("resize", "interpolation", "mean", "std")} if like else {"resize": size, "interpolation": "bilinear", **IMAGENET}
    return Backbone(name, model, layer, crop=size, **own, n_features=0, map_size=(0, 0), n_classes=n_classes, identity=identity)  # its features are nobody's


def class_names(network: Backbone, pictures: Objects) -> list[str]:
    """Names of a network's classes: a torchvision segmenter's own, ImageNet's of a network of 1,000, else the data's where there are as many. Raises AttendError where they are not known."""
    import torchvision

    plain, own = network.name.removeprefix("torchvision/"), pictures.classes.name.tolist()
    if plain in segmenters():
        return torchvision.models.get_model_weights(plain).DEFAULT.meta["categories"]
    if network.n_classes == 1000 and pictures.root.name != "imagenet":  # that set's own names tell some classes apart that bear one name here
        return torchvision.models.get_model_weights("resnet18").DEFAULT.meta["categories"]
    if network.n_classes == len(own):
        return own
    raise AttendError(f"{network.name} has {network.n_classes} classes, whose names are not known: the data have {len(own)}. Watch a network of ImageNet, one of torchvision's segmenters, or one trained on these data")


def classes_of_labels(names: Sequence[str], labels: Sequence[str], same_as: str | Path = "", missing_ok: bool = False) -> dict[str, set[int]]:
    """Which of a network's classes, by number, each of the data's labels is, by its name.

    same_as: a JSON file {label: names or numbers of the network's classes, or ranges "151-268"} for labels of another vocabulary; what it says comes to the label's own name; a file of that name in data/ or under XAI_DATA
    is found. missing_ok: a label that the network does not know gets an empty set. Raises AttendError naming the first such label otherwise, and a broken file or a name in it that is no class.
    """
    by_name, given = {}, {}
    for k, name in enumerate(names):
        by_name.setdefault(class_name(name).lower(), set()).add(k)
    if str(same_as):
        place = next((place for place in (Path(same_as).expanduser(), data_home() / same_as, PROJECT / "data" / same_as) if place.is_file()), Path(same_as))
        try:
            given = {label: entries if isinstance(entries, list) else [entries] for label, entries in json.loads(place.read_text(encoding="utf-8")).items()}
        except (OSError, ValueError, AttributeError) as error:
            raise AttendError(f"{same_as}: no file of labels ({error}); it needs {{label: [names, numbers or ranges like \"151-268\"]}}") from error
    found = {}
    for label in labels:
        known = set(by_name.get(class_name(label).lower(), ()))
        for entry in given.get(label, []):
            numbers = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", str(entry))
            more = set(range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1)) if numbers else by_name.get(str(entry).lower(), set())
            if not more or max(more) >= len(names):
                raise AttendError(f"{same_as}: {entry!r}, given for the label {label!r}, is none of the network's {len(names)} classes ({', '.join(names[:3])}, …)")
            known |= more
        if not known and not missing_ok:
            raise AttendError(f"the label {label!r} is none of the network's {len(names)} classes ({', '.join(names[:3])}, …): name those that it stands for in a JSON file, and pass it as same_as=")
        found[label] = known
    return found


def load_pictures(data: str) -> Objects:
    """Images to watch a network on: any data set of `objects.load_objects`, or a folder of image files without labels (label -1, no classes, all for testing). Raises ObjectsError."""
    folder = next((place for place in (data_home() / data, Path(data).expanduser()) if place.is_dir()), None)
    files = [] if folder is None or known_name(data) or (folder / "images.txt").is_file() else sorted(str(file) for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        return load_objects(data)
    return Objects(folder.resolve(), pd.DataFrame({"path": files, "label": -1, "train": False}), pd.DataFrame({"name": [], "label": []}))


def object_masks(network: Backbone, pictures: Objects, rows: Sequence[int]) -> torch.Tensor | None:
    """Part numbers of drawn images as the network crops them, (N, crop, crop) uint8, 0 for the background; None for photographs, whose truth nobody drew."""
    if not _drawn(pictures):
        return None
    crop = dataclasses.replace(network, interpolation="nearest").cropped
    files = [Path(pictures.images.path.iloc[row]).relative_to(pictures.root / "images") for row in rows]
    return torch.stack([torch.from_numpy(np.array(crop(Image.fromarray(part_mask(pictures.root, file))))) for file in files])


def part_names(pictures: Objects) -> list[str]:
    """Names of the part numbers 1 … P of drawn images."""
    return [*aviary.PARTS, "rest of the body"] if _drawn(pictures) == "aviary" else list(everyday.PARTS)


def _drawn(pictures):
    return next((kind for kind in ("aviary", "everyday") if (pictures.root / f"{kind}.json").exists()), "")
