"""What the judge's eye learns from pictures under attention maps, drawn anew for each batch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from recipes.annotator_training.attention_maps import ATTENDED, UnderMap, attention_map, heated, masked
from recipes.annotator_training.lesson_pictures import Picture, cropped
from worlds import aviary
from xaihelpers.instruments.eye import CELL, SIZE, SPECIES, JudgingEye, normalised
from xaihelpers.masks import upsample_maps

KINDS = {"ordinary": 0.5, "birds": 0.2, "things": 0.3}  # share of the pictures
SCENES = 0.15  # share that shows two pictures side by side, of which one is attended
NETWORKS = 0.55  # share of the pictures under the map of a network
EXCHANGED = {"networks": 0.4, "made up": 0.25}  # shares of maps that were made for another picture
HEATED, MOVED, RELIT = 0.3, 0.3, 0.5  # shares that are a heat-map, moved round the edges, in other light
SMALL = {80: 0.45, 112: 0.15, SIZE: 0.4}  # side to which a masked picture was shrunk -> share


class Case(NamedTuple):
    """A picture under a map: pixels (3, SIZE, SIZE) in [0, 1]; what is lit, bool, and part numbers, (SIZE,
    SIZE); the name's number, -1 for none; whether it is known which object is meant."""

    pixels: np.ndarray
    lit: np.ndarray
    parts: np.ndarray
    name: int
    known: bool


def drawn_picture(pictures: dict[str, list[Picture]], rng: np.random.Generator) -> tuple:
    """Pixels (3, SIZE, SIZE) uint8, part numbers as of `eye.PARTS`, and the name's number."""
    kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    picture = pictures[kind][rng.integers(len(pictures[kind]))]
    pixels, parts = cropped(picture, rng)
    parts, name = parts.numpy(), int(picture.label)
    if kind == "things":
        parts = np.where(parts > 0, parts + len(aviary.PARTS) + 1, 0).astype(np.uint8)
        name += len(SPECIES)
    return (pixels.numpy() * 255).astype(np.uint8), parts, name


def side_by_side(one: tuple, other: tuple, rng: np.random.Generator) -> tuple:
    """Two pictures on grey at half their size; part numbers of one of them, its name, and of the other."""
    half, upper = SIZE // 2, slice(SIZE // 4, SIZE // 4 + SIZE // 2)
    scene, masks = np.full((3, SIZE, SIZE), 128, np.uint8), np.zeros((2, SIZE, SIZE), np.uint8)
    for side, (pixels, parts, _) in enumerate((one, other)):
        small = Image.fromarray(pixels.transpose(1, 2, 0)).resize((half, half), Image.Resampling.BOX)
        where = slice(side * half, side * half + half)
        scene[:, upper, where] = np.asarray(small).transpose(2, 0, 1)
        masks[side][upper, where] = parts[::2, ::2]
    meant = int(rng.integers(2))
    return scene, masks[meant], (one, other)[meant][2], masks[1 - meant]


def attended_picture(
    pictures: dict[str, list[Picture]], attended: Sequence[UnderMap], rng: np.random.Generator
) -> tuple:
    """As `drawn_picture`, and a network's map over it (SIZE, SIZE): its own, or another picture's."""
    picture, heat = attended[rng.integers(len(attended))]
    heat = upsample_maps(torch.from_numpy(heat)[None], (SIZE, SIZE))[0].numpy()
    if rng.random() < EXCHANGED["networks"]:
        return *drawn_picture(pictures, rng), heat
    pixels, parts = (of.numpy() for of in cropped(picture))
    turn = (..., slice(None, None, rng.choice([1, -1])))  # round, every second time
    return (pixels * 255).astype(np.uint8)[turn], parts[turn], int(picture.label), heat[turn]


