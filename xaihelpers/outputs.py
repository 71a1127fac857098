"""The contract: what a bottleneck says of a batch of images is one `ConceptOutputs`, in memory and on disk.

Every model of `bottlenecks/` gives it, every concept metric of `scores/` takes it, and a model of your own
joins by giving it, as an object or as a file. What is given is held against itself.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from xaihelpers.datasets.dataset import class_name
from xaihelpers.devices import require_one_device
from xaihelpers.paths import write_whole
from xaihelpers.text_files import places, plain, require_distinct, words

log = logging.getLogger(__name__)
AXES = {
    "values": ("images", "concepts"),
    "contributions": ("images", "concepts"),
    "logits": ("images", "classes"),
    "class_weights": ("concepts", "classes"),
    "concept_maps": ("images", "concepts", "H", "W"),
    "thresholds": ("concepts",),
}
OPTIONAL = ("class_weights", "concept_maps", "thresholds")
NAMES = ("concepts", "classes", "image_ids")
TOLERANCE = 0.01  # what half precision may make of a number, as a share of it


def check_names(concepts: Sequence[str]) -> None:
    """Raise ValueError for an empty list of concepts, an empty name, and two that `text_files.words` takes
    for one."""
    if not all(map(plain, concepts)) or not concepts:
        raise ValueError("the list of concepts is empty, or holds an empty name: give each concept a name")
    require_distinct(concepts, "concepts")


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
        require_one_device(**self._tensors())
        sizes = {"images": len(self.values), "concepts": len(self.concepts), "classes": len(self.classes)}
        for name, axes in AXES.items():
            tensor = getattr(self, name)
            if tensor is None and name in OPTIONAL:
                continue
            if tensor.ndim == 4:  # maps may be of any height and width
                sizes |= zip("HW", tensor.shape[2:], strict=True)
            shape = tuple(sizes.get(axis, axis) for axis in axes)
            if tuple(tensor.shape) != shape:
                raise ValueError(
                    f"{name} is {tuple(tensor.shape)}, but {len(self.values)} images, {len(self.concepts)} "
                    f"concepts and {len(self.classes)} classes need {shape}"
                )
            not_finite = (~tensor.isfinite()).nonzero()
            if len(not_finite):
                axis = axes.index("classes" if name == "logits" else "concepts")
                column = getattr(self, axes[axis])[not_finite[0, axis]]
                raise ValueError(
                    f"{name} has {len(not_finite)} values that are NaN or infinite, the first in row "
                    f"{int(not_finite[0, 0])}, {column!r}"
                )
        if self.image_ids is None:
            return
        if len(self.image_ids) != len(self.values):
            raise ValueError(
                f"{len(self.image_ids)} image ids for {len(self.values)} images: give one for each image"
            )
        last, _ = places(self.image_ids, self.image_ids)  # where a name stands last
        for row, name in enumerate(self.image_ids):
            if last[row] != row:
                raise ValueError(f"image {name!r} stands twice among the image ids: keep one of its rows")

    def _tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that there are, by name."""
        return {name: getattr(self, name) for name in AXES if getattr(self, name) is not None}

    @property
    def predictions(self) -> torch.Tensor:
        """(N,) int64, the class of the largest logit."""
        return self.logits.argmax(1)

    def accuracy(self, labels: torch.Tensor) -> float:
        """Share of images whose predicted class is their label (N,), in the order of the rows."""
        return (self.predictions == labels).float().mean().item()

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
                f"they are of. Write them with image_ids=, file names such as {wanted[0]!r}"
            )
        rows, missing = places(wanted, self.image_ids)
        if missing:
            raise ValueError(
                f"{source}: outputs of other images. {len(missing)} of the {len(wanted)} images wanted have "
                f"no row, the first {missing[0]!r}; the first row there is is of {self.image_ids[0]!r}"
            )
        if len(rows) < len(self.image_ids):
            left_out = len(self.image_ids) - len(rows)
            log.info("%s: %d images more than are asked for are left out", source, left_out)
        return self._picked("images", rows, image_ids=wanted)

    def take(self, rows: Sequence[int] | torch.Tensor) -> "ConceptOutputs":
        """The outputs of some images, by their rows, in this order."""
        ids = self.image_ids and [self.image_ids[row] for row in torch.as_tensor(rows).tolist()]
        return self._picked("images", rows, image_ids=ids)

    def of_concepts(self, names: Sequence[str]) -> "ConceptOutputs":
        """The outputs of some concepts, by their names, in this order; the logits stay those of all.

        Raises ValueError for a concept that the outputs do not have.
        """
        return self._picked("concepts", [self.concepts.index(name) for name in names], concepts=list(names))

    def of_classes(self, classes: Sequence[str], source: str = "these outputs") -> "ConceptOutputs":
        """The outputs with the K classes of a data set in its order; 018.Spotted_Catbird is Spotted Catbird.

        source: as of `align`. Raises ValueError where the names are not the same.
        """
        held, wanted = ([words(class_name(name)) for name in names] for names in (self.classes, classes))
        if held == wanted:
            return replace(self, classes=list(classes))
        if sorted(held) != sorted(wanted) or len(set(held)) < len(held):
            here = [name for name, word in zip(self.classes, held, strict=True) if word not in wanted]
            there = [name for name, word in zip(classes, wanted, strict=True) if word not in held]
            raise ValueError(
                f"{source} holds {len(held)} classes, {here[:3]} not among the data's; the data have "
                f"{len(wanted)}, {there[:3]} not among these: they must be the same, by their names"
            )
        return self._picked("classes", [held.index(name) for name in wanted], classes=list(classes))

    def _picked(self, axis: str, wanted: Sequence[int], **names) -> "ConceptOutputs":
        """The outputs at some places of an axis, with their names."""
        wanted = torch.as_tensor(wanted, dtype=torch.int64, device=self.values.device)
        for name, tensor in self._tensors().items():
            if axis in AXES[name]:
                names[name] = tensor.index_select(AXES[name].index(axis), wanted)
        return replace(self, **names)

    def to(self, device: str | torch.device) -> "ConceptOutputs":
        """The same outputs, detached, with tensors on a device."""
        return replace(self, **{name: one.detach().to(device) for name, one in self._tensors().items()})

    def cpu(self) -> "ConceptOutputs":
        """The same outputs, detached, with tensors on the CPU."""
        return self.to("cpu")


