"""The bottlenecks of the collection by name, fitted and cached: what one notebook trains, the next one reads.

A model lies in `outputs/` of the cache, under a hash of what it depends on: name, settings, seed, the data it
was trained on, the identity of the weights these came from, this package's source, and the versions of torch
and scikit-learn.
"""

import functools
import hashlib
import itertools
import json
import logging
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from xaihelpers import paths
from xaihelpers.bottlenecks import posthoc
from xaihelpers.bottlenecks.cbm import ConceptBottleneck, fit_cbm
from xaihelpers.bottlenecks.cem import ConceptEmbeddingModel, fit_cem
from xaihelpers.bottlenecks.concept_dataset import ConceptDataset, concept_truth, load_concept_dataset
from xaihelpers.bottlenecks.labelfree import LabelFreeCBM, fit_labelfree_cbm
from xaihelpers.bottlenecks.networks import write_state
from xaihelpers.datasets import Dataset
from xaihelpers.fingerprint import code_hash
from xaihelpers.models.networks import SHIPPED
from xaihelpers.outputs import ConceptOutputs, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_file
from xaihelpers.training import read_checkpoint

log = logging.getLogger(__name__)
LABEL_FREE = ("top_activation", "similarity", "penalty")  # settings of the label-free models


def _posthoc(dataset: ConceptDataset, residual=False, n=50, penalty=1e-3, seed=0, device="cpu", **settings):
    """`residual`: the hybrid form."""
    pooled, labels = dataset.pooled[dataset.train].to(device), dataset.labels[dataset.train].to(device)
    present = (dataset.present[dataset.train] >= 0.5).float().to(device)
    names, own = (dataset.concepts, dataset.classes), {"n": n, "penalty": penalty, "seed": seed}
    model, samples = posthoc.fit_posthoc_cbm(pooled, present, labels, *names, **own, **settings)
    dropped = {}
    for j, (positives, negatives) in samples.dropped.items():
        dropped[dataset.concepts[j]] = f"{positives} positive and {negatives} negative examples, {n} needed"
    if residual:
        model = posthoc.add_residual(model, pooled, labels, penalty)
    return model, dropped


def _posthoc_text(dataset: ConceptDataset, seed=0, device="cpu", **settings):
    """Nothing is drawn, so that the seed changes nothing."""
    concepts = dataset.concepts or dataset.phrases
    images, labels = dataset.image_embeddings[dataset.train], dataset.labels[dataset.train]
    seen = images.to(device), dataset.embed_texts(concepts), labels.to(device)
    return posthoc.posthoc_cbm_from_text(*seen, concepts, dataset.classes, **settings), {}


# of each model: its class, what fits it on a data set, and settings in place of the defaults
ONE_BY_ONE = {"kind": "independent", "per_concept": True, "hidden": 16, "epochs": 30}
RECIPES = {
    "cbm": (ConceptBottleneck, fit_cbm, {"kind": "joint"}),
    "cbm_independent": (ConceptBottleneck, fit_cbm, {"kind": "independent"}),
    "cbm_sequential": (ConceptBottleneck, fit_cbm, {"kind": "sequential"}),
    "cbm_per_concept": (ConceptBottleneck, fit_cbm, ONE_BY_ONE),
    "cem": (ConceptEmbeddingModel, fit_cem, {}),
    "lfcbm": (LabelFreeCBM, fit_labelfree_cbm, {}),
    "lfcbm_unsupervised": (LabelFreeCBM, fit_labelfree_cbm, {"named": True}),
    "phcbm": (posthoc.PosthocCBM, _posthoc, {}),
    "phcbm_text": (posthoc.PosthocCBM, _posthoc_text, {}),
    "phcbm_residual": (posthoc.PosthocCBM, _posthoc, {"residual": True}),
}
MODEL_NAMES = tuple(RECIPES)
FROM_CLIP = ("lfcbm", "lfcbm_unsupervised", "phcbm_text")  # the others learn from concept labels


@dataclass
class FittedModel:
    """A model of the zoo, and what it makes of the test images."""

    name: str
    model: object
    inputs: torch.Tensor  # of the test images, as `model.explain` takes them, on the model's device
    outputs: ConceptOutputs  # of the test images, in the order of `test_ids`, on the CPU
    dropped: dict[str, str]  # concepts left out, and why
    seconds: float  # that training took, whenever it was
    cached: bool


