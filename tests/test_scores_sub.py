"""S+, S- and T by hand; and anybody's predictions: read, matched with a benchmark and scored.

Images 0 to 2 are a Cardinal given a black crown, a Blue Jay given white wings and a Mallard given a yellow
eye. By the labels of the classes a red crown goes; blue and black wings; a black eye. Red crowns, blue wings
and yellow eyes are none of the 112 concepts.
"""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import roc_auc_score

from xaihelpers import datasets, substitute
from xaihelpers.datasets import DatasetError, write_sub
from xaihelpers.outputs import ConceptOutputs, save_outputs
from xaihelpers.scores import sub
from xaihelpers.scores.sub import __main__ as command

COLOURS = {"wing": ("blue", "black", "white"), "eye": ("yellow", "black"), "crown": ("blue", "black", "red")}
CONCEPTS = [f"has_{part}_color::{colour}" for part, colours in COLOURS.items() for colour in colours]
# of the three images, what a model says of them, and of the same birds before the change
SEEING = torch.tensor(
    [[0.1, 0.1, 0.1, 0.1, 0.9, 0.1, 0.9, 0.2], [0.3, 0.8, 0.6, 0.2, 0.8, 0.9, 0.1, 0.1]]
    + [[0.1, 0.1, 0.7, 0.3, 0.9, 0.1, 0.1, 0.1]]
)
BEFORE = torch.tensor(
    [[0.1, 0.1, 0.1, 0.1, 0.9, 0.1, 0.6, 0.9], [0.9, 0.8, 0.2, 0.4, 0.8, 0.9, 0.1, 0.1]]
    + [[0.1, 0.1, 0.7, 0.1, 0.9, 0.1, 0.1, 0.1]]
)
TARGETS = ["has_crown_color::black", "has_wing_color::white", "has_eye_color::yellow"]
BIRDS = ["Cardinal", "Blue Jay", "Mallard"]
THIRD = 100 / 3


def write_benchmark(folder, **more):
    """The benchmark of the three images."""
    images = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    write_sub(folder, images, TARGETS, BIRDS, TARGETS, BIRDS, **more)
    return datasets.load(folder)


@pytest.fixture(scope="module")
def world():
    return datasets.load("aviary", attributes="class")


@pytest.fixture(scope="module")
def images(tmp_path_factory, world):
    return sub.benchmark_images(write_benchmark(tmp_path_factory.mktemp("benchmark") / "three"), world)


def judged(images, world, *before, **more):
    found = sub.judge_predictions(images, world, CONCEPTS, SEEING[None], *before, **more)
    return found.rows.set_index(["scoring", "metric"])


def test_scores_worked_out_by_hand(images, world):
    """Seen: crown and wings. Gone: the red crown, and of the wings the blue; black ones are still claimed."""
    assert judged(images, world).value.to_dict() == pytest.approx(
        {
            ("authors'", "S+"): 100,  # of two images: the eye is none of the 112
            ("authors'", "S-"): 0,  # of one: only the black wings are among the 112
            ("corrected", "S+"): 2 * THIRD,
            ("corrected", "S-"): 50,  # 1, 1/2, 0
            ("corrected", "both"): THIRD,
            ("corrected", "AUC"): 100,  # among birds whose group was left as it was
        }
    )
    low = judged(images, world, threshold=0.25).value
    assert low["corrected", "S+"] == 100 and low["corrected", "S-"] == pytest.approx(THIRD)  # 1, 0, 0


def test_scores_with_the_birds_before(images, world):
    """The crown was called black before; a yellow eye is less probable before in two birds of three."""
    rows = judged(images, world, BEFORE[None])
    found, coin = rows.value, rows.chance
    assert found["corrected", "false alarms"] == found["corrected", "gain"] == pytest.approx(THIRD)
    assert found["corrected", "AUC"] == pytest.approx(100 * (1 + 1 + 2 / 3) / 3)
    assert rows.cases.tolist() == [2, 1, 3, 3, 3, 3, 3, 3]
    assert coin["corrected", "S+"] == 50
    assert coin["corrected", "both"] == pytest.approx(100 * (2 / 4 + 1 / 8) / 3)


def test_the_greatest_of_a_group(images, world):
    rows = judged(images, world, rule="group")
    # the black wings are likelier than the white
    assert rows.value["corrected", "S+"] == pytest.approx(THIRD)
    assert rows.value["corrected", "both"] == pytest.approx(THIRD)
    assert rows.chance["corrected", "S+"] == pytest.approx(100 * (1 / 4 + 1 / 4 + 1 / 3) / 3)


