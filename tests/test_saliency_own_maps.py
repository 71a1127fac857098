"""Maps of a user's own, from a file: cut as the pictures are, and what is wrong is named."""

import numpy as np
import pytest
from PIL import Image

from xaihelpers import datasets, saliency

IDS = ["0.png", "1.png", "2.png"]
VIEW = saliency.picture_view("mine", 10)
MAPS = np.zeros((3, 2, 4))  # bright on the left half, in two scales; nowhere
MAPS[0, :, :2], MAPS[1, :, :2] = 5, 0.5
SQUARE = np.ones((3, 4, 4))
SQUARE[:, :, 2:] = 2  # brighter on the right


@pytest.fixture
def read(tmp_path):
    """The maps that are read from a file of this content, for pictures 40 pixels wide and 20 high."""
    (tmp_path / "pictures").mkdir()
    for name in IDS:
        Image.new("RGB", (40, 20)).save(tmp_path / "pictures" / name)
    pictures = datasets.load(str(tmp_path / "pictures"))

    def read(rows=(0, 1, 2), **content):
        np.savez(tmp_path / "mine.npz", **content)
        return saliency.own_maps(tmp_path / "mine.npz", pictures, rows, VIEW)

    return read


def test_maps_are_cut_as_the_pictures_are(read):
    """The middle half of a picture is kept: its left half is bright in the maps of images 0 and 1."""
    ids = ["0.png ", "1.png", "2.png"]  # compared as text
    found, _ = read([1, 0, 2], maps=MAPS, image_ids=ids)
    assert found.maps.shape == (3, 10, 10) and found.classes.tolist() == [-1] * 3
    assert (found.maps[:2, :, :3] > 0.7).all() and (found.maps[:2, :, 7:] < 0.3).all()
    assert found.constant.tolist() == [False, False, True] and found.maps[2].eq(0).all()


def test_what_a_map_covers(read):
    """The middle 20 · 3/5 = 12 of 20 pixels: of the 10 that the view makes of them, 2 to 8. Or the whole."""
    maps = read([0], maps=SQUARE, image_ids=IDS, covers="3/5")[0].maps[0]
    assert maps[:, :4].eq(0).all() and maps[:2].lt(0.3).all() and maps[8:].lt(0.3).all()
    assert maps[3:7, 6:8].gt(0.7).all() and maps[:, 9:].lt(0.3).all()
    maps = read([0], maps=SQUARE, image_ids=IDS, covers="image")[0].maps[0]
    assert maps[:, 9].eq(1).all() and maps[:, :2].eq(0).all()


def test_predicted_names_are_those_of_the_data_or_new(read):
    """Given in bytes as well."""
    predicted = np.array(["003.Great_Auk", "dodo", "great auk"], "S")
    attention, names = read(maps=MAPS, image_ids=np.array(IDS, "S"), predicted=predicted)
    assert names[attention.classes[1]] == "dodo" and attention.classes[0] == attention.classes[2]


def test_what_is_wrong_is_named(read, tmp_path):
    objects, signed = np.array(IDS, object), -np.abs(MAPS) - 1
    of_sizes = np.array([np.zeros((2, 4)), np.zeros((2, 5)), None], object)
    for content, message in (
        ({"maps": MAPS}, r"mine.npz: no maps that can be read .it has maps, and no image_ids.: np.savez"),
        (
            {"maps": MAPS, "image_ids": IDS, "predicted": np.eye(3)},
            r"predicted is \(3, 3\): one name is wanted",
        ),
        ({"maps": MAPS, "image_ids": IDS[:2]}, r"has maps \(3, 2, 4\), image_ids \(2,\): maps \(N, h, w\)"),
        ({"maps": MAPS, "image_ids": ["0.png", "0.png", "1.png"]}, r"1 have two \['0.png'\]"),
        ({"maps": MAPS * np.nan, "image_ids": IDS}, "mine.npz: the maps are NaN or infinite in image 0"),
        ({"maps": SQUARE, "image_ids": IDS}, "a square map cover. Write `covers`, now ''"),
        ({"maps": MAPS, "image_ids": objects}, "image_ids holds Python objects, .*column.to_numpy.str"),
        ({"maps": of_sizes, "image_ids": IDS}, "maps holds Python objects.*several sizes.*np.stack.maps"),
        ({"maps": signed, "image_ids": IDS}, "values below 0, down to -.*write np.maximum.maps, 0"),
        # none of them is right, whatever the network: refused, unless classes are called so
        ({"maps": MAPS, "image_ids": IDS, "predicted": [0, 1, 2]}, "has '0', a number and no class of "),
    ):
        with pytest.raises(ValueError, match=message):
            read(**content)
    np.save(tmp_path / "mine.npy", MAPS)
    with pytest.raises(ValueError, match="no maps.*one array without a name, as np.save writes.: np.savez"):
        saliency.own_maps(tmp_path / "mine.npy", None, [0], VIEW)
    overshoot = np.abs(MAPS)
    overshoot[0, 0, 3] = -1e-9
    assert read(maps=overshoot, image_ids=IDS)[0].maps.min() == 0


def test_classes_that_are_called_by_numbers_are_predicted_by_them(tmp_path):
    for name in ("3", "7"):
        (tmp_path / "digits" / name).mkdir(parents=True)
        Image.new("RGB", (40, 20)).save(tmp_path / "digits" / name / "a.png")
    digits = datasets.load(str(tmp_path / "digits"))
    np.savez(tmp_path / "mine.npz", maps=MAPS[:2], image_ids=digits.image_ids, predicted=[7, 3])
    found, names = saliency.own_maps(tmp_path / "mine.npz", digits, [0, 1], VIEW)
    assert [names[number] for number in found.classes] == ["7", "3"] and names == ["3", "7"]
