"""The post-hoc bottleneck: concept vectors in a frozen network's features, and a linear head on projections.

Paper alignment, section 2 (after Yuksekgonul et al. 2023), and as in the original method's code:

    c_j, b_j   normal and intercept of the SVM between N_p images with concept j and N_n without
    û = C f(X)                                             eq. 1, as published
    û_j = (c_j · f(X) + b_j) / ‖c_j‖                       `margin`, as in the original code
    logits = θᵀ û + b                                      section 2
    logits = θᵀ û + b + Rᵀ f(X) + r                        PCBM-h, Yuksekgonul et al., section 2.2

PCBM-h is the hybrid form, with a residual layer on the features.

| symbol | name | shape |
|---|---|---|
| f(X) | `pooled` | (N, d) |
| C, rows c_j | `bank` | (L, d) |
| b_j of the hyperplanes, ‖c_j‖ | −`shift`, `scale` | (L,) |
| û | `values` | (N, L) |
| θ, b | `class_weights`, `class_bias` | (L, K), (K,) |
| R, r | `residual_weights`, `residual_bias` | (d, K), (K,) |
| N_p = N_n | `n` | |
| λ, the SVM's C | `svm_c` | |
"""

from dataclasses import replace
from typing import NamedTuple

import torch

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.bottlenecks.head import LinearBottleneck, fit_head
from xaihelpers.bottlenecks.intervention import value_range
from xaihelpers.kernels.linear_svm import linear_svm


class ConceptSamples(NamedTuple):
    """Examples for concept vectors, of the L' concepts that have enough of them."""

    rows: torch.Tensor  # (L', 2 n) int64, into the features, positives first
    labels: torch.Tensor  # (2 n,) of +1 and −1
    kept: list[int]  # the L' concepts
    dropped: dict[int, tuple[int, int]]  # the others: {concept: (positives, negatives)}


def concept_samples(present: torch.Tensor, n: int, seed: int = 0) -> ConceptSamples:
    """n positive and n negative examples of every concept, drawn without replacement.

    A concept with fewer than n of either is left out.

    present: (N, L) of 0 and 1. seed: of the draws, which are the same on every device.

    Raises ValueError if no concept is left, and for labels that are neither 0 nor 1.
    Source: paper alignment, section 2.
    """
    if not ((present == 0) | (present == 1)).all():
        raise ValueError("concept labels must be 0 or 1: round soft ones first")
    generator = torch.Generator().manual_seed(seed)
    rows, kept, dropped = [], [], {}
    for j, column in enumerate(present.bool().T):
        drawn = []
        # always drawn: that one concept has too few moves no other's draw
        for side in (column.nonzero()[:, 0], (~column).nonzero()[:, 0]):
            order = torch.randperm(len(side), generator=generator)
            drawn.append(side[order.to(side.device)])
        if min(map(len, drawn)) < n:
            dropped[j] = (len(drawn[0]), len(drawn[1]))
        else:
            kept.append(j)
            rows.append(torch.cat([side[:n] for side in drawn]))
    if not kept:
        raise ValueError(
            f"no concept has {n} positive and {n} negative examples among {len(present)} images: ask for "
            "fewer"
        )
    ones = torch.ones(n, device=present.device)
    return ConceptSamples(torch.stack(rows), torch.cat([ones, -ones]), kept, dropped)


class PosthocCBM(LinearBottleneck):
    """A post-hoc concept bottleneck; symbols and shapes as in the module's table."""


def fit_posthoc_cbm(
    dataset: ConceptDataset,
    residual: bool = False,
    n: int = 50,
    svm_c: float = 1.0,
    margin: bool = False,
    penalty: float = 1e-3,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **head,
) -> PosthocCBM:
    """Post-hoc CBM of a data set's training images: a linear SVM per concept, then the head on all images.

    residual: the hybrid form (PCBM-h): a linear layer on the features learns what the bottleneck leaves over,
        by softmax cross-entropy over R and r alone.
    n: positive and negative examples per concept; a concept with fewer is left out.
    svm_c: λ, the C of the SVMs. margin: values are distances to the hyperplanes.
    penalty: of the head and of the residual, see `fit_head`. seed: of the examples' draw.
    device: where the model is fitted and stays. head: further settings of `fit_head`: solver, steps,
        standardise.

    Raises ValueError for too few examples of every concept.
    Source: paper alignment, sections 2 and C; Yuksekgonul et al. 2023, section 2.2.
    """
    pooled, labels = dataset.pooled[dataset.train].to(device), dataset.labels[dataset.train].to(device)
    present = (dataset.present[dataset.train] >= 0.5).float().to(device)
    samples = concept_samples(present, n, seed)
    svm = linear_svm(pooled[samples.rows], samples.labels.expand(len(samples.rows), -1), [svm_c])
    bank, shift, scale = svm.normals[:, 0], None, None
    if margin:
        shift, scale = -svm.intercepts[:, 0], bank.norm(dim=1).clamp(min=1e-12)
    kept = [dataset.concepts[j] for j in samples.kept]
    model = posthoc_cbm(pooled, bank, labels, kept, dataset.classes, penalty, shift, scale, **head)
    if residual:
        given = model.explain(pooled).logits
        weights, bias = fit_head(pooled, labels, len(model.classes), penalty, offset=given)
        model = replace(model, residual_weights=weights, residual_bias=bias)
    return model


def fit_posthoc_cbm_from_text(
    dataset: ConceptDataset, penalty: float = 1e-3, seed: int = 0, device: str | torch.device = "cpu"
) -> PosthocCBM:
    """Post-hoc CBM whose concept vectors are CLIP's embeddings of the concepts' names, without their labels.

    Its features are CLIP's of the images; as their rows are units, û is the cosine with the text. Nothing is
    drawn, so that the seed changes nothing. penalty, device: as of `fit_posthoc_cbm`.

    Source: Yuksekgonul et al. 2023, section 2.
    """
    concepts = dataset.concepts or dataset.phrases
    images = dataset.image_embeddings[dataset.train].to(device)
    bank, labels = dataset.embed_texts(concepts).to(images), dataset.labels[dataset.train].to(device)
    return posthoc_cbm(images, bank, labels, list(concepts), dataset.classes, penalty)


def posthoc_cbm(
    pooled: torch.Tensor,
    bank: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    penalty: float = 1e-3,
    shift: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    **head,
) -> PosthocCBM:
    """The bottleneck of a bank of concept vectors (L, d): its head is fitted on training images.

    pooled: (N, d) features. labels: (N,) int64. All on one device.
    shift, scale: (L,), see `LinearBottleneck`; by default û is C f(X). penalty, head: as of `fit_head`.
    """
    shift = bank.new_zeros(len(bank)) if shift is None else shift
    scale = bank.new_ones(len(bank)) if scale is None else scale
    values = (pooled @ bank.T - shift) / scale
    class_weights, class_bias = fit_head(values, labels, len(classes), penalty, **head)
    low, high = value_range(values)
    return PosthocCBM(
        bank=bank,
        shift=shift,
        scale=scale,
        class_weights=class_weights,
        class_bias=class_bias,
        low=low,
        high=high,
        concepts=concepts,
        classes=list(classes),
    )
