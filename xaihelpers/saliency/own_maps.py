"""Attention maps of your own model or method, from a file or from a function `maps_of(images)`.

| from | maps | whose they are | what is predicted |
|---|---|---|---|
| `.npz` | array `maps` (N, h, w) | array `image_ids` (N,) | array `predicted` (N,), names of classes |
| `.safetensors` | tensor `maps` (N, h, w) | JSON list `image_ids` in the header | likewise `predicted` |
| `.py` | `maps_of(images)`: n maps (h, w) of n RGB images | the images' | with it in a dict, as `predicted` |

Maps are of any size and scale; they are cut as the pictures are that they are shown over, and then scaled to
[0, 1]. What is predicted may be left out where only maps are compared.

What of a picture they cover is said by a text `covers`, beside `maps` (in safetensors in the header) or as an
attribute of the function: "image", the whole of it; or "224/256", the middle 224 of a picture whose short
side is resized to 256, around which a map is 0. Left out it is the whole image, but square maps of pictures
that are not square are refused.
"""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open

from xaihelpers.datasets import Dataset, class_name, image_sizes, load_image
from xaihelpers.models.image_network import IMAGENET, ImageNetwork
from xaihelpers.own_model import OwnModelError, is_python_file, load_function
from xaihelpers.paths import find
from xaihelpers.saliency.methods import AttentionMaps, scaled_maps
from xaihelpers.text_files import places, words

SUFFIXES = (".npz", ".safetensors", ".py")
BATCH = 32  # images that a function is asked about at a time


class OwnMaps(NamedTuple):
    """Maps of N images, as the pictures are cut."""

    maps: torch.Tensor  # (N, crop, crop) float32 in [0, 1], on the CPU
    constant: torch.Tensor  # (N,) bool, whether a map has the same value everywhere; it is then 0
    predicted: list[str] | None  # N names of classes


def is_own_maps(name: str) -> bool:
    """Whether a name is that of a file of maps, or of a Python file."""
    return Path(name).suffix in SUFFIXES


def picture_view(name: str, side: int = 224) -> ImageNetwork:
    """How pictures are cut for a model that is known by its maps alone; its `model` is None.

    The short side becomes `side` pixels, of which the middle is kept.
    """
    fields = {"resize": side, "crop": side, "interpolation": "bilinear", **IMAGENET}
    return ImageNetwork(name=name, model=None, layer="", n_classes=0, identity=f"view of {side}", **fields)


def own_maps(
    file: str | Path, data: Dataset, rows: Sequence[int], view: ImageNetwork, need_predictions: bool = False
) -> OwnMaps:
    """The maps of a file for some images of a data set, as a network's pictures are cut.

    file: a path, or but for a Python file a name under XAI_DATA. rows: N positions in `data.images`.
    Raises OwnModelError: no such file or another kind of file, without ids, with an image's map missing or
        twice, NaN, wrong shapes or numbers, no predictions where they are needed, square maps of other
        pictures that do not say what they cover; as `own_model.load_function`. Raises DatasetError for an
        image that cannot be read.
    """
    ids, rows = data.image_ids, [int(row) for row in rows]
    wanted = [ids[row] for row in rows]
    if is_python_file(file):
        maps, predicted, covers = _asked(file, data.images.path.iloc[rows].tolist())
    else:
        maps, predicted, covers = _from_file(file, wanted)
    smooth = dataclasses.replace(view, interpolation="bilinear")
    cut = []
    for values, size, name in zip(maps, image_sizes(data, rows).tolist(), wanted, strict=True):
        if values.ndim != 2 or not min(values.shape) or not np.isfinite(values).all():
            raise OwnModelError(
                f"{file}: the map of {name!r} is {tuple(values.shape)}"
                f"{'' if np.isfinite(values).all() else ' with NaN or infinite values'}: finite numbers of "
                "shape (height, width) are wanted"
            )
        low, extent = float(values.min()), float(np.ptp(values)) or 1.0
        one = Image.fromarray(((values - low) / extent).astype(np.float32))
        cut.append(np.array(smooth.cropped(_on_picture(f"{file}: the map of {name!r}", one, size, covers))))
    if need_predictions and predicted is None:
        raise OwnModelError(
            f"{file}: maps without predictions: what is attended is judged for the class that was predicted. "
            "Add the names of the predicted classes, one for each image, as `predicted`"
        )
    scaled, constant = scaled_maps(torch.from_numpy(np.stack(cut)))
    return OwnMaps(scaled, constant, predicted)


