"""What is asked of a model on a substitution benchmark: both scorings, and recall on real birds.

Everything is measured from predictions alone (`predictions`), so the model may be anybody's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from xaihelpers.datasets.attribute_names import cbm_concepts
from xaihelpers.datasets.cub import class_label
from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.labels import class_concepts, concept_labels
from xaihelpers.scores.intervals import PERCENT, Interval, interval, over_draws
from xaihelpers.scores.sub.substitution import (
    chance_scores,
    concept_accuracy,
    image_scores,
    lacking,
    own_attribute,
    predicted_attributes,
    removed_attributes,
    score_interval,
)


class Judged(NamedTuple):
    """One model's predictions with all that is asked of them; scores are in %, by scoring and metric."""

    scores: dict[str, dict[str, np.ndarray]]  # "authors'" and "corrected" -> S+ and so on -> (D, N)
    rows: pd.DataFrame  # scoring, metric, value, low, high, cases, effective, chance
    removed: Tensor  # bool (N, L), what is gone


def benchmark_images(benchmark: Dataset, world: Dataset) -> pd.DataFrame:
    """The images of a benchmark with the label that each one's bird has among the real birds.

    Raises DatasetError: a data set that is no benchmark, or has no image; a bird that the world lacks.
    """
    if "attribute" not in benchmark.images or benchmark.images.empty:
        raise DatasetError(
            f"{benchmark.name} is no substitution benchmark, or has no image: name parquet files in the "
            "published SUB's layout"
        )
    label_of = {bird: class_label(world, bird) for bird in benchmark.images.bird.unique()}
    return benchmark.images.assign(label=benchmark.images.bird.map(label_of))


def judge_predictions(
    images: pd.DataFrame,
    world: Dataset,
    concepts: Sequence[str],
    values: Tensor,
    before: Tensor | None = None,
    real: Tensor | None = None,
    rule: str = "threshold",
    threshold: float = 0.5,
    truth: Tensor | None = None,
) -> Judged:
    """All that is asked of a model's predictions, as the authors score, and corrected.

    The authors know the 112 concepts of bottlenecks alone: they count the images whose attribute is among
    them, and of those that are removed by the label of the class the first. Corrected, every attribute counts
    that the model knows, and all that is removed: what the images say in a column `removed`, else by the
    label of the class.

    images: of `benchmark_images`. world: the real birds. concepts: L attributes.
    values: (D, N, L), of D training draws. before: (D, N, L), of the birds before the change.
    real: (D, M, L), of the real test images. truth: (M, L) of 0 and 1; by default the hard labels of classes.
    rule, threshold: of `predicted_attributes`.
    Raises DatasetError: none of the images' attributes, or a concept, is known.
    """
    class_labels = class_concepts(world, concepts, "hard")
    removed = by_class = removed_attributes(images, class_labels, concepts)
    if "removed" in images:
        removed = torch.from_numpy(np.stack([np.isin(concepts, names) for names in images.removed]))
    published, how = cbm_concepts().name, {"rule": rule, "threshold": threshold}
    known = by_class & torch.from_numpy(np.isin(concepts, published))
    first = known & (known.cumsum(1) == 1)
    as_published = image_scores(values, images, first, concepts, **how)
    counts = images.attribute.isin(published).to_numpy()
    as_published = {metric: np.where(counts, as_published[metric], np.nan) for metric in ("S+", "S-")}
    absent = lacking(images, class_labels, concepts, changed=before is None)
    corrected = image_scores(values, images, removed, concepts, before, absent, **how)
    found, rows = {"authors'": as_published, "corrected": corrected}, []
    chance = _chance(images.attribute.tolist(), removed, concepts, rule)
    for scoring, of_scoring in found.items():
        for metric, of_images in of_scoring.items():
            measured = score_interval(of_images, images, metric)._asdict()
            rows.append({"scoring": scoring, "metric": metric, **measured, "chance": chance[metric]})
    if real is not None:
        predicted = predicted_attributes(real, concepts, rule, threshold)
        rows += _real_rows(predicted, images, world, concepts, truth)
    return Judged(found, pd.DataFrame(rows), removed)


