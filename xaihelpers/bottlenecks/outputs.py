"""What a bottleneck model says of a batch of images: one `ConceptOutputs`, whatever the model, in memory and on disk."""
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from ..paths import write_whole

TENSORS = ("values", "contributions", "class_weights", "logits")


def check_names(concepts: list[str]) -> None:
    """Raises ValueError for no concept at all, and for a name that is empty or stands twice (case and blanks aside)."""
    if not concepts:
        raise ValueError("the list of concepts is empty: give at least one")
    seen = {}
    for place, name in enumerate(concepts):
        plain = " ".join(name.lower().split())
        if not plain:
            raise ValueError(f"concept {place} has an empty name")
        if plain in seen:
            raise ValueError(f"concept {name!r} stands twice, at places {seen[plain]} and {place}: keep one of them")
        seen[plain] = place


@dataclass
class ConceptOutputs:
    """What a bottleneck model makes of N images, with L concepts and K classes.

    `values` (N, L): û, on the model's own scale. `contributions` (N, L): of each concept to the predicted class's logit; θ_jk û_ij where the head is linear.
    `class_weights` (L, K): θ, None where the head is not linear. `logits` (N, K). `concepts`, `classes`: names. Raises ValueError if shapes do not fit, names
    of concepts are missing or stand twice, or a value is NaN or infinite (naming the image's row and the concept).
    """

    values: torch.Tensor
    contributions: torch.Tensor
    class_weights: torch.Tensor | None
    logits: torch.Tensor
    concepts: list[str]
    classes: list[str]

    def __post_init__(self):
        check_names(self.concepts)
        n, l, k = len(self.values), len(self.concepts), len(self.classes)
        for name, shape in (("values", (n, l)), ("contributions", (n, l)), ("class_weights", (l, k)), ("logits", (n, k))):
            tensor = getattr(self, name)
            if tensor is None and name == "class_weights":
                continue
            if tuple(tensor.shape) != shape:
                raise ValueError(f"{name} is {tuple(tensor.shape)}, but {n} images, {l} concepts and {k} classes need {shape}")
            if len(bad := (~tensor.isfinite()).nonzero()):
                column = (self.classes if name == "logits" else self.concepts)[bad[0, 1]] if name != "class_weights" else self.concepts[bad[0, 0]]
                raise ValueError(f"{name} has {len(bad)} values that are NaN or infinite, the first in row {int(bad[0, 0])}, {column!r}")

    @property
    def predictions(self) -> torch.Tensor:
        """(N,) int64, the class of the largest logit."""
        return self.logits.argmax(1)

    def accuracy(self, labels: torch.Tensor) -> float:
        """Share of images whose predicted class is their label (N,)."""
        return (self.predictions == labels).float().mean().item()


def save_outputs(outputs: ConceptOutputs, file: str | Path) -> Path:
    """Write outputs as safetensors, whole or not at all: the four tensors, and the names as JSON in the header."""
    tensors = {name: tensor.detach().cpu().contiguous() for name in TENSORS if (tensor := getattr(outputs, name)) is not None}
    return write_whole(file, save(tensors, {"concepts": json.dumps(outputs.concepts), "classes": json.dumps(outputs.classes)}))


def read_outputs(file: str | Path) -> ConceptOutputs:
    """Outputs from a file of `save_outputs`, or one that another program wrote in its form. Raises ValueError naming the file if it is no such file."""
    try:
        with safe_open(file, framework="pt") as content:
            header = content.metadata() or {}
            tensors = {name: content.get_tensor(name) if name in content.keys() else None for name in TENSORS}
        return ConceptOutputs(**tensors, concepts=json.loads(header["concepts"]), classes=json.loads(header["classes"]))
    except (SafetensorError, OSError, KeyError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{file}: no outputs of a bottleneck ({error or type(error).__name__}). It must be a safetensors file with the tensors values, "
                         "contributions, logits and perhaps class_weights, and the names as JSON lists under concepts and classes in its header.") from error