def _on_picture(whose: str, one: Image.Image, size: list[int], covers: str) -> Image.Image:
    """A map as large as its picture, of width and height `size`; 0 where it does not cover it."""
    (width, height), place = size, (0, 0)
    crop = re.fullmatch(r"(\d+)/(\d+)", covers.replace(" ", ""))
    if crop and 0 < int(crop[1]) <= int(crop[2]):
        side = max(1, round(min(size) * int(crop[1]) / int(crop[2])))
        size, place = (side, side), ((width - side) // 2, (height - side) // 2)
    elif covers not in ("", "image"):
        raise OwnModelError(f"{whose} covers {covers!r}: write image, or crop/size as 224/256")
    elif not covers and one.width == one.height and width != height:
        raise OwnModelError(
            f"{whose} is square and its picture {width} × {height}: say in `covers` if it covers all of it "
            "(image) or its middle, and which (224/256: of short sides resized to 256, 224 pixels)"
        )
    picture = Image.new("F", (width, height))
    picture.paste(one.resize(tuple(size), Image.Resampling.BILINEAR), place)
    return picture


def own_attention(
    file: str | Path,
    data: Dataset,
    rows: Sequence[int],
    view: ImageNetwork,
    device: str | torch.device = "cpu",
) -> tuple[AttentionMaps, list[str]]:
    """The maps of a file as `attention_maps` gives a network's, and the names of the classes.

    The names are those of the data, and after them what else is predicted.
    Raises OwnModelError as `own_maps`, and where nothing is said of what is predicted.
    """
    own = own_maps(file, data, rows, view, need_predictions=True)
    names = list(data.class_names)
    number_of = {words(class_name(name)): number for number, name in enumerate(names)}
    for name in own.predicted:
        if number_of.setdefault(words(class_name(name)), len(names)) == len(names):
            names.append(name)
    classes = torch.tensor([number_of[words(class_name(name))] for name in own.predicted], device=device)
    return AttentionMaps(own.maps.to(device), classes, own.constant.to(device)), names


def _asked(file: str | Path, images: list[str]) -> tuple[list[np.ndarray], list[str] | None, str]:
    function = load_function(file, "maps_of")
    maps, predicted, covers = [], [], getattr(function, "covers", "")
    for start in range(0, len(images), BATCH):
        some = [load_image(image) for image in images[start : start + BATCH]]
        returned, names = function(some), None
        if isinstance(returned, Mapping):
            if "maps" not in returned or set(returned) - {"maps", "predicted", "covers"}:
                raise OwnModelError(
                    f"{file}: the dict that maps_of returned has {', '.join(returned)}: maps and predicted, "
                    "and perhaps covers"
                )
            covers = returned.get("covers", covers)
            returned, names = returned["maps"], returned.get("predicted")
        try:
            found = [_as_array(one) for one in returned]
        except (TypeError, ValueError, RuntimeError) as error:
            raise OwnModelError(f"{file}: maps_of returned no list of maps ({error})") from error
        names = None if names is None else [str(name) for name in names]
        for what, part in (("maps", found), ("predicted", names)):
            if part is not None and len(part) != len(some):
                raise OwnModelError(
                    f"{file}: maps_of returned {len(part)} {what} for {len(some)} images: one for each image "
                    "is wanted, in their order"
                )
        maps += found
        predicted += names or []
    return maps, predicted if len(predicted) == len(images) else None, str(covers)


def _as_array(values: object) -> np.ndarray:
    values = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    return values.astype(np.float64)


def _from_file(file: str | Path, wanted: list[str]) -> tuple[list[np.ndarray], list[str] | None, str]:
    place = find(file) or Path(file)
    if place.suffix not in SUFFIXES:
        more = " A .npy holds no ids: np.savez takes them beside the maps." if place.suffix == ".npy" else ""
        raise OwnModelError(f"{file}: maps are read from {', '.join(SUFFIXES)}, not {place.suffix!r}.{more}")
    try:
        read = _read_npz if place.suffix == ".npz" else _read_safetensors
        maps, ids, predicted, covers = read(place)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise OwnModelError(
            f"{file}: no maps that can be read ({error}). It needs maps (images, height, width), image_ids "
            "(names of their files) and, perhaps, predicted (names of classes): see "
            "xaihelpers/saliency/own_maps.py"
        ) from error
    for name, values in (("image_ids", ids), ("predicted", predicted)):
        if values is not None and len(values) != len(maps):
            raise OwnModelError(f"{file}: {len(maps)} maps, but {len(values)} {name}: one for each is needed")
    last, _ = places(ids, ids)  # where a name stands last
    twice = [name for row, name in enumerate(ids) if last[row] != row]
    if twice:
        raise OwnModelError(f"{file}: image {twice[0]!r} has two maps: keep one of them")
    rows, missing = places(wanted, ids)
    if missing:
        raise OwnModelError(
            f"{file}: {len(missing)} of the {len(wanted)} images wanted have no map, the first "
            f"{missing[0]!r}; the maps there are of {', '.join(map(repr, ids[:2]))}, …"
        )
    return [_as_array(maps[row]) for row in rows], predicted and [predicted[row] for row in rows], covers


def _read_npz(place: Path):
    with np.load(place, allow_pickle=False) as content:
        names = []
        for key in ("image_ids", "predicted"):
            names.append([str(one) for one in content[key]] if key in content else None)
        if names[0] is None:
            raise KeyError("image_ids")
        return content["maps"], *names, str(content["covers"]) if "covers" in content else ""


def _read_safetensors(place: Path):
    with safe_open(place, framework="pt") as content:
        header = content.metadata() or {}
        predicted = json.loads(header["predicted"]) if "predicted" in header else None
        maps, ids = content.get_tensor("maps").float(), json.loads(header["image_ids"])
        return maps, ids, predicted, header.get("covers", "")
