"""Objects: folders by split and class, the CIFARs unpacked into such folders, and clear words where something is missing."""
import numpy as np
import pytest
from PIL import Image
from torchvision import datasets

from xaihelpers import objects
from xaihelpers.objects import ObjectsError, load_objects


def fill(root, splits=("train", "test"), classes=("cat", "fire_truck"), n=2):
    for split in splits:
        for name in classes:
            (root / split / name).mkdir(parents=True)
            for i in range(n):
                Image.new("RGB", (8, 8), (i, 0, 0)).save(root / split / name / f"{i}.png")
    return root


def test_a_folder_by_class(tmp_path):
    world = load_objects(fill(tmp_path / "things"))
    assert world.classes.name.tolist() == ["cat", "fire truck"] and len(world.images) == 8
    assert world.labels.tolist() == [0, 0, 1, 1] * 2 and world.images.train.tolist() == [True] * 4 + [False] * 4
    assert repr(world) == "Objects(things: 8 images, 4 of them for training, 2 classes)"


def test_classes_of_one_split_only(tmp_path):
    root = fill(tmp_path / "things")
    (root / "test" / "dog").mkdir()
    with pytest.raises(ObjectsError, match="'dog' is in one of them only"):
        load_objects(root)


def test_a_class_without_images(tmp_path):
    root = fill(tmp_path / "things")
    for split in ("train", "test"):
        (root / split / "dog").mkdir()
    with pytest.raises(ObjectsError, match="dog: no image file"):
        load_objects(root)


def test_no_such_folder():
    with pytest.raises(ObjectsError, match="There is no data set 'nowhere': name cifar10 or cifar100, or place a folder"):
        load_objects("nowhere")


class Archive:
    """Stands for torchvision's CIFAR10: 3 classes, two images each in either split."""
    filename = "cifar-10-python.tar.gz"
    classes = ["airplane", "automobile", "bird"]
    reads = 0

    def __init__(self, root, train, download):
        assert download
        type(self).reads += 1
        self.data = np.full((6, 32, 32, 3), 200 if train else 10, np.uint8)
        self.targets = [0, 1, 2, 2, 1, 0]

    def __len__(self):
        return 6


@pytest.mark.parametrize("given", ["cifar10", "CIFAR-10"])
def test_cifar_is_unpacked_once(tmp_path, monkeypatch, given):
    monkeypatch.setattr(objects, "data_home", lambda: tmp_path)
    monkeypatch.setattr(datasets, "CIFAR10", Archive)
    Archive.reads = 0
    world = load_objects(given)
    again = load_objects(given)
    assert Archive.reads == 2 and again.images.equals(world.images)  # once for each split
    assert world.labels.tolist() == [0, 0, 1, 1, 2, 2] * 2 and world.images.train.sum() == 6
    assert np.array(Image.open(world.images.path[0]))[0, 0].tolist() == [200] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cifar10", "cifar10.lock"]


def test_interrupted_unpacking_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "data_home", lambda: tmp_path)
    monkeypatch.setattr(datasets, "CIFAR10", Archive)
    monkeypatch.setattr(Archive, "targets", [0, 9], raising=False)

    def short(self, root, train, download):
        Archive.data = np.zeros((2, 32, 32, 3), np.uint8)

    monkeypatch.setattr(Archive, "__init__", short)
    with pytest.raises(IndexError):
        load_objects("cifar10")
    assert [path.name for path in tmp_path.iterdir()] == ["cifar10.lock"]


def test_no_connection_says_what_to_place_where(tmp_path, monkeypatch):
    def refused(self, root, train, download):
        raise RuntimeError("URL error")

    monkeypatch.setattr(objects, "data_home", lambda: tmp_path)
    monkeypatch.setattr(Archive, "__init__", refused)
    monkeypatch.setattr(datasets, "CIFAR10", Archive)
    with pytest.raises(ObjectsError, match="cifar10 could not be downloaded .*place its archive cifar-10-python.tar.gz in .*downloads"):
        load_objects("cifar10")


def test_real_cifar10_images(real_data):
    world = load_objects(real_data("images/cifar10"))
    assert len(world.images) == 700 and world.images.train.sum() == 500 and len(world.classes) == 10
