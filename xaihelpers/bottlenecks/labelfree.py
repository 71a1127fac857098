"""Label-free concept bottlenecks (Oikarinen et al. 2023): concepts by name only, CLIP instead of annotators, and a sparse head."""
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .intervention import corrected, value_range
from .outputs import ConceptOutputs, check_names
from .sparse import elastic_net_path


@dataclass
class LabelFreeCBM:
    """A bottleneck whose concepts were learnt from CLIP.

    û = (C f − mean)/std with `projection` (L, d), `mean` and `std` (L,) of the training images; `class_weights` (L, K), sparse, and `class_bias` (K,). `low`,
    `high` (L,): what a concept that a person calls absent or present is set to. `similarity` (L,): how alike û and CLIP's activations are on held-out
    training images, 1 at most.
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

    def explain(self, pooled: torch.Tensor, known: torch.Tensor | None = None) -> ConceptOutputs:
        """Outputs for features (N, d) of images; `known` (N, L): a person's truth, 0 or 1, NaN where nothing is corrected."""
        values = corrected((pooled.to(self.projection) @ self.projection.T - self.mean) / self.std, known, self.low, self.high)
        logits = values @ self.class_weights + self.class_bias
        return ConceptOutputs(values, values * self.class_weights.T[logits.argmax(1)], self.class_weights, logits, self.concepts, self.classes)


def filter_concepts(concepts: list[str], classes: list[str], embed_text: Callable[[list[str]], torch.Tensor], max_length: int = 30, class_cutoff: float = 0.85,
                    other_cutoff: float = 0.9) -> tuple[list[str], dict[str, str]]:
    """The concepts that are neither longer than `max_length` letters, nor too like a class, nor too like a concept that is kept; and {dropped name: reason}.

    `embed_text`: texts -> (n, e) unit rows; alike is a cosine above the cutoff. Of two concepts that are too alike the earlier one stays.
    Raises ValueError for an empty list, names that stand twice, and if none is left.
    """
    check_names(concepts)
    dropped = {name: f"{len(name)} letters, more than {max_length}" for name in concepts if len(name) > max_length}
    short = [name for name in concepts if name not in dropped]
    if short:
        rows = embed_text(short)
        to_class, to_other = rows @ embed_text(list(classes)).T, rows @ rows.T  # (n, K), (n, n)
        kept = []
        for i, name in enumerate(short):
            near, other = to_class[i].max(0), to_other[i, kept].max(0) if kept else None
            if near.values > class_cutoff:
                dropped[name] = f"too like the class {classes[near.indices]!r} (cosine {near.values:.2f} > {class_cutoff})"
            elif other is not None and other.values > other_cutoff:
                dropped[name] = f"too like the concept {short[kept[other.indices]]!r} (cosine {other.values:.2f} > {other_cutoff})"
            else:
                kept.append(i)
        short = [short[i] for i in kept]
    if not short:
        first = concepts[0]
        raise ValueError(f"none of {len(concepts)} concepts is left by the filters; the first, {first!r}, is dropped as {dropped[first]}: "
                         "raise max_length, class_cutoff or other_cutoff")
    return short, {name: dropped[name] for name in concepts if name in dropped}


