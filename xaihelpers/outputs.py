"""The contract: what a bottleneck says of a batch of images is one `ConceptOutputs`, in memory and on disk.

Every model of `bottlenecks/` gives it, every concept metric of `scores/` takes it, and a model of your own
joins by giving it, as an object or as a file. What is given is held against itself.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from xaihelpers.datasets.dataset import class_name
from xaihelpers.paths import find, write_whole
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
NAMES = ("concepts", "classes", "image_ids")
TOLERANCE = 0.01  # what half precision may make of a number, as a share of it


def names_of(given: object, what: str) -> list[str]:
    """Names as a program gives them, composed and trimmed; bytes are read as UTF-8, numbers as texts.

    Raises ValueError: no list (one text, a mapping), a name that is missing (None, NaN) or not UTF-8.
    """
    given = given.tolist() if isinstance(given, torch.Tensor | np.ndarray) else given
    if isinstance(given, str | bytes):
        raise ValueError(f"{what} is the one text {given!r}: a list of texts is wanted")
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"{what} is of type {type(given).__name__}: a list of texts is wanted")
    found = []
    for name in given:
        if name is None or name != name:
            raise ValueError(f"{what} has no name in place {len(found)}, but {name}: give each a name")
        found.append(plain(name.decode() if isinstance(name, bytes) else name))
    return found


def is_number(name: str) -> bool:
    """Whether a name is a number, as of a column, a row or an output."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def check_names(concepts: Sequence[str], where: str = "concepts") -> None:
    """Raise ValueError for no concept, an empty name, numbers alone, and two that `words` takes for one."""
    if not all(map(plain, concepts)) or not concepts:
        raise ValueError(f"{where}: the list is empty, or holds an empty name: give each concept a name")
    if all(map(is_number, concepts)):
        raise ValueError(f"{where}: {', '.join(concepts[:3])} are numbers: give each concept a name in words")
    require_distinct(concepts, where)


@dataclass
class ConceptOutputs:
    """What a bottleneck model makes of N images, with L concepts and K classes.

    Raises ValueError if shapes do not fit, names of concepts are missing, numbers alone or stand twice, image
    ids are not one per image or stand twice, or a value is NaN or infinite.
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
        sizes = {"images": len(self.values), "concepts": len(self.concepts), "classes": len(self.classes)}
        for name, tensor in self._tensors().items():
            if tensor.ndim == 4:  # maps may be of any height and width
                sizes |= zip("HW", tensor.shape[2:], strict=True)
            shape = tuple(sizes.get(axis, axis) for axis in AXES[name])
            if tuple(tensor.shape) != shape:
                raise ValueError(
                    f"{name} is {tuple(tensor.shape)}, but {len(self.values)} images, {len(self.concepts)} "
                    f"concepts and {len(self.classes)} classes need {shape}"
                )
            rows = (~tensor.isfinite()).nonzero()
            if len(rows):
                raise ValueError(
                    f"{name} has {len(rows)} values that are NaN or infinite, the first in row {rows[0, 0]}"
                )
        if self.image_ids is None:
            return
        if len(self.image_ids) != len(self.values):
            raise ValueError(
                f"{len(self.image_ids)} image ids for {len(self.values)} images: give one for each image"
            )
        for name, count in Counter(map(plain, self.image_ids)).items():
            if count > 1:
                raise ValueError(f"image {name!r} stands twice among the image ids: keep one of its rows")

    def _tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that there are, by name."""
        return {name: getattr(self, name) for name in AXES if getattr(self, name) is not None}

    @property
    def predictions(self) -> torch.Tensor:
        """(N,) int64, the class of the largest logit."""
        return self.logits.argmax(1)

    def align(self, image_ids: Sequence[str], source: str = "these outputs") -> "ConceptOutputs":
        """The outputs of just these images, row by row in this order; other images are left out.

        source: what an error calls the outputs, for instance their file.
        Raises ValueError where an image has no row, and for outputs without `image_ids`, since rows that are
        matched by their position alone may be those of other images.
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
            log.info("%s: %d images more than are asked for", source, len(self.image_ids) - len(rows))
        return self._picked("images", rows, image_ids=wanted)

    def take(self, rows: Sequence[int] | torch.Tensor) -> "ConceptOutputs":
        """The outputs of some images, by their rows, in this order."""
        ids = self.image_ids and [self.image_ids[row] for row in torch.as_tensor(rows).tolist()]
        return self._picked("images", rows, image_ids=ids)

    def of_concepts(self, names: Sequence[str]) -> "ConceptOutputs":
        """The outputs of some concepts, by their names, in this order; the logits stay those of all."""
        return self._picked("concepts", [self.concepts.index(name) for name in names], concepts=list(names))

    def of_classes(self, classes: Sequence[str], source: str = "these outputs") -> "ConceptOutputs":
        """The outputs with the K classes of a data set in its order; 018.Spotted_Catbird is Spotted Catbird.

        source: as of `align`. Raises ValueError where the names are not the same.
        """
        held, wanted = ([words(class_name(name)) for name in names] for names in (self.classes, classes))
        if sorted(held) != sorted(wanted) or len(set(held)) < len(held):
            here, there = sorted(set(held) - set(wanted)), sorted(set(wanted) - set(held))
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
    Raises ValueError: a field that is missing or unknown, and as `names_of` and `ConceptOutputs` do.
    """
    unknown = [name for name in fields if name not in (*NAMES, *AXES)]
    missing = [name for name in ("concepts", "classes", "values", "logits") if fields.get(name) is None]
    if unknown or missing:
        wrong = f"has no {missing[0]}" if missing else f"has {unknown[0]!r}, which is no field"
        raise ValueError(f"it {wrong}; its fields: {', '.join((*NAMES, *AXES))}")
    found = dict.fromkeys(AXES)
    for name, given in fields.items():
        if given is None:
            continue
        if name in AXES:
            numbers = given if isinstance(given, torch.Tensor) else np.ascontiguousarray(given)
            found[name] = torch.as_tensor(numbers).detach().cpu().float()
        else:
            found[name] = names_of(given, name)
    if not len(found["values"]):
        raise ValueError("it holds no image")
    if found["contributions"] is None:
        if found["class_weights"] is None:
            raise ValueError(
                "it has neither contributions nor class_weights: what each concept adds to the predicted "
                "class's logit is not known without one of them"
            )
        found["contributions"] = found["values"] * found["class_weights"].T[found["logits"].argmax(1)]
    return ConceptOutputs(**found)


