"""Pictures of birds with all that can be seen on them, and how much of a bird each attribute is about.

With M the pixels of the bird and M_j those of the parts of attribute j,

    a_j = |M_j| / |M|,  and 1 for attributes of the whole bird (size, shape, main, upper and under colours).
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps

from recipes.shared import drawn_in_parallel
from worlds import aviary
from xaihelpers import datasets

SIZE = 128  # side of the pictures, in pixels


class Birds(NamedTuple):
    """N birds to learn from: of a data set's training split, and after them those drawn besides."""

    pixels: torch.Tensor  # (N, 3, SIZE, SIZE) uint8
    present: np.ndarray  # (N, A) bool, which attributes can be seen
    species: np.ndarray  # (N,)
    areas: np.ndarray  # (N, A), share of the bird that each attribute is about


def fitted_picture(image: Image.Image) -> Image.Image:
    """An image as the CLIP's own preprocessing cuts it, (SIZE, SIZE)."""
    return ImageOps.fit(image, (SIZE, SIZE), Image.Resampling.BICUBIC)


def parts_of_attributes(dataset: datasets.Dataset) -> list[list[int]]:
    """The numbers of the parts that each attribute lies on, none of an attribute of the whole bird."""
    numbers = []
    for name in dataset.attributes.name:
        parts = datasets.parts_of(name, dataset.parts)
        numbers.append([dataset.parts.index(part) for part in parts])
    return numbers


def part_areas(mask: np.ndarray, parts_of_attribute: list[list[int]], n_parts: int) -> np.ndarray:
    """a (A,) of a mask of part numbers (H, W)."""
    pixels = np.bincount(mask.ravel(), minlength=n_parts + 1)[1:]  # (P,)
    areas = [pixels[parts].sum() if parts else pixels.sum() for parts in parts_of_attribute]
    return np.array(areas) / max(pixels.sum(), 1)


def drawn_bird(
    seed: int, parts_of_attribute: list[list[int]], number: int
) -> tuple[Image.Image, np.ndarray, int, np.ndarray]:
    """A bird of a seed of its own, every second one with random attributes.

    Returns its picture (SIZE, SIZE), the attributes that can be seen (312,), its species, and a (312,).
    """
    rng = np.random.default_rng([seed, number, 92])
    bird = aviary.individual(1000 + seed, number, int(rng.integers(len(aviary.species_table()))))
    if number % 2:
        bird = aviary.shuffled(bird, rng, share=rng.uniform(0.3, 1))
    picture = aviary.draw(bird)
    shown = aviary.visible_attributes(bird, picture, rng)
    areas = part_areas(picture.parts, parts_of_attribute, len(aviary.PARTS))
    return fitted_picture(Image.fromarray(picture.image)), shown, bird.species, areas


def stacked(pictures: Iterable[Image.Image]) -> torch.Tensor:
    """Pictures as one tensor, (N, 3, SIZE, SIZE) uint8."""
    arrays = np.stack([np.asarray(picture) for picture in pictures])
    return torch.from_numpy(arrays).permute(0, 3, 1, 2).contiguous()


def training_birds(dataset: datasets.Dataset, drawn: int, seed: int) -> Birds:
    """The training split of a data set in CUB's format, and `drawn` birds of the aviary.

    Where the data set has no masks, all areas are 1.
    """
    is_train = dataset.images.train.to_numpy()
    parts = parts_of_attributes(dataset)
    new = drawn_in_parallel(partial(drawn_bird, seed, parts), drawn)
    read = [fitted_picture(datasets.load_image(path)) for path in dataset.images[is_train].path]
    annotated = datasets.image_attributes(dataset)[0].numpy()
    present = np.concatenate([annotated[is_train], *(shown[None] for _, shown, *_ in new)])
    drawn_species = np.array([label for _, _, label, _ in new], int)
    areas = np.ones(present.shape)
    if dataset.mask_names is not None:
        masks = (dataset.part_mask(int(row)) for row in np.flatnonzero(is_train))
        of_split = (part_areas(mask, parts, len(dataset.parts)) for mask in masks)
        areas = np.stack([*of_split, *(area for *_, area in new)])
    return Birds(
        stacked([*read, *(picture for picture, *_ in new)]),
        present,
        np.concatenate([dataset.labels.numpy()[is_train], drawn_species]),
        areas,
    )
