"""Label-free concept bottlenecks (Oikarinen et al. 2023): concepts by name only, CLIP instead of annotators.

    q_j = C_j f,   P_j = CLIP's cosines of all images with concept j                 section 3
    sim(P_j, q_j) = P̄_j³ · q̄_j³ / (‖P̄_j³‖ ‖q̄_j³‖),   P̄, q̄ standardised    eq. 2
    max over C:  Σ_j sim(P_j, q_j)
    û = (C f − mean) / std,   logits = θᵀ û + b,   θ sparse (`sparse.elastic_net_path`)

| symbol | name | shape |
|---|---|---|
| f, features | `pooled` | (N, d) |
| C | `projection` | (L, d) |
| P | `target` | (N, L) |
| sim | `similarity` | (L,) |
| û | `values` | (N, L) |
| θ, b | `class_weights`, `class_bias` | (L, K), (K,) |
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks.head import linear_head_outputs
from xaihelpers.bottlenecks.inputs import check_finite_rows, check_labels
from xaihelpers.bottlenecks.intervention import intervene, value_range
from xaihelpers.bottlenecks.sparse import elastic_net_path
from xaihelpers.outputs import ConceptOutputs, check_names


@dataclass
class LabelFreeCBM:
    """A bottleneck whose concepts were learnt from CLIP; shapes as in the module's table.

    `mean`, `std` (L,): of the projections of the training images.
    `low`, `high` (L,): what a concept that a person calls absent or present is set to.
    `similarity` (L,): of û and CLIP's cosines on held-out training images, at most 1.
    """

    projection: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    similarity: torch.Tensor
    concepts: list[str]
    classes: list[str]

    def explain(
        self,
        pooled: torch.Tensor,
        known: torch.Tensor | None = None,
        image_ids: list[str] | None = None,
    ) -> ConceptOutputs:
        """Outputs for features (N, d) of images, on the model's device.

        known: (N, L), a person's truth, 0 or 1, NaN where nothing is corrected.
        image_ids: N file names, kept with the outputs.

        Raises ValueError as `intervene` and `ConceptOutputs` do.
        """
        projected = pooled.to(self.projection) @ self.projection.T
        values = intervene((projected - self.mean) / self.std, known, self.low, self.high)
        logits = values @ self.class_weights + self.class_bias
        return linear_head_outputs(values, logits, self, image_ids, (self.low + self.high) / 2)


def cubed_similarity(values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Similarity (L,) of each column of two (N, L): the cosine of their standardised values' third powers.

    The third power gives the images of extreme activation the most weight. Oikarinen et al. 2023, eq. 2.
    """
    return F.cosine_similarity(_cubed(values), _cubed(target), dim=0)


def _cubed(columns: torch.Tensor) -> torch.Tensor:
    deviations = columns - columns.mean(0)
    return (deviations / columns.std(0, correction=0).clamp(min=1e-12)) ** 3


def fit_labelfree_cbm(
    pooled: torch.Tensor,
    image_embeddings: torch.Tensor,
    text_embeddings: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    top_activation: float = 0.25,
    similarity: float = 0.45,
    penalty: float = 7e-4,
    alpha: float = 0.99,
    steps: int = 1000,
    validation: float = 0.1,
    learning_rate: float = 1e-3,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> tuple[LabelFreeCBM, dict[str, str]]:
    """Label-free bottleneck of training images, and the concepts that it leaves out.

    1. Concepts that CLIP does not detect are dropped: mean cosine of their five strongest images at most
       `top_activation`.
    2. A projection of the features learns the others' cosines by `cubed_similarity`: Adam, at most `steps`
       steps, stopped where the similarity on held-out images, a share `validation` of all, gets worse.
    3. Concepts that it does not learn are dropped: similarity on the held-out images at most `similarity`.
    4. The head is an elastic net with λ = `penalty` and α = `alpha` on standardised values.

    pooled: (N, d) features. image_embeddings: (N, e), CLIP's unit rows of the images.
    text_embeddings: (L, e), those of the concepts' names.
    labels: (N,) int64. All are moved to `device`.

    Returns the model, and {dropped concept: reason}. Raises ValueError if no concept survives, naming the
    nearest and the parameter to lower, and for inputs that do not fit.
    Source: Oikarinen et al. 2023, section 3.
    """
    check_names(concepts)
    _check(pooled, image_embeddings, text_embeddings, labels, concepts, classes)
    pooled, labels = pooled.to(device).float(), labels.to(device)
    target = image_embeddings.to(device).float() @ text_embeddings.to(device).float().T  # (N, L)
    detected, dropped = _detected(target, concepts, top_activation)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pooled), generator=generator)
    held_out = torch.zeros(len(pooled), dtype=torch.bool)
    held_out[order[: max(2, round(validation * len(pooled)))]] = True
    projection, reached = _project(
        pooled, target[:, detected.to(device)], held_out.to(device), steps, learning_rate, generator
    )
    learnt, not_learnt = _learnt(reached, [concepts[j] for j in detected], similarity)
    dropped |= not_learnt
    projection, reached = projection[learnt.to(device)], reached[learnt.to(device)]
    values = pooled @ projection.T
    mean, std = values.mean(0), values.std(0).clamp(min=1e-12)
    values = (values - mean) / std
    path = elastic_net_path(values, labels, len(classes), [penalty], alpha)
    low, high = value_range(values)
    model = LabelFreeCBM(
        projection=projection,
        mean=mean,
        std=std,
        class_weights=path.weights[0].float(),
        class_bias=path.bias[0].float(),
        low=low,
        high=high,
        similarity=reached,
        concepts=[concepts[j] for j in detected[learnt]],
        classes=list(classes),
    )
    return model, {name: dropped[name] for name in concepts if name in dropped}


