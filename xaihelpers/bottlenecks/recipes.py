"""How each bottleneck of the zoo is fitted on a data set of concepts."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from xaihelpers.bottlenecks import cbm, cem, labelfree, posthoc
from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.bottlenecks.concept_filter import filter_concepts


def _require(what, name: str, dataset: ConceptDataset) -> None:
    """Raise ValueError, saying how to get it, if `what`, from which a model learns, is None."""
    if what is not None:
        return
    remedy = "choose models that need none: lfcbm, lfcbm_unsupervised, phcbm_text"
    if name == "CLIP":
        remedy = "load_concept_dataset(clip=...) adds it"
    raise ValueError(f"{dataset.data} comes without {name}, which this model learns from: {remedy}")


def _fit_supervised(fit, dataset: ConceptDataset, seed, device, **settings):
    """CBMs and the CEM model: from pixels where the data set has them, else from frozen features."""
    _require(dataset.present, "concept labels", dataset)
    inputs = dataset.pooled if dataset.pixels is None else dataset.pixels
    model = fit(
        inputs[dataset.train],
        dataset.present[dataset.train],
        dataset.labels[dataset.train],
        dataset.concepts,
        dataset.classes,
        seed=seed,
        trunk=None if dataset.trunk is None else dataset.trunk(),
        device=device,
        **settings,
    )
    return model, {}


def _fit_posthoc(dataset: ConceptDataset, seed, device, residual=False, n=50, penalty=1e-3, **settings):
    _require(dataset.present, "concept labels", dataset)
    pooled = dataset.pooled[dataset.train].to(device)
    labels = dataset.labels[dataset.train].to(device)
    present = (dataset.present[dataset.train] >= 0.5).float().to(device)
    model, samples = posthoc.fit_posthoc_cbm(
        pooled,
        present,
        labels,
        dataset.concepts,
        dataset.classes,
        n=n,
        penalty=penalty,
        seed=seed,
        **settings,
    )
    dropped = {}
    for j, (positives, negatives) in samples.dropped.items():
        dropped[dataset.concepts[j]] = f"{positives} positive and {negatives} negative examples, {n} needed"
    if residual:
        model = posthoc.add_residual(model, pooled, labels, penalty)
    return model, dropped


def _fit_posthoc_text(dataset: ConceptDataset, seed, device, **settings):
    _require(dataset.image_embeddings, "CLIP", dataset)
    concepts = dataset.concepts or dataset.phrases
    images = dataset.image_embeddings[dataset.train].to(device)
    labels = dataset.labels[dataset.train].to(device)
    texts = dataset.embed_texts(concepts)
    return posthoc.posthoc_cbm_from_text(images, texts, labels, concepts, dataset.classes, **settings), {}


def _fit_labelfree(
    dataset: ConceptDataset,
    seed,
    device,
    named=False,
    max_length=30,
    class_cutoff=0.85,
    other_cutoff=0.9,
    **settings,
):
    """`named`: the concepts by name only, filtered; else the annotated ones, taken as they are."""
    _require(dataset.image_embeddings, "CLIP", dataset)
    concepts, dropped = dataset.concepts, {}
    if named or not dataset.concepts:
        concepts = dataset.phrases
    if named:
        concepts, dropped = filter_concepts(
            concepts, dataset.classes, dataset.embed_texts, max_length, class_cutoff, other_cutoff
        )
    model, unseen = labelfree.fit_labelfree_cbm(
        dataset.pooled[dataset.train],
        dataset.image_embeddings[dataset.train],
        dataset.embed_texts(concepts),
        dataset.labels[dataset.train],
        concepts,
        dataset.classes,
        seed=seed,
        device=device,
        **settings,
    )
    return model, dropped | unseen


class Recipe(NamedTuple):
    """How a model of the zoo is made."""

    kind: type  # of the model
    make: Callable  # (dataset, seed, device, **settings) -> model, {dropped concept: reason}
    fit: Callable  # the function that fits, whose defaults are the settings'
    settings: dict  # of this name, in place of the defaults


_CBM = functools.partial(_fit_supervised, cbm.fit_cbm)
_CEM = functools.partial(_fit_supervised, cem.fit_cem)
_ONE_BY_ONE = {"kind": "independent", "per_concept": True, "hidden": 16, "epochs": 30}
RECIPES = {
    "cbm": Recipe(cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "joint"}),
    "cbm_independent": Recipe(cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "independent"}),
    "cbm_sequential": Recipe(cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "sequential"}),
    "cbm_per_concept": Recipe(cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, _ONE_BY_ONE),
    "cem": Recipe(cem.ConceptEmbeddingModel, _CEM, cem.fit_cem, {}),
    "lfcbm": Recipe(labelfree.LabelFreeCBM, _fit_labelfree, labelfree.fit_labelfree_cbm, {}),
    "lfcbm_unsupervised": Recipe(
        labelfree.LabelFreeCBM, _fit_labelfree, labelfree.fit_labelfree_cbm, {"named": True}
    ),
    "phcbm": Recipe(posthoc.PosthocCBM, _fit_posthoc, posthoc.fit_posthoc_cbm, {}),
    "phcbm_text": Recipe(posthoc.PosthocCBM, _fit_posthoc_text, posthoc.posthoc_cbm_from_text, {}),
    "phcbm_residual": Recipe(posthoc.PosthocCBM, _fit_posthoc, posthoc.fit_posthoc_cbm, {"residual": True}),
}
MODEL_NAMES = tuple(RECIPES)
