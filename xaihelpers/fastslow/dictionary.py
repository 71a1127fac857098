"""Which classes look alike: the semantic similarity dictionary (paper fse, section 5.3)."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from xaihelpers import paths
from xaihelpers.datasets import Dataset
from xaihelpers.models.classes import class_outputs
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.weights import ModelError
from xaihelpers.text_files import plain, read_lines

LOOK_ALIKES = 4  # of a class: the distractors beside it


def similarity_dictionary(scores: np.ndarray, labels: np.ndarray, count: int = LOOK_ALIKES) -> np.ndarray:
    """The classes that each class is most often confused with (section 5.3).

    For each sample the `count` highest-scored wrong classes are noted; a class's neighbours are the `count`
    noted most often among its samples. Ties go to the lower class index.

    scores: (N, K), of a classifier. labels: (N,).
    Returns (K, count) class indices.
    Raises ValueError: `count` classes or fewer, or a class without a sample.
    """
    scores, labels = np.asarray(scores, float).copy(), np.asarray(labels)
    n_classes = scores.shape[1]
    if n_classes <= count:
        raise ValueError(f"{n_classes} classes: {count} distractors need at least {count + 1}")
    missing = sorted(set(range(n_classes)) - set(labels.tolist()))
    if missing:
        raise ValueError(
            f"class {missing[0]} has no sample, and {len(missing)} such in all: "
            "the dictionary needs at least one of each"
        )
    scores[np.arange(len(labels)), labels] = -np.inf
    nearest = np.argsort(-scores, axis=1, kind="stable")[:, :count]  # (N, count)
    votes = np.zeros((n_classes, n_classes), int)
    np.add.at(votes, (np.repeat(labels, count), nearest.ravel()), 1)
    np.fill_diagonal(votes, -1)
    return np.argsort(-votes, axis=1, kind="stable")[:, :count]


class Dictionary(NamedTuple):
    """The four look-alikes of each class."""

    neighbours: np.ndarray  # (K, 4) class indices
    source: str  # what they were taken from: head, probe, attributes or a file


def class_neighbours(data: Dataset, backbone: ImageNetwork | None = None, source: str = "auto") -> Dictionary:
    """The similarity dictionary of a data set.

    source: "head", the backbone's own outputs; "probe", a linear classifier on the backbone's features, whose
        training images and voting images are different ones (of a data set with one split by turns, in
        folds); "attributes", the highest cosines of the classes' attributes, with no picture; or a CSV file
        with a line for each class: its name, and the names of its four look-alikes. "auto" takes the head
        where it is for these classes (as many outputs, at least a quarter of the images right), then the
        probe, and attributes where the pictures are missing.

    Raises ValueError: fewer than five classes (pictures without labels have none), an unknown source, no
    attributes, a class of one image where there is one split and no head for it, a file that lacks a class,
    names another or a class twice, and as `similarity_dictionary` does.
    """
    if len(data.class_names) <= LOOK_ALIKES:
        raise ValueError(
            f"{data!r}: a class needs {LOOK_ALIKES} others beside it; give pictures in a folder for each of "
            f"{LOOK_ALIKES + 1} classes or more"
        )
    if source == "auto" and not all(Path(path).is_file() for path in data.images["path"].head()):
        source = "attributes"
    if source == "attributes":
        return Dictionary(_by_attributes(data), source)
    if source not in ("auto", "head", "probe"):
        return Dictionary(_from_file(paths.find(source) or Path(source), data.class_names), source)
    scores, labels, source = class_scores(data, backbone, source)
    return Dictionary(similarity_dictionary(scores, labels), source)


def class_scores(
    data: Dataset, backbone: ImageNetwork, source: str = "auto"
) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores (n, K) of a classifier for the images that vote, their labels (n,), and which classifier.

    source: "head", "probe" or "auto", as of `class_neighbours`. The test images vote; where there is one
    split only, all of them.
    """
    train, labels = data.images["train"].to_numpy(), data.labels.numpy()
    voting = ~train if 0 < train.sum() < len(train) else np.ones_like(train)
    files, n_classes = data.images["path"], len(data.class_names)
    if source == "head" and backbone.n_classes != n_classes:
        raise ValueError(f"{backbone.name} has {backbone.n_classes} outputs, {data!r} {n_classes} classes")
    if source in ("head", "auto") and backbone.n_classes == n_classes:
        try:
            outputs = class_outputs(backbone, data)  # (K,), by names
            logits = extract_features(backbone, files[voting], maps=False).logits[:, outputs].numpy()
            if source == "head" or (logits.argmax(1) == labels[voting]).mean() >= 0.25:
                return logits, labels[voting], "head"
        except ModelError:
            if source == "head":
                raise
    features = extract_features(backbone, files, maps=False).pooled.numpy()
    classifier = make_pipeline(StandardScaler(), RidgeClassifier(alpha=100.0))
    if voting.all():
        fewest = np.bincount(labels, minlength=n_classes).min()
        if fewest < 2:
            raise ValueError(
                f"{data!r} has one split, and {data.class_names[np.bincount(labels).argmin()]!r} {fewest} "
                "image: a probe is tested on images that it has not seen, so each class needs two; give more "
                "images, or take the head, attributes or a file"
            )
        folds = StratifiedKFold(min(5, fewest), shuffle=True, random_state=0)
        scores = cross_val_predict(classifier, features, labels, cv=folds, method="decision_function")
    else:
        scores = classifier.fit(features[train], labels[train]).decision_function(features[voting])
    return scores, labels[voting], "probe"


def _by_attributes(data: Dataset) -> np.ndarray:
    if data.class_attributes is None:
        raise ValueError(f"{data!r} has no class attributes: make the dictionary by head, probe or a file")
    unit = normalize(data.class_attributes.nan_to_num().numpy())  # (K, A)
    return similarity_dictionary(unit @ unit.T, np.arange(len(unit)))


def _from_file(file: Path, names: Sequence[str]) -> np.ndarray:
    if not file.is_file():
        raise ValueError(f"dictionary is auto, head, probe, attributes or a CSV file, not {str(file)!r}")
    form = "a line holds a class's name and those of its four look-alikes, five different ones"
    label_of = {plain(name): label for label, name in enumerate(names)}
    look_alikes = {}  # by label
    for line, values in enumerate(csv.reader(read_lines(file)), 1):
        values = [value.strip() for value in values]
        unknown = [value for value in values if value not in label_of]
        if unknown:
            raise ValueError(f"{file}, line {line} names {unknown[0]!r}, no class: {form}")
        label, *others = [label_of[value] for value in values]
        if len(others) != LOOK_ALIKES or len({label, *others}) <= LOOK_ALIKES:
            raise ValueError(f"{file}, line {line} has {', '.join(values)}: {form}")
        if label in look_alikes:
            raise ValueError(f"{file}, line {line} is a second one for {values[0]!r}: keep one")
        look_alikes[label] = others
    missing = [name for label, name in enumerate(names) if label not in look_alikes]
    if missing:
        raise ValueError(f"{file} has no line for {missing[0]!r} ({len(missing)} such in all): {form}")
    return np.array([look_alikes[label] for label in range(len(names))])
