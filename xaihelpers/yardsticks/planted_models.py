"""Bottlenecks with a known fault at a known dose: what a yardstick of concepts is itself measured by.

An honest model reads each concept as it is in the image, but for a few errors and a little noise, and decides
by a linear head on what it reads. Each fault departs from it by a dose d from 0, honest, to 1:

| fault | what is false | d is the share of |
|---|---|---|
| permuted names | values stand under the names of other concepts | concepts |
| recited | values are those that the class usually has, whatever the image shows | images |
| leak | right values carry the class beside their concept, within LEAK of their place | LEAK |
| another part | a value is that of the concept of another part which comes along most | concepts |
| inverted | present is said of what is absent, and the reverse | concepts |
| irrelevant words | a value is a random direction of a network's features | concepts |
| noisy labels | a value is a coin's | images, concept by concept |
| other reasons | the head's weights are shown under the names of other concepts | concepts |
| side channel | the class is decided beside the concepts, by a network's features | logits |
| random model | a value is noise, alike for all images | – |

The first seven change the values, and a head of their own is fitted to these.

| symbol | name | shape |
|---|---|---|
| û | `values` | (N, L), about 0 absent, about 1 present |
| θ, b of what decides | `class_weights`, `class_bias` | (L, K), (K,) |
| θ that the explanation shows | `claimed_weights` | (L, K) |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F

from xaihelpers.outputs import ConceptOutputs

FAULTS = ("permuted names", "recited", "leak", "another part", "inverted", "irrelevant words", "noisy labels")
FAULTS += ("other reasons", "side channel")
# whose dose is a share of the concepts -> the fewest that can have it: two exchange their names
CONCEPT_FAULTS = {"permuted names": 2, "another part": 1, "inverted": 1, "irrelevant words": 1}
CONCEPT_FAULTS["other reasons"] = 2
RANDOM_MODEL = "random model"
LEAK = 0.3  # of the distance from absent to present: the value stays on its side of one half


class Scenes(NamedTuple):
    """What there is to see in N images, as far as it is known: what planted models read."""

    present: torch.Tensor  # (N, L) of 0 and 1
    labels: torch.Tensor  # (N,) int64
    features: torch.Tensor  # (N, d), of some network


class Plan(NamedTuple):
    """What a fault is made from; the generator begins anew whenever a model reads."""

    dose: float
    training: Scenes
    parts: Sequence[tuple]
    generator: torch.Generator  # of the concepts and directions that are afflicted


@dataclass
class PlantedModel:
    """A bottleneck with a planted fault; symbols and shapes as in the module's table."""

    reads: Callable[[Scenes, torch.Generator], torch.Tensor]
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    claimed_weights: torch.Tensor
    thresholds: torch.Tensor  # (L,), the values above which the model calls a concept present
    concepts: list[str]
    classes: list[str]
    side_weights: torch.Tensor | None = None  # (d, K), on features: what decides beside the concepts

    def values(self, scenes: Scenes, seed: int = 0) -> torch.Tensor:
        """û (N, L). seed: of the noise, the same for the same number of scenes."""
        return self.reads(scenes, torch.Generator().manual_seed(seed))

    def explain(self, scenes: Scenes, seed: int = 0, image_ids: list[str] | None = None) -> ConceptOutputs:
        """Outputs for scenes, with the weights and contributions that the explanation claims."""
        values = self.values(scenes, seed)
        logits = values @ self.class_weights + self.class_bias
        if self.side_weights is not None:
            logits = logits + scenes.features @ self.side_weights
        return ConceptOutputs(
            values=values,
            contributions=values * self.claimed_weights.T[logits.argmax(1)],
            class_weights=self.claimed_weights,
            logits=logits,
            concepts=self.concepts,
            classes=self.classes,
            image_ids=image_ids,
            thresholds=self.thresholds,
        )