def test_the_benchmark_may_say_what_is_gone(world, tmp_path):
    """Where the picture keeps its black wings, only blue counts; the class's label is the authors' still."""
    gone = [["has_crown_color::red"], ["has_wing_color--blue"], []]
    exact = write_benchmark(tmp_path / "exact", removed=gone)
    found = judged(sub.benchmark_images(exact, world), world)
    assert found.value["corrected", "S-"] == 100 and found.cases["corrected", "S-"] == 2
    assert found.value["corrected", "both"] == 100 and found.value["authors'", "S-"] == 0


CROWNS = [f"has_crown_color::{colour}" for colour in ("red", "blue", "grey")]


def test_recall_is_weighed_as_the_benchmark_weighs():
    """Two images ask for red, one for blue: recall 1/2 of red and 1 of blue makes 2/3."""
    images = pd.DataFrame({"attribute": [CROWNS[0], CROWNS[0], CROWNS[1]]})
    truth = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
    predicted = torch.tensor([[[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]]], dtype=torch.bool)
    recall = sub.standardised_recall(predicted, truth, [0, 1, 2, 3], images, CROWNS)
    assert recall.value == pytest.approx(200 / 3) and 0 <= recall.low < recall.value < recall.high <= 100
    truth[:, 1] = 0  # blue on no real bird: red alone
    assert sub.standardised_recall(predicted, truth, [0, 1, 2, 3], images, CROWNS).value == 50


def test_paired_rise_by_hand():
    """Red rises, then ties; of the absent, blue falls and grey rises, then blue rises; an eye is unknown."""
    images = pd.DataFrame({"attribute": [CROWNS[0], CROWNS[0], "has_eye_color::red"]})
    before = torch.tensor([[[0.1, 0.5, 0.2], [0.4, 0.1, 0.1], [0.1, 0.1, 0.1]]])
    after = torch.tensor([[[0.3, 0.4, 0.6], [0.4, 0.3, 0.9], [0.9, 0.9, 0.9]]])
    absent = torch.tensor([[True, True, True], [False, True, False], [True, True, True]])
    found = sub.paired_rise(before, after, images, CROWNS, absent)
    np.testing.assert_array_equal(found["rise"], [[100, 50, np.nan]])
    np.testing.assert_array_equal(found["rise of absent"], [[50, 100, np.nan]])
    names = ["has_crown_color::red", "has_wing_color::red", "has_wing_color::blue", "has_leg_color::red"]
    images = pd.DataFrame({"attribute": [names[0], names[1], "has_primary_color::red"]})
    lacked = torch.tensor([[True] * 4, [False, True, True, True], [True] * 4])  # the second's crown is red
    found = sub.paired_rise(torch.zeros(1, 3, 4), torch.ones(1, 3, 4), images, names, lacked)
    np.testing.assert_array_equal(found["rise elsewhere"], [[100, np.nan, np.nan]])


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 12))
def test_bounds_and_a_rival_of_the_auc(seed, n_draws, n_images):
    """Whatever a model says: shares are shares, both is no more than either, an exchange of times mirrors."""
    rng = np.random.default_rng(seed)
    targets = rng.choice(CROWNS, n_images)
    images = pd.DataFrame({"attribute": targets})
    before, after = torch.from_numpy(rng.integers(0, 5, (2, n_draws, n_images, 3)) / 4)
    absent = torch.from_numpy(rng.random((n_images, 3)) < 0.5)
    removed = torch.from_numpy((rng.random((n_images, 3)) < 0.5) & (targets[:, None] != np.array(CROWNS)))
    found = sub.image_scores(after, images, removed, CROWNS, before, absent)
    for metric, values in found.items():
        assert np.nanmin(values, initial=0) >= (-100 if metric == "gain" else 0)
        assert np.nanmax(values, initial=0) <= 100
    counted = ~np.isnan(found["both"])
    assert (found["both"] <= np.minimum(found["S+"], found["S-"]))[counted].all()
    forth = sub.paired_rise(before, after, images, CROWNS, absent)
    back = sub.paired_rise(after, before, images, CROWNS, absent)
    for name, rises in forth.items():
        np.testing.assert_allclose(rises, 100 - back[name])
    for column, name in enumerate(CROWNS):
        mine, without = after[0, targets == name, column], before[0, absent[:, column], column]
        if len(mine) and len(without):
            area = roc_auc_score([1] * len(mine) + [0] * len(without), torch.cat([mine, without]))
            assert found["AUC"][0, targets == name].mean() == pytest.approx(100 * area)


