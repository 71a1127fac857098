"""CGIM, CEM and CLM: are the important concepts the right ones, in the image, and in the right place?

CEM here is the concept existence METRIC; the concept embedding MODEL, a bottleneck, is `bottlenecks.cem`.
Outputs and labels are matched by their rows (see `ConceptOutputs.align`).

Paper alignment, section 3, with φ the cosine and k the predicted class of image i:

    CGIM₁ = φ(θ, V),  CGIM₂ = φ(Û*, V),  CGIM₃ = φ(θ ⊙ Û*, V)  eq. 3-5 by concept, 6-8 by class
    q_i = concepts by θ_jk û_ij, descending                         section 3.3
    (θ_jk − θ_jr)(û_ij − ū_j), r the runner-up                      ours, not the paper's
    CEM_l = 1/l Σ_{s ≤ l} 1[q_is ∈ Λ_i]                             eq. 9 and 10
    CLM_l = 1/l Σ_{s ≤ l} 1[p_i,q_is ∈ Ω_i,q_is]                    eq. 11

| symbol | name | shape |
|---|---|---|
| θ | `outputs.class_weights` | (L, K) |
| û | `outputs.values` | (N, L) |
| θ_jk û_ij | `outputs.contributions` | (N, L) |
| ū, mean û of the training images | `centre` | (L,) |
| Û*, mean û of a class's correctly classified images | `mean_values` | (L, K) |
| V | `truth` | (L, K), in [0, 1] |
| q, first l | `top_concepts` | (N, l) |
| Λ | `present` | (N, L), 0 or 1 |
| p, centre of a concept's part | `points` | (N, L, 2, 2): up to two points, x and y |
| Ω, the ⌊α M₁ M₂/12⌋ highest pixels | rank < that number | |
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from scipy.stats import rankdata

from xaihelpers.kernels.coam import location_rank
from xaihelpers.outputs import ConceptOutputs


def bases_of(outputs: ConceptOutputs) -> tuple[str, ...]:
    """What the concepts of a model can be ranked by; weights and the contrast only of a linear head."""
    headless = outputs.class_weights is None
    return ("value", "product") if headless else ("weight", "value", "product", "contrast")


def reparameterised(
    outputs: ConceptOutputs,
    zero: torch.Tensor | float = 0.0,
    gauge: torch.Tensor | float = 0.0,
    scale: torch.Tensor | float = 1.0,
) -> ConceptOutputs:
    """A model with a linear head, written in another way: the same logits up to a constant for each image.

    zero: (L,), what is taken from each concept's values; the bias absorbs it.
    gauge: (L,), what is added to each concept's weights for all classes; softmax does not see it.
    scale: (L,), what each concept's values are then multiplied by, and its weights divided.
    """
    values = (outputs.values - zero) * scale
    class_weights = ((outputs.class_weights.T + gauge) / scale).T.contiguous()
    return replace(
        outputs,
        values=values,
        class_weights=class_weights,
        contributions=values * class_weights.T[outputs.predictions],
        thresholds=None if outputs.thresholds is None else (outputs.thresholds - zero) * scale,
    )


def writings(outputs: ConceptOutputs, centre: torch.Tensor) -> dict[str, tuple[ConceptOutputs, torch.Tensor]]:
    """The same model in words -> written so, with the centre that belongs to it; no prediction changes.

    A concept's weights, values or their scale are moved by its standard deviation, by 1 where that is 0.

    centre: ū (L,). A model without a linear head has one writing, the first.
    """
    found = {"as fitted": (outputs, centre)}
    if outputs.class_weights is None:
        return found
    spreads = outputs.values.std(0), outputs.class_weights.std(1)
    of_values, of_weights = (spread.where(spread > 1e-9, 1) for spread in spreads)
    ways = {
        "1 sd added to all weights of a concept": {"gauge": of_weights},
        "1 sd taken from all weights of a concept": {"gauge": -of_weights},
        "zero of the values 1 sd higher": {"zero": of_values},
        "zero of the values 1 sd lower": {"zero": -of_values},
        "zero of the values at the training mean": {"zero": centre},
        "values scaled to sd 1": {"scale": 1 / of_values},
        "weights scaled to sd 1": {"scale": of_weights},
    }
    for name, way in ways.items():
        other = (centre - way.get("zero", 0.0)) * way.get("scale", 1.0)
        found[name] = reparameterised(outputs, **way), other
    return found


def mean_values(outputs: ConceptOutputs, labels: torch.Tensor) -> torch.Tensor:
    """Û* (L, K) float64: mean concept values over the images of each class that are predicted correctly.

    labels: (N,) int64. A class without such an image is NaN. Source: paper alignment, section 3.2.
    """
    correct = outputs.predictions == labels
    n_classes, n_concepts = len(outputs.classes), len(outputs.concepts)
    total = torch.zeros(n_classes, n_concepts, dtype=torch.float64, device=labels.device)
    total.index_add_(0, labels[correct], outputs.values[correct].double())
    count = torch.bincount(labels[correct], minlength=n_classes)
    return (total / count[:, None]).T  # 0/0 is NaN


def cgim(outputs: ConceptOutputs, labels: torch.Tensor, truth: torch.Tensor) -> dict[str, torch.Tensor]:
    """Concept global importance: the cosines of V with θ (1), Û* (2) and θ ⊙ Û* (3).

    labels: (N,) int64. truth: V (L, K) in [0, 1], NaN of what nobody annotated.

    Returns "concept" (3, L) and "class" (3, K), float64. What V does not tell is left out. A class with no
    correctly predicted image is left out of 2 and 3 (its own entries are NaN); a row or column of zeros has
    no direction and is NaN.
    Raises ValueError for a model without a linear head.
    Source: paper alignment, eq. 3–8.
    """
    if outputs.class_weights is None:
        raise ValueError("CGIM compares the class weights of a linear head; this model has none")
    untold = truth.isnan()
    truth, theta = truth.double().nan_to_num(), outputs.class_weights.double().masked_fill(untold, 0)
    mean = mean_values(outputs, labels)
    seen = ~mean.isnan().any(0)  # (K,)
    mean = mean.masked_fill(untold & seen, 0)
    everything = torch.ones_like(seen)

    def cosine(a, b, dim):  # NaN of zeros
        return (a * b).sum(dim) / (a.norm(dim=dim) * b.norm(dim=dim))

    by_concept, by_class = [], []
    for importance, columns in ((theta, everything), (mean, seen), (theta * mean, seen)):
        by_concept.append(cosine(importance[:, columns], truth[:, columns], 1))
        by_class.append(cosine(importance, truth, 0))
    return {"concept": torch.stack(by_concept), "class": torch.stack(by_class)}


def concept_importance(
    outputs: ConceptOutputs, basis: str, centre: torch.Tensor | None = None
) -> torch.Tensor:
    """(N, L): what the concepts of each image are ranked by.

    basis: one of `bases_of`: "weight" θ_jk with k the predicted class, "value" û_ij, "product" θ_jk û_ij; or
        "contrast" (θ_jk − θ_jr)(û_ij − ū_j) with r the class of the second highest logit, which no other
        writing of the model changes (see `writings`).
    centre: ū (L,), for "contrast".
    Source: paper alignment, section 3.3; the contrast is ours.
    """
    if basis == "value":
        return outputs.values
    if basis == "product":
        return outputs.contributions
    weights_of = outputs.class_weights.T  # (K, L)
    if basis == "weight":
        return weights_of[outputs.predictions]
    predicted, runner_up = outputs.logits.topk(2, dim=1).indices.T  # (N,) each
    return (weights_of[predicted] - weights_of[runner_up]) * (outputs.values - centre)


def top_concepts(importance: torch.Tensor, first: int, eligible: torch.Tensor | None = None) -> torch.Tensor:
    """Indices (N, l) of each image's most important concepts, descending; equal ones in concept order.

    importance: (N, L). first: l. eligible: (L,) bool, the concepts that may be chosen; None is all.
    Raises ValueError for an l below 1 or above the number of eligible concepts.
    """
    n_eligible = importance.shape[1] if eligible is None else int(eligible.sum())
    if not 1 <= first <= n_eligible:
        raise ValueError(f"cannot take the first {first} of {n_eligible} concepts")
    if eligible is not None:
        importance = importance.masked_fill(~eligible, -torch.inf)
    return importance.sort(dim=1, descending=True, stable=True).indices[:, :first]


def concept_existence(importance: torch.Tensor, present: torch.Tensor, first: int) -> torch.Tensor:
    """The concept existence metric CEM_l of every image, (N,): the share of its first l concepts that it has.

    importance: (N, L) as from `concept_importance`. present: (N, L), 0 or 1, the image's own labels, NaN of a
        concept that they do not tell, which is left out (an image with none left is NaN). first: l.

    Raises ValueError where the two do not fit, and for an l out of range.
    Source: paper alignment, eq. 9, 10.
    """
    if importance.shape != present.shape:
        shapes = f"{tuple(importance.shape)} and present {tuple(present.shape)}"
        raise ValueError(f"importance is {shapes}, but both are images x concepts")
    return present.float().gather(1, top_concepts(importance, first)).nanmean(1)


def concept_aucs(
    values: torch.Tensor, present: torch.Tensor, groups: torch.Tensor | None = None
) -> torch.Tensor:
    """Of each concept the area under the ROC curve: how often its value is higher where it is present.

    values: (N, L). present: (N, L) of 0 and 1.
    groups: (N,) int, where only pairs of images of one group count (birds of one species, say).
    Returns (L,) float64 on the CPU, NaN of a concept without such a pair.
    """
    present, values = present.cpu().double(), values.cpu()
    groups = torch.zeros(len(values)) if groups is None else groups.cpu()
    above = n_pairs = torch.zeros(values.shape[1], dtype=torch.float64)
    for group in groups.unique():
        of_group = present[groups == group]
        ranks = torch.from_numpy(rankdata(values[groups == group].numpy(), axis=0))
        n_positive = of_group.sum(0)
        n_pairs = n_pairs + n_positive * (len(of_group) - n_positive)
        above = above + (ranks * of_group).sum(0) - n_positive * (n_positive + 1) / 2
    return above / n_pairs  # 0/0 is NaN


def concept_points(points: torch.Tensor, concept_parts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Where each concept's part lies in each image, (N, L, 2, 2): up to two points (left, right), else NaN.

    points: (N, P, 2), x and y of the part centres in pixels, NaN where not visible.
    concept_parts: part indices of each of the L concepts, none, one or two.
    """
    by_concept = points.new_full((len(points), len(concept_parts), 2, 2), torch.nan)
    for j, parts in enumerate(concept_parts):
        for side, part in enumerate(parts):
            by_concept[:, j, side] = points[:, part]
    return by_concept


