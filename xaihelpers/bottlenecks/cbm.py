"""Concept bottleneck models: a network predicts the concepts, and a linear layer the class from them alone.

Koh et al. 2020, section 3, with x the features, c the concept labels and y the classes:

    p = σ(g(x)),   h(p) = θᵀ p + b
    joint          min over g, θ, b:  CE(h(p), y) + λ · mean_j BCE(p_j, c_j)
    sequential     g by BCE alone, then θ, b on the p of that g
    independent    g by BCE alone, and θ, b on the labels c

| symbol | name | shape |
|---|---|---|
| x, standardised | `standardised` | (N, d), or (N, L, d) of a trunk per concept |
| g, without hidden layer | `concept_weights`, `concept_bias` | (d, L), (L,) |
| g, hidden layer | `hidden_weights`, `hidden_bias` | (d, h), (h,); then `concept_weights` is (h, L) |
| g, one network per concept | the same | (L, d, h), (L, h); `concept_weights` (L, h) |
| p | `values` | (N, L) |
| c | `present` | (N, L) |
| θ, b | `class_weights`, `class_bias` | (L, K), (K,) |
| λ | `concept_weight` | |
"""

import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from einops import einsum
from safetensors import SafetensorError
from torch import nn

from xaihelpers.bottlenecks.head import fit_head, linear_head_outputs
from xaihelpers.bottlenecks.inputs import check_inputs
from xaihelpers.bottlenecks.intervention import intervene
from xaihelpers.bottlenecks.minibatch import (
    concept_loss,
    encode,
    feature_statistics,
    frozen,
    layer,
    pixel_features,
    rarity,
    train,
)
from xaihelpers.bottlenecks.model_files import read_model, save_model
from xaihelpers.outputs import ConceptOutputs
from xaihelpers.paths import set_aside

KINDS = ("joint", "independent", "sequential")
CONCEPT_LAYERS = ("concept_weights", "concept_bias")
HIDDEN_LAYERS = ("hidden_weights", "hidden_bias")
CLASS_LAYERS = ("class_weights", "class_bias")


@dataclass
class ConceptBottleneck:
    """A bottleneck whose concept values are probabilities; shapes as in the module's table.

    Features, less `mean` and divided by `std`, go through the hidden layer and a ReLU, where there is one, to
    the concepts.

    `per_concept`: one network per concept, which share no weights.
    `trunks`: what turns pixels into features, none where these come from a frozen backbone.
    """

    mean: torch.Tensor  # (d,)
    std: torch.Tensor  # (d,)
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
        """Features (N, d) of pixels (N, 3, H, W) uint8; (N, L, d) of a trunk per concept."""
        return encode(self.trunks, inputs)

    def explain(
        self,
        inputs: torch.Tensor,
        known: torch.Tensor | None = None,
        image_ids: list[str] | None = None,
    ) -> ConceptOutputs:
        """Outputs for features or pixels of N images, on the model's device; values are probabilities.

        known: (N, L), a person's 0 or 1, NaN where nothing is corrected; it takes the place of the
            probability.
        image_ids: N file names, kept with the outputs.

        Raises ValueError as `intervene` and `ConceptOutputs` do, and for pixels without a trunk.
        """
        probability = concept_logits(self.encode(inputs).to(self.class_weights), self).sigmoid()  # (N, L)
        values = intervene(probability, known)
        logits = values @ self.class_weights + self.class_bias
        return linear_head_outputs(values, logits, self, image_ids, values.new_full(values.shape[1:], 0.5))


def concept_logits(features: torch.Tensor, model: ConceptBottleneck) -> torch.Tensor:
    """Logits g(x) (N, L) of the concepts from features (N, d), or (N, L, d) of a trunk per concept."""
    activations = (features - model.mean) / model.std
    if model.hidden_weights is not None:
        if model.per_concept:
            hidden = einsum(activations, model.hidden_weights, "n d, l d h -> n l h")
        else:
            hidden = activations @ model.hidden_weights
        activations = (hidden + model.hidden_bias).relu()
    if activations.ndim == 3:
        return einsum(activations, model.concept_weights, "n l h, l h -> n l") + model.concept_bias
    weights = model.concept_weights.T if model.per_concept else model.concept_weights
    return activations @ weights + model.concept_bias