def fit_or_load(
    name: str, dataset: ConceptDataset, seed: int = 0, device: str | torch.device = "cpu", **settings
) -> FittedModel:
    """A model of the zoo by name, fitted on the data set or read from the cache; the log says which.

    name: one of `MODEL_NAMES`. device: where the model is fitted and stays.
    settings: arguments of the model's own fit function (epochs, penalty, …), in place of its defaults.

    Raises ValueError for an unknown name and where the data set lacks what the model learns from, TypeError
    for an unknown setting, and what the fit function raises. A cache that cannot be written is a warning.
    """
    if name not in RECIPES:
        raise ValueError(f"there is no model {name!r} in the zoo: choose among {', '.join(MODEL_NAMES)}")
    if name in FROM_CLIP and dataset.image_embeddings is None:
        raise ValueError(
            f"{dataset.data} comes without CLIP, which this model learns from: "
            "load_concept_dataset(clip=...) adds it"
        )
    if name not in FROM_CLIP and dataset.present is None:
        raise ValueError(
            f"{dataset.data} comes without concept labels, which this model learns from: choose models that "
            f"need none: {', '.join(FROM_CLIP)}"
        )
    kind, fit, own = RECIPES[name]
    settings = own | settings
    file = paths.cache_home() / "outputs" / f"{name}-{_key(name, dataset, seed, device, settings)}.pt"
    kept, checkpoints = read_checkpoint(file), file.with_suffix(".parts")
    if kept is None:
        start = time.perf_counter()
        if dataset.trunk is not None and fit in (fit_cbm, fit_cem):
            settings["checkpoints"] = checkpoints
        model, dropped = fit(dataset, seed=seed, device=device, **settings)
        seconds = time.perf_counter() - start
        _keep(file, model, {"dropped": dropped, "seconds": seconds})
        if file.exists():
            shutil.rmtree(checkpoints, ignore_errors=True)
    else:
        model = _read(kind, kept["model"], dataset, device)
        dropped, seconds = kept["dropped"], kept["seconds"]
    test = ~dataset.train
    if name == "phcbm_text":
        inputs = dataset.image_embeddings[test].to(device)
    elif getattr(model, "trunks", None):  # encoded once
        inputs = model.encode(dataset.pixels[test])
    else:
        inputs = dataset.pooled[test].to(device)
    outputs = model.explain(inputs, image_ids=dataset.test_ids).cpu()
    left_out = f", {len(dropped)} left out" if dropped else ""
    how = "read from the cache" if kept else "trained"
    log.info("%s: %s (%d concepts%s)", name, how, len(outputs.concepts), left_out)
    return FittedModel(name, model, inputs, outputs, dropped, seconds, cached=bool(kept))


def _keep(file: Path, model, about: dict) -> None:
    """Write a model, a dataclass of tensors, plain values and perhaps `trunks`, whole or not at all."""
    fields = dict(vars(model))
    if "trunks" in fields:
        fields["trunks"] = [trunk.state_dict() for trunk in model.trunks]
    try:
        write_state(file, about | {"model": fields})
    except OSError as error:
        message = "%s cannot be written (%s), the model is kept in memory only"
        log.warning(message, file, error.strerror or error)


def _read(kind: type, fields: dict, dataset: ConceptDataset, device):
    """The model of class `kind` on `device`."""
    for name, value in fields.items():
        if isinstance(value, torch.Tensor):
            fields[name] = value.to(device)
    if "trunks" in fields:
        trunks = []
        for state in fields["trunks"]:
            trunk = dataset.trunk().to(device)
            trunk.load_state_dict(state)
            trunks.append(trunk.eval().requires_grad_(False))
        fields["trunks"] = trunks
    return kind(**fields)


def _key(name, dataset, seed, device, settings) -> str:
    """A hash of all that a model depends on."""
    plain = [name, seed, torch.device(device).type, sorted(settings.items()), bool(dataset.trunk)]
    plain += [dataset.backbone_identity, dataset.classes, dataset.concepts, dataset.test_ids]
    plain += [version("torch"), version("scikit-learn"), code_of_fits()]
    tensors = [dataset.pooled, dataset.labels, dataset.train, dataset.present]
    if dataset.trunk:
        tensors.append(dataset.pixels)
    if name in FROM_CLIP:
        plain += [dataset.clip_identity, dataset.phrases]
        tensors.append(dataset.image_embeddings)
    digest = hashlib.sha256(json.dumps(plain, default=str).encode())
    for tensor in tensors:
        if tensor is not None:
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:20]


@functools.cache
def code_of_fits() -> str:
    """A hash of the code that trains: this package's, and that of the concept vectors."""
    here = Path(__file__).parent
    return code_hash([*here.glob("*.py"), here.parent / "kernels" / "linear_svm.py"])


def load_outputs(
    names: Iterable[str], *arguments, **settings
) -> tuple[ConceptDataset, dict[str, ConceptOutputs]]:
    """As `load_draws`, of a single draw: the data set, and the outputs of several models by name."""
    dataset, (outputs,) = load_draws(names, 1, *arguments, **settings)
    return dataset, outputs


