"""The bottlenecks of the collection by name, fitted and cached: what one notebook trains, the next one reads.

A model lies in `outputs/` of the cache, under a hash of what it depends on: `VERSION`, name, settings, seed,
the data it was trained on, the identity of the weights these came from, and the versions of torch and
scikit-learn.
"""

import logging
import shutil
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import joblib
import torch

from xaihelpers import paths
from xaihelpers.bottlenecks.cbm import ConceptBottleneck, fit_cbm
from xaihelpers.bottlenecks.cem import ConceptEmbeddingModel, fit_cem
from xaihelpers.bottlenecks.concept_dataset import ConceptDataset, concept_truth, load_concept_dataset
from xaihelpers.bottlenecks.head import LinearBottleneck
from xaihelpers.bottlenecks.labelfree import fit_labelfree_cbm
from xaihelpers.bottlenecks.posthoc import PosthocCBM, fit_posthoc_cbm
from xaihelpers.datasets import Dataset
from xaihelpers.models.networks import SHIPPED
from xaihelpers.outputs import ConceptOutputs, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_data
from xaihelpers.training import read_checkpoint, save_checkpoint

log = logging.getLogger(__name__)
VERSION = 1  # of fitted models: raise it when a fit, kernels/linear_svm included, gives other values
LABEL_FREE = ("top_activation", "similarity", "penalty")  # settings of the label-free models
# of each model: its class, what fits it on a data set, and settings in place of the defaults
ONE_BY_ONE = {"kind": "independent", "per_concept": True, "hidden": 16, "epochs": 30}
RECIPES = {
    "cbm": (ConceptBottleneck, fit_cbm, {"kind": "joint"}),
    "cbm_independent": (ConceptBottleneck, fit_cbm, {"kind": "independent"}),
    "cbm_sequential": (ConceptBottleneck, fit_cbm, {"kind": "sequential"}),
    "cbm_per_concept": (ConceptBottleneck, fit_cbm, ONE_BY_ONE),
    "cem": (ConceptEmbeddingModel, fit_cem, {}),
    "lfcbm": (LinearBottleneck, fit_labelfree_cbm, {}),
    "lfcbm_unsupervised": (LinearBottleneck, fit_labelfree_cbm, {"named": True}),
    "phcbm": (PosthocCBM, fit_posthoc_cbm, {}),
    "phcbm_text": (PosthocCBM, fit_posthoc_cbm, {"from_text": True}),
}
FROM_CLIP = ("lfcbm", "lfcbm_unsupervised", "phcbm_text")  # the others learn from concept labels


class FittedModel(NamedTuple):
    """A model of the zoo, and what it makes of the test images."""

    name: str
    model: object
    inputs: torch.Tensor  # of the test images, as `model.explain` takes them, on the model's device
    outputs: ConceptOutputs  # of the test images, in the order of `test_ids`, on the CPU


