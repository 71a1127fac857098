"""The networks to be explained, by name: classifiers, segmenters, and the names of their classes."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch
import torchvision

from xaihelpers.datasets.attribute_names import class_name
from xaihelpers.datasets.dataset import Dataset
from xaihelpers.datasets.wordnet_names import imagenet_names
from xaihelpers.models.image_network import ImageNetwork, as_target
from xaihelpers.models.networks import find_network, network_from_file, preprocessing, published_network
from xaihelpers.models.weights import ModelError, read_weights, weights_hash
from xaihelpers.paths import PROJECT, data_home, find, models_home

SEGMENTED_AT = 520  # pixels of the short side that torchvision's segmenters are evaluated at
NUMBER_OR_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


def segmenters() -> list[str]:
    """Names of torchvision's semantic segmenters."""
    return torchvision.models.list_models(module=torchvision.models.segmentation)


def load_target(
    name: str,
    weights: str = "",
    device: str | torch.device = "cpu",
    data: Dataset | None = None,
    size: int = 0,
) -> ImageNetwork:
    """A network by name, with its own preprocessing, ready to be explained.

    name: any classifier that `load_backbone` takes, vision transformers as well; one of torchvision's
        segmenters; or "clip/NAME", a `clip_probe` trained on `data`.
    weights: a file, or "" for the published ones.
    size: side of a segmenter's square input in pixels; 0 takes torchvision's 520.
    Raises ModelError: an unknown name; weights that are absent, damaged or another network's; no layer over
        space.
    """
    if name.startswith("clip/") and data is not None:
        from xaihelpers.models.clip.probe import clip_probe  # open_clip takes seconds to import

        return clip_probe(name.removeprefix("clip/"), data, weights, device)
    if name.removeprefix("torchvision/") in segmenters():
        return _load_segmenter(name, weights, device, size or SEGMENTED_AT)
    family, plain = find_network(name)
    model = network_from_file(family, plain, weights) if str(weights) else published_network(family, plain)
    fields = preprocessing(family, plain, model)
    identity = f"{family}/{plain} weights={weights_hash(model)} {fields}"
    return as_target(name, model, fields["crop"], identity, device, **fields)


def _load_segmenter(name: str, weights: str, device: str | torch.device, size: int) -> ImageNetwork:
    plain = name.removeprefix("torchvision/")
    entry = torchvision.models.get_model_weights(plain).DEFAULT
    if weights:
        state = read_weights(find(weights, models_home(), data_home()) or Path(weights))
    else:
        state = _published_weights(plain, entry)
    model = torchvision.models.get_model(
        plain,
        weights=None,
        weights_backbone=None,
        num_classes=len(entry.meta["categories"]),
        aux_loss=any(key.startswith("aux_classifier") for key in state),
    )
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise ModelError(f"{weights or name}: these are not the weights of {plain}: {reason}") from error
    identity = f"torchvision/{plain} weights={weights_hash(model)} size={size}"
    return as_target(name, model, size, identity, device)


def _published_weights(name: str, entry) -> dict[str, torch.Tensor]:
    try:
        return entry.get_state_dict(check_hash=True, progress=False, weights_only=True)
    except Exception as error:  # a missing connection shows in many ways
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        raise ModelError(
            f"The weights of {name} could not be downloaded ({str(error).splitlines()[0]}): download "
            f"{entry.url} to {folder}, or pass the file as weights=."
        ) from error


def target_class_names(network: ImageNetwork, data: Dataset, file: str | Path = "") -> list[str]:
    """Names of a network's K classes.

    They are a torchvision segmenter's own, ImageNet's for a network of 1,000 classes, else those of the data
    where there are as many.

    file: a text file with the K names, one a line in the order of the classes, which stands above all that;
        a bare name is looked for in data/ and under XAI_DATA.
    Raises ModelError where the names are not known, and for a file that cannot be read, has another number of
        lines than K, or an empty one.
    """
    if str(file):
        return _read_class_names(network, file)
    plain = network.name.removeprefix("torchvision/")
    if plain in segmenters():
        return torchvision.models.get_model_weights(plain).DEFAULT.meta["categories"]
    if network.n_classes == 1000:
        return imagenet_names()
    if network.n_classes == len(data.class_names):
        return data.class_names
    raise ModelError(
        f"{network.name} has {network.n_classes} classes, whose names are not known: the data have "
        f"{len(data.class_names)}. Choose a network of ImageNet, one of torchvision's segmenters, or one "
        "trained on these data, or give a text file with its class names, one a line"
    )


def _read_class_names(network: ImageNetwork, file: str | Path) -> list[str]:
    path = find(file, data_home(), PROJECT / "data") or Path(file)
    try:
        lines = path.read_text(encoding="utf-8").rstrip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{file}: no file of class names that can be read ({type(error).__name__}): give a text file "
            "with one name a line"
        ) from error
    names = [line.strip() for line in lines]
    if len(names) != network.n_classes:
        raise ModelError(
            f"{file} has {len(names)} class names, {network.name} has {network.n_classes} classes: give one "
            "name a line, in the order of the classes"
        )
    if not all(names):
        raise ModelError(f"{file}: line {names.index('') + 1} is empty: each class needs a name")
    return names


def match_labels(
    names: Sequence[str], labels: Sequence[str], same_as: str | Path = "", missing_ok: bool = False
) -> dict[str, set[int]]:
    """Which of a network's classes, by number, each of the data's labels stands for.

    names: of the K classes.
    labels: of the data; a label stands for the classes of its own name, letter case aside.
    same_as: a JSON file for labels of another vocabulary, {label: names or numbers of classes, or ranges
        "151-268"}, which are added to the label's own name; a bare name is looked for in data/ and under
        XAI_DATA.
    missing_ok: a label that no class fits gets an empty set.
    Raises ModelError: a broken file, an entry in it that is no class, and, without missing_ok, a label that
        no class fits.
    """
    numbers_of = {}
    for number, name in enumerate(names):
        numbers_of.setdefault(class_name(name).lower(), set()).add(number)
    synonyms = _read_synonyms(same_as) if str(same_as) else {}
    examples = f"network's {len(names)} classes ({', '.join(names[:3])}, …)"
    matches = {}
    for label in labels:
        known = set(numbers_of.get(class_name(label).lower(), ()))
        for entry in synonyms.get(label, []):
            numbers = _class_numbers(entry, numbers_of)
            if not numbers or max(numbers) >= len(names):
                raise ModelError(
                    f"{same_as}: {entry!r}, given for the label {label!r}, is none of the {examples}"
                )
            known |= numbers
        if not known and not missing_ok:
            raise ModelError(
                f"the label {label!r} is none of the {examples}: name those that it stands for in a JSON "
                "file, and pass it as same_as="
            )
        matches[label] = known
    return matches


def _read_synonyms(same_as: str | Path) -> dict[str, list]:
    """Entries by label, from the JSON file of `match_labels`."""
    file = find(same_as, data_home(), PROJECT / "data") or Path(same_as)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {label: entry if isinstance(entry, list) else [entry] for label, entry in content.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{same_as}: no file of labels ({error}); it needs "
            '{label: [names, numbers or ranges like "151-268"]}'
        ) from error


def _class_numbers(entry: str | int, numbers_of: dict[str, set[int]]) -> set[int]:
    """Class numbers of an entry: a name, "151" or "151-268"; empty for an unknown name."""
    match = NUMBER_OR_RANGE.fullmatch(str(entry))
    if match is None:
        return numbers_of.get(str(entry).lower(), set())
    first, last = int(match[1]), int(match[2] or match[1])
    return set(range(first, last + 1))
