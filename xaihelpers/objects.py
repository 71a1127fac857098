"""Images by class through one door: drawn worlds and any folder in CUB's format, torchvision's data sets of objects, or a folder of images by class."""
import os
import re
import shutil
import tempfile
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from filelock import FileLock
from PIL import Image
from tqdm.auto import tqdm

from .birds import class_name, load_birds
from .paths import data_home
from .worlds import TRAIN_SHARE

SUFFIXES = {".jpg", ".jpeg", ".png"}
SPLITS = {"train": True, "test": False}
NAMES = ("everyday", "aviary", "cifar10", "cifar100", "caltech101", "flowers102", "stanford_cars", "imagenet")
# torchvision's folder of each set whose images are files already, and what to place in it where it is not downloaded
PLACES = {
    "caltech101": ("caltech101", "caltech-101.zip of data.caltech.edu (it is then unpacked), or 101_ObjectCategories/ with its 101 folders of images and BACKGROUND_Google"),
    "flowers102": ("flowers-102", "102flowers.tgz (it is then unpacked to jpg/), imagelabels.mat and setid.mat of the Oxford Visual Geometry Group's 102 flowers"),
    "stanford_cars": ("stanford_cars", ("cars_train/ and cars_test/ with the images, devkit/cars_meta.mat, devkit/cars_train_annos.mat and cars_test_annos_withlabels.mat "
                                        "(its site has closed)")),
    "imagenet": ("imagenet", ("ILSVRC2012_devkit_t12.tar.gz and ILSVRC2012_img_val.tar of image-net.org, and ILSVRC2012_img_train.tar if images for training are wanted "
                              "(they are then unpacked; val/<WordNet id>/ and train/<WordNet id>/ will do in place of the last two)")),
}


class ObjectsError(ValueError):
    """A data set of objects is missing, incomplete or misnamed; the message says what to place where."""


@dataclass(eq=False, repr=False)
class Objects:
    """The images of one data set, with the fields that `birds.Birds` has too; it has no concept labels."""

    root: Path
    images: pd.DataFrame  # path, label (0..K-1), train
    classes: pd.DataFrame  # by class_id from 1: name, label

    @property
    def labels(self) -> torch.Tensor:
        """(N,) int64, classes counted from 0 in the order of `classes`."""
        return torch.tensor(self.images["label"].to_numpy())

    def __repr__(self) -> str:
        return f"Objects({self.root.name}: {len(self.images):,} images, {self.images['train'].sum():,} of them for training, {len(self.classes)} classes)"


def known_name(data: str | Path) -> str | None:
    """Which of NAMES is meant, however it is spelt ("CIFAR-100", "StanfordCars"); None for a path or another name."""
    return {known.replace("_", ""): known for known in NAMES}.get(re.sub(r"[-_ ]", "", str(data).lower()))


def load_objects(data: str | Path) -> Objects:
    """Read a data set by its name, or a folder by its path or name under XAI_DATA; the images stay where they are.

    Names: "everyday" and "aviary" (drawn at first use), "cifar10" and "cifar100" (downloaded by torchvision, unpacked to PNG), and torchvision's "caltech101", "flowers102"
    (both downloaded), "stanford_cars" and "imagenet" (to be placed) in its own folders under XAI_DATA/downloads or XAI_DATA. A folder is one in CUB-200-2011's format,
    or has train/<class>/… and test/<class>/… of image files, or only <class>/…: then 60 % of each class, drawn once for all, are for training. A CSV file has a row an image: file, label, and split. Splits are the official ones, with these choices: Caltech-101 has none, so it is
    drawn in that way; it has torchvision's 101 categories (Faces and Faces_easy apart, no background). Flowers-102 trains on its official train and val.
    ImageNet's val is for testing; its classes bear their first lemma, with more where two classes share it.
    Raises ObjectsError saying what to place where: no such folder, a split without images, different classes in the two splits, a download that fails, an
    unpacking that was interrupted; BirdsError for a broken folder in CUB's format.
    """
    name = known_name(data)
    if name in ("everyday", "aviary"):
        return _of_birds(name)
    if name in PLACES:
        return _of_torchvision(name)
    if str(data).endswith(".csv"):
        return _of_table(str(data))
    root = _cifar(name) if name in ("cifar10", "cifar100") else _folder(str(data))
    return _of_birds(root) if (root / "images.txt").is_file() else _of_folders(root)


def _objects(root: Path, rows: list[tuple[str, int, bool]], names: list[str]) -> Objects:
    classes = pd.DataFrame({"name": names, "label": range(len(names))}, index=pd.RangeIndex(1, len(names) + 1, name="class_id"))
    return Objects(root, pd.DataFrame(rows, columns=["path", "label", "train"]), classes)


