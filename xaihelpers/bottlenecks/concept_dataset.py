"""What bottlenecks are trained on: images, features, classes, and concepts, annotated or only named."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd
import torch
from torch import nn

from xaihelpers import datasets
from xaihelpers.models.backbones import load_backbone
from xaihelpers.models.clip import Clip, embed_images, embed_texts, load_clip
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork, feature_maps, read_pixels
from xaihelpers.outputs import check_names
from xaihelpers.paths import find
from xaihelpers.text_files import read_names, words


@dataclass(kw_only=True, eq=False, repr=False)
class ConceptDataset:
    """N images of K classes; row n of every tensor is row n of `images`, all on the CPU.

    `concepts`: the L annotated concepts in plain words, none where nobody annotated; `attributes`: their
    names in the data set.
    `present`: the labels that models are trained on. `truth`: those that they are judged by.
    `phrases`: concepts by name only.
    `told`: the labels (N,) of 0 and 1 of all that is annotated, by its `words`.
    `backbone_name`, `backbone_identity`: the network and the weights that `pooled` comes from.
    """

    name: str  # of the data set
    images: pd.DataFrame  # path, label, train
    image_ids: list[str]  # N file names
    classes: list[str]
    labels: torch.Tensor  # (N,) int64
    train: torch.Tensor  # (N,) bool
    drawn: bool = False  # whether its images are of a drawn world, which the shipped networks know
    pooled: torch.Tensor  # (N, d), of a frozen backbone; d is 0 without one
    backbone_name: str = ""
    backbone_identity: str = ""
    concepts: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    present: torch.Tensor | None = None  # (N, L) in [0, 1]
    truth: torch.Tensor | None = None  # (N, L) of 0 and 1
    phrases: list[str] = field(default_factory=list)
    told: dict[str, torch.Tensor] = field(default_factory=dict)
    clip: Clip | None = None
    image_embeddings: torch.Tensor | None = None  # (N, e) unit rows
    embed_texts: Callable[[list[str]], torch.Tensor] | None = None  # texts -> (n, e) unit rows
    pixels: torch.Tensor | None = None  # (N, 3, H, W) uint8
    trunk: Callable[[], nn.Module] | None = None  # makes a network pixels -> (B, d), the same at every call

    @property
    def test_ids(self) -> list[str]:
        """File names of the test images, in order."""
        return [name for name, train in zip(self.image_ids, self.train.tolist(), strict=True) if not train]


def load_concept_dataset(
    data: str = "aviary",
    labels: str = "image",
    label_kind: str = "hard",
    truth_labels: str = "",
    concepts: str = "auto",
    backbone: str = "aviary_resnet",
    weights: str = "",
    layer: str = "",
    clip: str = "aviary_clip",
    clip_weights: str = "",
    concept_file: str = "",
    finetune: bool = False,
    device: str | torch.device = "cpu",
    transform: str = "",
) -> ConceptDataset:
    """A data set with the features of its images and its concepts.

    data: as of `datasets.load`. In CUB-200-2011's format it comes with concepts, else without any.
    labels: concept labels of each image ("image") or of its class ("class"), for training; "none" keeps the
        names of the concepts and forgets who has them.
    label_kind: "hard" or "soft" ones for training; judged by the hard ones.
    truth_labels: the labels that models are judged by, "image" or "class"; empty takes those of training.
    concepts: as of `datasets.choose_concepts`.
    backbone, weights, layer, transform: as of `models.load_backbone`; backbone "" leaves features out.
    clip, clip_weights: as of `models.clip.load_clip`; clip "" leaves CLIP out.
    concept_file: a text file with one concept a line, in place of the phrases that are made of CUB's 312
        attributes; data without attributes need one.
    finetune: read all pixels too, for models that train the backbone.
    device: where the networks run.

    Raises DatasetError, ModelError and ValueError as its parts do.
    """
    nobody_tells = labels == "none"
    if nobody_tells:
        labels = truth_labels = "class"
    truth_labels = truth_labels or labels
    world = datasets.load(data, attributes="image" if "image" in (labels, truth_labels) else "class")
    parts = {"pooled": torch.empty(len(world.images), 0)}
    if world.attributes is not None:
        told = _annotations(world, concepts, labels, label_kind, truth_labels)
        parts |= {"phrases": told["phrases"]} if nobody_tells else told
    if concept_file:
        parts["phrases"] = read_names(find(concept_file) or concept_file)
        check_names(parts["phrases"], f"concept file {concept_file}")
    if backbone:
        network = load_backbone(backbone, weights, layer, device, transform)
        parts |= {"backbone_name": network.name, "backbone_identity": network.identity}
        parts["pooled"] = extract_features(network, world.images.path, maps=False).pooled
    if clip:
        parts["clip"] = loaded = load_clip(clip, clip_weights, device=device)
        parts["image_embeddings"] = embed_images(loaded, world.images.path)
        parts["embed_texts"] = lambda texts: embed_texts(loaded, texts).rows
    if finetune:
        parts["pixels"] = read_pixels(network, world.images.path)
        parts["trunk"] = lambda: Trunk(load_backbone(backbone, weights, layer, transform=transform))
    for name in ("name", "images", "image_ids", "labels", "train", "drawn"):
        parts[name] = getattr(world, name)
    return ConceptDataset(classes=world.class_names, **parts)


def concept_truth(dataset: ConceptDataset, concepts: list[str]) -> torch.Tensor:
    """Hard labels (N, n) of concepts or phrases by name; NaN where no annotation tells a concept.

    A concept has an attribute's own name (as SUB writes it, too), or is in plain words or a phrase; case,
    underscores and blanks make no difference.
    """
    unknown = torch.full((len(dataset.images),), torch.nan)
    names = [words(datasets.normalise_attribute(name)) for name in concepts]
    return torch.stack([dataset.told.get(name, unknown) for name in names], 1)


def draw_test_rows(dataset: ConceptDataset, n: int = 0, seed: int = 0) -> torch.Tensor:
    """Rows of `n` images drawn from the test split, (n,) int64, sorted; all of them for n = 0.

    Where there are labels of concepts, images in which none is labelled as present are passed over: nothing
    can be compared with them.
    """
    candidates = torch.arange(int((~dataset.train).sum()))
    if dataset.truth is not None:
        candidates = candidates[(dataset.truth[~dataset.train] > 0).any(1)]
    order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(seed))
    return candidates[order[: n or None]].sort().values


def rows_of_another_class(labels: torch.Tensor) -> torch.Tensor:
    """For each of N images the row of one of another class, (N,) int64, every row once.

    labels: (N,) int64. Raises ValueError where this cannot be: a class has more than half of the images.
    """
    by_class = labels.argsort(stable=True)
    other = torch.empty_like(by_class)
    other[by_class] = by_class.roll(len(labels) // 2)
    if (labels[other] == labels).any():
        raise ValueError(
            f"{len(labels)} images are too few, or too much of one class, to give each one of another class: "
            "draw more images"
        )
    return other


class Trunk(nn.Module):
    """A backbone as a trainable network: pixels (B, 3, crop, crop) uint8 -> pooled features (B, d)."""

    def __init__(self, backbone: ImageNetwork):
        super().__init__()
        self.model, self.backbone = backbone.model, backbone

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return feature_maps(self.backbone, self.backbone.normalised(pixels))[0].mean((2, 3))


def _annotations(world, concepts, labels, label_kind, truth_labels) -> dict:
    """The concepts and all attributes as phrases, with their labels."""
    attributes, every = datasets.choose_concepts(world, concepts), world.attributes.name.tolist()
    truth = datasets.concept_labels(world, attributes, level=truth_labels)
    names = list(map(datasets.plain_name, attributes))
    told: dict[str, torch.Tensor] = {}  # several attributes may be said in the same words
    for name, column in zip(every, datasets.concept_labels(world, every, level=truth_labels).T, strict=True):
        for key in {words(said) for said in (name, datasets.plain_name(name), datasets.phrase(name))}:
            told[key] = torch.maximum(told[key], column) if key in told else column
    return {
        "concepts": names,
        "attributes": attributes,
        "present": datasets.concept_labels(world, attributes, level=labels, kind=label_kind),
        "truth": truth,
        "phrases": list(dict.fromkeys(map(datasets.phrase, every))),
        "told": told | dict(zip(map(words, names), truth.T, strict=True)),
    }
