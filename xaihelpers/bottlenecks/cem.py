"""Concept embedding models (Espinosa Zarlenga et al. 2022): each concept is a vector, mixed from one for "present" and one for "absent"."""
import copy
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn

from .intervention import corrected
from .outputs import ConceptOutputs
from .training import check_inputs, concept_loss, encode, frozen, layer, pixel_features, train


@dataclass
class ConceptEmbeddingModel:
    """A bottleneck of L concept embeddings of m numbers.

    Features, less `mean` over `std` (d,), give by `pair_weights` (d, L, 2, m), `pair_bias` (L, 2, m) and a leaky ReLU each concept's embeddings when present
    and when absent; `score_weights` (2, m) and `score_bias` (), shared by all concepts, its probability; `class_weights` (L, m, K), `class_bias` (K,): the
    head on the mixed embeddings.
    """

    mean: torch.Tensor
    std: torch.Tensor
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
        """Features (N, d) of pixels (N, 3, H, W) uint8, which `explain` takes as well."""
        return encode(self.trunks, inputs)

    def explain(self, inputs: torch.Tensor, known: torch.Tensor | None = None) -> ConceptOutputs:
        """Outputs for features or pixels of N images. Values are probabilities; `known` (N, L) sets them to a person's 0 or 1 where it is not NaN.

        A concept contributes what its embedding adds to the predicted class's logit: the head is linear in the embeddings, though not in the probabilities, so
        `class_weights` of the outputs is None.
        """
        pairs, scores = pairs_and_scores(self.encode(inputs).to(self.class_weights), self)
        values = corrected(scores.sigmoid(), known)
        embeddings = mixed(pairs, values)  # (N, L, m)
        logits = einsum(embeddings, self.class_weights, "n l m, l m k -> n k") + self.class_bias
        contributions = torch.cat([einsum(part, self.class_weights[:, :, k], "n l m, l m n -> n l")
                                   for part, k in zip(embeddings.split(256), logits.argmax(1).split(256), strict=True)])
        return ConceptOutputs(values, contributions, None, logits, self.concepts, self.classes)


def pairs_and_scores(features: torch.Tensor, model) -> tuple[torch.Tensor, torch.Tensor]:
    """From features (N, d) the embeddings of each concept when present and when absent, (N, L, 2, m), and the logit of its probability, (N, L).

    Paper conceptscore, appendix A.1, eq. 13 and 14.
    """
    x = (features - model.mean) / model.std
    pairs = F.leaky_relu(einsum(x, model.pair_weights, "n d, d l s m -> n l s m") + model.pair_bias)
    return pairs, einsum(pairs, model.score_weights, "n l s m, s m -> n l") + model.score_bias


def mixed(pairs: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """p ĉ⁺ + (1 − p) ĉ⁻, (N, L, m), of pairs (N, L, 2, m) and probabilities (N, L) (paper conceptscore, eq. 15)."""
    return pairs[:, :, 1] + probability[..., None] * (pairs[:, :, 0] - pairs[:, :, 1])


def fit_cem(inputs: torch.Tensor, present: torch.Tensor, labels: torch.Tensor, concepts: list[str], classes: list[str], size: int = 16,
            intervention: float = 0.25, concept_weight: float = 5.0, epochs: int = 20, batch_size: int = 64, learning_rate: float = 2e-3,
            weight_decay: float = 1e-2, seed: int = 0, trunk: nn.Module | None = None, device: str | torch.device = "cpu") -> ConceptEmbeddingModel:
    """Concept embedding model of training inputs, concept labels (N, L) in [0, 1] and class labels (N,).

    Trained on cross-entropy + `concept_weight` · mean concept loss.
    `inputs`: features (N, d), or pixels (N, 3, H, W) uint8 with a `trunk` as in `fit_cbm`. `size`: m. `intervention`: in training each concept of each image is
    set to its label with this probability before its embeddings are mixed (RandInt), so that the head learns to trust corrections.
    Raises ValueError for inputs that do not fit and a probability outside [0, 1).
    """
    check_inputs(inputs, present, labels, concepts, classes, trunk)
    if not 0 <= intervention < 1:
        raise ValueError(f"intervention is a probability below 1, not {intervention}")
    device, generator = torch.device(device), torch.Generator().manual_seed(seed)
    present, labels, n_concepts = present.float().to(device), labels.to(device), len(concepts)
    trunk = None if trunk is None else copy.deepcopy(trunk).to(device).requires_grad_(True)
    with torch.no_grad():
        d = (inputs if trunk is None else trunk.eval()(inputs[:2].to(device))).shape[1]
    mean, std = (inputs.mean(0), inputs.std(0).clamp(min=1e-6)) if trunk is None else (torch.zeros(d), torch.ones(d))
    model = ConceptEmbeddingModel(
        mean.to(device), std.to(device), layer((d, n_concepts, 2, size), d, generator, device), layer((n_concepts, 2, size), d, generator, device),
        layer((2, size), 2 * size, generator, device), torch.zeros((), device=device, requires_grad=True),
        layer((n_concepts, size, len(classes)), n_concepts * size, generator, device), torch.zeros(len(classes), device=device, requires_grad=True),
        list(concepts), list(classes))
    names = [name for name in vars(model) if name.endswith(("weights", "bias"))]
    if trunk is None:
        inputs = inputs.to(device)
    else:
        trunk.train()

    def loss(rows):
        pairs, scores = pairs_and_scores(pixel_features(trunk, inputs[rows], generator) if trunk else inputs[rows], model)
        told = torch.rand(scores.shape, generator=generator).to(device) < intervention
        embeddings = mixed(pairs, torch.where(told, present[rows], scores.sigmoid()))
        logits = rearrange(embeddings, "n l m -> n (l m)") @ rearrange(model.class_weights, "l m k -> (l m) k") + model.class_bias
        return F.cross_entropy(logits, labels[rows]) + concept_weight * concept_loss(scores, present[rows])

    train([getattr(model, name) for name in names], trunk, loss, len(inputs), epochs, batch_size, learning_rate, weight_decay, generator, "concept embeddings")
    for name in names:
        setattr(model, name, getattr(model, name).detach())
    model.trunks = [] if trunk is None else [frozen(trunk)]
    return model
