"""CGIM, CEM and CLM: are a bottleneck's important concepts the right ones, do they exist in the image, and in the right place?

Paper alignment, section 3. All metrics take `ConceptOutputs`; none knows which model it came from.
"""
from collections.abc import Sequence

import torch

from ..bottlenecks import ConceptOutputs
from ..kernels.coam import location_rank, location_region

BASES = ("weight", "value", "product")  # θ_jk, û_ij, θ_jk û_ij


def mean_values(outputs: ConceptOutputs, labels: torch.Tensor) -> torch.Tensor:
    """Û* (L, K): mean concept values over the images of each class that are predicted correctly; NaN for a class with none (section 3.2)."""
    right = outputs.predictions == labels
    total = torch.zeros(len(outputs.classes), len(outputs.concepts), dtype=torch.float64, device=outputs.values.device)
    total.index_add_(0, labels[right], outputs.values[right].double())
    count = torch.bincount(labels[right], minlength=len(outputs.classes))
    return (total / count[:, None]).T  # 0/0 is NaN


def cgim(outputs: ConceptOutputs, labels: torch.Tensor, truth: torch.Tensor) -> dict[str, torch.Tensor]:
    """Concept global importance: cosines of V with θ (1), Û* (2) and θ ⊙ Û* (3), eq. 3–8.

    `labels` (N,), `truth` V (L, K) in [0, 1]. Returns "concept" (3, L) and "class" (3, K). A class with no correctly predicted image is left out of 2 and 3
    (its own entries are NaN); a row or column of zeros has no direction and is NaN. Raises ValueError for a model without a linear head.
    """
    if outputs.class_weights is None:
        raise ValueError("CGIM compares the class weights of a linear head; this model has none")
    if truth.shape != outputs.class_weights.shape:
        raise ValueError(f"truth is {tuple(truth.shape)}, but there are {outputs.class_weights.shape[0]} concepts and {outputs.class_weights.shape[1]} classes")
    truth, theta, mean = truth.double(), outputs.class_weights.double(), mean_values(outputs, labels)
    seen = ~mean.isnan().any(0)  # (K,)
    scores = {"concept": [], "class": []}
    for importance, columns in ((theta, torch.ones_like(seen)), (mean, seen), (theta * mean, seen)):
        scores["concept"].append(_cosine(importance[:, columns], truth[:, columns], 1))
        scores["class"].append(_cosine(importance, truth, 0))
    return {name: torch.stack(rows) for name, rows in scores.items()}


def _cosine(a: torch.Tensor, b: torch.Tensor, dim: int) -> torch.Tensor:
    return (a * b).sum(dim) / (a.norm(dim=dim) * b.norm(dim=dim))


def importance(outputs: ConceptOutputs, basis: str) -> torch.Tensor:
    """(N, L): what the concepts of each image are ranked by: "weight" θ_jk with k the predicted class, "value" û_ij, or "product" θ_jk û_ij (section 3.3)."""
    if basis == "value":
        return outputs.values
    if basis == "product":
        return outputs.contributions
    if basis != "weight":
        raise ValueError(f"basis must be one of {', '.join(BASES)}, not {basis!r}")
    if outputs.class_weights is None:
        raise ValueError('basis "weight" needs the class weights of a linear head; this model has none')
    return outputs.class_weights.T[outputs.predictions]


def top_concepts(scores: torch.Tensor, l: int, among: torch.Tensor | None = None) -> torch.Tensor:
    """(N, l) indices of the concepts of highest score, first the highest (equal ones in concept order); `among` (L,) bool passes over the others."""
    allowed = scores.shape[1] if among is None else int(among.sum())
    if not 1 <= l <= allowed:
        raise ValueError(f"cannot take the first {l} of {allowed} concepts")
    if among is not None:
        scores = scores.masked_fill(~among, -torch.inf)
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :l]


def concept_existence(scores: torch.Tensor, present: torch.Tensor, l: int) -> torch.Tensor:
    """CEM_l of every image, (N,): the share of its first l concepts by `scores` (N, L) that its own labels `present` (N, L) have (eq. 9).

    Raises ValueError where the two do not fit, as when concepts without examples were left out of a model but not of the labels.
    """
    if scores.shape != present.shape:
        raise ValueError(f"scores are {tuple(scores.shape)} and labels {tuple(present.shape)}, but both are images x concepts")
    return present.float().gather(1, top_concepts(scores, l)).mean(1)


def concept_points(points: torch.Tensor, concept_parts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Where each concept's part lies in each image, (N, L, 2, 2): up to two points (left and right), NaN where there is none.

    `points` (N, P, 2): x, y of the part centres, NaN where not visible. `concept_parts`: part indices of each concept, none, one or two.
    """
    out = points.new_full((len(points), len(concept_parts), 2, 2), torch.nan)
    for j, parts in enumerate(concept_parts):
        for side, part in enumerate(parts):
            out[:, j, side] = points[:, part]
    return out


def location_ranks(concept_maps: torch.Tensor, points: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Rank (N, l) of the concept's point in its upsampled map, the better of left and right; M₁·M₂ where no point is visible.

    `concept_maps` (N, l, H, W) of the chosen concepts, `points` (N, l, 2, 2) as from `concept_points`, `size` (M₁, M₂).
    """
    n, l = concept_maps.shape[:2]
    return location_rank(concept_maps.flatten(0, 1), points.flatten(0, 1), size).amin(1).view(n, l)


def concept_location(ranks: torch.Tensor, size: tuple[int, int], alpha: float, l: int, hidden: str = "leave out") -> torch.Tensor:
    """CLM_l of every image, (N,): the share of its first l concepts whose point is among the ⌊α·M₁·M₂/12⌋ highest pixels (eq. 11).

    `ranks` (N, ≥ l) as from `location_ranks`, in order of importance. `hidden`: a pair whose part is not visible is left out ("leave out"; an image with none
    left is NaN) or counts as a "miss". Raises ValueError for fewer than l ranks, and for an alpha outside 0…12.
    """
    if hidden not in ("leave out", "miss"):
        raise ValueError(f'hidden must be "leave out" or "miss", not {hidden!r}')
    if not 1 <= l <= ranks.shape[1]:
        raise ValueError(f"cannot take the first {l} of {ranks.shape[1]} concepts")
    if not 0 <= alpha <= 12:
        raise ValueError(f"alpha is a number of twelfths of the image, 0 to 12, not {alpha}")
    pixels = size[0] * size[1]
    ranks = ranks[:, :l]
    hits, counted = ranks < int(alpha * pixels / 12), (ranks < pixels) | (hidden == "miss")
    return (hits & counted).sum(1) / counted.sum(1)  # 0/0 is NaN


def region_overlap(concept_maps: torch.Tensor, masks: torch.Tensor, alpha: float, chunk: int = 64) -> torch.Tensor:
    """IoU (P,) of Ω, the ⌊α·M₁·M₂/12⌋ highest pixels of each upsampled map (P, H, W), with the true mask (P, M₁, M₂) bool; NaN for an empty mask."""
    if len(concept_maps) != len(masks):
        raise ValueError(f"{len(concept_maps)} maps, but {len(masks)} masks")
    size, masks = tuple(masks.shape[1:]), masks.bool()
    overlaps = []
    for part, mask in zip(concept_maps.split(chunk), masks.split(chunk)):
        region = location_region(part, int(alpha * size[0] * size[1] / 12), size)
        overlaps.append((region & mask).sum((1, 2)) / (region | mask).sum((1, 2)).where(mask.any(2).any(1), torch.nan))
    return torch.cat(overlaps)
