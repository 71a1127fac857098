"""Maps of a user's own, from a file or a function: cut as the pictures are, and what is wrong is named."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from xaihelpers import datasets, saliency
from xaihelpers.own_model import OwnModelError

IDS = ["0.png", "1.png", "2.png"]
VIEW = saliency.picture_view("mine", 10)
LEFT = """
import numpy as np

def maps_of(images):
    maps = []
    for image in images:
        one = np.zeros((image.height, image.width))
        one[:, : image.width // 2] = 7
        maps.append(one)
    return {"maps": maps, "predicted": ["bird"] * len(images)}
"""


@pytest.fixture
def pictures(tmp_path):
    """Three pictures, 40 pixels wide and 20 high."""
    (tmp_path / "pictures").mkdir()
    for name in IDS:
        Image.new("RGB", (40, 20)).save(tmp_path / "pictures" / name)
    return datasets.load(str(tmp_path / "pictures"))


def left_and_right(count=3):
    """Maps (count, 2, 4): bright on the left half, on the right half, nowhere."""
    maps = np.zeros((count, 2, 4))
    maps[0, :, :2], maps[1, :, 2:] = 5, -5
    return maps


def test_maps_are_cut_as_the_pictures_are(pictures, tmp_path):
    np.savez(tmp_path / "mine.npz", maps=left_and_right(), image_ids=IDS)
    found = saliency.own_maps(tmp_path / "mine.npz", pictures, [1, 0, 2], VIEW)
    assert found.maps.shape == (3, 10, 10) and found.predicted is None
    # the middle half of the picture is kept: its left half is bright in the maps of images 0 and 1
    assert (found.maps[:2, :, :3] > 0.7).all() and (found.maps[:2, :, 7:] < 0.3).all()
    assert found.constant.tolist() == [False, False, True] and found.maps[2].eq(0).all()
    (tmp_path / "mine.py").write_text(LEFT)
    asked = saliency.own_maps(tmp_path / "mine.py", pictures, [0, 2], VIEW, need_predictions=True)
    maps = torch.zeros(3, 20, 40)
    maps[:, :, :20] = 0.5
    header = {"image_ids": json.dumps(IDS), "predicted": json.dumps(["bird", "cat", "bird"])}
    save_file({"maps": maps}, tmp_path / "mine.safetensors", header)
    read = saliency.own_maps(tmp_path / "mine.safetensors", pictures, [0, 2], VIEW, need_predictions=True)
    assert torch.equal(asked.maps, read.maps) and asked.predicted == read.predicted == ["bird", "bird"]


def test_ids_of_maps_are_compared_as_text(pictures, tmp_path):
    (tmp_path / "pictures" / "2.png").rename(tmp_path / "pictures" / "Mo\u0308we.png")
    data = datasets.load(str(tmp_path / "pictures"))
    np.savez(tmp_path / "mine.npz", maps=left_and_right(), image_ids=["0.png ", "1.png", "M\u00f6we.png"])
    assert saliency.own_maps(tmp_path / "mine.npz", data, range(3), VIEW).constant.tolist() == [0, 0, 1]


@pytest.mark.parametrize("kind", ["npz", "safetensors", "dict", "attribute"])
def test_a_map_may_cover_the_middle(kind, pictures, tmp_path):
    """The middle 20 · 3/5 = 12 of 20 pixels: of the 10 that the view makes of them, 2 to 8."""
    ones, file = np.ones((3, 4, 4)), tmp_path / "mine"
    ones[:, :, 2:] = 2  # brighter on the right
    if kind == "npz":
        np.savez(file.with_suffix(".npz"), maps=ones, image_ids=IDS, covers="3/5")
    elif kind == "safetensors":
        header = {"image_ids": json.dumps(IDS), "covers": "3/5"}
        save_file({"maps": torch.from_numpy(ones)}, file.with_suffix(".safetensors"), header)
    else:
        source = (
            "def maps_of(images):\n    return {'maps': [[[1, 1, 2, 2]] * 4] * len(images), 'covers': '3/5'}"
        )
        if kind == "attribute":
            source = source.replace(", 'covers': '3/5'", "") + "\nmaps_of.covers = '3/5'"
        file.with_suffix(".py").write_text(source)
    (found,) = tmp_path.glob("mine.*")
    maps = saliency.own_maps(found, pictures, [0], VIEW).maps[0]
    assert maps[:, :4].eq(0).all() and maps[:2].lt(0.3).all() and maps[8:].lt(0.3).all()
    assert maps[3:7, 6:8].gt(0.7).all() and maps[:, 9:].lt(0.3).all()


def test_square_maps_of_wide_pictures_say_what_they_cover(pictures, tmp_path):
    square = np.zeros((3, 4, 4))
    square[:, :, 3] = 1
    for covers, message in (
        ({}, r"the map of '0.png' is square and its picture 40 × 20: say in `covers`"),
        ({"covers": "the middle"}, "covers 'the middle': write image, or crop/size as 224/256"),
        ({"covers": "256/224"}, "covers '256/224': write image"),
    ):
        np.savez(tmp_path / "mine.npz", maps=square, image_ids=IDS, **covers)
        with pytest.raises(OwnModelError, match=message):
            saliency.own_maps(tmp_path / "mine.npz", pictures, range(3), VIEW)
    np.savez(tmp_path / "mine.npz", maps=square, image_ids=IDS, covers="image")
    maps = saliency.own_maps(tmp_path / "mine.npz", pictures, [0], VIEW).maps[0]
    assert maps[:, 9].eq(1).all() and maps[:, :5].eq(0).all()  # the right quarter of 40 pixels is 30 to 40


@pytest.mark.parametrize(
    "content, message",
    [
        ({"maps": left_and_right()}, "image_ids"),
        ({"image_ids": IDS}, "maps is not a file"),
        ({"maps": left_and_right(), "image_ids": IDS[:2]}, "3 maps, but 2 image_ids"),
        ({"maps": left_and_right(), "image_ids": ["0.png", "0.png", "1.png"]}, "'0.png' has two maps"),
        ({"maps": left_and_right(), "image_ids": ["a", "b", "c"]}, "3 of the 3 images wanted have no map"),
        ({"maps": left_and_right()[:, 0], "image_ids": IDS}, r"the map of '0.png' is \(4,\)"),
        ({"maps": left_and_right() * np.nan, "image_ids": IDS}, "with NaN or infinite values"),
        ({"maps": left_and_right(), "image_ids": np.array(IDS, object)}, "no maps that can be read"),
        ({"maps": left_and_right(), "image_ids": IDS, "predicted": ["a"]}, "3 maps, but 1 predicted"),
        ({"maps": left_and_right(), "image_ids": IDS}, "maps without predictions"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(content, message, pictures, tmp_path):
    np.savez(tmp_path / "mine.npz", **content)
    with pytest.raises(OwnModelError, match=f"mine.npz: .*{message}"):
        saliency.own_maps(tmp_path / "mine.npz", pictures, range(3), VIEW, need_predictions=True)


@pytest.mark.parametrize(
    "source, message",
    [
        (LEFT.replace("maps_of", "map_of"), "has no function maps_of"),
        ("def maps_of(images): return [[[1, 2]]]", "1 maps for 3 images"),
        ("def maps_of(images): return [[1, 2]] * 3", r"the map of '0.png' is \(2,\)"),
        ("def maps_of(images): return None", "no list of maps"),
        ("def maps_of(images): return {'heat': []}", "returned has heat: maps and predicted"),
        (LEFT.replace('["bird"] * len(images)', '["bird"]'), "1 predicted for 3 images"),
        ("def maps_of(images): return 1 / 0", "line 1, in maps_of"),
    ],
)
def test_what_is_wrong_with_a_function_is_named(source, message, pictures, tmp_path):
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(OwnModelError, match=message):
        saliency.own_maps(tmp_path / "mine.py", pictures, range(3), VIEW)


def test_a_file_that_is_not_there_or_of_another_kind(pictures, tmp_path):
    for name, message in (
        ("nowhere.npz", "no maps that can be read"),
        ("nowhere.py", "no such Python file"),
        ("mine.npy", "A .npy holds no ids: np.savez takes them"),
        ("mine.pt", "read from .npz, .safetensors, .py, not '.pt'"),
    ):
        with pytest.raises(OwnModelError, match=message):
            saliency.own_maps(tmp_path / name, pictures, [0], VIEW)
