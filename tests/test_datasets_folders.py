"""Images by class folder and by table, and torchvision's sets in exactly its layout."""

import os
import urllib.error
import urllib.request

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from torchvision import datasets

from xaihelpers.datasets import DatasetError, imagenet_names, load


def picture(file, shade=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (6, 6), shade).save(file)


def folders(root, *classes):
    """A picture in a folder of each class; the number of its bright row tells the class."""
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        pixels = np.zeros((32, 8, 3), np.uint8)
        pixels[number] = 255
        Image.fromarray(pixels).save(root / name / "a.png")
    return root


def labels_of(root, classes):
    """The label that each class's picture has been given, and the data."""
    data = load(root)
    rows = [int(np.asarray(Image.open(path))[:, 0, 0].argmax()) for path in data.images.path]
    return {classes[row]: label for row, label in zip(rows, data.images.label, strict=True)}, data


def test_a_class_without_pictures_or_in_one_split_only_is_refused(tmp_path):
    for split in ("train", "test"):
        folders(tmp_path / split, "cat", "fire_truck")
    (tmp_path / "train/dog").mkdir()
    with pytest.raises(DatasetError, match="dog: no image file"):
        load(tmp_path)
    picture(tmp_path / "train/dog/0.png")
    with pytest.raises(DatasetError, match="'dog' is in one of them only"):
        load(tmp_path)


def test_folders_called_by_wordnet_ids_get_plain_names(tmp_path):
    """Two classes share their first word; one folder is no id, and one an id that ImageNet does not know."""
    ids = ["n01440764", "n02012849", "n03710721", "n04254777", "n99999999", "sea_bird"]
    world = load(folders(tmp_path / "some_of_imagenet", *ids))
    plain = ["tench", "crane (large long-necked wading bird)", "maillot (tank suit)", "sock"]
    assert world.class_names == [*plain, "n99999999", "sea bird"]
    assert world.labels.tolist() == list(range(6))  # in the order of the ids, as networks have it
    assert world.image_ids[0].split("/")[-2] == "n01440764"  # files keep their names
    names = imagenet_names()
    assert len({name.lower() for name in names}) == len(names) == 1000
    assert names[0] == "tench" and names[638] == "maillot (tights for dancers or gymnasts)"
    assert [name for name in names if "(" in name] == [names[k] for k in (134, 264, 474, 517, 638, 639)]


class Archive:
    """Stands for torchvision's CIFAR10: 3 classes, two images each in either split."""

    classes = ["airplane", "automobile", "bird"]
    reads = 0

    def __init__(self, root, train, download):
        assert download
        type(self).reads += 1
        self.data = np.full((6, 32, 32, 3), 200 if train else 10, np.uint8)
        self.targets = [0, 1, 2, 2, 1, 0]


