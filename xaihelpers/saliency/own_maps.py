"""Attention maps of your own model or method, from an `.npz` file with these arrays.

maps       (N, h, w)  numbers from 0 up, of any scale
image_ids  (N,)       file names of the images, as the data set has them
predicted  (N,)       names of the predicted classes, not their numbers; may be left out where only maps are
                      compared
covers     a text     what of its picture a map covers: "image", the whole, or "224/256", the middle 224 of a
                      picture whose short side is resized to 256, around which a map is 0. Left out it is
                      the whole, but not where maps are square and pictures are not.

Each map is then scaled to [0, 1].
"""

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.functional import center_crop

from xaihelpers.datasets import Dataset, class_name, image_sizes
from xaihelpers.models.image_network import IMAGENET, ImageNetwork
from xaihelpers.outputs import is_number, names_of
from xaihelpers.own_model import OwnModelError
from xaihelpers.paths import find
from xaihelpers.saliency.hooks import require_finite
from xaihelpers.saliency.methods import AttentionMaps, scaled_maps
from xaihelpers.text_files import places, words

log = logging.getLogger(__name__)


def picture_view(name: str, side: int = 224) -> ImageNetwork:
    """How pictures are cut for a model that is known by its maps alone; its `model` is None.

    The short side becomes `side` pixels, of which the middle is kept.
    """
    fields = {"resize": side, "crop": side, "interpolation": "bilinear", **IMAGENET}
    return ImageNetwork(name=name, model=None, layer="", n_classes=0, identity=f"view of {side}", **fields)


def own_maps(
    file: str | Path, data: Dataset, rows: Sequence[int], view: ImageNetwork
) -> tuple[AttentionMaps, list[str]]:
    """The maps of a file for images of a data set, cut as a network's pictures are, and names of classes.

    The names are those of the data, and after them what else is predicted; classes are -1 where the file does
    not say what is predicted.

    file: a path, or a name under XAI_DATA. rows: N positions in `data.images`.
    The log says where no predicted class is one of the data's.

    Raises OwnModelError: a file that cannot be read or lacks an array, shapes that do not fit, an image with
        no map or two, values below 0, no word of what square maps of other pictures cover, predicted classes
        that are numbers and no class of the data; SaliencyError for NaN; DatasetError for an image that
        cannot be read.
    """
    held = _arrays(file)
    maps, ids = held["maps"], held["image_ids"]
    predicted = held.get("predicted", ids)
    covers = "".join(held.get("covers", ""))
    if maps.ndim != 3 or not maps.size or not len(maps) == len(ids) == len(predicted):
        shapes = ", ".join(f"{name} {np.shape(values)}" for name, values in held.items())
        raise OwnModelError(f"{file} has {shapes}: maps (N, h, w), image_ids and predicted (N,) are wanted")
    wanted = [data.image_ids[int(row)] for row in rows]
    found, missing = places(wanted, ids)
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if missing or twice:
        raise OwnModelError(
            f"{file}: of each image one map is wanted; {len(missing)} of {len(wanted)} have none "
            f"{missing[:2]}, {len(twice)} have two {twice[:2]}; the ids there begin with {ids[:2]}"
        )
    maps = torch.from_numpy(maps[found])
    require_finite(maps, f"{file}: the maps")
    if maps.min() < -1e-3 * maps.max():  # more than an overshoot
        raise OwnModelError(
            f"{file}: maps have values below 0, down to {maps.min():.3g}, and nobody can tell whether those "
            "are dark or bright: write np.maximum(maps, 0), np.abs(maps) or maps - maps.min()"
        )
    sizes = image_sizes(data, rows)  # (N, 2), width and height
    middle = re.fullmatch(r"(\d+)\s*/\s*(\d+)", covers)
    may_be_left_out = maps.shape[1] != maps.shape[2] or bool((sizes[:, 0] == sizes[:, 1]).all())
    is_whole = covers == "image" or (not covers and may_be_left_out)
    if not is_whole and not (middle and 0 < int(middle[1]) <= int(middle[2])):
        raise OwnModelError(
            f"{file}: what of its picture does a square map cover? Write `covers`, now {covers!r}: image for "
            "all of it, 224/256 for the middle 224 pixels of a short side resized to 256"
        )
    smooth, cut = dataclasses.replace(view, interpolation="bilinear"), []
    for values, (width, height) in zip(
        scaled_maps(maps.relu())[0].float().numpy(), sizes.tolist(), strict=True
    ):
        size = (width, height)
        if middle:
            size = 2 * (max(1, round(min(size) * int(middle[1]) / int(middle[2]))),)
        resized = Image.fromarray(values).resize(size, Image.Resampling.BILINEAR)
        cut.append(np.array(smooth.cropped(center_crop(resized, [height, width]))))
    scaled, constant = scaled_maps(torch.from_numpy(np.stack(cut)))
    names, classes = list(data.class_names), [-1] * len(found)
    if "predicted" in held:
        number_of = {words(class_name(name)): number for number, name in enumerate(names)}
        for n, row in enumerate(found):
            classes[n] = number_of.setdefault(words(class_name(predicted[row])), len(names))
            if classes[n] == len(names):
                names.append(predicted[row])
        others = names[len(data.class_names) :]
        if any(map(is_number, others)):
            raise OwnModelError(
                f"{file}: predicted has {next(filter(is_number, others))!r}, a number and no class of "
                f"{data.name}: give names of classes, np.array(names)[predicted], in the order of the outputs"
            )
        if data.class_names and min(classes) >= len(data.class_names):
            log.warning(
                "%s: no predicted class is one of %s, so none is right: predicted has %s, the data %s",
                *(file, data.name, others[:3], data.class_names[:3]),
                extra={"note": True},
            )
    return AttentionMaps(scaled, torch.tensor(classes), constant), names


def _arrays(file: str | Path) -> dict[str, np.ndarray | list[str]]:
    """What a file of maps holds: maps as float64, all else as lists of texts. Raises OwnModelError."""
    held, name = {}, ""
    try:
        content = np.load(find(file) or file, allow_pickle=False)
        if not isinstance(content, np.lib.npyio.NpzFile):
            raise ValueError("it is one array without a name, as np.save writes")
        with content:
            for name in ("maps", "image_ids", *content.keys() & {"predicted", "covers"}):
                if name not in content:
                    raise ValueError(f"it has {', '.join(content)}, and no {name}")
                array = content[name]
                if name != "maps" and array.ndim > 1:
                    raise ValueError(f"{name} is {array.shape}: one name is wanted for each image")
                held[name] = array.astype(float) if name == "maps" else names_of(np.atleast_1d(array), name)
    except (OSError, ValueError, TypeError, BadZipFile) as error:
        wrong, remedy = error, "np.savez(file, maps=maps, image_ids=names) writes such a file"
        if "Object arrays" in str(error):
            wrong = f"{name} holds Python objects, as of a pandas column or of arrays of several sizes"
            remedy = "np.stack(maps)" if name == "maps" else "column.to_numpy(str)"
            remedy = f"write {name}={remedy}"
        raise OwnModelError(f"{file}: no maps that can be read ({wrong}): {remedy}") from error
    return held
