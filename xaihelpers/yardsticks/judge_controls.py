"""A battery of controls for a judge of attention: pictures whose right judgement is known (not in the paper).

Each picture is lit in ways of known coverage (share of the object that is lit) and precision (share of what
is lit that lies on the object), under a right, a wrong and an impossible name; light and name are varied
apart. `judge_card` says what a judge's scores have to do with them.

| condition | what is lit | under which name |
|---|---|---|
| exact | the object, and nothing else | the right one |
| wrong name, look-alike, no such object | the same | another family's, its own family's, of nothing in it |
| coverage .75, .5, .2 | a part of the object | the right one |
| precision .75, .5, .2 | the object, and more and more around it | the right one |
| the same form elsewhere, a fifth of it | as much light as in exact and in coverage .2, beside it | |
| moved, in less light | the exact one, in a corner of the picture; of a picture half as bright | |
| attention of a network | soft maps of Grad-CAM, of another class's Grad-CAM, and of EigenCAM | |
| ..., on a classmate | some of these maps on another picture of the class, its object anywhere | right |
| black, scene of two (the other lit), no image | nothing; two pictures, one of them lit; no picture | |
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from PIL import Image
from scipy.ndimage import distance_transform_edt

from worlds import aviary
from xaihelpers.datasets import load
from xaihelpers.masks import upsample_maps
from xaihelpers.models import crop_masks, load_backbone, read_pixels
from xaihelpers.saliency.judging import judge, judge_images
from xaihelpers.saliency.methods import attention_maps

DOSES = (0.75, 0.5, 0.2)
NOTHING = "teapot"  # a thing that is in no picture
LIT = 0.4  # attention above it counts as lit: the paper's beta
FIRST_SEED = 10_000  # of the worlds that are drawn for batteries: no other world has these birds
EXACT, BLACK, MOVED, DARKER = "exact", "black", "moved", "in less light"
WRONG_NAME, LOOK_ALIKE, NO_OBJECT, NO_IMAGE = "wrong name", "look-alike", "no such object", "no image"
ELSEWHERE, PART_ELSEWHERE = "the same form elsewhere", "a fifth of it elsewhere"
SCENE, OTHER_LIT = "scene of two", "scene of two, the other lit"
OWN, OTHERS, COMPONENT = "Grad-CAM", "Grad-CAM of another class", "EigenCAM"
NETWORKS = (OWN, OTHERS, COMPONENT)  # conditions whose light is a network's attention
SHARP = (EXACT, "coverage 0.5", "precision 0.5")
ON_MATE = ", on a classmate"  # ends the name of a condition whose light is that of another picture


class Birds(NamedTuple):
    """N pictures, 2 or more, and what a battery makes of them."""

    pixels: torch.Tensor  # (N, 3, H, W) uint8
    parts: torch.Tensor  # (N, H, W) int, the number of the object's part at each pixel, 0 beside it
    part_names: list[str]  # of the parts 1, 2, ...
    # N rows, what the object is: own, wrong (what it is not), and alike (what else of its family there is,
    # "" where it has none)
    names: pd.DataFrame
    maps: Mapping[str, torch.Tensor]  # condition -> attention (N, h, w) in [0, 1] of a network
    # of another picture of each name, as above; their objects are shifted at random, and stay whole
    mates: tuple[torch.Tensor, torch.Tensor]


class Battery(NamedTuple):
    """What a judge is asked: a line a case, and what it is shown."""

    # condition, row (which picture), object, coverage, precision, area, brightness, right_name
    cases: pd.DataFrame
    images: list[Image.Image | None]
    lit: torch.Tensor  # (cases, H, W) bool, in the picture that is shown; nothing where there is none
    of_objects: np.ndarray  # (N,), in [0, 1], how bright each picture's object is
    parts: torch.Tensor  # as of `Birds`, with their names
    part_names: list[str]


def build_battery(birds: Birds, kind: str = "masked", seed: int = 0) -> Battery:
    """All conditions of every picture. kind: of what is shown, as of `judge_images`."""
    pixels, parts, part_names, names, maps, mates = birds
    rng = np.random.default_rng(seed)
    objects = (parts > 0).numpy()
    lines, pictures, lights = [], [], []

    def add(condition, row, light, name, thing=None, picture=None):
        thing = objects[row] if thing is None else thing
        lit = light > LIT
        both = (lit & thing).sum()
        line = {"condition": condition, "row": row, "object": name}
        line |= {"coverage": both / thing.sum(), "precision": both / lit.sum() if lit.any() else np.nan}
        line["area"] = lit.mean()  # share of the picture that is lit
        lines.append(line | {"right_name": name == names.own[row]})
        pictures.append(pixels[row] if picture is None else picture)
        lights.append(torch.from_numpy(np.float32(light)))

    of_mates, moves = (mates[1] > 0).numpy(), np.random.default_rng([seed, 1])
    of_networks = {of: upsample_maps(some, pixels.shape[2:]).numpy() for of, some in maps.items()}
    for row, (name, wrong, alike) in enumerate(names[["own", "wrong", "alike"]].itertuples(index=False)):
        thing = objects[row]
        named = {EXACT: thing} | {condition: maps[row] for condition, maps in of_networks.items()}
        add(WRONG_NAME, row, thing, wrong)
        if alike:
            add(LOOK_ALIKE, row, thing, alike)
        add(NO_OBJECT, row, thing, NOTHING)
        for dose in DOSES:
            named[f"coverage {dose:g}"] = _part_of(thing, dose, rng)
            named[f"precision {dose:g}"] = _around(thing, dose)
        elsewhere = _elsewhere(thing)
        add(ELSEWHERE, row, elsewhere, name)
        add(PART_ELSEWHERE, row, _part_of(elsewhere, DOSES[-1], rng), name)
        shift = [int(rng.choice(ends)) for ends in _room(thing)]  # to a corner
        moved = np.roll(thing, shift, (0, 1))
        add(MOVED, row, moved, name, moved, _shifted(pixels[row], shift))
        add(DARKER, row, thing, name, thing, pixels[row] // 2)
        for condition, light in named.items():
            add(condition, row, light, name)
        for condition in (*SHARP, *of_networks):
            shift = [int(moves.integers(*ends, endpoint=True)) for ends in _room(of_mates[row])]
            mate = np.roll(of_mates[row], shift, (0, 1))
            add(condition + ON_MATE, row, named[condition], name, mate, _shifted(mates[0][row], shift))
        add(BLACK, row, np.zeros_like(thing), name)
        following = [*range(row + 1, len(pixels)), *range(row)]
        other = next((one for one in following if names.own[one] != name), following[0])
        order = rng.permutation([row, other])  # the one on the left first
        scene, sides = _scene(pixels[order], objects[order])
        own, others = (sides[int(np.flatnonzero(order == one)[0])] for one in (row, other))
        add(SCENE, row, own, name, own, scene)
        add(OTHER_LIT, row, others, name, own, scene)
        add(NO_IMAGE, row, np.zeros_like(thing), name)
    cases, lights = pd.DataFrame(lines), torch.stack(lights)
    shown = judge_images(torch.stack(pictures), lights, kind)
    cases["brightness"] = [np.asarray(image).mean() / 255 for image in shown]
    for case in np.flatnonzero(cases.condition == NO_IMAGE):
        shown[case] = None
    bright = [one.float().mean(0)[thing].mean() / 255 for one, thing in zip(pixels, parts > 0, strict=True)]
    return Battery(cases, shown, lights > LIT, np.array(bright), parts, part_names)


def drawn_battery(n_images: int = 60, kind: str = "masked", seed: int = 0) -> Battery:
    """A battery of birds that are in no other world."""
    return build_battery(drawn_birds(n_images, seed), kind, seed)


def drawn_birds(n_images: int = 60, seed: int = 0) -> Birds:
    """Birds that are in no other world, at most four of a species: drawn anew for each seed, at first use.

    They are shown in the crop of the shipped network, whose attention is asked for as well. Names of
    look-alikes end in the same word; a classmate is the next picture of the species.
    """
    number = FIRST_SEED + seed
    world = load(aviary.ensure(f"aviary_battery_{number}", images_per_class=4, seed=number))
    target = load_backbone("aviary_resnet")
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(world.images))[:n_images])
    labels = world.labels.numpy()
    following = []
    for row in rows:
        of_class = np.flatnonzero(labels == labels[row])
        following.append(of_class[(np.searchsorted(of_class, row) + 1) % len(of_class)])
    paths, parts = world.images["path"], crop_masks(target, world, rows)
    pixels, of_mates = (read_pixels(target, paths.iloc[some].tolist()) for some in (rows, following))
    mates = of_mates, crop_masks(target, world, following)
    classes, names = world.class_names, []
    for label in labels[rows]:
        name = classes[label]
        strangers, kin = (_others(name, classes, of_family) for of_family in (False, True))
        names.append([name, str(rng.choice(strangers)), str(rng.choice(kin)) if kin else ""])
    names = pd.DataFrame(names, columns=["own", "wrong", "alike"])
    inputs = target.normalised(pixels)
    others = torch.tensor([classes.index(name) for name in names.wrong]) % target.n_classes
    asked = {OWN: ("gradcam", None), OTHERS: ("gradcam", others), COMPONENT: ("eigencam", None)}
    maps = {name: attention_maps(target, inputs, *how).maps for name, how in asked.items()}
    return Birds(pixels, parts, list(world.parts), names, maps, mates)


def ask_battery(model, battery: Battery, kind: str = "masked", **settings) -> pd.DataFrame:
    """The cases of a battery with a judge's answers, both as of `judging.judge`, whose settings they are."""
    answers = judge(model, battery.images, battery.cases["object"].tolist(), kind, **settings)
    return pd.concat([battery.cases, answers], axis=1)