def fit_or_load(
    name: str, dataset: ConceptDataset, seed: int = 0, device: str | torch.device = "cpu", **settings
) -> FittedModel:
    """A model of the zoo by name, fitted on the data set or read from the cache; the log says which.

    name: one of `RECIPES`. device: where the model is fitted and stays.
    settings: arguments of the model's own fit function (epochs, penalty, …), in place of its defaults.

    Raises ValueError for an unknown name and where the data set lacks what the model learns from, TypeError
    for an unknown setting, and what the fit function raises. A cache that cannot be written is a warning.
    """
    if name not in RECIPES:
        raise ValueError(f"there is no model {name!r} in the zoo: choose among {', '.join(RECIPES)}")
    if (dataset.image_embeddings if name in FROM_CLIP else dataset.present) is None:
        remedy = f"choose models that need none: {', '.join(FROM_CLIP)}"
        lacks, remedy = ("CLIP", "name one") if name in FROM_CLIP else ("concept labels", remedy)
        raise ValueError(f"{dataset.name} comes without {lacks}, which {name} learns from: {remedy}")
    labels, n_classes = dataset.labels[dataset.train], len(dataset.classes)
    if not len(labels) or labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(
            f"{dataset.name} has {len(labels)} training images and {n_classes} classes, and not every image "
            "is of one of these: a bottleneck learns from images whose classes are known"
        )
    kind, fit, own = RECIPES[name]
    settings = own | settings
    file = paths.cache_home() / "outputs" / f"{name}-{_key(name, dataset, seed, device, settings)}.pt"
    kept, checkpoints = read_checkpoint(file), file.with_suffix(".parts")
    if kept:
        model = _read(kind, kept, dataset, device)
    else:
        if dataset.trunk is not None and fit in (fit_cbm, fit_cem):
            settings["checkpoints"] = checkpoints
        model = fit(dataset, seed=seed, device=device, **settings)
        fields = dict(vars(model))
        if "trunks" in fields:
            fields["trunks"] = [trunk.state_dict() for trunk in model.trunks]
        try:
            save_checkpoint(fields, file)
            shutil.rmtree(checkpoints, ignore_errors=True)
        except OSError as error:
            log.warning("%s cannot be written (%s), the model is kept in memory only", file, error.strerror)
    test = ~dataset.train
    if name == "phcbm_text":
        inputs = dataset.image_embeddings[test].to(device)
    elif getattr(model, "trunks", None):  # encoded once
        inputs = model.encode(dataset.pixels[test])
    else:
        inputs = dataset.pooled[test].to(device)
    outputs = model.explain(inputs, image_ids=dataset.test_ids).cpu()
    given = dataset.phrases if name == "lfcbm_unsupervised" else dataset.concepts or dataset.phrases
    how = "read from the cache" if kept else "trained"
    log.info("%s: %s (%d of %d concepts)", name, how, len(outputs.concepts), len(given))
    return FittedModel(name, model, inputs, outputs)


def _read(kind: type, fields: dict, dataset: ConceptDataset, device):
    """The model of class `kind` on `device`."""
    for name, value in fields.items():
        if isinstance(value, torch.Tensor):
            fields[name] = value.to(device)
    for number, state in enumerate(fields.get("trunks", [])):
        trunk = dataset.trunk().to(device)
        trunk.load_state_dict(state)
        fields["trunks"][number] = trunk.eval().requires_grad_(False)
    return kind(**fields)


def _key(name, dataset, seed, device, settings) -> str:
    """A hash of all that a model depends on."""
    parts = [VERSION, name, seed, torch.device(device).type, sorted(settings.items()), bool(dataset.trunk)]
    parts += [dataset.backbone_identity, dataset.classes, dataset.concepts, dataset.test_ids]
    parts += [version("torch"), version("scikit-learn"), list(RECIPES[name][0].__dataclass_fields__)]
    parts += [dataset.pooled, dataset.labels, dataset.train, dataset.present]
    if dataset.trunk:
        parts.append(dataset.pixels)
    if name in FROM_CLIP:
        parts += [dataset.clip.identity, dataset.phrases, dataset.image_embeddings]
    return joblib.hash([part.numpy() if isinstance(part, torch.Tensor) else part for part in parts])


