"""What a person's corrections do to a bottleneck's decision, and how much its concepts suffice for.

    curve(s)     = accuracy with a share s of the concepts corrected, in a policy's order  Koh et al. 2020
    area         = ∫_0^1 curve(s) ds, by the trapezoid rule
    completeness = (a_concepts − chance) / (a_network − chance)                            Yeh et al. 2020

Accuracy at n effective concepts is that of the head with its n largest weights of each class alone, after
Srivastava et al. 2024, who fit a sparse head and then prune it; here the given head is pruned.

Policies: random; "uncertainty", the value nearest to its threshold first (Shin et al. 2023); "oracle", the
value that a correction moves most first, which needs the truth.
"""

from collections.abc import Sequence

import torch

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def intervention_curve(
    values: torch.Tensor,
    corrected: torch.Tensor,
    class_weights: torch.Tensor,
    offset: torch.Tensor,
    labels: torch.Tensor,
    policy: str = "random",
    thresholds: torch.Tensor | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> torch.Tensor:
    """Whether each image is classified right with each share of its concepts corrected, (S, N) of 0 and 1.

    values, corrected: (N, L), as the model says them, and as they are after a correction.
    class_weights: (L, K). offset: (K,) or (N, K), what is added to the concepts' part of the logits.
    labels: (N,). policy: see above. thresholds: (L,), for "uncertainty".
    shares: of the concepts. seed: of "random".
    """
    if policy == "uncertainty":
        urgency = -(values - thresholds).abs()
    elif policy == "oracle":
        urgency = (corrected - values).abs()
    else:
        urgency = torch.rand(values.shape, generator=torch.Generator().manual_seed(seed)).to(values)
    order = urgency.argsort(dim=1, descending=True, stable=True)
    place = order.argsort(dim=1)  # (N, L), of each concept in the order
    right = []
    for share in shares:
        mixed = torch.where(place < round(share * values.shape[1]), corrected, values)
        right.append(((mixed @ class_weights + offset).argmax(1) == labels).double())
    return torch.stack(right)


def curve_area(curve: torch.Tensor, shares: Sequence[float] = SHARES) -> torch.Tensor:
    """Area under each image's curve (S, N), by the trapezoid rule over the shares, (N,)."""
    return torch.trapezoid(curve, torch.as_tensor(shares, dtype=curve.dtype), dim=0)


def completeness(concept_accuracy: float, network_accuracy: float, n_classes: int) -> float:
    """How much of what the network decides can be decided from its concepts: 1 all, 0 nothing.

    concept_accuracy: of the best classifier on the concept values. network_accuracy: of the network itself.
    Both are shares from 0 to 1. n_classes: whose chance level is 1 / n_classes.
    Raises ValueError where the network is no better than chance, for then nothing is to be explained.
    """
    chance = 1 / n_classes
    if network_accuracy <= chance:
        raise ValueError(
            f"the network's accuracy {network_accuracy:.3f} does not exceed chance, {chance:.3f}: there is "
            "nothing that concepts could be complete for"
        )
    return (concept_accuracy - chance) / (network_accuracy - chance)


def effective_concepts_logits(
    values: torch.Tensor, class_weights: torch.Tensor, offset: torch.Tensor, n: int
) -> torch.Tensor:
    """Logits (N, K) of a linear head that keeps the n weights of each class that move its logit most.

    A weight moves the logit by its size times the standard deviation of its values. What is left out is held
    at its mean, so that a class does not lose its bias.

    values: (N, L). class_weights: (L, K). offset: (K,) or (N, K).
    """
    mean = values.mean(0)
    effect = class_weights.abs() * values.std(0)[:, None]  # (L, K)
    kept = torch.zeros_like(effect).scatter_(0, effect.topk(n, dim=0).indices, 1.0)
    return (values - mean) @ (class_weights * kept) + mean @ class_weights + offset
