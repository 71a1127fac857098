"""The concept embedding MODEL (Espinosa Zarlenga et al. 2022), a bottleneck; no metric.

The concept existence METRIC, which has the same abbreviation CEM, is `scores.alignment.concept_existence`.

Each concept i is a vector, mixed from one for "present" and one for "absent" (paper conceptscore, appendix
A.1):

    ĉᵢ⁺ = a(Wᵢ⁺ h + bᵢ⁺)                     eq. 13
    ĉᵢ⁻ = a(Wᵢ⁻ h + bᵢ⁻)                     eq. 14
    ĉᵢ  = pᵢ ĉᵢ⁺ + (1 − pᵢ) ĉᵢ⁻              eq. 15
    pᵢ  = σ(w · [ĉᵢ⁺, ĉᵢ⁻] + v)              Espinosa Zarlenga et al. 2022, section 3.1

| symbol | name | shape |
|---|---|---|
| h, standardised features | `standardised` | (N, d) |
| ĉ⁺ and ĉ⁻ | `pairs` | (N, L, 2, m) |
| W⁺ and W⁻, b⁺ and b⁻ | `pair_weights`, `pair_bias` | (d, L, 2, m), (L, 2, m) |
| p | `probability`, `values` | (N, L) |
| w, v, of all concepts | `score_weights`, `score_bias` | (2, m), () |
| ĉ | `embeddings` | (N, L, m) |
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from einops import einsum, rearrange

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.bottlenecks.head import intervene
from xaihelpers.bottlenecks.networks import CONCEPT_WEIGHT, ConceptNetwork, layer, rarity, train, training_set
from xaihelpers.outputs import ConceptOutputs

SIZE = 16  # m
# with this probability a concept of a training image is set to its label before its embeddings are mixed, so
# that the head learns to trust corrections (RandInt, Espinosa Zarlenga et al. 2022, section 3.2)
INTERVENTION = 0.25
TRAINED = ("pair_weights", "pair_bias", "score_weights", "score_bias", "class_weights", "class_bias")


@dataclass(kw_only=True)
class ConceptEmbeddingModel(ConceptNetwork):
    """A bottleneck of L concept embeddings of m numbers each; shapes as in the module's table.

    The head is `class_weights` (L, m, K) and `class_bias` (K,) on the mixed embeddings.
    """

    pair_weights: torch.Tensor
    pair_bias: torch.Tensor
    score_weights: torch.Tensor
    score_bias: torch.Tensor

    def explain(
        self, inputs: torch.Tensor, known: torch.Tensor | None = None, image_ids: list[str] | None = None
    ) -> ConceptOutputs:
        """Outputs for features or pixels of N images, as of `LinearHead.explain`.

        A concept contributes what its embedding adds to the predicted class's logit. The head is linear in
        the embeddings, but not in the probabilities, so `class_weights` of the outputs is None.
        """
        pairs, scores = pairs_and_scores(self.encode(inputs).to(self.class_weights), self)
        values = intervene(scores.sigmoid(), known)
        embeddings = mix_embeddings(pairs, values)  # (N, L, m)
        logits = einsum(embeddings, self.class_weights, "n l m, l m k -> n k") + self.class_bias
        weights = self.class_weights[:, :, logits.argmax(1)]  # (L, m, N)
        contributions = einsum(embeddings, weights, "n l m, l m n -> n l")
        thresholds = values.new_full(values.shape[1:], 0.5)
        names = self.concepts, self.classes, image_ids
        return ConceptOutputs(values, contributions, None, logits, *names, thresholds=thresholds)


def pairs_and_scores(
    features: torch.Tensor, model: ConceptEmbeddingModel
) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings of each concept when present and when absent, and the logit of its probability.

    features: (N, d). Returns (N, L, 2, m) and (N, L). Paper conceptscore, appendix A.1, eq. 13 and 14.
    """
    standardised = (features - model.mean) / model.std
    pairs = einsum(standardised, model.pair_weights, "n d, d l s m -> n l s m") + model.pair_bias
    pairs = F.leaky_relu(pairs)
    return pairs, einsum(pairs, model.score_weights, "n l s m, s m -> n l") + model.score_bias


def mix_embeddings(pairs: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """p ĉ⁺ + (1 − p) ĉ⁻ (N, L, m) of pairs (N, L, 2, m) and p (N, L); paper conceptscore, eq. 15."""
    present, absent = pairs[:, :, 0], pairs[:, :, 1]
    return absent + probability[..., None] * (present - absent)


def fit_cem(
    dataset: ConceptDataset,
    seed: int = 0,
    device: str | torch.device = "cpu",
    checkpoints: Path | None = None,
    **training,
) -> ConceptEmbeddingModel:
    """Concept embedding model of training images, by cross-entropy + `CONCEPT_WEIGHT` · mean concept loss.

    dataset, checkpoints, training: as of `fit_cbm`, with its errors.

    Source: Espinosa Zarlenga et al. 2022, sections 3.1 and 3.2.
    """
    training = {"epochs": 20, "learning_rate": 2e-3} | training
    inputs, present, labels, fields = training_set(dataset, device)
    generator = torch.Generator().manual_seed(seed)
    width, n_concepts, n_classes = len(fields["mean"]), len(dataset.concepts), len(dataset.classes)
    model = ConceptEmbeddingModel(
        **fields,
        pair_weights=layer((width, n_concepts, 2, SIZE), width, generator, device),
        pair_bias=layer((n_concepts, 2, SIZE), width, generator, device),
        score_weights=layer((2, SIZE), 2 * SIZE, generator, device),
        score_bias=torch.zeros((), device=device),
        class_weights=layer((n_concepts, SIZE, n_classes), n_concepts * SIZE, generator, device),
        class_bias=torch.zeros(n_classes, device=device),
    )
    rare = rarity(present, training.get("recipe", ""))

    def loss(features, rows):
        pairs, scores = pairs_and_scores(features, model)
        corrected = torch.rand(scores.shape, generator=generator).to(device) < INTERVENTION
        probability = torch.where(corrected, present[rows], scores.sigmoid())
        embeddings = rearrange(mix_embeddings(pairs, probability), "n l m -> n (l m)")
        logits = embeddings @ rearrange(model.class_weights, "l m k -> (l m) k") + model.class_bias
        of_concepts = F.binary_cross_entropy_with_logits(scores, present[rows], pos_weight=rare)
        return F.cross_entropy(logits, labels[rows]) + CONCEPT_WEIGHT * of_concepts

    train(model, TRAINED, loss, inputs, generator, checkpoints, **training)
    return model
