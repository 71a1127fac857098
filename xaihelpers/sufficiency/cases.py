"""Which images are asked about, and among which candidates (paper fse, section 5.3)."""
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..backbones import Backbone, embed

CANDIDATES = 5


def similarity_dictionary(scores: np.ndarray, labels: np.ndarray, count: int = CANDIDATES - 1) -> np.ndarray:
    """For each class the `count` classes that are most often among the `count` highest-scored wrong ones of its samples, (K, count) (section 5.3).

    scores: (N, K), of a classifier. labels: (N,). Ties go to the lower class index; a class without samples raises ValueError.
    """
    scores, labels = np.asarray(scores, float).copy(), np.asarray(labels)
    n_classes = scores.shape[1]
    if n_classes <= count:
        raise ValueError(f"{n_classes} classes: {count} distractors need at least {count + 1}")
    if len(lost := sorted(set(range(n_classes)) - set(labels.tolist()))):
        raise ValueError(f"class {lost[0]} has no sample, and {len(lost)} such in all: the dictionary needs at least one of each")
    scores[np.arange(len(labels)), labels] = -np.inf
    nearest = np.argsort(-scores, axis=1, kind="stable")[:, :count]  # (N, count)
    counts = np.zeros((n_classes, n_classes), int)
    np.add.at(counts, (np.repeat(labels, count), nearest.ravel()), 1)
    np.fill_diagonal(counts, -1)
    return np.argsort(-counts, axis=1, kind="stable")[:, :count]


def neighbours_in(data, backbone: Backbone) -> np.ndarray:
    """The similarity dictionary of a data set, (K, 4): what a linear classifier on the backbone's pooled features, fitted on the training split, takes the test images for.

    data: with the fields images and labels, as `objects.load_objects` gives. A set without both splits raises ValueError.
    """
    train, labels = data.images["train"].to_numpy(), data.labels.numpy()
    if train.all() or not train.any():
        raise ValueError(f"{data!r} has only one split: the similarity dictionary needs training and test images")
    features = embed(backbone, data.images["path"], maps=False).pooled.numpy()
    classifier = make_pipeline(StandardScaler(), RidgeClassifier(alpha=100.0)).fit(features[train], labels[train])
    return similarity_dictionary(classifier.decision_function(features[~train]), labels[~train])


class Cases(NamedTuple):
    """Questions to be asked: which image (l,), its candidates as class indices in the order of their letters (l, 5), and the position of the true one (l,)."""
    rows: np.ndarray
    options: np.ndarray
    answers: np.ndarray


def draw_cases(labels: np.ndarray, n_classes: int, count: int, neighbours: np.ndarray | None = None, balanced: bool = False, seed: int = 0) -> Cases:
    """`count` images and their candidate sets, shuffled by the seed.

    labels: (N,) of the images to draw from, none twice while there are enough. neighbours: (K, 4) as `similarity_dictionary` gives them, None for four other classes at random.
    As in the paper the true class is the centre of its own set; `balanced` takes a class and its four neighbours and lets any of the five be the true one, with the same probability,
    so that the set itself tells nothing (a class without an image here is never the true one).
    """
    labels, rng = np.asarray(labels), np.random.default_rng([seed, 31])
    if n_classes < CANDIDATES or not len(labels):
        raise ValueError(f"{n_classes} classes and {len(labels)} images: a set of candidates needs at least {CANDIDATES} classes, and an image to ask about")
    of_class = {int(k): rng.permutation(np.flatnonzero(labels == k)).tolist() for k in np.unique(labels)}
    if not balanced:
        rows = _cycled(rng, len(labels), count)
        sets = [[int(labels[row]), *_others(rng, int(labels[row]), n_classes, neighbours)] for row in rows]
        wanted = labels[rows]
    else:
        rows, sets, wanted = [], [], []
        while len(rows) < count:
            centre = int(rng.integers(n_classes))
            group = [centre, *_others(rng, centre, n_classes, neighbours)]
            true = int(rng.choice(group))
            if true not in of_class:  # nothing to ask about: another set
                continue
            rows.append(of_class[true][0])
            of_class[true] = [*of_class[true][1:], of_class[true][0]]
            sets.append(group), wanted.append(true)
    options = np.array([rng.permutation(group) for group in sets]).reshape(-1, CANDIDATES)
    return Cases(np.array(rows, int), options, (options == np.array(wanted)[:, None]).argmax(1))


def _cycled(rng, total: int, count: int) -> np.ndarray:
    return np.concatenate([rng.permutation(total) for _ in range(-(-count // total))])[:count]


def _others(rng, label: int, n_classes: int, neighbours) -> list[int]:
    if neighbours is not None:
        return [int(k) for k in neighbours[label]]
    return rng.choice(np.delete(np.arange(n_classes), label), CANDIDATES - 1, replace=False).tolist()
