"""The linear head of a bottleneck: from concept values to classes.

    h(û) = θᵀ û + b                                                  paper alignment, section 2
    min over θ, b:   1/N Σ_i −log softmax(h(z_i))[y_i]  +  penalty/2 ‖θ_z‖²

| symbol | name | shape |
|---|---|---|
| û | `values` | (N, L) |
| z, û standardised | `standardised` | (N, L) |
| θ, and θ_z for standardised values | `class_weights`, `weights` | (L, K) |
| b | `class_bias`, `bias` | (K,) |
| y | `labels` | (N,) |
"""

import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks.inputs import check_labels
from xaihelpers.devices import require_one_device
from xaihelpers.outputs import ConceptOutputs


def fit_head(
    values: torch.Tensor,
    labels: torch.Tensor,
    n_classes: int,
    penalty: float = 1e-3,
    steps: int = 150,
    offset: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One linear layer on concept values by softmax cross-entropy: weights θ (L, K) and bias b (K,).

    Full-batch L-BFGS on standardised values, then expressed on the values' own scale. So the scale of the
    concept vectors, which changes by orders of magnitude with the SVM's λ, does not decide how far the head
    is trained.

    values: (N, L) float32. labels: (N,) int64, 0 to K − 1, on the same device.
    penalty: of the squared weights, as in the module's formula.
    steps: iterations of L-BFGS, at most.
    offset: (N, K), logits that are there already and stay as they are.

    Raises ValueError for NaN or infinite values, labels out of range, and tensors on different devices.
    """
    require_one_device(values=values, labels=labels, offset=offset)
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    check_labels(labels, n_classes)
    mean, std = values.mean(0), values.std(0)
    # a constant concept, whose spread is rounding, gets no weight
    std = std.where(std > 1e-6 * values.abs().amax(0), torch.inf)
    standardised = (values - mean) / std
    weights = torch.zeros(values.shape[1], n_classes, device=values.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=values.device, requires_grad=True)
    fixed_logits = 0 if offset is None else offset.detach()
    optimiser = torch.optim.LBFGS(
        [weights, bias], max_iter=steps, history_size=20, line_search_fn="strong_wolfe"
    )

    def loss():
        optimiser.zero_grad()
        logits = standardised @ weights + bias + fixed_logits
        value = F.cross_entropy(logits, labels) + penalty / 2 * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    weights, bias = weights.detach(), bias.detach()
    return weights / std[:, None], bias - (mean / std) @ weights


def linear_head_outputs(
    values: torch.Tensor, logits: torch.Tensor, model, image_ids: list[str] | None
) -> ConceptOutputs:
    """Outputs of a model with a linear head: concept j contributes θ_jk û_ij, k being the predicted class.

    values: (N, L). logits: (N, K). model: with `class_weights` (L, K), `concepts` and `classes`.
    """
    contributions = values * model.class_weights.T[logits.argmax(1)]  # (N, L)
    return ConceptOutputs(
        values, contributions, model.class_weights, logits, model.concepts, model.classes, image_ids
    )
