"""Concept bottleneck models: images in, concept values out, and a head that decides from them alone.

Whatever the model, what it says of a batch of images is one `ConceptOutputs`; every concept metric takes that and nothing else.
"""
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .kernels.cavs import linear_svm


@dataclass
class ConceptOutputs:
    """What a bottleneck model makes of N images, with L concepts and K classes.

    `values` (N, L): û, on the model's own scale. `contributions` (N, L): of each concept to the predicted class's logit; θ_jk û_ij where the head is linear.
    `class_weights` (L, K): θ, None where the head is not linear. `logits` (N, K). `concepts`, `classes`: names.
    Raises ValueError if shapes do not fit, or a value is NaN or infinite (naming the image's row and the concept).
    """

    values: torch.Tensor
    contributions: torch.Tensor
    class_weights: torch.Tensor | None
    logits: torch.Tensor
    concepts: list[str]
    classes: list[str]

    def __post_init__(self):
        n, l, k = len(self.values), len(self.concepts), len(self.classes)
        for name, shape in (("values", (n, l)), ("contributions", (n, l)), ("class_weights", (l, k)), ("logits", (n, k))):
            tensor = getattr(self, name)
            if tensor is None and name == "class_weights":
                continue
            if tuple(tensor.shape) != shape:
                raise ValueError(f"{name} is {tuple(tensor.shape)}, but {n} images, {l} concepts and {k} classes need {shape}")
            if len(bad := (~tensor.isfinite()).nonzero()):
                column = (self.classes if name == "logits" else self.concepts)[bad[0, 1]] if name != "class_weights" else self.concepts[bad[0, 0]]
                raise ValueError(f"{name} has {len(bad)} values that are NaN or infinite, the first in row {int(bad[0, 0])}, {column!r}")

    @property
    def predictions(self) -> torch.Tensor:
        """(N,) int64, the class of the largest logit."""
        return self.logits.argmax(1)

    def accuracy(self, labels: torch.Tensor) -> float:
        """Share of images whose predicted class is their label (N,)."""
        return (self.predictions == labels).float().mean().item()


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
    û = (C f + b)/‖c‖, as in the code of the original method, instead of C f, as published.
    """

    bank: torch.Tensor
    intercepts: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    margin: bool
    concepts: list[str]
    classes: list[str]

    def explain(self, pooled: torch.Tensor) -> ConceptOutputs:
        """Outputs for features (N, d) of images."""
        values = concept_values(pooled, self.bank, self.intercepts, self.margin)
        logits = values @ self.class_weights + self.class_bias
        contributions = values * self.class_weights.T[logits.argmax(1)]  # (N, L), θ_jk û_ij with k the predicted class
        return ConceptOutputs(values, contributions, self.class_weights, logits, self.concepts, self.classes)


def concept_values(pooled: torch.Tensor, bank: torch.Tensor, intercepts: torch.Tensor, margin: bool = False) -> torch.Tensor:
    """û (N, L) of features (N, d): C f(X), or with `margin` the signed distance (C f + b)/‖c‖ to each concept's hyperplane."""
    values = pooled @ bank.T
    return (values + intercepts) / bank.norm(dim=1).clamp(min=1e-12) if margin else values


def fit_head(values: torch.Tensor, labels: torch.Tensor, n_classes: int, penalty: float = 1e-3, steps: int = 150) -> tuple[torch.Tensor, torch.Tensor]:
    """One linear layer on concept values by softmax cross-entropy: weights θ (L, K) and bias (K,).

    Full-batch L-BFGS on standardised values with `penalty`/2 · ‖weights‖², then expressed on the values' own scale, so that the scale of the concept vectors,
    which changes by orders of magnitude with the SVM's λ, does not decide how far the head is trained. Raises ValueError for NaN values or labels out of range.
    """
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {n_classes} classes")
    mean, std = values.mean(0), values.std(0)
    std = std.where(std > 1e-6 * values.abs().amax(0), torch.inf)  # a constant concept, whose spread is rounding, gets no weight
    x = (values - mean) / std
    weights = torch.zeros(x.shape[1], n_classes, device=x.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=x.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights, bias], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = F.cross_entropy(x @ weights + bias, labels) + penalty / 2 * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    weights, bias = weights.detach(), bias.detach()
    return weights / std[:, None], bias - (mean / std) @ weights


def fit_posthoc_cbm(pooled: torch.Tensor, present: torch.Tensor, labels: torch.Tensor, concepts: list[str], classes: list[str], n: int = 100, svm_c: float = 1.0,
                    margin: bool = False, penalty: float = 1e-3, seed: int = 0) -> tuple[PosthocCBM, ConceptSamples]:
    """Post-hoc CBM of training features (N, d), concept labels (N, L) of 0 and 1, and class labels (N,); concepts with too few examples are left out.

    Paper alignment, sections 2 and C: per concept a linear SVM on n positive and n negative images with C = `svm_c` (λ), then the head on all images.
    Returns the model and the samples (whose `kept` and `dropped` say which concepts it has).
    """
    if len(bad := (~pooled.isfinite()).any(1).nonzero()):
        raise ValueError(f"features of {len(bad)} images are NaN or infinite, the first in row {int(bad[0])}")
    samples = concept_samples(present, n, seed)
    svm = linear_svm(pooled[samples.rows], samples.labels.to(pooled.device).expand(len(samples.rows), -1), [svm_c])
    bank, intercepts = svm.normals[:, 0], svm.intercepts[:, 0]
    class_weights, class_bias = fit_head(concept_values(pooled, bank, intercepts, margin), labels, len(classes), penalty)
    return PosthocCBM(bank, intercepts, class_weights, class_bias, margin, [concepts[j] for j in samples.kept], classes), samples
