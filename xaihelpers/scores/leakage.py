"""What concept values hold beside their concept: leakage and impurity, rivals of the five papers' metrics.

    CTL_i  = max(0, I(û_i; y) / H(y) − I(c_i; y) / H(y))                     Parisini et al. 2025
    ICL_ij = max(0, I(û_i; û_j) / √(H(û_i) H(û_j)) − I(c_i; c_j) / √(H(c_i) H(c_j)))  the same
    OIS    = 2/L · ‖π(û, c) − π(c, c)‖_F                              Espinosa Zarlenga et al. 2023
    NIS    = ∫_0^1 1/L Σ_j AUC of concept j from all values outside its niche N_j(β) dβ     the same

with û the values, c the concepts, 0 or 1, y the labels. π_ij is the area under the ROC curve by which value i
tells concept j; the niche N_j(β) are the values whose correlation with concept j exceeds β in size. All four
are 0 (NIS: one half) of values that hold nothing but their concept, and of values that hold nothing at all:
they ask for purity, not for truth.

Choices that the papers leave open or make otherwise: mutual information is counted in bins of equal numbers
of images, with Miller and Madow's correction, where CTL and ICL take nearest neighbours; a value tells a
concept by its order alone, in either direction, and NIS reads all values by one ridge regression, where the
authors of OIS and NIS train small networks.
"""

import torch
import torch.nn.functional as F
from scipy.stats import rankdata

from xaihelpers.scores.alignment import concept_aucs

BINS = 4  # of a value's mutual information
NICHES = 5  # values of β, from 0 to 1 without the 1, at which no value has a niche


def concept_task_leakage(values: torch.Tensor, present: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """CTL of each concept, (L,) float64: how much more its value tells of the class than the concept does.

    values, present: (N, L). labels: (N,) int64; of a single class all is NaN.
    A concept that is present in all images or in none has no truth beside it: its leakage counts in full.
    """
    classes = F.one_hot(labels).double()[None]  # (1, N, K)
    entropy = _entropies(classes.sum(1))  # (1,)
    of_values = _information(_binned(values), classes)[:, 0]
    of_truth = _information(_binary(present), classes)[:, 0]
    return ((of_values - of_truth) / entropy).clamp(min=0)


def inter_concept_leakage(values: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """ICL_ij, (L, L) float64 with zeros on the diagonal: how much more two values share than their concepts.

    values, present: (N, L).
    """
    of_values, of_truth = map(_normalised_information, (_binned(values), _binary(present)))
    return (of_values - of_truth).clamp(min=0).fill_diagonal_(0)


def auc_matrix(values: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """π (L, L'): how well value i tells concept j, the area under the ROC curve or its complement.

    values: (N, L). present: (N, L') of 0 and 1. A concept of one kind only is NaN.
    """
    ranks = torch.from_numpy(rankdata(values.cpu().numpy(), axis=0))  # (N, L)
    present = present.cpu().double()
    n_positive = present.sum(0)
    above = ranks.T @ present - n_positive * (n_positive + 1) / 2
    areas = above / (n_positive * (len(present) - n_positive))  # 0/0 is NaN
    return torch.maximum(areas, 1 - areas)


def oracle_impurity(values: torch.Tensor, present: torch.Tensor) -> float:
    """OIS, at least 0: how far values tell other concepts than the concepts themselves do.

    values, present: (N, L). Concepts of one kind only are left out; NaN without two others.
    """
    told = (present.min(0).values < present.max(0).values).nonzero()[:, 0]
    if len(told) < 2:
        return float("nan")
    present, values = present[:, told], values[:, told]
    difference = auc_matrix(values, present) - auc_matrix(present, present)
    return float(2 * difference.norm() / len(told))


def niche_impurity(
    values: torch.Tensor, present: torch.Tensor, training_values: torch.Tensor, training_present: torch.Tensor
) -> float:
    """NIS, 0 to 1: how well concepts are told by the values outside of their niche; one half is chance.

    values, present: (N, L). training_values, training_present: (M, L), of which niches and the one ridge
        regression of all concepts on all standardised values are found.
    The integral is by the trapezoid rule, divided by the range of β. Concepts of one kind only are left out.
    """
    mean, std = training_values.mean(0), training_values.std(0).clamp(min=1e-9)
    train, test = (training_values - mean) / std, (values - mean) / std
    centred = training_present - training_present.mean(0)
    gram = train.T @ train + len(train) / 100 * torch.eye(train.shape[1], dtype=train.dtype)
    weights = torch.linalg.solve(gram, train.T @ centred)  # (L, L)
    spread = centred.square().mean(0).sqrt().clamp(min=1e-9)
    correlation = (train.T @ centred / len(train) / spread).abs()  # (L, L)
    areas = []
    for beta in torch.arange(NICHES) / NICHES:
        outside = correlation <= beta
        areas.append(concept_aucs(test @ (weights * outside), present).nanmean())
    return float(torch.trapezoid(torch.stack(areas), dx=1 / (NICHES - 1)))  # the range is 1 here


def _binned(values: torch.Tensor) -> torch.Tensor:
    """Each value's bin, of equal numbers of images, (L, N, BINS) float64; equal values share a bin."""
    ranks = torch.from_numpy(rankdata(values.detach().cpu().numpy(), axis=0))
    cell = ((ranks - 0.5) * BINS / len(values)).floor().clamp(0, BINS - 1).long()  # (N, L)
    return F.one_hot(cell.T, BINS).double()


def _binary(present: torch.Tensor) -> torch.Tensor:
    """Truth in two bins, (L, N, 2) float64."""
    return F.one_hot((present.cpu() > 0.5).T.long(), 2).double()


def _entropies(counts: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of counts (..., bins), with Miller and Madow's correction."""
    total = counts.sum(-1, keepdim=True)
    shares = counts / total
    plain = -torch.special.xlogy(shares, shares).sum(-1)
    return plain + ((counts > 0).sum(-1) - 1) / (2 * total[..., 0])


def _information(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mutual information in nats of every two binned variables, (L, L').

    one: (L, N, b). other: (L', N, b'). With Miller and Madow's correction of the three entropies, of the
    cells that could be met, so that it is 0 in the mean of independent variables.
    """
    joint = torch.einsum("inb,jnc->ijbc", one, other)  # (L, L', b, b')
    n = one.shape[1]
    shares = joint / n
    rows, columns = one.sum(1) / n, other.sum(1) / n  # (L, b), (L', b')
    plain = torch.special.xlogy(shares, shares).sum((2, 3))
    plain = plain - torch.special.xlogy(rows, rows).sum(1)[:, None]
    plain = plain - torch.special.xlogy(columns, columns).sum(1)[None]
    met = ((rows > 0).sum(1) - 1)[:, None] * ((columns > 0).sum(1) - 1)[None]
    return plain - met / (2 * n)


def _normalised_information(parts: torch.Tensor) -> torch.Tensor:
    """I / √(H H) of every two binned variables, (L, L), 0 where one of them is constant."""
    entropies = _entropies(parts.sum(1))  # (L,)
    scale = (entropies[:, None] * entropies[None]).sqrt()
    return torch.where(scale > 1e-12, _information(parts, parts) / scale.clamp(min=1e-12), 0)
