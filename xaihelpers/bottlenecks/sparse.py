"""The sparse head of a bottleneck: logistic regression with an elastic net.

It minimises, over W and b, the latter without penalty,

    1/N Σ_i −log softmax(Wᵀ x_i + b)[y_i]  +  λ (α ‖W‖₁ + (1 − α)/2 ‖W‖²)

as in Wong et al. 2021 (the final layer of label-free bottlenecks). The minimum is that of scikit-learn's
LogisticRegression with C = 1/(λ N) and l1_ratio = α.

| symbol | name | shape |
|---|---|---|
| x, concept values | `values` | (N, L) |
| y | `labels` | (N,) |
| W, b | `weights`, `bias` | (L, K), (K,); in the solver one matrix (L + 1, K) |
| λ, α | `penalty`, `ALPHA` | |

Solved by accelerated proximal gradient steps (Beck and Teboulle 2009) whose length follows the loss's own
curvature, with restarts (O'Donoghue and Candès 2015). Every step is two matrix products over all classes at
once, on CPU or GPU.
"""

import torch
import torch.nn.functional as F

ALPHA = 0.99  # α, the share of the l1 penalty
TOLERANCE = 1e-6  # no coordinate of the optimality condition may be off by more than this share of λα
MAX_STEPS = 20_000


def elastic_net_head(
    values: torch.Tensor, labels: torch.Tensor, n_classes: int, penalty: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A sparse linear head on concept values: weights W (L, K) and bias b (K,), in float64.

    values: (N, L), standardised or not; the solution stays on their device. labels: (N,) int64. penalty: λ.

    Raises ValueError for a penalty that is not positive, and if `MAX_STEPS` steps do not suffice.
    """
    if not penalty > 0:
        raise ValueError(f"penalty must be a positive number, not {penalty}")
    l1, l2 = penalty * ALPHA, penalty * (1 - ALPHA)
    tolerance = TOLERANCE * l1
    x = values.double()
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)  # (N, L + 1): the bias is the weight of a constant
    # (L + 1, K), the optimum for an infinite penalty: a bias that gives each class its share
    shares = torch.bincount(labels, minlength=n_classes).double().clamp(min=0.5) / len(labels)
    weights = torch.cat([x.new_zeros(x.shape[1] - 1, n_classes), shares.log()[None].to(x)])
    labels, step = labels.to(x.device), 4 * len(x) / x.square().sum(1).max().item() / len(x)
    shrink = torch.full((len(weights), 1), l1, dtype=x.dtype, device=x.device)
    shrink[-1] = 0  # of the bias

    def smooth_part(weights, logits):
        """Of the objective."""
        return F.cross_entropy(logits, labels) + l2 / 2 * weights[:-1].square().sum()

    def gradient_of(weights, logits):
        """Of the smooth part, (L + 1, K)."""
        gradient = x.T @ (logits.softmax(1) - F.one_hot(labels, n_classes)) / len(x)
        gradient[:-1] += l2 * weights[:-1]
        return gradient

    def shrunk(weights, threshold):
        return weights.sign() * (weights.abs() - threshold).clamp(min=0)

    ahead, momentum = weights, 1.0
    logits = logits_ahead = x @ weights
    for number in range(1, MAX_STEPS + 1):
        gradient, smooth = gradient_of(ahead, logits_ahead), smooth_part(ahead, logits_ahead)
        step *= 1.1  # tried again at every step: far from the start the loss is much flatter
        while True:
            new = shrunk(ahead - step * gradient, step * shrink)
            logits_new, move = x @ new, new - ahead
            # the loss must not rise above its own upper bound for this length, up to rounding
            rise = smooth_part(new, logits_new) - smooth - (gradient * move).sum()
            if rise - move.square().sum() / (2 * step) <= 1e-14 * smooth.abs():
                break
            step /= 2
        if number % 5 == 0 and move.abs().max() / step <= tolerance:  # nearly; now exactly
            # the largest entry of W − prox(W − ∇f) is 0 at the optimum and nowhere else
            optimal = shrunk(new - gradient_of(new, logits_new), shrink)
            if (new - optimal).abs().max() <= tolerance:
                return new[:-1].contiguous(), new[-1].contiguous()
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
        f"the elastic net at penalty {penalty:.3g} has not converged after {MAX_STEPS} steps: standardise "
        "the values, or raise the penalty"
    )
