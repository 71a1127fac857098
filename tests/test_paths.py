"""A name under XAI_DATA or a path: the same everywhere that a file or folder of the user's is named."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from xaihelpers import paths, rating
from xaihelpers.ask.prompt_files import prompt
from xaihelpers.models import load_target
from xaihelpers.models.clip import load_clip
from xaihelpers.models.networks import build_network
from xaihelpers.models.weights import read_weights, save_weights
from xaihelpers.scores.agreement import read_ratings
from xaihelpers.scores.conceptscore import load_templates
from xaihelpers.substitute.attribute_reader import load_reader
from xaihelpers.substitute.pair_prompts import pair_prompts

TEMPLATES = (
    '[{"id": 7, "name": "x", "head": "h", "pair": "{concept} {weight}", "between": ", ", "tail": "."}]'
)


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


def spellings(file, tmp_path):
    """A file under the data folder by its name, its path, and its path from the working folder."""
    return (file.name, str(file), f"../data/{file.name}")


def test_prompts(home, tmp_path):
    (home / "mine.txt").write_text("Say {word}.")
    for name in spellings(home / "mine.txt", tmp_path):
        assert prompt(name, word="yes") == "Say yes."
    assert "{" not in prompt("fse_chain", entity="a cup")  # those of the project by their plain names


def test_templates_and_ratings(home, tmp_path):
    (home / "templates.json").write_text(TEMPLATES)
    for name in spellings(home / "templates.json", tmp_path):
        assert [template.id for template in load_templates(name)] == [7]
    (home / "ratings.csv").write_text("item,rater,rating\n01,me,3\n")
    for name in spellings(home / "ratings.csv", tmp_path):
        assert read_ratings(name)["item"].tolist() == ["01"]


def test_models(home, tmp_path):
    shutil.copytree(paths.models_home() / "aviary_clip", home / "my_clip")
    for name in spellings(home / "my_clip", tmp_path):
        assert load_clip(name).width == load_clip("aviary_clip").width
    shutil.copy(paths.models_home() / "aviary_reader.safetensors", home / "my_reader.safetensors")
    for name in spellings(home / "my_reader.safetensors", tmp_path):
        assert load_reader(name).state_dict().keys() == load_reader().state_dict().keys()
    torch.manual_seed(0)
    save_weights(build_network("torchvision", "squeezenet1_0", 5), home / "mine.safetensors")
    for name in spellings(home / "mine.safetensors", tmp_path):
        assert load_target("squeezenet1_0", name).n_classes == 5


def test_weights_are_known_by_their_content(home):
    """As in a hub's cache, where a file's name is its hash."""
    network = build_network("torchvision", "squeezenet1_0", 5)
    save_weights(network, home / "weights.safetensors")
    (home / "weights.safetensors").rename(home / "0a1b2c")
    torch.save(network.state_dict(), home / "3d4e5f")
    assert read_weights(home / "0a1b2c").keys() == read_weights(home / "3d4e5f").keys()


def test_where_is_written(home, tmp_path):
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


def test_a_folder_without_the_file_it_must_hold_is_passed_over(home, tmp_path):
    (home / "model").mkdir()
    assert paths.find("model", holding="config.json") is None
    (tmp_path / "here/model").mkdir()
    (tmp_path / "here/model/config.json").write_text("{}")
    assert paths.find("model") == home / "model"
    assert paths.find("model", holding="config.json") == tmp_path / "here/model"


def test_prompt_forms_and_pictures_of_items(home, tmp_path):
    forms = {"color": {"reference": "{reference} in {attribute}", "guide": "{guide}"}}
    (home / "forms.json").write_text(json.dumps(forms))
    for name in spellings(home / "forms.json", tmp_path):
        assert pair_prompts("Blue Jay", "has_crown_color::red", forms=name)[1] == "a bird"
    Image.new("RGB", (4, 4)).save(home / "picture.png")
    for name in spellings(home / "picture.png", tmp_path):
        assert len(rating.items.prepare([{"id": "a", "image": name}], "scale", "")[0].pictures) == 1


def test_one_module_decides_what_a_name_means():
    """No other module or notebook expands `~`, or asks whether a data folder's name is a path."""
    rule = re.compile(r"expanduser|data_home\(\) / benchmark")
    files = [*(paths.PROJECT / "xaihelpers").rglob("*.py"), *(paths.PROJECT / "notebooks").glob("*.ipynb")]
    holders = []
    for file in files:
        source = file.read_text()
        if file.suffix == ".ipynb":
            source = "\n".join(line for cell in json.loads(source)["cells"] for line in cell["source"])
        if rule.search(source):
            holders.append(file.name)
    assert holders == ["paths.py"]
