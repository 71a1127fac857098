"""The bottlenecks of the collection by name, trained on one task, and remembered: what one notebook has trained, the next one reads.

A model and its outputs for the test split lie in `outputs/` of the cache, under a hash of everything they depend on: name, settings, seed, the data they were
trained on, the identity of the weights these came from, and this package's source.
"""
import functools
import hashlib
import inspect
import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from .. import paths
from . import cbm, cem, labelfree, posthoc
from .files import read_model, save_model
from .outputs import TENSORS, ConceptOutputs, read_outputs, save_outputs
from .tasks import Task, load_task, truth_of

__all__ = ["NAMES", "Task", "Trained", "load_task", "outputs_of", "trained", "truth_of"]


@dataclass
class Trained:
    """A model of the suite, and what it makes of the task's test images."""

    name: str
    model: object
    inputs: torch.Tensor  # of the test images, as `model.explain` takes them
    outputs: ConceptOutputs  # of the test images, row by row those of task.images[~task.images.train]
    dropped: dict[str, str]  # concepts left out, and why
    seconds: float  # that training took, whenever it was
    cached: bool


def _supervised(fit, task: Task, seed, device, **settings):
    """CBMs and CEM: from pixels where the task has them, else from frozen features."""
    need(task.present, "concept labels", task)
    inputs = task.pooled if task.pixels is None else task.pixels
    trunk = None if task.trunk is None else task.trunk()
    examples = (part[task.train] for part in (inputs, task.present, task.labels))
    return fit(*examples, task.concepts, task.classes, seed=seed, trunk=trunk, device=device, **settings), {}


def _posthoc(task: Task, seed, device, residual=False, n=50, penalty=1e-3, **settings):
    need(task.present, "concept labels", task)
    pooled, labels = task.pooled[task.train].to(device), task.labels[task.train].to(device)
    present = (task.present[task.train] >= 0.5).float()
    model, samples = posthoc.fit_posthoc_cbm(pooled, present, labels, task.concepts, task.classes, n=n, penalty=penalty, seed=seed, **settings)
    dropped = {task.concepts[j]: f"{few} positive and {many} negative examples, {n} needed" for j, (few, many) in samples.dropped.items()}
    return posthoc.add_residual(model, pooled, labels, penalty) if residual else model, dropped


def _posthoc_text(task: Task, seed, device, **settings):
    need(task.image_embeddings, "CLIP", task)
    concepts = task.concepts or task.phrases
    images, labels = task.image_embeddings[task.train].to(device), task.labels[task.train].to(device)
    return posthoc.posthoc_cbm_from_text(images, task.embed_texts(concepts), labels, concepts, task.classes, **settings), {}


def _labelfree(task: Task, seed, device, own=False, max_length=30, class_cutoff=0.85, other_cutoff=0.9, **settings):
    need(task.image_embeddings, "CLIP", task)
    concepts = task.phrases if own or not task.concepts else task.concepts
    if own:  # a concept set by name is filtered; annotated concepts are taken as they are
        concepts, dropped = labelfree.filter_concepts(concepts, task.classes, task.embed_texts, max_length, class_cutoff, other_cutoff)
    else:
        dropped = {}
    pooled, images, labels = (part[task.train] for part in (task.pooled, task.image_embeddings, task.labels))
    model, unseen = labelfree.fit_labelfree_cbm(pooled, images, task.embed_texts(concepts), labels, concepts, task.classes, seed=seed, device=device,
                                                **settings)
    return model, dropped | unseen


_CBM, _CEM = functools.partial(_supervised, cbm.fit_cbm), functools.partial(_supervised, cem.fit_cem)
MAKERS = {  # name: (class, maker, the function that fits, settings of this name)
    "cbm": (cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "joint"}),
    "cbm_independent": (cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "independent"}),
    "cbm_sequential": (cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "sequential"}),
    "cbm_per_concept": (cbm.ConceptBottleneck, _CBM, cbm.fit_cbm, {"kind": "independent", "per_concept": True, "hidden": 16, "epochs": 30}),
    "cem": (cem.ConceptEmbeddingModel, _CEM, cem.fit_cem, {}),
    "lfcbm": (labelfree.LabelFreeCBM, _labelfree, labelfree.fit_labelfree_cbm, {}),
    "lfcbm_unsupervised": (labelfree.LabelFreeCBM, _labelfree, labelfree.fit_labelfree_cbm, {"own": True}),
    "phcbm": (posthoc.PosthocCBM, _posthoc, posthoc.fit_posthoc_cbm, {}),
    "phcbm_text": (posthoc.PosthocCBM, _posthoc_text, posthoc.posthoc_cbm_from_text, {}),
    "phcbm_residual": (posthoc.PosthocCBM, _posthoc, posthoc.fit_posthoc_cbm, {"residual": True}),
}
NAMES = tuple(MAKERS)


