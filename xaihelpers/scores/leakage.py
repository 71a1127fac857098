"""What concept values hold beside their concept: leakage, a rival of the five papers' metrics.

    CTL_i = max(0, I(û_i; y) / H(y) − I(c_i; y) / H(y))    Parisini et al. 2025

with û the values, c the concepts, 0 or 1, y the labels. It is 0 of values that hold nothing but their
concept, and of values that hold nothing at all: it asks for purity, not for truth. Mutual information is
counted in bins of equal numbers of images, with Miller and Madow's correction, where the authors take nearest
neighbours.
"""

import torch
import torch.nn.functional as F
from scipy.stats import rankdata

BINS = 4  # of a value's mutual information


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
