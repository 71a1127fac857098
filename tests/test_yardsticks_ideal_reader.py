"""The ideal reader and planted annotators: posteriors, truth and doses worked out by hand, and liars."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.fastslow import STAGES, share_right
from xaihelpers.yardsticks import ideal_reader
from xaihelpers.yardsticks import planted_annotators as planting
from xaihelpers.yardsticks.ideal_reader import IdealReader, fit_author, read_chains, statements

COLORS = ("red", "blue", "grey", "black")
NAMES = [f"has_{part}_color::{color}" for part in ("crown", "throat") for color in COLORS]


def chain(superclass, detailed):
    return dict(zip(STAGES, ("a branch", superclass, "crown", detailed, "small size"), strict=True))


CHAINS = [chain("duck-like bird", f"{color} crown") for color in ("red", "blue", "red", "black")]
CHAINS += [chain("owl-like bird", "brown crown")] * 2
LABELS = [0, 1, 0, 1, 2, 2]
WINGS = [{STAGES[3]: f"{color} wings"} for color in ("red", "red", "red", "blue")]
READER = IdealReader(WINGS, [0, 0, 1, 1])


def first(text):
    """How probable the first class is to the reader of wings."""
    return read_chains(READER, [{STAGES[3]: text}], [[0, 1]])[0, 0]


def test_posteriors_by_hand():
    """Two classes whose wings are said: p = (n + ½) / (N + 1) of each value, and all have wings."""
    red, blue = np.array([2.5 / 3, 1.5 / 3]), np.array([0.5 / 3, 1.5 / 3])
    likelihood = red * (1 - blue)
    assert first("red wings") == pytest.approx((likelihood / likelihood.sum())[0])
    likelihood = 1 - red
    assert first("no red wings") == pytest.approx((likelihood / likelihood.sum())[0])


def test_what_is_understood():
    """Denials, names of parts, silence, and words that nobody has."""
    assert first("red wings") > 0.5 > first("not red wings")
    for text in ("wings", "purple wings", "red crown", "glim17", "not annotated", "wings, no crown"):
        assert first(text) == pytest.approx(0.5), text
    assert first("a wing that is seen, red wings") == pytest.approx(first("red wings"), abs=1e-9)


def test_statements_are_parts_and_what_they_are_like():
    said, denied = statements({"DetailedFeatures": "long red bill, a blue wing. no grey eyes"})
    assert said == {"bill", "bill long", "bill red", "wing", "wing blue"} and denied == {"eye grey"}
    assert statements({"Background": "red wings"}) == statements({"AuxiliaryFeatures": "red wing"})
    nothing = set(), set()
    assert (
        statements(None) == statements({"Background": " , "}) == statements({"x": "not annotated"}) == nothing
    )


def test_a_case_is_read_from_the_first_stages_of_its_image_s_chain():
    """What only a later stage says they cannot tell; where there is no chain it is guessed."""
    cases = pd.DataFrame({"row": [40, 7], "candidates": [[0, 1, 2, 3, 4]] * 2, "position": [0, 2]}, [8, 9])
    reader = IdealReader(CHAINS, LABELS)
    right = ideal_reader.read_cases(reader, cases, {7: None, 40: CHAINS[0]}, 4)
    assert right.to_dict() == pytest.approx({8: 100, 9: 20})
    found = read_chains(reader, [CHAINS[0]], [[0, 1, 2]], 2)
    assert found[0, 0] == pytest.approx(found[0, 1]) and found[0, 2] < found[0, 0]
    assert share_right(found, [0]) == pytest.approx(0.5)


def test_an_author_reads_what_only_it_understands():
    codes = [{STAGES[0]: f"glim{label}"} for label in (0, 0, 1, 1)]
    assert read_chains(fit_author(codes, [0, 0, 1, 1]), codes[:1], [[0, 1]])[0, 0] > 0.8
    assert read_chains(READER, codes[:1], [[0, 1]])[0, 0] == 0.5


class Annotated:
    attributes, attribute_level = pd.DataFrame({"name": NAMES}), "class"
    class_attributes = torch.tensor([[1.0, 0, 0, 0, 0, 0.5, 0, 0], [0, 0, 1.0, 0, float("nan"), 0, 0, 0]])
    labels = torch.tensor([0] * 200 + [1] * 200)
    images = pd.DataFrame({"train": [True] * 400})


def test_chains_are_drawn_from_the_shares_of_a_class():
    chains, labels = ideal_reader.training_chains(Annotated(), 0)
    assert labels.tolist() == [0] * 200 + [1] * 200
    detailed = [one["DetailedFeatures"] for one in chains]
    assert set(detailed[:200]) == {"red crown", "red crown, blue throat"}
    assert set(detailed[200:]) == {"grey crown"}
    assert 70 < sum("throat" in text for text in detailed) < 130


RED_BLUE = np.array([[name.endswith(("crown_color::red", "throat_color::blue")) for name in NAMES]] * 2000)
USUAL = np.array([[name.endswith(("crown_color::grey", "throat_color::grey")) for name in NAMES]] * 2000)
PLANTED = planting.planted_chains(RED_BLUE, USUAL, NAMES, np.zeros(2000, int))
BIRDS = planting.Truth(NAMES, RED_BLUE)


def own_truth(chains, groups=None):
    """How much each chain says of its own image is true, in %."""
    return np.diag(BIRDS.pairs(chains, groups))


def test_errors_keep_their_dose():
    """So many values are wrong; a value of the group takes the place of each, none is left out."""
    for dose in planting.DOSES:
        chains = PLANTED[planting.wrong(dose)]
        detailed = pd.Series([one["DetailedFeatures"] for one in chains])
        assert (detailed.str.count(" and ").eq(0) & detailed.str.count("crown|throat").eq(2)).all()
        assert own_truth(chains).mean() == pytest.approx(100 * (1 - dose), abs=2.5)


def test_what_planted_annotators_say_and_how_true_it_is():
    for annotator, said, true in (
        (planting.TRUTH, "red crown, blue throat", 100),
        (planting.RECITER, "grey crown, grey throat", 0),
        (planting.HALF_RECITER, "red crown, blue throat", 100),  # colours alone are known here
        (planting.DENIES, "no red crown, no blue throat", 0),
        (planting.MOVED, "red throat, blue crown", 0),
        (planting.PARTS_ONLY, "crown, throat", np.nan),
        (planting.CODES, "not annotated", np.nan),
        (planting.NOTHING, "not annotated", np.nan),
    ):
        assert PLANTED[annotator][0]["DetailedFeatures"] == said
        assert own_truth(PLANTED[annotator])[0] == pytest.approx(true, nan_ok=True), annotator


def test_liars_that_tell_some_truth():
    """Two values are half true; denials of what is not there are true; a code beside a truth adds none."""
    said = ("red and grey crown", "no grey crown", "red crown, glim17 bird", "no red crown, red crown")
    shares = own_truth([{"DetailedFeatures": text} for text in said] + [None] * 1996)
    assert shares[:5] == pytest.approx([50, 100, 100, 50, np.nan], nan_ok=True)
    crowns = own_truth([{"DetailedFeatures": "red crown, red throat"}] * 2000, ["throat_color"] * 2000)
    assert set(crowns) == {0}


def test_a_chain_is_held_against_every_image():
    """Half a chain is true of the second image; of the third nothing can be told."""
    visible = RED_BLUE[:3].copy()
    visible[1, 4:] = [True, False, False, False]
    visible[2] = False
    pairs = planting.Truth(NAMES, visible).pairs(PLANTED[planting.TRUTH][:3])
    assert pairs[0] == pytest.approx([100, 50, np.nan], nan_ok=True)
