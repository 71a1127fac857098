"""Which of a network's outputs is which class: by names, never by their number alone."""

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xaihelpers.datasets import Dataset, class_name, imagenet_names
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.networks import segmenters
from xaihelpers.models.weights import ModelError
from xaihelpers.paths import PROJECT, data_home, find
from xaihelpers.text_files import plain, read_names, read_text, require_distinct

log = logging.getLogger(__name__)
TRIED = 400  # images at most


def target_class_names(network: ImageNetwork, data: Dataset, file: str | Path = "") -> list[str]:
    """Names of a network's K classes, in the order of its outputs.

    They are those that its weights carry. Without these, ImageNet's are tried for a network of 1,000 classes,
    and the data's own order where the data have K classes and share no name with the network: at least half
    of its predictions have to be right.

    file: a text file with the K names, one a line in the order of the outputs, which stands above all that;
        a bare name is looked for in data/ and under XAI_DATA.
    Raises ModelError where the names are not known, for an order in which most predictions are wrong, and for
        a file with another number of lines than K; TextFileError: one that cannot be read, has an empty line,
        a line that is no name, or a name twice.
    """
    names, labels = network.class_names, data.class_names
    if str(file):
        names = read_names(_place(file), every_line=True)
        require_distinct(names, f"class names of {file}")
        if len(names) != network.n_classes:
            raise ModelError(
                f"{file} has {len(names)} class names, {network.name} has {network.n_classes} classes: give "
                "one name a line, in the order of the classes"
            )
        return names
    if names is None and network.n_classes == 1000:
        names = imagenet_names()
        found = match_labels(names, labels)
        if any(found.values()):
            _require_right(network, data, [min(found[label], default=-1) for label in labels])
        else:
            log.warning("%s: its outputs are taken for ImageNet's classes, by their number", network.name)
    some_fit = names is not None and any(match_labels(names, labels).values())
    is_segmenter = network.name.removeprefix("torchvision/") in segmenters()
    if names is not None and (some_fit or is_segmenter or len(names) != len(labels)):
        return names
    if network.n_classes == len(labels) and (data.images["label"] >= 0).any():
        _require_right(network, data, range(len(labels)))
        return labels
    raise ModelError(
        f"{network.name} has {network.n_classes} classes, whose names are not known: the data have "
        f"{len(labels)}. Give a text file with its class names, one a line, or another network"
    )


def class_outputs(network: ImageNetwork, data: Dataset) -> torch.Tensor:
    """Which of a network's outputs stands for each of the data's classes, (K,) int64.

    Raises ModelError as `target_class_names`, and for a class that no output has.
    """
    names = target_class_names(network, data)
    outputs = match_labels(names, data.class_names)
    for label, found in outputs.items():
        if not found:
            raise ModelError(f"{network.name}: the label {label!r} is none of its classes ({names[:3]} …)")
    return torch.tensor([min(outputs[label]) for label in data.class_names])


def _require_right(network: ImageNetwork, data: Dataset, outputs: Sequence[int]) -> None:
    """Raise ModelError unless half of a network's predictions or more are right.

    outputs: the one of each of the data's labels; -1 for none.
    """
    labels, outputs = data.images["label"].to_numpy(dtype=int), np.array(outputs)
    known = np.flatnonzero((labels >= 0) & (outputs[labels] >= 0))
    rows = np.random.default_rng(0).permutation(known)[:TRIED]
    if not len(rows):  # nothing to be held against
        return
    logits = extract_features(network, data.images["path"].iloc[rows].tolist(), maps=False).logits
    right = (logits.argmax(1).numpy() == outputs[labels[rows]]).mean()
    told = f"{network.name}: no names are known of its {network.n_classes} outputs, and in the order of "
    told += f"{data.name} {100 * right:.0f} % of {len(rows)} images are right"
    if right < 0.5:
        raise ModelError(
            f"{told}: give their names as class_names, a text file with one a line, in that of the outputs"
        )
    log.info("%s: they are taken to be in it", told)


def _place(file: str | Path) -> Path:
    return find(file, data_home(), PROJECT / "data") or Path(file)


def _as_compared(name: str) -> str:
    return plain(class_name(plain(name))).casefold()


def match_labels(
    names: Sequence[str], labels: Sequence[str], same_as: str | Path = ""
) -> dict[str, set[int]]:
    """Which of a network's classes, by number, each of the data's labels stands for; perhaps none.

    names: of the K classes.
    labels: of the data; a label stands for the classes of its own name, letter case aside.
    same_as: a JSON file for labels of another vocabulary, {label: [names of classes], or one name}, which are
        added to the label's own name; "151-268" are classes by their numbers. A bare name is looked for in
        data/ and under XAI_DATA.
    Raises ModelError: a broken file, an entry in it that is no class.
    """
    numbers_of = {}
    for number, name in enumerate(names):
        numbers_of.setdefault(_as_compared(name), set()).add(number)
    try:
        content = json.loads(read_text(_place(same_as))) if str(same_as) else {}
        synonyms = {plain(label): entries for label, entries in content.items()}
    except (ValueError, AttributeError) as error:
        raise ModelError(f"{same_as}: no file of labels, {{label: [names]}} ({error})") from error
    matches = {}
    for label in labels:
        matches[label] = set(numbers_of.get(_as_compared(label), ()))
        entries = synonyms.get(plain(label), [])
        for entry in map(str, entries if isinstance(entries, list) else [entries]):
            span = re.fullmatch(r"(\d+)(?:-(\d+))?", entry)
            found = numbers_of.get(_as_compared(entry), set())
            if span:
                found = set(range(int(span[1]), int(span[2] or span[1]) + 1))
            if not found or max(found) >= len(names):
                raise ModelError(
                    f"{same_as}: {entry!r}, given for the label {label!r}, is none of the network's "
                    f"{len(names)} classes ({', '.join(names[:3])}, …)"
                )
            matches[label] |= found
    return matches