def plant(
    fault: str | Callable[[torch.Tensor], torch.Tensor],
    dose: float,
    training: Scenes,
    concepts: list[str],
    classes: list[str],
    parts: list[tuple],
    noise: float = 0.1,
    errors: float = 0.0,
    seed: int = 0,
) -> PlantedModel:
    """A bottleneck with a fault at a dose, its head fitted on training scenes.

    fault: one of FAULTS, or RANDOM_MODEL; a dose of 0 gives the honest model under any of them. Or a function
        of one's own, what is read (N, L) -> values (N, L), whatever the dose.
    dose: 0 to 1. concepts: L names. classes: K names. parts: L tuples, of parts that each concept lies on.
    noise: standard deviation of what is read, where absent and present are 1 apart.
    errors: share of the labels that any model, an honest one too, misreads.
    seed: of the concepts that are afflicted, the images, the directions, and of the noise in training.
    Raises ValueError: an unknown fault, "another part" without two parts.
    """
    if not callable(fault) and fault not in (*FAULTS, RANDOM_MODEL):
        raise ValueError(f"there is no fault {fault!r}: choose among {', '.join(FAULTS)}")

    def reads(scenes: Scenes, noises: torch.Generator) -> torch.Tensor:
        misread = (torch.rand(scenes.present.shape, generator=noises) < errors).to(scenes.present)
        scenes = scenes._replace(present=(scenes.present - misread).abs())
        values = scenes.present
        if callable(fault):
            values = fault(values)
        elif fault in _CHANGES:
            plan = Plan(dose, training, parts, torch.Generator().manual_seed(seed))
            values = _CHANGES[fault](scenes, plan, noises)
        return values + noise * torch.randn(values.shape, generator=noises)

    values = reads(training, torch.Generator().manual_seed(seed + 1))
    weights, bias = ridge_head(values, training.labels, len(classes))
    halfway = torch.full_like(values[0], 0.5)
    model = PlantedModel(reads, weights, bias, weights, halfway, list(concepts), list(classes))
    if fault == "other reasons":
        generator = torch.Generator().manual_seed(seed)
        model.claimed_weights = weights[_permutation_of_some(len(concepts), dose, generator)]
    if fault == "side channel" and dose > 0:
        side, side_bias = ridge_head(training.features, training.labels, len(classes))
        model.class_weights, model.side_weights = (1 - dose) * weights, dose * side
        model.class_bias = (1 - dose) * bias + dose * side_bias
    return model


def rewritten(
    model: PlantedModel,
    scale: torch.Tensor | float = 1.0,
    zero: torch.Tensor | float = 0.0,
    gauge: torch.Tensor | float = 0.0,
) -> PlantedModel:
    """The same model written in another way: no prediction, no truth and no reason of it changes.

    scale: (L,) above 0, what values are multiplied by; the weights are divided by it.
    zero: (L,), what is then added to the values; the bias absorbs it.
    gauge: (L,), what is added to each concept's weights for all classes; softmax does not see it.
    """
    scale, zero, gauge = (torch.as_tensor(part).expand_as(model.thresholds) for part in (scale, zero, gauge))

    def reads(scenes: Scenes, noises: torch.Generator) -> torch.Tensor:
        return model.reads(scenes, noises) * scale + zero

    weights = model.class_weights / scale[:, None]
    return replace(
        model,
        reads=reads,
        class_weights=weights + gauge[:, None],
        class_bias=model.class_bias - zero @ weights,
        claimed_weights=model.claimed_weights / scale[:, None] + gauge[:, None],
        thresholds=model.thresholds * scale + zero,
    )


