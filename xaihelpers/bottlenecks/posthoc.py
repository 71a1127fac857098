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
| b_j of the hyperplanes | `intercepts` | (L,) |
| û | `values` | (N, L) |
| θ, b | `class_weights`, `class_bias` | (L, K), (K,) |
| R, r | `residual_weights`, `residual_bias` | (d, K), (K,) |
| N_p = N_n | `n` | |
| λ, the SVM's C | `svm_c` | |
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from xaihelpers.bottlenecks.head import fit_head, linear_head_outputs
from xaihelpers.bottlenecks.inputs import check_finite_rows
from xaihelpers.bottlenecks.intervention import intervene, value_range
from xaihelpers.devices import require_one_device
from xaihelpers.kernels.linear_svm import linear_svm
from xaihelpers.outputs import ConceptOutputs, check_names


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

    Returns the samples on the device of `present`. Raises ValueError if no concept is left, and for labels
    that are neither 0 nor 1.
    Source: paper alignment, section 2.
    """
    wrong = ((present != 0) & (present != 1)).nonzero()
    if len(wrong):
        row, concept = wrong[0].tolist()
        raise ValueError(
            f"concept labels must be 0 or 1, but row {row}, concept {concept} is "
            f"{present[row, concept].item():.3g} ({len(wrong)} such in all)"
        )
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


@dataclass
class PosthocCBM:
    """A post-hoc concept bottleneck; symbols and shapes as in the module's table.

    `margin`: which of the two ways of reading values.
    `low`, `high` (L,): what a concept that a person calls absent or present is set to.
    `residual_weights`, `residual_bias`: of the hybrid form, else None.
    """

    bank: torch.Tensor
    intercepts: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    margin: bool
    concepts: list[str]
    classes: list[str]
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    residual_weights: torch.Tensor | None = None
    residual_bias: torch.Tensor | None = None

    def explain(
        self,
        pooled: torch.Tensor,
        known: torch.Tensor | None = None,
        image_ids: list[str] | None = None,
    ) -> ConceptOutputs:
        """Outputs for features (N, d) of images, which must be on the model's device.

        Contributions are those of the concepts; in the hybrid form the residual is added to the logits.

        known: (N, L), a person's truth, 0 or 1, NaN where nothing is corrected.
        image_ids: N file names, kept with the outputs.

        Raises ValueError for features on another device, and as `intervene` and `ConceptOutputs` do.
        """
        values = concept_values(pooled, self.bank, self.intercepts, self.margin)
        values = intervene(values, known, self.low, self.high)
        logits = values @ self.class_weights + self.class_bias
        if self.residual_weights is not None:
            logits = logits + pooled @ self.residual_weights + self.residual_bias
        thresholds = None if self.low is None else (self.low + self.high) / 2
        return linear_head_outputs(values, logits, self, image_ids, thresholds)


def concept_values(
    pooled: torch.Tensor, bank: torch.Tensor, intercepts: torch.Tensor, margin: bool = False
) -> torch.Tensor:
    """û (N, L): C f(X), or with `margin` the signed distance to each concept's hyperplane.

    pooled: (N, d). bank: (L, d). intercepts: (L,). Raises ValueError for tensors on different devices.
    """
    require_one_device(pooled=pooled, bank=bank, intercepts=intercepts)
    values = pooled @ bank.T
    if not margin:
        return values
    return (values + intercepts) / bank.norm(dim=1).clamp(min=1e-12)


def fit_posthoc_cbm(
    pooled: torch.Tensor,
    present: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    n: int = 100,
    svm_c: float = 1.0,
    margin: bool = False,
    penalty: float = 1e-3,
    seed: int = 0,
    **head,
) -> tuple[PosthocCBM, ConceptSamples]:
    """Post-hoc CBM of training images: a linear SVM per concept, then the head on all images.

    pooled: (N, d) float32 features. present: (N, L) of 0 and 1. labels: (N,) int64. All on one device, where
        the model is fitted and stays.
    n: positive and negative examples per concept; a concept with fewer is left out.
    svm_c: λ, the C of the SVMs. penalty: of the head, see `fit_head`. seed: of the examples' draw.
    head: further settings of `fit_head`: solver, steps, standardise.

    Returns the model and the samples, whose `kept` and `dropped` say which concepts it has. Raises ValueError
    for tensors on different devices, features that are NaN or infinite, concept labels that are neither 0 nor
    1, too few examples of every concept, and class labels out of range.
    Source: paper alignment, sections 2 and C.
    """
    require_one_device(pooled=pooled, present=present, labels=labels)
    check_finite_rows(pooled)
    samples = concept_samples(present, n, seed)
    svm = linear_svm(pooled[samples.rows], samples.labels.expand(len(samples.rows), -1), [svm_c])
    bank, intercepts = svm.normals[:, 0], svm.intercepts[:, 0]
    kept = [concepts[j] for j in samples.kept]
    return _with_head(pooled, labels, bank, intercepts, margin, kept, classes, penalty, **head), samples


def posthoc_cbm_from_text(
    image_embeddings: torch.Tensor,
    text_embeddings: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    penalty: float = 1e-3,
) -> PosthocCBM:
    """Post-hoc CBM whose concept vectors are CLIP's embeddings of the concepts' names, without their labels.

    image_embeddings: (N, e), CLIP's of the training images; with unit rows û is the cosine with the text.
    text_embeddings: (L, e), of the concepts' names. labels: (N,) int64, on the device of the images.

    Raises ValueError for an empty list of concepts, names that stand twice, texts that are not as many or as
    wide as they should be, NaN or infinite embeddings, and labels out of range or on another device.
    Source: Yuksekgonul et al. 2023, section 2.
    """
    check_names(concepts)
    wanted = (len(concepts), image_embeddings.shape[1])
    if text_embeddings.shape != wanted:
        raise ValueError(
            f"text_embeddings is {tuple(text_embeddings.shape)}, but {len(concepts)} concepts and image "
            f"embeddings of {image_embeddings.shape[1]} need {wanted}: embed the names with the same CLIP as "
            "the images"
        )
    check_finite_rows(image_embeddings)
    bank = text_embeddings.to(image_embeddings)
    intercepts = bank.new_zeros(len(bank))
    return _with_head(image_embeddings, labels, bank, intercepts, False, list(concepts), classes, penalty)


def add_residual(
    model: PosthocCBM, pooled: torch.Tensor, labels: torch.Tensor, penalty: float = 1e-3
) -> PosthocCBM:
    """The hybrid form (PCBM-h): a linear layer on the features learns what the bottleneck leaves over.

    The bottleneck stays as it is; softmax cross-entropy is minimised over R and r alone.

    pooled: (N, d), the training features. labels: (N,) int64. Both on the model's device.

    Raises ValueError as `fit_head` and `explain` do. Source: Yuksekgonul et al. 2023, section 2.2.
    """
    base = replace(model, residual_weights=None, residual_bias=None)
    weights, bias = fit_head(pooled, labels, len(model.classes), penalty, offset=base.explain(pooled).logits)
    return replace(base, residual_weights=weights, residual_bias=bias)


def _with_head(pooled, labels, bank, intercepts, margin, concepts, classes, penalty, **head) -> PosthocCBM:
    values = concept_values(pooled, bank, intercepts, margin)
    class_weights, class_bias = fit_head(values, labels, len(classes), penalty, **head)
    low, high = value_range(values)
    return PosthocCBM(
        bank=bank,
        intercepts=intercepts,
        class_weights=class_weights,
        class_bias=class_bias,
        margin=margin,
        concepts=concepts,
        classes=classes,
        low=low,
        high=high,
    )
