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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from scipy.stats import rankdata

from xaihelpers.bottlenecks.fits import Fit
from xaihelpers.bottlenecks.posthoc import PosthocCBM
from xaihelpers.kernels.coam import location_rank, upsample
from xaihelpers.outputs import ConceptOutputs

# How importance is read: section 3.3 ranks by "the descending order of the magnitude" of what has a sign, and
# its lists show a concept that argues by its absence as if it were there.
READ = ("by presence alone", "by size")


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


def writings(fit: Fit) -> dict[str, Fit]:
    """The same model in words -> written so, with the centre that belongs to it; no prediction changes.

    A concept's weights, values or their scale are moved by its standard deviation, by 1 where that is 0. Of a
    post-hoc bottleneck values are also written as projections or, as in the original code, as distances to
    the hyperplanes, whichever they are not. A model without a linear head has one writing, the first.
    """
    (outputs, _, centre, model), found = fit, {"as fitted": fit}
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
    if isinstance(model, PosthocCBM) and model.intercepts is not None:
        columns = [model.concepts.index(concept) for concept in outputs.concepts]
        is_margin = bool((model.shift != 0).any())
        zero, scale = (part[columns] for part in model.written(not is_margin))
        name = "projections" if is_margin else "distances to the planes"
        ways[f"values as {name}"] = {"zero": zero, "scale": scale}
    for name, way in ways.items():
        other = (centre - way.get("zero", 0.0)) * way.get("scale", 1.0)
        found[name] = fit._replace(outputs=reparameterised(outputs, **way), centre=other)
    return found


class View(NamedTuple):
    """Fits of a model in one writing, and one way to read what its concepts are ranked by."""

    fits: Sequence[Fit]
    read: str = ""  # one of READ

    def importance(self, basis: str) -> list[torch.Tensor]:
        """Of each fit (N, L), as of `concept_importance`."""
        found = []
        for fit in self.fits:
            ranked = concept_importance(fit.outputs, basis, fit.centre)
            zero = fit.centre if basis == "contrast" else 0
            if self.read == READ[0]:
                ranked = ranked.where(fit.outputs.values > zero, -torch.inf)
            found.append(ranked.abs() if self.read == READ[1] else ranked)
        return found


def views(fits: Sequence[Fit], heads: Mapping[str, Sequence[Fit]]) -> tuple[dict[str, View], dict[str, View]]:
    """What every claim about a model's importance is asked: all its writings, as fitted first; all readings.

    heads: the model with other heads by name, as of `bottlenecks.fits.fit_with_heads`.
    """
    of_fits = [writings(fit) for fit in fits]
    written = {way: View([ways[way] for ways in of_fits]) for way in of_fits[0]}
    readings = {read: View(fits, read) for read in READ}
    return written, readings | {f"another head: {name}": View(others) for name, others in heads.items()}


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


def reached(
    concept_maps: torch.Tensor, points: torch.Tensor, size: tuple[int, int], threshold: float
) -> torch.Tensor:
    """Whether a map reaches a share of its range at its concept's point, (N, l) of 0 and 1; NaN if hidden.

    Then Ω is made by a threshold τ, as section 3.4 of paper alignment and its Algorithm 2 have it, and not of
    a share of the pixels. The better one of left and right counts.

    concept_maps, points, size: as of `location_ranks`. threshold: τ, from 0 to 1.
    """
    at, found = points.flatten(0, 1), []  # (P, 2, 2)
    x, y = at.nan_to_num().long().unbind(2)
    pixels = y.clamp(0, size[0] - 1) * size[1] + x.clamp(0, size[1] - 1)  # (P, 2)
    for maps, here in zip(concept_maps.flatten(0, 1).split(64), pixels.split(64), strict=True):
        maps = upsample(maps, size).flatten(1)
        low, high = maps.aminmax(dim=1, keepdim=True)
        found.append(maps.gather(1, here) - low >= threshold * (high - low))
    found = torch.cat(found).double().masked_fill(at.isnan().any(2), -1).amax(1)
    return found.where(found >= 0, torch.nan).view(concept_maps.shape[:2])


def near_points(points: torch.Tensor, grid: tuple[int, int], size: tuple[int, int]) -> torch.Tensor:
    """Maps (..., H, W) that fall from the nearer of two points (..., 2, 2): minus the distance in pixels.

    points: x and y in an image of `size`; NaN, of what is hidden, lies far from it. grid: H and W.
    """
    sides = zip(grid, size, strict=True)
    middles = [(torch.arange(n, device=points.device) + 0.5) * side / n for n, side in sides]
    down, across = torch.meshgrid(*middles, indexing="ij")
    cells = torch.stack([across, down], -1)  # (H, W, 2)
    away = cells - points.nan_to_num(-1e4)[..., None, None, :]  # (..., 2, H, W, 2)
    return -away.norm(dim=-1).amin(-3)


def first_pair(
    fit: Fit, ranked: torch.Tensor, parts: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each image's two most important concepts on different parts (N, 2), and which way they speak (N, 2).

    That is the sign of θ_jk − θ_jr for the predicted class k against the runner-up r: a map that is turned by
    it is high where the bird is, whether its concept argues by presence or by absence. 1 without a head.

    ranked: (N, L). parts: indices of each concept's parts, of one or two sides.
    """
    part = torch.tensor([of[0] if of else -1 for of in parts], device=ranked.device)
    one = top_concepts(ranked, 1, part >= 0)  # (N, 1)
    elsewhere = (part >= 0) & (part != part[one])  # (N, L)
    pair = torch.cat([one, ranked.masked_fill(~elsewhere, -torch.inf).argmax(1, keepdim=True)], 1)
    if fit.outputs.class_weights is None:
        return pair, torch.ones_like(pair)
    theta = fit.outputs.class_weights.T
    k, r = fit.outputs.logits.topk(2, dim=1).indices.T
    return pair, (theta[k] - theta[r]).gather(1, pair).sign()


def region_iou(regions: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """IoU (P,) of regions, as of `kernels.coam.location_region`, with masks; NaN of an empty mask.

    Both are bool (P, M₁, M₂).
    """
    shared = (regions & masks).sum((1, 2))
    return (shared / (regions | masks).sum((1, 2))).where(masks.any(2).any(1), torch.nan)