def hold_against_itself(outputs: ConceptOutputs, source: str) -> None:
    """Log what `contradictions` finds; a run keeps it as a note. Raises ValueError as that does."""
    for found in contradictions(outputs, source):
        log.warning("%s", found, extra={"note": True})


def contradictions(outputs: ConceptOutputs, source: str) -> list[str]:
    """Hold contributions against values × class weights, logits against values @ class weights + a bias.

    What logits have beyond the concepts is right for a model with a side channel, and without class weights
    nothing is held against them: that is said, as where logits look like probabilities, and thresholds like
    those of other values.
    source: what the outputs are called, for instance their file.

    Raises ValueError where contributions are not θ_jk û_ij of the predicted class k, but for half precision,
    and for class weights that fit as (K, L) alone.
    """
    found, values, thresholds = [], outputs.values, outputs.thresholds
    if outputs.class_weights is None:
        found.append(f"{source}: there are no class_weights, so values are held against nothing")
    else:
        _require_products(outputs, source)
        rest = _centred(outputs.logits - values @ outputs.class_weights).abs().max()
        spread = _centred(outputs.logits).abs().max()
        largest = torch.stack([outputs.contributions.abs().max(), outputs.logits.abs().max()]).max()
        allowed = TOLERANCE * spread + 1e-5 * largest
        if rest > allowed:
            what = _another_scale(outputs, allowed, source)
            size = f"logits have up to {rest:.3g} beyond values @ class_weights and a bias"
            found.append(f"{source}: {size}, where they vary by {spread:.3g}: {what}")
    if thresholds is not None and len(values) > 1:
        called = values > thresholds
        if bool((called == called[0]).all()):
            ends = [f"from {one.min():.3g} to {one.max():.3g}" for one in (thresholds, values)]
            what = "no concept's values lie on both sides. Give both on one scale"
            found.append(f"{source}: thresholds {ends[0]}, values {ends[1]}: {what}")
    return found


def _centred(numbers: torch.Tensor) -> torch.Tensor:
    return numbers - numbers.mean(0)


