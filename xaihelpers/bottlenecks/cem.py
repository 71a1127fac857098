"""The concept embedding MODEL (Espinosa Zarlenga et al. 2022), a bottleneck; no metric.

The concept existence METRIC, which has the same abbreviation CEM, is `scores.alignment.concept_existence`.

Each concept i is a vector, mixed from one for "present" and one for "absent" (paper conceptscore, appendix
A.1):

    ĉᵢ⁺ = a(Wᵢ⁺ h + bᵢ⁺)                     eq. 13
    ĉᵢ⁻ = a(Wᵢ⁻ h + bᵢ⁻)                     eq. 14
    ĉᵢ  = pᵢ ĉᵢ⁺ + (1 − pᵢ) ĉᵢ⁻              eq. 15
    pᵢ  = σ(w · [ĉᵢ⁺, ĉᵢ⁻] + v)              Espinosa Zarlenga et al. 2022, section 3.1

w and v are shared by all concepts.

| symbol | name | shape |
|---|---|---|
| h, standardised features | `standardised` | (N, d) |
| ĉ⁺ and ĉ⁻ | `pairs` | (N, L, 2, m) |
| W⁺ and W⁻, b⁺ and b⁻ | `pair_weights`, `pair_bias` | (d, L, 2, m), (L, 2, m) |
| a, a leaky ReLU | `F.leaky_relu` | |
| p | `probability`, `values` | (N, L) |
| w, v | `score_weights`, `score_bias` | (2, m), () |
| ĉ | `embeddings` | (N, L, m) |
"""

import copy
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn

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
from xaihelpers.outputs import ConceptOutputs

# parameters that training changes
TRAINED = ("pair_weights", "pair_bias", "score_weights", "score_bias", "class_weights", "class_bias")


