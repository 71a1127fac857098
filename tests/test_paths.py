"""A name under XAI_DATA or a path: the same everywhere that a file or folder of the user's is named."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from xaihelpers import paths, rating
from xaihelpers.ask import prompt
from xaihelpers.models import load_backbone
from xaihelpers.models.clip import load_clip
from xaihelpers.models.networks import build_network
from xaihelpers.models.weights import save_weights
from xaihelpers.scores.agreement import read_ratings


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, and a working folder beside it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("XAI_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data"


def test_the_data_folder_comes_before_the_working_folder(home, tmp_path):
    assert paths.find("things") is None
    (tmp_path / "here/things").mkdir()
    assert paths.find("things") == tmp_path / "here/things"
    (home / "things").mkdir()
    assert paths.find("things") == home / "things"
    assert paths.find("things", tmp_path) == tmp_path / "here/things"  # where else it looks is told
    assert paths.find(tmp_path / "here/things") == tmp_path / "here/things"
    (tmp_path / "here/things/config.json").write_text("{}")
    assert paths.find("things", holding="config.json") == tmp_path / "here/things"


def test_which_of_two_files_of_one_name_is_read_is_said_once(home, tmp_path, caplog):
    here = tmp_path / "here"
    (home / "mine.txt").write_text("one")
    assert paths.find("mine.txt") == home / "mine.txt" and not caplog.text
    (here / "mine.txt").write_text("another")
    assert paths.find("mine.txt") == paths.find("mine.txt") == home / "mine.txt"
    told = f"'mine.txt' means {home / 'mine.txt'}, and not {here / 'mine.txt'}: to read the other"
    assert caplog.text.count(told) == 1
    caplog.clear()
    for place in ("./mine.txt", "../here/mine.txt", here / "mine.txt"):  # paths, as where it is written
        assert paths.find(place) == here / "mine.txt" and not caplog.text


def test_files_of_the_user_go_by_name_or_path(home):
    (home / "mine.txt").write_text("Say {word}.")
    (home / "ratings.csv").write_text("item,rater,rating\n01,me,3\n")
    save_weights(build_network("torchvision", "squeezenet1_0", 5), home / "mine.safetensors")
    shutil.copytree(paths.models_home() / "aviary_clip", home / "my_clip")
    for place in ("", f"{home}/", "../data/"):
        assert prompt(f"{place}mine.txt", word="yes") == "Say yes."
        assert read_ratings(f"{place}ratings.csv")["item"].tolist() == ["01"]
        assert load_backbone("squeezenet1_0", f"{place}mine.safetensors").n_classes == 5
        assert load_clip(f"{place}my_clip").width == load_clip("aviary_clip").width


def test_where_is_written(home, tmp_path, monkeypatch):
    """A bare name lies under the data folder, all else is a path; and what was written there is found."""
    assert paths.where_to_write("mine") == home / "mine"
    assert paths.where_to_write("mine", tmp_path / "there") == tmp_path / "there/mine"
    for path in ("./mine", f"{tmp_path}/here/mine", "../here/mine"):
        assert paths.where_to_write(path, tmp_path / "there") == tmp_path / "here/mine"
    assert paths.where_to_write("lists/mine") == tmp_path / "here/lists/mine"
    assert paths.where_to_write("~/mine") == Path.home() / "mine"
    (home / "mine").mkdir()
    assert paths.find("mine") == paths.where_to_write("mine")
    assert paths.results_home("mine") == home / "mine"
    assert rating.ratings_file("./mine") == tmp_path / "here/mine"
    monkeypatch.setenv("XAI_RESULTS", "/elsewhere")  # a whole set of runs, unless one names its own
    assert str(paths.results_home()) == "/elsewhere" and paths.results_home("mine") == home / "mine"


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("before")
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            paths.write_whole(tmp_path / "page.html", b"after")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
    assert paths.write_whole(tmp_path / "page.html", b"after").read_text() == "after"
