"""Worlds on disk: whole or not at all, drawn once whoever asks, and tables written as CUB's. On a odd world of two classes, of which every number is told in advance."""
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from xaihelpers import aviary, everyday, worlds
from xaihelpers.aviary import folder as aviary_folder
from xaihelpers.birds import load_birds
from xaihelpers.everyday import folder as everyday_folder
from xaihelpers.worlds import Drawn, ensure_world, part_mask, save_picture, source_version, write_tables

PER_CLASS, CLASSES, PARTS, ATTRIBUTES = 5, ["cat", "dog"], ["head", "tail"], ["has_ear::long", "has_ear::short", "has_fur::red"]
WANTED = {"seed": 3, "size": 8, "renderer": "toy"}


def toy(root, numbers, log=None):
    """Pictures whose every pixel is their number; odd ones show no tail; the second attribute is in two of five, and not visible in one."""
    rows = []
    for number in numbers:
        if log:
            with open(log, "a") as file:
                file.write(f"{number}\n")
        path = f"{number // PER_CLASS + 1:03d}.{CLASSES[number // PER_CLASS]}/{number + 1}.jpg"
        save_picture(root, path, np.full((8, 8, 3), 10 * number, np.uint8), np.full((8, 8), number % 3, np.uint8))
        points = np.array([[1.25, 2.0], [np.nan, np.nan] if number % 2 else [4.0, 5.5]])
        rows.append(Drawn(number + 1, path, (0.0, 1.0, 8.0, 7.0), points, np.array([True, number % 5 > 2, False]), np.array([4, 3 if number % 5 else 1, 1 if number == 0 else 4])))
    return rows


def ensure(name="toys", wanted=WANTED, jobs=1, log=None, draw=toy):
    return ensure_world(name, "odd world", wanted, 2 * PER_CLASS, partial(draw, log=log), lambda root, rows: write_tables(root, rows, CLASSES, PARTS, ATTRIBUTES, 3, PER_CLASS),
                        ("seed", "size"), jobs)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_tables_line_by_line(home):
    root = ensure()
    files = content(root)
    text = {name: data.decode().splitlines() for name, data in files.items() if name.endswith(".txt")}
    assert json.loads(files["odd.json"]) == WANTED
    assert text["images.txt"][:2] == ["1 001.cat/1.jpg", "2 001.cat/2.jpg"] and text["images.txt"][9] == "10 002.dog/10.jpg"
    assert text["classes.txt"] == ["1 001.cat", "2 002.dog"] and text["image_class_labels.txt"] == [f"{i} {1 + (i > 5)}" for i in range(1, 11)]
    train = [line.split()[1] for line in text["train_test_split.txt"]]
    assert train[:5].count("1") == train[5:].count("1") == 3 and train[:5] != train[5:]  # 60 % of each class, each drawn for itself
    assert text["bounding_boxes.txt"] == [f"{i} 0.0 1.0 8.0 7.0" for i in range(1, 11)]
    assert text["parts/parts.txt"] == ["1 head", "2 tail"] and text["parts/part_locs.txt"][:4] == ["1 1 1.2 2.0 1", "1 2 4.0 5.5 1", "2 1 1.2 2.0 1", "2 2 0.0 0.0 0"]
    assert text["attributes/attributes.txt"] == [f"{k} {name}" for k, name in enumerate(ATTRIBUTES, 1)]
    assert text["attributes/certainties.txt"] == ["1 not visible", "2 guessing", "3 probably", "4 definitely"]
    assert text["attributes/image_attribute_labels.txt"][:3] == ["1 1 1 4 0.0", "1 2 0 1 0.0", "1 3 0 1 0.0"] and text["attributes/image_attribute_labels.txt"][10] == "4 2 1 3 0.0"
    assert text["attributes/class_attribute_labels_continuous.txt"] == ["100 50 0.0"] * 2  # of those in which it could be seen
    assert len(files) == 1 + 11 + 10 + 10


def test_it_is_read_as_birds(home):
    birds = load_birds(ensure(), check_files=True)
    assert birds.labels.tolist() == [0] * 5 + [1] * 5 and birds.present[:, 1].int().tolist() == [0, 0, 0, 1, 1] * 2
    assert birds.part_visible[:, 1].tolist() == [True, False] * 5 and birds.certainty[0].tolist() == [4, 1, 1]


def test_masks(home):
    root = ensure()
    for path in ("002.dog/9.jpg", Path("002.dog/9.jpg")):
        assert (part_mask(root, path) == 8 % 3).all() and part_mask(root, path).dtype == np.uint8
    assert np.asarray(Image.open(root / "images/002.dog/9.jpg")).mean() == 80
    assert aviary.part_mask is everyday.part_mask is part_mask
    with pytest.raises(FileNotFoundError, match="masks/002.dog/11.png is missing: only the aviary and the everyday world know"):
        part_mask(root, "002.dog/11.jpg")