def trained(name: str, task: Task, seed: int = 0, device: str | torch.device = "cpu", **settings) -> Trained:
    """A model of the suite by name, trained on the task or read from the cache, and says which.

    `settings`: arguments of the model's own fit function (epochs, penalty, ...), in place of its defaults. Raises ValueError for an unknown name, TypeError
    for an unknown setting, and what the model raises; ValueError also where the task lacks what the model learns from.
    """
    if name not in MAKERS:
        raise ValueError(f"there is no model {name!r} in the suite: choose among {', '.join(NAMES)}")
    kind, make, fit, fixed = MAKERS[name]
    settings = fixed | settings
    file = paths.cache_home() / "outputs" / f"{name}-{_key(name, task, seed, device, _defaults(fit) | _defaults(make) | settings)}.safetensors"
    model = outputs = None
    if file.exists():
        try:
            model, about = read_model(kind, file, device, task.trunk)
            outputs = read_outputs(file.with_suffix(".outputs"))
        except Exception as error:
            print(f"{name}: damaged cache file {file.name} is not used ({error})")
            model = outputs = None
    cached = outputs is not None
    if not cached:
        start = time.perf_counter()
        model, dropped = make(task, seed, device, **settings)
        about = {"dropped": dropped, "seconds": time.perf_counter() - start}
    inputs = _test_inputs(name, task, model, device)
    if not cached:
        outputs = on_cpu(model.explain(inputs))
        try:
            save_outputs(outputs, file.with_suffix(".outputs"))
            save_model(model, file, **about)
        except OSError as error:
            print(f"{name}: the cache {file.parent} cannot be written ({error.strerror or error}), the model is kept in memory only")
    left_out = f", {len(about['dropped'])} left out" if about["dropped"] else ""
    print(f"{name}: {'read from the cache' if cached else 'trained'} ({len(outputs.concepts)} concepts{left_out})")
    return Trained(name, model, inputs, outputs, about["dropped"], about["seconds"], cached)


def outputs_of(names, task: Task, seed: int = 0, device: str | torch.device = "cpu", **label_free) -> dict[str, ConceptOutputs]:
    """The outputs of several models for the task's test images, by name: those of the suite, `label_free` being the settings of its label-free ones, and
    any other from a file that `save_outputs` wrote, named as the file.

    Raises ValueError for a file whose rows are not the task's test images, or whose classes are not the task's.
    """
    found = {}
    for name in names:
        if Path(name).suffix == ".safetensors":
            outputs = read_outputs(Path(name).expanduser())
            if len(outputs.values) != int((~task.train).sum()) or len(outputs.classes) != len(task.classes):
                raise ValueError(f"{name} holds {len(outputs.values)} images and {len(outputs.classes)} classes, {task.data} has {int((~task.train).sum())} test images and {len(task.classes)}")
            found[Path(name).stem] = outputs
        else:
            found[name] = trained(name, task, seed, device, **(label_free if name.startswith("lf") else {})).outputs
    return found


def on_cpu(outputs: ConceptOutputs) -> ConceptOutputs:
    """The same outputs, with tensors on the CPU."""
    tensors = {name: getattr(outputs, name) for name in TENSORS}
    tensors = {name: None if tensor is None else tensor.detach().cpu() for name, tensor in tensors.items()}
    return ConceptOutputs(**tensors, concepts=outputs.concepts, classes=outputs.classes)


def need(what, name: str, task: Task) -> None:
    """Raises ValueError where the task lacks something, saying how to get it."""
    if what is None:
        remedy = "load_task(clip=...) adds it" if name == "CLIP" else "choose models that need none: lfcbm, lfcbm_unsupervised, phcbm_text"
        raise ValueError(f"{task.data} comes without {name}, which this model learns from: {remedy}")


def _test_inputs(name, task, model, device) -> torch.Tensor:
    """Test images as the model takes them; those of a trained trunk are encoded once."""
    if name == "phcbm_text":
        return task.image_embeddings[~task.train].to(device)
    if getattr(model, "trunks", None):
        return model.encode(task.pixels[~task.train])
    return task.pooled[~task.train].to(device)


def _key(name, task, seed, device, settings) -> str:
    uses_clip = name.startswith("lfcbm") or name == "phcbm_text"
    identity = task.identity if uses_clip else task.identity.split(" | ")[0]
    what = [name, seed, torch.device(device).type, sorted(settings.items()), identity, task.classes, task.concepts, bool(task.trunk)]
    what += [task.phrases] if uses_clip else []
    digest = hashlib.sha256(json.dumps(what, default=str).encode() + _source())
    used = [task.pooled, task.labels, task.train, task.present, task.pixels if task.trunk else None, task.image_embeddings if uses_clip else None]
    for tensor in used:
        if tensor is not None:
            digest.update(str(tuple(tensor.shape)).encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:20]


def _defaults(function) -> dict:
    """Settings of a function and their defaults, so that one said aloud is no other setting."""
    parameters = inspect.signature(function).parameters.items()
    return {name: given.default for name, given in parameters if given.default is not given.empty and name not in ("seed", "device", "trunk")}


@functools.cache
def _source() -> bytes:
    """A hash of the code that trains: this package's, and that of the concept vectors."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parents[1] / "kernels" / "cavs.py"]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).digest()