def test_any_order_and_any_names(tmp_path):
    """Shuffled rows and plain names of attributes: the same; some of them, in another order."""
    ids, names, file = ["a.png", "b.png", "c.png"], map(datasets.plain_name, CONCEPTS), tmp_path / "own.csv"
    table = pd.DataFrame(SEEING.numpy(), ids, list(names)).rename_axis("image_id").reset_index()
    table = table.melt("image_id", None, "attribute", "probability").sample(frac=1, random_state=0)
    table.to_csv(file, index=False)
    own = sub.read_predictions(file, ids)
    assert own.concepts == CONCEPTS and torch.equal(own.values, SEEING)  # in CUB's order
    some = sub.read_predictions(file, ids, CONCEPTS[::-2])
    assert some.concepts == CONCEPTS[::-2] and torch.equal(some.values, SEEING.flip(1)[:, ::2])


def test_a_file_that_is_wrong_is_named(tmp_path):
    file, head = tmp_path / "own.csv", "image_id,attribute,probability\n"
    one = f"{head}a,red crown,1\n"
    for text, message in (
        (f"{head}c,red crown,1", "for has_crown_color::red of image 'a' .2 such of 2.* called 'c', …"),
        (f"{one}b,red crown,1.2", "no probability from 0 to 1 for has_crown_color::red of image 'b'"),
        (f"{one}b,red crown,87", "has_crown_color::red of image 'b'.*no logit and no percentage"),
        (f"{one}b,red crown,-2.5", "has_crown_color::red of image 'b'.*no logit and no percentage"),
        (f"{head}a,7,1", "unknown attribute '7'"),
        (f"{one}a,a red crown,1", "has_crown_color::red of image 'a' stands twice"),
        (f"{head}a,has_crown_color::rad,1", "'has_crown_color::rad'; did you mean 'has_crown_color::red'"),
        ("image_id,attribute,p\na,red crown,1", "has no column 'probability'"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message) as caught:
            sub.read_predictions(file, ["a", "b"])
        assert str(file) in str(caught.value)
    for name in ("own.safetensors", "nowhere.csv", "nowhere.py"):
        with pytest.raises(ValueError, match=name):
            sub.read_predictions(tmp_path / name, ["a"])


def test_outputs_of_a_bottleneck(tmp_path, caplog):
    """Concepts by any of their names; what is no attribute is left out; the model's threshold is one half."""
    values = torch.tensor([[0.3, 0.9, 0.5], [0.1, 0.2, 0.5]])
    names, limits = ["Red Crown", "has_crown_color--black", "a look"], torch.tensor([0.2, 0.5, 0.5])
    about = torch.zeros(2, 3), None, torch.zeros(2, 1), names, ["bird"], ["b.png", "a.png"]
    outputs = ConceptOutputs(values, *about, thresholds=limits)
    held = sub.read_predictions(save_outputs(outputs, tmp_path / "own.safetensors"), ["a.png", "b.png"])
    assert held.concepts == ["has_crown_color::black", "has_crown_color::red"]
    assert held.values.flatten().tolist() == pytest.approx([0.2, 0.25, 0.9, 0.5625])
    assert "1 of 3 concepts are none of CUB's 312 attributes, the first 'a look'" in caplog.text
    outputs.concepts = ["red crown", "a red crown", "a look"]
    with pytest.raises(DatasetError, match="each once; they have 'red crown', 'a red crown'"):
        sub.read_predictions(save_outputs(outputs, tmp_path / "own.safetensors"), ["a.png"])


def test_thresholds_that_are_no_probabilities_are_refused(tmp_path):
    """Clamped to 1 and 0, they would call nothing present, and everything."""
    values, names = torch.tensor([[0.3, 0.9], [0.1, 0.2]]), ["red crown", "black crown"]
    for limit, ends in ((50.0, "50 to 50"), (-2.0, "-2 to -2")):
        about = torch.zeros(2, 2), None, torch.zeros(2, 1), names, ["bird"], ["b.png", "a.png"]
        outputs = ConceptOutputs(values, *about, thresholds=torch.full((2,), limit))
        with pytest.raises(DatasetError, match=f"thresholds go from {ends}: give probabilities from 0 to 1"):
            sub.read_predictions(save_outputs(outputs, tmp_path / "own.safetensors"), ["a.png"])


def test_a_softmax_over_all_attributes_is_said(tmp_path, caplog):
    """Within one group it is right."""
    names, file = ["red crown", "black crown", "blue back", "white back"], tmp_path / "own.csv"
    for shares, n, said in (([0.4, 0.3, 0.2, 0.1], 4, 1), ([0.4, 0.6], 2, 0), ([0.9, 0.1, 0.8, 0.2], 4, 0)):
        caplog.clear()
        rows = {"image_id": "a", "attribute": names[:n], "probability": shares}
        pd.DataFrame(rows).to_csv(file, index=False)
        sub.read_predictions(file, ["a"])
        assert len(re.findall("sum to 1, as of a softmax over all attributes", caplog.text)) == said


def test_who_knows_the_class_by_heart_is_right_about_real_birds(world, images):
    concepts = [*TARGETS, "has_crown_color::red"]
    by_heart = datasets.concept_labels(world, concepts, "class")[~world.train]
    values = torch.zeros(1, 3, 4)
    found = sub.judge_predictions(images, world, concepts, values, real=by_heart[None]).rows
    assert (found.set_index("metric").value[["recall", "T"]] == 100).all()


def test_the_command_sets_guessers_beside_a_file(tmp_path, capsys):
    """Who edits what is said, and not what was said before, has the vocabulary's S+, and its gain of 0."""
    world = datasets.load("aviary", attributes="image")
    substitute.write_exact(tmp_path / "mine", world, TARGETS, 5)
    rows = pd.MultiIndex.from_product([datasets.load(tmp_path / "mine").images.id, TARGETS])
    table = rows.to_frame(index=False, name=["image_id", "attribute"]).assign(probability=1)
    table.to_csv(tmp_path / "file.csv", index=False)
    asked = [
        str(tmp_path / "file.csv"),
        "--benchmark",
        str(tmp_path / "mine"),
        "--csv",
        str(tmp_path / "out.csv"),
    ]
    assert command.main(asked) == 0 and "--before" in capsys.readouterr().out
    assert command.main([*asked, "--before", str(tmp_path / "file.csv")]) == 0
    found = pd.read_csv(tmp_path / "out.csv")
    found = found[found.scoring == "corrected"].pivot(index="model", columns="metric", values="value")
    assert found["S+"].to_dict() == {"yours": 100, "vocabulary": 100, "the truth": 100, "reciter": 0}
    assert found.gain.to_dict() == {"yours": 0, "vocabulary": 0, "the truth": 100, "reciter": 0}


def test_the_command_says_what_is_wrong(capsys):
    assert command.main(["own.csv", "--benchmark", "aviary"]) == 2
    assert "is no substitution benchmark" in capsys.readouterr().err


NAMES = [*CROWNS, "has_size::large", "has_size::small"]
# (L, K): class 0 has a red and blue crown, class 1 a grey one; both are large
CLASSES = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 1], [0, 0]])


