"""Pictures that ask a model what its own test images cannot: with one attribute changed, one part covered.

Pairs are the same drawn bird before and after one attribute is set; covered pictures are a test image whole,
with a part in plain grey, and with another part in plain grey. Whoever has a model gives its outputs for
these pictures, by their ids, in one file.

| kind | id | truth |
|---|---|---|
| before, after | `pair-012-before.png`, `pair-012-after.png` | the renderer's |
| whole, covered | `cover-007-whole.png`, `cover-007-one.png`, `cover-007-other.png` | what is not covered |
"""

import hashlib
import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from xaihelpers import paths
from xaihelpers.datasets import (
    Dataset,
    DatasetError,
    choose_concepts,
    image_attributes,
    load_image,
    parts_of,
)
from xaihelpers.substitute import counterfactual_pair, substitutable
from xaihelpers.worlds import aviary

log = logging.getLogger(__name__)
GREY = 128
FEWEST = 60  # pixels of a part that is covered
COLUMNS = ["id", "kind", "number", "label", "attribute", "part"]


class Probes(NamedTuple):
    """Drawn pictures and their truth."""

    folder: Path
    pictures: pd.DataFrame  # COLUMNS; row n is row n of `truth`
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


def draw_probes(world: Dataset, n_pairs: int, n_covered: int, seed: int = 0, folder: str = "") -> Probes:
    """Pairs on the aviary, and covered test images on any drawn world; from the cache where drawn before.

    n_pairs: pairs of a bird before and after. n_covered: test images of which two parts are covered in turn.
    folder: where the pictures lie; empty takes one in the cache.
    Raises DatasetError for a world that is not drawn and for a folder that holds other probes, FolderError
        where the folder cannot be written.
    """
    if not world.drawn:
        raise DatasetError(f"{world.name} is no drawn world: nobody can draw its pictures with one change")
    about = f"{world.name} {n_pairs} {n_covered} {seed} {aviary.RENDERER_VERSION} {world.image_ids[:50]}"
    home = paths.cache_home() / "probes" / hashlib.sha256(about.encode()).hexdigest()[:12]
    place = Path(folder) if folder else home
    done, settings = place / "probes.csv", place / "settings.txt"
    if done.is_file() and (place / "truth.npy").is_file():
        if folder and (not settings.is_file() or settings.read_text() != about):
            raise DatasetError(
                f"{place} holds probes of other data or settings: name another folder, or the data, numbers "
                "and seed that these were drawn with"
            )
        return Probes(place, _read(done), torch.from_numpy(np.load(place / "truth.npy")))
    paths.ensure_writable(place, "make room or permit writing there, or name another folder")
    rows, truth = [], []
    if (world.root / "aviary.json").is_file():
        _draw_pairs(world, n_pairs, seed, place, rows, truth)
    _draw_covered(world, n_covered, seed, place, rows, truth)
    np.save(place / "truth.npy", np.array(truth))
    settings.write_text(about)
    pictures = pd.DataFrame(rows, columns=COLUMNS)
    paths.write_whole(done, pictures.to_csv(index=False).encode())
    log.info("%d probes drawn", len(pictures))
    return Probes(place, _read(done), torch.from_numpy(np.array(truth)))


def _read(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, keep_default_na=False)


def _draw_pairs(world, n_pairs, seed, place, rows, truth) -> None:
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
            Image.fromarray(picture.image).save(place / name)
            rows.append([name, kind, number, int(label), attribute, ""])
            truth.append(seen.numpy())


def _draw_covered(world, n_covered, seed, place, rows, truth) -> None:
    rng = np.random.default_rng([seed, 62])
    names = world.attributes["name"].tolist()
    on_part = [set(parts_of(name, world.mask_names)) for name in names]
    groups = sorted({tuple(sorted(parts)) for parts in on_part if parts})
    number_of = {name: number for number, name in enumerate(world.mask_names, 1)}
    seen, certainty = image_attributes(world)
    visible = (seen & (certainty > 1)).numpy()
    number = 0
    for row in rng.permutation(np.flatnonzero(~world.train.numpy())):
        if number == n_covered:
            break
        mask = world.part_mask(int(row))
        places = {group: np.isin(mask, [number_of[one] for one in group]) for group in groups}
        large = [group for group, pixels in places.items() if pixels.sum() >= FEWEST]
        if len(large) < 2:
            continue
        pair = [large[place] for place in rng.permutation(len(large))[:2]]
        image = np.array(load_image(world.images["path"].iloc[row]))
        label = int(world.images["label"].iloc[row])
        for kind, hidden in (("whole", ()), ("one", pair[0]), ("other", pair[1])):
            picture, left = image.copy(), visible[row].copy()
            if hidden:
                picture[places[hidden]] = GREY
                left[[bool(parts & set(hidden)) for parts in on_part]] = False
            name = f"cover-{number:03d}-{kind}.png"
            Image.fromarray(picture).save(place / name)
            rows.append([name, kind, number, label, "", "|".join(hidden)])
            truth.append(left)
        number += 1
