"""Models that were trained with a dot: pictures, networks, statistics over experiments, recorded tables."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers import long_runs
from xaihelpers.models import two_classes
from xaihelpers.saliency import red_dots
from xaihelpers.scores import intervals, pairs_of_classes


def test_statistics_of_an_experiment():
    kind, values = np.array([1.0, 1, 0, 0]), np.array([3.0, 2, 2, 1])
    assert intervals.auc(kind, values) == 3.5 / 4  # one tie
    assert pairs_of_classes.gap(kind, values) == 1
    assert pairs_of_classes.pearson(kind, np.ones(4)) == 0  # a constant tells nothing


def test_pairs_are_the_cases_of_several_pairs_and_models_those_of_one():
    rows = []
    for pair, (first, second) in {"a": (0.9, 0.7), "b": (0.1, 0.3), "c": (0.5, 0.5)}.items():
        for dot, value in ((0.1, first), (0.2, second)):
            rows += [{"pair": pair, "dot": dot, "seed": 0, "model": n, "x": value} for n in range(3)]
    rows = pd.DataFrame(rows)
    found = pairs_of_classes.over_experiments(rows, np.mean, "x")
    of_pairs = np.array([0.8, 0.2, 0.5])  # t of 2 degrees of freedom on three means
    assert found.value == pytest.approx(0.5)
    assert found.high - 0.5 == pytest.approx(4.302653 * of_pairs.std(ddof=1) / math.sqrt(3))
    one = rows[rows.pair == "a"].assign(x=lambda part: part.x + 0.1 * part.model)
    found = pairs_of_classes.over_experiments(one, np.mean, "x")
    assert found.high - found.value == pytest.approx(4.302653 * 0.1 / math.sqrt(3))
    table = pairs_of_classes.of_each_pair(rows, np.mean, "x")
    assert table.value.tolist() == pytest.approx(of_pairs)


def test_the_dot_stands_in_its_corner_on_the_first_class_alone():
    grey = torch.full((2, 3, 40, 40), 128, dtype=torch.uint8)
    pictures = red_dots.Pictures(grey, torch.tensor([0, 1]), grey[:, 0] > 200, ("A", "B"))
    seen = red_dots.as_trained(pictures, 0.2, "bottom right", True).pixels
    changed = (seen != grey).any(1)
    assert not changed[1].any() and not changed[0, :20].any() and not changed[0, :, :20].any()
    assert changed[0].sum() == pytest.approx(math.pi * 4**2, rel=0.1)
    place = red_dots.place_of(grey, 0.2, "bottom right")
    assert (place[0] | ~changed[0]).all() and place[0].sum() > 2 * changed[0].sum()


class Reds(torch.nn.Module):
    """The first logit is the mean of red, over a layer that passes pictures on."""

    def __init__(self):
        super().__init__()
        self.maps = torch.nn.Conv2d(3, 2, 1, bias=False)
        self.maps.weight.data = torch.tensor([[1.0, 0, 0], [0, 0, 0]]).view(2, 3, 1, 1)

    def forward(self, inputs):
        return 100 * self.maps(inputs).mean((2, 3))


def test_use_and_show_of_a_network_that_sees_nothing_but_red():
    base = two_classes.base_network(side=40)
    network = dataclasses.replace(base, model=Reds(), layer="maps", mean=(0.0,) * 3, std=(1.0,) * 3)
    black = torch.zeros(4, 3, 40, 40, dtype=torch.uint8)
    objects = torch.zeros(4, 40, 40, dtype=torch.bool)
    objects[:, 10:30, 10:30] = True
    test = red_dots.Pictures(black, torch.tensor([0, 0, 1, 1]), objects, ("A", "B"))
    found = red_dots.use_of(network, test, 0.2, "top right", True)
    marked = red_dots.add_dot(black, 0.2, "top right")
    assert found["used"] is False and found["use"] == pytest.approx(100 * marked[0, 0].float().mean() / 255)
    place = red_dots.place_of(marked, 0.2, "top right")
    shown = red_dots.show_of(network, marked, place, True, "gradcam", n_random=2)
    assert shown["ceiling"] == 100 and shown["centre prior"] == 0 and 0 < shown["random map"] < 30
    exact = (marked[:, 0] > 0).float()
    rows = red_dots.detectors_of(network, test._replace(pixels=marked), exact, place)
    assert (rows["attention at the place"] == 100).all() and (rows["energy at the place"] == 100).all()
    assert (rows["attention beside the object"] == 100).all()


def test_maps_come_back_from_their_texts():
    maps = torch.rand(3, 20, 20, generator=torch.Generator().manual_seed(0)).mul(255).round() / 255
    assert torch.equal(red_dots.from_text(red_dots.as_text(maps)), maps)


def test_a_network_comes_out_the_same_again():
    base, draw = two_classes.base_network(side=32), torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (12, 3, 32, 32), dtype=torch.uint8, generator=draw)
    pixels[:6, 0] = 255
    labels, found = torch.arange(2).repeat_interleave(6), []
    for seed in (1, 1, 2):
        found.append(two_classes.train(two_classes.renewed(base, seed), pixels, labels, epochs=20))
    first, again, other = (network.model[0].weight for network in found)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert ((red_dots.log_odds(found[0], pixels) < 0).long() == labels).all()


def test_what_is_not_trained_of_a_backbone_stays():
    pixels = torch.randint(256, (4, 3, 224, 224), dtype=torch.uint8)
    for part, changed in (("head", 2), ("last block", 3)):
        base = two_classes.base_network("aviary_resnet", part, "")
        before = {name: value.clone() for name, value in base.trunk.state_dict().items()}
        network = two_classes.renewed(base, 3)
        assert len(network.model) == changed + 1
        two_classes.train(network, pixels, torch.tensor([0, 1, 0, 1]), part, epochs=1)
        after = base.trunk.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_experiment_is_made_once_and_a_run_goes_on_where_it_ended(tmp_path):
    made = []

    def make(value):
        made.append(value)
        return {"models": pd.DataFrame({"model": [0, 1], "use": [value, 0.123456789]})}

    for value in (1.0, 2.0):
        found = long_runs.finished(str(tmp_path), "A / B, 0.1", lambda value=value: make(value))
    assert made == [1.0] and found["models"].use.tolist() == [1.0, 0.123457]
    (tmp_path / "A + B, 0.1" / "finished").unlink()  # as where it was stopped between two tables
    assert long_runs.finished(str(tmp_path), "A / B, 0.1", lambda: make(3.0))["models"].use[0] == 3
    assert long_runs.finished("", "A / B, 0.1", lambda: make(4.0))["models"].use[0] == 4


def test_recorded_tables_belong_to_a_run_with_the_same_parameters(tmp_path, monkeypatch):
    folder = tmp_path / "44-0000000000"
    long_runs.keep({"models": pd.DataFrame({"model": [0]})}, folder)
    (folder / "run.json").write_text('{"parameters": {"seed": 0, "beta": 0.4}}')
    monkeypatch.setattr(long_runs, "FOLDER", tmp_path)
    assert list(long_runs.recorded("44", ["models"], {"seed": 1, "beta": 0.4}, ["seed"])) == ["models"]
    assert long_runs.recorded("44", ["models"], {"seed": 1, "beta": 0.5}, ["seed"]) == {}
