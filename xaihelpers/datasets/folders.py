"""Images in folders by class, by a CSV table, or as they lie in one folder."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.wordnet_names import wordnet_names
from xaihelpers.worlds.cub_writer import TRAIN_SHARE

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}
SPLITS = {"train": True, "test": False}


def make_dataset(
    root: Path, rows: list[tuple[str, int, bool]], class_names: list[str], name: str = ""
) -> Dataset:
    """A data set of which only (path, label, train) of each image and the names of the classes are known.

    class_names: as they are written; ImageNet's WordNet ids become plain names (`wordnet_names`).
    """
    class_names = wordnet_names(class_names)
    ids = pd.RangeIndex(1, len(class_names) + 1, name="class_id")
    classes = pd.DataFrame({"name": class_names, "label": range(len(class_names))}, index=ids)
    return Dataset(root, pd.DataFrame(rows, columns=["path", "label", "train"]), classes, name)


def has_image_files(folder: Path) -> bool:
    """Whether image files lie in a folder itself (not in folders within it)."""
    return any(_is_image_file(path) for path in folder.iterdir())


def load_class_folders(root: Path) -> Dataset:
    """A folder with train/<class>/ and test/<class>/ of images, or with <class>/ alone (see `drawn_split`).

    Raises DatasetError: classes that differ between the splits, a class without images, or fewer than two
        classes.
    """
    if not any((root / split).is_dir() for split in SPLITS):
        return _without_split(root)
    classes = {split: _class_folders(root / split) for split in SPLITS}
    if not classes["train"] or classes["train"] != classes["test"]:
        differing = sorted(set(classes["train"]) ^ set(classes["test"]))
        reason = f"{differing[0]!r} is in one of them only" if differing else "has none"
        raise DatasetError(
            f"{root}: needs train/<class>/ and test/<class>/ with the same classes, but {reason}"
        )
    rows = []
    for split, train in SPLITS.items():
        for label, name in enumerate(classes[split]):
            rows += [(path, label, train) for path in _image_files(root / split / name)]
    return make_dataset(root, rows, [name.replace("_", " ") for name in classes["train"]])


def _without_split(root: Path) -> Dataset:
    names = _class_folders(root)
    if len(names) < 2:
        raise DatasetError(
            f"{root}: needs train/<class>/ and test/<class>/ with the same classes, or <class>/ with "
            f"images for at least two classes, but has {len(names)}"
        )
    files = [(path, label) for label, name in enumerate(names) for path in _image_files(root / name)]
    train = drawn_split(np.array([label for _, label in files]), len(names))
    rows = [(path, label, bool(is_train)) for (path, label), is_train in zip(files, train, strict=True)]
    return make_dataset(root, rows, [name.replace("_", " ") for name in names])


def load_image_table(file: Path) -> Dataset:
    """A CSV file beside its images: columns file (relative to it), label or class_name, and, perhaps, split.

    split is "train" or another word; without it all images are for testing.

    Raises DatasetError: no such columns, a line without file or label, images that are not there, a file that
        stands twice.
    """
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{file} cannot be read as a table ({error})") from error
    label_column = next((column for column in ("label", "class_name") if column in table), None)
    if "file" not in table or label_column is None or table.empty:
        raise DatasetError(
            f"{file}: a table of images has the columns file and label (or class_name) and one row per "
            f"image; this one has {len(table)} rows of {', '.join(table.columns)}"
        )
    names, labels = table["file"], table[label_column]
    empty = [row + 2 for row in range(len(table)) if not names[row] or not labels[row]]
    if empty:
        raise DatasetError(f"{file}: line {empty[0]} has no file or no label")
    absent = [name for name in names if not (file.parent / name).is_file()]
    if absent:
        raise DatasetError(
            f"{file}: {len(absent)} of its {len(table)} images are not there, {absent[0]!r} first"
        )
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DatasetError(f"{file}: {name!r} stands {count} times: keep one of its rows")
    number_of = {label: number for number, label in enumerate(sorted(labels.unique()))}
    splits = table.get("split", [""] * len(table))
    rows = [
        (str(file.parent / name), number_of[label], split == "train")
        for name, label, split in zip(names, labels, splits, strict=True)
    ]
    return make_dataset(file.parent, rows, [label.replace("_", " ") for label in number_of], file.stem)


def load_pictures(folder: Path) -> Dataset:
    """A folder of image files without labels: label −1, no classes, all for testing."""
    return make_dataset(folder, [(path, -1, False) for path in _image_files(folder)], [])


def drawn_split(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Which images are for training: 60 % of each class, the same at every call; labels (N,) -> (N,) bool."""
    train = np.zeros(len(labels), bool)
    for label in range(n_classes):
        rows = np.random.default_rng([101, label]).permutation(np.flatnonzero(labels == label))
        train[rows[: round(TRAIN_SHARE * len(rows))]] = True
    return train


def _class_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _is_image_file(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def _image_files(folder: Path) -> list[str]:
    files = sorted(str(path) for path in folder.iterdir() if _is_image_file(path))
    if not files:
        raise DatasetError(f"{folder}: no image file ({', '.join(sorted(IMAGE_SUFFIXES))}) in it")
    return files
