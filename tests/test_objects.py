"""Objects: worlds and folders, the CIFARs unpacked into folders, torchvision's other sets in exactly its layout, and clear words where something is missing."""
import io
import os
import tarfile
import urllib.error
import urllib.request
import zipfile

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.io import savemat
from torchvision import datasets

from xaihelpers import everyday, objects
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
    with pytest.raises(ObjectsError, match="There is no data set 'nowhere': name one of everyday, aviary, cifar10, .*imagenet, or place a folder"):
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


# Worlds, and other folders in CUB's format

def test_a_folder_in_cubs_format(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    root = everyday.ensure("few", images_per_class=2, jobs=1)
    (root / "attributes/image_attribute_labels.txt").unlink()  # objects need none
    (root / "classes.txt").write_text((root / "classes.txt").read_text().replace("007.flower", "007.Painted_Bunting"))
    for world in (load_objects("few"), load_objects(root)):
        assert world.classes.name.tolist()[5:8] == ["car", "Painted Bunting", "umbrella"] and world.labels.tolist() == [k for k in range(20) for _ in range(2)]
        assert world.images.columns.tolist() == ["path", "label", "train"] and world.images.train.sum() == 20
        assert all(os.path.isfile(path) and name.replace("Painted Bunting", "flower") in path for path, name in zip(world.images.path, world.classes.name[world.images.label + 1]))


@pytest.mark.parametrize("name", ["everyday", "Aviary"])
def test_worlds_by_name(monkeypatch, name):
    seen = []

    def quick(data, attributes):
        seen.append((data, attributes))
        raise KeyboardInterrupt

    monkeypatch.setattr(objects, "load_birds", quick)
    with pytest.raises(KeyboardInterrupt):
        load_objects(name)
    assert seen == [(name.lower(), "class")]  # how it draws them, the tests of each world show


# torchvision's sets whose images are files: tiny ones in exactly its layout. Only the check of archives' sums is set aside.

@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, no connection, and torchvision without its sums; the value is its folder of downloads."""
    def offline(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", offline)
    for module in (datasets.utils, datasets.flowers102, datasets.imagenet):
        monkeypatch.setattr(module, "check_integrity", lambda path, md5=None: os.path.isfile(path))
    return tmp_path / "downloads"


def picture(file, shade=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (6, 6), shade).save(file)


def packed(folder, mode, inside=""):
    """The content of `folder` as the bytes of a tar archive."""
    with tarfile.open(fileobj=(buffer := io.BytesIO()), mode=mode) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, f"{inside}{path.relative_to(folder)}", recursive=False)
    return buffer.getvalue()


CATEGORIES = ["BACKGROUND_Google", "Faces", "Faces_easy", "Leopards", *(f"c{k:02d}" for k in range(98))]


def caltech(root, categories=CATEGORIES):
    for name in categories:
        for n in range(1, 6 if name == "Faces_easy" else 3):
            picture(root / "101_ObjectCategories" / name / f"image_{n:04d}.jpg")


def check_caltech(world):
    assert len(world.classes) == 101 and world.classes.name.tolist()[:3] == ["Faces", "Faces easy", "Leopards"]
    assert len(world.images) == 205 and not world.images.path.str.contains("BACKGROUND").any()
    of_easy = world.images[world.images.label == 1]
    assert len(of_easy) == 5 and of_easy.train.sum() == 3 and of_easy.path.str.contains("Faces_easy").all()
    assert (world.images.groupby("label").train.sum() == 1).sum() == 100  # 60 % of two, rounded
    assert all(Image.open(path).size == (6, 6) for path in world.images.path)
    return world


def test_caltech101(home):
    caltech(home / "caltech101")
    world = check_caltech(load_objects("caltech101"))
    assert load_objects("Caltech-101").images.equals(world.images)  # the same split at every reading


def test_caltech101_elsewhere_under_the_data_folder(home):
    caltech(home.parent / "caltech101")
    assert check_caltech(load_objects("caltech101")).root == home.parent / "caltech101"


def test_caltech101_unpacked_from_its_archive(home, tmp_path):
    caltech(tmp_path / "made")
    (home / "caltech101").mkdir(parents=True)
    with zipfile.ZipFile(home / "caltech101/caltech-101.zip", "w") as archive:
        archive.writestr("caltech-101/101_ObjectCategories.tar.gz", packed(tmp_path / "made", "w:gz"))
    check_caltech(load_objects("caltech101"))


def test_caltech101_half_unpacked(home):
    caltech(home / "caltech101", CATEGORIES[:40])
    with pytest.raises(ObjectsError, match="101_ObjectCategories holds 39 categories where Caltech-101 has 101 .*delete that folder and run this again"):
        load_objects("caltech101")


def flowers(root):
    for n in range(1, 11):
        picture(root / "jpg" / f"image_{n:05d}.jpg", n)
    savemat(root / "imagelabels.mat", {"labels": [[1, 1, 2, 2, 60, 60, 102, 102, 3, 3]]})
    savemat(root / "setid.mat", {"trnid": [[2, 4]], "valid": [[1, 3]], "tstid": [[5, 6, 7, 8, 9, 10]]})


def check_flowers(world):
    assert len(world.classes) == 102 and world.classes.name[1] == "pink primrose" and world.classes.name[60] == "pink-yellow dahlia"
    assert world.labels.tolist() == [0, 1, 0, 1, 59, 59, 101, 101, 2, 2] and world.images.train.tolist() == [True] * 4 + [False] * 6
    assert [int(path[-9:-4]) for path in world.images.path] == [2, 4, 1, 3, 5, 6, 7, 8, 9, 10]


def test_flowers102(home):
    flowers(home / "flowers-102")
    check_flowers(load_objects("flowers102"))
    (home / "flowers-102/jpg/image_00007.jpg").unlink()
    with pytest.raises(ObjectsError, match=r"image_00007.jpg: image file missing \(1 such in all\). Place in .*flowers-102 the whole set"):
        load_objects("Flowers-102")


def test_flowers102_unpacked_from_its_archive(home, tmp_path):
    flowers(home / "flowers-102")
    (home / "flowers-102/jpg").rename(tmp_path / "jpg")
    (home / "flowers-102/102flowers.tgz").write_bytes(packed(tmp_path / "jpg", "w:gz", "jpg/"))
    check_flowers(load_objects("flowers102"))


def cars(root):
    names = np.array(["AM General Hummer SUV 2000", "Audi TT RS Coupe 2012"], dtype=object)
    (root / "devkit").mkdir(parents=True)
    savemat(root / "devkit/cars_meta.mat", {"class_names": names})
    for split, file, classes in (("train", "devkit/cars_train_annos.mat", [2, 1, 1]), ("test", "cars_test_annos_withlabels.mat", [1, 2])):
        rows = np.array([(np.uint8(k), f"{n:05d}.jpg") for n, k in enumerate(classes, 1)], dtype=[("class", object), ("fname", object)])
        savemat(root / file, {"annotations": rows})
        for n in range(1, len(classes) + 1):
            picture(root / f"cars_{split}" / f"{n:05d}.jpg")


@pytest.mark.parametrize("given", ["stanford_cars", "StanfordCars"])
def test_stanford_cars(home, given):
    cars(home / "stanford_cars")
    world = load_objects(given)
    assert world.classes.name.tolist() == ["AM General Hummer SUV 2000", "Audi TT RS Coupe 2012"]
    assert world.labels.tolist() == [1, 0, 0, 0, 1] and world.images.train.tolist() == [True] * 3 + [False] * 2
    assert [path.split("/")[-2:] for path in world.images.path[2:4]] == [["cars_train", "00003.jpg"], ["cars_test", "00001.jpg"]]


# id, WordNet id, words, and how many kinds it has: one is no class, and two classes share their first lemma
SYNSETS = [(1, "n02012849", "crane", 0), (2, "n01440764", "tench, Tinca tinca", 0), (3, "n03126707", "crane, derrick", 0),
           (4, "n00001740", "entity", 3), (5, "n02963159", "cardigan", 0)]
TRUTH = [2, 1, 3, 5, 2, 1]


def imagenet(root, tmp_path, train=True):
    """ImageNet's archives, as its site gives them."""
    root.mkdir(parents=True)
    synsets = np.array([(k, wnid, words, "gloss", kinds) for k, wnid, words, kinds in SYNSETS],
                       dtype=[(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")])
    (data := tmp_path / "devkit/data").mkdir(parents=True)
    savemat(data / "meta.mat", {"synsets": synsets})
    (data / "ILSVRC2012_validation_ground_truth.txt").write_text("".join(f"{k}\n" for k in TRUTH))
    (root / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(packed(tmp_path / "devkit", "w:gz", "ILSVRC2012_devkit_t12/"))
    for n in range(1, 7):
        picture(tmp_path / f"val/ILSVRC2012_val_{n:08d}.JPEG", n)
    (root / "ILSVRC2012_img_val.tar").write_bytes(packed(tmp_path / "val", "w"))
    if train:
        for _, wnid, _, kinds in SYNSETS:
            picture(tmp_path / "pictures" / wnid / f"{wnid}_1.JPEG")
            (tmp_path / "train").mkdir(exist_ok=True)
            if not kinds:
                (tmp_path / "train" / f"{wnid}.tar").write_bytes(packed(tmp_path / "pictures" / wnid, "w"))
        (root / "ILSVRC2012_img_train.tar").write_bytes(packed(tmp_path / "train", "w"))


def check_imagenet(world, train):
    assert world.classes.name.tolist() == ["tench", "crane (n02012849)", "cardigan", "crane (derrick)"]
    of_val = world.images[~world.images.train]
    assert of_val.label.tolist() == [0, 0, 1, 1, 2, 3] and world.images.train.sum() == train
    numbers = [np.asarray(Image.open(path))[0, 0] for path in of_val.path]
    assert [TRUTH[n - 1] for n in numbers] == [2, 2, 1, 1, 5, 3]  # each picture is of the class that the ground truth gives it


def test_imagenet_unpacked_from_its_archives(home, tmp_path):
    imagenet(home / "imagenet", tmp_path / "made")
    world = load_objects("imagenet")
    check_imagenet(world, train=4)
    for archive in (home / "imagenet").glob("*.tar*"):
        archive.unlink()
    check_imagenet(load_objects("ImageNet"), train=4)  # what is unpacked is enough


def test_imagenet_without_images_for_training(home, tmp_path):
    imagenet(home / "imagenet", tmp_path / "made", train=False)
    check_imagenet(load_objects("imagenet"), train=0)


def test_imagenet_half_unpacked(home, tmp_path):
    imagenet(home / "imagenet", tmp_path / "made", train=False)
    load_objects("imagenet")
    picture(home / "imagenet/val/ILSVRC2012_val_00000007.JPEG")
    with pytest.raises(ObjectsError, match="val_00000007.JPEG lies in no class's folder: an unpacking was interrupted. Delete .*imagenet/val and run this again"):
        load_objects("imagenet")


def test_imagenet_with_other_classes_for_training(home, tmp_path):
    imagenet(home / "imagenet", tmp_path / "made", train=False)
    picture(home / "imagenet/train/n01440764/a.JPEG")
    with pytest.raises(ObjectsError, match="train/ and val/ need the same classes, but n02012849 is in one of them only"):
        load_objects("imagenet")


@pytest.mark.parametrize(("name", "why", "wanted"), [
    ("caltech101", "no route to host", r"downloads/caltech101 .*place there caltech-101.zip .*101_ObjectCategories/"),
    ("flowers102", "no route to host", r"downloads/flowers-102 .*place there 102flowers.tgz .*imagelabels.mat and setid.mat"),
    ("stanford_cars", "Dataset not found", r"downloads/stanford_cars .*place there cars_train/ and cars_test/ .*cars_meta.mat, devkit/cars_train_annos.mat and cars_test_annos_withlabels.mat"),
    ("imagenet", "ILSVRC2012_devkit_t12.tar.gz is not present", r"downloads/imagenet .*place there ILSVRC2012_devkit_t12.tar.gz and ILSVRC2012_img_val.tar"),
])
def test_no_connection_says_which_files_to_place(home, name, why, wanted):
    with pytest.raises(ObjectsError, match=f"^{name} is not whole in ") as raised:
        load_objects(name)
    assert why in str(raised.value)
    assert raised.match(wanted) and raised.match("run this again")


def test_a_damaged_download_is_told(home):
    flowers(home / "flowers-102")
    (home / "flowers-102/setid.mat").write_bytes(b"<html>")
    with pytest.raises(ObjectsError, match="flowers102 is not whole in .*place there 102flowers.tgz"):
        load_objects("flowers102")


def test_a_data_folder_that_cannot_be_written(home, monkeypatch):
    cars(home / "stanford_cars")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert len(load_objects("stanford_cars").images) == 5 and not list(home.glob("*.lock"))


def test_an_error_without_words(home, monkeypatch):
    def silent(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(urllib.request, "urlopen", silent)
    with pytest.raises(ObjectsError, match=r"could not be had \(TimeoutError\)"):
        load_objects("caltech101")


def test_class_folders_without_a_split_are_split_once_for_all(tmp_path):
    for name in ("daisy", "wild_rose"):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for n in range(10):
            Image.new("RGB", (4, 4), (n, 0, 0)).save(tmp_path / "flowers" / name / f"{n}.png")
    data, again = load_objects(tmp_path / "flowers"), load_objects(tmp_path / "flowers")
    assert data.classes["name"].tolist() == ["daisy", "wild rose"] and data.images.groupby("label")["train"].sum().tolist() == [6, 6]
    pd.testing.assert_frame_equal(data.images, again.images)
    (tmp_path / "flowers" / "empty").mkdir()
    with pytest.raises(ObjectsError, match="empty: no image file"):
        load_objects(tmp_path / "flowers")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ObjectsError, match="at least two classes, but has 0"):
        load_objects(tmp_path / "nothing")


def test_a_table_of_images(tmp_path):
    for name in ("cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    table = pd.DataFrame({"file": ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"], "label": ["cat", "cat", "dog", "dog"], "split": ["train", "test"] * 2})
    table.to_csv(tmp_path / "pets.csv", index=False)
    found = load_objects(str(tmp_path / "pets.csv"))
    assert found.classes.name.tolist() == ["cat", "dog"] and found.labels.tolist() == [0, 0, 1, 1] and found.images.train.tolist() == [True, False] * 2 and found.root.name == "pets"
    table.rename(columns={"label": "class_name"})[["file", "class_name"]].to_csv(tmp_path / "other.csv", index=False)
    assert not load_objects(str(tmp_path / "other.csv")).images.train.any()
    table.drop(columns="label").to_csv(tmp_path / "bare.csv", index=False)
    with pytest.raises(ObjectsError, match="has the columns file and label"):
        load_objects(str(tmp_path / "bare.csv"))
    table.assign(file="cat/9.png").to_csv(tmp_path / "gone.csv", index=False)
    with pytest.raises(ObjectsError, match="4 of its 4 images are not there, 'cat/9.png' first"):
        load_objects(str(tmp_path / "gone.csv"))
    table.assign(label=["cat", "", "dog", "dog"]).to_csv(tmp_path / "holes.csv", index=False)
    with pytest.raises(ObjectsError, match="line 3 has no file or no label"):
        load_objects(str(tmp_path / "holes.csv"))
    (tmp_path / "nothing.csv").write_text("")
    with pytest.raises(ObjectsError, match="cannot be read as a table"):
        load_objects(str(tmp_path / "nothing.csv"))
    with pytest.raises(ObjectsError, match="no table"):
        load_objects(str(tmp_path / "none.csv"))
