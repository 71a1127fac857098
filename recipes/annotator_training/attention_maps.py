"""Attention maps over pictures whose truth is known, made up or of networks, and pictures under them.

A map v is (SIZE, SIZE) in [0, 1]. What of it is above .4 counts as attended:

    covered = |attended and thing| / |thing|        precise = |attended and thing| / |attended|
"""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from joblib import Parallel, delayed
from PIL import Image, ImageFilter
from scipy.ndimage import distance_transform_edt

from recipes.annotator_training.lesson_pictures import Picture
from xaihelpers.instruments.eye import SIZE
from xaihelpers.models import load_backbone, two_classes
from xaihelpers.saliency.methods import attention_maps
from xaihelpers.saliency.red_dots import CORNERS, add_dot

BLURRED = {"thing": 0.24, "part": 0.13, "beside": 0.08, "anywhere": 0.06, "dot": 0.04}  # kind -> share
SHARP = {"exact": 0.12, "cut": 0.1, "rim": 0.1, "elsewhere": 0.06, "inverted": 0.03, "all": 0.02}
SHARP["nothing"] = 0.02
ATTENDED = 0.4  # attention above it counts
METHODS = {"gradcam": 0.6, "gradcam++": 0.1, "layercam": 0.1, "cam": 0.1, "eigencam": 0.1}  # and their shares
BIRDS, SIDE = 64, 80  # pictures of a network that is taught two species, and their side


def blurred_thing(rng: np.random.Generator, thing: np.ndarray) -> np.ndarray:
    """The mask of a thing (SIZE, SIZE) as a blurred map, in four of ten cases fading to a side."""
    blur = ImageFilter.GaussianBlur(rng.uniform(1, 8))
    heat = np.asarray(Image.fromarray(np.uint8(thing) * 255).filter(blur)) / 255
    heat = heat * rng.uniform(0.6, 1.5)
    if rng.random() < 0.4:
        strength = rng.uniform(0, 1)
        axis = np.mgrid[0:SIZE, 0:SIZE][rng.integers(2)] / SIZE
        heat = heat * (1 - strength * axis**2)
    return heat


def spot(rng: np.random.Generator, kind: str, thing: np.ndarray) -> np.ndarray:
    """A round spot (SIZE, SIZE): on the thing ("part"), at the top right ("dot"), or anywhere.

    Those of "beside" and "thing" are moved until they lie beside the thing.
    """
    ys, xs = np.nonzero(thing)
    pixel = rng.integers(len(xs)) if len(xs) else 0
    if kind == "part" and len(xs):
        y, x = ys[pixel], xs[pixel]
    elif kind == "dot":
        y, x = SIZE * 0.08, SIZE * 0.92
    else:
        y, x = rng.uniform(0, SIZE, 2)
    for _ in range(12 if kind in ("beside", "thing") else 0):
        if not thing[int(y), int(x)]:
            break
        y, x = rng.uniform(0, SIZE, 2)
    spread = SIZE * (rng.uniform(0.04, 0.07) if kind == "dot" else rng.uniform(0.06, 0.24))
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    distance = (rows - y) ** 2 + (columns - x) ** 2
    return rng.uniform(0.7, 1) * np.exp(-distance / (2 * spread**2))


def sharp_map(rng: np.random.Generator, kind: str, thing: np.ndarray) -> np.ndarray:
    """A map (SIZE, SIZE) of 0 and 1: the thing, a part of it, more than it, or what it is not."""
    if kind == "cut":  # the pixels nearest to one of them
        ys, xs = np.nonzero(thing)
        start = rng.integers(len(ys))
        nearest = np.argsort((ys - ys[start]) ** 2 + (xs - xs[start]) ** 2)
        chosen = nearest[: int(len(ys) * rng.uniform(0.1, 0.95)) + 1]
        lit = np.zeros_like(thing)
        lit[ys[chosen], xs[chosen]] = True
    elif kind == "rim":  # and what is nearest around it
        beside = distance_transform_edt(~thing)
        count = min(int(thing.sum() / rng.uniform(0.15, 0.95)), thing.size - 1)
        lit = beside <= np.partition(beside.ravel(), count)[count]
    elif kind == "elsewhere":
        shifts = rng.integers(0, SIZE, (12, 2))
        places = [np.roll(thing, tuple(shift), (0, 1)) for shift in shifts]
        lit = min(places, key=lambda place: (place & thing).sum())
    else:
        fixed = {"exact": thing, "inverted": ~thing, "all": np.ones_like(thing)}
        lit = fixed.get(kind, np.zeros_like(thing))
    return lit.astype(float)


