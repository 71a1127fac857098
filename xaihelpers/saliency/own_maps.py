"""Attention maps of your own model or method, from an `.npz` file with these arrays.

maps       (N, h, w)  numbers of any size and scale
image_ids  (N,)       file names of the images, as the data set has them
predicted  (N,)       names of the predicted classes; may be left out where only maps are compared
covers     a text     what of its picture a map covers: "image", the whole, or "224/256", the middle 224 of a
                      picture whose short side is resized to 256, around which a map is 0. Left out it is
                      the whole, but not where maps are square and pictures are not.
"""

import dataclasses
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
from xaihelpers.own_model import OwnModelError
from xaihelpers.paths import find
from xaihelpers.saliency.hooks import require_finite
from xaihelpers.saliency.methods import AttentionMaps, scaled_maps
from xaihelpers.text_files import places, plain, words


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
    Raises OwnModelError: a file that cannot be read or lacks an array, shapes that do not fit, an image with
        no map or two, no word of what square maps of other pictures cover; SaliencyError for NaN;
        DatasetError for an image that cannot be read.
    """
    try:
        with np.load(find(file) or file, allow_pickle=False) as content:
            held = dict(content)
        maps, ids = held["maps"].astype(float), [plain(name) for name in held["image_ids"]]
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        remedy = "np.savez(file, maps=maps, image_ids=names) writes such a file"
        raise OwnModelError(f"{file}: no maps that can be read ({error}): {remedy}") from error
    predicted, covers = held.get("predicted", ids), str(held.get("covers", ""))
    if maps.ndim != 3 or not maps.size or not len(maps) == len(ids) == len(predicted):
        shapes = ", ".join(f"{name} {values.shape}" for name, values in held.items())
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
    for values, (width, height) in zip(scaled_maps(maps)[0].float().numpy(), sizes.tolist(), strict=True):
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
            classes[n] = number_of.setdefault(words(class_name(str(predicted[row]))), len(names))
            if classes[n] == len(names):
                names.append(str(predicted[row]))
    return AttentionMaps(scaled, torch.tensor(classes), constant), names
