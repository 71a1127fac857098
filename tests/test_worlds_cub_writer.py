"""Worlds on disk: whole or not at all, drawn once whoever asks, and tables written as CUB's.

On an odd world of two classes, of which every number is told in advance.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from worlds.canvas import Picture
from worlds.cub_writer import DrawnImage, ensure_world
from xaihelpers.datasets import load

CLASSES = ["cat", "dog"]
PARTS = ["head", "tail"]
ATTRIBUTES = ["has_ear::long", "has_ear::short", "has_fur::red"]
WANTED = {"seed": 3, "images_per_class": 5, "renderer": "toy"}


def toy(number, label, log=None):
    """A picture whose every pixel is its number.

    Odd ones show no tail; the second attribute is in two of five, and not visible in one.
    """
    if log:
        with open(log, "a") as file:
            file.write(f"{number}\n")
    image, mask = np.full((8, 8, 3), 10 * number, np.uint8), np.full((8, 8), number % 3, np.uint8)
    points = np.array([[1.25, 2.0], [np.nan, np.nan] if number % 2 else [4.0, 5.5]])
    present = np.array([True, number % 5 > 2, False])
    certainty = np.array([4, 3 if number % 5 else 1, 1 if number == 0 else 4])
    return DrawnImage(Picture(image, mask, points, (0.0, 1.0, 8.0, 7.0)), present, certainty)


def ensure(name="toys", wanted=WANTED, jobs=1, draw=toy, **more):
    return ensure_world(name, "odd", wanted, CLASSES, PARTS, ATTRIBUTES, partial(draw, **more), jobs)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def content(root):
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_tables_line_by_line(home):
    root = ensure()
    files = content(root)
    text = {name: data.decode().splitlines() for name, data in files.items() if name.endswith(".txt")}
    assert json.loads(files["odd.json"]) == WANTED
    assert text["images.txt"][:2] == ["1 001.cat/cat_0001_1.jpg", "2 001.cat/cat_0002_2.jpg"]
    assert text["images.txt"][9] == "10 002.dog/dog_0005_10.jpg"
    assert text["classes.txt"] == ["1 001.cat", "2 002.dog"]
    assert text["image_class_labels.txt"] == [f"{i} {1 + (i > 5)}" for i in range(1, 11)]
    train = [line.split()[1] for line in text["train_test_split.txt"]]
    assert "".join(train) == "1110001101"  # 60 % of each class, each drawn for itself
    assert text["bounding_boxes.txt"] == [f"{i} 0.0 1.0 8.0 7.0" for i in range(1, 11)]
    assert text["parts/parts.txt"] == ["1 head", "2 tail"]
    locations = ["1 1 1.2 2.0 1", "1 2 4.0 5.5 1", "2 1 1.2 2.0 1", "2 2 0.0 0.0 0"]
    assert text["parts/part_locs.txt"][:4] == locations
    assert text["attributes/attributes.txt"] == [f"{k} {name}" for k, name in enumerate(ATTRIBUTES, 1)]
    certainties = ["1 not visible", "2 guessing", "3 probably", "4 definitely"]
    assert text["attributes/certainties.txt"] == certainties
    labels = text["attributes/image_attribute_labels.txt"]
    assert labels[:3] == ["1 1 1 4 0.0", "1 2 0 1 0.0", "1 3 0 1 0.0"] and labels[10] == "4 2 1 3 0.0"
    # of those in which it could be seen
    assert text["attributes/class_attribute_labels_continuous.txt"] == ["100 50 0.0"] * 2
    assert len(files) == 1 + 11 + 10 + 10


def test_drawn_once_and_the_same_by_two(home, tmp_path):
    root = ensure("mine/toys", log=tmp_path / "log")
    assert ensure("mine/toys", log=tmp_path / "log") == root == home / "mine/toys"
    assert (tmp_path / "log").read_text().split() == [str(n) for n in range(10)]
    assert sorted(path.name for path in (home / "mine").iterdir()) == ["toys", "toys.lock"]
    assert content(ensure("many", jobs=2)) == content(root)


def started(home, code):
    """Another process, with this module's names."""
    places = [str(Path(__file__).parent), *sys.path]
    environment = os.environ | {"XAI_DATA": str(home), "PYTHONPATH": os.pathsep.join(places)}
    code = f"import os, signal\nfrom test_worlds_cub_writer import *\n{code}"
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)


def test_killed_drawing_leaves_no_world(home):
    killed = started(
        home,
        """
def killed(number, label):
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return toy(number, label)

ensure(draw=killed)""",
    )
    assert killed.wait() < 0
    assert not (home / "toys").exists() and len(list(home.rglob("*.jpg"))) == 4
    other = home / "toys2.partial-x"  # of another world: not this one's to clear away
    other.mkdir()
    data = load(ensure())
    assert data.mask_names == PARTS and (data.part_mask(8) == 8 % 3).all()
    assert all(map(os.path.isfile, data.images.path)) and len(data.images) == 10
    assert sorted(path.name for path in home.iterdir()) == ["toys", "toys.lock", "toys2.partial-x"]


def test_a_folder_of_other_settings_or_with_something_else_is_left_alone(home):
    before = content(ensure())
    with pytest.raises(ValueError, match="toys is no drawn world of these settings.*choose another name"):
        ensure(wanted={**WANTED, "renderer": "newer"})
    assert content(ensure()) == before
    (home / "mine").mkdir()
    (home / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="mine is no drawn world.*odd.json tells others or is missing"):
        ensure("mine")
    assert (home / "mine/thesis.txt").read_text() == "years of work"
