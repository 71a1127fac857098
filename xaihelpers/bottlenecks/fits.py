"""One bottleneck fitted several times, and where in the image its concept values come from.

A bottleneck on pooled features takes f(X) = mean of E(X) over places, so it can be asked of E at one place as
well. Of a linear concept layer this is the concept activation map of paper alignment, eq. 2, up to a factor
and a constant for each concept, which change no rank of a place; other layers (hidden units, concept
embeddings) have no map that adds up to their value.
"""

from typing import NamedTuple

import torch
from einops import rearrange

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset, concept_truth
from xaihelpers.bottlenecks.posthoc import PosthocCBM
from xaihelpers.bottlenecks.zoo import fit_or_load, is_own, own_outputs, seed_of
from xaihelpers.kernels import coam
from xaihelpers.outputs import ConceptOutputs

CHUNK = 65536  # places at a time
# Other ways to fit the head, of which paper alignment says nothing (section 2): the scale of its inputs, and
# for how long; and one class against the rest, as the solver of post-hoc bottlenecks' released code.
HEADS = {
    "raw values": {"standardise": False},
    "few steps": {"solver": "few steps", "steps": 20},
    "one class against the rest": {"solver": "one-vs-rest", "penalty": 2e-4},
}


class Fit(NamedTuple):
    """One fit of a model, and what it says of the N test images; all on one device."""

    outputs: ConceptOutputs
    present: torch.Tensor  # (N, L) of 0 and 1, the labels that its concepts are judged by
    centre: torch.Tensor  # (L,), mean concept values of the training images
    model: object | None  # None of a file of outputs


def fit_several(
    name: str,
    dataset: ConceptDataset,
    n_fits: int = 8,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **settings,
) -> list[Fit]:
    """A model on frozen features, fitted anew with other seeds; those of two `seed`s share none.

    name: a model of the zoo; or a file as of `own_outputs`, which is a single fit and whose centre is that
        of the test images, for it holds no others.
    n_fits: how many; concepts that a fit lacks are left out of all. settings: as of `zoo.fit_or_load`.

    Raises ValueError as `fit_or_load` and `own_outputs` do.
    """
    fits = []  # outputs, centre, model
    if is_own(name):
        (outputs,) = own_outputs([name], dataset).values()
        fits.append((outputs, outputs.values.mean(0), None))
    else:
        inputs = dataset.image_embeddings if name == "phcbm_text" else dataset.pooled
        training = inputs[dataset.train].to(device)
        for number in range(n_fits):
            fit = fit_or_load(name, dataset, seed_of(seed, number), device, **settings)
            fits.append((fit.outputs, fit.model.explain(training).values.mean(0), fit.model))
    everywhere = set.intersection(*(set(outputs.concepts) for outputs, _, _ in fits))
    found = []
    for outputs, centre, model in fits:
        names = [concept for concept in outputs.concepts if concept in everywhere]
        columns = [outputs.concepts.index(concept) for concept in names]
        present = concept_truth(dataset, names)[~dataset.train].to(device)
        found.append(Fit(outputs.of_concepts(names).to(device), present, centre[columns].to(device), model))
    return found


def fit_with_heads(
    name: str,
    dataset: ConceptDataset,
    n_fits: int = 8,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **of_phcbm,
) -> tuple[list[Fit], dict[str, list[Fit]]]:
    """A model as of `fit_several`, and the first three fits of a post-hoc one with other heads, by `HEADS`.

    The concept vectors, and so the concept maps, are the same. of_phcbm: settings of a post-hoc bottleneck,
    which others do not take.
    """
    if name != "phcbm":
        return fit_several(name, dataset, n_fits, seed, device), {}
    heads, few = {}, min(3, n_fits)
    for way, head in HEADS.items():
        heads[way] = fit_several(name, dataset, few, seed, device, **of_phcbm | head)
    return fit_several(name, dataset, n_fits, seed, device, **of_phcbm), heads


def concept_maps_of(draw: Fit, maps: torch.Tensor) -> torch.Tensor:
    """Concept maps (N, L, H, W) of the test images, or those that a file of outputs brings.

    maps: (N, d, H, W), last feature maps of the frozen backbone.
    Raises ValueError for a file without maps.
    """
    if draw.model is None:
        if draw.outputs.concept_maps is None:
            raise ValueError("this file of outputs has no concept maps: bring them as its `concept_maps`")
        return draw.outputs.concept_maps
    columns = [draw.model.concepts.index(name) for name in draw.outputs.concepts]
    return local_values(draw.model, maps)[:, columns]


def local_values(model, maps: torch.Tensor) -> torch.Tensor:
    """Concept values (N, L, H, W) of every place of feature maps (N, d, H, W), on the maps' device.

    model: a bottleneck on pooled features, with `explain`. Of a post-hoc CBM the concept activation maps.
    Source: paper alignment, eq. 2.
    """
    if isinstance(model, PosthocCBM):
        return coam.concept_maps(maps, model.bank)
    places = rearrange(maps, "n d h w -> (n h w) d")
    values = torch.cat([model.explain(chunk).values for chunk in places.split(CHUNK)])  # (N H W, L)
    return rearrange(values, "(n h w) l -> n l h w", n=len(maps), h=maps.shape[2])