def cubed_similarity(values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Per column of two (N, L): the cosine of their standardised values' third powers, which weighs the images of extreme activation most (L,).

    Oikarinen et al. 2023, eq. 2.
    """
    cubes = [((part - part.mean(0)) / part.std(0, correction=0).clamp(min=1e-12)) ** 3 for part in (values, target)]
    return F.cosine_similarity(*cubes, dim=0)


def fit_labelfree_cbm(pooled: torch.Tensor, image_embeddings: torch.Tensor, text_embeddings: torch.Tensor, labels: torch.Tensor, concepts: list[str],
                      classes: list[str], top_activation: float = 0.25, similarity: float = 0.45, penalty: float = 7e-4, alpha: float = 0.99,
                      steps: int = 1000, validation: float = 0.1, learning_rate: float = 1e-3, seed: int = 0,
                      device: str | torch.device = "cpu") -> tuple[LabelFreeCBM, dict[str, str]]:
    """Label-free bottleneck of the training images' features (N, d), CLIP's unit rows of these (N, e) and of the concepts' names (L, e), and labels (N,).

    Concepts that CLIP does not see are dropped (mean cosine of their five strongest images ≤ `top_activation`); a projection of the features learns the
    others' cosines by `cubed_similarity` (Adam, at most `steps` steps, stopped where a share `validation` of the images, held out, gets worse); concepts that
    it does not learn are dropped (≤ `similarity` there); then the head, an elastic net with λ = `penalty` and α = `alpha` on standardised values. Returns the
    model and {dropped name: reason}. Raises ValueError if no concept survives, naming the closest miss and the parameter, and for inputs that do not fit.
    """
    check_names(concepts)
    _check(pooled, image_embeddings, text_embeddings, labels, concepts, classes)
    pooled, labels = pooled.to(device).float(), labels.to(device)
    target = image_embeddings.to(device).float() @ text_embeddings.to(device).float().T  # (N, L)
    strongest = target.topk(min(5, len(target)), 0).values.mean(0)
    detected = strongest > top_activation
    dropped = {concepts[j]: f"not detected: mean of the five strongest activations {strongest[j]:.3f}, not above {top_activation}"
               for j in (~detected).nonzero()[:, 0].tolist()}
    if not detected.any():
        raise ValueError(f"CLIP detects none of {len(concepts)} concepts: the strongest, {concepts[strongest.argmax()]!r}, reaches {strongest.max():.3f}. "
                         f"Lower top_activation (now {top_activation}) below that, or give other concepts.")
    kept = detected.nonzero()[:, 0].cpu()
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.zeros(len(pooled), dtype=torch.bool)
    held_out[torch.randperm(len(pooled), generator=generator)[:max(2, round(validation * len(pooled)))]] = True
    projection, alike = _project(pooled, target[:, kept.to(device)], held_out.to(device), steps, learning_rate, generator)
    learnt = (alike > similarity).cpu()
    dropped |= {concepts[j]: f"not learnt: similarity {alike[place]:.3f} on held-out images, not above {similarity}"
                for place, j in enumerate(kept.tolist()) if not learnt[place]}
    if not learnt.any():
        raise ValueError(f"none of the {len(kept)} concepts that CLIP detects is learnt by the projection: the nearest, {concepts[kept[alike.argmax()]]!r}, "
                         f"reaches a similarity of {alike.max():.3f}. Lower similarity (now {similarity}) below that, or give other concepts.")
    projection, alike, kept = projection[learnt.to(device)], alike[learnt.to(device)], kept[learnt]
    values = pooled @ projection.T
    mean, std = values.mean(0), values.std(0).clamp(min=1e-12)
    values = (values - mean) / std
    path = elastic_net_path(values, labels, len(classes), [penalty], alpha)
    model = LabelFreeCBM(projection, mean, std, path.weights[0].float(), path.bias[0].float(), *value_range(values), alike,
                         [concepts[j] for j in kept], list(classes))
    return model, {name: dropped[name] for name in concepts if name in dropped}


def _project(pooled, target, held_out, steps, learning_rate, generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The projection (L, d) that is most like the target (N, L) on held-out rows, and its similarity there (L,)."""
    mean, std = pooled.mean(0), pooled.std(0)
    std = std.where(std > 1e-6 * pooled.abs().amax(0), torch.inf)  # a constant feature is not used
    x = (pooled - mean) / std
    train, test, y, y_test = x[~held_out], x[held_out], target[~held_out], target[held_out]
    weights = ((2 * torch.rand(target.shape[1], x.shape[1], generator=generator) - 1) / x.shape[1]**0.5).to(x.device).requires_grad_()
    optimiser = torch.optim.Adam([weights], learning_rate)
    best = weights.detach().clone(), cubed_similarity(test @ weights.detach().T, y_test)
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        (-cubed_similarity(train @ weights.T, y).mean()).backward()
        optimiser.step()
        if step % 25 == 0 or step == steps:
            alike = cubed_similarity(test @ weights.detach().T, y_test)
            if alike.mean() < best[1].mean():
                break
            best = weights.detach().clone(), alike
    return best[0] / std, best[1]


def _check(pooled, image_embeddings, text_embeddings, labels, concepts, classes) -> None:
    n, (l, e) = len(pooled), text_embeddings.shape
    if image_embeddings.shape != (n, e) or labels.shape != (n,) or l != len(concepts):
        raise ValueError(f"features {tuple(pooled.shape)}, image embeddings {tuple(image_embeddings.shape)}, text embeddings {tuple(text_embeddings.shape)}, "
                         f"labels {tuple(labels.shape)} and {len(concepts)} concepts do not fit: as many rows of features, embeddings and labels, "
                         "as many texts as concepts, one CLIP for both")
    for name, tensor in (("features", pooled), ("image embeddings", image_embeddings)):
        if len(bad := (~tensor.isfinite()).any(1).nonzero()):
            raise ValueError(f"{name} of {len(bad)} images are NaN or infinite, the first in row {int(bad[0])}")
    if n < 10:
        raise ValueError(f"{n} training images are too few to hold some of them out: give 10 or more")
    if labels.min() < 0 or labels.max() >= len(classes):
        raise ValueError(f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {len(classes)} classes")
