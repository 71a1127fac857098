"""`datasets.load`, the one door: every format by name or by path; what is unknown is None, and refusals."""

import pandas as pd
import pytest
import torch
from PIL import Image

from xaihelpers import datasets
from xaihelpers.datasets import DatasetError

UNKNOWN = "attributes attribute_level present certainty class_attributes parts part_locations mask_names"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    return tmp_path


def save(path, shade=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (shade, 0, 0)).save(path)


def check_consistent(data):
    """What holds of every data set: rows agree, ids are unique and lead to the images."""
    n = len(data.images)
    assert data.labels.shape == data.train.shape == (n,) and data.labels.dtype == torch.int64
    assert len(data.image_ids) == len(set(data.image_ids)) == n
    assert all(str(path).endswith(name) for path, name in zip(data.images.path, data.image_ids, strict=True))
    assert len(data.class_names) == len(data.classes) and data.labels.max() < len(data.classes)
    assert all(datasets.load_image(path).mode == "RGB" for path in data.images.path[:2])
    return data


def check_nothing_annotated(data):
    assert all(getattr(data, field) is None for field in UNKNOWN.split())
    with pytest.raises(DatasetError, match="comes without attributes: name data in CUB"):
        datasets.image_attributes(data)
    with pytest.raises(DatasetError, match="comes without parts"):
        datasets.part_points(data, [0])


def test_the_shipped_worlds():
    for name in datasets.DRAWN:
        data = check_consistent(datasets.load(name))
        assert data.name == name and data.attribute_level == "image"
        assert data.image_ids[0].startswith("001.") and data.image_ids[0].endswith("_0001_1.jpg")


def test_a_table(home):
    for name in ("a/1.png", "b/1.png"):
        save(home / "lists" / name)
    save(home / "apart/1.png")
    files = ["a/1.png", "b/1.png", "../apart/1.png"]
    pd.DataFrame({"file": files, "label": list("xyx")}).to_csv(home / "lists/all.csv", index=False)
    data = datasets.load("lists/all.csv")
    check_nothing_annotated(check_consistent(data))
    assert data.name == "all" and data.image_ids == files
    # images outside the folder bear their bare names, or their paths where those are not unique
    save(home / "apart/2.png")
    files = [str(home / name) for name in ("apart/1.png", "lists/a/1.png", "apart/2.png")]
    (home / "other").mkdir()
    pd.DataFrame({"file": files, "label": list("xyx")}).to_csv(home / "other/apart.csv", index=False)
    assert datasets.load("other/apart.csv").image_ids == [*files[:2], "2.png"]


def test_what_is_not_there(home):
    for wrong in ("nowhere", str(home / "nowhere"), "", "cifar11"):
        with pytest.raises(DatasetError, match=f"no data set {wrong!r}: name one of aviary, .*XAI_DATA"):
            datasets.load(wrong)


def test_what_is_no_data_set(home):
    (home / "paper.pdf").write_bytes(b"%PDF")
    save(home / "bird.png")
    (home / "birds.zip").write_bytes(b"PK\xff")
    (home / "broken.parquet").write_bytes(b"PAR1")
    (home / "empty").mkdir()
    (home / "inner/CUB_200_2011").mkdir(parents=True)
    (home / "inner/CUB_200_2011/images.txt").write_text("1 a.jpg\n")
    for name, message in {
        "paper.pdf": "paper.pdf is neither a CSV table .* parquet file .*: give one of these",
        "bird.png": "bird.png is neither a CSV table .* folder: that of the pictures",
        "birds.zip": "birds.zip is neither a CSV table .* archive's, unpacked",
        "empty": r"empty: needs train/<class>/ and test/<class>/ .* or <class>/ with images",
        "inner": "name the folder that holds images.txt",
        "broken.parquet": "broken.parquet",
    }.items():
        with pytest.raises(DatasetError, match=message):
            datasets.load(name)
