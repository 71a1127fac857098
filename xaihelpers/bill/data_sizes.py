"""How large a data set is: as it lies here, or as published where it is missing; nothing is fetched."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from xaihelpers import datasets, paths
from xaihelpers.datasets.torchvision_sets import FOLDERS, TORCHVISION_NAMES

FOLDER = paths.PROJECT / "data" / "bill"
WORLDS = {"aviary": "aviary.json", "everyday": "everyday.json"}
DRAWN = {"aviary": (1440, 960, 48), "everyday": (600, 400, 20)}  # as drawn: train, test, classes


class SizeError(ValueError):
    """A data set is neither here nor known; the message names it."""


@dataclass
class DataSize:
    """What an estimate needs to know of a data set."""

    name: str
    class_names: list[str]  # stand-ins of usual length where the set is missing
    labels: np.ndarray  # (N,) int, of all images, the training split first where the set is missing
    train: np.ndarray  # (N,) bool
    image: Image.Image  # as large as its images, and nothing in it
    megabytes: float
    has_attributes: bool
    is_here: bool
    neighbours: np.ndarray  # (K, 4) int, four other classes of each: by their attributes where these are here

    @property
    def test_rows(self) -> np.ndarray:
        """The images of the test split, as rows."""
        return np.flatnonzero(~self.train)

    @property
    def n_images(self) -> int:
        """Images of both splits."""
        return len(self.labels)


def data_size(name: str, attributes: str = "auto") -> DataSize:
    """The size of a data set that `datasets.load` would read.

    A set of torchvision's and one that is missing have their published sizes, data/bill/data_sets.csv; a
    world that is not drawn has those that it would have.

    Raises SizeError: a set that is neither here nor in the table.
    """
    plain = Path(name).name
    if (place := _place(name, plain)) is not None:
        return _as_it_lies(plain, place, attributes)
    row = published_sets().get(_key(plain))
    if row is None:
        if plain not in DRAWN:
            raise SizeError(
                f"data: there is no {name!r} here, nor its size in {FOLDER / 'data_sets.csv'}: place it "
                "under XAI_DATA, or add a line there."
            )
        return _of_numbers(plain, *DRAWN[plain], (224, 224), 60, True, False)
    size = (int(row["width"]), int(row["height"]))
    numbers = [int(row[column]) for column in ("train", "test", "classes")]
    has_attributes = int(row["attributes"]) > 0
    return _of_numbers(
        plain, *numbers, size, float(row["megabytes"]), has_attributes, _lies_here(row["name"])
    )


def published_sets() -> dict[str, dict]:
    """The rows of data/bill/data_sets.csv by name, however that is spelt."""
    with open(FOLDER / "data_sets.csv", encoding="utf-8", newline="") as opened:
        return {_key(row["name"]): row for row in csv.DictReader(opened)}


def _key(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())


def _lies_here(name: str) -> bool:
    folder = FOLDERS.get(name, {"cifar10": "cifar10", "cifar100": "cifar100"}.get(name, name))
    return paths.find(folder) is not None


def _place(name: str, plain: str) -> Path | None:
    """The folder or file of a set that is read as it lies; none of torchvision's, which might be fetched."""
    if _key(plain) in {_key(known) for known in TORCHVISION_NAMES}:
        return None
    if plain in WORLDS:
        return paths.find(plain, holding=WORLDS[plain])
    return paths.find(name)


def _as_it_lies(name: str, place: Path, attributes: str) -> DataSize:
    data = datasets.load(str(place), attributes)
    labels = data.labels.numpy()
    try:
        size = tuple(datasets.image_sizes(data, [0])[0].tolist())
    except (datasets.DatasetError, IndexError):
        size = (256, 256)
    near = _neighbours(len(data.class_names))
    if data.class_attributes is not None and len(data.class_names) > 4:
        near = _alike(data.class_attributes)
    megabytes = sum(Path(file).stat().st_size for file in data.images.path[:50] if Path(file).is_file())
    megabytes *= len(labels) / max(min(50, len(labels)), 1) / 1e6
    return DataSize(
        name,
        list(data.class_names),
        labels,
        data.images.train.to_numpy(bool),
        Image.new("RGB", size),
        megabytes,
        data.attributes is not None,
        True,
        near,
    )


def _alike(class_attributes: torch.Tensor) -> np.ndarray:
    """The four classes of nearest attributes, (K, 4), in the place of those that a network takes for it."""
    unit = torch.nn.functional.normalize(class_attributes.nan_to_num().float(), dim=1)
    cosine = (unit @ unit.T).fill_diagonal_(-2)
    return cosine.topk(4, dim=1).indices.numpy()


def _neighbours(n_classes: int) -> np.ndarray:
    steps = np.arange(1, 5)
    return (np.arange(n_classes)[:, None] + steps) % max(n_classes, 1)


def _of_numbers(
    name: str,
    n_train: int,
    n_test: int,
    n_classes: int,
    size: tuple[int, int],
    megabytes: float,
    has_attributes: bool,
    is_here: bool,
) -> DataSize:
    labels = np.concatenate([np.arange(n_train) % n_classes, np.arange(n_test) % n_classes])
    names = [f"common name number {k}" for k in range(n_classes)]
    train = np.arange(n_train + n_test) < n_train
    image = Image.new("RGB", size)
    near = _neighbours(n_classes)
    return DataSize(name, names, labels, train, image, megabytes, has_attributes, is_here, near)
