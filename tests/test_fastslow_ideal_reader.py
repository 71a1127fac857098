"""The ideal reader on chains worked out by hand, the corruption of known dose, and planted annotators."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.fastslow import STAGES, ideal_reader, planted_annotators


def chain(superclass, detailed):
    return dict(zip(STAGES, ("a branch", superclass, "crown", detailed, "small size"), strict=True))


CHAINS = [chain("duck-like bird", f"{color} crown") for color in ("red", "blue", "red", "black")]
CHAINS += [chain("owl-like bird", "brown crown")] * 2
LABELS = [0, 1, 0, 1, 2, 2]
SETS = [[0, 1, 2, 3, 4]]


def test_statements_are_words_about_things():
    said = ideal_reader.statements({"DetailedFeatures": "long red bill, blue wings"})
    expected = ["bill", "bill long", "bill red", "wings", "wings blue"]
    assert said == [f"DetailedFeatures {words}" for words in expected]
    assert ideal_reader.statements(None) == [] and ideal_reader.statements({"Background": " , "}) == []
    reader = ideal_reader.fit_reader(CHAINS, LABELS, 4)
    assert ideal_reader.read_chains(reader, [None], SETS, 4)[0] == pytest.approx(0.2)
    assert ideal_reader.read_chains(reader, [CHAINS[0]], SETS, 4)[0, 3:] == pytest.approx(0)


def test_posteriors_by_hand():
    """Two classes, one statement: p = (n + ½) / (N + 1) of each, by Bernoulli's likelihood."""
    chains = [{STAGES[0]: "red"}, {STAGES[0]: "red"}, {STAGES[0]: "red"}, {STAGES[0]: "blue"}]
    reader = ideal_reader.fit_reader(chains, [0, 0, 1, 1], 1)
    posterior = ideal_reader.read_chains(reader, [{STAGES[0]: "red"}], [[0, 1]], 1)
    red, blue = np.array([2.5 / 3, 1.5 / 3]), np.array([0.5 / 3, 1.5 / 3])
    likelihood = red * (1 - blue)
    assert posterior[0] == pytest.approx(likelihood / likelihood.sum())


def test_the_first_stages_cannot_tell_what_only_a_later_one_says():
    reader = ideal_reader.fit_reader(CHAINS, LABELS, 2)
    found = ideal_reader.read_chains(reader, [CHAINS[0]], [[0, 1, 2]], 2)
    assert found[0, 0] == pytest.approx(found[0, 1]) and found[0, 2] < found[0, 0]
    assert ideal_reader.share_right(found, [0]) == pytest.approx(0.5)


NAMES = [f"has_{part}_color::{color}" for part in ("crown", "throat") for color in ("red", "blue", "grey")]


def test_corruption_keeps_its_dose():
    present = np.zeros((4000, 6), bool)
    present[:, [0, 4]] = True
    said = ideal_reader.corrupted(present, NAMES, 0.8, 0.7, np.random.default_rng(0))
    true = (said & present).sum()
    assert true / said.sum() == pytest.approx(0.7, abs=0.02)
    assert true / present.sum() == pytest.approx(0.8 * 0.7, abs=0.02)
    assert (said[:, :3].sum(1) <= 1).all(), "a false value takes the place of the true one of its group"
    assert (ideal_reader.corrupted(present, NAMES, 1, 1, np.random.default_rng(0)) == present).all()
    assert not ideal_reader.corrupted(present, NAMES, 0, 1, np.random.default_rng(0)).any()


def test_chains_are_drawn_from_the_shares_of_a_class():
    class Annotated:
        attributes = pd.DataFrame({"name": NAMES})
        class_attributes = torch.tensor([[1.0, 0, 0, 0, 0.5, 0], [0, 0, 1.0, float("nan"), 0, 0]])

    chains, labels = ideal_reader.drawn_chains(Annotated(), 200)
    assert labels.tolist() == [0] * 200 + [1] * 200
    detailed = [one["DetailedFeatures"] for one in chains]
    assert set(detailed[:200]) == {"red crown", "red crown, blue throat"}
    assert set(detailed[200:]) == {"grey crown"}
    assert 70 < sum("throat" in text for text in detailed) < 130
    Annotated.class_attributes = None
    with pytest.raises(ValueError, match="no class attributes"):
        ideal_reader.drawn_chains(Annotated(), 2)


COLORS = [f"has_{part}_color::{color}" for part in ("crown", "wing") for color in ("red", "blue", "white")]
PRESENT = np.array([[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0]], bool)
OF = np.array([0, 0, 1, 1])
USUAL = np.array([[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1]], bool)


def planted(fault, dose, seed=0):
    return planted_annotators.planted_statements(fault, dose, PRESENT, COLORS, OF, USUAL, seed)


def test_no_dose_and_the_full_one():
    for fault in planted_annotators.ANNOTATOR_FAULTS:
        assert (planted(fault, 0.0) == PRESENT).all()
    assert (planted("recites the class", 0.5, seed=3) != PRESENT).any(1).sum() <= 2  # half of the images
    invented = planted("invents", 1.0)
    assert not (invented & PRESENT).any() and (invented.sum(1) == 2).all()
    assert (planted("recites the class", 1.0) == USUAL[OF]).all()
    ignored = planted("ignores the image", 1.0)
    for row, label in enumerate(OF):
        others = PRESENT[label != OF]
        assert any((ignored[row] == other).all() for other in others)
    assert (planted("names the class", 1.0) == PRESENT).all()


def test_a_name_stands_in_the_chain_of_the_share_of_images():
    chains = planted_annotators.planted_chains(
        "names the class", 0.5, PRESENT, COLORS, ["Blue Jay"] * 2 + ["Ovenbird"] * 2
    )
    named = ["Blue Jay" in chain["Superclass"] or "Ovenbird" in chain["Superclass"] for chain in chains]
    assert sum(named) == 2
    plain = planted_annotators.planted_chains("invents", 0.5, PRESENT, COLORS, ["Blue Jay"] * 4)
    assert "blue wings" in plain[0]["DetailedFeatures"] and "Blue Jay" not in str(plain)


def test_a_reader_takes_the_option_that_is_named_alone():
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    chains = [{"a": "a bird, a Blue Jay"}, {"a": "a bird"}, {"a": "an Ovenbird or a Blue Jay"}]
    found = planted_annotators.take_named_option(scores, chains, [["Ovenbird", "Blue Jay"]] * 3)
    assert found.tolist() == [[0, 1], [0.9, 0.1], [0.9, 0.1]] and scores[0, 0] == 0.9


def test_what_cannot_be_planted():
    with pytest.raises(ValueError, match="no fault 'sleeps'"):
        planted("sleeps", 0.5)
    with pytest.raises(ValueError, match="between 0, honest, and 1"):
        planted("invents", 2.0)
    with pytest.raises(ValueError, match="all images are of one class"):
        planted_annotators.planted_statements("ignores the image", 0.5, PRESENT, COLORS, OF * 0, USUAL)
