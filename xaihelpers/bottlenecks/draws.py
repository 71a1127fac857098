"""One bottleneck fitted several times: what of its explanations is the model's, and what the draw's."""

from typing import NamedTuple

import torch

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset, concept_truth
from xaihelpers.bottlenecks.local_values import local_values
from xaihelpers.bottlenecks.zoo import fit_or_load, is_own, seed_of, zoo_outputs
from xaihelpers.outputs import ConceptOutputs


class Draw(NamedTuple):
    """One fit of a model, and what it says of the N test images; all on one device."""

    outputs: ConceptOutputs
    present: torch.Tensor  # (N, L) of 0 and 1, the labels that its concepts are judged by
    centre: torch.Tensor  # (L,), mean concept values of the training images
    model: object | None  # None of a file of outputs


def fit_draws(
    name: str,
    dataset: ConceptDataset,
    draws: int = 8,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **settings,
) -> list[Draw]:
    """A model on frozen features, fitted anew with other seeds; those of two `seed`s share none.

    name: a model of the zoo; or a file, of outputs (.safetensors) or with a function that gives them (.py),
        which is a single draw and whose centre is that of the test images, for it holds no others.
    draws: how many; concepts that a draw lacks are left out of all.
    settings: of the model, as of `zoo.fit_or_load`.

    Raises ValueError as `fit_or_load` and `zoo_outputs` do.
    """
    test = ~dataset.train
    if is_own(name):
        (outputs,) = zoo_outputs([name], dataset).values()
        outputs = outputs.to(device)
        present = concept_truth(dataset, outputs.concepts)[test].to(device)
        return [Draw(outputs, present, outputs.values.mean(0), None)]
    found = []
    inputs = dataset.image_embeddings if name == "phcbm_text" else dataset.pooled
    training = inputs[dataset.train].to(device)
    for draw in range(draws):
        fitted = fit_or_load(name, dataset, seed_of(seed, draw), device, **settings)
        outputs = fitted.outputs.to(device)
        present = concept_truth(dataset, outputs.concepts)[test].to(device)
        centre = fitted.model.explain(training).values.mean(0)
        found.append(Draw(outputs, present, centre, fitted.model))
    return _with_shared_concepts(found)


def concept_maps_of(draw: Draw, maps: torch.Tensor) -> torch.Tensor:
    """Concept maps (N, L, H, W) of the test images, or those that a file of outputs brings.

    maps: (N, d, H, W), last feature maps of the frozen backbone.
    Raises ValueError for a file without maps, and as `local_values` does.
    """
    if draw.model is None:
        if draw.outputs.concept_maps is None:
            raise ValueError("this file of outputs has no concept maps: bring them as its `concept_maps`")
        return draw.outputs.concept_maps
    columns = [draw.model.concepts.index(name) for name in draw.outputs.concepts]
    return local_values(draw.model, maps)[:, columns]


def _with_shared_concepts(draws: list[Draw]) -> list[Draw]:
    """The draws with the concepts that all of them have: a label-free model may drop others each time."""
    everywhere = set.intersection(*(set(draw.outputs.concepts) for draw in draws))
    kept = []
    for draw in draws:
        columns = [j for j, name in enumerate(draw.outputs.concepts) if name in everywhere]
        outputs = draw.outputs.of_concepts([draw.outputs.concepts[j] for j in columns])
        kept.append(Draw(outputs, draw.present[:, columns], draw.centre[columns], draw.model))
    return kept