def fit_cbm(
    inputs: torch.Tensor,
    present: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    kind: str = "joint",
    per_concept: bool = False,
    concept_weight: float = 5.0,
    epochs: int = 60,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    weight_decay: float = 1e-2,
    hidden: int = 128,
    penalty: float = 1e-3,
    seed: int = 0,
    trunk: nn.Module | None = None,
    device: str | torch.device = "cpu",
    recipe: str = "adamw",
    checkpoints: str | Path | None = None,
) -> ConceptBottleneck:
    """Concept bottleneck of training images, in one of the three ways of the module's equations.

    inputs: features (N, d) of a frozen backbone, then through `hidden` units (0: none); or pixels (N, 3, H,
        W) uint8 with a `trunk`, which turns them into features (B, d) and is trained with the rest, from
        where it stands, at a tenth of the `learning_rate` (a copy is trained; `hidden` then does not apply).
    present: (N, L) in [0, 1], hard or soft. labels: (N,) int64. All are moved to `device`.
    kind: "joint", "sequential" or "independent". concept_weight: λ, of "joint" alone.
    per_concept: one network per concept, which share no weights.
    penalty: of the head that "sequential" and "independent" fit by `fit_head`.
    recipe: "adamw", or "koh" for the optimiser, the weights of rare concepts and the augmentation of Koh et
        al. 2020; their learning rate and weight decay are to be given with it.
    checkpoints: a folder that keeps the state after each epoch from pixels, and each network of one concept,
        so that a run that was killed goes on where it was. It must be of these data and settings alone.

    Raises ValueError for an unknown kind, inputs that do not fit, "joint" from pixels with one network per
    concept, and a loss that is not finite.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    check_inputs(inputs, present, labels, concepts, classes, trunk)
    device, generator = torch.device(device), torch.Generator().manual_seed(seed)
    present, labels = present.float().to(device), labels.to(device)
    options = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "generator": generator,
        "recipe": recipe,
    }
    if trunk is not None and checkpoints and not per_concept:
        options["checkpoint"] = Path(checkpoints) / "training.checkpoint"
    if trunk is not None and per_concept:
        if kind == "joint":
            raise ValueError(
                "from pixels the networks of the concepts are trained one after the other, so none sees the "
                "class: choose kind independent or sequential"
            )
        model = _fit_each_from_pixels(
            inputs, present, trunk.to(device), concepts, classes, options, seed, checkpoints
        )
    else:
        model = _untrained(inputs, present, trunk, concepts, classes, per_concept, hidden, generator, device)
        _train_together(model, inputs, present, labels, concept_weight if kind == "joint" else None, options)
    if kind == "joint":
        return model
    values = present
    if kind == "sequential":
        with torch.no_grad():
            values = concept_logits(model.encode(inputs).to(device), model).sigmoid()
    model.class_weights, model.class_bias = fit_head(values, labels, len(classes), penalty)
    return model


def _untrained(
    inputs, present, trunk, concepts, classes, per_concept, hidden, generator, device
) -> ConceptBottleneck:
    """The model before training, its layers requiring gradients."""
    trunks = [] if trunk is None else [copy.deepcopy(trunk).to(device)]
    mean, std = feature_statistics(inputs, trunks[0] if trunks else None, device)
    n_features, n_concepts, n_classes = len(mean), len(concepts), len(classes)
    hidden = 0 if trunks else hidden
    width = hidden or n_features  # of what the concepts are read from
    model = ConceptBottleneck(
        mean=mean,
        std=std,
        concept_weights=layer(
            (n_concepts, width) if per_concept else (width, n_concepts), width, generator, device
        ),
        concept_bias=torch.logit(present.mean(0).clamp(0.01, 0.99)).requires_grad_(),
        class_weights=layer((n_concepts, n_classes), n_concepts, generator, device),
        class_bias=torch.zeros(n_classes, device=device, requires_grad=True),
        concepts=list(concepts),
        classes=list(classes),
        per_concept=per_concept,
        trunks=trunks,
    )
    if hidden:
        networks = (n_concepts,) if per_concept else ()
        model.hidden_weights = layer((*networks, n_features, hidden), n_features, generator, device)
        model.hidden_bias = torch.zeros(*networks, hidden, device=device, requires_grad=True)
    return model


def _train_together(model, inputs, present, labels, concept_weight, options) -> None:
    """Train the concepts, and with a `concept_weight` the head as well, on one loss; in place."""
    names = [*CONCEPT_LAYERS]
    if model.hidden_weights is not None:
        names += HIDDEN_LAYERS
    if concept_weight is not None:
        names += CLASS_LAYERS
    trunk = model.trunks[0].train().requires_grad_(True) if model.trunks else None
    inputs = inputs if trunk else inputs.to(present.device)
    generator, recipe = options["generator"], options["recipe"]
    weights = rarity(present, recipe)

    def loss(rows):
        features = pixel_features(trunk, inputs[rows], generator, recipe) if trunk else inputs[rows]
        logits = concept_logits(features, model)
        of_concepts = concept_loss(logits, present[rows], weights)
        if concept_weight is not None:
            class_logits = logits.sigmoid() @ model.class_weights + model.class_bias
            return concept_weight * of_concepts + F.cross_entropy(class_logits, labels[rows])
        # one network per concept: the sum of separate losses, so that each learns as if alone
        return of_concepts * (len(model.concepts) if model.per_concept else 1)

    layers = [getattr(model, name) for name in names]
    train(layers, trunk, loss, len(inputs), what="concept bottleneck", **options)
    for name in dict.fromkeys([*names, *CLASS_LAYERS]):
        setattr(model, name, getattr(model, name).detach())
    model.trunks = [frozen(trunk)] if trunk else []


def _fit_each_from_pixels(
    pixels, present, trunk, concepts, classes, options, seed, checkpoints
) -> ConceptBottleneck:
    """One copy of the trunk for each concept, trained one after the other; the head is left at zero.

    Each has a generator of its own, so that it is the same whether those before it were trained or read.
    """
    networks = []
    for j, name in enumerate(concepts):
        file = Path(checkpoints) / f"{j:03d}.safetensors" if checkpoints else None
        network = _read_checkpoint(file, name, trunk, present.device)
        if network is None:
            generator = torch.Generator().manual_seed(1000 * seed + j)
            column, own = present[:, j : j + 1], options | {"generator": generator}
            if file:
                own["checkpoint"] = file.with_suffix(".checkpoint")
            network = _untrained(pixels, column, trunk, [name], classes, False, 0, generator, present.device)
            _train_together(network, pixels, column, None, None, own)
            if file:
                save_model(network, file)
                own["checkpoint"].unlink(missing_ok=True)
        networks.append(network)
    weights = torch.cat([network.concept_weights for network in networks], 1)  # (d, L)
    return ConceptBottleneck(
        mean=networks[0].mean,
        std=networks[0].std,
        concept_weights=weights.T.contiguous(),
        concept_bias=torch.cat([network.concept_bias for network in networks]),
        class_weights=torch.zeros(len(concepts), len(classes), device=present.device),
        class_bias=torch.zeros(len(classes), device=present.device),
        concepts=list(concepts),
        classes=list(classes),
        per_concept=True,
        trunks=[network.trunks[0] for network in networks],
    )


def _read_checkpoint(file, name, trunk, device) -> ConceptBottleneck | None:
    """The network of one concept that an earlier run kept; a damaged file, or another's, is set aside."""
    if file is None or not file.exists():
        return None
    try:
        network, _ = read_model(ConceptBottleneck, file, device, partial(copy.deepcopy, trunk))
        if network.concepts != [name]:
            raise ValueError(f"it is of {network.concepts}, not of {name}")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        set_aside(file, error)
        return None
    return network