def ridge_head(
    inputs: torch.Tensor, labels: torch.Tensor, n_classes: int, penalty: float = 0.1
) -> tuple[torch.Tensor, torch.Tensor]:
    """The linear layer that fits one-hot classes best by squared error: weights (d, K) and bias (K,).

    Closed, so that hundreds of heads take seconds; `bottlenecks.head.fit_head` has the softmax.

    inputs: (N, d). labels: (N,) int64, 0 to K − 1.
    penalty: λ of λ/N ‖W‖² on standardised inputs, in percent of the images.
    """
    mean, std = inputs.mean(0), inputs.std(0)
    std = std.where(std > 1e-6 * inputs.abs().amax(0).clamp(min=1e-30), torch.inf)
    standardised = ((inputs - mean) / std).double()
    targets = F.one_hot(labels, n_classes).double()
    base = targets.mean(0)
    ridge = penalty * len(inputs) / 100 * torch.eye(inputs.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(standardised.T @ standardised + ridge, standardised.T @ (targets - base))
    weights = (weights / std[:, None]).to(inputs.dtype)
    return weights, base.to(inputs.dtype) - mean @ weights


def _some(count: int, share: float, generator: torch.Generator) -> torch.Tensor:
    """A random share of `count` things, their numbers in random order."""
    return torch.randperm(count, generator=generator)[: round(share * count)]


def _permutation_of_some(count: int, share: float, generator: torch.Generator) -> torch.Tensor:
    """Numbers 0 to count − 1 with a random share of them exchanged, none of these in its own place."""
    some = _some(count, share, generator)
    order = torch.arange(count)
    if len(some) > 1:
        order[some] = some.roll(1)
    return order


def _permuted(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    return scenes.present[:, _permutation_of_some(scenes.present.shape[1], plan.dose, plan.generator)]


def _recited(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    training = plan.training
    of_class = F.one_hot(training.labels).to(training.present)  # (N, K)
    usual = of_class.T @ training.present >= of_class.sum(0).clamp(min=1)[:, None] / 2
    recites = torch.rand(len(scenes.labels), generator=noises) < plan.dose
    return torch.where(recites[:, None], usual.to(training.present)[scenes.labels], scenes.present)


def _leaking(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    shape = (int(plan.training.labels.max()) + 1, scenes.present.shape[1])
    code = 2.0 * torch.randint(0, 2, shape, generator=plan.generator) - 1  # (K, L) of ±1
    return scenes.present + plan.dose * LEAK * code[scenes.labels]


def _from_another_part(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    """The companion is the concept of other parts with the highest correlation in training."""
    centred = plan.training.present - plan.training.present.mean(0)
    spread = centred.norm(dim=0).clamp(min=1e-9)
    correlation = (centred.T @ centred) / spread / spread[:, None]
    parts = plan.parts
    elsewhere = torch.tensor([[bool(a) and bool(b) and not set(a) & set(b) for b in parts] for a in parts])
    if not elsewhere.any():
        raise ValueError('the fault "another part" needs concepts on two parts or more')
    companion = correlation.masked_fill(~elsewhere, -2).argmax(1)
    candidates = elsewhere.any(1).nonzero()[:, 0]
    some = candidates[_some(len(candidates), plan.dose, plan.generator)]
    order = torch.arange(len(parts))
    order[some] = companion[some]
    return scenes.present[:, order]


def _inverted(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    some = _some(scenes.present.shape[1], plan.dose, plan.generator)
    values = scenes.present.clone()
    values[:, some] = 1 - values[:, some]
    return values


def _irrelevant(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    """A direction's values have the mean and the spread of the concept whose name they bear."""
    training, n_concepts = plan.training, scenes.present.shape[1]
    some = _some(n_concepts, plan.dose, plan.generator)
    if not len(some):
        return scenes.present
    bank = torch.randn(training.features.shape[1], n_concepts, generator=plan.generator)[:, some]
    raw = training.features @ bank
    mean, std = raw.mean(0), raw.std(0).clamp(min=1e-9)
    wanted_mean, wanted_std = training.present.mean(0)[some], training.present.std(0)[some]
    values = scenes.present.clone()
    values[:, some] = (scenes.features @ bank - mean) / std * wanted_std + wanted_mean
    return values


def _noisy(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    tossed = torch.rand(scenes.present.shape, generator=noises) < plan.dose
    coin = torch.rand(scenes.present.shape, generator=noises) < 0.5
    return torch.where(tossed, coin.to(scenes.present), scenes.present)


def _random(scenes: Scenes, plan: Plan, noises: torch.Generator) -> torch.Tensor:
    mean, std = plan.training.present.mean(0), plan.training.present.std(0)
    return torch.randn(scenes.present.shape, generator=noises) * std + mean


_CHANGES = {
    "permuted names": _permuted,
    "recited": _recited,
    "leak": _leaking,
    "another part": _from_another_part,
    "inverted": _inverted,
    "irrelevant words": _irrelevant,
    "noisy labels": _noisy,
    RANDOM_MODEL: _random,
}