def test_by_hand():
    targets = ["has_crown_color::grey", "has_crown_color::red", "has_size::small"]
    images = pd.DataFrame({"attribute": targets, "label": [0, 1, 1]})
    removed = sub.removed_attributes(images, CLASSES, NAMES)
    assert removed.int().tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    predicted = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]], dtype=torch.bool)
    result = sub.substitution_scores(predicted, targets, removed, NAMES)
    assert result.s_plus.tolist() == [1, 0, 1] and result.s_minus.tolist() == [0.5, 0, 1]
    chance = sub.chance_scores(targets, removed, NAMES)
    assert chance.s_plus.tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 3])
    assert chance.s_minus.tolist() == pytest.approx([3 / 4, 3 / 4, 2 / 3])
    chosen = sub.group_argmax(torch.tensor([[0.1, 0.3, 0.2, 0.9, 0.9], [0.5, 0.1, 0.1, 0.0, 0.4]]), NAMES)
    assert chosen.int().tolist() == [[0, 1, 0, 1, 0], [1, 0, 0, 0, 1]]


def test_what_does_not_count():
    targets = ["has_crown_color::red", "has_eye_color::red"]
    images = pd.DataFrame({"attribute": targets, "label": 0})
    removed = sub.removed_attributes(images, torch.tensor([[1], [0], [0], [0], [0]]), NAMES)
    result = sub.substitution_scores(torch.ones(2, 5, dtype=torch.bool), targets, removed, NAMES)
    assert result.s_plus[0] == 1 and result.s_plus[1].isnan()  # the second is none of the model's
    assert result.s_minus.isnan().all()  # nothing was removed: the class has red itself; and an unknown group
    with pytest.raises(DatasetError, match="none of the attributes .* the names of one vocabulary"):
        sub.substitution_scores(torch.ones(1, 5, dtype=torch.bool), ["red crown"], removed[:1], NAMES)


def test_accuracy_on_real_images():
    """Of each bird four of five concepts are right; the second has none of them."""
    predicted = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    truth = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0]])
    assert sub.concept_accuracy(predicted, truth, NAMES).tolist() == pytest.approx([0.8, 0.8])
    among = ["has_crown_color::blue", "has_size::large"]
    assert sub.concept_accuracy(predicted, truth, NAMES, among).tolist() == [0.5, 1]
