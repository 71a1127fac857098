"""The post-hoc bottleneck: concept vectors in a frozen network's features, and a linear head on projections.

Paper alignment, section 2 (after Yuksekgonul et al. 2023), and as in the original method's code:

    c_j, b_j   normal and intercept of the SVM between N_p images with concept j and N_n without
    û = C f(X)                                             eq. 1, as published
    û_j = (c_j · f(X) + b_j) / ‖c_j‖                       `margin`, as in the original code
    logits = θᵀ û + b                                      section 2

| symbol | name | shape |
|---|---|---|
| f(X) | `pooled` | (N, d) |
| C, rows c_j | `bank` | (L, d) |
| b_j of the hyperplanes | `intercepts` | (L,) |
| N_p = N_n | `n` | |
| λ, the SVM's C | `svm_c` | |

û, θ and b are those of `head`.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.bottlenecks.head import LinearBottleneck, fit_head
from xaihelpers.kernels.linear_svm import linear_svm


class ConceptSamples(NamedTuple):
    """Examples for concept vectors, of the L' concepts that have enough of them."""

    rows: torch.Tensor  # (L', 2 n) int64, into the features, positives first
    labels: torch.Tensor  # (2 n,) of +1 and −1
    kept: list[int]  # the L' concepts
    dropped: list[int]  # the others


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
    rows, kept, dropped = [], [], []
    for j, column in enumerate(present.bool().T):
        drawn = []
        # always drawn: that one concept has too few moves no other's draw
        for side in (column.nonzero()[:, 0], (~column).nonzero()[:, 0]):
            order = torch.randperm(len(side), generator=generator)
            drawn.append(side[order.to(side.device)])
        if min(map(len, drawn)) < n:
            dropped.append(j)
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


@dataclass(kw_only=True)
class PosthocCBM(LinearBottleneck):
    """A post-hoc concept bottleneck; symbols and shapes as in the module's table."""

    intercepts: torch.Tensor | None = None  # None of a bank without hyperplanes

    def written(self, margin: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """What is to be taken from û, and then multiplied, (L,) each, for û with or without `margin`."""
        shift, scale = _written(self.bank, self.intercepts, margin)
        return (shift - self.shift) / self.scale, self.scale / scale


def fit_posthoc_cbm(
    dataset: ConceptDataset,
    from_text: bool = False,
    n: int = 50,
    svm_c: float = 1.0,
    margin: bool = False,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **head,
) -> PosthocCBM:
    """Post-hoc CBM of a data set's training images: a linear SVM per concept, then the head on all images.

    from_text: concept vectors are CLIP's embeddings of the concepts' names instead, without their labels, and
        features CLIP's of the images; as their rows are units, û is the cosine with the text.
    n: positive and negative examples per concept; a concept with fewer is left out.
    svm_c: λ, the C of the SVMs. margin: values are distances to the hyperplanes. seed: of the examples' draw.
    device: where the model is fitted and stays. head: of `fit_head`: penalty, solver, steps, standardise.

    Raises ValueError for too few examples of every concept.
    Source: paper alignment, sections 2 and C; Yuksekgonul et al. 2023, section 2.
    """
    concepts, labels = dataset.concepts, dataset.labels[dataset.train].to(device)
    if from_text:
        pooled = dataset.image_embeddings[dataset.train].to(device)
        concepts = concepts or dataset.phrases
        return posthoc_cbm(
            pooled, dataset.embed_texts(concepts).to(pooled), labels, list(concepts), dataset.classes, **head
        )
    pooled = dataset.pooled[dataset.train].to(device)
    samples = concept_samples((dataset.present[dataset.train] >= 0.5).float().to(device), n, seed)
    svm = linear_svm(pooled[samples.rows], samples.labels.expand(len(samples.rows), -1), [svm_c])
    kept = [concepts[j] for j in samples.kept]
    planes = svm.intercepts[:, 0], margin
    return posthoc_cbm(pooled, svm.normals[:, 0], labels, kept, dataset.classes, *planes, **head)


def posthoc_cbm(
    pooled: torch.Tensor,
    bank: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    intercepts: torch.Tensor | None = None,
    margin: bool = False,
    **head,
) -> PosthocCBM:
    """The bottleneck of a bank of concept vectors (L, d): its head is fitted on training images.

    pooled: (N, d) features. labels: (N,) int64. All on one device.
    intercepts: (L,), of the hyperplanes, if there are any. margin: values are distances to these, and not
        C f(X). head: as of `fit_head`.
    """
    fit = partial(fit_head, labels=labels, n_classes=len(classes), **head)
    written = _written(bank, intercepts, margin)
    model = PosthocCBM.of_bank(pooled, bank, *written, fit, concepts, classes)
    model.intercepts = intercepts
    return model


def _written(bank, intercepts, margin: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Shift and scale (L,) of û = (C f − shift) / scale."""
    if margin:
        return -intercepts, bank.norm(dim=1).clamp(min=1e-12)
    return bank.new_zeros(len(bank)), bank.new_ones(len(bank))