def load_draws(
    names: Iterable[str],
    draws: int,
    seed: int = 0,
    device: str | torch.device = "cpu",
    label_free: Sequence[float] = (),
    need_labels: bool = False,
    foreign: bool = False,
    **dataset_settings,
) -> tuple[ConceptDataset, list[dict[str, ConceptOutputs]]]:
    """A data set of concepts, and for each of `draws` seeds the outputs of several models fitted with it.

    names: as of `zoo_outputs`; a model of one's own has no second fit and is the same in every draw.
    seed: of the draws, as of `seed_of`. device: where the networks run and models are fitted.
    label_free: top_activation, similarity and penalty of the label-free models; empty takes their defaults.
    need_labels: whether a data set without concept labels is an error, raised before any model is fitted.
    foreign: as of `check_shipped`.
    dataset_settings: arguments of `load_concept_dataset`. Where all names are files, neither the backbone nor
        the CLIP is needed, and none is loaded.

    Raises ValueError for a `label_free` of other than three numbers and for labels that are needed and
    missing, and as `check_shipped`, `load_concept_dataset` and `zoo_outputs` do.
    """
    if label_free and len(label_free) != len(LABEL_FREE):
        raise ValueError(f"label_free holds {', '.join(LABEL_FREE)}: 3 numbers, not {list(label_free)}")
    if draws < 1:
        raise ValueError(f"draws must be 1 or more, not {draws}")
    names = list(names)
    _require_other_names(names)
    if names and all(map(is_own, names)):
        dataset_settings |= {"backbone": "", "clip": ""}
    dataset = load_concept_dataset(**dataset_settings, device=device)
    teachers = (dataset_settings.get("backbone", SHIPPED), dataset_settings.get("clip", "aviary_clip"))
    check_shipped(dataset, teachers, foreign)
    if need_labels and dataset.truth is None:
        raise ValueError(f"{dataset.data} has no concept labels: which concepts are wrong is not known there")
    settings = dict(zip(LABEL_FREE, label_free, strict=False))
    own = zoo_outputs(filter(is_own, names), dataset)  # asked once, whatever the number of draws
    found = []
    for draw in range(draws):
        of_zoo = zoo_outputs(
            itertools.filterfalse(is_own, names), dataset, seed_of(seed, draw), device, **settings
        )
        found.append({Path(name).stem if is_own(name) else name: None for name in names} | own | of_zoo)
    return dataset, found


def seed_of(seed: int, draw: int) -> int:
    """The seed of one draw of a run; two runs with seeds that differ share none, up to 1,000 draws."""
    return 1000 * seed + draw


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


def zoo_outputs(
    names: Iterable[str],
    dataset: ConceptDataset,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **labelfree_settings,
) -> dict[str, ConceptOutputs]:
    """The outputs of several models for the data set's test images, by name.

    names: models of the zoo, or files, which are known by their stem: of outputs (.safetensors, written by
        `save_outputs`), whose rows are put into the order of the test images; or Python files with a function
        `outputs_of(images)`, which is asked about these (see `own_model`).
    labelfree_settings: of the label-free models alone.

    Raises ValueError for a file whose rows are of other images or without image ids, or whose classes are not
    the data set's by their names (where it has any), for two files of one stem, and as `fit_or_load`,
    `read_outputs` and `outputs_of_file` do.
    """
    outputs_of, names = {}, list(names)
    _require_other_names(names)
    for name in names:
        if is_own(name):
            outputs_of[Path(name).stem] = _own_outputs(name, dataset)
        else:
            settings = labelfree_settings if name.startswith("lf") else {}
            outputs_of[name] = fit_or_load(name, dataset, seed, device, **settings).outputs
    return outputs_of


def _require_other_names(names: list[str]) -> None:
    """Raise ValueError for a file that is called as another file or a model of the zoo is."""
    shown = [Path(name).stem if is_own(name) else name for name in names]
    for name, called in zip(names, shown, strict=True):
        if is_own(name) and shown.count(called) > 1:
            raise ValueError(f"two models are called {called}: rename one of the files")


def _own_outputs(name: str, dataset: ConceptDataset) -> ConceptOutputs:
    """The outputs of a file as of `is_own` for the data set's test images, on the CPU."""
    if is_python_file(name):
        files = dataset.images[~dataset.train.numpy()].path.tolist()
        outputs = outputs_of_file(name, files, dataset.test_ids)
    else:
        outputs = read_outputs(paths.find(name) or name)
    if dataset.classes:
        outputs = outputs.of_classes(dataset.classes, str(name))
    untold = concept_truth(dataset, outputs.concepts).isnan().all(0)
    if untold.any() and dataset.truth is not None:
        first = outputs.concepts[int(untold.int().argmax())]
        log.warning(
            "%s: %d of %d concepts are no attribute of %s, the first %r: left out of all that needs labels",
            *(name, untold.sum(), len(untold), dataset.data, first),
            extra={"note": True},
        )
    return outputs.align(dataset.test_ids, str(name))
