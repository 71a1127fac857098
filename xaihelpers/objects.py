"""Everyday objects: CIFAR-10 and CIFAR-100 through torchvision, or any folder of images by class."""
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from filelock import FileLock
from PIL import Image
from tqdm.auto import tqdm

from .paths import data_home

SUFFIXES = {".jpg", ".jpeg", ".png"}
SPLITS = {"train": True, "test": False}


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


def load_objects(data: str | Path) -> Objects:
    """Read "cifar10" or "cifar100" (downloaded by torchvision at first use), or a folder with train/<class>/… and test/<class>/… of image files.

    A folder is a path or a name under XAI_DATA. Raises ObjectsError saying what to place where: no such folder, a split without images, different
    classes in the two splits, a download that fails.
    """
    root = _folder(str(data))
    found = {split: sorted(path.name for path in (root / split).iterdir() if path.is_dir()) if (root / split).is_dir() else [] for split in SPLITS}
    if not found["train"] or found["train"] != found["test"]:
        odd = sorted(set(found["train"]) ^ set(found["test"]))
        raise ObjectsError(f"{root}: needs train/<class>/ and test/<class>/ with the same classes, but " + (f"{odd[0]!r} is in one of them only" if odd else "has none"))
    rows = []
    for split, train in SPLITS.items():
        for label, name in enumerate(found[split]):
            files = sorted(path for path in (root / split / name).iterdir() if path.suffix.lower() in SUFFIXES)
            if not files:
                raise ObjectsError(f"{root / split / name}: no image file ({', '.join(sorted(SUFFIXES))}) in it")
            rows += [(str(path), label, train) for path in files]
    classes = pd.DataFrame({"name": [name.replace("_", " ") for name in found["train"]], "label": range(len(found["train"]))},
                           index=pd.RangeIndex(1, len(found["train"]) + 1, name="class_id"))
    return Objects(root, pd.DataFrame(rows, columns=["path", "label", "train"]), classes)


def _folder(data: str) -> Path:
    name = data.lower().replace("-", "")
    if name in ("cifar10", "cifar100"):
        return _cifar(name)
    for folder in (data_home() / data, Path(data).expanduser()):
        if folder.is_dir():
            return folder.resolve()
    raise ObjectsError(f"There is no data set {data!r}: name cifar10 or cifar100, or place a folder with train/<class>/ and test/<class>/ at {data_home() / data}, or give its path.")


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
            raise ObjectsError(f"{name} could not be downloaded ({str(error).splitlines()[0][:120]}): place its archive {archive} in {data_home() / 'downloads'} "
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
