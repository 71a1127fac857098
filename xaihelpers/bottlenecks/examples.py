"""The two splits of an annotated data set on one device: what a bottleneck is fitted on and judged by."""

from typing import NamedTuple

import pandas as pd
import torch

from xaihelpers.bottlenecks.posthoc import ConceptSamples, PosthocCBM, fit_posthoc_cbm
from xaihelpers.datasets import Dataset, concept_labels
from xaihelpers.models.features import Features
from xaihelpers.outputs import ConceptOutputs


class Examples(NamedTuple):
    """n images of one split; all tensors but `rows` on one device."""

    rows: torch.Tensor  # (n,) int64, of the data set's images, on the CPU
    image_ids: list[str]  # n file names
    pooled: torch.Tensor  # (n, d), f(X)
    present: torch.Tensor  # (n, L) float32, 0 or 1, the concept labels
    labels: torch.Tensor  # (n,) int64, the classes


def split_examples(
    data: Dataset, features: Features, concepts: pd.DataFrame, device: str | torch.device
) -> tuple[Examples, Examples]:
    """Training and test images of a data set, with their features and labels moved to `device`.

    features: of all images, in the order of `data.images`, as from `models.extract_features`. Maps stay where
        they are: they are large, and only some are needed, `features.maps[rows]`.
    concepts: L concepts, a table as `datasets.cbm_concepts()`.

    Raises DatasetError for data without annotations and an unknown concept.
    """
    present = concept_labels(data, concepts)
    image_ids = data.image_ids
    splits = []
    for chosen in (data.train, ~data.train):
        rows = chosen.nonzero()[:, 0]
        splits.append(
            Examples(
                rows=rows,
                image_ids=[image_ids[row] for row in rows.tolist()],
                pooled=features.pooled[rows].to(device),
                present=present[rows].to(device),
                labels=data.labels[rows].to(device),
            )
        )
    return splits[0], splits[1]


def fit_and_explain(
    train: Examples,
    test: Examples,
    concepts: list[str],
    classes: list[str],
    n: int = 100,
    svm_c: float = 1.0,
    margin: bool = False,
    penalty: float = 1e-3,
    seed: int = 0,
) -> tuple[PosthocCBM, ConceptSamples, ConceptOutputs]:
    """Post-hoc CBM of the training images, the samples it is made of, and its outputs for the test images.

    concepts: L names, of the columns of `present`. classes: K names. n, svm_c, margin, penalty, seed: as of
        `fit_posthoc_cbm`.

    Raises ValueError as `fit_posthoc_cbm` and `PosthocCBM.explain` do.
    """
    model, samples = fit_posthoc_cbm(
        train.pooled, train.present, train.labels, concepts, classes, n, svm_c, margin, penalty, seed
    )
    return model, samples, model.explain(test.pooled, image_ids=test.image_ids)
