"""The sparse head of a bottleneck: logistic regression with an elastic net, over a path of penalties.

It minimises, over W and b, the latter without penalty,

    1/N Σ_i −log softmax(Wᵀ x_i + b)[y_i]  +  λ (α ‖W‖₁ + (1 − α)/2 ‖W‖²)

as in Wong et al. 2021 (the final layer of label-free bottlenecks). The minimum is that of scikit-learn's
LogisticRegression with C = 1/(λ N) and l1_ratio = α.

| symbol | name | shape |
|---|---|---|
| x, concept values | `values` | (N, L) |
| y | `labels` | (N,) |
| W, b | `weights`, `bias` | (L, K), (K,); in the solver one matrix (L + 1, K) |
| λ, α | `penalties`, `alpha` | (P,), () |

Solved by accelerated proximal gradient steps (Beck and Teboulle 2009) whose length follows the loss's own
curvature, with restarts (O'Donoghue and Candès 2015). Every step is two matrix products over all classes at
once, on CPU or GPU, and each penalty starts at the solution of the one before.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks.inputs import check_labels


class PenaltyPath(NamedTuple):
    """Heads along a path of P penalties, the sparsest first."""

    penalties: torch.Tensor  # (P,), λ, descending
    weights: torch.Tensor  # (P, L, K)
    bias: torch.Tensor  # (P, K)
    nonzero: torch.Tensor  # (P,) int64, how many of the L·K weights are not 0
    objective: torch.Tensor  # (P,), the minimum reached
    # (P,), how far from optimal: largest entry of the proximal gradient, as a share of λα (of 1 if it is 0)
    violation: torch.Tensor


def largest_penalty(values: torch.Tensor, labels: torch.Tensor, n_classes: int, alpha: float = 0.99) -> float:
    """The smallest λ at which all weights are 0: max |Xᵀ(p − y)|/(N α), p the shares of the classes.

    values: (N, L). labels: (N,) int64.
    """
    truth = F.one_hot(labels, n_classes).to(values)
    return ((values.T @ (truth.mean(0) - truth)).abs().max() / (len(values) * max(alpha, 1e-3))).item()


def elastic_net_path(
    values: torch.Tensor,
    labels: torch.Tensor,
    n_classes: int,
    penalties: Sequence[float] | torch.Tensor | None = None,
    alpha: float = 0.99,
    points: int = 20,
    span: float = 1e-3,
    tolerance: float = 1e-3,
    max_steps: int = 20_000,
) -> PenaltyPath:
    """Sparse heads at each of several penalties, solved from the largest down, in float64.

    values: (N, L), standardised or not; the solution stays on their device. labels: (N,) int64.
    penalties: P numbers λ. None takes `points` of them, evenly spaced in the logarithm, from the one at
        which all weights vanish to `span` times it.
    alpha: α, the share of the l1 penalty.
    tolerance: no coordinate of the optimality condition may be off by more than this share of λα.
    max_steps: for each penalty.

    Raises ValueError for NaN or infinite values, labels out of range, penalties that are not positive, an
    `alpha` outside [0, 1], and if `max_steps` steps do not suffice.
    """
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    check_labels(labels, n_classes)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is the share of the l1 penalty, from 0 to 1, not {alpha}")
    x = values.double()
    if penalties is None:
        top = largest_penalty(x, labels, n_classes, alpha) * (1 + 1e-9)  # above its own rounding
        penalties = torch.logspace(0, math.log10(span), points, dtype=torch.float64) * top
    penalties = torch.as_tensor(penalties, dtype=torch.float64).flatten().sort(descending=True).values
    if not len(penalties) or not (penalties > 0).all():
        raise ValueError(f"penalties must be positive numbers, not {penalties.tolist()}")
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)  # (N, L + 1): the bias is the weight of a constant
    # (L + 1, K), the optimum for an infinite penalty: a bias that gives each class its share
    shares = torch.bincount(labels, minlength=n_classes).double().clamp(min=0.5) / len(labels)
    weights = torch.cat([x.new_zeros(x.shape[1] - 1, n_classes), shares.log()[None].to(x)])
    labels, step = labels.to(x.device), 4 * len(x) / x.square().sum(1).max().item() / len(x)
    solutions, objectives, violations = [], [], []
    for penalty in penalties.tolist():
        weights, objective, violation, step = _solve(
            x, labels, weights, penalty * alpha, penalty * (1 - alpha), tolerance, max_steps, step
        )
        solutions.append(weights.clone())
        objectives.append(objective)
        violations.append(violation)
    solutions = torch.stack(solutions)  # (P, L + 1, K)
    heads = solutions[:, :-1].contiguous()
    return PenaltyPath(
        penalties=penalties,
        weights=heads,
        bias=solutions[:, -1].contiguous(),
        nonzero=heads.count_nonzero((1, 2)),
        objective=torch.tensor(objectives, dtype=torch.float64),
        violation=torch.tensor(violations),
    )


def _solve(x, labels, start, l1, l2, tolerance, max_steps, step):
    """One penalty: weights (L + 1, K), objective, violation, and the length of the last step."""
    shrink = torch.full((len(start), 1), l1, dtype=x.dtype, device=x.device)
    shrink[-1] = 0  # of the bias
    scale = tolerance * (l1 or 1.0)
    weights, ahead, momentum = start, start, 1.0
    logits = logits_ahead = x @ start
    for number in range(1, max_steps + 1):
        gradient = _gradient(x, labels, ahead, logits_ahead, l2)
        smooth = _smooth(logits_ahead, labels, ahead, l2)
        step *= 1.1  # tried again at every step: far from the start the loss is much flatter
        while True:
            new = _shrunk(ahead - step * gradient, step * shrink)
            logits_new, move = x @ new, new - ahead
            # the loss must not rise above its own upper bound for this length, up to rounding
            rise = _smooth(logits_new, labels, new, l2) - smooth - (gradient * move).sum()
            if rise - move.square().sum() / (2 * step) <= 1e-14 * smooth.abs():
                break
            step /= 2
        if number % 5 == 0 or number == max_steps:
            violation = (move.abs().max() / step).item()
            if violation <= scale:  # of the step; now exactly
                violation = _violation(x, labels, new, logits_new, shrink, l2)
            if violation <= scale:
                return new, _objective(logits_new, labels, new, l1, l2), violation / scale * tolerance, step
        if ((ahead - new) * (new - weights)).sum() > 0:  # the momentum leads uphill: restart
            ahead, logits_ahead, momentum = new, logits_new, 1.0
        else:
            following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            factor = (momentum - 1) / following
            ahead = new + factor * (new - weights)
            logits_ahead = logits_new + factor * (logits_new - logits)
            momentum = following
        weights, logits = new, logits_new
    raise ValueError(
        f"the elastic net at penalty {l1 + l2:.3g} has not converged after {max_steps} steps (violation "
        f"{violation:.2g}, wanted {scale:.2g}): standardise the values, or raise max_steps, tolerance or the "
        "penalty"
    )


def _gradient(x, labels, weights, logits, l2):
    """The gradient of the smooth part of the objective, (L + 1, K)."""
    residual = logits.softmax(1)
    residual[torch.arange(len(x), device=x.device), labels] -= 1
    gradient = x.T @ residual / len(x)
    gradient[:-1] += l2 * weights[:-1]
    return gradient


def _shrunk(weights, threshold):
    return weights.sign() * (weights.abs() - threshold).clamp(min=0)


def _smooth(logits, labels, weights, l2):
    return F.cross_entropy(logits, labels) + l2 / 2 * weights[:-1].square().sum()


def _objective(logits, labels, weights, l1, l2):
    return (_smooth(logits, labels, weights, l2) + l1 * weights[:-1].abs().sum()).item()


def _violation(x, labels, weights, logits, shrink, l2):
    """Largest entry of W − prox(W − ∇f): 0 at the optimum and nowhere else."""
    gradient = x.T @ (logits.softmax(1) - F.one_hot(labels, logits.shape[1])) / len(x)
    gradient[:-1] += l2 * weights[:-1]
    return (weights - _shrunk(weights - gradient, shrink)).abs().max().item()
