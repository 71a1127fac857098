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

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from sklearn.linear_model import SGDClassifier

from xaihelpers.bottlenecks.intervention import intervene
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

    values: (N, L) float32. labels: (N,) int64, 0 to K − 1, on the same device.
    penalty: of the squared weights, as in the module's formula; of the elastic net where one class is fitted
        against the rest.
    steps: of the solver, at most; one class against the rest goes on until nothing improves.
    offset: (N, K), logits that are there already and stay as they are. Then, whatever the solver, the optimum
        is found to the end, by Newton's method: what the given logits leave over is little, and where L-BFGS
        stops on its way there hangs on the last bits, so that each processor would have another layer.
    solver: "optimum", softmax cross-entropy by full-batch L-BFGS; "few steps", the same by Adam from zero,
        which stops long before its optimum; "one-vs-rest", logistic regressions of each class against the
        others by stochastic gradient descent with an elastic net, as post-hoc CBM's own code fits them.
    standardise: whether the layer is fitted on standardised values. On raw ones the scale of the concept
        vectors, which changes by orders of magnitude with the SVM's λ, decides how far it is trained.
    seed: of "one-vs-rest".

    Raises ValueError for NaN or infinite values and an unknown solver.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, not {solver!r}")
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    mean, std = torch.zeros_like(values[0]), torch.ones_like(values[0])
    if standardise:
        mean, std = values.mean(0), values.std(0)
        # a constant concept, whose spread is rounding, gets no weight
        std = std.where(std > 1e-6 * values.abs().amax(0), torch.inf)
    inputs = (values - mean) / std
    if offset is not None:
        weights, bias = _beyond_offset(inputs, labels, n_classes, penalty, offset)
    elif solver == "one-vs-rest":
        weights, bias = _one_vs_rest(inputs, labels, n_classes, penalty, seed)
    else:
        weights, bias = _softmax_layer(inputs, labels, n_classes, penalty, steps, solver)
    return weights / std[:, None], bias - (mean / std) @ weights


def _beyond_offset(inputs, labels, n_classes, penalty, offset):
    """The optimum by SciPy's Newton-CG in float64: products with the Hessian, which is never written out."""
    inputs, offset = F.pad(inputs, (0, 1), value=1.0).double(), offset.detach().double()
    wanted = F.one_hot(labels, n_classes).double()
    penalties = torch.full_like(inputs[:1].T, penalty)
    penalties[-1] = 0  # of the bias

    def as_layer(flat):
        return torch.from_numpy(flat).to(inputs).view(-1, n_classes)

    def loss(flat):
        layer = as_layer(flat)
        log_chances = (inputs @ layer + offset).log_softmax(1)
        value = -(log_chances * wanted).sum() / len(inputs) + (penalties * layer.square()).sum() / 2
        gradient = inputs.T @ (log_chances.exp() - wanted) / len(inputs) + penalties * layer
        return value.item(), gradient.flatten().cpu().numpy()

    def curvature(flat, direction):
        chances = (inputs @ as_layer(flat) + offset).softmax(1)
        direction = as_layer(direction)
        turned = inputs @ direction
        turned = chances * (turned - (chances * turned).sum(1, keepdim=True))
        return (inputs.T @ turned / len(inputs) + penalties * direction).flatten().cpu().numpy()

    start, how = np.zeros(inputs.shape[1] * n_classes), {"xtol": 1e-9, "maxiter": 200}
    found = minimize(loss, start, jac=True, hessp=curvature, method="Newton-CG", options=how)
    layer = as_layer(found.x).float()
    return layer[:-1], layer[-1]


def _softmax_layer(inputs, labels, n_classes, penalty, steps, solver):
    weights = torch.zeros(inputs.shape[1], n_classes, device=inputs.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=inputs.device, requires_grad=True)

    def loss():
        optimiser.zero_grad()
        logits = inputs @ weights + bias
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
    net = {"loss": "log_loss", "penalty": "elasticnet", "alpha": penalty, "l1_ratio": 0.99}
    # n_jobs: classes side by side, in threads; each has a seed of its own
    model = SGDClassifier(**net, max_iter=10_000, random_state=seed, n_jobs=-1)
    model.fit(inputs.cpu().numpy(), labels.cpu().numpy())
    found = torch.from_numpy(model.coef_).to(inputs), torch.from_numpy(model.intercept_).to(inputs)
    if len(model.classes_) == 2:  # one regression stands for both
        found = [torch.stack([-part[0], part[0]]) for part in found]
    weights = inputs.new_zeros(n_classes, inputs.shape[1])
    bias = inputs.new_full((n_classes,), float(found[1].min()) - 1)
    weights[model.classes_], bias[model.classes_] = found
    return weights.T.contiguous(), bias


@dataclass(kw_only=True)
class LinearBottleneck:
    """Concepts that are linear in frozen features, and a linear head: û = (C f − shift) / scale.

    `bank` (L, d), the rows of C; `shift`, `scale` (L,); `class_weights` (L, K), `class_bias` (K,).
    `low`, `high` (L,): what a concept that a person calls absent or present is set to.
    `residual_weights` (d, K), `residual_bias` (K,): of a path from the features past the concepts, or None.
    """

    bank: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    concepts: list[str]
    classes: list[str]
    residual_weights: torch.Tensor | None = None
    residual_bias: torch.Tensor | None = None

    def explain(
        self, pooled: torch.Tensor, known: torch.Tensor | None = None, image_ids: list[str] | None = None
    ) -> ConceptOutputs:
        """Outputs for features (N, d) of images, on the model's device.

        Contributions are those of the concepts; a residual is added to the logits.

        known: (N, L), a person's truth, 0 or 1, NaN where nothing is corrected.
        image_ids: N file names, kept with the outputs.

        Raises ValueError as `intervene` and `ConceptOutputs` do.
        """
        pooled = pooled.to(self.bank)
        values = intervene((pooled @ self.bank.T - self.shift) / self.scale, known, self.low, self.high)
        logits = values @ self.class_weights + self.class_bias
        if self.residual_weights is not None:
            logits = logits + pooled @ self.residual_weights + self.residual_bias
        return linear_head_outputs(self, values, logits, image_ids, (self.low + self.high) / 2)


def linear_head_outputs(
    model, values: torch.Tensor, logits: torch.Tensor, image_ids: list[str] | None, thresholds: torch.Tensor
) -> ConceptOutputs:
    """Outputs of a model with a linear head: concept j contributes θ_jk û_ij, k being the predicted class."""
    contributions = values * model.class_weights.T[logits.argmax(1)]  # (N, L)
    given = values, contributions, model.class_weights, logits, model.concepts, model.classes, image_ids
    return ConceptOutputs(*given, thresholds=thresholds)
