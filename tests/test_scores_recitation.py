"""What guessers say of substitutions, and which liars a yardstick of them finds out."""

import pytest
import torch
from PIL import Image

from xaihelpers import datasets
from xaihelpers.scores import sub
from xaihelpers.scores.conceptscore import PROMPTS
from xaihelpers.substitute import write_exact
from xaihelpers.yardsticks.sub_guessers import colour_shares, colours_anywhere, guessers


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
    said = colours_anywhere({place: colour_shares(files) for place, files in pictures.items()}, names)
    assert said["after"].tolist() == [[[1, 1, 0, 0]]] and said["before"].shape == (1, 0, 4)
    assert said["real"].tolist() == [[[0.5, 0.5, 0.5, 0]] * 2]


@pytest.fixture(scope="module")
def substituted(tmp_path_factory):
    """Exact substitutions, and what guessers, liars and two honest models say of them after and before."""
    world = datasets.load("aviary", attributes="image")
    place, SUB = tmp_path_factory.mktemp("exact"), PROMPTS / "sub_attributes.txt"
    vocabulary = SUB.read_text().split()
    write_exact(place, world, vocabulary, 100, seed=5)
    images = sub.benchmark_images(datasets.load(place), world)
    names = world.attributes.name.tolist()
    removed = torch.tensor([[name in gone for name in names] for gone in images.removed])
    said = guessers(images, world, names, removed, vocabulary)
    real = world.images.path[~world.train.numpy()][::8]
    pictures = {"after": images.path, "before": images.before, "real": real}
    counted = colours_anywhere({place: colour_shares(files) for place, files in pictures.items()}, names)
    truth, of_class = said["the truth"], said["reciter"]["after"]
    known, generator = said["vocabulary"]["after"], torch.Generator().manual_seed(0)
    some = torch.rand(known.shape, generator=generator)
    liars = {name: said[name] for name in ("reciter", "vocabulary", "commonest value")}
    liars["colours anywhere"] = counted
    liars["its prompt alone was changed"] = dict.fromkeys(("after", "before"), truth["before"])
    liars["all that the class lacks"] = dict.fromkeys(("after", "before"), 1 - of_class)
    liars["a part of the list, by chance"] = {"after": known * some, "before": known * some.roll(1, 1)}
    liars["colours of the list"] = {when: counted[when] * known for when in ("after", "before")}
    wrong = (torch.rand(known.shape, generator=generator) < 0.2).float()
    misread = {when: (truth[when] - wrong).abs() for when in ("after", "before")}
    lacked = sub.lacking(images, datasets.class_concepts(world, names, "hard"), names, False)
    return images, names, removed, lacked, liars, {"the truth": truth, "misreads a fifth": misread}


def sees_the_part(said, images, names, removed, lacked):
    """Whether the new attribute is claimed more often than before, and rises more often than elsewhere."""
    after, before = said["after"], said["before"]
    rises = sub.paired_rise(before, after, images, names, lacked)
    gain = sub.image_scores(after, images, removed, names, before)["gain"]
    found = gain, rises["rise"] - rises["rise elsewhere"]
    return all(sub.score_interval(one, images, "gain").low > 0 for one in found)


def test_who_sees_a_substituted_part(substituted):
    *about, liars, honest = substituted
    assert {name: sees_the_part(said, *about) for name, said in liars.items()} == dict.fromkeys(liars, False)
    assert {name: sees_the_part(said, *about) for name, said in honest.items()} == dict.fromkeys(honest, True)
