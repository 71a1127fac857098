"""What guessers say of substitutions."""

import torch
from PIL import Image

from xaihelpers import datasets
from xaihelpers.scores import sub
from xaihelpers.substitute import write_exact
from xaihelpers.yardsticks.sub_guessers import colours_anywhere, guessers


def test_guessers_gain_nothing_and_the_truth_is_right(tmp_path):
    """On exact substitutions, written and read as a benchmark."""
    world = datasets.load("aviary", attributes="image")
    given = ["has_breast_color::blue", "has_crown_color::black", "has_eye_color::white"]
    portraits = write_exact(tmp_path / "mine", world, given, 6, seed=3)
    assert len(portraits) == 6 and portraits[0][0].size == (64, 64)
    images = sub.benchmark_images(datasets.load(tmp_path / "mine"), world)
    assert set(images.attribute) <= set(given) and len(images.before) == 6
    names = world.attributes.name.tolist()
    removed = torch.tensor([[name in gone for name in names] for gone in images.removed])
    said = guessers(images, world, names, removed, given, draws=2)
    for name, places in said.items():
        rows = sub.judge_predictions(images, world, names, places["after"], places["before"]).rows
        found = rows[rows.scoring == "corrected"].set_index("metric").value
        assert (found["gain"] == 0) == (name not in ("coin", "the truth")), name
        assert found["S+"] == {"reciter": 0, "vocabulary": 100, "the truth": 100}.get(name, found["S+"])
    assert len(said["coin"]["real"]) == 2 and said["the truth"]["real"].shape[1:] == (960, 312)


def test_who_counts_colours_sees_no_part(tmp_path):
    """A picture that is redder than the ordinary ones has red of every part, and no pattern."""
    files = {}
    for name in ("red", "blue"):
        files[name] = tmp_path / f"{name}.png"
        Image.new("RGB", (20, 20), name).save(files[name])
    names = [
        "has_crown_color::red",
        "has_leg_color::red",
        "has_crown_color::blue",
        "has_wing_pattern::striped",
    ]
    pictures = {"after": [files["red"]], "before": [], "real": [files["blue"], files["blue"]]}
    said = colours_anywhere(pictures, names)
    assert said["after"].tolist() == [[[1, 1, 0, 0]]] and said["before"].shape == (1, 0, 4)
    assert said["real"].tolist() == [[[0.5, 0.5, 0.5, 0]] * 2]