def test_a_world_in_a_folder_within(home):
    assert ensure("mine/toys") == home / "mine/toys" and sorted(path.name for path in (home / "mine").iterdir()) == ["toys", "toys.lock"]


def test_drawn_once_and_the_same_by_two(home, tmp_path):
    root = ensure(log=tmp_path / "log")
    assert ensure(log=tmp_path / "log") == root == home / "toys"
    assert (tmp_path / "log").read_text().split() == [str(n) for n in range(10)]
    assert sorted(path.name for path in home.iterdir()) == ["toys", "toys.lock"]
    many = ensure_world("many", "odd world", WANTED, 10, toy, lambda root, rows: write_tables(root, rows, CLASSES, PARTS, ATTRIBUTES, 3, PER_CLASS), ("seed",), jobs=2)
    assert content(many) == content(root)


def test_a_second_process_waits_for_the_first(home, tmp_path):
    """Two at once draw every picture once; the drawing is slow enough for both to be at it."""
    code = (f"import sys, time\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nimport test_worlds as T\n"
            f"def slow(root, numbers, log):\n    time.sleep(1)\n    return T.toy(root, numbers, log)\n"
            f"print(T.ensure(log={str(tmp_path / 'log')!r}, draw=slow))")
    running = [subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "XAI_DATA": str(home)}, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate()[0].strip() for one in running] == [str(home / "toys")] * 2 and not any(one.returncode for one in running)
    assert (tmp_path / "log").read_text().split() == [str(n) for n in range(10)]


def test_interrupted_drawing_leaves_no_world(home):
    def interrupted(root, numbers, log=None):
        toy(root, numbers[:4])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(draw=interrupted)
    assert not (home / "toys").exists() and len(list(home.rglob("*.jpg"))) == 4
    other = home / "toys2.partial-x"  # of another world: not this one's to clear away
    other.mkdir()
    assert len(load_birds(ensure(), check_files=True).images) == 10
    assert sorted(path.name for path in home.iterdir()) == ["toys", "toys.lock", "toys2.partial-x"]


@pytest.mark.parametrize("setting", ["seed", "size"])
def test_other_settings_are_refused(home, setting):
    before = content(ensure())
    with pytest.raises(ValueError, match=r"toys holds an odd world of other settings .*choose another name"):
        ensure(wanted={**WANTED, setting: 99})
    assert content(home / "toys") == before


def test_an_older_drawing_is_replaced_whole(home):
    root = ensure(wanted={**WANTED, "renderer": "older"})
    (root / "images/from_then.jpg").touch()
    ensure()
    assert json.loads((root / "odd.json").read_text()) == WANTED and not (root / "images/from_then.jpg").exists()
    assert sorted(path.name for path in home.iterdir()) == ["toys", "toys.lock"]


@pytest.mark.parametrize("written", [None, "", '{"seed": 3'])
def test_a_folder_without_whole_settings_is_left_alone(home, written):
    (home / "toys").mkdir(parents=True)
    (home / "toys/thesis.txt").write_text("years of work")
    if written is not None:
        (home / "toys/odd.json").write_text(written)
    with pytest.raises(ValueError, match=r"toys exists and is no odd world \(no whole odd.json in it\); move it away"):
        ensure()
    assert (home / "toys/thesis.txt").read_text() == "years of work"


def test_source_version(tmp_path):
    a, b = tmp_path / "one/a.py", tmp_path / "b.py"
    a.parent.mkdir()
    a.write_text("x = 1")
    b.write_text("y = 2")
    first = source_version(a, b)
    assert source_version(b, a) == first and len(first) == 12
    b.write_text("y = 3")
    assert source_version(a, b) != first


@pytest.mark.parametrize(("folder", "own"), [
    (aviary_folder, {"__init__.py", "canvas.py", "draw.py", "folder.py", "individuals.py", "plumage.py", "pose.py", "scene.py"}),
    (everyday_folder, {"__init__.py", "draw.py", "folder.py", "things.py", "canvas.py"}),
])
def test_versions_cover_what_draws_and_what_writes(monkeypatch, folder, own):
    covered = []
    monkeypatch.setattr(folder, "source_version", lambda *files: covered.extend(files))
    folder.renderer_version.__wrapped__()
    assert all(path.is_file() for path in covered)
    assert {path.name for path in covered if path.name.endswith(".py")} == own | {"worlds.py"} and Path(worlds.__file__) in covered
    assert folder is not aviary_folder or any(path.name.endswith(".csv") for path in covered)
