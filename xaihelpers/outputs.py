"""The contract: what a bottleneck says of a batch of images is one `ConceptOutputs`, in memory and on disk.

Every model of `bottlenecks/` gives it, every concept metric of `scores/` takes it, and a model of your own
joins by giving it, as an object or as a file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from xaihelpers.devices import require_one_device
from xaihelpers.paths import write_whole

OPTIONAL = ("class_weights", "concept_maps", "thresholds")
TENSORS = ("values", "contributions", "logits", *OPTIONAL)
PER_IMAGE = ("values", "contributions", "logits", "concept_maps")
NAMES = ("concepts", "classes", "image_ids")


def check_names(concepts: Sequence[str]) -> None:
    """Check a list of concepts.

    Raises ValueError for an empty list, an empty name, and a name that stands twice (case and blanks aside).
    """
    if not concepts:
        raise ValueError("the list of concepts is empty: give at least one")
    seen = {}
    for place, name in enumerate(concepts):
        plain = " ".join(name.lower().split())
        if not plain:
            raise ValueError(f"concept {place} has an empty name")
        if plain in seen:
            raise ValueError(
                f"concept {name!r} stands twice, at places {seen[plain]} and {place}: keep one of them"
            )
        seen[plain] = place


@dataclass
class ConceptOutputs:
    """What a bottleneck model makes of N images, with L concepts and K classes.

    Raises ValueError if shapes do not fit, tensors are on different devices, names of concepts are missing or
    stand twice, image ids are not one per image or stand twice, or a value is NaN or infinite (naming the
    image's row and the concept).
    """

    values: torch.Tensor  # (N, L), û, on the model's own scale
    # (N, L), of each concept to the predicted class's logit; θ_jk û_ij where the head is linear
    contributions: torch.Tensor
    class_weights: torch.Tensor | None  # (L, K), θ; None where the head is not linear
    logits: torch.Tensor  # (N, K)
    concepts: list[str]  # L names
    classes: list[str]  # K names
    # N file names, as `Dataset.image_ids`: what outputs are matched with images by
    image_ids: list[str] | None = None
    # (N, L, H, W), where in the image each concept's value comes from
    concept_maps: torch.Tensor | None = None
    # (L,), the values above which the model itself calls a concept present
    thresholds: torch.Tensor | None = None

    def __post_init__(self):
        check_names(self.concepts)
        tensors = {name: getattr(self, name) for name in TENSORS}
        require_one_device(**tensors)
        for name, shape in self._shapes().items():
            tensor = tensors[name]
            if tensor is None and name in OPTIONAL:
                continue
            if tuple(tensor.shape) != shape:
                raise ValueError(
                    f"{name} is {tuple(tensor.shape)}, but {len(self.values)} images, {len(self.concepts)} "
                    f"concepts and {len(self.classes)} classes need {shape}"
                )
            not_finite = (~tensor.isfinite()).nonzero()
            if len(not_finite):
                row = int(not_finite[0, 0])
                raise ValueError(
                    f"{name} has {len(not_finite)} values that are NaN or infinite, the first in row {row}, "
                    f"{self._column_name(name, not_finite[0])!r}"
                )
        if self.image_ids is not None:
            self._check_ids()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each tensor must have; maps may be of any height and width."""
        n_images, n_concepts, n_classes = len(self.values), len(self.concepts), len(self.classes)
        shapes = {
            "values": (n_images, n_concepts),
            "contributions": (n_images, n_concepts),
            "class_weights": (n_concepts, n_classes),
            "logits": (n_images, n_classes),
            "thresholds": (n_concepts,),
        }
        if self.concept_maps is not None:
            size = tuple(self.concept_maps.shape[2:])
            shapes["concept_maps"] = (n_images, n_concepts, *(size if len(size) == 2 else ("H", "W")))
        return shapes

    def _column_name(self, name: str, place: torch.Tensor) -> str:
        """The concept or class that the value at `place` of tensor `name` belongs to."""
        if name == "logits":
            return self.classes[place[1]]
        return self.concepts[place[0] if name in ("class_weights", "thresholds") else place[1]]

    def _check_ids(self) -> None:
        if len(self.image_ids) != len(self.values):
            raise ValueError(
                f"{len(self.image_ids)} image ids for {len(self.values)} images: give one for each image"
            )
        seen = set()
        for name in self.image_ids:
            if name in seen:
                raise ValueError(f"image {name!r} stands twice among the image ids: keep one of its rows")
            seen.add(name)

    @property
    def predictions(self) -> torch.Tensor:
        """(N,) int64, the class of the largest logit."""
        return self.logits.argmax(1)

    def accuracy(self, labels: torch.Tensor, image_ids: Sequence[str] | None = None) -> float:
        """Share of images whose predicted class is their label (N,).

        image_ids: N file names, of the images that are labelled: outputs are matched with them by `align`.
            None matches by position, for outputs that were made of these images in this order.
        Raises ValueError for labels on another device, and as `align` does.
        """
        outputs = self if image_ids is None else self.align(image_ids)
        require_one_device(logits=outputs.logits, labels=labels)
        return (outputs.predictions == labels).float().mean().item()

    def align(self, image_ids: Sequence[str], source: str = "these outputs") -> "ConceptOutputs":
        """The outputs of just these images, row by row in this order; other images are left out.

        image_ids: file names, as `Dataset.image_ids`.
        source: what an error calls the outputs, for instance their file.

        Raises ValueError where an image has no row, naming the first ids, and where the outputs have no
        `image_ids`, since rows that are matched by their position alone may be those of other images.
        """
        wanted = list(image_ids)
        if self.image_ids is None:
            raise ValueError(
                f"{source}: {len(self.values)} rows without image ids, so it cannot be told which images "
                "they are of. Write them with image_ids=, file names such as "
                f"{', '.join(map(repr, wanted[:1]))}"
            )
        if wanted == self.image_ids:
            return self
        row_of = {name: row for row, name in enumerate(self.image_ids)}
        missing = [name for name in wanted if name not in row_of]
        if missing:
            raise ValueError(
                f"{source}: outputs of other images. {len(missing)} of the {len(wanted)} images wanted have "
                f"no row, the first {', '.join(map(repr, missing[:3]))}; the rows there are of "
                f"{', '.join(map(repr, self.image_ids[:3]))}, …"
            )
        return self.take([row_of[name] for name in wanted])

    def take(self, rows: Sequence[int] | torch.Tensor) -> "ConceptOutputs":
        """The outputs of some images, by their rows, in this order."""
        rows = torch.as_tensor(rows, device=self.values.device)
        taken = {}
        for name in PER_IMAGE:
            tensor = getattr(self, name)
            taken[name] = None if tensor is None else tensor[rows]
        if self.image_ids is not None:
            taken["image_ids"] = [self.image_ids[row] for row in rows.tolist()]
        return replace(self, **taken)

    def of_concepts(self, names: Sequence[str]) -> "ConceptOutputs":
        """The outputs of some concepts, by their names, in this order; the logits stay those of all.

        Raises ValueError for a concept that the outputs do not have.
        """
        columns = [self.concepts.index(name) for name in names]
        taken = {"concepts": list(names)}
        for name in ("values", "contributions", "concept_maps", "class_weights", "thresholds"):
            tensor = getattr(self, name)
            if tensor is not None:
                taken[name] = tensor[:, columns] if name in PER_IMAGE else tensor[columns]
        return replace(self, **taken)

    def to(self, device: str | torch.device) -> "ConceptOutputs":
        """The same outputs, detached, with tensors on a device."""
        moved = {}
        for name in TENSORS:
            tensor = getattr(self, name)
            moved[name] = None if tensor is None else tensor.detach().to(device)
        return replace(self, **moved)

    def cpu(self) -> "ConceptOutputs":
        """The same outputs, detached, with tensors on the CPU."""
        return self.to("cpu")


def save_outputs(outputs: ConceptOutputs, file: str | Path) -> Path:
    """Write outputs as safetensors, whole or not at all; names go into the header, as JSON lists.

    Returns the file's path. Raises OSError where it cannot be written.
    """
    tensors, header = {}, {}
    for name in TENSORS:
        tensor = getattr(outputs, name)
        if tensor is not None:
            tensors[name] = tensor.detach().cpu().contiguous()
    for name in NAMES:
        names = getattr(outputs, name)
        if names is not None:
            header[name] = json.dumps(names)
    return write_whole(file, save(tensors, header))


def read_outputs(file: str | Path) -> ConceptOutputs:
    """Outputs from a file of `save_outputs`, or one that another program wrote in its form.

    Raises ValueError, naming the file, if it is no such file.
    """
    try:
        with safe_open(file, framework="pt") as content:
            header = content.metadata() or {}
            tensors = {name: content.get_tensor(name) for name in TENSORS if name in content.keys()}
        names = {name: json.loads(header[name]) for name in NAMES if name in header}
        return ConceptOutputs(**dict.fromkeys(OPTIONAL) | tensors | names)
    except (SafetensorError, OSError, KeyError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{file}: no outputs of a bottleneck ({error or type(error).__name__}). It must be a safetensors "
            "file with the tensors values, contributions, logits and perhaps class_weights and "
            "concept_maps, and the names as JSON lists under concepts, classes and image_ids in its header."
        ) from error
