"""The one door to data: `load(name or path)`, whatever the format."""

import re
from collections.abc import Callable
from pathlib import Path

from xaihelpers.datasets.cub import load_cub
from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.folders import load_image_folder, load_image_table
from xaihelpers.datasets.sub_benchmark import is_sub, is_syncub, load_sub, load_syncub
from xaihelpers.datasets.torchvision_sets import TORCHVISION_NAMES, load_torchvision
from xaihelpers.paths import data_home, find
from xaihelpers.text_files import TextFileError
from xaihelpers.worlds import aviary, everyday

# worlds that are drawn at first use
DRAWN: dict[str, Callable[[], Path]] = {"aviary": aviary.ensure, "everyday": everyday.ensure}
DATASET_NAMES = (*DRAWN, *TORCHVISION_NAMES)


def load(data: str | Path, attributes: str = "auto", check_files: bool = False) -> Dataset:
    """Read a data set by its name, or by its path or name under XAI_DATA; the images stay where they are.

    data: one of

    - "aviary", "everyday": drawn at first use; or a folder in CUB-200-2011's format;
    - "cifar10", "cifar100", "caltech101", "flowers102", "stanford_cars", "imagenet": see `load_torchvision`;
    - a folder with train/<class>/ and test/<class>/ (or val/), or with <class>/ alone: then 60 % of each
      class, drawn once for all, are for training; or a CSV file with one row per image: file, label and,
      perhaps, split (classes that are called by ImageNet's WordNet ids get plain names);
    - a substitution benchmark: SUB's layout, parquet files or a folder of them or with them in data/; or
      synCUB's, a folder with metadata.csv (see `load_syncub`);
    - a folder of image files without labels: all for testing, label −1, no classes.

    Names may be spelt in another case, with or without hyphens and underscores ("CIFAR-10", "StanfordCars").

    attributes, check_files: of data in CUB's format, see `load_cub`.
    Raises DatasetError naming the place and the remedy: nothing there, a format that is none of these, a
        broken file, two names that would be one, a download that fails, an unpacking that was interrupted.
    Raises ValueError as `worlds.ensure_world`.
    """
    try:
        return _load(data, attributes, check_files)
    except TextFileError as error:
        raise DatasetError(str(error)) from error


def _load(data: str | Path, attributes: str, check_files: bool) -> Dataset:
    name = _known_name(data)
    if name in DRAWN:
        return load_cub(DRAWN[name](), attributes, check_files)
    if name:
        return load_torchvision(name)
    place = find(data) if str(data) else None
    if place is None:
        raise _not_found(data)
    if is_sub(place):
        return load_sub(place)
    if is_syncub(place):
        return load_syncub(place)
    if place.suffix.lower() == ".csv":
        return load_image_table(place)
    if place.is_file():
        raise DatasetError(
            f"{place} is neither a folder of data, nor a CSV table (.csv), nor a parquet file."
        )
    cub_files = [place / "images.txt", place / "classes.txt", *place.glob("*/images.txt")]
    if any(file.is_file() for file in cub_files):
        return load_cub(place, attributes, check_files)
    return load_image_folder(place)


def _known_name(data: str | Path) -> str | None:
    """Which of DATASET_NAMES is meant, however it is spelt; None for none of them."""
    plain = re.sub(r"[-_ ]", "", str(data).lower())
    return {name.replace("_", ""): name for name in DATASET_NAMES}.get(plain)


def _not_found(data: str | Path) -> DatasetError:
    if str(data).lower().endswith(".csv"):
        return DatasetError(f"There is no table {str(data)!r}, neither in {data_home()} nor as a path.")
    return DatasetError(
        f"There is no data set {str(data)!r}: name one of {', '.join(DATASET_NAMES)}, or place a folder in "
        "CUB-200-2011's format, with train/<class>/ and test/<class>/, in SUB's layout, or of images at "
        f"{data_home() / data}, or give its path, or set XAI_DATA to the folder that holds it."
    )