def _folder(data: str) -> Path:
    for folder in (data_home() / data, Path(data).expanduser()):
        if folder.is_dir():
            return folder.resolve()
    raise ObjectsError(f"There is no data set {data!r}: name one of {', '.join(NAMES)}, or place a folder with train/<class>/ and test/<class>/ "
                       f"(or one in CUB-200-2011's format) at {data_home() / data}, or give its path.")


def _of_birds(data: str | Path) -> Objects:
    world = load_birds(data, attributes="class")
    names = [class_name(name) for name in world.classes["name"]]
    return _objects(world.root, list(zip(world.images["path"], world.images["label"], world.images["train"])), names)


def _of_folders(root: Path) -> Objects:
    if not any((root / split).is_dir() for split in SPLITS):
        return _of_classes(root)
    found = {split: _class_folders(root / split) for split in SPLITS}
    if not found["train"] or found["train"] != found["test"]:
        odd = sorted(set(found["train"]) ^ set(found["test"]))
        raise ObjectsError(f"{root}: needs train/<class>/ and test/<class>/ with the same classes, but " + (f"{odd[0]!r} is in one of them only" if odd else "has none"))
    rows = [(path, label, train) for split, train in SPLITS.items() for label, name in enumerate(found[split]) for path in _images(root / split / name)]
    return _objects(root, rows, [name.replace("_", " ") for name in found["train"]])


def _of_classes(root: Path) -> Objects:
    """Folders of classes without a split: 60 % of each class, drawn once for all, are for training."""
    names = _class_folders(root)
    if len(names) < 2:
        raise ObjectsError(f"{root}: needs train/<class>/ and test/<class>/ with the same classes, or <class>/ with images for at least two classes, but has {len(names)}")
    files = [(path, label) for label, name in enumerate(names) for path in _images(root / name)]
    train = _drawn_split(np.array([label for _, label in files]), len(names))
    return _objects(root, [(path, label, bool(t)) for (path, label), t in zip(files, train, strict=True)], [name.replace("_", " ") for name in names])


def _of_table(data: str) -> Objects:
    """A CSV file beside its images: columns file (relative to it), label (or class_name), and, if some are for training, split ("train" or another word)."""
    file = next((place for place in (data_home() / data, Path(data).expanduser()) if place.is_file()), None)
    if file is None:
        raise ObjectsError(f"There is no table {data!r}, neither in {data_home()} nor as a path.")
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise ObjectsError(f"{file} cannot be read as a table ({error})") from error
    label = next((column for column in ("label", "class_name") if column in table), None)
    if "file" not in table or label is None or table.empty:
        raise ObjectsError(f"{file}: a table of images has the columns file and label (or class_name) and a row an image; this one has {len(table)} rows of {', '.join(table.columns)}")
    if empty := [row + 2 for row in range(len(table)) if not table.file[row] or not table[label][row]]:
        raise ObjectsError(f"{file}: line {empty[0]} has no file or no label")
    if absent := [name for name in table.file if not (file.parent / name).is_file()]:
        raise ObjectsError(f"{file}: {len(absent)} of its {len(table)} images are not there, {absent[0]!r} first")
    numbers = {name: k for k, name in enumerate(sorted(table[label].unique()))}
    rows = [(str(file.parent / name), numbers[of], split == "train") for name, of, split in zip(table.file, table[label], table.get("split", [""] * len(table)))]
    return _objects(file.parent.resolve() / file.stem, rows, [name.replace("_", " ") for name in numbers])


def _class_folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")) if folder.is_dir() else []


def _images(folder: Path) -> list[str]:
    files = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not files:
        raise ObjectsError(f"{folder}: no image file ({', '.join(sorted(SUFFIXES))}) in it")
    return files


def _drawn_split(label: np.ndarray, n_classes: int) -> np.ndarray:
    """True for the 60 % of each class that are for training, the same at every call."""
    train = np.zeros(len(label), bool)
    for k in range(n_classes):
        rows = np.flatnonzero(label == k)
        train[np.random.default_rng([101, k]).permutation(rows)[:round(TRAIN_SHARE * len(rows))]] = True
    return train


