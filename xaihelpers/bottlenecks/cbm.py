"""Concept bottleneck models (Koh et al. 2020): a network predicts the annotated concepts, and a linear layer the class from them alone."""
import copy
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from einops import einsum
from torch import nn

from .head import fit_head
from .intervention import corrected
from .outputs import ConceptOutputs
from .training import check_inputs, concept_loss, encode, frozen, layer, pixel_features, train

KINDS = ("joint", "independent", "sequential")


@dataclass
class ConceptBottleneck:
    """A bottleneck whose concept values are probabilities.

    Concept network: features, less `mean` over `std` (d,), through `hidden_weights` (d, h) with `hidden_bias` (h,), ReLU, then `concept_weights` (h, L) with
    `concept_bias` (L,); hidden ones None: linear from the features. One network per concept: (L, d, h), (L, h) and (L, h). `class_weights` (L, K),
    `class_bias` (K,): the head. `trunks`: what turns pixels into features, none where the features came from a frozen backbone.
    """

    mean: torch.Tensor
    std: torch.Tensor
    concept_weights: torch.Tensor
    concept_bias: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    concepts: list[str]
    classes: list[str]
    per_concept: bool = False
    hidden_weights: torch.Tensor | None = None
    hidden_bias: torch.Tensor | None = None
    trunks: list[nn.Module] = field(default_factory=list)

    def encode(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features of pixels (N, 3, H, W) uint8, which `explain` takes as well: (N, d), or (N, L, d) where each concept has its own trunk."""
        return encode(self.trunks, inputs)

    def explain(self, inputs: torch.Tensor, known: torch.Tensor | None = None) -> ConceptOutputs:
        """Outputs for features or pixels of N images; values are probabilities, `known` (N, L) replaces them by a person's 0 or 1 where it is not NaN."""
        probability = concept_logits(self.encode(inputs).to(self.class_weights), self).sigmoid()  # (N, L)
        values = corrected(probability, known)
        logits = values @ self.class_weights + self.class_bias
        return ConceptOutputs(values, values * self.class_weights.T[logits.argmax(1)], self.class_weights, logits, self.concepts, self.classes)


def concept_logits(features: torch.Tensor, model) -> torch.Tensor:
    """Logits (N, L) of the concepts from features (N, d), or (N, L, d) of a trunk per concept."""
    x = (features - model.mean) / model.std
    if model.hidden_weights is not None:
        x = einsum(x, model.hidden_weights, "n d, l d h -> n l h") if model.per_concept else x @ model.hidden_weights
        x = (x + model.hidden_bias).relu()
    if x.ndim == 3:
        return einsum(x, model.concept_weights, "n l h, l h -> n l") + model.concept_bias
    return x @ (model.concept_weights.T if model.per_concept else model.concept_weights) + model.concept_bias


def fit_cbm(inputs: torch.Tensor, present: torch.Tensor, labels: torch.Tensor, concepts: list[str], classes: list[str], kind: str = "joint",
            per_concept: bool = False, concept_weight: float = 5.0, epochs: int = 60, batch_size: int = 64, learning_rate: float = 3e-3,
            weight_decay: float = 1e-2, hidden: int = 128, penalty: float = 1e-3, seed: int = 0, trunk: nn.Module | None = None,
            device: str | torch.device = "cpu") -> ConceptBottleneck:
    """Concept bottleneck of training inputs, concept labels (N, L) in [0, 1], hard or soft, and class labels (N,).

    `inputs`: features (N, d) of a frozen backbone, then through `hidden` units (0: none); or pixels (N, 3, H, W) uint8 with a `trunk` that turns them into
    features (B, d) and is trained with the rest, from where it stands, at a tenth of the `learning_rate` (a copy is trained; `hidden` then does not apply).
    `kind`: "joint" trains everything at once on cross-entropy + `concept_weight` · mean concept loss; "sequential" the concepts first, then the head on the
    probabilities they give; "independent" the head on the labels `present` themselves (head: `fit_head` with `penalty`). `per_concept`: one network per
    concept, which share no weights. Raises ValueError for an unknown kind and inputs that do not fit.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    check_inputs(inputs, present, labels, concepts, classes, trunk)
    device, generator = torch.device(device), torch.Generator().manual_seed(seed)
    present, labels = present.float().to(device), labels.to(device)
    options = dict(epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, weight_decay=weight_decay, generator=generator)
    if trunk is not None and per_concept:
        if kind == "joint":
            raise ValueError("from pixels one network per concept is trained after the other, so none sees the class: choose kind independent or sequential")
        model = _each_from_pixels(inputs, present, trunk.to(device), concepts, classes, options)
    else:
        model = _new(inputs, present, trunk, concepts, classes, per_concept, hidden, generator, device)
        _train_together(model, inputs, present, labels, concept_weight if kind == "joint" else None, options)
    if kind != "joint":
        with torch.no_grad():
            values = present if kind == "independent" else concept_logits(model.encode(inputs).to(device), model).sigmoid()
        model.class_weights, model.class_bias = fit_head(values, labels, len(classes), penalty)
    return model


def _new(inputs, present, trunk, concepts, classes, per_concept, hidden, generator, device) -> ConceptBottleneck:
    """The model before training, its layers requiring gradients."""
    trunks = [] if trunk is None else [copy.deepcopy(trunk).to(device)]
    with torch.no_grad():
        d = (inputs if trunk is None else trunks[0].eval()(inputs[:2].to(device))).shape[1]
    mean, std = (inputs.mean(0), inputs.std(0).clamp(min=1e-6)) if trunk is None else (torch.zeros(d), torch.ones(d))  # a trunk's features move while it learns
    hidden, n_concepts, own = hidden if trunk is None else 0, len(concepts), (len(concepts),) if per_concept else ()
    width = hidden or d
    return ConceptBottleneck(
        mean.to(device), std.to(device), layer((n_concepts, width) if per_concept else (width, n_concepts), width, generator, device),
        torch.logit(present.mean(0).clamp(0.01, 0.99)).requires_grad_(), layer((n_concepts, len(classes)), n_concepts, generator, device),
        torch.zeros(len(classes), device=device, requires_grad=True), list(concepts), list(classes), per_concept,
        layer((*own, d, hidden), d, generator, device) if hidden else None,
        torch.zeros(*own, hidden, device=device, requires_grad=True) if hidden else None, trunks)


def _train_together(model, inputs, present, labels, concept_weight, options) -> None:
    """Train the concepts, and with a `concept_weight` the head as well, on one loss."""
    names = ["concept_weights", "concept_bias"] + ["hidden_weights", "hidden_bias"] * (model.hidden_weights is not None)
    names += ["class_weights", "class_bias"] * (concept_weight is not None)
    trunk = model.trunks[0].train().requires_grad_(True) if model.trunks else None
    layers = [getattr(model, name) for name in names]
    inputs = inputs if trunk else inputs.to(present.device)

    def loss(rows):
        features = pixel_features(trunk, inputs[rows], options["generator"]) if trunk else inputs[rows]
        logits = concept_logits(features, model)
        value = concept_loss(logits, present[rows])
        if concept_weight is not None:
            return concept_weight * value + F.cross_entropy(logits.sigmoid() @ model.class_weights + model.class_bias, labels[rows])
        return value * (len(model.concepts) if model.per_concept else 1)  # the sum of separate losses: each network learns as if alone

    train(layers, trunk, loss, len(inputs), what="concept bottleneck", **options)
    for name in names + ["class_weights", "class_bias"]:
        setattr(model, name, getattr(model, name).detach())
    model.trunks = [frozen(trunk)] if trunk else []


def _each_from_pixels(pixels, present, trunk, concepts, classes, options) -> ConceptBottleneck:
    """One copy of the trunk for each concept, trained one after the other."""
    parts = []
    for j, name in enumerate(concepts):
        one = _new(pixels, present[:, j:j + 1], trunk, [name], classes, False, 0, options["generator"], present.device)
        _train_together(one, pixels, present[:, j:j + 1], None, None, options)
        parts.append(one)
    weights, bias = torch.cat([one.concept_weights for one in parts], 1).T.contiguous(), torch.cat([one.concept_bias for one in parts])
    unset = torch.zeros(len(concepts), len(classes), device=present.device)
    return ConceptBottleneck(parts[0].mean, parts[0].std, weights, bias, unset, unset[0], list(concepts), list(classes), True,
                             trunks=[one.trunks[0] for one in parts])
