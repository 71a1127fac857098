"""A battery of controls for a judge of attention: pictures whose right judgement is known (not in the paper).

Each picture is lit in ways of known coverage (share of the object that is lit) and precision (share of what
is lit that lies on the object), under a right, a wrong and an impossible name. A judge proves itself by
differences that have a known sign; the lit part and the name are varied apart.

| control | by a point at least, the exact mask with the right name scores above |
|---|---|
| reads the name | the same picture under another class's name |
| knows what is not there | the same picture with a name of nothing in it |
| sees coverage | a quarter of the object, and nothing else |
| sees precision | the whole object, three quarters of the light beside it |
| sees the map | a mask of the same form and size elsewhere: what is lit has the same area, and is no object |
| notices darkness | a black picture |
| sees what is lit | a scene of two in which the other one is lit (there: above the right one lit) |
| needs the picture | no picture at all; a judge that gives no score then has passed |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image
from scipy.ndimage import distance_transform_edt

from xaihelpers.datasets import Dataset
from xaihelpers.models import crop_masks, read_pixels
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.saliency.judging import judge, judge_images

DOSES = (0.75, 0.5, 0.25)
NOTHING = "teapot"  # a thing that is in no picture
EXACT, BLACK, WHOLE, INVERTED, CORNER = "exact", "black", "whole picture", "inverted", "corner spot"
ELSEWHERE = "the same form elsewhere"
WRONG_NAME, NO_OBJECT, NO_IMAGE = "wrong name", "no such object", "no image"
SCENE, OTHER_LIT = "scene of two", "scene of two, the other lit"
CONTROLS = {  # control: the condition that should score higher, and the one that should score lower
    "reads the name": (EXACT, WRONG_NAME),
    "knows what is not there": (EXACT, NO_OBJECT),
    "sees coverage": (EXACT, f"coverage {DOSES[-1]:g}"),
    "sees precision": (EXACT, f"precision {DOSES[-1]:g}"),
    "sees the map": (EXACT, ELSEWHERE),
    "notices darkness": (EXACT, BLACK),
    "sees what is lit": (SCENE, OTHER_LIT),
    "needs the picture": (EXACT, NO_IMAGE),
}


class Battery(NamedTuple):
    """What a judge is asked: a line a case, and what it is shown."""

    cases: pd.DataFrame  # condition, row (which picture), object, coverage, precision, area, right_name
    images: list[Image.Image | None]
    lit: torch.Tensor  # (cases, H, W) bool, in the picture that is shown; nothing where there is none


def build_battery(
    pixels: torch.Tensor,
    objects: torch.Tensor,
    names: Sequence[str],
    wrong_names: Sequence[str],
    kind: str = "masked",
    seed: int = 0,
) -> Battery:
    """All conditions of every picture.

    pixels: (N, 3, H, W) uint8, N at least 2. objects: (N, H, W) bool, where the object is, in each somewhere.
    names: what it is; wrong_names: what it is not. kind: of what is shown, as of `judge_images`.
    """
    rng = np.random.default_rng(seed)
    lines, pictures, lit = [], [], []

    def add(condition, row, light, name, thing=None, picture=None):
        thing = objects[row].numpy() if thing is None else thing
        both = (light & thing).sum()
        lines.append(
            {
                "condition": condition,
                "row": row,
                "object": name,
                "coverage": both / thing.sum(),
                "precision": both / light.sum() if light.any() else np.nan,
                "area": light.mean(),  # share of the picture that is lit
                "right_name": name == names[row],
            }
        )
        pictures.append(pixels[row] if picture is None else picture)
        lit.append(torch.from_numpy(light))

    for row in range(len(pixels)):
        thing, name = objects[row].numpy(), names[row]
        add(EXACT, row, thing, name)
        add(WRONG_NAME, row, thing, wrong_names[row])
        add(NO_OBJECT, row, thing, NOTHING)
        for dose in DOSES:
            add(f"coverage {dose:g}", row, _part_of(thing, dose, rng), name)
            add(f"precision {dose:g}", row, _around(thing, dose), name)
        add(BLACK, row, np.zeros_like(thing), name)
        add(WHOLE, row, np.ones_like(thing), name)
        add(INVERTED, row, ~thing, name)
        add(CORNER, row, _corner(thing), name)
        add(ELSEWHERE, row, _elsewhere(thing), name)
        following = [*range(row + 1, len(pixels)), *range(row)]
        other = next((one for one in following if names[one] != name), following[0])
        pair = [(pixels[row], thing), (pixels[other], objects[other].numpy())]
        order = rng.permutation(2)  # which side the named one is on
        scene, *lights = _scene(*(pair[place] for place in order))
        own, others = (lights[int(np.flatnonzero(order == which)[0])] for which in (0, 1))
        add(SCENE, row, own, name, own, scene)
        add(OTHER_LIT, row, others, name, own, scene)
        add(NO_IMAGE, row, np.zeros_like(thing), name)
    cases, lit = pd.DataFrame(lines), torch.stack(lit)
    shown = judge_images(torch.stack(pictures), lit.float(), kind)
    images = [
        None if condition == NO_IMAGE else image
        for condition, image in zip(cases.condition, shown, strict=True)
    ]
    return Battery(cases, images, lit)


def ask_battery(model, battery: Battery, kind: str = "masked", **settings) -> pd.DataFrame:
    """The cases of a battery with a judge's answers: the columns of `judging.judge`.

    settings: of `judging.judge`.
    """
    answers = judge(model, battery.images, battery.cases["object"].tolist(), kind, **settings)
    return pd.concat([battery.cases, answers], axis=1)


def drawn_battery(
    dataset: Dataset, target: ImageNetwork, n_images: int = 20, kind: str = "masked", seed: int = 0
) -> tuple[Battery, np.ndarray]:
    """A battery of test images of a drawn world, and which rows of the data set they are, (N,).

    target: the network whose crop of the images is shown. Wrong names are those of other classes.
    Raises ValueError: no masks of the objects, as of photographs.
    """
    test = np.flatnonzero(~dataset.images["train"])
    rows = np.sort(np.random.default_rng(seed).permutation(test)[:n_images])
    masks = crop_masks(target, dataset, rows)
    if masks is None:
        raise ValueError(f"{dataset.name} has no masks of its objects: a battery needs a drawn world")
    pixels = read_pixels(target, dataset.images["path"].iloc[rows].tolist())
    labels, n_classes = dataset.labels.numpy()[rows], len(dataset.class_names)
    shift = np.random.default_rng(seed).integers(1, n_classes, len(rows))
    names = [dataset.class_names[k] for k in labels]
    wrong_names = [dataset.class_names[k] for k in (labels + shift) % n_classes]
    return build_battery(pixels, masks > 0, names, wrong_names, kind, seed), rows


def _part_of(thing: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """The `share` of the object's pixels that lie nearest to one of them, drawn at random, (H, W) bool."""
    ys, xs = np.nonzero(thing)
    start = rng.integers(len(ys))
    nearest = np.argsort((ys - ys[start]) ** 2 + (xs - xs[start]) ** 2, kind="stable")
    chosen = nearest[: max(1, round(share * len(ys)))]
    part = np.zeros_like(thing)
    part[ys[chosen], xs[chosen]] = True
    return part


