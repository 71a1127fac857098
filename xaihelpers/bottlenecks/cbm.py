"""Concept bottleneck models: a network predicts the concepts, and a linear layer the class from them alone.

Koh et al. 2020, section 3, with x the features, c the concept labels and y the classes:

    p = σ(g(x)),   h(p) = θᵀ p + b
    joint          min over g, θ, b:  CE(h(p), y) + λ · mean_j BCE(p_j, c_j)
    sequential     g by BCE alone, then θ, b on the p of that g
    independent    g by BCE alone, and θ, b on the labels c

| symbol | name | shape |
|---|---|---|
| x, standardised | `features` | (N, d), or (N, L, d) of a trunk per concept |
| g, hidden layer, none from pixels | `hidden_weights`, `hidden_bias` | (d, h), (h,) |
| g, to the concepts | `concept_weights`, `concept_bias` | (h, L), (L,) |
| g, one network per concept | the same | (L, d, h), (L, h); `concept_weights` (L, h) |
| p, c | `values`, `present` | (N, L) |
| θ, b, and λ | `class_weights`, `class_bias`; `CONCEPT_WEIGHT` | (L, K), (K,) |
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from einops import einsum

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.bottlenecks.head import LinearHead, fit_head
from xaihelpers.bottlenecks.networks import CONCEPT_WEIGHT, ConceptNetwork, layer, rarity, train, training_set

LAYERS = ("concept_weights", "concept_bias", "hidden_weights", "hidden_bias", "class_weights", "class_bias")


@dataclass(kw_only=True)
class ConceptBottleneck(ConceptNetwork, LinearHead):
    """A bottleneck whose concept values are probabilities; shapes as in the module's table.

    `per_concept`: one network per concept, which share no weights.
    """

    concept_weights: torch.Tensor
    concept_bias: torch.Tensor
    per_concept: bool = False
    hidden_weights: torch.Tensor | None = None
    hidden_bias: torch.Tensor | None = None

    def concept_values(self, inputs: torch.Tensor) -> torch.Tensor:
        """Probabilities (N, L), from features or pixels."""
        return concept_logits(self.encode(inputs).to(self.class_weights), self).sigmoid()


def concept_logits(features: torch.Tensor, model: ConceptBottleneck) -> torch.Tensor:
    """Logits g(x) (N, L) of the concepts from features (N, d), or (N, L, d) of a trunk per concept."""
    activations = (features - model.mean) / model.std
    if model.per_concept:
        if model.hidden_weights is not None:
            hidden = einsum(activations, model.hidden_weights, "n d, l d h -> n l h")
            activations = (hidden + model.hidden_bias).relu()
        return einsum(activations, model.concept_weights, "n l h, l h -> n l") + model.concept_bias
    if model.hidden_weights is not None:
        activations = (activations @ model.hidden_weights + model.hidden_bias).relu()
    return activations @ model.concept_weights + model.concept_bias


def fit_cbm(
    dataset: ConceptDataset,
    kind: str = "joint",
    per_concept: bool = False,
    hidden: int = 128,
    seed: int = 0,
    device: str | torch.device = "cpu",
    checkpoints: Path | None = None,
    **training,
) -> ConceptBottleneck:
    """Concept bottleneck of a data set's training images, in one of the three ways of the module's equations.

    dataset: with labels of its concepts, hard or soft. Where it has a trunk, this is trained with the rest,
        from where it stands, on pixels; else its features are frozen.
    kind: "joint", "sequential" or "independent". per_concept: a network for each concept, sharing no weights;
        from pixels they are trained one after the other, so none sees the class.
    hidden: units between features and concepts; none from pixels.
    checkpoints: a folder of these data and settings alone, for the state of each network after each epoch.
    training: epochs, learning_rate, weight_decay and recipe, as of `networks.train`, with its errors.
    """
    training = {"epochs": 60, "learning_rate": 3e-3} | training
    inputs, present, labels, fields = training_set(dataset, device)
    if per_concept and dataset.trunk is not None:
        networks = []
        for j, name in enumerate(dataset.concepts):
            alone = replace(dataset, concepts=[name], present=dataset.present[:, j : j + 1])
            kept = checkpoints / f"{j:03d}" if checkpoints else None
            # with a seed of its own each is the same whether those before it were trained or read
            own = {"seed": 1000 * seed + j, "device": device, "checkpoints": kept}
            networks.append(fit_cbm(alone, "independent", **own, **training))
        model = replace(
            networks[0],
            concept_weights=torch.cat([network.concept_weights for network in networks], 1).T.contiguous(),
            concept_bias=torch.cat([network.concept_bias for network in networks]),
            concepts=list(dataset.concepts),
            per_concept=True,
            trunks=[network.trunks[0] for network in networks],
        )
    else:
        generator = torch.Generator().manual_seed(seed)
        model = _untrained(fields, present, per_concept, 0 if dataset.trunk else hidden, generator)
        rare = rarity(present, training.get("recipe", ""))

        def loss(features, rows):
            logits = concept_logits(features, model)
            of_concepts = F.binary_cross_entropy_with_logits(logits, present[rows], pos_weight=rare)
            if kind == "joint":
                class_logits = logits.sigmoid() @ model.class_weights + model.class_bias
                return CONCEPT_WEIGHT * of_concepts + F.cross_entropy(class_logits, labels[rows])
            # one network per concept: the sum of separate losses, so that each learns as if alone
            return of_concepts * (len(model.concepts) if per_concept else 1)

        trained = LAYERS if kind == "joint" else LAYERS[:4]
        names = [name for name in trained if getattr(model, name) is not None]
        train(model, names, loss, inputs, generator, checkpoints, **training)
    if kind != "joint":
        values = present
        if kind == "sequential":
            with torch.no_grad():
                values = model.concept_values(inputs)
        model.class_weights, model.class_bias = fit_head(values, labels, len(dataset.classes))
    return model


def _untrained(fields, present, per_concept, hidden, generator) -> ConceptBottleneck:
    """The model before training, on the device of `present`."""
    device, n_features = present.device, len(fields["mean"])
    n_concepts, n_classes = len(fields["concepts"]), len(fields["classes"])
    width = hidden or n_features  # of what the concepts are read from
    shape = (n_concepts, width) if per_concept else (width, n_concepts)
    model = ConceptBottleneck(
        **fields,
        concept_weights=layer(shape, width, generator, device),
        concept_bias=torch.logit(present.mean(0).clamp(0.01, 0.99)),
        class_weights=layer((n_concepts, n_classes), n_concepts, generator, device),
        class_bias=torch.zeros(n_classes, device=device),
        per_concept=per_concept,
    )
    if hidden:
        networks = (n_concepts,) if per_concept else ()
        model.hidden_weights = layer((*networks, n_features, hidden), n_features, generator, device)
        model.hidden_bias = torch.zeros(*networks, hidden, device=device)
    return model
