"""Pictures of both worlds with all that is to be seen in them, from which the annotator and the judge learn.

What is to be seen are the attributes of a world that are visible, and after them one column for each seat
(birds) or category (things).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from recipes.shared import group_slices
from worlds import aviary, everyday
from worlds.aviary.pose import Pose
from xaihelpers.instruments.eye import GROUPS, SEATS, SIZE, SPECIES, THINGS

NEVER = ("bill_shape", "back_pattern", "crown_color")  # groups that no lesson substitutes
FIRST_SEED = 5000  # of individuals that are drawn for training: no other world has these


class Picture(NamedTuple):
    """One drawn picture.

    image: (H, W, 3) uint8. parts: (H, W) uint8, number of the part, 0 beside the object. seen: bool, above.
    label: its class, -1 of a bird whose attributes are random. box: x, y, width, height of the object.
    was: of a bird with substituted groups, all that it would show without; None of others.
    boxes: squares in which an eye looks for its parts, (REGIONS, 4); None before it has.
    """

    image: np.ndarray
    parts: np.ndarray
    seen: np.ndarray
    label: int
    box: tuple[float, float, float, float]
    was: np.ndarray | None = None
    boxes: np.ndarray | None = None


SLICES = {world: group_slices(groups) for world, groups in GROUPS.items()}


def drawn_bird(seed: int, number: int, share: float = 0.0) -> Picture:
    """A bird of which `share` of the attribute groups say nothing of its species."""
    rng = np.random.default_rng([seed, number, 93])
    label = int(rng.integers(len(SPECIES)))
    bird = aviary.individual(FIRST_SEED + seed, number, label)
    if share:
        bird, label = aviary.shuffled(bird, rng, share=share), -1
    return _seen_bird(bird, label, rng)


def _seen_bird(bird, label: int, rng: np.random.Generator, was: np.ndarray | None = None) -> Picture:
    """The picture of an individual of the aviary."""
    drawn = aviary.draw(bird)
    seat = np.array(SEATS) == Pose(bird).seat
    seen = np.concatenate([aviary.visible_attributes(bird, drawn, rng), seat])
    return Picture(drawn.image, drawn.parts, seen, label, tuple(drawn.box), was)


def substituted_bird(seed: int, number: int, groups: Sequence[str] = (), count: int = 1) -> Picture:
    """An ordinary bird of which `count` groups have other values: its species says the wrong thing there.

    groups: of which they are; by default all that are drawn, but for `NEVER`.
    """
    rng = np.random.default_rng([seed, number, 95])
    label = int(rng.integers(len(SPECIES)))
    bird = ordinary = aviary.individual(FIRST_SEED + seed, number, label)
    groups = groups or [group for group in ordinary.values if group not in NEVER]
    for group in rng.choice(groups, count, replace=False):
        known = {*ordinary.values[group], *aviary.usual_individual(label).values[group]}
        others = [value for value in aviary.GROUPS[group] if value not in known]
        usual = [value for value in aviary.species_table()[group].str.split("/").str[0] if value in others]
        value = rng.choice(usual if usual and rng.random() < 0.6 else others)
        bird = aviary.substitute(bird, f"has_{group}::{value}")
    was = np.append(aviary.true_attributes(ordinary), np.zeros(len(SEATS), bool))
    return _seen_bird(bird, label, rng, was)


def mixed_bird(seed: int, number: int) -> Picture:
    """Of ten birds nine with random attributes, and an ordinary one as a reminder."""
    return drawn_bird(seed, number, float(number % 10 > 0))


def drawn_thing(seed: int, number: int) -> Picture:
    """An everyday thing; three of four in colours and places at random."""
    rng = np.random.default_rng([seed, number, 94])
    label = int(rng.integers(len(THINGS)))
    thing = everyday.thing(FIRST_SEED + seed, number, list(everyday.CATEGORIES)[label])
    if number % 4:
        thing = everyday.shuffled(thing, rng)
    drawn = everyday.draw(thing)
    seen = np.concatenate([everyday.true_attributes(thing, drawn.parts), np.arange(len(THINGS)) == label])
    return Picture(drawn.image, drawn.parts, seen, label, (0, 0, *drawn.parts.shape[::-1]))


DRAWN = {
    "birds": mixed_bird,
    "substituted": substituted_bird,
    "ordinary": drawn_bird,
    "things": drawn_thing,
}


def cropped(picture: Picture, rng: np.random.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """A picture at SIZE x SIZE: pixels (3, SIZE, SIZE) in [0, 1] and part numbers (SIZE, SIZE) uint8.

    rng: takes, every second time, a square that holds the whole object, and turns every second one round.
    """
    image, parts, side = picture.image, picture.parts, len(picture.image)
    x, y, width, height = map(float, picture.box)
    if rng is not None and rng.random() < 0.5:
        side = int(rng.uniform(min(side, 1.02 * max(width, height)), side))
        left = _start(rng, x, width, side, len(image))
        upper = _start(rng, y, height, side, len(image))
        image, parts = (of[upper : upper + side, left : left + side] for of in (image, parts))
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    pixels = F.interpolate(pixels, (SIZE, SIZE), mode="bicubic", antialias=True).clamp(0, 255) / 255
    numbers = F.interpolate(torch.from_numpy(parts)[None, None].float(), (SIZE, SIZE)).to(torch.uint8)
    if rng is not None and rng.random() < 0.5:
        pixels, numbers = pixels.flip(3), numbers.flip(3)
    return pixels[0], numbers[0, 0]


def _start(rng: np.random.Generator, low: float, length: float, side: int, size: int) -> int:
    """Where a window of `side` begins that holds an object of `length` from `low` on, within `size`."""
    ends = sorted((max(0.0, low + length - side), min(low, float(size - side))))
    return int(np.clip(rng.uniform(*ends), 0, size - side))
