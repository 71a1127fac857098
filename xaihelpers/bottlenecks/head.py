"""The linear head of a bottleneck: from concept values to classes.

    h(û) = θᵀ û + b                                                  paper alignment, section 2
    min over θ, b:   1/N Σ_i −log softmax(h(z_i))[y_i]  +  penalty/2 ‖θ_z‖²

The paper does not say how its head was fitted: solver and standardisation are arguments.

| symbol | name | shape |
|---|---|---|
| û, and z standardised | `values`, `inputs` | (N, L) |
| θ, and θ_z for standardised values | `class_weights`, `weights` | (L, K) |
| b | `class_bias`, `bias` | (K,) |
| y | `labels` | (N,) |
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from xaihelpers.outputs import ConceptOutputs

SOLVERS = ("optimum", "few steps", "one-vs-rest")


def fit_head(
    values: torch.Tensor,
    labels: torch.Tensor,
    n_classes: int,
    penalty: float = 1e-3,
    steps: int = 150,
    solver: str = "optimum",
    standardise: bool = True,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One linear layer on concept values: weights θ (L, K) and bias b (K,), on the values' own scale.

    values: (N, L) float32. labels: (N,) int64, 0 to K − 1, on the same device.
    penalty: of the squared weights, as in the module's formula; of the elastic net for "one-vs-rest".
    steps: of the solver, at most; "one-vs-rest" goes on until nothing improves.
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
    if solver == "one-vs-rest":
        weights, bias = _one_vs_rest(inputs, labels, n_classes, penalty, seed)
    else:
        weights, bias = _softmax_layer(inputs, labels, n_classes, penalty, steps, solver)
    return weights / std[:, None], bias - (mean / std) @ weights


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
        how = {"history_size": 20, "line_search_fn": "strong_wolfe"}
        optimiser = torch.optim.LBFGS([weights, bias], max_iter=steps, **how)
        optimiser.step(loss)
    else:
        optimiser = torch.optim.Adam([weights, bias], lr=0.01)
        for _ in range(steps):
            optimiser.step(loss)
    return weights.detach(), bias.detach()


def _one_vs_rest(inputs, labels, n_classes, penalty, seed):
    """A class without an image keeps weights of 0 and the lowest bias."""
    from sklearn.linear_model import SGDClassifier  # takes seconds

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


def value_range(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What "absent" and "present" mean on an unbounded scale: the centres (L,) of two clusters of a concept.

    Koh et al. 2020 (section 5) take the 5th and 95th percentile. But what is present in 2 % of the images
    lies above the 95th, and for what is present in half of them both are values that heads have hardly seen.
    The clusters (2-means, started at the 1st and 99th percentile) need no labels either.

    values: (N, L), of training images.
    """
    percentiles = torch.tensor([0.01, 0.99], device=values.device, dtype=values.dtype)
    # by column: torch takes no more than 2²⁴ values at once
    low, high = torch.stack([torch.quantile(column, percentiles) for column in values.T], 1)
    for _ in range(50):
        nearer_low = (values - low).abs() <= (values - high).abs()  # (N, L)
        before = low, high
        means = []
        for members, centre in ((nearer_low, low), (~nearer_low, high)):
            mean = (values * members).sum(0) / members.sum(0).clamp(min=1)
            means.append(torch.where(members.any(0), mean, centre))
        low, high = means
        if torch.equal(low, before[0]) and torch.equal(high, before[1]):
            break
    return low, high


def intervene(
    values: torch.Tensor,
    known: torch.Tensor | None,
    low: torch.Tensor | float = 0.0,
    high: torch.Tensor | float = 1.0,
) -> torch.Tensor:
    """Concept values with a person's truth put in.

    values: (N, L). known: (N, L), 0 or 1, NaN where nothing is corrected; None corrects nothing.
    low, high: numbers or (L,), the values of what is absent and present. Where `known` is 1, the value
        becomes at least `high`; where it is 0, at most `low`. A value that lies beyond these already stays.

    Raises ValueError for `known` of another shape and truths other than 0 and 1.
    """
    if known is None:
        return values
    known = known.to(values)
    if known.shape != values.shape or not ((known == 0) | (known == 1) | known.isnan()).all():
        raise ValueError(f"known must be 0, 1 or NaN (nobody says anything), of shape {tuple(values.shape)}")
    low, high = torch.as_tensor(low).to(values), torch.as_tensor(high).to(values)
    corrected = torch.where(known == 0, values.minimum(low), values)
    return torch.where(known == 1, values.maximum(high), corrected)


class LinearHead:
    """A bottleneck whose classes are linear in its concepts: `class_weights` (L, K), `class_bias` (K,).

    `concept_values`: a function of inputs that gives (N, L).
    `low`, `high`, numbers or (L,): what a concept that a person calls absent or present is set to.
    """

    def explain(
        self, inputs: torch.Tensor, known: torch.Tensor | None = None, image_ids: list[str] | None = None
    ) -> ConceptOutputs:
        """Outputs for N images, on the model's device; concept j adds θ_jk û_ij to the predicted logit.

        inputs: features (N, d), or pixels (N, 3, H, W) uint8 of a model that was trained from these.
        known: (N, L), a person's truth, 0 or 1, NaN where nothing is corrected.
        image_ids: N file names, kept with the outputs.

        Raises ValueError as `intervene` and `ConceptOutputs` do.
        """
        values = intervene(self.concept_values(inputs), known, self.low, self.high)
        logits = values @ self.class_weights + self.class_bias
        contributions = values * self.class_weights.T[logits.argmax(1)]
        thresholds = values.new_zeros(values.shape[1]) + (self.low + self.high) / 2
        given = values, contributions, self.class_weights, logits, self.concepts, self.classes, image_ids
        return ConceptOutputs(*given, thresholds=thresholds)


@dataclass(kw_only=True)
class LinearBottleneck(LinearHead):
    """Concepts that are linear in frozen features, and a linear head: û = (C f − shift) / scale.

    `bank` (L, d), the rows of C; `shift`, `scale`, `low`, `high` (L,).
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

    def concept_values(self, inputs: torch.Tensor) -> torch.Tensor:
        """û (N, L) of features (N, d)."""
        return (inputs.to(self.bank) @ self.bank.T - self.shift) / self.scale

    @classmethod
    def of_bank(cls, features, bank, shift, scale, head: Callable, concepts: list[str], classes: list[str]):
        """The bottleneck of a bank, in float32.

        features: (N, d) of training images. head: values (N, L) -> class weights and bias.
        """
        values = (features @ bank.T - shift) / scale
        parts = bank, shift, scale, *head(values), *value_range(values)
        names = "bank", "shift", "scale", "class_weights", "class_bias", "low", "high"
        fields = {name: part.float() for name, part in zip(names, parts, strict=True)}
        return cls(**fields, concepts=concepts, classes=list(classes))
