"""Which of a network's outputs is which class: by names, never by their number alone."""

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest

from xaihelpers.datasets import Dataset, class_name, imagenet_names
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.networks import segmenters
from xaihelpers.models.weights import ModelError
from xaihelpers.paths import PROJECT, data_home, find
from xaihelpers.text_files import TextFileError, plain, read_lines, read_text, require_distinct

log = logging.getLogger(__name__)
NUMBER_OR_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
TRIED = 400  # images that an order without names is held against, at most


def target_class_names(network: ImageNetwork, data: Dataset, file: str | Path = "") -> list[str]:
    """Names of a network's K classes, in the order of its outputs.

    They are those that its weights carry. Without these, ImageNet's are tried for a network of 1,000 classes,
    and the data's own order where the data have K classes and share no name with the network: the network's
    predictions have to agree with them.

    file: a text file with the K names, one a line in the order of the outputs, which stands above all that;
        a bare name is looked for in data/ and under XAI_DATA.
    Raises ModelError where the names are not known, for an order that the predictions contradict, and for a
        file that cannot be read, has another number of lines than K, an empty one, or a name twice.
    """
    if str(file):
        return _read_class_names(network, file)
    names, labels = network.class_names, data.class_names
    if names is None and network.n_classes == 1000:
        names = imagenet_names()
        outputs = match_labels(names, labels, missing_ok=True)
        if any(outputs.values()):
            _hold_against(network, data, outputs, "ImageNet's order")
            return names
        log.warning("%s: its outputs are taken for ImageNet's classes, by their number alone", network.name)
    some_fit = names is not None and any(match_labels(names, labels, missing_ok=True).values())
    is_segmenter = network.name.removeprefix("torchvision/") in segmenters()
    if names is not None and (some_fit or is_segmenter or len(names) != len(labels)):
        return names
    if network.n_classes == len(labels) and (data.images["label"] >= 0).any():
        given = {label: {number} for number, label in enumerate(labels)}
        _hold_against(network, data, given, "the data's order")
        return labels
    raise ModelError(
        f"{network.name} has {network.n_classes} classes, whose names are not known: the data have "
        f"{len(labels)}. Choose a network of ImageNet, one of torchvision's segmenters, or one trained on "
        "these data, or give a text file with its class names, one a line"
    )


def class_outputs(network: ImageNetwork, data: Dataset, file: str | Path = "") -> torch.Tensor:
    """Which of a network's outputs stands for each of the data's classes, (K,) int64.

    file: as of `target_class_names`. Raises ModelError as that, and for a class that no output has.
    """
    outputs = match_labels(target_class_names(network, data, file), data.class_names)
    return torch.tensor([min(outputs[label]) for label in data.class_names])


def _hold_against(network: ImageNetwork, data: Dataset, outputs: dict[str, set[int]], order: str) -> None:
    """Raise ModelError unless a network's predictions agree with an order of its outputs.

    They do not where it is no better than chance, or where another one, the best for half of the images, is
    clearly better on the other half. outputs: those of each of the data's labels, as of `match_labels`.
    """
    n_classes = network.n_classes
    given = np.array([min(outputs[label], default=-1) for label in data.class_names])
    labels = data.images["label"].to_numpy(dtype=int)
    rows = np.random.default_rng(0).permutation(np.flatnonzero((labels >= 0) & (given[labels] >= 0)))[:TRIED]
    if not len(rows):  # nothing to hold it against
        return
    logits = extract_features(network, data.images["path"].iloc[rows].tolist(), maps=False).logits
    labels, predicted = labels[rows], logits.argmax(1).numpy()
    right = predicted == given[labels]
    table = np.zeros((len(given), n_classes))
    table[np.flatnonzero(given >= 0), given[given >= 0]] = 0.5  # where nothing is known, an order stays
    np.add.at(table, (labels[::2], predicted[::2]), 1)
    best = linear_sum_assignment(table, maximize=True)[1]
    otherwise = best[labels[1::2]] == predicted[1::2]
    better, worse = (otherwise & ~right[1::2]).sum(), (right[1::2] & ~otherwise).sum()
    by_chance = _share_by_chance(right.sum(), len(rows), 1 / n_classes) > 0.05
    if by_chance or (better and _share_by_chance(better, better + worse, 0.5) < 0.01):
        raise ModelError(
            f"{network.name}: no names are known of its {n_classes} outputs, and in {order} "
            f"{100 * right.mean():.0f} % of {len(rows)} images of {data.name} are right (chance "
            f"{100 / n_classes:.1f} %; in another order {100 * otherwise.mean():.0f} %): give their names as "
            "class_names, a text file with one a line, in the order of the outputs"
        )


def _share_by_chance(hits: int, cases: int, probability: float) -> float:
    """The probability of as many hits or more."""
    return binomtest(int(hits), int(cases), probability, "greater").pvalue


def _as_compared(name: str) -> str:
    return plain(class_name(plain(name))).casefold()


def _read_class_names(network: ImageNetwork, file: str | Path) -> list[str]:
    try:
        names = read_lines(find(file, data_home(), PROJECT / "data") or Path(file))
        require_distinct(names, f"class names of {file}")
    except TextFileError as error:
        raise ModelError(f"{file}: no file of class names that can be read: {error}") from error
    if len(names) != network.n_classes:
        raise ModelError(
            f"{file} has {len(names)} class names, {network.name} has {network.n_classes} classes: give one "
            "name a line, in the order of the classes"
        )
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
        numbers_of.setdefault(_as_compared(name), set()).add(number)
    synonyms = _read_synonyms(same_as) if str(same_as) else {}
    if unused := sorted(synonyms.keys() - set(map(plain, labels))):
        said = "%s: %d of its %d labels are none of the data's, %r first: not used"
        log.info(said, same_as, len(unused), len(synonyms), unused[0])
    examples = f"network's {len(names)} classes ({', '.join(names[:3])}, …)"
    matches = {}
    for label in labels:
        known = set(numbers_of.get(_as_compared(label), ()))
        for entry in synonyms.get(plain(label), []):
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
    try:
        content = json.loads(read_text(find(same_as, data_home(), PROJECT / "data") or Path(same_as)))
        return {
            plain(label): entry if isinstance(entry, list) else [entry] for label, entry in content.items()
        }
    except (ValueError, AttributeError) as error:
        raise ModelError(
            f"{same_as}: no file of labels ({error}); it needs "
            '{label: [names, numbers or ranges like "151-268"]}'
        ) from error


def _class_numbers(entry: str | int, numbers_of: dict[str, set[int]]) -> set[int]:
    """Class numbers of an entry: a name, "151" or "151-268"; empty for an unknown name."""
    match = NUMBER_OR_RANGE.fullmatch(str(entry))
    if match is None:
        return numbers_of.get(_as_compared(str(entry)), set())
    first, last = int(match[1]), int(match[2] or match[1])
    return set(range(first, last + 1))
