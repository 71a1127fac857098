"""Which classes look alike: the semantic similarity dictionary (paper fse, section 5.3)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from xaihelpers.datasets import Dataset
from xaihelpers.models.classes import class_outputs
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.weights import ModelError

LOOK_ALIKES = 4  # of a class: the distractors beside it


def nearest_classes(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The four highest-scored wrong classes of each sample, (N, 4); ties go to the lower class index."""
    scores = np.array(scores, float)
    scores[np.arange(len(labels)), labels] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, :LOOK_ALIKES]


def similarity_dictionary(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The four classes that each class is most often confused with (section 5.3), (K, 4) class indices.

    They are those that are most often among its samples' `nearest_classes`.

    scores: (N, K), of a classifier. labels: (N,). Raises ValueError for a class without a sample.
    """
    votes = np.zeros((np.shape(scores)[1],) * 2, int)
    np.add.at(votes, (np.repeat(labels, LOOK_ALIKES), nearest_classes(scores, labels).ravel()), 1)
    missing = np.flatnonzero(votes.sum(1) == 0)
    if len(missing):
        raise ValueError(f"class {missing[0]} has no sample to vote for it ({len(missing)} such in all)")
    np.fill_diagonal(votes, -1)
    return np.argsort(-votes, axis=1, kind="stable")[:, :LOOK_ALIKES]


class Dictionary(NamedTuple):
    """The four look-alikes of each class."""

    neighbours: np.ndarray  # (K, 4) class indices
    source: str  # what they were taken from: head, probe or attributes
    scores: np.ndarray | None = None  # (N, K) of the classifier, NaN of images that did not vote

    def nearest(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
        """The four classes that each image is most like beside its own, (n, 4); None without a classifier.

        rows, labels: (n,). Raises ValueError for an image that did not vote: the classifier may know it.
        """
        if self.scores is None:
            return None
        if np.isnan(self.scores[rows]).any():
            raise ValueError("an image of training has no look-alikes of its own: take test images")
        return nearest_classes(self.scores[rows], labels)


def class_neighbours(data: Dataset, backbone: ImageNetwork | None = None, source: str = "auto") -> Dictionary:
    """The similarity dictionary of a data set, in which its test images vote (all where there is one split).

    source: "head", the backbone's own outputs; "probe", a linear classifier on the backbone's features, which
        learns from the training images (from one split by turns, in folds); or "attributes", the highest
        cosines of the classes' attributes, with no picture. "auto" takes the head where it is for these
        classes (as many outputs, at least a quarter of the images right), then the probe, and attributes
        where the pictures are missing.

    Raises ValueError: fewer than five classes (pictures without labels have none), an unknown source, no
    attributes, a class of one image where there is one split and no head for it. ModelError: a head of other
    classes.
    """
    if len(data.class_names) <= LOOK_ALIKES:
        raise ValueError(f"{data!r}: give pictures in a folder for each of {LOOK_ALIKES + 1} classes or more")
    if source not in ("auto", "head", "probe", "attributes"):
        raise ValueError(f"dictionary is auto, head, probe or attributes, not {source!r}")
    if source == "auto" and not all(Path(path).is_file() for path in data.images["path"].head()):
        source = "attributes"
    if source == "attributes":
        if data.class_attributes is None:
            raise ValueError(f"{data!r} has no class attributes: take head or probe")
        unit = normalize(data.class_attributes.nan_to_num().numpy())  # (K, A)
        return Dictionary(similarity_dictionary(unit @ unit.T, np.arange(len(unit))), source)
    train, labels = data.images["train"].to_numpy(), data.labels.numpy()
    voting = ~train if 0 < train.sum() < len(train) else np.ones_like(train)
    if source != "probe":
        try:
            if backbone.n_classes != len(data.class_names):
                raise ModelError(f"{backbone.name} has {backbone.n_classes} outputs, {data!r} other classes")
            outputs = class_outputs(backbone, data)  # (K,), by names
            features = extract_features(backbone, data.images["path"][voting], maps=False)
            scores = features.logits[:, outputs].numpy()
            right = (scores.argmax(1) == labels[voting]).mean()
            source = "head" if source == "head" or right >= 0.25 else "probe"
        except ModelError:
            if source == "head":
                raise
            source = "probe"
    if source == "probe":
        scores = _probe_scores(data, backbone, voting)
    of_images = np.full((len(voting), scores.shape[1]), np.nan, np.float32)
    of_images[voting] = scores
    return Dictionary(similarity_dictionary(scores, labels[voting]), source, of_images)


def _probe_scores(data: Dataset, backbone: ImageNetwork, voting: np.ndarray) -> np.ndarray:
    """Scores of the images that vote, (n, K), by a linear classifier that has not seen them."""
    features = extract_features(backbone, data.images["path"], maps=False).pooled.numpy()
    labels = data.labels.numpy()
    classifier = make_pipeline(StandardScaler(), RidgeClassifier(alpha=100.0))
    if not voting.all():
        classifier.fit(features[~voting], labels[~voting])
        return classifier.decision_function(features[voting])
    images_of = np.bincount(labels, minlength=len(data.class_names))
    if images_of.min() < 2:
        least = data.class_names[images_of.argmin()]
        raise ValueError(f"{data!r}: a probe needs two images of {least!r}; or take the head or attributes")
    folds = StratifiedKFold(min(5, images_of.min()), shuffle=True, random_state=0)
    return cross_val_predict(classifier, features, labels, cv=folds, method="decision_function")