def _around(thing: np.ndarray, precision: float) -> np.ndarray:
    """The object, and around it as much as leaves this share of the light on it, (H, W) bool."""
    beside = distance_transform_edt(~thing).ravel()
    order = np.argsort(beside, kind="stable")
    lit = np.zeros(thing.size, bool)
    lit[order[: min(round(thing.sum() / precision), thing.size)]] = True
    return lit.reshape(thing.shape)


def _corner(thing: np.ndarray) -> np.ndarray:
    """A spot of a fifth of the height in the corner that lies furthest from the object, (H, W) bool."""
    height, width = thing.shape
    y, x = np.mgrid[:height, :width]
    corners = [(0, 0), (0, width - 1), (height - 1, 0), (height - 1, width - 1)]
    away = distance_transform_edt(~thing)
    top, left = max(corners, key=lambda corner: away[corner])
    return ((y - top) ** 2 + (x - left) ** 2 < (height / 5) ** 2) & ~thing


def _elsewhere(thing: np.ndarray) -> np.ndarray:
    """The object's mask, shifted around the edges and mirrored to where it meets the object least."""
    height, width = thing.shape
    places = []
    for form in (thing, thing[:, ::-1], thing[::-1]):
        for down in range(0, height, height // 6):
            places += [np.roll(form, (down, right), (0, 1)) for right in range(0, width, width // 6)]
    return min(places, key=lambda place: (place & thing).sum())


def _scene(
    left: tuple[torch.Tensor, np.ndarray], right: tuple[torch.Tensor, np.ndarray]
) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Two pictures side by side at half their size, and where the objects of both are."""
    height, width = left[1].shape
    half = (height // 2, width // 2)
    scene = torch.full((3, height, width), 128, dtype=torch.uint8)
    masks = np.zeros((2, height, width), bool)
    for place, (picture, thing) in enumerate((left, right)):
        where = (slice(height // 4, height // 4 + half[0]), slice(place * half[1], (place + 1) * half[1]))
        small = torch.nn.functional.interpolate(picture[None].float(), size=half, mode="area")[0]
        scene[:, where[0], where[1]] = small.round().to(torch.uint8)
        shrunk = torch.nn.functional.interpolate(torch.from_numpy(thing)[None, None].float(), size=half)
        masks[place][where] = shrunk[0, 0].numpy() > 0.5
    return scene, masks[0], masks[1]
