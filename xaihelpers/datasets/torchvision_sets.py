"""CIFAR-10, CIFAR-100, Caltech-101, Flowers-102, Stanford Cars, ImageNet in torchvision's own folders."""

import os
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from filelock import FileLock
from PIL import Image
from tqdm.auto import tqdm

from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.folders import Rows, load_image_folder, make_dataset, read_classes, read_split
from xaihelpers.names import place_of_set
from xaihelpers.paths import data_home


def load_torchvision(name: str) -> Dataset:
    """One of READERS, its images indexed where they lie, in torchvision's folders.

    The CIFARs are downloaded by torchvision and unpacked to PNG under XAI_DATA; Caltech-101 and Flowers-102
    are downloaded, Stanford Cars and ImageNet are to be placed, under XAI_DATA/downloads or XAI_DATA. Splits
    are the official ones, with these choices: Caltech-101 has none, so 60 % of each class are drawn; it has
    torchvision's 101 categories (Faces and Faces_easy apart, no background). Flowers-102 trains on its
    official train and val. ImageNet's val is for testing; its classes have the names of `wordnet_names`.

    Raises DatasetError saying what to place where.
    """
    from torchvision import datasets  # inside, because it takes a second to import and few data need it

    place = place_of_set(name)
    home = place.parent
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{place}.lock") if os.access(home, os.W_OK) else nullcontext()
    with lock:  # one process downloads, the others wait
        try:
            found = READERS[name](home, datasets)
        except DatasetError:
            raise
        except Exception as error:  # no connection, a broken archive or table: each in ways of its own
            raise DatasetError(
                f"{name} is not whole in {place} and could not be had ({str(error)[:200]}): place "
                "there what torchvision's documentation names for this set, and run this again."
            ) from error
    if isinstance(found, Path):
        return load_image_folder(found)
    names, rows = found
    return make_dataset(place, rows, names)


def _rows(part, train: bool) -> Rows:
    """Path, label and train of a torchvision set's items; opened with loader=str, an image is its path."""
    items = [part[i] for i in range(len(part))]
    if missing := [path for path, _ in items if not Path(path).is_file()]:
        raise FileNotFoundError(f"{len(missing):,} images are missing, {missing[0]} first")
    return [(path, int(label), train) for path, label in items]


def _caltech(home: Path, datasets):
    images = Path(datasets.Caltech101(home, download=True).root) / "101_ObjectCategories"
    names, rows = read_classes(images, without="BACKGROUND_Google")
    if len(names) != 101:  # torchvision takes the folder of an interrupted unpacking for the whole
        raise DatasetError(f"{images} holds {len(names)} categories of 101: delete it and run this again")
    return names, rows


def _flowers(home: Path, datasets):
    rows = []
    for split in ("train", "val", "test"):
        rows += _rows(datasets.Flowers102(home, split, download=True, loader=str), split != "test")
    return [name.rstrip("?") for name in datasets.Flowers102.classes], rows


def _cars(home: Path, datasets):
    train, test = (datasets.StanfordCars(home, split, loader=str) for split in ("train", "test"))
    return train.classes, _rows(train, True) + _rows(test, False)


def _imagenet(home: Path, datasets):
    root = home / "imagenet"
    has_training = (root / "train").is_dir() or (root / "ILSVRC2012_img_train.tar").is_file()
    splits = [root / "train", root / "val"] if has_training else [root / "val"]
    for folder in splits:
        # torchvision sorts images into the folders of their classes only at the end
        if any(path.is_file() for path in folder.glob("*")):
            raise DatasetError(f"{folder}: an unpacking was interrupted: delete it and run this again")
        datasets.ImageNet(root, folder.name)  # unpacks what is not unpacked yet
    return read_split(*splits) if has_training else read_classes(root / "val", train=False)


def _cifar(name: str, home: Path, datasets) -> Path:
    """The folder of a CIFAR as PNG files by split and class, unpacked once; it appears when it is whole."""
    root = data_home() / name
    if root.is_dir():
        return root
    read = getattr(datasets, name.upper())
    with tempfile.TemporaryDirectory(prefix=f"{name}.partial-", dir=root.parent) as folder_of:
        for split in ("train", "test"):
            part = read(data_home() / "downloads", split == "train", download=True)
            folders = [Path(folder_of) / "whole" / split / name for name in part.classes]
            for folder in folders:
                folder.mkdir(parents=True)
            images = zip(tqdm(part.data, f"unpacking {name}, {split}"), part.targets, strict=True)
            for number, (pixels, label) in enumerate(images):
                Image.fromarray(pixels).save(folders[label] / f"{number:05d}.png")
        os.replace(Path(folder_of) / "whole", root)
    return root


# what reads each set
READERS = {
    "cifar10": partial(_cifar, "cifar10"),
    "cifar100": partial(_cifar, "cifar100"),
    "caltech101": _caltech,
    "flowers102": _flowers,
    "stanford_cars": _cars,
    "imagenet": _imagenet,
}