# torchvision's sets whose images are files: tiny ones in exactly its layout. Only checksums are left out.


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, no connection, torchvision without checksums; the value is `downloads`."""

    def offline(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", offline)
    for module in (datasets.utils, datasets.flowers102, datasets.imagenet):
        monkeypatch.setattr(module, "check_integrity", lambda path, md5=None: os.path.isfile(path))
    return tmp_path / "downloads"


def test_cifar_is_unpacked_once(home, monkeypatch):
    monkeypatch.setattr(datasets, "CIFAR10", Archive)
    world = load("cifar10")
    again = load("cifar10")
    assert Archive.reads == 2 and again.images.equals(world.images)  # once for each split
    assert world.labels.tolist() == [0, 0, 1, 1, 2, 2] * 2 and world.images.train.sum() == 6
    assert np.array(Image.open(world.images.path[0]))[0, 0].tolist() == [200] * 3
    assert sorted(path.name for path in home.parent.iterdir() if path.is_dir()) == ["cifar10", "downloads"]


CATEGORIES = ["BACKGROUND_Google", "Faces", "Faces_easy", "Leopards", *(f"c{k:02d}" for k in range(98))]


def caltech(root, categories=CATEGORIES):
    for name in categories:
        for n in range(1, 6 if name == "Faces_easy" else 3):
            picture(root / "101_ObjectCategories" / name / f"image_{n:04d}.jpg")


def test_caltech101(home):
    caltech(home / "caltech101", CATEGORIES[:40])
    with pytest.raises(DatasetError, match="holds 39 categories of 101: delete it and run this again"):
        load("caltech101")
    caltech(home / "caltech101")
    world = load("caltech101")
    assert len(world.classes) == 101 and world.class_names[:3] == ["Faces", "Faces easy", "Leopards"]
    assert len(world.images) == 205 and not world.images.path.str.contains("BACKGROUND").any()
    of_easy = world.images[world.images.label == 1]
    assert len(of_easy) == 5 and of_easy.train.sum() == 3 and of_easy.path.str.contains("Faces_easy").all()
    assert load("caltech101").images.equals(world.images)  # the same split at every reading


def test_flowers102(home):
    root = home / "flowers-102"
    for n in range(1, 11):
        picture(root / "jpg" / f"image_{n:05d}.jpg", n)
    savemat(root / "imagelabels.mat", {"labels": [[1, 1, 2, 2, 60, 60, 102, 102, 3, 3]]})
    savemat(root / "setid.mat", {"trnid": [[2, 4]], "valid": [[1, 3]], "tstid": [[5, 6, 7, 8, 9, 10]]})
    world = load("flowers102")
    assert len(world.classes) == 102
    assert world.classes.name[1] == "pink primrose" and world.classes.name[60] == "pink-yellow dahlia"
    assert world.labels.tolist() == [0, 1, 0, 1, 59, 59, 101, 101, 2, 2]
    assert world.images.train.tolist() == [True] * 4 + [False] * 6
    assert [int(path[-9:-4]) for path in world.images.path] == [2, 4, 1, 3, 5, 6, 7, 8, 9, 10]
    (root / "jpg/image_00003.jpg").unlink()
    with pytest.raises(DatasetError, match="not whole in .*/flowers-102 .*1 images are missing, .*00003.jpg"):
        load("flowers102")


def test_imagenet_as_torchvision_unpacks_it(home):
    wordnet = {"n01440764": "tench", "n02012849": "crane (large long-necked wading bird)"}
    root = home / "imagenet"
    for split in ("val", "train"):
        for number, one in enumerate(wordnet):
            picture(root / split / one / f"{number}.JPEG")
        torch.save(({one: (one,) for one in wordnet}, []), root / "meta.bin")
        world = load("imagenet")
        assert world.class_names == [*wordnet.values()]
        assert world.labels[~world.train].tolist() == [0, 1]
        assert world.images.train.sum() == (2 if split == "train" else 0)
    picture(root / "val/ILSVRC2012_val_00000007.JPEG")
    with pytest.raises(DatasetError, match="imagenet/val: an unpacking was interrupted: delete it and run"):
        load("imagenet")


def test_no_connection_says_where_files_are_to_be_placed(home):
    for name, why in (
        ("cifar10", "no route to host"),
        ("stanford_cars", "Dataset not found"),
        ("imagenet", "ILSVRC2012_devkit_t12.tar.gz is not present"),
    ):
        with pytest.raises(DatasetError, match=f"^{name} is not whole in .*/{name} .*{why}.*place"):
            load(name)


def test_class_folders_without_a_split_are_split_once_for_all(tmp_path):
    for name in ("daisy", "wild_rose"):
        for n in range(10):
            picture(tmp_path / "flowers" / name / f"{n}.png")
    data, again = load(tmp_path / "flowers"), load(tmp_path / "flowers")
    assert data.class_names == ["daisy", "wild rose"]
    assert data.images.groupby("label")["train"].sum().tolist() == [6, 6]
    pd.testing.assert_frame_equal(data.images, again.images)


def test_tables_of_images(tmp_path):
    names = ("cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png")
    for name in names:
        picture(tmp_path / name)
    table = pd.DataFrame({"file": names, "label": ["cat", "cat", "dog", "dog"]})
    words = ["Train", "TEST", "training", "testing"]
    table.assign(split=words, label=["NA", "NA", "None", "null"]).to_csv(tmp_path / "good.csv", index=False)
    data = load(tmp_path / "good.csv")
    assert data.train.tolist() == [True, False] * 2 and data.class_names == ["NA", "None", "null"]
    for broken, message in (
        (table.drop(columns="label"), "no column 'label'"),
        (table.assign(file="cat/9.png"), "4 of its 4 images are not there, 'cat/9.png' first"),
        (table.assign(label=["cat", "", "dog", "dog"]), "line 3 has no file or no label"),
        (table.assign(file=["./cat/1.png", *names[1:]]), "'cat/1.png' stands twice: keep one of its rows"),
        (table.assign(split=["train", "tset", "test", "test"]), "line 3: split is 'tset'"),
    ):
        broken.to_csv(tmp_path / "broken.csv", index=False)
        with pytest.raises(ValueError, match=message):
            load(tmp_path / "broken.csv")


# Names, orders and files as people have them


def test_numbers_are_in_the_order_of_numbers_and_no_name_is_cut(tmp_path):
    for part, (classes, names) in enumerate(
        (
            ([str(number) for number in range(12)], None),
            (["-1", "0", "2.0", "03", "10.0"], None),
            (["001.Red_Bird", "002.Blue_Jay", "010.Owl"], ["Red Bird", "Blue Jay", "Owl"]),
        )
    ):
        root = tmp_path / f"part {part}"
        files = [f"things/{name}/a.png" for name in reversed(classes)]
        folders(root / "things", *classes)
        pd.DataFrame({"file": files, "label": classes[::-1]}).to_csv(root / "a.csv", index=False)
        for place in (root / "things", root / "a.csv"):
            label_of, data = labels_of(place, classes)
            assert label_of == {name: label for label, name in enumerate(classes)}
            assert data.class_names == (names or classes)


def test_composed_and_decomposed_letters_are_one(tmp_path):
    folders(tmp_path / "things/train", "Mo\u0308we", "owl")
    folders(tmp_path / "things/test", "M\u00f6we", "owl")
    data = load(tmp_path / "things")
    assert data.class_names == ["M\u00f6we", "owl"] and data.labels.tolist() == [0, 1, 0, 1]
    assert data.image_ids[0] == "train/M\u00f6we/a.png" and all(map(os.path.isfile, data.images.path))
    files = ["things/train/M\u00f6we/a.png", "things/test/Mo\u0308we/a.png"]
    table = pd.DataFrame({"file": files, "label": ["M\u00f6we", "Mo\u0308we"]})
    table.to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    assert data.class_names == ["M\u00f6we"] and all(map(os.path.isfile, data.images.path))


KINDS = "jpg JPEG png ppm bmp pgm tif tiff webp gif".split()


def test_pictures_are_found_as_imagefolder_finds_them(tmp_path, caplog):
    root = tmp_path / "things"
    for name in ("cat", "dog"):
        for number, kind in enumerate(KINDS):
            place = root / name / ("deep/er" if number % 2 else "")
            picture(place / f"{number}.{kind}", 50 * (name == "dog") + number)
    data = load(root)
    peer = datasets.ImageFolder(root, is_valid_file=lambda path: True)
    assert list(zip(data.images.path, data.images.label, strict=True)) == peer.samples
    assert data.left_out == "" and not caplog.text
    for name in ("cat/a.heic", "cat/b.heic", "dog/deep/notes.txt", "dog/.c.png", "dog/.thumbs/d.png"):
        (root / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(root / name, "PNG")
    again = load(root)
    assert again.images.path.tolist() == data.images.path.tolist()
    assert sorted(again.left_out.split(", ")) == ["1 .txt", "2 .heic", "2 hidden"]
    assert f"left out: {again.left_out}" in repr(again) and "files left out: 2 " in caplog.text


def test_a_split_into_train_and_val(tmp_path):
    for split in ("Train", "val"):
        folders(tmp_path / "things" / split, "cat", "dog")
    data = load(tmp_path / "things")
    assert data.images.train.tolist() == [True, True, False, False] and data.class_names == ["cat", "dog"]
    assert data.image_ids[0] == "Train/cat/a.png"
    folders(tmp_path / "things/test", "cat", "dog")
    data = load(tmp_path / "things")  # what is neither is counted
    assert [name.split("/")[0] for name in data.image_ids] == ["Train", "Train", "test", "test"]
    assert data.left_out == "2 .png"
    for one in ("train", "test"):
        folders(tmp_path / f"only_{one}" / one, "cat", "dog")
        with pytest.raises(DatasetError, match=f"needs train/<class>/ and test/.*but has {one}/"):
            load(tmp_path / f"only_{one}")
    folders(tmp_path / "vehicles", "bus", "train", "tram")  # a class may be called so
    assert load(tmp_path / "vehicles").class_names == ["bus", "train", "tram"]
    picture(tmp_path / "vehicles/cover.png")
    with pytest.raises(DatasetError, match="or images alone, but has images beside folders, .*bus/"):
        load(tmp_path / "vehicles")