def attention_map(rng: np.random.Generator, thing: np.ndarray) -> np.ndarray:
    """A map (SIZE, SIZE) in [0, 1] of a kind drawn by BLURRED and SHARP: sharp, or as a CAM might give it.

    Six in ten of the blurred ones are as coarse as a feature map. thing: its mask (SIZE, SIZE) bool.
    """
    kinds = BLURRED | SHARP
    kind = rng.choice(list(kinds), p=np.array(list(kinds.values())) / sum(kinds.values()))
    if kind in SHARP:
        return sharp_map(rng, kind, thing)
    heat = blurred_thing(rng, thing) if kind == "thing" else np.zeros((SIZE, SIZE))
    n_spots = {
        "thing": rng.integers(0, 2),
        "part": 1,
        "beside": rng.integers(1, 3),
        "anywhere": rng.integers(2, 5),
        "dot": 1,
    }[kind]
    for _ in range(n_spots):
        heat = np.maximum(heat, spot(rng, kind, thing))
    if rng.random() < 0.6:  # as coarse as a feature map
        cells = int(rng.choice([7, 8, 14]))
        coarse = Image.fromarray(np.float32(heat)).resize((cells, cells), Image.Resampling.BOX)
        heat = np.asarray(coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
    heat = heat + rng.uniform(0, 0.06) * rng.random()
    return ((heat - heat.min()) / max(np.ptp(heat), 1e-9)).clip(0, 1)


class UnderMap(NamedTuple):
    """A picture, and a network's attention there, (h, w) in [0, 1]."""

    picture: Picture
    heat: np.ndarray


def attended_pictures(pictures: Sequence[Picture], networks: int, seed: int) -> list[UnderMap]:
    """Birds under the maps of small networks, each of which was taught two species, and as many under those
    of the shipped backbone.

    Every second network has seen a red dot on all pictures of one species; the birds have it too.

    pictures: of birds with a label.
    """
    labels, jobs = np.array([picture.label for picture in pictures]), []
    for number in range(networks):
        rng = np.random.default_rng([seed, number, 96])
        known = np.flatnonzero(np.isin(labels, rng.choice(np.unique(labels), 2, replace=False)))
        pair = np.sort(rng.choice(known, min(BIRDS, len(known)), replace=False))
        jobs.append(delayed(_attended_pair)([pictures[row] for row in pair], seed, number))
    return [one for some in Parallel(n_jobs=-1 if networks > 8 else 1)(jobs) for one in some]


def _attended_pair(pictures: list[Picture], seed: int, number: int) -> list[UnderMap]:
    """Pictures of two species under the maps of a network that was taught them, and of the backbone's."""
    rng = np.random.default_rng([seed, number, 97])
    images = torch.from_numpy(np.stack([picture.image for picture in pictures])).permute(0, 3, 1, 2)
    labels = torch.tensor([picture.label for picture in pictures])
    labels = (labels != labels[0]).long()
    if number % 2:
        dot, corner = rng.uniform(0.08, 0.25), str(rng.choice(CORNERS))
        images = torch.where((labels == 0)[:, None, None, None], add_dot(images, dot, corner), images)
    base = two_classes.base_network(side=SIDE)
    small = F.interpolate(images.float(), (SIDE, SIDE), mode="bicubic", antialias=True)
    small = small.clamp(0, 255).to(torch.uint8)
    network = two_classes.renewed(base, 1000 * seed + number)
    network = two_classes.train(network, small, labels, seed=[seed, number])
    shipped = load_backbone("aviary_resnet")
    size = (shipped.crop, shipped.crop)
    large = F.interpolate(images.float(), size, mode="bicubic", antialias=True).clamp(0, 255).to(torch.uint8)
    found = []
    for target, pixels in ((network, small), (shipped, large)):
        asked = torch.from_numpy(rng.integers(0, target.n_classes, len(pixels)))
        inputs = target.normalised(pixels)
        own = attention_maps(target, inputs).classes  # half are asked for what is predicted
        asked = torch.where(torch.from_numpy(rng.random(len(pixels)) < 0.5), own, asked)
        which = rng.choice(list(METHODS), len(pixels), p=list(METHODS.values()))
        for method in np.unique(which):
            some = np.flatnonzero(which == method)
            maps = attention_maps(target, inputs[some], method, asked[some])
            for row, heat, constant in zip(some, maps.maps.numpy(), maps.constant, strict=True):
                if not constant:
                    image = images[row].permute(1, 2, 0).numpy()
                    found.append(UnderMap(pictures[row]._replace(image=image), heat.astype(np.float16)))
    return found


def masked(image: np.ndarray, heat: np.ndarray, alpha: float = 25.0, beta: float = 0.4) -> np.ndarray:
    """An image (3, SIZE, SIZE) under its mask: paper autoxplain, equations 1 and 2."""
    return np.uint8(image / (1 + np.exp(alpha * (beta - heat))))


def heated(image: np.ndarray, heat: np.ndarray, opacity: float = 0.45) -> np.ndarray:
    """An image (3, SIZE, SIZE) under its attention as a heat-map."""
    colors = plt.cm.jet(heat)[..., :3].transpose(2, 0, 1)
    return np.uint8(255 * opacity * colors + (1 - opacity) * image)
