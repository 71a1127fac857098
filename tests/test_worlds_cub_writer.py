"""Worlds on disk: whole or not at all, drawn once whoever asks, and tables written as CUB's.

On an odd world of two classes, of which every number is told in advance.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from xaihelpers import worlds
from xaihelpers.datasets import DatasetError, load
from xaihelpers.worlds import DrawnImage, ensure_world, save_drawn_image, write_tables
from xaihelpers.worlds.cub_writer import renderer_hash

PER_CLASS = 5
CLASSES = ["cat", "dog"]
PARTS = ["head", "tail"]
ATTRIBUTES = ["has_ear::long", "has_ear::short", "has_fur::red"]
WANTED = {"seed": 3, "size": 8, "renderer": "toy"}


def toy(root, numbers, log=None):
    """Pictures whose every pixel is their number.

    Odd ones show no tail; the second attribute is in two of five, and not visible in one.
    """
    rows = []
    for number in numbers:
        if log:
            with open(log, "a") as file:
                file.write(f"{number}\n")
        path = f"{number // PER_CLASS + 1:03d}.{CLASSES[number // PER_CLASS]}/{number + 1}.jpg"
        save_drawn_image(
            root, path, np.full((8, 8, 3), 10 * number, np.uint8), np.full((8, 8), number % 3, np.uint8)
        )
        points = np.array([[1.25, 2.0], [np.nan, np.nan] if number % 2 else [4.0, 5.5]])
        rows.append(
            DrawnImage(
                number + 1,
                path,
                (0.0, 1.0, 8.0, 7.0),
                points,
                np.array([True, number % 5 > 2, False]),
                np.array([4, 3 if number % 5 else 1, 1 if number == 0 else 4]),
            )
        )
    return rows


def ensure(name="toys", wanted=WANTED, jobs=1, log=None, draw=toy):
    return ensure_world(
        name,
        "odd world",
        wanted,
        2 * PER_CLASS,
        partial(draw, log=log),
        lambda root, rows: write_tables(root, rows, CLASSES, PARTS, ATTRIBUTES, 3, PER_CLASS),
        ("seed", "size"),
        jobs,
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def content(root):
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def test_tables_line_by_line(home):
    root = ensure()
    files = content(root)
    text = {name: data.decode().splitlines() for name, data in files.items() if name.endswith(".txt")}
    assert json.loads(files["odd.json"]) == WANTED
    assert text["images.txt"][:2] == ["1 001.cat/1.jpg", "2 001.cat/2.jpg"]
    assert text["images.txt"][9] == "10 002.dog/10.jpg"
    assert text["classes.txt"] == ["1 001.cat", "2 002.dog"]
    assert text["image_class_labels.txt"] == [f"{i} {1 + (i > 5)}" for i in range(1, 11)]
    train = [line.split()[1] for line in text["train_test_split.txt"]]
    # 60 % of each class, each drawn for itself
    assert train[:5].count("1") == train[5:].count("1") == 3 and train[:5] != train[5:]
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


def test_it_is_read_as_a_data_set(home):
    data = load(ensure(), check_files=True)
    assert data.labels.tolist() == [0] * 5 + [1] * 5
    assert data.present[:, 1].int().tolist() == [0, 0, 0, 1, 1] * 2
    visible = ~data.part_locations.isnan().any(-1)
    assert visible[:, 1].tolist() == [True, False] * 5 and data.certainty[0].tolist() == [4, 1, 1]


def test_masks(home):
    data = load(ensure())
    assert data.mask_names == PARTS and data.image_ids[8] == "002.dog/9.jpg"
    assert (data.part_mask(8) == 8 % 3).all() and data.part_mask(8).dtype == np.uint8
    assert np.asarray(Image.open(data.root / "images/002.dog/9.jpg")).mean() == 80
    (data.root / "masks/002.dog/9.png").unlink()
    with pytest.raises(DatasetError, match="masks/002.dog/9.png is missing: delete the folder of this world"):
        data.part_mask(8)
    shutil.rmtree(data.root / "masks")
    with pytest.raises(DatasetError, match="toys has no part masks: only drawn worlds know"):
        load(data.root).part_mask(8)


def test_a_world_in_a_folder_within(home):
    assert ensure("mine/toys") == home / "mine/toys"
    assert sorted(path.name for path in (home / "mine").iterdir()) == ["toys", "toys.lock"]


def test_drawn_once_and_the_same_by_two(home, tmp_path):
    root = ensure(log=tmp_path / "log")
    assert ensure(log=tmp_path / "log") == root == home / "toys"
    assert (tmp_path / "log").read_text().split() == [str(n) for n in range(10)]
    assert sorted(path.name for path in home.iterdir()) == ["toys", "toys.lock"]
    many = ensure_world(
        "many",
        "odd world",
        WANTED,
        10,
        toy,
        lambda root, rows: write_tables(root, rows, CLASSES, PARTS, ATTRIBUTES, 3, PER_CLASS),
        ("seed",),
        jobs=2,
    )
    assert content(many) == content(root)


def test_a_second_process_waits_for_the_first(home, tmp_path):
    """Two at once draw every picture once; the drawing is slow enough for both to be at it."""
    code = (
        f"import sys, time\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import test_worlds_cub_writer as T\n"
        f"def slow(root, numbers, log):\n    time.sleep(1)\n    return T.toy(root, numbers, log)\n"
        f"print(T.ensure(log={str(tmp_path / 'log')!r}, draw=slow))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "XAI_DATA": str(home)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in running] == [str(home / "toys")] * 2
    assert not any(process.returncode for process in running)
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
    assert len(load(ensure(), check_files=True).images) == 10
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
    assert json.loads((root / "odd.json").read_text()) == WANTED
    assert not (root / "images/from_then.jpg").exists()
    assert sorted(path.name for path in home.iterdir()) == ["toys", "toys.lock"]


@pytest.mark.parametrize("state", ["nothing", "current", "older"])
def test_through_a_symbolic_link(home, tmp_path, state):
    """The link stays a link; what it leads to is drawn, kept or drawn again."""
    target = tmp_path / "elsewhere" / "drawn"
    target.parent.mkdir()
    home.mkdir()
    if state != "nothing":
        ensure(wanted={**WANTED, "renderer": "older"} if state == "older" else WANTED)
        (home / "toys").rename(target)
        (target / "images/from_then.jpg").touch()
    (home / "toys").symlink_to(target, target_is_directory=True)
    assert ensure(log=tmp_path / "log") == home / "toys"
    assert (home / "toys").is_symlink() and (home / "toys").resolve() == target
    assert json.loads((target / "odd.json").read_text()) == WANTED
    assert (tmp_path / "log").exists() == (state != "current")
    assert (target / "images/from_then.jpg").exists() == (state == "current")
    assert len(load("toys", check_files=True).images) == 10
    drawn = {"drawn"} if state == "current" else {"drawn", "drawn.lock"}
    assert {path.name for path in target.parent.iterdir()} == drawn


def test_a_symbolic_link_to_another_world_is_refused(home, tmp_path):
    target = ensure(wanted={**WANTED, "seed": 99}).rename(tmp_path / "drawn")
    before = content(target)
    (home / "toys").symlink_to(target, target_is_directory=True)
    with pytest.raises(ValueError, match=r"drawn holds an odd world of other settings .*choose another name"):
        ensure()
    assert (home / "toys").is_symlink() and content(target) == before


@pytest.mark.parametrize("written", [None, "", '{"seed": 3'])
def test_a_folder_without_whole_settings_is_left_alone(home, written):
    (home / "toys").mkdir(parents=True)
    (home / "toys/thesis.txt").write_text("years of work")
    if written is not None:
        (home / "toys/odd.json").write_text(written)
    with pytest.raises(
        ValueError, match=r"toys exists and is no odd world \(no whole odd.json in it\); move it away"
    ):
        ensure()
    assert (home / "toys/thesis.txt").read_text() == "years of work"


# The version of a renderer


@pytest.fixture
def copied(tmp_path):
    """Copies of the worlds' own files; a function gives the versions of both."""
    rooms = Path(worlds.__file__).parent
    shutil.copytree(rooms, tmp_path / "worlds", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "worlds"


def versions(folder):
    return {name: renderer_hash(folder / name) for name in ("aviary", "everyday")}


def change(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1, (file.name, old, text.count(old))
    file.write_text(text.replace(old, new))


def test_versions_are_those_of_the_files(copied):
    rooms = Path(worlds.__file__).parent
    assert versions(copied) == versions(rooms)
    assert versions(rooms)["aviary"] == worlds.aviary.renderer_version()
    assert versions(rooms)["everyday"] == worlds.everyday.renderer_version()


def test_comments_docstrings_and_layout_change_no_version(copied):
    before = versions(copied)
    change(copied / "aviary/body.py", "# Light: a round surface", "# Light, as on any round surface")
    change(copied / "aviary/bird_renderer.py", '"""Draw one individual.', '"""Draw a bird.')
    change(copied / "everyday/things.py", "def cup(rng):\n    h, w", "def cup(rng):\n\n    # a cup\n    h, w")
    with open(copied / "canvas.py", "a") as file:
        file.write("\n\n# the end\n")
    assert versions(copied) == before


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("aviary/limbs.py", '"fan-shaped": 0.42', '"fan-shaped": 0.43', {"aviary"}),
        ("aviary/species.csv", "Western_Grebe", "Eastern_Grebe", {"aviary"}),
        ("aviary/aviary_files.py", "SMALL_PART = 40", "SMALL_PART = 50", {"aviary"}),
        (
            "everyday/things.py",
            "uniform(0.35, 0.5), rng.uniform(0.8",
            "uniform(0.35, 0.6), rng.uniform(0.8",
            {"everyday"},
        ),
        ("canvas.py", "default_rng(20110826)", "default_rng(1)", {"aviary", "everyday"}),
        ("cub_writer.py", "TRAIN_SHARE = 0.6", "TRAIN_SHARE = 0.5", {"aviary", "everyday"}),
    ],
)
def test_a_changed_number_or_name_changes_the_version(copied, file, old, new, changed):
    before = versions(copied)
    change(copied / file, old, new)
    after = versions(copied)
    assert {name for name in before if after[name] != before[name]} == changed


def test_a_changed_comment_draws_nothing_again_and_a_changed_number_all(home, tmp_path, copied):
    def ensure_copy():
        ensure(wanted={**WANTED, "renderer": renderer_hash(copied / "everyday")}, log=tmp_path / "log")
        return len((tmp_path / "log").read_text().split())

    assert ensure_copy() == 10
    change(copied / "canvas.py", "in pixels\nNOISE_SIZE", "in pixels, of every world\nNOISE_SIZE")
    assert ensure_copy() == 10
    change(copied / "canvas.py", "SIZE = 224", "SIZE = 225")
    assert ensure_copy() == 20