def outputs_of_fields(fields: Mapping) -> ConceptOutputs:
    """Outputs from fields as a program gives them, on the CPU in float32, names composed and trimmed.

    fields: those of `ConceptOutputs`, arrays or tensors of any kind of number. Contributions may be left out
        where class weights are given: they are then θ_jk û_ij of the predicted class k.
    Raises ValueError: a field that is missing or unknown, what is no number, and as `ConceptOutputs` does.
    """
    unknown = [name for name in fields if name not in (*NAMES, *AXES)]
    missing = [name for name in ("concepts", "classes", "values", "logits") if fields.get(name) is None]
    if unknown or missing:
        wrong = f"has no {missing[0]}" if missing else f"has {unknown[0]!r}, which is no field"
        raise ValueError(f"it {wrong}; its fields: {', '.join((*NAMES, *AXES))}")
    found = {name: _numbers(name, fields.get(name)) for name in AXES}
    if not len(found["values"]):
        raise ValueError("it holds no image")
    if found["contributions"] is None:
        if found["class_weights"] is None:
            raise ValueError(
                "it has neither contributions nor class_weights: what each concept adds to the predicted "
                "class's logit is not known without one of them"
            )
        found["contributions"] = found["values"] * found["class_weights"].T[found["logits"].argmax(1)]
    for name in NAMES:
        if isinstance(fields.get(name), str):
            raise ValueError(f"{name} is the one text {fields[name]!r}: a list of texts is wanted")
        if fields.get(name) is not None:
            found[name] = [plain(one) for one in fields[name]]
    return ConceptOutputs(**found)


def _numbers(name: str, given: object) -> torch.Tensor | None:
    """An array or a tensor of numbers as float32 on the CPU; what is true or false as 1 and 0."""
    if given is None:
        return None
    tensor = given if isinstance(given, torch.Tensor) else torch.as_tensor(np.ascontiguousarray(given))
    if tensor.is_complex() or (tensor.dtype == torch.bool and name in ("contributions", "logits")):
        raise ValueError(f"{name} is of type {tensor.dtype}: give numbers, such as float32")
    return tensor.detach().cpu().float()


