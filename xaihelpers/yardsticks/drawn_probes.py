"""Pictures that ask a model what its test images cannot: the same drawn bird before and after one change."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from worlds import aviary
from xaihelpers import paths
from xaihelpers.datasets import Dataset, choose_concepts
from xaihelpers.substitute import counterfactual_pair, substitutable


class Probes(NamedTuple):
    """Drawn pictures and their truth."""

    folder: Path
    pictures: pd.DataFrame  # id, label, attribute; rows 2 p and 2 p + 1 are pair p, before and after
    truth: torch.Tensor  # (n, A) bool, the attributes of the data set that can be seen, row by row

    @property
    def ids(self) -> list[str]:
        """File names of the pictures, in order."""
        return self.pictures["id"].tolist()

    @property
    def files(self) -> list[Path]:
        """Paths of the pictures, in order."""
        return [self.folder / name for name in self.ids]


def draw_probes(world: Dataset, n_pairs: int, seed: int = 0) -> Probes:
    """Pairs of a bird before and after an attribute is set; from the cache where drawn before.

    world: the aviary. Raises FolderError where the cache cannot be written.
    """
    about = f"{world.name} {n_pairs} {seed} {aviary.RENDERER_VERSION} {world.image_ids[:50]}"
    place = paths.cache_home() / "probes" / hashlib.sha256(about.encode()).hexdigest()[:12]
    table, truth = place / "probes.csv", place / "truth.npy"
    if not table.is_file():
        paths.ensure_writable(place, "make room or permit writing there")
        drawn = [*_pairs(world, n_pairs, seed)]
        for (name, *_), picture, _ in drawn:
            Image.fromarray(picture).save(place / name)
        np.save(truth, np.array([seen for _, _, seen in drawn]))
        pictures = pd.DataFrame([about for about, _, _ in drawn], columns=["id", "label", "attribute"])
        paths.write_whole(table, pictures.to_csv(index=False).encode())
    return Probes(place, pd.read_csv(table, keep_default_na=False), torch.from_numpy(np.load(truth)))


def _pairs(world: Dataset, n_pairs: int, seed: int) -> Iterator[tuple[list, np.ndarray, np.ndarray]]:
    """The row of the table, the picture and its truth, before and after one attribute is set."""
    rng = np.random.default_rng([seed, 61])
    names = world.attributes["name"].to_numpy()
    asked = world.attributes["name"].isin(choose_concepts(world)).to_numpy()
    choices = np.argwhere(substitutable(world).numpy() & asked)  # (m, 2): class, attribute
    for number, (label, column) in enumerate(rng.choice(choices, n_pairs)):
        attribute = str(names[column])
        pair = counterfactual_pair(9000 + seed, number, world.class_names[label], attribute)
        states = {"before": (pair.before, pair.truth_before), "after": (pair.after, pair.truth)}
        for kind, (picture, seen) in states.items():
            yield [f"pair-{number:03d}-{kind}.png", int(label), attribute], picture.image, seen.numpy()