def standardised_recall(
    predicted: Tensor, truth: Tensor, labels: Sequence[int], images: pd.DataFrame, concepts: Sequence[str]
) -> Interval:
    """Recall on real images in %, each attribute weighed as the benchmark weighs it: Σ_a w_a r_a / Σ_a w_a.

    What S+ would be if a changed bird were seen as well as one that has the attribute by nature: w_a is the
    number of the benchmark's images of attribute a, r_a the share of the real images with a of which it is
    predicted, over the attributes that the real images have; these, classes and draws are in its interval.

    predicted: bool (D, M, L), of D draws and M real images. truth: (M, L) of 0 and 1.
    labels: (M,), classes of the real images. images: the benchmark's, with the column attribute.
    """
    weights = own_attribute(images.attribute.tolist(), concepts).sum(0).numpy()  # (L,)
    rows, present = np.nonzero((truth.numpy() > 0.5) & (weights > 0))
    hits = 100.0 * predicted.numpy()[:, rows, present]  # (D, present)
    n_draws = len(hits)

    def without(columns, groups, rest=True):
        """The weighed mean without each group, or of each group alone."""
        hits, attributes = columns
        shape = groups.max() + 1, len(weights)
        cells = groups * len(weights) + attributes.astype(int)
        sums, counts = np.bincount(cells, hits, np.prod(shape)), np.bincount(cells, minlength=np.prod(shape))
        sums, counts = sums.reshape(shape), counts.reshape(shape)
        if rest:
            sums, counts = sums.sum(0) - sums, counts.sum(0) - counts
        used = weights * (counts > 0)
        with np.errstate(invalid="ignore"):  # no attribute is left
            return (used * sums / np.maximum(counts, 1)).sum(1) / used.sum(1)

    def mean(*columns):
        return without(columns, np.zeros(len(columns[0]), int), rest=False)[0]

    attributes, classes = np.tile(present, n_draws), np.tile(np.asarray(labels)[rows], n_draws)
    grouped = {"clusters": [attributes, classes], "draws": np.arange(n_draws).repeat(len(rows))}
    return interval(hits, attributes, statistic=mean, without=without, bounds=PERCENT, **grouped)


def _real_rows(
    predicted: Tensor, images: pd.DataFrame, world: Dataset, concepts: Sequence[str], truth: Tensor | None
) -> list[dict]:
    """The standardised recall, T and T_A in %: rows of `Judged`; predicted: bool (D, M, L).

    T is the share of the 112 concepts that are predicted right, T_A of those of the benchmark.
    """
    labels = world.labels[~world.train]
    if truth is None:
        truth = concept_labels(world, concepts, "class")[~world.train]
    recall = standardised_recall(predicted, truth, labels, images, concepts)
    rows = [{"scoring": "corrected", "metric": "recall", **recall._asdict()}]
    known = set(concepts) & set(cbm_concepts().name)
    for metric, among in (("T", known), ("T_A", known & set(images.attribute))):
        if among:
            shares = 100 * concept_accuracy(predicted, truth, concepts, among)
            measured = over_draws(shares, labels, bounds=PERCENT)
            rows.append({"scoring": "authors'", "metric": metric, **measured._asdict()})
    return rows


def _chance(targets: list[str], removed: Tensor, concepts: Sequence[str], rule: str) -> dict[str, float]:
    """What a coin for each concept gives in %; by the rule "group" a guess in each group (appendix F)."""
    some = removed.any(1)
    if rule == "threshold":
        right = s_minus = torch.tensor(0.5)
        both = 0.5 ** (1 + removed[some].sum(1).double())
    else:
        right, s_minus = chance_scores(targets, removed, concepts)
        both = right[some]
    right, s_minus, both = (100 * values.nanmean().item() for values in (right, s_minus, both))
    return {"S+": right, "false alarms": right, "S-": s_minus, "both": both, "gain": 0.0, "AUC": 50.0}
