"""Benchmarks in the published SUB's layout: written in shards, read as one data set, bad files named."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from xaihelpers import datasets
from xaihelpers.datasets import DatasetError, write_sub

ATTRIBUTES = ["has_crown_color--yellow", "has_bill_shape--needle"]
BIRDS = ["Blue Jay", "Western Grebe"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    return tmp_path


def noise(n, seed=0):
    """n random images."""
    pixels = np.random.default_rng(seed).integers(256, size=(n, 8, 8, 3), dtype=np.uint8)
    return [Image.fromarray(image) for image in pixels]


def write_one(folder, shard=0, shards=1, note=""):
    """A shard of one image."""
    return write_sub(folder, noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS, shard, shards, note)


def test_shards_read_as_one(home):
    images = noise(5)
    for shard, rows in enumerate(([0, 1, 2], [3, 4])):
        attributes = [ATTRIBUTES[row % 2] for row in rows]
        birds = ["053.Western_Grebe" if row == 3 else "Blue_Jay" for row in rows]
        chosen = [images[row] for row in rows]
        write_sub(home / "mine", chosen, attributes, birds, ATTRIBUTES, BIRDS, shard, 2)
    data = datasets.load("mine")
    wanted = [ATTRIBUTES[row % 2].replace("--", "::") for row in range(5)]
    assert data.images.attribute.tolist() == wanted
    assert data.images.bird.tolist() == ["Blue Jay"] * 3 + ["Western Grebe", "Blue Jay"]
    for path, image in zip(data.images.path, images, strict=True):
        assert np.array_equal(np.asarray(datasets.load_image(path)), np.asarray(image))
    one = datasets.load(home / "mine" / "data" / "test-00001-of-00002.parquet")
    assert one.images.bird.tolist() == ["Western Grebe", "Blue Jay"]
    assert data.name == "mine" and data.class_names == BIRDS
    assert data.labels.tolist() == [0, 0, 0, 1, 0] and not data.train.any()


def test_shards_of_two_runs_and_missing_ones(home, caplog):
    write_one(home / "mine", 0, 2, "rejected in the check by people")
    write_one(home / "mine", 1, 2)
    assert len(datasets.load("mine").images) == 2 and "rejected in the check by people" in caplog.text
    other = write_one(home / "mine")
    with pytest.raises(DatasetError, match="3 parquet files of a benchmark in 1 and in 2 shards: remove"):
        datasets.load("mine")
    other.unlink()
    assert len(datasets.load("mine").images) == 2
    next((home / "mine" / "data").glob("*00001-of*")).unlink()
    with pytest.raises(DatasetError, match="1 parquet files of a benchmark in 2 shards.*that are missing"):
        datasets.load("mine")
    write_sub(home / "mine", [], [], [], ATTRIBUTES, BIRDS, 1, 2)  # a shard that kept nothing
    assert len(datasets.load("mine").images) == 1
    write_sub(home / "none", [], [], [], ATTRIBUTES, BIRDS)
    assert len(datasets.load("none").images) == 0


def test_what_was_there_before_and_what_is_gone(home):
    """Two columns more, where they are known; the published ones stay as they are."""
    gone = [["has_crown_color::red", "has_crown_color--blue"], []]
    write_sub(home / "mine", noise(2), ATTRIBUTES, BIRDS, ATTRIBUTES, BIRDS, before=noise(2, 1), removed=gone)
    images = datasets.load("mine").images
    assert images.removed.tolist() == [["has_crown_color::red", "has_crown_color::blue"], []]
    for path, image in zip(images.before, noise(2, 1), strict=True):
        assert np.array_equal(np.asarray(datasets.load_image(path)), np.asarray(image))
    write_sub(home / "other", noise(2), ATTRIBUTES, BIRDS, ATTRIBUTES, BIRDS, 0, 2, removed=gone)
    write_sub(home / "other", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS, 1, 2)
    with pytest.raises(DatasetError, match="other: some of its rows lack 'removed'"):
        datasets.load("other")
    with pytest.raises(DatasetError, match="unknown attribute 'has_crown"):
        removed = [["has_crown_color::rad"]]
        write_sub(home / "bad", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS, removed=removed)
    with pytest.raises(DatasetError, match=r"\['Cardinal'\] are not among the 2 names given"):
        write_sub(home / "bad", noise(1), ATTRIBUTES[:1], ["Cardinal"], ATTRIBUTES, BIRDS)


def stored(home, **columns):
    """A folder with a file of one row, some columns of which are other ones, or None: left out."""
    noise(1)[0].save(content := io.BytesIO(), "PNG")
    picture = {"bytes": content.getvalue(), "path": None}
    row = {
        "image": [picture],
        "attr_label": ["has_crown_color--yellow"],
        "bird_label": ["Blue_Jay"],
    } | columns
    file = home / "given" / "part.parquet"
    file.parent.mkdir(exist_ok=True)
    pd.DataFrame({name: values for name, values in row.items() if values is not None}).to_parquet(file)
    return file.parent


def test_bad_files_are_named(home):
    images = datasets.load(stored(home)).images  # labels may be names
    assert images[["attribute", "bird"]].values.tolist() == [["has_crown_color::yellow", "Blue Jay"]]
    for columns, message in (
        ({"attr_label": None}, "cannot be read as a benchmark's parquet file, which has image, attr_label"),
        ({"attr_label": ["has_crown_color--yelow"]}, "given: unknown attribute .*did you mean"),
        ({"bird_label": [3]}, "bird_label has labels that its metadata do not name"),
        ({"image": [{"bytes": None, "path": "a.png"}]}, "row 0 has no image"),
    ):
        with pytest.raises(DatasetError, match=message):
            datasets.load(stored(home, **columns))
    file = write_one(home / "mine")
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(DatasetError, match="of-00001.parquet: cannot be read as a benchmark"):
        datasets.load(home / "mine")


def test_rows_with_the_same_image_are_told_apart(home):
    """The picture is stored once, and every row has an id of its own."""
    same, other = noise(2)
    attributes, birds = [*ATTRIBUTES, ATTRIBUTES[0]], [*BIRDS, BIRDS[1]]
    file = write_sub(home / "mine", [same, other, same], attributes, birds, ATTRIBUTES, BIRDS)
    table = pq.read_table(file)
    assert table.column_names == ["image", "attr_label", "bird_label"]  # the published ones
    assert table["attr_label"].to_pylist() == [0, 1, 0]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"}
    assert features["attr_label"] == {"names": ATTRIBUTES, "_type": "ClassLabel"}
    data = datasets.load("mine")
    first, second, third = data.image_ids
    assert first == Path(data.images.path[0]).name and second == Path(data.images.path[1]).name
    assert third == f"{Path(first).stem}-2.png"
    assert data.images.path[0] == data.images.path[2]
    assert len(list((home / "cache" / "sub").iterdir())) == 2
    assert datasets.load("mine").image_ids == data.image_ids
    torn = Path(data.images.path[0])
    content = torn.read_bytes()
    torn.write_bytes(content[: len(content) // 2])
    assert datasets.load("mine").images.path.equals(data.images.path) and torn.read_bytes() == content


SYNCUB = """\ufeffpair_id,orig_image,syn_image,class_id,class_name,old_attr,new_attr
0,images/0_orig.png,images/0_syn.png,53,053.Western_Grebe,has_crown_color::black,has_crown_color::yellow
1,images/1_orig.png,images/1_syn.png,73,Blue_Jay, has_bill_shape--cone,has_bill_shape--needle
2,images/0_orig.png,images/2_syn.png,53,053.Western_Grebe,has_crown_color::black,has_crown_color::red
"""


def syncub(home, change=("", "")):
    (home / "pairs/images").mkdir(parents=True, exist_ok=True)
    for n, image in enumerate(noise(6)):
        image.save(home / f"pairs/images/{n // 2}_{('orig', 'syn')[n % 2]}.png")
    (home / "pairs/metadata.csv").write_text(SYNCUB.replace(*change), encoding="utf-8")
    return home / "pairs"


def test_syncub_s_pairs(home):
    data = datasets.load(syncub(home))
    assert data.name == "pairs" and data.class_names == ["Blue Jay", "Western Grebe"]
    assert data.labels.tolist() == [1, 0, 1] and not data.train.any()
    attributes = ["has_crown_color::yellow", "has_bill_shape::needle", "has_crown_color::red"]
    assert data.images.attribute.tolist() == attributes
    assert data.images.bird.tolist() == ["Western Grebe", "Blue Jay", "Western Grebe"]
    gone = [["has_crown_color::black"], ["has_bill_shape::cone"], ["has_crown_color::black"]]
    assert data.images.removed.tolist() == gone
    assert data.image_ids == [f"images/{n}_syn.png" for n in range(3)]
    for column, rows in (("before", [0, 2, 0]), ("path", [1, 3, 5])):
        for path, image in zip(data.images[column], np.array(noise(6), object)[rows], strict=True):
            assert np.array_equal(np.asarray(datasets.load_image(path)), np.asarray(image))


def test_syncub_s_faults_are_named(home):
    for change, message in (
        (("old_attr", "was"), "metadata.csv has no column 'old_attr'"),
        (("has_crown_color::red", "has_crown_color::rad"), "pairs: unknown attribute.*did you mean"),
        (("has_bill_shape--cone", ""), "pairs: unknown attribute ''"),
        (("has_bill_shape--cone", "has_bill_shape::needle"), "line 3: .* its attribute does not change"),
        (("2_syn", "0_syn"), "metadata.csv, line 4: the picture stands there for the second time"),
        (("1_orig", "9_orig"), "1 of its 3 images are not there, 'images/9_orig.png' first"),
        (("Blue_Jay", ""), "pairs: the row of images/1_syn.png names no bird: name it"),
        (("Blue_Jay", "western grebe"), "'Western Grebe' and 'western grebe' would be one and the same"),
    ):
        with pytest.raises(ValueError, match=message):
            datasets.load(syncub(home, change))
