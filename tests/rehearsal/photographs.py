"""ImageNet, Flowers-102, Stanford Cars, CIFAR-100, Caltech-101, cats and dogs, in their folders and tables.

All classes, few images each. torchvision compares some tables with the published checksums; the rehearsal
turns that off (`without_checksums`).
"""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import torch
import torchvision
from scipy.io import savemat
from timm.data import ImageNetInfo

from rehearsal.birds import noise

SIZE = (80, 60)


def without_checksums() -> None:
    """torchvision takes files as they are."""

    def is_there(path, md5=None) -> bool:
        return os.path.isfile(path)

    for module in (
        torchvision.datasets.flowers102,
        torchvision.datasets.cifar,
        torchvision.datasets.imagenet,
    ):
        module.check_integrity = is_there


def _save(rng: np.random.Generator, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    noise(rng, *SIZE).save(file, "JPEG", quality=85)


def write_imagenet(root: Path) -> None:
    """The sorted validation images of 1,000 classes, one and a copy each; and torchvision's meta file."""
    rng = np.random.default_rng(2)
    ids = ImageNetInfo("imagenet-1k").label_names()
    for number, wordnet_id in enumerate(sorted(ids), 1):
        file = root / "val" / wordnet_id / f"ILSVRC2012_val_{number:08d}.JPEG"
        _save(rng, file)
        shutil.copy(file, file.with_name(f"ILSVRC2012_val_{1000 + number:08d}.JPEG"))
    words = {wordnet_id: (wordnet_id,) for wordnet_id in ids}
    torch.save((words, sorted(ids)), root / "meta.bin")


def write_flowers(root: Path) -> None:
    """A training, a validation and a test image of each of 102 classes."""
    rng = np.random.default_rng(3)
    numbers = np.arange(1, 3 * 102 + 1)
    for number in numbers:
        _save(rng, root / "jpg" / f"image_{number:05d}.jpg")
    savemat(root / "imagelabels.mat", {"labels": [(numbers - 1) // 3 + 1]})
    split = {name: [numbers[start::3]] for start, name in enumerate(("trnid", "valid", "tstid"))}
    savemat(root / "setid.mat", split)


def write_cars(root: Path) -> None:
    """Two training images and a test image of each of 196 classes, with the development kit's tables."""
    rng = np.random.default_rng(4)
    makes = ("Acura", "Audi", "BMW", "Dodge", "Ford", "Honda", "Jeep")
    kinds = ("Sedan", "SUV", "Coupe", "Wagon", "Convertible", "Hatchback", "Van")
    names = [f"{makes[k % 7]} {kinds[k // 7 % 7]} {chr(65 + k // 49)} {2000 + k % 12}" for k in range(196)]
    (root / "devkit").mkdir(parents=True)
    savemat(root / "devkit/cars_meta.mat", {"class_names": np.array(names, dtype=object)})
    places = {"train": ("devkit/cars_train_annos.mat", 2), "test": ("cars_test_annos_withlabels.mat", 1)}
    for split, (file, n_each) in places.items():
        classes = np.repeat(np.arange(1, 197), n_each)
        rows = [(np.uint8(k), f"{n:05d}.jpg") for n, k in enumerate(classes, 1)]
        kinds_of_fields = [("class", object), ("fname", object)]
        savemat(root / file, {"annotations": np.array(rows, dtype=kinds_of_fields)})
        for n in range(1, len(classes) + 1):
            _save(rng, root / f"cars_{split}" / f"{n:05d}.jpg")


def write_cifar100(root: Path) -> None:
    """The unpacked archive: pickled batches of two training images and one test image of each class."""
    rng = np.random.default_rng(5)
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True, exist_ok=True)
    for name, n_each in (("train", 2), ("test", 1)):
        labels = np.repeat(np.arange(100), n_each)
        images = [np.asarray(noise(rng, 32, 32)).transpose(2, 0, 1).ravel() for _ in labels]
        batch = {"data": np.stack(images), "fine_labels": labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(batch))
    names = [f"thing {chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}))


def write_caltech(root: Path) -> None:
    """101 categories and the background, three images each."""
    rng = np.random.default_rng(6)
    names = ["BACKGROUND_Google", "Faces", "Faces_easy", "Leopards", "Motorbikes"]
    names += [f"object_{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(97)]
    for name in names:
        for number in range(1, 4):
            _save(rng, root / "101_ObjectCategories" / name / f"image_{number:04d}.jpg")


def write_cats_and_dogs(root: Path) -> None:
    """A folder by split and class."""
    rng = np.random.default_rng(7)
    for split, n_each in (("train", 16), ("test", 12)):
        for name in ("cat", "dog"):
            for number in range(n_each):
                _save(rng, root / split / name / f"{name}.{number}.jpg")