def _detected(target, concepts, top_activation) -> tuple[torch.Tensor, dict[str, str]]:
    """Columns of the target (N, L) whose concept CLIP detects, on the CPU, and why the others are dropped."""
    strongest = target.topk(min(5, len(target)), 0).values.mean(0)
    passed = strongest > top_activation
    if not passed.any():
        raise ValueError(
            f"CLIP detects none of {len(concepts)} concepts: the strongest, "
            f"{concepts[strongest.argmax()]!r}, reaches {strongest.max():.3f}. Lower top_activation (now "
            f"{top_activation}) below that, or give other concepts."
        )
    dropped = {}
    for j in (~passed).nonzero()[:, 0].tolist():
        dropped[concepts[j]] = (
            f"not detected: mean of the five strongest activations {strongest[j]:.3f}, not above "
            f"{top_activation}"
        )
    return passed.nonzero()[:, 0].cpu(), dropped


def _learnt(reached, concepts, similarity) -> tuple[torch.Tensor, dict[str, str]]:
    """Whether each concept's similarity passes, (n,) bool on the CPU, and why the others are dropped."""
    learnt = (reached > similarity).cpu()
    if not learnt.any():
        raise ValueError(
            f"none of the {len(concepts)} concepts that CLIP detects is learnt by the projection: the "
            f"nearest, {concepts[reached.argmax()]!r}, reaches a similarity of {reached.max():.3f}. Lower "
            f"similarity (now {similarity}) below that, or give other concepts."
        )
    dropped = {}
    for name, value, passed in zip(concepts, reached, learnt, strict=True):
        if not passed:
            dropped[name] = f"not learnt: similarity {value:.3f} on held-out images, not above {similarity}"
    return learnt, dropped


def _project(pooled, target, held_out, steps, learning_rate, generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The projection (L, d) most similar to the target (N, L) on held-out rows, and its similarity (L,)."""
    mean, std = pooled.mean(0), pooled.std(0)
    std = std.where(std > 1e-6 * pooled.abs().amax(0), torch.inf)  # a constant feature is not used
    standardised = (pooled - mean) / std
    train, test = standardised[~held_out], standardised[held_out]
    train_target, test_target = target[~held_out], target[held_out]
    shape = target.shape[1], pooled.shape[1]
    start = (2 * torch.rand(shape, generator=generator) - 1) / pooled.shape[1] ** 0.5
    weights = start.to(pooled.device).requires_grad_()
    optimiser = torch.optim.Adam([weights], learning_rate)
    best = weights.detach().clone()
    best_similarity = cubed_similarity(test @ best.T, test_target)
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        (-cubed_similarity(train @ weights.T, train_target).mean()).backward()
        optimiser.step()
        if step % 25 == 0 or step == steps:
            similarity = cubed_similarity(test @ weights.detach().T, test_target)
            if similarity.mean() < best_similarity.mean():
                break
            best, best_similarity = weights.detach().clone(), similarity
    return best / std, best_similarity


def _check(pooled, image_embeddings, text_embeddings, labels, concepts, classes) -> None:
    n_images, (n_texts, width) = len(pooled), text_embeddings.shape
    fits = image_embeddings.shape == (n_images, width) and labels.shape == (n_images,)
    if not fits or n_texts != len(concepts):
        raise ValueError(
            f"features {tuple(pooled.shape)}, image embeddings {tuple(image_embeddings.shape)}, text "
            f"embeddings {tuple(text_embeddings.shape)}, labels {tuple(labels.shape)} and {len(concepts)} "
            "concepts do not fit: as many rows of features, embeddings and labels, as many texts as "
            "concepts, one CLIP for both"
        )
    check_finite_rows(pooled)
    check_finite_rows(image_embeddings, "image embeddings")
    if n_images < 10:
        raise ValueError(f"{n_images} training images are too few to hold some of them out: give 10 or more")
    check_labels(labels, len(classes))