@dataclass
class ConceptEmbeddingModel:
    """A bottleneck of L concept embeddings of m numbers each; shapes as in the module's table.

    Features (N, d), less `mean` and divided by `std`, give pairs of embeddings and their probabilities; the
    head is `class_weights` (L, m, K) and `class_bias` (K,) on the mixed embeddings.

    `trunks`: what turns pixels into features, none where these come from a frozen backbone.
    """

    mean: torch.Tensor  # (d,)
    std: torch.Tensor  # (d,)
    pair_weights: torch.Tensor
    pair_bias: torch.Tensor
    score_weights: torch.Tensor
    score_bias: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    concepts: list[str]
    classes: list[str]
    trunks: list[nn.Module] = field(default_factory=list)

    def encode(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features (N, d) of pixels (N, 3, H, W) uint8."""
        return encode(self.trunks, inputs)

    def explain(
        self,
        inputs: torch.Tensor,
        known: torch.Tensor | None = None,
        image_ids: list[str] | None = None,
    ) -> ConceptOutputs:
        """Outputs for features or pixels of N images, on the model's device; values are probabilities.

        A concept contributes what its embedding adds to the predicted class's logit. The head is linear in
        the embeddings, but not in the probabilities, so `class_weights` of the outputs is None.

        known: (N, L), a person's 0 or 1, NaN where nothing is corrected; it takes the place of the
            probability.
        image_ids: N file names, kept with the outputs.

        Raises ValueError as `intervene` and `ConceptOutputs` do, and for pixels without a trunk.
        """
        pairs, scores = pairs_and_scores(self.encode(inputs).to(self.class_weights), self)
        values = intervene(scores.sigmoid(), known)
        embeddings = mix_embeddings(pairs, values)  # (N, L, m)
        logits = einsum(embeddings, self.class_weights, "n l m, l m k -> n k") + self.class_bias
        contributions = []
        for part, predicted in zip(embeddings.split(256), logits.argmax(1).split(256), strict=True):
            weights = self.class_weights[:, :, predicted]  # (L, m, n)
            contributions.append(einsum(part, weights, "n l m, l m n -> n l"))
        return ConceptOutputs(
            values,
            torch.cat(contributions),
            None,
            logits,
            self.concepts,
            self.classes,
            image_ids,
            thresholds=values.new_full(values.shape[1:], 0.5),
        )


def pairs_and_scores(
    features: torch.Tensor, model: ConceptEmbeddingModel
) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings of each concept when present and when absent, and the logit of its probability.

    features: (N, d). Returns (N, L, 2, m) and (N, L). Paper conceptscore, appendix A.1, eq. 13 and 14.
    """
    standardised = (features - model.mean) / model.std
    pairs = F.leaky_relu(
        einsum(standardised, model.pair_weights, "n d, d l s m -> n l s m") + model.pair_bias
    )
    return pairs, einsum(pairs, model.score_weights, "n l s m, s m -> n l") + model.score_bias


def mix_embeddings(pairs: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """p ĉ⁺ + (1 − p) ĉ⁻ (N, L, m) of pairs (N, L, 2, m) and p (N, L); paper conceptscore, eq. 15."""
    present, absent = pairs[:, :, 0], pairs[:, :, 1]
    return absent + probability[..., None] * (present - absent)


def fit_cem(
    inputs: torch.Tensor,
    present: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    size: int = 16,
    intervention: float = 0.25,
    concept_weight: float = 5.0,
    epochs: int = 20,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    weight_decay: float = 1e-2,
    seed: int = 0,
    trunk: nn.Module | None = None,
    device: str | torch.device = "cpu",
    recipe: str = "adamw",
    checkpoints: str | Path | None = None,
) -> ConceptEmbeddingModel:
    """Concept embedding model of training images, by cross-entropy + `concept_weight` · mean concept loss.

    inputs: features (N, d), or pixels (N, 3, H, W) uint8 with a `trunk` as in `fit_cbm`.
    present: (N, L) in [0, 1], hard or soft. labels: (N,) int64. All are moved to `device`.
    size: m, numbers in an embedding.
    intervention: the probability with which, in training, a concept of an image is set to its label before
        its embeddings are mixed (RandInt), so that the head learns to trust corrections.
    recipe, checkpoints: as of `fit_cbm`.

    Raises ValueError for inputs that do not fit, a probability outside [0, 1), and a loss that is not finite.
    Source: Espinosa Zarlenga et al. 2022, sections 3.1 and 3.2 (RandInt).
    """
    check_inputs(inputs, present, labels, concepts, classes, trunk)
    if not 0 <= intervention < 1:
        raise ValueError(f"intervention is a probability below 1, not {intervention}")
    device, generator = torch.device(device), torch.Generator().manual_seed(seed)
    present, labels = present.float().to(device), labels.to(device)
    trunk = None if trunk is None else copy.deepcopy(trunk).to(device).requires_grad_(True)
    model = _untrained(inputs, trunk, concepts, classes, size, generator, device)
    if trunk is None:
        inputs = inputs.to(device)
    else:
        trunk.train()

    weights = rarity(present, recipe)

    def loss(rows):
        features = inputs[rows] if trunk is None else pixel_features(trunk, inputs[rows], generator, recipe)
        pairs, scores = pairs_and_scores(features, model)
        corrected = torch.rand(scores.shape, generator=generator).to(device) < intervention
        probability = torch.where(corrected, present[rows], scores.sigmoid())
        embeddings = rearrange(mix_embeddings(pairs, probability), "n l m -> n (l m)")
        head = rearrange(model.class_weights, "l m k -> (l m) k")
        logits = embeddings @ head + model.class_bias
        of_concepts = concept_loss(scores, present[rows], weights)
        return F.cross_entropy(logits, labels[rows]) + concept_weight * of_concepts

    train(
        [getattr(model, name) for name in TRAINED],
        trunk,
        loss,
        len(inputs),
        epochs,
        batch_size,
        learning_rate,
        weight_decay,
        generator,
        "concept embeddings",
        recipe,
        Path(checkpoints) / "training.checkpoint" if checkpoints and trunk is not None else None,
    )
    for name in TRAINED:
        setattr(model, name, getattr(model, name).detach())
    model.trunks = [] if trunk is None else [frozen(trunk)]
    return model


def _untrained(inputs, trunk, concepts, classes, size, generator, device) -> ConceptEmbeddingModel:
    """The model before training, its layers requiring gradients."""
    mean, std = feature_statistics(inputs, trunk, device)
    width, n_concepts, n_classes = len(mean), len(concepts), len(classes)
    return ConceptEmbeddingModel(
        mean=mean,
        std=std,
        pair_weights=layer((width, n_concepts, 2, size), width, generator, device),
        pair_bias=layer((n_concepts, 2, size), width, generator, device),
        score_weights=layer((2, size), 2 * size, generator, device),
        score_bias=torch.zeros((), device=device, requires_grad=True),
        class_weights=layer((n_concepts, size, n_classes), n_concepts * size, generator, device),
        class_bias=torch.zeros(n_classes, device=device, requires_grad=True),
        concepts=list(concepts),
        classes=list(classes),
    )
