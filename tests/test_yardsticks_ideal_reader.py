"""The ideal reader on chains worked out by hand, and the corruption of known dose."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.fastslow import STAGES, share_right
from xaihelpers.yardsticks import ideal_reader

NAMES = [f"has_{part}_color::{color}" for part in ("crown", "throat") for color in ("red", "blue", "grey")]


def chain(superclass, detailed):
    return dict(zip(STAGES, ("a branch", superclass, "crown", detailed, "small size"), strict=True))


CHAINS = [chain("duck-like bird", f"{color} crown") for color in ("red", "blue", "red", "black")]
CHAINS += [chain("owl-like bird", "brown crown")] * 2
LABELS = [0, 1, 0, 1, 2, 2]


def test_posteriors_by_hand():
    """Two classes, one statement: p = (n + ½) / (N + 1) of each, by Bernoulli's likelihood."""
    chains = [{STAGES[0]: "red"}, {STAGES[0]: "red"}, {STAGES[0]: "red"}, {STAGES[0]: "blue"}]
    reader = ideal_reader.fit_reader(chains, [0, 0, 1, 1], 1)
    posterior = ideal_reader.read_chains(reader, [{STAGES[0]: "red"}], [[0, 1]], 1)
    red, blue = np.array([2.5 / 3, 1.5 / 3]), np.array([0.5 / 3, 1.5 / 3])
    likelihood = red * (1 - blue)
    assert posterior[0] == pytest.approx(likelihood / likelihood.sum())


def test_statements_are_words_about_things():
    said = ideal_reader.statements({"DetailedFeatures": "long red bill, blue wings"})
    expected = ["bill", "bill long", "bill red", "wings", "wings blue"]
    assert said == [f"DetailedFeatures {words}" for words in expected]
    assert ideal_reader.statements(None) == [] and ideal_reader.statements({"Background": " , "}) == []


def test_a_case_is_read_from_the_first_stages_of_its_image_s_chain():
    """What only a later stage says they cannot tell; where there is no chain it is guessed."""
    cases = pd.DataFrame({"row": [40, 7], "candidates": [[0, 1, 2, 3, 4]] * 2, "position": [0, 2]}, [8, 9])
    reader = ideal_reader.fit_reader(CHAINS, LABELS, 4)
    right = ideal_reader.read_cases(reader, cases, {7: None, 40: CHAINS[0]}, 4)
    assert right.to_dict() == pytest.approx({8: 100, 9: 20})
    reader = ideal_reader.fit_reader(CHAINS, LABELS, 2)
    found = ideal_reader.read_chains(reader, [CHAINS[0]], [[0, 1, 2]], 2)
    assert found[0, 0] == pytest.approx(found[0, 1]) and found[0, 2] < found[0, 0]
    assert share_right(found, [0]) == pytest.approx(0.5)


class Labelled:
    """4,000 images of a red crown and a blue throat, which is hidden in the last one."""

    attributes, attribute_level = pd.DataFrame({"name": NAMES}), "image"
    present = torch.tensor([[True, False, False, False, True, False]] * 4000)
    certainty = torch.full((4000, 6), 4, dtype=torch.int8)
    certainty[-1, 4] = 1


def test_corruption_keeps_its_dose():
    def crowns_and_throats(recall, precision):
        rng = np.random.default_rng(0)
        chains = ideal_reader.corrupted_chains(Labelled, range(3999), recall, precision, rng)
        return pd.Series([one["DetailedFeatures"] for one in chains])

    detailed = crowns_and_throats(0.8, 0.7)
    said = detailed.str.count("crown|throat")
    true = detailed.str.contains("red crown") * 1 + detailed.str.contains("blue throat")
    assert true.sum() / said.sum() == pytest.approx(0.7, abs=0.02)
    assert true.mean() / 2 == pytest.approx(0.8 * 0.7, abs=0.02)
    assert said.max() == 2, "a false value takes the place of the true one of its group"
    assert set(crowns_and_throats(1, 1)) == {"red crown, blue throat"}
    assert not crowns_and_throats(0, 1).str.contains("crown").any()
    (hidden,) = ideal_reader.corrupted_chains(Labelled, [3999], 1, 1, np.random.default_rng(0))
    assert hidden["DetailedFeatures"] == "red crown"


def test_what_a_chain_says_is_compared_with_what_is_known():
    """Of five statements three are true, of the five that are true three are said; nobody knows the place."""
    known = dict(
        zip(STAGES, ("not annotated", "owl-like bird", "crown", "red crown", "not annotated"), strict=True)
    )
    said = known | {"Background": "a branch", "SalientFeatures": "throat", "DetailedFeatures": "blue crown"}
    assert ideal_reader.statements_true(said, known) == pytest.approx((60, 60))
    assert ideal_reader.statements_true(known, known) == (100, 100)
    assert ideal_reader.statements_true(None, known) == (0, 0)
    assert np.isnan(ideal_reader.statements_true(said, dict.fromkeys(STAGES, "not annotated"))).all()


def test_chains_are_drawn_from_the_shares_of_a_class():
    class Annotated:
        attributes, attribute_level = pd.DataFrame({"name": NAMES}), "class"
        class_attributes = torch.tensor([[1.0, 0, 0, 0, 0.5, 0], [0, 0, 1.0, float("nan"), 0, 0]])

    chains, labels = ideal_reader.training_chains(Annotated(), 0, 200)
    assert labels.tolist() == [0] * 200 + [1] * 200
    detailed = [one["DetailedFeatures"] for one in chains]
    assert set(detailed[:200]) == {"red crown", "red crown, blue throat"}
    assert set(detailed[200:]) == {"grey crown"}
    assert 70 < sum("throat" in text for text in detailed) < 130