def _why(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _of_torchvision(name: str) -> Objects:
    """A set whose images are files in torchvision's layout, indexed where they lie."""
    folder, wanted = PLACES[name]
    home = data_home() if (data_home() / folder).is_dir() else data_home() / "downloads"
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home / folder}.lock") if os.access(home, os.W_OK) else nullcontext():  # one process downloads, the others wait
        try:
            rows, names = {"caltech101": _caltech, "flowers102": _flowers, "stanford_cars": _cars, "imagenet": _imagenet}[name](home)
        except ObjectsError:
            raise
        except Exception as error:
            raise ObjectsError(f"{name} is not whole in {home / folder} and could not be had ({_why(error)}): place there {wanted}, and run this again.") from error
    lost = [] if name == "imagenet" else [path for path, *_ in rows if not Path(path).is_file()]  # ImageNet's rows are files that were found
    if lost:
        raise ObjectsError(f"{lost[0]}: image file missing ({len(lost):,} such in all). Place in {home / folder} the whole set: {wanted}.")
    return _objects(home / folder, rows, names)


def _rows(part, train: bool) -> list[tuple[str, int, bool]]:
    return [(path, int(label), train) for path, label in (part[i] for i in range(len(part)))]  # with loader=str, an item's image is its path


def _caltech(home: Path):
    from torchvision.datasets import Caltech101

    data = Caltech101(home, download=True)
    images = Path(data.root) / "101_ObjectCategories"
    if len(data.categories) != 101:  # torchvision takes the folder of an interrupted unpacking for the whole
        raise ObjectsError(f"{images} holds {len(data.categories)} categories where Caltech-101 has 101 (and its background): delete that folder and run this again, "
                           f"it is then unpacked from caltech-101.zip beside it, or downloaded.")
    label, number = np.array(data.y), np.array(data.index)
    train = _drawn_split(label, len(data.categories))
    rows = [(str(images / data.categories[k] / f"image_{n:04d}.jpg"), int(k), bool(t)) for k, n, t in zip(label, number, train, strict=True)]
    return rows, [name.replace("_", " ") for name in data.categories]


def _flowers(home: Path):
    from torchvision.datasets import Flowers102

    rows = [row for split, train in (("train", True), ("val", True), ("test", False)) for row in _rows(Flowers102(home, split, download=True, loader=str), train)]
    return rows, [name.rstrip("?") for name in Flowers102.classes]


def _cars(home: Path):
    from torchvision.datasets import StanfordCars

    parts = {split: StanfordCars(home, split, loader=str) for split in SPLITS}
    return [row for split, part in parts.items() for row in _rows(part, SPLITS[split])], parts["train"].classes


def _imagenet(home: Path):
    from torchvision.datasets import ImageNet

    root, rows, parts = home / "imagenet", [], []
    for split, train in (("train", True), ("val", False)):
        if train and not ((root / split).is_dir() or (root / "ILSVRC2012_img_train.tar").is_file()):
            continue
        left = next((path for path in (root / split).iterdir() if path.is_file()), None) if (root / split).is_dir() else None
        if left:
            raise ObjectsError(f"{left} lies in no class's folder: an unpacking was interrupted. Delete {root / split} and run this again, it is then unpacked anew.")
        parts.append(ImageNet(root, split, loader=str))
        rows += _rows(parts[-1], train)
    if parts[0].wnids != parts[-1].wnids:
        odd = sorted(set(parts[0].wnids) ^ set(parts[-1].wnids))
        raise ObjectsError(f"{root}: train/ and val/ need the same classes, but {odd[0]} is in one of them only")
    first = Counter(lemmas[0].lower() for lemmas in parts[-1].classes)
    return rows, [lemmas[0] if first[lemmas[0].lower()] == 1 else f"{lemmas[0]} ({', '.join(lemmas[1:]) or wnid})" for lemmas, wnid in zip(parts[-1].classes, parts[-1].wnids)]


def _cifar(name: str) -> Path:
    """The folder of a CIFAR as PNG files by split and class, unpacked once from torchvision's archive; it appears only when it is whole."""
    from torchvision import datasets

    root = data_home() / name
    if root.is_dir():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{root}.lock"):
        if root.is_dir():
            return root
        read = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[name]
        try:
            parts = {split: read(data_home() / "downloads", train=train, download=True) for split, train in SPLITS.items()}
        except Exception as error:
            archive = read.filename
            raise ObjectsError(f"{name} could not be downloaded ({_why(error)}): place its archive {archive} in {data_home() / 'downloads'} "
                               "and run this again; it is then unpacked from there.") from error
        partial = Path(tempfile.mkdtemp(prefix=f"{name}.partial-", dir=root.parent))
        try:
            with tqdm(total=sum(map(len, parts.values())), desc=f"unpacking {name}", unit="image") as bar:
                for split, part in parts.items():
                    folders = [partial / split / label for label in part.classes]
                    for folder in folders:
                        folder.mkdir(parents=True)
                    for number, (pixels, label) in enumerate(zip(part.data, part.targets, strict=True)):
                        Image.fromarray(pixels).save(folders[label] / f"{number:05d}.png")
                        bar.update()
            partial.chmod(0o755)
            os.replace(partial, root)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return root
