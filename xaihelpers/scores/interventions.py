"""What a model's decisions do when its concepts are corrected or changed: rivals of the papers' metrics.

    curve(s)  = accuracy with a share s of the concepts corrected, the least sure first  Koh et al. 2020
    area      = ∫_0^1 curve(s) ds, by the trapezoid rule
    agreement = 1 − Σ_p |e_p − ê_p| / Σ_p (|e_p| + |ê_p|)                             Abraham et al. 2022

The least sure is the value nearest to its threshold (Shin et al. 2023). e_p is the change of the logit of the
class predicted before, ê_p that of the sum of the concepts' contributions to it, over exact pairs p: the same
bird drawn before and after one attribute, and nothing else, is changed.
"""

import torch

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def intervention_curve(
    values: torch.Tensor,
    corrected: torch.Tensor,
    class_weights: torch.Tensor,
    offset: torch.Tensor,
    labels: torch.Tensor,
    thresholds: torch.Tensor,
) -> torch.Tensor:
    """Whether each image is classified right with each of SHARES of its concepts corrected, (S, N), 0 or 1.

    values, corrected: (N, L), as the model says them, and as they are after a correction.
    class_weights: (L, K). offset: (K,) or (N, K), what is added to the concepts' part of the logits.
    labels: (N,). thresholds: (L,).
    """
    order = (values - thresholds).abs().argsort(dim=1, stable=True)
    place = order.argsort(dim=1)  # (N, L), of each concept in the order
    right = []
    for share in SHARES:
        mixed = torch.where(place < round(share * values.shape[1]), corrected, values)
        right.append(((mixed @ class_weights + offset).argmax(1) == labels).double())
    return torch.stack(right)


def effect_agreement(real: torch.Tensor, claimed: torch.Tensor) -> float:
    """How far the effects that an explanation claims are those that happen: 1 all, 0 none or the opposite.

    real, claimed: e and ê, of P pairs. Returns NaN where nothing happens and nothing is claimed.
    """
    return float(1 - (real - claimed).abs().sum() / (real.abs() + claimed.abs()).sum())
