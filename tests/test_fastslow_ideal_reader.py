"""The ideal reader on chains worked out by hand, and the corruption of known dose."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.fastslow import STAGES
from xaihelpers.fastslow.ideal_reader import (
    corrupted,
    drawn_chains,
    fit_reader,
    read_chains,
    share_right,
    statements,
)


def chain(superclass, detailed):
    return dict(zip(STAGES, ("a branch", superclass, "crown", detailed, "small size"), strict=True))


CHAINS = [chain("duck-like bird", f"{color} crown") for color in ("red", "blue", "red", "black")]
CHAINS += [chain("owl-like bird", "brown crown")] * 2
LABELS = [0, 1, 0, 1, 2, 2]
SETS = [[0, 1, 2, 3, 4]]


def test_statements_are_words_about_things():
    said = statements({"DetailedFeatures": "long red bill, blue wings"})
    expected = ["bill", "bill long", "bill red", "wings", "wings blue"]
    assert said == [f"DetailedFeatures {words}" for words in expected]
    assert statements(None) == [] and statements({"Background": " , "}) == []


def test_posteriors_by_hand():
    """Two classes, one statement: p = (n + ½) / (N + 1) of each, by Bernoulli's likelihood."""
    chains = [{STAGES[0]: "red"}, {STAGES[0]: "red"}, {STAGES[0]: "red"}, {STAGES[0]: "blue"}]
    reader = fit_reader(chains, [0, 0, 1, 1], 1)
    posterior = read_chains(reader, [{STAGES[0]: "red"}], [[0, 1]], 1)
    red, blue = np.array([2.5 / 3, 1.5 / 3]), np.array([0.5 / 3, 1.5 / 3])
    likelihood = red * (1 - blue)
    assert posterior[0] == pytest.approx(likelihood / likelihood.sum())


def test_it_reads_what_was_said_and_what_was_not():
    reader = fit_reader(CHAINS, LABELS, 4)
    found = read_chains(reader, [CHAINS[0], CHAINS[1], CHAINS[4]], [[2, 0, 1]] * 3, 4)
    assert found.argmax(1).tolist() == [1, 2, 0] and found.sum(1) == pytest.approx(1)


def test_the_first_stages_cannot_tell_what_only_a_later_one_says():
    reader = fit_reader(CHAINS, LABELS, 2)
    found = read_chains(reader, [CHAINS[0]], [[0, 1, 2]], 2)
    assert found[0, 0] == pytest.approx(found[0, 1]) and found[0, 2] < found[0, 0]
    assert share_right(found, [0]) == pytest.approx(0.5)


def test_no_chain_is_no_knowledge_and_an_unknown_class_is_never_taken():
    reader = fit_reader(CHAINS, LABELS, 4)
    assert read_chains(reader, [None], SETS, 4)[0] == pytest.approx(0.2)
    assert read_chains(reader, [CHAINS[0]], SETS, 4)[0, 3:] == pytest.approx(0)


def test_the_reader_is_as_good_as_the_truth_allows():
    """Against the exact posterior of a world whose statements are independent."""
    rng = np.random.default_rng(0)
    shares = rng.random((5, 12))  # of class and statement

    def says(labels):
        present = rng.random((len(labels), 12)) < shares[labels]
        return present, [{STAGES[0]: ", ".join(f"w{j}" for j in np.flatnonzero(row))} for row in present]

    of_training, asked = np.arange(5).repeat(400), np.arange(5).repeat(300)
    reader = fit_reader(says(of_training)[1], of_training, 1)
    present, chains = says(asked)
    log_posterior = present @ np.log(shares).T + ~present @ np.log(1 - shares).T
    best = (log_posterior.argmax(1) == asked).mean()
    found = read_chains(reader, chains, [[0, 1, 2, 3, 4]] * len(asked), 1)
    assert share_right(found, asked).mean() == pytest.approx(best, abs=0.02)


NAMES = [f"has_{part}_color::{color}" for part in ("crown", "throat") for color in ("red", "blue", "grey")]


def test_corruption_keeps_its_dose():
    present = np.zeros((4000, 6), bool)
    present[:, [0, 4]] = True
    said = corrupted(present, NAMES, 0.8, 0.7, np.random.default_rng(0))
    true = (said & present).sum()
    assert true / said.sum() == pytest.approx(0.7, abs=0.02)
    assert true / present.sum() == pytest.approx(0.8 * 0.7, abs=0.02)
    assert (said[:, :3].sum(1) <= 1).all(), "a false value takes the place of the true one of its group"
    assert (corrupted(present, NAMES, 1, 1, np.random.default_rng(0)) == present).all()
    assert not corrupted(present, NAMES, 0, 1, np.random.default_rng(0)).any()


def test_chains_are_drawn_from_the_shares_of_a_class():
    class Annotated:
        attributes = pd.DataFrame({"name": NAMES})
        class_attributes = torch.tensor([[1.0, 0, 0, 0, 0.5, 0], [0, 0, 1.0, float("nan"), 0, 0]])

    chains, labels = drawn_chains(Annotated(), 200)
    assert labels.tolist() == [0] * 200 + [1] * 200
    detailed = [one["DetailedFeatures"] for one in chains]
    assert set(detailed[:200]) == {"red crown", "red crown, blue throat"}
    assert set(detailed[200:]) == {"grey crown"}
    assert 70 < sum("throat" in text for text in detailed) < 130
    Annotated.class_attributes = None
    with pytest.raises(ValueError, match="no class attributes"):
        drawn_chains(Annotated(), 2)
