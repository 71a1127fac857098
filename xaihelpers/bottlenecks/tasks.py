"""What bottlenecks are trained on and asked about: images, features, classes, and concepts, with labels of people or only by name."""
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from ..birds import class_name
from .outputs import check_names


@dataclass(eq=False, repr=False)
class Task:
    """N images of K classes; row n of every tensor is row n of `images`.

    `concepts`: the L annotated concepts, none where nobody annotated. `present` (N, L) in [0, 1]: the labels that models are trained on; `truth` (N, L) of 0
    and 1: those that they are judged by. `phrases`: a concept set by name only, with `phrase_truth` (N, L') where the annotations happen to tell it.
    `identity`: weights that `pooled` and `image_embeddings` come from. `pixels` and `trunk`: for training end to end, else None.
    """

    data: str
    images: pd.DataFrame  # path, label, train
    classes: list[str]
    labels: torch.Tensor  # (N,) int64
    train: torch.Tensor  # (N,) bool
    pooled: torch.Tensor  # (N, d), of a frozen backbone
    identity: str
    concepts: list[str]
    present: torch.Tensor | None
    truth: torch.Tensor | None
    phrases: list[str]
    phrase_truth: torch.Tensor | None
    clip: Any = None
    image_embeddings: torch.Tensor | None = None  # (N, e) unit rows
    embed_texts: Callable[[list[str]], torch.Tensor] | None = None  # texts -> (n, e) unit rows
    pixels: torch.Tensor | None = None  # (N, 3, H, W) uint8
    trunk: Callable[[], nn.Module] | None = None  # makes a network pixels -> (B, d), the same at every call

    def __repr__(self) -> str:
        return (f"Task({self.data}: {len(self.images):,} images, {int(self.train.sum()):,} of them for training, {len(self.classes)} classes, "
                f"{len(self.concepts)} annotated concepts, {len(self.phrases)} phrases)")


def load_task(data: str = "aviary", labels: str = "image", label_kind: str = "hard", backbone: str = "aviary_resnet", weights: str = "", layer: str = "",
              clip: str = "aviary_clip", clip_weights: str = "", long: bool = False, concept_file: str = "", finetune: bool = False,
              device: str | torch.device = "cpu") -> Task:
    """The task of a data set: birds in CUB-200-2011's format with CUB's 112 concepts, or objects (a name that `objects.load_objects` takes, a folder by split and class) without.

    `labels`: concept labels of each image ("image") or of its class ("class"); `label_kind`: "hard" or "soft" ones for training (judged by the hard ones).
    `clip`: "" leaves CLIP out. `concept_file`: a text file with one concept a line takes the place of the phrases that are made of CUB's 312 attributes;
    objects need one. `finetune`: read all pixels too, for models that train the backbone. Raises BirdsError, ObjectsError, BackboneError, ClipError,
    ValueError as their parts do.
    """
    from .. import backbones

    world = _world(data, labels)
    network = backbones.load_backbone(backbone, weights, layer, device)
    parts = {"concepts": [], "present": None, "truth": None, "phrases": [], "phrase_truth": None, "identity": network.identity}
    if hasattr(world, "attributes"):
        parts |= _annotations(world, labels, label_kind)
    if concept_file:
        parts |= {"phrases": read_concepts(concept_file), "phrase_truth": None}
    if clip:
        from ..clip import embed_images, embed_texts, load_clip

        model = load_clip(clip, clip_weights, long, device)
        parts |= {"clip": model, "image_embeddings": embed_images(model, world.images.path), "embed_texts": lambda texts: embed_texts(model, texts).rows,
                  "identity": f"{network.identity} | {model.identity}"}
    if finetune:
        parts |= {"pixels": backbones.read_pixels(network, world.images.path), "trunk": lambda: Trunk(backbones.load_backbone(backbone, weights, layer))}
    return Task(data=world.root.name, images=world.images, classes=[class_name(name) for name in world.classes.name], labels=world.labels,
                train=torch.tensor(world.images.train.to_numpy()), pooled=backbones.embed(network, world.images.path, maps=False).pooled, **parts)


def read_concepts(file: str | Path) -> list[str]:
    """The concepts of a text file, a path or a name under XAI_DATA, one a line, blank lines aside.

    Raises ValueError naming the file for none at all and for a name that stands twice.
    """
    from ..paths import data_home

    try:
        place = next((place for place in (data_home() / file, Path(file).expanduser()) if place.is_file()), Path(file))
        lines = [line.strip() for line in place.read_text(encoding="utf-8").splitlines()]
        names = [line for line in lines if line]
        check_names(names)
    except (OSError, ValueError) as error:
        raise ValueError(f"concept file {file}: {getattr(error, 'strerror', None) or error}") from error
    return names


def truth_of(task: Task, concepts: list[str]) -> torch.Tensor:
    """Hard labels (N, n) of concepts by name, annotated ones or phrases, NaN in the column of a concept that no annotation tells."""
    columns = dict(zip(task.phrases, task.phrase_truth.T, strict=True)) if task.phrase_truth is not None else {}
    if task.truth is not None:
        columns |= dict(zip(task.concepts, task.truth.T, strict=True))
    unknown = torch.full((len(task.images),), torch.nan)
    return torch.stack([columns.get(name, unknown) for name in concepts], 1)


class Trunk(nn.Module):
    """A backbone as a trainable network: pixels (B, 3, crop, crop) uint8 -> pooled features (B, d)."""

    def __init__(self, backbone):
        super().__init__()
        self.model, self.backbone = backbone.model, backbone

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        from ..backbones import feature_maps

        return feature_maps(self.backbone, self.backbone.normalised(pixels))[0].mean((2, 3))


def _world(data: str, labels: str):
    from .. import birds, objects, paths

    root = None if data == "aviary" else next((folder for folder in (paths.data_home() / data, Path(data).expanduser()) if folder.is_dir()), None)
    is_objects = objects.known_name(data) in objects.NAMES[2:] or (root is not None and (root / "train").is_dir() and (root / "test").is_dir())
    return objects.load_objects(data) if is_objects else birds.load_birds(data, attributes=labels)


def _annotations(world, labels: str, label_kind: str) -> dict:
    """CUB's 112 concepts and all attributes as phrases, with their labels."""
    from .. import birds

    concepts = birds.cbm_concepts()
    phrases: dict[str, list[str]] = {}  # several attributes may be said in the same words
    for name in world.attributes.name:
        phrases.setdefault(birds.phrase(name), []).append(name)
    truth = [birds.concept_labels(world, names, level=labels).amax(1) for names in phrases.values()]
    return {"concepts": [birds.plain_name(name) for name in concepts.name], "present": birds.concept_labels(world, concepts, level=labels, kind=label_kind),
            "truth": birds.concept_labels(world, concepts, level=labels), "phrases": list(phrases), "phrase_truth": torch.stack(truth, 1)}
