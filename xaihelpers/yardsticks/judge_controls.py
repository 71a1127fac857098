"""A battery of controls for a judge of attention: pictures whose right judgement is known (not in the paper).

Each picture is lit in ways of known coverage (share of the object that is lit) and precision (share of what
is lit that lies on the object), under a right, a wrong and an impossible name; light and name are varied
apart. `judge_card` says what a judge's scores have to do with them.

| condition | what is lit | under which name |
|---|---|---|
| exact | the object, and nothing else | the right one |
| wrong name, look-alike, no such object | the same | another family's, its own family's, of nothing in it |
| coverage .75, .5, .25 | a part of the object | the right one |
| precision .75, .5, .25 | the object, and more and more around it | the right one |
| the same form elsewhere, a quarter of it | as much light as in exact and in coverage .25, beside it | |
| moved, in less light | the exact one, in a corner of the picture; of a picture half as bright | |
| attention of a network | soft maps of Grad-CAM, of another class's Grad-CAM, and of EigenCAM | |
| black, scene of two (the other lit), no image | nothing; two pictures, one of them lit; no picture | |
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image
from scipy.ndimage import distance_transform_edt

from xaihelpers.datasets import DRAWN, Dataset, load
from xaihelpers.kernels.masking import upsample_maps
from xaihelpers.models import crop_masks, read_pixels
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.saliency.judging import judge, judge_images
from xaihelpers.saliency.methods import attention_maps

DOSES = (0.75, 0.5, 0.25)
NOTHING = "teapot"  # a thing that is in no picture
LIT = 0.4  # attention above it counts as lit: the paper's beta
FIRST_SEED = 10_000  # of the worlds that are drawn for batteries: no other world has these birds
PER_CLASS = 4  # pictures of a class in such a world
EXACT, BLACK, MOVED, DARKER = "exact", "black", "moved", "in less light"
WRONG_NAME, LOOK_ALIKE, NO_OBJECT, NO_IMAGE = "wrong name", "look-alike", "no such object", "no image"
ELSEWHERE, PART_ELSEWHERE = "the same form elsewhere", "a quarter of it elsewhere"
SCENE, OTHER_LIT = "scene of two", "scene of two, the other lit"
OWN, OTHERS, COMPONENT = "Grad-CAM", "Grad-CAM of another class", "EigenCAM"
NETWORKS = (OWN, OTHERS, COMPONENT)  # conditions whose light is a network's attention


class Battery(NamedTuple):
    """What a judge is asked: a line a case, and what it is shown."""

    # condition, row (which picture), object, coverage, precision, area, brightness, right_name
    cases: pd.DataFrame
    images: list[Image.Image | None]
    lit: torch.Tensor  # (cases, H, W) bool, in the picture that is shown; nothing where there is none
    of_objects: np.ndarray  # (N,), how bright each picture's object is, in [0, 1]


def build_battery(
    pixels: torch.Tensor,
    objects: torch.Tensor,
    names: Sequence[str],
    wrong_names: Sequence[str],
    look_alikes: Sequence[str] = (),
    maps: Mapping[str, torch.Tensor] | None = None,
    kind: str = "masked",
    seed: int = 0,
) -> Battery:
    """All conditions of every picture.

    pixels: (N, 3, H, W) uint8, N at least 2. objects: (N, H, W) bool, where the object is, in each somewhere.
    names: what it is; wrong_names: what it is not. look_alikes: what else of its family there is, "" where it
        has none. maps: condition -> attention (N, h, w) in [0, 1] of a network.
    kind: of what is shown, as of `judge_images`.
    """
    rng = np.random.default_rng(seed)
    lines, pictures, lights = [], [], []

    def add(condition, row, light, name, thing=None, picture=None):
        thing = objects[row].numpy() if thing is None else thing
        lit = light > LIT
        both = (lit & thing).sum()
        lines.append(
            {
                "condition": condition,
                "row": row,
                "object": name,
                "coverage": both / thing.sum(),
                "precision": both / lit.sum() if lit.any() else np.nan,
                "area": lit.mean(),  # share of the picture that is lit
                "right_name": name == names[row],
            }
        )
        pictures.append(pixels[row] if picture is None else picture)
        lights.append(torch.from_numpy(np.float32(light)))

    of_networks = {of: upsample_maps(some, pixels.shape[2:]).numpy() for of, some in (maps or {}).items()}
    for row in range(len(pixels)):
        thing, name = objects[row].numpy(), names[row]
        add(EXACT, row, thing, name)
        add(WRONG_NAME, row, thing, wrong_names[row])
        if row < len(look_alikes) and look_alikes[row]:
            add(LOOK_ALIKE, row, thing, look_alikes[row])
        add(NO_OBJECT, row, thing, NOTHING)
        for dose in DOSES:
            add(f"coverage {dose:g}", row, _part_of(thing, dose, rng), name)
            add(f"precision {dose:g}", row, _around(thing, dose), name)
        elsewhere = _elsewhere(thing)
        add(ELSEWHERE, row, elsewhere, name)
        add(PART_ELSEWHERE, row, _part_of(elsewhere, DOSES[-1], rng), name)
        down, right = _to_a_corner(thing, rng)
        moved = np.roll(thing, (down, right), (0, 1))
        add(MOVED, row, moved, name, moved, pixels[row].roll((down, right), (1, 2)))
        add(DARKER, row, thing, name, thing, pixels[row] // 2)
        for condition, of_network in of_networks.items():
            add(condition, row, of_network[row], name)
        add(BLACK, row, np.zeros_like(thing), name)
        following = [*range(row + 1, len(pixels)), *range(row)]
        other = next((one for one in following if names[one] != name), following[0])
        pair = [(pixels[row], thing), (pixels[other], objects[other].numpy())]
        order = rng.permutation(2)  # which side the named one is on
        scene, *sides = _scene(*(pair[place] for place in order))
        own, others = (sides[int(np.flatnonzero(order == which)[0])] for which in (0, 1))
        add(SCENE, row, own, name, own, scene)
        add(OTHER_LIT, row, others, name, own, scene)
        add(NO_IMAGE, row, np.zeros_like(thing), name)
    cases, lights = pd.DataFrame(lines), torch.stack(lights)
    shown = judge_images(torch.stack(pictures), lights, kind)
    cases["brightness"] = [np.asarray(image).mean() / 255 for image in shown]
    images = [
        None if condition == NO_IMAGE else image
        for condition, image in zip(cases.condition, shown, strict=True)
    ]
    of_objects = [
        picture.float().mean(0)[thing].mean() / 255 for picture, thing in zip(pixels, objects, strict=True)
    ]
    return Battery(cases, images, lights > LIT, np.array(of_objects))


def ask_battery(model, battery: Battery, kind: str = "masked", **settings) -> pd.DataFrame:
    """The cases of a battery with a judge's answers: the columns of `judging.judge`.

    settings: of `judging.judge`.
    """
    answers = judge(model, battery.images, battery.cases["object"].tolist(), kind, **settings)
    return pd.concat([battery.cases, answers], axis=1)


def battery_world(world: str = "aviary", seed: int = 0) -> Dataset:
    """Pictures of a drawn world that are in no other: drawn anew for each seed, at first use.

    world: one of `datasets.DRAWN`. Raises ValueError: another, whose pictures cannot be drawn.
    """
    if world not in DRAWN:
        raise ValueError(f"a battery draws its pictures anew: name a drawn world ({', '.join(DRAWN)})")
    number = FIRST_SEED + seed
    return load(DRAWN[world](f"{world}_battery_{number}", images_per_class=PER_CLASS, seed=number))


def drawn_battery(
    dataset: Dataset, target: ImageNetwork, n_images: int = 60, kind: str = "masked", seed: int = 0
) -> tuple[Battery, np.ndarray]:
    """A battery of pictures of a drawn world, and which rows of the data set they are, (N,).

    dataset: as of `battery_world`. target: the network whose crop of the images is shown, and whose attention
        is. Wrong names are those of other classes, those of look-alikes end in the same word.
    """
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(dataset.images))[:n_images])
    things = crop_masks(target, dataset, rows) > 0
    pixels = read_pixels(target, dataset.images["path"].iloc[rows].tolist())
    classes = dataset.class_names
    names, wrong_names, look_alikes, others = [], [], [], []
    for label in dataset.labels.numpy()[rows]:
        name, family = classes[label], classes[label].split()[-1]
        own_family = [other for other in classes if other != name and other.split()[-1] == family]
        strangers = [other for other in classes if other != name and other not in own_family]
        names.append(name)
        wrong_names.append(str(rng.choice(strangers)))
        look_alikes.append(str(rng.choice(own_family)) if own_family else "")
        others.append(classes.index(wrong_names[-1]))
    device = next(target.model.parameters()).device
    inputs = target.normalised(pixels.to(device))
    others = torch.tensor(others, device=device) % target.n_classes
    asked = {OWN: ("gradcam", None), OTHERS: ("gradcam", others), COMPONENT: ("eigencam", None)}
    maps = {name: attention_maps(target, inputs, *how).maps.cpu() for name, how in asked.items()}
    return build_battery(pixels, things, names, wrong_names, look_alikes, maps, kind, seed), rows


def other_names(names: Sequence[str], seed: int = 0) -> dict[str, dict[str, str]]:
    """For each kind of name what every class is called under it: its own, a look-alike's, ..., a thing's.

    names: of the classes in plain words; look-alikes end in the same word. A class without one is left out.
    """
    rng = np.random.default_rng(seed)
    found = {"its own": dict(zip(names, names, strict=True)), "a look-alike's": {}, "another family's": {}}
    for name in names:
        for under, wanted in (("a look-alike's", True), ("another family's", False)):
            others = [one for one in names if (one.split()[-1] == name.split()[-1]) == wanted and one != name]
            if others:
                found[under][name] = str(rng.choice(others))
    return found | {"a thing's": dict.fromkeys(names, NOTHING)}


def _to_a_corner(thing: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
    """How many pixels down and right an object (H, W) goes to lie in a corner of its picture."""
    shift = []
    for axis, size in enumerate(thing.shape):
        inside = np.flatnonzero(thing.any(1 - axis))
        shift.append(int(rng.choice([-inside[0], size - 1 - inside[-1]])))
    return shift[0], shift[1]


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