def _another_scale(outputs: ConceptOutputs, allowed: torch.Tensor, source: str) -> str:
    """What logits or values seem to be that do not fit each other, with the remedy.

    Raises ValueError where class weights fit as (K, L) alone.
    """
    logits, values, theta = outputs.logits, outputs.values, outputs.class_weights
    if logits.shape[1] > 1 and logits.min() >= 0 and logits.max() <= 1:
        return "they lie from 0 to 1, as probabilities do: give the logits before softmax or sigmoid"
    if (logits.exp().sum(1) - 1).abs().max() < 0.02:
        return "they are logarithms of probabilities: give the logits before the log-softmax"

    def fits(products: torch.Tensor) -> bool:
        return bool(_centred(logits - products).abs().max() <= allowed)

    if theta.shape[0] == theta.shape[1] and fits(values @ theta.T):
        raise ValueError(f"{source}: class_weights are (classes, concepts): give them transposed, (L, K)")
    if fits(values.logit() @ theta):
        return "values are a sigmoid of what the head takes: give them as it takes them"
    return "as of a side channel beside the concepts, or they are of another model"


def _require_products(outputs: ConceptOutputs, source: str) -> None:
    """Raise ValueError where contributions are not values × class weights of the predicted class."""
    # half precision makes ties: any of the highest may be the predicted one
    highest, classes = outputs.logits.topk(min(5, len(outputs.classes)))
    tied = highest >= highest[:, :1] - TOLERANCE * highest[:, :1].abs()  # (N, 5)
    products = outputs.values[:, None] * outputs.class_weights.T[classes]  # (N, 5, L)
    off = (outputs.contributions[:, None] - products).abs()
    near = off <= TOLERANCE * products.abs() + 1e-4 * outputs.contributions.abs().max()
    wrong = (~(near.all(2) & tied).any(1)).nonzero()[:, 0]
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"{source}: contributions are not values × class_weights of the predicted class in {len(wrong)} "
            f"of {len(off)} images, the first in row {row}, concept "
            f"{outputs.concepts[off[row, 0].argmax()]!r}. Give all of the same images, concepts and classes, "
            "in the order of their names, and values on the scale that the head takes. safetensors writes "
            "the memory of a transposed or cut NumPy array as it lies: write np.ascontiguousarray of each. "
            "Where the head is not linear in values, leave class_weights out"
        )


def save_outputs(outputs: ConceptOutputs, file: str | Path) -> Path:
    """Write outputs as safetensors, whole or not at all; names go into the header, as JSON lists.

    Returns the file's path. Raises OSError where it cannot be written.
    """
    tensors = {}
    for name, tensor in outputs._tensors().items():
        # apart from the others: safetensors refuses memory that two share
        tensors[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    names = {name: getattr(outputs, name) for name in NAMES if getattr(outputs, name) is not None}
    header = {name: json.dumps(held) for name, held in names.items()}
    return write_whole(file, save(tensors, header))


def names_in(header: Mapping[str, str]) -> dict[str, list[str]]:
    """The names that a safetensors file's header has, as JSON lists. Raises ValueError for any other text."""
    found = {}
    for name in filter(header.get, NAMES):
        try:
            found[name] = names_of(json.loads(header[name]), name)
        except json.JSONDecodeError as error:
            remedy = "write json.dumps(names), a list of texts"
            raise ValueError(f"{name} in its header is {header[name][:40]!r}, no JSON: {remedy}") from error
    return found


def read_outputs(file: str | Path) -> ConceptOutputs:
    """Outputs from a file of `save_outputs`, or one that another program wrote in its form.

    file: a path, or a name under XAI_DATA. Numbers of any kind are read, as float32.
    Raises ValueError, naming the file, if it is no such file, and as `hold_against_itself` does.
    """
    try:
        with safe_open(find(file) or file, framework="pt") as content:
            header = content.metadata() or {}
            fields = {name: content.get_tensor(name) for name in content.keys()}
        if "contributions" not in fields:  # a function may leave them out, whose memory nobody has written
            raise ValueError("it has no contributions")
        outputs = outputs_of_fields(fields | names_in(header))
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{file}: no outputs of a bottleneck ({error}). It must be a safetensors file with the tensors "
            "values, contributions, logits and perhaps class_weights, thresholds and concept_maps, and the "
            "names as JSON lists under concepts, classes and image_ids in its header."
        ) from error
    hold_against_itself(outputs, str(file))
    return outputs
