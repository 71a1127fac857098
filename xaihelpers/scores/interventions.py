"""What a model's concepts do when they are corrected, changed or covered, and how much they suffice for.

    curve(s)     = accuracy with a share s of the concepts corrected, in a policy's order  Koh et al. 2020
    area         = ∫_0^1 curve(s) ds, by the trapezoid rule
    completeness = (a_concepts − chance) / (a_network − chance)                            Yeh et al. 2020
    own response = (û_after − û_before)_j, j the attribute that came                       Goyal et al. 2019
    agreement    = 1 − Σ_p |e_p − ê_p| / Σ_p (|e_p| + |ê_p|)                             Abraham et al. 2022
    locality     = mean |Δû_j| with the concept's own part covered, less that with another part covered
                                                                                         Raman et al. 2023

Policies: random; "uncertainty", the value nearest to its threshold first (Shin et al. 2023); "oracle", the
value that a correction moves most first, which needs the truth. Accuracy at n effective concepts is that of
the head with its n largest weights of each class alone, after Srivastava et al. 2024, who fit a sparse head
and then prune it; here the given head is pruned. e_p is the change of the logit of the class predicted
before, ê_p that of the sum of the concepts' contributions to it, over exact pairs p: the same bird drawn, or
described, before and after one attribute, and nothing else, is changed.
"""

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
    seed: int = 0,
) -> torch.Tensor:
    """Whether each image is classified right with each of SHARES of its concepts corrected, (S, N), 0 or 1.

    values, corrected: (N, L), as the model says them, and as they are after a correction.
    class_weights: (L, K). offset: (K,) or (N, K), what is added to the concepts' part of the logits.
    labels: (N,). policy: see above. thresholds: (L,), for "uncertainty". seed: of "random".
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
    for share in SHARES:
        mixed = torch.where(place < round(share * values.shape[1]), corrected, values)
        right.append(((mixed @ class_weights + offset).argmax(1) == labels).double())
    return torch.stack(right)


def completeness(concept_accuracy: float, network_accuracy: float, n_classes: int) -> float:
    """How much of what the network decides can be decided from its concepts: 1 all, 0 nothing.

    concept_accuracy: of the best classifier on the concept values. network_accuracy: of the network itself.
    Both are shares from 0 to 1.
    Raises ValueError where the network is no better than chance, for then nothing is to be explained.
    """
    chance = 1 / n_classes
    if network_accuracy <= chance:
        raise ValueError(
            f"the network's accuracy {network_accuracy:.3f} does not exceed chance, {chance:.3f}"
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


def own_response(before: torch.Tensor, after: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """By how much the value of the attribute that came rises in each pair, (P,); 1 is the whole scale.

    before, after: (P, L), values on a scale from 0, absent, to 1, present. columns: (P,) int64.
    """
    return (after - before).gather(1, columns[:, None])[:, 0]


def effect_agreement(real: torch.Tensor, claimed: torch.Tensor) -> float:
    """How far the effects that an explanation claims are those that happen: 1 all, 0 none or the opposite.

    real, claimed: e and ê, of P pairs. Returns NaN where nothing happens and nothing is claimed.
    """
    return float(1 - (real - claimed).abs().sum() / (real.abs() + claimed.abs()).sum())


def locality(
    values: torch.Tensor, own_covered: torch.Tensor, other_covered: torch.Tensor, has_part: torch.Tensor
) -> torch.Tensor:
    """How much more each image's values change when their own part is covered than when another one is, (N,).

    values, own_covered, other_covered: (N, L), entry j with nothing covered, with the part of concept j
    covered, and with another part covered. has_part: (L,) bool; other concepts are left out.
    """
    own, other = ((covered - values)[:, has_part].abs() for covered in (own_covered, other_covered))
    return (own - other).mean(1)
