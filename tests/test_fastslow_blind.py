"""What guessers take that see the options alone, and where the similarity dictionary comes from."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers import fastslow
from xaihelpers.datasets import Dataset

NAMES = [f"class {k}" for k in range(30)]
LABELS = np.repeat(np.arange(30), 10)
# k's look-alikes are the next four: k is its own set's centre, and in nobody else's set the centre
NEAR = np.array([[(k + i) % 30 for i in (1, 2, 3, 4)] for k in range(30)])


def share_right(balanced, neighbours=NEAR, vectors=None):
    cases = fastslow.case_table(np.arange(300), LABELS, NAMES, 1500, neighbours, balanced)
    return fastslow.blind_guessers(
        cases.candidates.tolist(), cases.position, neighbours, vectors or {}
    ).mean()


def test_the_paper_s_sets_give_the_answer_to_who_knows_the_dictionary():
    right = share_right(balanced=False)
    assert right["knows the dictionary"] == 1 and right["chance"] == pytest.approx(0.2)
    # every class is wanted by four: nothing to go by
    assert right["least wanted"] == pytest.approx(0.2)
    guesses = fastslow.blind_guessers([[0, 1, 2, 3, 4]], [2], NEAR, {"nothing": np.zeros((30, 3))})
    assert guesses["most like the others, by nothing"].tolist() == [pytest.approx(0.2)]


def test_balanced_sets_tell_no_guesser_anything():
    rng = np.random.default_rng(0)
    vectors = {"noise": rng.normal(size=(30, 8)), "names": fastslow.name_vectors(NAMES)}
    assert share_right(True, vectors=vectors).to_numpy() == pytest.approx(0.2, abs=0.04)


def test_the_centre_is_most_like_the_others():
    """Classes on a circle: with two look-alikes on either side, the middle one has the highest cosines."""
    angle = 2 * np.pi * np.arange(30) / 30
    near = np.array([[(k + i) % 30 for i in (-2, -1, 1, 2)] for k in range(30)])
    right = share_right(False, near, {"place": np.stack([np.cos(angle), np.sin(angle)], 1)})
    assert right["most like the others, by place"] == 1
    # the four that all want take each other, and one that nobody else wants
    hubs = np.tile([0, 1, 2, 3], (30, 1))
    hubs[:4] = [[1, 2, 3, 10], [0, 2, 3, 11], [0, 1, 3, 12], [0, 1, 2, 13]]
    assert share_right(False, hubs)["least wanted"] > 0.8


def test_turned_options_hold_every_place_once():
    """And the same five are asked the same five questions."""
    cases = pd.DataFrame({"options": [list("wzvxy"), list("xyzwv")], "position": [0, 4], "case": [7, 8]})
    turned = fastslow.rotations(cases)
    assert sorted(turned.position) == sorted([*range(5)] * 2) and turned.case.tolist() == [7, 8] * 5
    assert len({tuple(options) for options in turned.options}) == 5
    assert [row.options[row.position] for row in turned.itertuples()] == ["w", "v"] * 5


def test_the_floor_is_the_best_of_all_that_see_the_options_alone():
    guesses = pd.DataFrame({fastslow.CHANCE: [0.2] * 4, "knows the dictionary": [1, 0, 0, 0]})
    floor = fastslow.blind_floor(guesses)
    assert (floor.source, floor.right.tolist()) == ("knows the dictionary", [1, 0, 0, 0])
    assert fastslow.blind_floor(guesses, [0.4, 0.2, 0.2, 0.4]).source == fastslow.ITSELF
    assert fastslow.blind_floor(guesses, [0.2, 0.0, 0.2, 0.2]).source == "knows the dictionary"
    assert (
        fastslow.blind_floor(guesses.assign(**{"knows the dictionary": 0.0}), [0.0] * 4).source
        == fastslow.CHANCE
    )
    # where the guesser is right the model was not heard: the case counts for none of them
    assert fastslow.blind_floor(guesses, [np.nan, 0.0, 0.0, 0.1]).source == fastslow.CHANCE
    assert fastslow.blind_floor(guesses, [np.nan] * 4).source == fastslow.CHANCE


def data_of(tmp_path, train, attributes=None):
    files = [tmp_path / f"{i}.png" for i in range(len(LABELS))]
    for file in files[:5]:
        file.touch()
    images = pd.DataFrame({"path": [str(file) for file in files], "label": LABELS, "train": train})
    classes = pd.DataFrame({"name": NAMES, "label": range(30)})
    return Dataset(Path("drawn"), images, classes, class_attributes=attributes)


@pytest.fixture
def backbone(monkeypatch):
    """A network whose features and outputs know the class, but for noise."""
    noise = torch.Generator().manual_seed(0)

    def features(network, files, maps=False):
        labels = torch.tensor([LABELS[int(Path(file).stem)] for file in files])
        known = torch.nn.functional.one_hot(labels, 30).float()
        known += 0.5 * torch.nn.functional.one_hot((labels + 1) % 30, 30)
        known = known + 0.05 * torch.randn(known.shape, generator=noise)
        columns = [NAMES.index(name) for name in network.class_names]
        return SimpleNamespace(pooled=known, logits=known[:, columns])

    monkeypatch.setattr(fastslow.dictionary, "extract_features", features)
    return SimpleNamespace(name="a network", n_classes=30, class_names=NAMES)


def test_the_head_serves_where_it_is_of_these_classes(tmp_path, backbone):
    data = data_of(tmp_path, np.arange(300) % 2 == 0)
    found = fastslow.class_neighbours(data, backbone)
    assert found.source == "head" and (found.neighbours[:, 0] == (np.arange(30) + 1) % 30).all()
    assert fastslow.class_neighbours(data, backbone, "probe").source == "probe"
    backbone.class_names = NAMES[::-1]  # the same outputs in another order
    again = fastslow.class_neighbours(data, backbone)
    assert again.source == "head" and (again.neighbours[:, 0] == found.neighbours[:, 0]).all()
    backbone.n_classes = 20
    assert fastslow.class_neighbours(data, backbone).source == "probe"
    with pytest.raises(ValueError, match="20 outputs"):
        fastslow.class_neighbours(data, backbone, "head")
    backbone.n_classes = 20
    found = fastslow.class_neighbours(data_of(tmp_path, np.zeros(300, bool)), backbone)
    nexts = [(k + 1) % 30 in found.neighbours[k] for k in range(30)]
    assert found.source == "probe" and np.mean(nexts) > 0.9


def test_attributes_serve_where_pictures_are_missing(tmp_path):
    attributes = torch.zeros(30, 30)
    for k in range(30):
        attributes[k, [k, (k + 1) % 30]] = 1  # each shares one with the next
    data = data_of(tmp_path, [True] * 300, attributes)
    data.images["path"] = "absent.png"
    found = fastslow.class_neighbours(data)
    assert found.source == "attributes"
    assert {4, 6} <= set(found.neighbours[5])
    with pytest.raises(ValueError, match="has no class attributes"):
        fastslow.class_neighbours(data_of(tmp_path, [True] * 300), source="attributes")


def test_pictures_without_classes_have_no_look_alikes(tmp_path):
    (tmp_path / "one.png").touch()
    images = pd.DataFrame({"path": [str(tmp_path / "one.png")], "label": [-1], "train": [False]})
    data = Dataset(tmp_path, images, pd.DataFrame({"name": [], "label": []}))
    with pytest.raises(ValueError, match="0 classes.*: a class needs 4 others.*folder for each of 5 classes"):
        fastslow.class_neighbours(data)


def test_a_dictionary_of_one_s_own(tmp_path):
    data, file = data_of(tmp_path, [True] * 300), tmp_path / "own.csv"
    rows = [[NAMES[k], *(NAMES[j] for j in NEAR[k])] for k in range(30)]
    pd.DataFrame(rows).sample(frac=1, random_state=0).to_csv(file, index=False, header=False)
    assert (fastslow.class_neighbours(data, source=str(file)).neighbours == NEAR).all()
    pd.DataFrame(rows[1:]).to_csv(file, index=False, header=False)
    with pytest.raises(ValueError, match="no line for 'class 0'"):
        fastslow.class_neighbours(data, source=str(file))
    rows[3][2] = "class 77"
    pd.DataFrame(rows).to_csv(file, index=False, header=False)
    with pytest.raises(ValueError, match="names 'class 77', no class"):
        fastslow.class_neighbours(data, source=str(file))
    with pytest.raises(ValueError, match="auto, head, probe, attributes or a CSV file"):
        fastslow.class_neighbours(data, source="by heart")


BIRDS = ["None", "NA", "m\u00e9sange", "1.0", "a, b", "nan"]
OWN = """None,NA,me\u0301sange, 1.0 ,"a, b"
NA,None,m\u00e9sange,1.0,nan
mésange,None,NA,1.0,nan
1.0,None,NA,mésange,nan
"a, b",None,NA,mésange,nan
nan,None,NA,mésange,1.0
"""


@pytest.mark.parametrize(
    "change, message",
    [
        (("", ""), None),
        (("nan,None", "nan,nan"), "line 6 has nan, nan.*five different ones"),  # its own look-alike
        (("nan,None,NA", "nan,NA,NA"), "line 6 has nan, NA, NA"),
        (("nan,None,NA", "NA,None,nan"), "line 6 is a second one for 'NA'"),
        ((",1.0\n", "\n"), "line 6 has nan, None, NA, m"),
        (("nan,None,NA", "\nnan,None,NA"), "line 6 is empty"),
    ],
)
def test_a_dictionary_s_names_are_texts(change, message, tmp_path):
    images = pd.DataFrame({"path": [str(tmp_path)] * 6, "label": range(6), "train": True})
    data = Dataset(tmp_path, images, pd.DataFrame({"name": BIRDS, "label": range(6)}))
    (tmp_path / "own.csv").write_bytes(("\ufeff" + OWN.replace(*change, 1).replace("\n", "\r\n")).encode())
    if message is None:
        found = fastslow.class_neighbours(data, source=str(tmp_path / "own.csv")).neighbours
        assert found.tolist()[:2] == [[1, 2, 3, 4], [0, 2, 3, 5]] and found.shape == (6, 4)
    else:
        with pytest.raises(ValueError, match=f"own.csv.*{message}"):
            fastslow.class_neighbours(data, source=str(tmp_path / "own.csv"))
