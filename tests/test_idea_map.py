"""The map of ideas: drawn from the metadata and the papers' index, and committed as it would be drawn now."""

import json

import pytest
from made_up_lesson import notebook
from PIL import Image

from xaihelpers.teaching import idea_map
from xaihelpers.teaching.openings import read_notebook

NEEDS = {"00": [], "11": ["00"], "13": ["00", "11"], "21": ["00", "11", "13"], "99": ["*"]}
INDEX = """| paper | number | what | function | notebook |
|---|---|---|---|---|
| alignment | Eq. 9, 10 | crowns (C): there? | `scores.alignment.crowns` | 13 “Crowns of 12 birds”, 21 |
| alignment | Eq. 2 | hats | `kernels.hats.maps` | 13 |
| alignment | [Table 1](alignment_table1.csv) | crowns | `scores.alignment.crowns` | 13 |
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Five notebooks and an index of three rows in place of the real ones."""
    for number, needs in NEEDS.items():
        made = notebook()
        made["metadata"]["xaihelpers"]["needs"] = needs
        (tmp_path / f"{number}_crowns.ipynb").write_text(json.dumps(made))
    (tmp_path / "README.md").write_text(INDEX)
    monkeypatch.setattr(idea_map, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(idea_map, "INDEX", tmp_path / "README.md")
    lanes = {digit: idea_map.LANES[digit] for digit in "0129"}
    monkeypatch.setattr(idea_map, "LANES", lanes)
    return tmp_path


def test_what_is_needed_is_told_once_and_yardsticks_are_those_of_scores(made_up):
    drawn = idea_map.structure()
    needs = {number: told["needs"] for number, told in drawn["notebooks"].items()}
    assert needs == {"00": [], "11": [], "13": ["11"], "21": ["13"], "99": ["*"]}
    assert drawn["notebooks"]["13"]["goal"] == "Say what a crown is."
    assert drawn["yardsticks"] == [{"paper": "alignment", "what": "crowns (C)", "notebooks": ["13", "21"]}]


def test_a_box_for_each_notebook_and_an_arrow_within_a_lane(made_up):
    figure = idea_map.draw(idea_map.structure())
    (ax,) = figure.axes
    assert len(ax.patches) == len(NEEDS)
    texts = [text.get_text() for text in ax.texts]
    assert "13 · Crowns" in texts and "needs 13" in texts and "needs all others" in texts
    assert "13 asks: crowns (C)" in texts
    assert len([text for text in ax.texts if getattr(text, "arrow_patch", None)]) == 1
    assert min(text.get_fontsize() for text in ax.texts) >= 10


def test_the_picture_knows_what_it_was_drawn_from(made_up):
    first = Image.open(idea_map.write_map(made_up / "map.png")).text["structure"]
    assert first == idea_map.digest(idea_map.structure())
    changed = json.loads((made_up / "13_crowns.ipynb").read_text())
    changed["metadata"]["xaihelpers"]["goals"][0] = "Tell a hat."
    (made_up / "13_crowns.ipynb").write_text(json.dumps(changed))
    assert first != idea_map.digest(idea_map.structure())


def test_every_notebook_is_on_the_map_with_its_needs():
    drawn = idea_map.structure()["notebooks"]
    paths = sorted(idea_map.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    assert list(drawn) == [path.name[:2] for path in paths]
    assert {digit for digits in idea_map.LANES for digit in digits} >= {number[0] for number in drawn}
    for path in paths:
        told = read_notebook(path)["metadata"]["xaihelpers"]
        assert drawn[path.name[:2]]["goal"] == told["goals"][0]
        assert set(drawn[path.name[:2]]["needs"]) <= set(told.get("needs", []))


def test_the_committed_map_is_up_to_date_and_small():
    assert idea_map.PICTURE.stat().st_size <= 120 * 1024
    picture = Image.open(idea_map.PICTURE)
    assert picture.text["structure"] == idea_map.digest(idea_map.structure()), (
        "python -m xaihelpers.teaching map"
    )
