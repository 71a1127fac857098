"""What is asked of a model on a substitution benchmark: both scorings, real birds, differences.

Everything is measured from predictions alone (`predictions`), so the model may be anybody's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import cbm_concepts, normalise_attribute
from xaihelpers.datasets.cub import class_label
from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.labels import class_concepts, concept_labels
from xaihelpers.scores.intervals import PERCENT, interval
from xaihelpers.scores.sub.image_scores import (
    both_scorings,
    lacking,
    predicted_attributes,
    score_interval,
)
from xaihelpers.scores.sub.standardised_recall import recall_gap, standardised_recall
from xaihelpers.scores.sub.substitution import chance_scores, concept_accuracy, removed_attributes


class Judged(NamedTuple):
    """One model's predictions with all that is asked of them; scores are in %, by scoring and metric."""

    scores: dict[str, dict[str, np.ndarray]]  # (D, N) each
    rows: pd.DataFrame  # scoring, metric, value, low, high, cases, effective, chance
    removed: torch.Tensor  # bool (N, L), what is gone


def benchmark_images(benchmark: Dataset, world: Dataset) -> pd.DataFrame:
    """The images of a benchmark with the label that each one's bird has among the real birds.

    Raises DatasetError: a data set that is no benchmark, or has no image; a bird that the world lacks.
    """
    if "attribute" not in benchmark.images:
        raise DatasetError(
            f"{benchmark.name} is no substitution benchmark: name parquet files in the published SUB's layout"
        )
    if benchmark.images.empty:
        raise DatasetError(f"{benchmark.name} has no image: nothing can be measured on it")
    label_of = {bird: class_label(world, bird) for bird in benchmark.images.bird.unique()}
    return benchmark.images.assign(label=benchmark.images.bird.map(label_of))


def what_is_gone(
    images: pd.DataFrame, class_labels: torch.Tensor, concepts: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """What each substitution removes, and what it removes by the label of the class: bool (N, L) each.

    They differ where the images say themselves what is gone, in a column `removed`.

    images: of `benchmark_images`. class_labels: (L, K) of 0 and 1.
    Raises DatasetError as `removed_attributes`.
    """
    by_class = removed_attributes(
        images.attribute.tolist(), images.label.tolist(), class_labels, list(concepts)
    )
    if "removed" not in images:
        return by_class, by_class
    column_of = {name: column for column, name in enumerate(concepts)}
    gone = torch.zeros_like(by_class)
    for row, names in enumerate(images.removed):
        known = [column_of[name] for name in names if name in column_of]
        gone[row, known] = True
    return gone, by_class


def judge_predictions(
    images: pd.DataFrame,
    world: Dataset,
    concepts: Sequence[str],
    values: torch.Tensor,
    before: torch.Tensor | None = None,
    real: torch.Tensor | None = None,
    rule: str = "threshold",
    threshold: float = 0.5,
    truth: torch.Tensor | None = None,
) -> Judged:
    """All that is asked of a model's predictions.

    images: of `benchmark_images`. world: the real birds. concepts: L attributes.
    values: (D, N, L), of D training draws. before: (D, N, L), of the birds before the change.
    real: (D, M, L), of the real test images. truth: (M, L) of 0 and 1; by default the hard labels of classes.
    rule, threshold: of `predicted_attributes`.
    Raises DatasetError: as its parts; where no attribute of the benchmark is one of the concepts.
    """
    concepts = [normalise_attribute(name) for name in concepts]
    class_labels = class_concepts(world, concepts, "hard")
    removed, by_class = what_is_gone(images, class_labels, concepts)
    absent = lacking(images, class_labels, concepts, changed=before is None)
    more = {"before": before, "absent": absent, "rule": rule, "threshold": threshold}
    scores = both_scorings(values, images, removed, by_class, concepts, **more)
    rows = []
    for scoring, of_scoring in scores.items():
        for metric, of_images in of_scoring.items():
            measured = score_interval(of_images, images, metric)
            chance = chance_level(metric, images, removed, concepts, rule)
            row = {"scoring": scoring, "metric": metric, **measured._asdict(), "chance": chance}
            rows.append(row)
    if real is not None:
        predicted = predicted_attributes(real, concepts, rule, threshold)
        rows += real_rows(predicted, images, world, concepts, scores["corrected"]["S+"], truth)
    return Judged(scores, pd.DataFrame(rows), removed)


def real_rows(
    predicted: torch.Tensor,
    images: pd.DataFrame,
    world: Dataset,
    concepts: Sequence[str],
    s_plus: np.ndarray,
    truth: torch.Tensor | None = None,
) -> list[dict]:
    """T, T_A, the standardised recall and S+ less it, in %: rows as of `Judged`.

    predicted: bool (D, M, L), of the M real test images. s_plus: (D, N) in %. The rest as of
    `judge_predictions`.
    """
    test = ~world.train
    labels = world.labels[test]
    if truth is None:
        truth = concept_labels(world, concepts, "class")[test]
    among = sorted(set(images.attribute) & set(concepts))
    rows = []
    if among:
        recall = standardised_recall(predicted, truth, labels, images, concepts)
        gap = recall_gap(s_plus, images, predicted, truth, labels, concepts)
        for metric, measured in (("recall", recall), ("S+ less recall", gap)):
            rows.append({"scoring": "corrected", "metric": metric, **measured._asdict()})
    cbm = sorted(set(concepts) & set(cbm_concepts().name))
    shared = sorted(set(among) & set(cbm))
    for metric, names in (("T", cbm), ("T_A", shared)):
        if names:
            right = [concept_accuracy(draw, truth, concepts, names) for draw in predicted]
            factors = [np.tile(labels, len(right))]
            draws = np.arange(len(right)).repeat(len(labels)) if len(right) > 1 else None
            measured = interval(100 * torch.stack(right), clusters=factors, draws=draws, bounds=PERCENT)
            rows.append({"scoring": "authors'", "metric": metric, **measured._asdict()})
    return rows


def chance_level(
    metric: str, images: pd.DataFrame, removed: torch.Tensor, concepts: Sequence[str], rule: str
) -> float:
    """What a coin for each concept gives in %; by the rule "group" a guess in each group (appendix F)."""
    fixed = {"AUC": 50.0, "gain": 0.0}
    if metric in fixed:
        return fixed[metric]
    if rule == "threshold":
        n_removed = removed.sum(1)
        n_removed = n_removed[n_removed > 0].double()
        both = 100 * (0.5 ** (1 + n_removed)).mean().item()
        return both if metric == "both" else 50.0
    chance = chance_scores(images.attribute.tolist(), removed, list(concepts))
    levels = {"S-": chance.s_minus, "both": chance.s_plus[removed.any(1)]}
    return 100 * levels.get(metric, chance.s_plus).nanmean().item()


def differences(scores: dict[str, dict[str, np.ndarray]], images: pd.DataFrame) -> pd.DataFrame:
    """Each model less the first one, image by image, in points: rows of model, metric and interval.

    scores: model -> metric -> (D, N). Where the models have other numbers of draws, a draw is the mean of
    those of a model.
    """
    (first, reference), *others = scores.items()
    rows = []
    for name, of_model in others:
        for metric in [metric for metric in reference if metric in of_model]:
            pair = [of_model[metric], reference[metric]]
            if len(pair[0]) != len(pair[1]):
                pair = [one.mean(0, keepdims=True) for one in pair]
            measured = score_interval(pair[0] - pair[1], images, "gain")
            rows.append({"model": name, "less": first, "metric": metric, **measured._asdict()})
    return pd.DataFrame(rows)
