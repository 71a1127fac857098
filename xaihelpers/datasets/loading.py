"""The one door to data: `load(name or path)`, whatever the format."""

from collections.abc import Callable
from pathlib import Path

from worlds import aviary, everyday
from xaihelpers.datasets.contradictions import require_split
from xaihelpers.datasets.cub import load_cub
from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.folders import load_image_folder, load_image_table
from xaihelpers.datasets.sub_benchmark import is_syncub, load_sub, load_syncub, parquet_files
from xaihelpers.datasets.torchvision_sets import READERS, load_torchvision
from xaihelpers.paths import data_home, find

# worlds that are drawn at first use
DRAWN: dict[str, Callable[..., Path]] = {"aviary": aviary.ensure, "everyday": everyday.ensure}
DATASET_NAMES = (*DRAWN, *READERS)


def load(data: str | Path, attributes: str = "auto") -> Dataset:
    """Read a data set by its name, or by its path or name under XAI_DATA; the images stay where they are.

    data: one of

    - "aviary", "everyday": drawn at first use; or a folder in CUB-200-2011's format;
    - "cifar10", "cifar100", "caltech101", "flowers102", "stanford_cars", "imagenet": see `load_torchvision`;
    - a folder with train/<class>/ and test/<class>/ (or val/), or with <class>/ alone: then 60 % of each
      class, drawn once for all, are for training; or a CSV file with one row per image: file, label and,
      perhaps, split (classes that are called by ImageNet's WordNet ids get plain names);
    - a substitution benchmark: SUB's layout, parquet files or a folder of them or with them in data/; or
      synCUB's, a folder with metadata.csv;
    - a folder of image files without labels: all for testing, label −1, no classes.

    attributes: of data in CUB's format, see `load_cub`.
    Raises DatasetError and TextFileError naming the place and the remedy: nothing there, a format that is
        none of these, a broken file, two names that would be one, a download that fails, an unpacking that
        was interrupted, or files that contradict each other (`xaihelpers.datasets.contradictions`), as where
        the images for testing are those for training. Raises ValueError as `worlds.ensure_world`.
    """
    if data in READERS:
        return load_torchvision(data)
    if data in DRAWN:
        place = DRAWN[data]()
        find(data)  # another one of this name is said
        return load_cub(place, attributes)
    place = find(data) if str(data) else None
    if place is None:
        raise DatasetError(
            f"There is no data set {str(data)!r}: name one of {', '.join(DATASET_NAMES)}, or give the path "
            f"of a folder or a table, or its name in {data_home()}, the folder that XAI_DATA names."
        )
    found = _read(place, attributes)
    require_split(found)
    return found


def _read(place: Path, attributes: str) -> Dataset:
    """The data set at a place, by its format."""
    if parquet_files(place):
        return load_sub(place)
    if is_syncub(place):
        return load_syncub(place)
    if place.is_file() and place.suffix.lower() in (".csv", ".txt", ".tsv"):
        return load_image_table(place)
    if place.is_file():
        raise DatasetError(
            f"{place} is neither a CSV table (.csv) nor a parquet file (.parquet): give one of these, or a "
            "folder: that of the pictures, or an archive's, unpacked"
        )
    if (place / "images.txt").is_file() or (place / "classes.txt").is_file():
        return load_cub(place, attributes)
    if inner := next(place.glob("*/images.txt"), None):
        raise DatasetError(f"{place}: name the folder that holds images.txt, as {inner.parent}")
    return load_image_folder(place)