def drawn_case(
    pictures: dict[str, list[Picture]], attended: Sequence[UnderMap], rng: np.random.Generator
) -> Case:
    """One picture, or two side by side, under a map that is made up or a network's."""
    heat = None
    if rng.random() < NETWORKS:
        pixels, parts, name, heat = attended_picture(pictures, attended, rng)
    else:
        pixels, parts, name = drawn_picture(pictures, rng)
    other = np.zeros_like(parts)
    scene = heat is None and rng.random() < SCENES
    if scene:
        pair = (pixels, parts, name), drawn_picture(pictures, rng)
        pixels, parts, name, other = side_by_side(*pair, rng)
    elif rng.random() < MOVED:
        shift = tuple(rng.integers(0, SIZE, 2).tolist())
        pixels, parts = np.roll(pixels, shift, (1, 2)), np.roll(parts, shift, (0, 1))
        if heat is not None and rng.random() < 0.5:
            heat = np.roll(heat, shift, (0, 1))
    if scene and rng.random() < 0.6 or not (parts > 0).any():
        heat = (parts > 0).astype(float)
    elif heat is None:
        exchanged = not scene and rng.random() < EXCHANGED["made up"]
        heat = attention_map(rng, (drawn_picture(pictures, rng)[1] if exchanged else parts) > 0)
    light = pixels.astype(np.float32)
    if rng.random() < RELIT:
        light = light * rng.uniform(0.35, 1.25) * rng.normal(1, 0.02, (3, 1, 1)) + rng.normal(0, 6)
    show = heated if rng.random() < HEATED else masked
    lit = heat > ATTENDED
    own, others = (float((lit & (of > 0)).sum() / max((of > 0).sum(), 1)) for of in (parts, other))
    side = int(rng.choice(list(SMALL), p=list(SMALL.values())))
    shown = Image.fromarray(show(light.clip(0, 255), heat).transpose(1, 2, 0))
    shown = shown.resize((side, side), Image.Resampling.BICUBIC).resize(
        (SIZE, SIZE), Image.Resampling.BICUBIC
    )
    shown = np.float32(np.asarray(shown).transpose(2, 0, 1)) / 255
    return Case(shown, lit, parts, name, others <= 0.1 or own > others)


def judge_loss(eye: JudgingEye, lessons: tuple, rng: np.random.Generator, count: int) -> torch.Tensor:
    """Of `count` cases: cells that are lit, the object's and both, parts, coverage, precision, the name.

    Of a scene whose other picture is lit nobody can know which one is meant: only its light counts.

    lessons: pictures by kind, and pictures under maps of networks.
    """
    cases = [drawn_case(*lessons, rng) for _ in range(count)]
    device, columns = next(eye.parameters()).device, list(zip(*cases, strict=True))
    pixels, lit, parts = (torch.from_numpy(np.stack(column)).to(device) for column in columns[:3])
    names = torch.tensor(columns[3], device=device)
    known = torch.tensor(columns[4], device=device)
    found = eye(normalised(pixels).contiguous(memory_format=torch.channels_last))
    lit_object = lit & (parts > 0)
    truth = [F.avg_pool2d(of[:, None].float(), CELL)[:, 0] for of in (lit, parts > 0, lit_object)]
    is_known = known.float()[:, None, None]
    loss = F.binary_cross_entropy_with_logits(found["lit"], truth[0])
    for name, of_cells in zip(("object", "both"), truth[1:], strict=True):
        off = F.binary_cross_entropy_with_logits(found[name], of_cells, reduction="none")
        loss = loss + 2 * (off * is_known).mean()
    middle = slice(CELL // 2, None, CELL)
    numbers, seen = parts[:, middle, middle].long(), lit[:, middle, middle]
    of_parts = F.cross_entropy(found["parts"], numbers, reduction="none")
    loss = loss + 0.5 * (of_parts * (1 + 3 * (numbers > 0)) * is_known * (0.2 + 0.8 * seen)).mean()
    both = lit_object.sum((1, 2)).float()
    covered = both / (parts > 0).sum((1, 2)).clamp(min=1)
    precise = both / lit.sum((1, 2)).clamp(min=1)
    loss = loss + 2 * ((found["covered"] - covered).abs() * known).mean()
    loss = loss + 2 * ((found["precise"] - precise).abs() * known * lit.any(2).any(1)).mean()
    named = (names >= 0) & (covered > 0.12) & known
    if named.any():
        loss = loss + 0.5 * F.cross_entropy(found["names"][named], names[named])
    return loss
