"""How well labels are told from a row of numbers for each picture, and how well they seem to be by chance.

One cheap predictor serves for every source: kernel ridge regression with a linear and a Gaussian kernel of
the D standardised numbers,

    k(x, x′) = x·x′ / D + exp(−‖x − x′‖² / 2D),   penalty 1.

Its answer is linear in the labels, so shuffled labels, of which nothing can be told, are predicted beside
the true ones at hardly any cost. It finds what lies in the numbers that it is given and no more: an area at
chance is an upper bound for this predictor, no proof.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FEWEST = 4  # pictures with a label, and without it, below which nothing is said of it


class Told(NamedTuple):
    """How well labels are told; N pictures, L labels, S times shuffled.

    terms: (N, L) float64, each picture's term of each area, as `area_terms` gives them.
    areas: (L,) float64, the area under the ROC curve of each label; NaN of one too rare or too common.
    shuffled: (S, L) float64, the area of labels that were shuffled among the pictures, over the pairs of
        pictures within a fold.
    beyond: (L,) bool, whether a label is told better than any label was in any shuffling, each area taken
        within the folds and in standard deviations of its own: where nothing can be told, this happens to
        some label once in S + 1 times.
    """

    terms: np.ndarray
    areas: np.ndarray
    shuffled: np.ndarray
    beyond: np.ndarray


def told(
    features: np.ndarray,
    labels: np.ndarray,
    classes: np.ndarray,
    seed: int = 0,
    n_folds: int = 5,
    n_shuffled: int = 19,
) -> Told:
    """How well each label is told from a source, cross-fitted, and how well it seems to be by chance.

    Every class has its share of each fold, so what a class tells of its attributes counts as told: a source
    that gives the class away gives them away too.

    features: (N, D), of the source; NaN stands for unknown and is replaced by the mean.
    labels: (N, L), 0 or 1. classes: (N,), by which the folds are balanced.
    seed: of the folds and of the shuffling.
    n_folds: no more are made than the smallest class has pictures, but at least two.
    Raises ValueError where features or classes have another number of rows than labels.
    """
    labels = np.asarray(labels, dtype=np.float64)
    if not len(features) == len(classes) == len(labels):
        raise ValueError(
            f"features, classes and labels need a row for each picture, but have {len(features)}, "
            f"{len(classes)} and {len(labels)} rows"
        )
    rng = np.random.default_rng(seed)
    tables = [labels] + [rng.permutation(labels) for _ in range(n_shuffled)]
    together = np.hstack(tables)  # (N, (1 + S)·L)
    smallest = int(np.unique(classes, return_counts=True)[1].min())
    folds = StratifiedKFold(max(2, min(n_folds, smallest)), shuffle=True, random_state=seed)
    splits = list(folds.split(together, classes))
    predictor = KernelRidge(alpha=1.0, kernel="precomputed")
    # what the label of each picture adds to the answer for each other one, (N, N)
    weights = cross_val_predict(predictor, _kernel(features), np.eye(len(labels)), cv=splits)
    scores = (weights @ (together - together.mean(0))).round(9)
    wins, pairs = 0.0, 0.0  # within the folds, whose levels differ and say nothing
    for _, held_out in splits:
        ranks, present = rankdata(scores[held_out], axis=0), together[held_out]
        n_present = present.sum(0)
        wins = wins + (ranks * present).sum(0) - n_present * (n_present + 1) / 2
        pairs = pairs + n_present * (len(held_out) - n_present)
        scores[held_out] = (ranks - 0.5) / len(held_out)
    within = (wins / np.maximum(pairs, 1)).reshape(1 + n_shuffled, -1)
    terms = area_terms(scores[:, : labels.shape[1]], labels)
    within[:, np.isnan(terms[0])] = np.nan
    standard = (within - 0.5) / standard_deviation(labels)
    beyond = standard[0] > np.nanmax(standard[1:], initial=-np.inf)
    return Told(terms, terms.mean(0), within[1:], beyond)


def _kernel(features: np.ndarray) -> np.ndarray:
    """The similarity of all pictures, (N, N); all alike where no number varies."""
    features = np.asarray(features, dtype=np.float64)
    features = features[:, ~np.isnan(features).all(0)]
    varies = np.nanmax(features, axis=0) > np.nanmin(features, axis=0)
    if not varies.any():
        return np.ones((len(features), len(features)))
    x = make_pipeline(SimpleImputer(), StandardScaler()).fit_transform(features[:, varies])
    return linear_kernel(x) / x.shape[1] + rbf_kernel(x, gamma=0.5 / x.shape[1])


def areas(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Area under the ROC curve of each column, (L,); NaN where fewer than 4 pictures are of either kind.

    scores: (N, L). labels: (N, L), 0 or 1.
    """
    positive = np.asarray(labels) > 0
    n_positive, n_negative = positive.sum(0), (~positive).sum(0)
    rank_sums = (rankdata(scores, axis=0) * positive).sum(0)
    wins = rank_sums - n_positive * (n_positive + 1) / 2
    few = np.minimum(n_positive, n_negative) < FEWEST
    return np.where(few, np.nan, wins / np.maximum(n_positive * n_negative, 1))


def area_terms(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Each picture's term of the area under the ROC curve, (N, L): their mean over the pictures is the area.

    A picture with the label has the share of pictures without it that lie below it, one without it the share
    of pictures with it that lie above, each less the area A and divided by the share of its own kind, plus A.
    So they are cases whose mean has the area's standard error. NaN where fewer than 4 pictures are of a kind.

    scores: (N, L). labels: (N, L), 0 or 1.
    Source: DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988, structural components.
    """
    positive = np.asarray(labels) > 0
    n_positive, n_negative = positive.sum(0), (~positive).sum(0)
    ranks = rankdata(scores, axis=0)
    below = np.empty_like(ranks)  # pictures of the other kind that lie below, ties half
    for kind in (positive, ~positive):
        within = rankdata(np.where(kind, scores, np.inf), axis=0)
        below[kind] = (ranks - within)[kind]
    won = np.where(positive, below / np.maximum(n_negative, 1), 1 - below / np.maximum(n_positive, 1))
    area = (won * positive).sum(0) / np.maximum(n_positive, 1)
    share = np.where(positive, n_positive, n_negative) / len(positive)
    few = np.minimum(n_positive, n_negative) < FEWEST
    return np.where(few, np.nan, area + (won - area) / np.maximum(share, 1e-9))


def standard_deviation(labels: np.ndarray) -> np.ndarray:
    """Of the area under the ROC curve of labels that nothing tells, (L,)."""
    n_positive = np.maximum(labels.sum(0), 1)
    n_negative = np.maximum(len(labels) - labels.sum(0), 1)
    return np.sqrt((len(labels) + 1) / (12 * n_positive * n_negative))
