"""Outputs of a user's bottleneck, from the function `outputs_of(images)` of a Python file."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from PIL import Image
from tqdm.auto import tqdm

from xaihelpers.datasets import Dataset, load_image
from xaihelpers.outputs import OPTIONAL, PER_IMAGE, TENSORS, ConceptOutputs
from xaihelpers.own_model.function_file import OwnModelError, load_function

FIELDS = ("concepts", "classes", *TENSORS)  # of a dict that outputs_of may return
log = logging.getLogger(__name__)


def outputs_of_file(
    file: str | Path,
    images: Sequence[str | Path | Image.Image],
    image_ids: Sequence[str],
    batch_size: int = 64,
) -> ConceptOutputs:
    """The outputs of a user's bottleneck for N images, on the CPU, under the images' ids.

    file: with `outputs_of(images)`, which returns for n RGB images ConceptOutputs, or a dict of its fields as
        arrays: concepts, classes, values (n, L), logits (n, K), and perhaps class_weights (L, K),
        contributions (n, L), thresholds (L,), concept_maps (n, L, H, W). Contributions may be left out where
        class weights are given: they are then θ_jk û_ij of the predicted class k.
    images: N image files or images, of which `batch_size` at a time are opened.
    Raises OwnModelError: as `load_function`; something else returned, another number of rows, wrong shapes or
        NaN, names or weights that change between batches; DatasetError for an image that cannot be read.
    """
    function = load_function(file, "outputs_of")
    if not len(images):
        raise OwnModelError(f"{file}: there is no image to ask it about")
    parts = []
    starts = range(0, len(images), batch_size)
    for start in tqdm(starts, desc=Path(file).stem, disable=len(starts) == 1):
        some = [_opened(image) for image in images[start : start + batch_size]]
        part = _checked(file, function(some), len(some))
        if parts:
            _same_model(file, parts[0], part, start)
        parts.append(part)
    tensors = {name: getattr(parts[0], name) for name in TENSORS}
    for name in PER_IMAGE:
        if tensors[name] is not None:
            tensors[name] = torch.cat([getattr(part, name) for part in parts])
    log.info("%s: outputs of %d images", file, len(images))
    return ConceptOutputs(
        **tensors, concepts=parts[0].concepts, classes=parts[0].classes, image_ids=list(image_ids)
    )


def outputs_of_data(file: str | Path, data: Dataset, split: str = "test") -> ConceptOutputs:
    """The outputs of a user's bottleneck for the images of a data set.

    split: "test", "train" or "all"; "test" takes all where no image is for testing.
    Raises OwnModelError as `outputs_of_file`, and for an unknown split.
    """
    if split not in ("test", "train", "all"):
        raise OwnModelError(f"split is test, train or all, not {split!r}")
    train = data.train
    rows = torch.arange(len(train))
    if split == "train":
        rows = rows[train]
    elif split == "test" and not train.all():
        rows = rows[~train]
    ids = data.image_ids
    return outputs_of_file(file, data.images.path.iloc[rows.numpy()].tolist(), [ids[row] for row in rows])


def _opened(image: str | Path | Image.Image) -> Image.Image:
    return image.convert("RGB") if isinstance(image, Image.Image) else load_image(image)


def _checked(file: str | Path, returned: object, n_images: int) -> ConceptOutputs:
    """What outputs_of returned, as ConceptOutputs of so many images on the CPU."""
    if isinstance(returned, Mapping):
        returned = _from_fields(file, returned)
    if not isinstance(returned, ConceptOutputs):
        raise OwnModelError(
            f"{file}: outputs_of returned {_kind(returned)}: it has to return ConceptOutputs, or a dict with "
            f"{', '.join(FIELDS[:4])} and {FIELDS[4]} (contributions, or class_weights)"
        )
    if len(returned.values) != n_images:
        raise OwnModelError(
            f"{file}: outputs_of returned {len(returned.values)} rows for {n_images} images: one row for "
            "each image is wanted, in their order"
        )
    return returned.cpu()


def _from_fields(file: str | Path, given: Mapping) -> ConceptOutputs:
    unknown = [name for name in given if name not in (*FIELDS, "image_ids")]
    missing = [name for name in ("concepts", "classes", "values", "logits") if given.get(name) is None]
    if unknown or missing:
        wrong = f"has no {missing[0]}" if missing else f"has {unknown[0]!r}, which is no field"
        raise OwnModelError(
            f"{file}: the dict that outputs_of returned {wrong}; its fields: {', '.join(FIELDS)}"
        )
    fields = dict.fromkeys(OPTIONAL) | {"contributions": None, "image_ids": None} | dict(given)
    for name in ("concepts", "classes"):
        fields[name] = [str(one) for one in fields[name]]
    try:
        for name in TENSORS:
            if fields[name] is not None:
                fields[name] = torch.as_tensor(fields[name]).detach().float()
        if fields["contributions"] is None and fields["class_weights"] is not None:
            predicted = fields["logits"].argmax(1)
            fields["contributions"] = fields["values"] * fields["class_weights"].T[predicted]
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise OwnModelError(
            f"{file}: what outputs_of returned is of wrong types or shapes: {error}"
        ) from error
    if fields["contributions"] is None:
        raise OwnModelError(
            f"{file}: outputs_of returned neither contributions nor class_weights: what each concept adds to "
            "the predicted class's logit is not known without one of them"
        )
    try:
        return ConceptOutputs(**fields)
    except (ValueError, AttributeError, IndexError) as error:
        raise OwnModelError(f"{file}: what outputs_of returned: {error}") from error


def _same_model(file: str | Path, first: ConceptOutputs, part: ConceptOutputs, start: int) -> None:
    """Raise OwnModelError where names, or what belongs to the model, differ between batches."""
    for name in ("concepts", "classes"):
        if getattr(first, name) != getattr(part, name):
            raise OwnModelError(
                f"{file}: outputs_of returned other {name} for image {start} on than for the first ones"
            )
    for name in OPTIONAL:
        one, other = getattr(first, name), getattr(part, name)
        if (one is None) != (other is None):
            raise OwnModelError(f"{file}: outputs_of returned {name} for some images and not for others")
        if one is not None and name not in PER_IMAGE and not torch.allclose(one, other):
            raise OwnModelError(
                f"{file}: outputs_of returned other {name} for image {start} on than for the first ones: "
                "they are the model's, whatever the image"
            )


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"nothing ({kind})" if value is None else f"an object of type {kind}"
