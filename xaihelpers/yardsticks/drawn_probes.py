"""Pictures that ask a model what its own test images cannot: with one attribute changed, one part covered.

Pairs are the same drawn bird before and after one attribute is set. A test image is shown whole, with one
part in plain grey, and with another one.
"""

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
from xaihelpers.datasets import Dataset, choose_concepts, image_attributes, load_image, parts_of
from xaihelpers.substitute import counterfactual_pair, substitutable

GREY = 128
FEWEST = 60  # pixels of a part that is covered


class Probes(NamedTuple):
    """Drawn pictures and their truth."""

    folder: Path
    pictures: pd.DataFrame  # id, kind, number, label, attribute, part; row n is row n of `truth`
    truth: torch.Tensor  # (n, A) bool, the attributes of the data set that can be seen

    @property
    def ids(self) -> list[str]:
        """File names of the pictures, in order."""
        return self.pictures["id"].tolist()

    @property
    def files(self) -> list[Path]:
        """Paths of the pictures, in order."""
        return [self.folder / name for name in self.ids]

    def rows(self, kind: str) -> np.ndarray:
        """Rows of the pictures of one kind, by number: "before", "after", "whole", "one" or "other"."""
        return np.flatnonzero(self.pictures["kind"] == kind)


def draw_probes(world: Dataset, n_pairs: int, n_covered: int, seed: int = 0) -> Probes:
    """Pairs on the aviary, and covered test images on a drawn world; from the cache where drawn before.

    n_pairs: pairs of a bird before and after. n_covered: test images of which two parts are covered in turn.
    Raises FolderError where the cache cannot be written.
    """
    about = f"{world.name} {n_pairs} {n_covered} {seed} {aviary.RENDERER_VERSION} {world.image_ids[:50]}"
    place = paths.cache_home() / "probes" / hashlib.sha256(about.encode()).hexdigest()[:12]
    table, truth = place / "probes.csv", place / "truth.npy"
    if not table.is_file():
        paths.ensure_writable(place, "make room or permit writing there")
        drawn = [*_covered(world, n_covered, seed)]
        if (world.root / "aviary.json").is_file():
            drawn = [*_pairs(world, n_pairs, seed), *drawn]
        for (name, *_), picture, _ in drawn:
            Image.fromarray(picture).save(place / name)
        np.save(truth, np.array([seen for _, _, seen in drawn]))
        columns = ["id", "kind", "number", "label", "attribute", "part"]
        pictures = pd.DataFrame([about for about, _, _ in drawn], columns=columns)
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
            name = f"pair-{number:03d}-{kind}.png"
            yield [name, kind, number, int(label), attribute, ""], picture.image, seen.numpy()


def _covered(world: Dataset, n_covered: int, seed: int) -> Iterator[tuple[list, np.ndarray, np.ndarray]]:
    """The same of a test image whole, with one part in grey and with another."""
    rng = np.random.default_rng([seed, 62])
    on_part = [set(parts_of(name, world.mask_names)) for name in world.attributes["name"]]
    groups = sorted({tuple(sorted(parts)) for parts in on_part if parts})
    seen, certainty = image_attributes(world)
    visible = (seen & (certainty > 1)).numpy()
    number = 0
    for row in rng.permutation(np.flatnonzero(~world.train.numpy())):
        if number == n_covered:
            return
        mask, places = world.part_mask(int(row)), {}
        for group in groups:
            places[group] = np.isin(mask, [1 + world.mask_names.index(part) for part in group])
        large = [group for group in groups if places[group].sum() >= FEWEST]
        if len(large) < 2:
            continue
        one, other = (large[place] for place in rng.permutation(len(large))[:2])
        image = np.array(load_image(world.images["path"].iloc[row]))
        label = int(world.images["label"].iloc[row])
        for kind, hidden in {"whole": (), "one": one, "other": other}.items():
            picture, left = image.copy(), visible[row].copy()
            if hidden:
                picture[places[hidden]] = GREY
                left[[bool(parts & set(hidden)) for parts in on_part]] = False
            name = f"cover-{number:03d}-{kind}.png"
            yield [name, kind, number, label, "", "|".join(hidden)], picture, left
        number += 1