def _others(name: str, names: Sequence[str], of_family: bool) -> list[str]:
    """The other names that end in the same word, or those that do not."""
    return [one for one in names if one != name and (one.split()[-1] == name.split()[-1]) == of_family]


def _shifted(picture: torch.Tensor, shift: Sequence[int]) -> torch.Tensor:
    """A picture (3, H, W) moved down and right, round the edges; by numpy, which is quicker at it."""
    return torch.from_numpy(np.roll(picture.numpy(), shift, (1, 2)))


def _room(thing: np.ndarray) -> list[tuple[int, int]]:
    """Down and right, the least and the greatest shift in pixels that keep the object (H, W) whole."""
    inside = [np.flatnonzero(thing.any(1 - axis)) for axis in range(2)]
    return [(-of[0], size - 1 - of[-1]) for of, size in zip(inside, thing.shape, strict=True)]


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
    order = np.argsort(distance_transform_edt(~thing).ravel(), kind="stable")
    lit = np.zeros(thing.size, bool)
    lit[order[: round(thing.sum() / precision)]] = True
    return lit.reshape(thing.shape)


def _elsewhere(thing: np.ndarray) -> np.ndarray:
    """The object's mask, shifted around the edges and mirrored to where it meets the object least."""
    steps = [range(0, size, size // 6) for size in thing.shape]
    places = []
    for form, shift in product((thing, thing[:, ::-1], thing[::-1]), product(*steps)):
        places.append(np.roll(form, shift, (0, 1)))
    return min(places, key=lambda place: (place & thing).sum())


def _scene(pictures: torch.Tensor, things: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
    """Two pictures (2, 3, H, W) side by side at half their size, and where the objects of both are."""
    _, height, width = things.shape
    half = (height // 2, width // 2)
    scene = torch.full((3, height, width), 128, dtype=torch.uint8)
    masks = np.zeros((2, height, width), bool)
    small = F.interpolate(pictures.float(), size=half, mode="area").round().to(torch.uint8)
    shrunk = F.interpolate(torch.from_numpy(things)[:, None].float(), size=half)[:, 0].numpy() > 0.5
    for place in range(2):
        where = (slice(height // 4, height // 4 + half[0]), slice(place * half[1], (place + 1) * half[1]))
        scene[:, where[0], where[1]] = small[place]
        masks[place][where] = shrunk[place]
    return scene, masks
