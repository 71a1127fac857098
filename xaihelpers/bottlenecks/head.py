"""The dense linear head of a bottleneck: from concept values to classes."""
import torch
import torch.nn.functional as F


def fit_head(values: torch.Tensor, labels: torch.Tensor, n_classes: int, penalty: float = 1e-3, steps: int = 150,
             offset: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """One linear layer on concept values by softmax cross-entropy: weights θ (L, K) and bias (K,).

    Full-batch L-BFGS on standardised values with `penalty`/2 · ‖weights‖², then expressed on the values' own scale, so that the scale of the concept vectors,
    which changes by orders of magnitude with the SVM's λ, does not decide how far the head is trained. `offset` (N, K): logits that are there already and
    stay as they are. Raises ValueError for NaN values or labels out of range.
    """
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {n_classes} classes")
    mean, std = values.mean(0), values.std(0)
    std = std.where(std > 1e-6 * values.abs().amax(0), torch.inf)  # a constant concept, whose spread is rounding, gets no weight
    x = (values - mean) / std
    weights = torch.zeros(x.shape[1], n_classes, device=x.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=x.device, requires_grad=True)
    given = 0 if offset is None else offset.detach()
    optimiser = torch.optim.LBFGS([weights, bias], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = F.cross_entropy(x @ weights + bias + given, labels) + penalty / 2 * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    weights, bias = weights.detach(), bias.detach()
    return weights / std[:, None], bias - (mean / std) @ weights