def load_fits(
    names: Iterable[str],
    n_fits: int,
    seed: int = 0,
    device: str | torch.device = "cpu",
    label_free: Sequence[float] = (),
    need_labels: bool = False,
    foreign: bool = False,
    **dataset_settings,
) -> tuple[ConceptDataset, list[dict[str, ConceptOutputs]]]:
    """A data set of concepts, and for each of `n_fits` seeds the outputs of several models fitted with it.

    names: models of the zoo, or files as of `own_outputs`, which are the same in every fit.
    label_free: top_activation, similarity and penalty of the label-free models; empty takes their defaults.
    need_labels: whether a data set without concept labels is an error, raised before any model is fitted.
    foreign: as of `check_shipped`.
    dataset_settings: of `load_concept_dataset`. Where all names are files, no network is loaded.

    Raises ValueError for another number of `label_free`, for labels that are needed and missing, and as
    `check_shipped`, `load_concept_dataset`, `own_outputs` and `fit_or_load` do.
    """
    if label_free and len(label_free) != len(LABEL_FREE):
        raise ValueError(f"label_free holds {', '.join(LABEL_FREE)}: 3 numbers, not {list(label_free)}")
    if n_fits < 1:
        raise ValueError(f"n_fits must be 1 or more, not {n_fits}")
    names = list(names)
    if names and all(map(is_own, names)):
        dataset_settings |= {"backbone": "", "clip": ""}
    dataset = load_concept_dataset(**dataset_settings, device=device)
    teachers = (dataset_settings.get("backbone", SHIPPED), dataset_settings.get("clip", "aviary_clip"))
    check_shipped(dataset, teachers, foreign)
    if need_labels and dataset.truth is None:
        raise ValueError(f"{dataset.name} has no concept labels: which concepts are wrong is not known there")
    settings = dict(zip(LABEL_FREE, label_free, strict=False))
    own = own_outputs(names, dataset)  # asked once, whatever the number of fits
    found = []
    for number in range(n_fits):
        outputs = {}
        for name in names:
            how = settings if name.startswith("lf") else {}
            if is_own(name):
                outputs[Path(name).stem] = own[Path(name).stem]
            else:
                outputs[name] = fit_or_load(name, dataset, seed_of(seed, number), device, **how).outputs
        found.append(outputs)
    return dataset, found


def seed_of(seed: int, number: int) -> int:
    """The seed of one fit of a run; two runs with seeds that differ share none, up to 1,000 fits."""
    return 1000 * seed + number


def is_own(name: str) -> bool:
    """Whether a name is that of a file: of outputs (.safetensors), or with a function for them (.py)."""
    return Path(name).suffix in (".safetensors", ".py")


def check_shipped(dataset: ConceptDataset | Dataset, networks: Iterable[str], foreign: bool = False) -> None:
    """Refuse what was trained on drawn birds alone where other images are to be judged, unless asked for.

    networks: names of backbones and CLIPs. foreign: whether it is asked for.
    Raises ValueError naming the networks.
    """
    shipped = [name for name in networks if name.startswith("aviary_")]
    if shipped and not dataset.drawn and not foreign:
        raise ValueError(
            f"{', '.join(shipped)} learnt from drawn birds alone, and {dataset.name} is no drawn world: name "
            "networks that know such images, or set foreign to true to see what these make of them"
        )


def own_outputs(names: Iterable[str], dataset: ConceptDataset) -> dict[str, ConceptOutputs]:
    """The outputs in files of one's own for the data set's test images, on the CPU, by the files' stems.

    names: of models; those of the zoo are passed over. A file of outputs (.safetensors), whose rows are put
        into the order of the test images, or a Python file (see `own_model`), which is asked about these.

    The log counts concepts that no annotation tells. Raises ValueError for a file that is called as another
    model, and as `read_outputs`, `outputs_of_data`, `ConceptOutputs.of_classes` and `align` do.
    """
    names, found = set(names), {}
    called = [Path(name).stem if is_own(name) else name for name in names]
    for name in filter(is_own, sorted(names)):
        if called.count(Path(name).stem) > 1:
            raise ValueError(f"two models are called {Path(name).stem}: rename one of the files")
        outputs = outputs_of_data(name, dataset) if is_python_file(name) else read_outputs(name)
        if dataset.classes:
            outputs = outputs.of_classes(dataset.classes, name)
        untold = concept_truth(dataset, outputs.concepts).isnan().all(0)
        if untold.any() and dataset.truth is not None:
            log.warning(
                "%s: %d of %d concepts are no attribute of %s, the first %r: left out of all that needs "
                "labels",
                *(name, untold.sum(), len(untold), dataset.name, outputs.concepts[untold.int().argmax()]),
                extra={"note": True},
            )
        found[Path(name).stem] = outputs.align(dataset.test_ids, name)
    return found
