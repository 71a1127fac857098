"""Images in folders by class, by a CSV table, or as they lie in one folder."""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name
from xaihelpers.datasets.wordnet_names import wordnet_names
from xaihelpers.text_files import are_training, on_disk, plain, read_table, require_distinct

log = logging.getLogger(__name__)
# those of torchvision's ImageFolder, and GIF
IMAGE_SUFFIXES = tuple(".jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp .gif".split())
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")
TRAIN_SHARE = 0.6
WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")  # a whole number, also as a float column writes it

Rows = list[tuple[str, int, bool]]  # path, label and train of each image


def make_dataset(root: Path, rows: Rows, class_names: list[str], name: str = "") -> Dataset:
    """A data set of which only (path, label, train) of each image and the names of the classes are known.

    class_names: as they are written; ImageNet's WordNet ids become plain names (`wordnet_names`).
    Raises TextFileError for two names that would be one.
    """
    require_distinct(class_names, f"classes of {root}", class_name)
    names = wordnet_names([plain(one).replace("_", " ") for one in class_names])
    ids = pd.RangeIndex(1, len(names) + 1, name="class_id")
    classes = pd.DataFrame({"name": names, "label": range(len(names))}, index=ids)
    return Dataset(root, pd.DataFrame(rows, columns=["path", "label", "train"]), classes, name)


def is_image_file(name: str) -> bool:
    """Whether a file is taken for an image, by its name; hidden ones are not."""
    return name.lower().endswith(IMAGE_SUFFIXES) and not os.path.basename(name).startswith(".")


def in_order(names: Iterable[str]) -> list[str]:
    """Class names in order: as numbers where all are whole numbers."""
    names = sorted(names, key=plain)
    return sorted(names, key=float) if all(map(WHOLE.fullmatch, map(plain, names))) else names


def load_image_folder(root: Path) -> Dataset:
    """A folder with train/<class>/ and test/<class>/ of images (or val/), <class>/ alone, or images alone.

    Images are found as torchvision's ImageFolder finds them, in folders within a class's too. Without a
    split 60 % of each class are for training. Classes that are whole numbers are in the order of numbers.
    Images without folders have label −1 and no classes, and are for testing. Files that are not read are
    counted by kind, in the log and where the data are shown.

    Raises DatasetError: anything else, and as `read_split` and `read_classes`. Raises TextFileError for two
        names that would be one.
    """
    folders = {name.lower(): root / name for name in _folders(root)}
    train, test = [next((folders[name] for name in some if name in folders), None) for some in (TRAIN, TEST)]
    loose = sorted(entry.path for entry in os.scandir(root) if entry.is_file() and is_image_file(entry.name))
    if train and test:
        names, rows = read_split(train, test)
    elif loose and not any(map(image_files, folders.values())):
        names, rows = [], [(path, -1, False) for path in loose]
    elif len(folders) < 2 or loose or any(_folders(part) for part in (train, test) if part):
        has = ["images beside folders"] * bool(loose) + [f"{place.name}/" for place in folders.values()]
        raise DatasetError(
            f"{root}: needs train/<class>/ and test/<class>/ (or val/) with the same classes, or <class>/ "
            f"with images of at least two classes, or images alone, but has {', '.join(has[:9]) or 'none'}"
        )
    else:
        names, rows = read_classes(root)
    data, read, kinds = make_dataset(root, rows, names), {path for path, *_ in rows}, Counter()
    for place, _, files in os.walk(root, followlinks=True):
        for file in files:
            is_hidden = "." in (file[0], os.path.basename(place)[:1])
            kind = "hidden" if is_hidden else Path(file).suffix or "others"
            kinds[kind] += os.path.join(place, file) not in read
    if kinds.total():
        data.left_out = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common() if count)
        log.warning("%s: files left out: %s", root, data.left_out)
    return data


def read_split(training: Path, testing: Path) -> tuple[list[str], Rows]:
    """Class names and rows of images of two folders, as `read_classes` has them.

    Raises DatasetError for classes that differ between them.
    """
    names, rows = read_classes(training, train=True)
    of_test, more = read_classes(testing, train=False)
    differing = sorted({*map(plain, names)} ^ {*map(plain, of_test)})
    if differing or not names:
        reason = f"{differing[0]!r} is in one of them only" if differing else "have none"
        raise DatasetError(
            f"{training.parent}: {training.name}/ and {testing.name}/ need the same classes, but {reason}"
        )
    return names, rows + more


def read_classes(folder: Path, train: bool | None = None, without: str = "") -> tuple[list[str], Rows]:
    """Names of the class folders in a folder, and rows of their images.

    train: whether the images are for training; None draws 60 % of each class, the same at every call.
    without: a folder that is no class. Raises DatasetError for a class without images.
    """
    names, rows = in_order(name for name in _folders(folder) if name != without), []
    for label, name in enumerate(names):
        images = image_files(folder / name)
        if not images:
            raise DatasetError(f"{folder / name}: no image file ({', '.join(sorted(IMAGE_SUFFIXES))}) in it")
        is_train = np.full(len(images), bool(train))
        if train is None:
            drawn = np.random.default_rng([101, label]).permutation(len(images))
            is_train[drawn[: round(TRAIN_SHARE * len(images))]] = True
        rows += [(path, label, one) for path, one in zip(images, is_train.tolist(), strict=True)]
    return names, rows


def image_files(folder: Path) -> list[str]:
    """Images in a folder and the folders within it, in ImageFolder's order; not in hidden ones."""
    images = []
    for place, _, names in sorted(os.walk(folder, followlinks=True)):
        if not any(part.startswith(".") for part in Path(place).relative_to(folder).parts):
            images += [os.path.join(place, name) for name in sorted(names) if is_image_file(name)]
    return images


def load_image_table(file: Path) -> Dataset:
    """A CSV file beside its images: columns file (relative to it), label and, perhaps, split.

    split is train or test, or 1 or 0; without it all images are for testing. Labels are texts ("NA" is one);
    where all are whole numbers, they are in the order of numbers.

    Raises DatasetError: a line without file or label, images that are not there, a file that stands twice.
    Raises TextFileError as `read_table` and `are_training`, and for two labels that would be one.
    """
    table = read_table(file, ["file", "label"])
    names, labels = table["file"], table["label"]
    empty = table.index[(names == "") | (labels == "")]
    if len(empty):
        raise DatasetError(f"{file}: line {empty[0]} has no file or no label")
    paths = listed_files(file, names)
    twice = pd.Series(map(os.path.realpath, paths), names.index).duplicated()
    if twice.any():
        raise DatasetError(f"{file}: {names[twice].iloc[0]!r} stands twice: keep one of its rows")
    classes = in_order(labels.unique())
    train = are_training(table["split"], file) if "split" in table else [False] * len(table)
    rows = list(zip(paths, labels.map(classes.index), train, strict=True))
    return make_dataset(file.parent, rows, classes, file.stem)


def listed_files(table: Path, names: Iterable[str]) -> list[str]:
    """Paths of the images that a table names, relative to it. Raises DatasetError for ones not there."""
    paths = [on_disk(table.parent / name) for name in names]
    absent = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if absent:
        raise DatasetError(
            f"{table}: {len(absent)} of its {len(paths)} images are not there, {absent[0]!r} first"
        )
    return [str(path) for path in paths]


def _folders(folder: Path) -> list[str]:
    """Names of the folders in a folder that are not hidden. Raises TextFileError as `require_distinct`."""
    names = [entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    require_distinct(names, f"folders of {folder}", class_name)
    return sorted(names)
