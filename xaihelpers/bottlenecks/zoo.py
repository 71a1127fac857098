"""The bottlenecks of the collection by name, fitted and cached: what one notebook trains, the next one reads.

A model and its outputs for the test split lie in `outputs/` of the cache, under a hash of what they depend
on: name, settings, seed, the data they were trained on, the identity of the weights these came from, this
package's source, and the versions of torch and scikit-learn.
"""

import functools
import hashlib
import inspect
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
from safetensors import SafetensorError

from xaihelpers import paths
from xaihelpers.bottlenecks.concept_dataset import ConceptDataset, concept_truth, load_concept_dataset
from xaihelpers.bottlenecks.model_files import read_model, save_model
from xaihelpers.bottlenecks.recipes import MODEL_NAMES, RECIPES
from xaihelpers.datasets import Dataset
from xaihelpers.fingerprint import code_hash
from xaihelpers.models.networks import SHIPPED
from xaihelpers.outputs import ConceptOutputs, read_outputs, save_outputs
from xaihelpers.own_model import is_python_file, outputs_of_file

log = logging.getLogger(__name__)
# what a model's file gives that is cut off or another's; torch's RuntimeError, as of a full GPU, is no damage
DAMAGE = (SafetensorError, OSError, ValueError, KeyError, TypeError)
LABEL_FREE = ("top_activation", "similarity", "penalty")  # settings of the label-free models


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
    recipe = RECIPES[name]
    settings = recipe.settings | settings
    key = _key(name, dataset, seed, device, _defaults(recipe.fit) | _defaults(recipe.make) | settings)
    file = paths.cache_home() / "outputs" / f"{name}-{key}.safetensors"
    cached = _read_cached(recipe.kind, file, device, dataset)
    if cached is None:
        start = time.perf_counter()
        kept = {}  # epochs and networks that are kept as they are done
        if "checkpoints" in inspect.signature(recipe.fit).parameters and dataset.trunk is not None:
            kept["checkpoints"] = file.with_suffix(".parts")
        model, dropped = recipe.make(dataset, seed, device, **settings, **kept)
        about = {"dropped": dropped, "seconds": time.perf_counter() - start}
        inputs = _test_inputs(name, dataset, model, device)
        outputs = model.explain(inputs, image_ids=dataset.test_ids).cpu()
        _keep(model, outputs, file, name, about)
        if kept and file.exists():
            shutil.rmtree(kept["checkpoints"], ignore_errors=True)
    else:
        model, outputs, about = cached
        inputs = _test_inputs(name, dataset, model, device)
    left_out = f", {len(about['dropped'])} left out" if about["dropped"] else ""
    how = "trained" if cached is None else "read from the cache"
    log.info("%s: %s (%d concepts%s)", name, how, len(outputs.concepts), left_out)
    return FittedModel(
        name, model, inputs, outputs, about["dropped"], about["seconds"], cached=cached is not None
    )


def load_outputs(
    names: Iterable[str],
    seed: int = 0,
    device: str | torch.device = "cpu",
    label_free: Sequence[float] = (),
    need_labels: bool = False,
    foreign: bool = False,
    **dataset_settings,
) -> tuple[ConceptDataset, dict[str, ConceptOutputs]]:
    """A data set of concepts, and the outputs of several models for its test images, by name.

    As `load_draws`, of a single draw.
    """
    dataset, (outputs,) = load_draws(
        names, 1, seed, device, label_free, need_labels, foreign, **dataset_settings
    )
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


def _test_inputs(name, dataset, model, device) -> torch.Tensor:
    """Test images as the model takes them; with a trained trunk they are encoded once."""
    test = ~dataset.train
    if name == "phcbm_text":
        return dataset.image_embeddings[test].to(device)
    if getattr(model, "trunks", None):
        return model.encode(dataset.pixels[test])
    return dataset.pooled[test].to(device)


def _read_cached(kind, file, device, dataset):
    """Model, outputs and what was kept with them, from the cache; None where they are missing or damaged.

    A damaged file is set aside; both are then made again.
    """
    outputs_file = file.with_suffix(".outputs")
    if not (file.exists() and outputs_file.exists()):
        return None
    try:
        outputs = read_outputs(outputs_file, trusted=True)
    except ValueError as error:
        paths.set_aside(outputs_file, error)
        return None
    try:
        model, about = read_model(kind, file, device, dataset.trunk)
    except DAMAGE as error:
        paths.set_aside(file, error)
        return None
    return model, outputs, about


def _keep(model, outputs, file, name, about) -> None:
    try:
        save_outputs(outputs, file.with_suffix(".outputs"))
        save_model(model, file, **about)
    except OSError as error:
        log.warning(
            "%s: the cache %s cannot be written (%s), the model is kept in memory only",
            name,
            file.parent,
            error.strerror or error,
        )


def _key(name, dataset, seed, device, settings) -> str:
    """A hash of all that a model depends on."""
    uses_clip = name.startswith("lfcbm") or name == "phcbm_text"
    plain = [
        name,
        seed,
        torch.device(device).type,
        sorted(settings.items()),
        dataset.backbone_identity,
        dataset.clip_identity if uses_clip else "",
        dataset.classes,
        dataset.concepts,
        dataset.phrases if uses_clip else [],
        dataset.test_ids,
        bool(dataset.trunk),
        [version("torch"), version("scikit-learn")],
    ]
    digest = hashlib.sha256(json.dumps(plain, default=str).encode() + _source())
    tensors = [
        dataset.pooled,
        dataset.labels,
        dataset.train,
        dataset.present,
        dataset.pixels if dataset.trunk else None,
        dataset.image_embeddings if uses_clip else None,
    ]
    for tensor in tensors:
        if tensor is not None:
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:20]


def _defaults(function) -> dict:
    """Settings of a function and their defaults, so that naming a default gives the same key."""
    defaults = {}
    for name, parameter in inspect.signature(function).parameters.items():
        where = ("seed", "device", "trunk", "checkpoints")
        if parameter.default is not parameter.empty and name not in where:
            defaults[name] = parameter.default
    return defaults


@functools.cache
def _source() -> bytes:
    """A hash of the code that trains: this package's, and that of the concept vectors."""
    here = Path(__file__).parent
    return code_hash([*here.glob("*.py"), here.parent / "kernels" / "linear_svm.py"]).encode()