def location_ranks(concept_maps: torch.Tensor, points: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Rank of each concept's point in its upsampled map, (N, l) int64: the better one of left and right.

    concept_maps: (N, l, H, W) of the chosen concepts. points: (N, l, 2, 2) as from `concept_points`.
    size: (M₁, M₂), height and width of the image in pixels.

    Where no point is visible the rank is M₁·M₂. Raises ValueError as `kernels.coam.location_rank` does.
    """
    n_images, n_chosen = concept_maps.shape[:2]
    ranks = location_rank(concept_maps.flatten(0, 1), points.flatten(0, 1), size)
    return ranks.amin(1).view(n_images, n_chosen)


def concept_location(
    ranks: torch.Tensor, size: tuple[int, int], alpha: float, first: int, hidden: str = "leave out"
) -> torch.Tensor:
    """The concept location metric CLM_l of every image, (N,): the share of its first l concepts with a hit.

    A hit is a point among the ⌊α·M₁·M₂/12⌋ highest pixels of its map.

    ranks: (N, ≥ l) as from `location_ranks`, in order of importance. size: (M₁, M₂).
    alpha: α, 0 to 12. first: l.
    hidden: how a concept counts whose part is not visible: "leave out" (NaN where none is left), or "miss".

    Raises ValueError for an alpha out of range and another `hidden`.
    Source: paper alignment, eq. 11.
    """
    if hidden not in ("leave out", "miss"):
        raise ValueError(f'hidden must be "leave out" or "miss", not {hidden!r}')
    if not 0 <= alpha <= 12:
        raise ValueError(f"alpha is a number of twelfths of the image, 0 to 12, not {alpha}")
    pixels = size[0] * size[1]
    ranks = ranks[:, :first]
    hits = ranks < int(alpha * pixels / 12)
    counted = (ranks < pixels) | (hidden == "miss")
    return (hits & counted).sum(1) / counted.sum(1)  # 0/0 is NaN


def region_iou(regions: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """IoU (P,) of regions, as of `kernels.coam.location_region`, with masks; NaN of an empty mask.

    Both are bool (P, M₁, M₂).
    """
    shared = (regions & masks).sum((1, 2))
    return (shared / (regions | masks).sum((1, 2))).where(masks.any(2).any(1), torch.nan)
