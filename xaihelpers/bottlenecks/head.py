"""The linear head of a bottleneck: from concept values to classes.

    h(û) = θᵀ û + b                                                  paper alignment, section 2
    min over θ, b:   1/N Σ_i −log softmax(h(z_i))[y_i]  +  penalty/2 ‖θ_z‖²

The paper does not say how its head was fitted: solver and standardisation are arguments.

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
from sklearn.linear_model import SGDClassifier

from xaihelpers.bottlenecks.inputs import check_labels
from xaihelpers.devices import require_one_device
from xaihelpers.outputs import ConceptOutputs

SOLVERS = ("optimum", "few steps", "one-vs-rest")


def fit_head(
    values: torch.Tensor,
    labels: torch.Tensor,
    n_classes: int,
    penalty: float = 1e-3,
    steps: int = 150,
    offset: torch.Tensor | None = None,
    solver: str = "optimum",
    standardise: bool = True,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One linear layer on concept values: weights θ (L, K) and bias b (K,), on the values' own scale.

    values: (N, L) float32 or float64. labels: (N,) int64, 0 to K − 1, on the same device.
    penalty: of the squared weights, as in the module's formula; of the elastic net where one class is fitted
        against the rest.
    steps: of the solver, at most; one class against the rest goes on until nothing improves.
    offset: (N, K), logits that are there already and stay as they are.
    solver: "optimum", softmax cross-entropy by full-batch L-BFGS; "few steps", the same by Adam from zero,
        which stops long before its optimum; "one-vs-rest", logistic regressions of each class against the
        others by stochastic gradient descent with an elastic net, as post-hoc CBM's own code fits them.
    standardise: whether the layer is fitted on standardised values. On raw ones the scale of the concept
        vectors, which changes by orders of magnitude with the SVM's λ, decides how far it is trained.
    seed: of "one-vs-rest".

    Raises ValueError for NaN or infinite values, labels out of range, an unknown solver, an offset that the
    solver cannot take, and tensors on different devices.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, not {solver!r}")
    require_one_device(values=values, labels=labels, offset=offset)
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    check_labels(labels, n_classes)
    mean, std = torch.zeros_like(values[0]), torch.ones_like(values[0])
    if standardise:
        mean, std = values.mean(0), values.std(0)
        # a constant concept, whose spread is rounding, gets no weight
        std = std.where(std > 1e-6 * values.abs().amax(0), torch.inf)
    inputs = (values - mean) / std
    if solver == "one-vs-rest":
        if offset is not None:
            raise ValueError('the solver "one-vs-rest" takes no offset: choose "optimum"')
        weights, bias = _one_vs_rest(inputs, labels, n_classes, penalty, seed)
    else:
        weights, bias = _softmax_layer(inputs, labels, n_classes, penalty, steps, offset, solver)
    return weights / std[:, None], bias - (mean / std) @ weights


def _softmax_layer(inputs, labels, n_classes, penalty, steps, offset, solver):
    weights = inputs.new_zeros(inputs.shape[1], n_classes).requires_grad_()
    bias = inputs.new_zeros(n_classes).requires_grad_()
    fixed_logits = 0 if offset is None else offset.detach()

    def loss():
        optimiser.zero_grad()
        logits = inputs @ weights + bias + fixed_logits
        value = F.cross_entropy(logits, labels) + penalty / 2 * weights.square().sum()
        value.backward()
        return value

    if solver == "optimum":
        optimiser = torch.optim.LBFGS(
            [weights, bias], max_iter=steps, history_size=20, line_search_fn="strong_wolfe"
        )
        optimiser.step(loss)
    else:
        optimiser = torch.optim.Adam([weights, bias], lr=0.01)
        for _ in range(steps):
            optimiser.step(loss)
    return weights.detach(), bias.detach()


def _one_vs_rest(inputs, labels, n_classes, penalty, seed):
    """A class without an image keeps weights of 0 and the lowest bias."""
    model = SGDClassifier(
        loss="log_loss",
        penalty="elasticnet",
        alpha=penalty,
        l1_ratio=0.99,
        max_iter=10_000,
        random_state=seed,
        n_jobs=-1,  # classes side by side, in threads; each has a seed of its own
    )
    model.fit(inputs.cpu().numpy(), labels.cpu().numpy())
    found = torch.from_numpy(model.coef_).to(inputs), torch.from_numpy(model.intercept_).to(inputs)
    if len(model.classes_) == 2:  # one regression stands for both
        found = [torch.stack([-part[0], part[0]]) for part in found]
    weights = inputs.new_zeros(n_classes, inputs.shape[1])
    bias = inputs.new_full((n_classes,), float(found[1].min()) - 1)
    weights[model.classes_], bias[model.classes_] = found
    return weights.T.contiguous(), bias


def linear_head_outputs(
    values: torch.Tensor,
    logits: torch.Tensor,
    model,
    image_ids: list[str] | None,
    thresholds: torch.Tensor | None,
) -> ConceptOutputs:
    """Outputs of a model with a linear head: concept j contributes θ_jk û_ij, k being the predicted class.

    values: (N, L). logits: (N, K). model: with `class_weights` (L, K), `concepts` and `classes`.
    thresholds: (L,), the values above which the model calls a concept present.
    """
    contributions = values * model.class_weights.T[logits.argmax(1)]  # (N, L)
    return ConceptOutputs(
        values,
        contributions,
        model.class_weights,
        logits,
        model.concepts,
        model.classes,
        image_ids,
        thresholds=thresholds,
    )