def hold_against_itself(outputs: ConceptOutputs, source: str) -> None:
    """Hold contributions against values × class weights, and logits against values @ class weights + a bias.

    What logits have beyond the concepts is right for a model with a side channel, and without class weights
    values are held against nothing: the log says so, and a run keeps it as a note.
    source: what the outputs are called, for instance their file.

    Raises ValueError where contributions are not θ_jk û_ij of the predicted class k, but for half precision.
    """
    groups, said = torch.zeros_like(outputs.predictions), ""
    if outputs.class_weights is None:  # the predicted class alone, whose bias is its own
        said = "there are no class_weights, so values are held against nothing. "
        groups = outputs.predictions
        rest = outputs.logits.amax(1, keepdim=True) - outputs.contributions.sum(1, keepdim=True)
    else:
        _require_products(outputs, source)
        rest = outputs.logits - outputs.values @ outputs.class_weights
    bias = torch.zeros(len(outputs.classes), rest.shape[1]).index_add_(0, groups, rest)
    rest = (rest - (bias / groups.bincount(minlength=len(bias))[:, None])[groups]).abs()
    spread = (outputs.logits - outputs.logits.mean(0)).abs().max()
    if rest.max() > TOLERANCE * spread + 1e-5 * outputs.contributions.abs().max():
        what = "values @ class_weights" if outputs.class_weights is not None else "contributions"
        image = _image(outputs, int(rest.amax(1).argmax()))
        said += (
            f"logits have up to {rest.max():.3g} (image {image}) beyond {what} and a bias, where they vary "
            f"by {spread:.3g}: as of a side channel beside the concepts, or they are of another model"
        )
    if said:
        log.warning("%s: %s", source, said.strip(), extra={"note": True})


def _require_products(outputs: ConceptOutputs, source: str) -> None:
    """Raise ValueError, naming the worst, where contributions are not values × class weights."""
    given, weights = outputs.contributions, outputs.class_weights.T
    best, classes = outputs.logits.topk(min(5, len(weights)))
    fits = torch.zeros(len(given), dtype=torch.bool)
    # half precision makes ties: any of the highest may be the predicted one
    for rank in range(best.shape[1]):
        product = outputs.values * weights[classes[:, rank]]
        near = (given - product).abs() <= TOLERANCE * product.abs() + 1e-4 * given.abs().max()
        fits |= near.all(1) & (best[:, rank] >= best[:, 0] - TOLERANCE * best[:, 0].abs())
    if not fits.all():
        off = (given - outputs.values * weights[outputs.predictions]).abs() * ~fits[:, None]
        row, column = divmod(int(off.argmax()), off.shape[1])
        raise ValueError(
            f"{source}: contributions are not values × class_weights of the predicted class in "
            f"{int((~fits).sum())} of {len(fits)} images, by up to {off.max():.3g} (image "
            f"{_image(outputs, row)}, concept {outputs.concepts[column]!r}). Give all of the same images, "
            "concepts and classes, in the order of their names, and values on the scale that the head takes. "
            "safetensors writes the memory of a transposed or cut NumPy array as it lies: write "
            "np.ascontiguousarray of each. Where the head is not linear in values, leave class_weights out"
        )


def _image(outputs: ConceptOutputs, row: int) -> str:
    return f"of row {row}" if outputs.image_ids is None else repr(outputs.image_ids[row])


def save_outputs(outputs: ConceptOutputs, file: str | Path) -> Path:
    """Write outputs as safetensors, whole or not at all; names go into the header, as JSON lists.

    Returns the file's path. Raises OSError where it cannot be written.
    """
    tensors, header = {}, {}
    for name, tensor in outputs._tensors().items():
        # apart from the others: safetensors refuses memory that two share
        tensors[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    for name in NAMES:
        if getattr(outputs, name) is not None:
            header[name] = json.dumps(getattr(outputs, name))
    return write_whole(file, save(tensors, header))


def read_outputs(file: str | Path) -> ConceptOutputs:
    """Outputs from a file of `save_outputs`, or one that another program wrote in its form.

    Numbers of any kind are read, as float32.
    Raises ValueError, naming the file, if it is no such file, and as `hold_against_itself` does.
    """
    try:
        with safe_open(file, framework="pt") as content:
            header = content.metadata() or {}
            fields = {name: content.get_tensor(name) for name in content.keys()}
        if "contributions" not in fields:  # a function may leave them out, whose memory nobody has written
            raise ValueError("it has no contributions")
        outputs = outputs_of_fields(fields | {key: json.loads(header[key]) for key in NAMES if key in header})
    except (SafetensorError, OSError, KeyError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{file}: no outputs of a bottleneck ({error or type(error).__name__}). It must be a safetensors "
            "file with the tensors values, contributions, logits and perhaps class_weights, thresholds and "
            "concept_maps, and the names as JSON lists under concepts, classes and image_ids in its header."
        ) from error
    hold_against_itself(outputs, str(file))
    return outputs
