"""The post-hoc bottleneck: concept vectors in a frozen network's features, from examples or from texts, and a linear head on the projections."""
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from ..kernels.cavs import linear_svm
from .head import fit_head
from .intervention import corrected, value_range
from .outputs import ConceptOutputs, check_names


class ConceptSamples(NamedTuple):
    """Examples for concept vectors: `rows` (L', 2 n) into the features, positives first; `labels` (2 n,) of +1 and -1; `kept`: the L' concepts that had
    enough examples, `dropped`: {concept: (positives, negatives)} of those that had not."""

    rows: torch.Tensor
    labels: torch.Tensor
    kept: list[int]
    dropped: dict[int, tuple[int, int]]


def concept_samples(present: torch.Tensor, n: int, seed: int = 0) -> ConceptSamples:
    """n positive and n negative examples of every concept, drawn without replacement (paper alignment, section 2: N_p = N_n = n).

    `present`: (N, L) of 0 and 1. A concept with fewer than n of either is left out, and counted in `dropped`. Raises ValueError if none is left, and for labels
    that are neither 0 nor 1.
    """
    if len(bad := ((present != 0) & (present != 1)).nonzero()):
        row, concept = bad[0].tolist()
        raise ValueError(f"concept labels must be 0 or 1, but row {row}, concept {concept} is {present[row, concept].item():.3g} ({len(bad)} such in all)")
    generator = torch.Generator().manual_seed(seed)
    rows, kept, dropped = [], [], {}
    for j, column in enumerate(present.bool().T):
        sides = [column.nonzero()[:, 0], (~column).nonzero()[:, 0]]
        drawn = [side[torch.randperm(len(side), generator=generator)[:n]] for side in sides]  # always drawn: one concept's lack moves no other's draw
        if min(map(len, sides)) < n:
            dropped[j] = (len(sides[0]), len(sides[1]))
        else:
            kept.append(j)
            rows.append(torch.cat(drawn))
    if not kept:
        raise ValueError(f"no concept has {n} positive and {n} negative examples among {len(present)} images: ask for fewer")
    return ConceptSamples(torch.stack(rows), torch.cat([torch.ones(n), -torch.ones(n)]), kept, dropped)


@dataclass
class PosthocCBM:
    """A post-hoc concept bottleneck: concept vectors of a frozen network's features, and a linear head on the concept values.

    `bank` (L, d): the normals c_j. `intercepts` (L,): b_j of their hyperplanes. `class_weights` (L, K): θ. `class_bias` (K,). `margin`: whether
    û = (C f + b)/‖c‖, as in the code of the original method, instead of C f, as published. `low`, `high` (L,): what a concept that a person calls absent or
    present is set to. `residual_weights` (d, K), `residual_bias` (K,): of the hybrid form, None without.
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

    def explain(self, pooled: torch.Tensor, known: torch.Tensor | None = None) -> ConceptOutputs:
        """Outputs for features (N, d) of images; `known` (N, L): a person's truth, 0 or 1, NaN where nothing is corrected.

        Contributions are those of the concepts; in the hybrid form the residual adds to the logits beside them.
        """
        values = corrected(concept_values(pooled, self.bank, self.intercepts, self.margin), known, self.low, self.high)
        logits = values @ self.class_weights + self.class_bias
        if self.residual_weights is not None:
            logits = logits + pooled @ self.residual_weights + self.residual_bias
        contributions = values * self.class_weights.T[logits.argmax(1)]  # (N, L), θ_jk û_ij with k the predicted class
        return ConceptOutputs(values, contributions, self.class_weights, logits, self.concepts, self.classes)


def concept_values(pooled: torch.Tensor, bank: torch.Tensor, intercepts: torch.Tensor, margin: bool = False) -> torch.Tensor:
    """û (N, L) of features (N, d): C f(X), or with `margin` the signed distance (C f + b)/‖c‖ to each concept's hyperplane."""
    values = pooled @ bank.T
    return (values + intercepts) / bank.norm(dim=1).clamp(min=1e-12) if margin else values


def fit_posthoc_cbm(pooled: torch.Tensor, present: torch.Tensor, labels: torch.Tensor, concepts: list[str], classes: list[str], n: int = 100,
                    svm_c: float = 1.0, margin: bool = False, penalty: float = 1e-3, seed: int = 0) -> tuple[PosthocCBM, ConceptSamples]:
    """Post-hoc CBM of training features (N, d), concept labels (N, L) of 0 and 1, and class labels (N,); concepts with too few examples are left out.

    Paper alignment, sections 2 and C: per concept a linear SVM on n positive and n negative images with C = `svm_c` (λ), then the head on all images.
    Returns the model and the samples (whose `kept` and `dropped` say which concepts it has).
    """
    _check_features(pooled)
    samples = concept_samples(present, n, seed)
    svm = linear_svm(pooled[samples.rows], samples.labels.to(pooled.device).expand(len(samples.rows), -1), [svm_c])
    bank, intercepts = svm.normals[:, 0], svm.intercepts[:, 0]
    return _with_head(pooled, labels, bank, intercepts, margin, [concepts[j] for j in samples.kept], classes, penalty), samples


def posthoc_cbm_from_text(image_embeddings: torch.Tensor, text_embeddings: torch.Tensor, labels: torch.Tensor, concepts: list[str], classes: list[str],
                          penalty: float = 1e-3) -> PosthocCBM:
    """Post-hoc CBM whose concept vectors are CLIP's embeddings (L, e) of the concepts' names, on its embeddings (N, e) of the training images.

    Yuksekgonul et al. 2023, section 2: no concept labels are needed; with unit rows û is the cosine of image and text. Raises ValueError for an empty list of
    concepts, names that stand twice, and texts that are not as many or as wide as they should be.
    """
    check_names(concepts)
    if text_embeddings.shape != (len(concepts), image_embeddings.shape[1]):
        raise ValueError(f"text_embeddings is {tuple(text_embeddings.shape)}, but {len(concepts)} concepts and image embeddings of {image_embeddings.shape[1]} "
                         f"need {(len(concepts), image_embeddings.shape[1])}: embed the names with the same CLIP as the images")
    _check_features(image_embeddings)
    bank = text_embeddings.to(image_embeddings)
    return _with_head(image_embeddings, labels, bank, bank.new_zeros(len(bank)), False, list(concepts), classes, penalty)


def add_residual(model: PosthocCBM, pooled: torch.Tensor, labels: torch.Tensor, penalty: float = 1e-3) -> PosthocCBM:
    """The hybrid form (PCBM-h): a linear layer on the training features (N, d) learns what the bottleneck, which stays as it is, leaves over.

    Yuksekgonul et al. 2023, section 2.2: logits = θᵀ û + b + Rᵀ f + r, softmax cross-entropy over R and r alone.
    """
    base = replace(model, residual_weights=None, residual_bias=None)
    weights, bias = fit_head(pooled, labels, len(model.classes), penalty, offset=base.explain(pooled).logits)
    return replace(base, residual_weights=weights, residual_bias=bias)


def _with_head(pooled, labels, bank, intercepts, margin, concepts, classes, penalty) -> PosthocCBM:
    values = concept_values(pooled, bank, intercepts, margin)
    return PosthocCBM(bank, intercepts, *fit_head(values, labels, len(classes), penalty), margin, concepts, classes, *value_range(values))


def _check_features(pooled: torch.Tensor) -> None:
    if len(bad := (~pooled.isfinite()).any(1).nonzero()):
        raise ValueError(f"features of {len(bad)} images are NaN or infinite, the first in row {int(bad[0])}")
