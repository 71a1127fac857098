"""What guessers take that see the options alone, and where the similarity dictionary comes from."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers import fastslow
from xaihelpers.datasets import Dataset
from xaihelpers.fastslow import pools
from xaihelpers.fastslow.candidates import Pool
from xaihelpers.fastslow.lookalikes import Dictionary

NAMES = [f"class {k}" for k in range(30)]
LABELS = np.repeat(np.arange(30), 10)
# k's look-alikes are the next four: k is its own set's centre, and in nobody else's set the centre
NEAR = np.array([[(k + i) % 30 for i in (1, 2, 3, 4)] for k in range(30)])


def guesses(sets, neighbours=NEAR, vectors=None, seed=0):
    """The mean of each guesser's shares in 1,500 cases, in %."""
    files = pd.DataFrame({"path": [f"{row}.png" for row in range(300)]})
    data = SimpleNamespace(labels=torch.from_numpy(LABELS), images=files, class_names=NAMES)
    pool = Pool("drawn", data, np.arange(300), Dictionary(neighbours, "probe"), vectors or {})
    return fastslow.guess_blind(fastslow.case_table(pool, sets, 1500), pool).mean()


def test_the_paper_s_sets_give_the_answer_to_who_knows_the_dictionary():
    right = guesses("class", vectors={"nothing": np.zeros((30, 3))})
    assert right["knows the dictionary"] == 100
    # every class is wanted by four, and nothing is known of any: nothing to go by
    others = right.drop("knows the dictionary")
    assert len(others) == 3 and others.to_numpy() == pytest.approx(20)


def test_what_each_guesser_finds():
    vectors = {"noise": np.random.default_rng(0).normal(size=(30, 8)), "order": np.eye(30)}
    assert guesses("balanced", vectors=vectors).to_numpy() == pytest.approx(20, abs=4)
    # on a circle, with two look-alikes on either side, the middle one has the highest cosines
    angle = 2 * np.pi * np.arange(30) / 30
    near = np.array([[(k + i) % 30 for i in (-2, -1, 1, 2)] for k in range(30)])
    right = guesses("class", near, {"place": np.stack([np.cos(angle), np.sin(angle)], 1)})
    assert right["most like the others, by place"] == 100
    # the four that all want take each other, and one that nobody else wants
    hubs = np.tile([0, 1, 2, 3], (30, 1))
    hubs[:4] = [[1, 2, 3, 10], [0, 2, 3, 11], [0, 1, 3, 12], [0, 1, 2, 13]]
    assert guesses("class", hubs)["least wanted"] > 80


def test_a_clip_of_drawn_birds_is_not_asked_of_other_names(monkeypatch):
    told = SimpleNamespace(rows=torch.eye(2))
    monkeypatch.setattr(pools, "embed_texts", lambda *_: told)
    for drawn, name, is_asked in (
        (False, "aviary_clip", 0),
        (True, "aviary_clip", 1),
        (False, "ViT-B-32", 1),
    ):
        data = SimpleNamespace(class_names=["cat", "dog"], class_attributes=None, drawn=drawn)
        assert len(pools.class_vectors(data, SimpleNamespace(name=name))) == 1 + is_asked


def test_turned_options_hold_every_place_once():
    """And the same five are asked the same five questions."""
    cases = pd.DataFrame({"options": [list("wzvxy"), list("xyzwv")], "position": [0, 4], "case": [7, 8]})
    turned = fastslow.rotations(cases)
    assert sorted(turned.position) == sorted([*range(5)] * 2) and turned.case.tolist() == [7, 8] * 5
    assert len({tuple(options) for options in turned.options}) == 5
    assert [row.options[row.position] for row in turned.itertuples()] == ["w", "v"] * 5


def test_the_floor_is_the_best_of_all_that_see_the_options_alone():
    guesses = pd.DataFrame({"chance": 20.0, "knows the dictionary": [100.0, 0, 0, 0]}, [*"wxyz"])
    floor = fastslow.blind_floor(guesses)
    assert (floor.name, floor.tolist()) == ("knows the dictionary", [100, 0, 0, 0])
    for own, source in (
        ([40, 20, 20, 40], "itself, blind"),
        ([20, 0, 20, 20], "knows the dictionary"),
        # where the guesser is right the model was not heard: a case counts for all or for none
        ([10, 0, 0, np.nan], "chance"),
        ([np.nan] * 4, "chance"),
    ):
        assert fastslow.blind_floor(guesses, pd.Series(own, [*"zyxw"], dtype=float)).name == source


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

    monkeypatch.setattr(fastslow.lookalikes, "extract_features", features)
    return SimpleNamespace(name="a network", n_classes=30, class_names=NAMES)


SPLIT, NO_SPLIT = np.arange(300) % 2 == 0, np.zeros(300, bool)


def test_the_head_serves_where_it_is_of_these_classes_else_a_probe(tmp_path, backbone):
    data = data_of(tmp_path, SPLIT)
    found = fastslow.class_neighbours(data, backbone)
    assert found.source == "head" and (found.neighbours[:, 0] == (np.arange(30) + 1) % 30).all()
    rows = np.flatnonzero(~SPLIT)
    assert (found.nearest(rows, LABELS[rows])[:, 0] == (LABELS[rows] + 1) % 30).all()
    with pytest.raises(ValueError, match="take test images"):
        found.nearest(np.arange(4), LABELS[:4])
    backbone.class_names = NAMES[::-1]  # the same outputs in another order
    again = fastslow.class_neighbours(data, backbone)
    assert again.source == "head" and (again.neighbours[:, 0] == found.neighbours[:, 0]).all()

    backbone.n_classes = 20  # else a probe
    for train in (SPLIT, NO_SPLIT):
        found = fastslow.class_neighbours(data_of(tmp_path, train), backbone)
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
    for source, message in (
        ("attributes", "has no class attributes"),
        ("by heart", "probe or attributes, not"),
    ):
        with pytest.raises(ValueError, match=message):
            fastslow.class_neighbours(data_of(tmp_path, [True] * 300), source=source)


def test_another_seed_offers_other_images_of_a_drawn_world():
    about = {"dictionary": "attributes", "count": 30}
    first, again = (fastslow.load_pools(["aviary"], seed=seed, **about)["aviary"] for seed in (0, 1))
    assert again.name == first.name and again.data.class_names == first.data.class_names
    assert len(again.rows) == 2 * 48 and not {*again.paths[again.rows]} & {*first.paths}
    pictures = {Path(path).read_bytes() for path in first.paths}
    assert not any(Path(path).read_bytes() in pictures for path in again.paths[again.rows])
