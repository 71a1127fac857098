"""Label-free concept bottlenecks (Oikarinen et al. 2023): concepts by name only, CLIP instead of annotators.

    q_j = C_j f,   P_j = CLIP's cosines of all images with concept j                 section 3
    sim(P_j, q_j) = P̄_j³ · q̄_j³ / (‖P̄_j³‖ ‖q̄_j³‖),   P̄, q̄ standardised    eq. 2
    max over C:  Σ_j sim(P_j, q_j)
    û = (C f − shift) / scale,   logits = θᵀ û + b,   θ sparse (`sparse.elastic_net_head`)

| symbol | name | shape |
|---|---|---|
| f, features | `pooled` | (N, d) |
| C | `bank`, `projection` | (L, d) |
| mean and spread of C f in training | `shift`, `scale` | (L,) |
| P | `target` | (N, L) |
| sim | `similarity` | (L,) |

û, θ and b are those of `head`.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.bottlenecks.head import LinearBottleneck
from xaihelpers.bottlenecks.sparse import elastic_net_head

MAX_LENGTH = 30  # letters in a concept
CLASS_CUTOFF, OTHER_CUTOFF = 0.85, 0.9  # cosines above which a concept is too like a class, or another
VALIDATION = 0.1  # share of the training images that the projection is not trained on
STEPS = 1000  # of the projection, at most
LEARNING_RATE = 1e-3


def filter_concepts(
    concepts: list[str], classes: list[str], embed_text: Callable[[list[str]], torch.Tensor]
) -> list[str]:
    """The concepts that are neither too long, nor too similar to a class, nor to a concept that is kept.

    embed_text: n texts -> (n, e), unit rows. Of two similar concepts the earlier one stays.

    Raises ValueError if no concept is left.
    Source: Oikarinen et al. 2023, section 3.1 and appendix A.
    """
    short = [name for name in concepts if len(name) <= MAX_LENGTH]
    kept = []
    if short:
        rows = embed_text(short)
        to_class, to_other = rows @ embed_text(list(classes)).T, rows @ rows.T  # (n, K), (n, n)
        for i in range(len(short)):
            if to_class[i].max() <= CLASS_CUTOFF and (to_other[i, kept] <= OTHER_CUTOFF).all():
                kept.append(i)
    if not kept:
        raise ValueError(
            f"none of {len(concepts)} concepts is left: {len(concepts) - len(short)} have more than "
            f"{MAX_LENGTH} letters, the others are too similar to a class: give other concepts"
        )
    return [short[i] for i in kept]


def cubed_similarity(values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Similarity (L,) of each column of two (N, L): the cosine of their standardised values' third powers.

    The third power gives the images of extreme activation the most weight. Oikarinen et al. 2023, eq. 2.
    """
    cubes = []
    for columns in (values, target):
        deviations = columns - columns.mean(0)
        cubes.append((deviations / columns.std(0, correction=0).clamp(min=1e-12)) ** 3)
    return F.cosine_similarity(*cubes, dim=0)


def fit_labelfree_cbm(
    dataset: ConceptDataset,
    named: bool = False,
    top_activation: float = 0.25,
    similarity: float = 0.45,
    penalty: float = 7e-4,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> LinearBottleneck:
    """Label-free bottleneck of a data set's training images.

    1. Concepts that CLIP does not detect are dropped: mean cosine of their five strongest images at most
       `top_activation`.
    2. A projection of the features learns the others' cosines by `cubed_similarity`: Adam, stopped where the
       similarity on held-out images gets worse.
    3. Concepts that it does not learn are dropped: similarity on the held-out images at most `similarity`.
    4. The head is an elastic net with λ = `penalty` on standardised values.

    named: whether the concepts are the data set's phrases, filtered by `filter_concepts`; else they are those
        that somebody annotated, taken as they are, and the phrases where nobody did.

    Raises ValueError if no concept survives, naming the nearest and the parameter to lower.
    Source: Oikarinen et al. 2023, section 3.
    """
    concepts = dataset.concepts or dataset.phrases
    if named:
        concepts = filter_concepts(dataset.phrases, dataset.classes, dataset.embed_texts)
    # in float64: a thousand steps in float32 enlarge what two processors round otherwise
    pooled = dataset.pooled[dataset.train].to(device).double()
    images = dataset.image_embeddings[dataset.train].to(device).double()
    labels = dataset.labels[dataset.train].to(device)
    target = images @ dataset.embed_texts(concepts).to(images).T  # (N, L)
    strongest = target.topk(5, 0).values.mean(0)
    detected = _above(top_activation, strongest, concepts, "is detected by CLIP", "top_activation")
    seen = [concepts[j] for j in detected]
    projection, reached = _project(pooled, target[:, detected], torch.Generator().manual_seed(seed))
    learnt = _above(similarity, reached, seen, "that CLIP detects is learnt by the projection", "similarity")
    kept = [seen[j] for j in learnt]
    projection = projection[learnt]
    values = pooled @ projection.T
    scale = values.mean(0), values.std(0).clamp(min=1e-12)
    head = partial(elastic_net_head, labels=labels, n_classes=len(dataset.classes), penalty=penalty)
    return LinearBottleneck.of_bank(pooled, projection, *scale, head, kept, dataset.classes)


def _above(least: float, levels: torch.Tensor, names: list[str], what: str, setting: str) -> list[int]:
    """Places of the names whose levels exceed the least. Raises ValueError, naming the nearest, for none."""
    if not (levels > least).any():
        raise ValueError(
            f"none of {len(names)} concepts {what}: the nearest, {names[levels.argmax()]!r}, reaches "
            f"{levels.max():.3f}. Lower {setting} (now {least}) below that, or give other concepts."
        )
    return (levels > least).nonzero()[:, 0].tolist()


def _project(pooled, target, generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The projection (L, d) most similar to the target (N, L) on held-out rows, and its similarity (L,)."""
    held_out = torch.zeros(len(pooled), dtype=torch.bool)
    order = torch.randperm(len(pooled), generator=generator)
    held_out[order[: max(2, round(VALIDATION * len(pooled)))]] = True
    held_out = held_out.to(pooled.device)
    mean, std = pooled.mean(0), pooled.std(0)
    std = std.where(std > 1e-6 * pooled.abs().amax(0), torch.inf)  # a constant feature is not used
    standardised = (pooled - mean) / std
    train, test = standardised[~held_out], standardised[held_out]
    train_target, test_target = target[~held_out], target[held_out]
    shape = target.shape[1], pooled.shape[1]
    start = (2 * torch.rand(shape, generator=generator) - 1) / pooled.shape[1] ** 0.5
    weights = start.to(pooled).requires_grad_()
    optimiser = torch.optim.Adam([weights], LEARNING_RATE)
    best = weights.detach().clone()
    best_similarity = cubed_similarity(test @ best.T, test_target)
    for step in range(1, STEPS + 1):
        optimiser.zero_grad()
        (-cubed_similarity(train @ weights.T, train_target).mean()).backward()
        optimiser.step()
        if step % 25 == 0:
            similarity = cubed_similarity(test @ weights.detach().T, test_target)
            if similarity.mean() < best_similarity.mean():
                break
            best, best_similarity = weights.detach().clone(), similarity
    return best / std, best_similarity
