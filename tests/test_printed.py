"""Printed numbers: what their digits exclude, what they must obey, and how claims read in them."""

from math import inf, nan

import numpy as np
import pytest

from xaihelpers import claims, printed_cells, printed_readings
from xaihelpers.scores import Interval

CAR = {"in": "fse_table1", "dataset": "Car"}
ABOVE = claims.Claim("a-b", "a", "1", "b", "c", "%", "above", 10, 5, nan, "11", "method", (), (), ())


def test_cells_are_chosen_by_columns_and_keep_their_text():
    assert printed_cells.cells(CAR).value.tolist() == ["42.39", "41.30", "18.48", "14.13"]
    left = printed_cells.cells({"in": "fse_table1", "without": {"dataset": ["Car", "Average"]}})
    assert set(left.dataset) == {"Flower", "CUB-Bird"} and (left.half == 0.005).all()
    assert printed_cells.cells("20").half.item() == 0.5
    with pytest.raises(ValueError, match="no printed cell is"):
        printed_cells.cells(CAR | {"model": "GPT-5"})
    with pytest.raises(ValueError, match="several printed cells of a key"):
        printed_cells.aligned({"a": CAR}, ["model"])


def test_a_denominator_and_its_multiples_fit():
    fitting = printed_cells.fits(["42.39", "41.30", "18.48", "14.13"], 400)
    assert (np.flatnonzero(fitting) + 1).tolist() == [92, 184, 276, 368]
    assert printed_cells.fits(["28.7", "71.3"], 240)[239]  # half-way, one up and one down
    assert np.isnan(printed_cells.smallest(np.zeros(3, bool)))


def test_a_relation_tells_a_slip_from_rounding():
    mean = {"in": "fse_table1", "without": {"dataset": "Average"}, "take": "mean"}
    relation = {"paper": "fse", "table": "1", "check": "average", "by": ["distractors", "model"], "a": mean}
    relation |= {"whole": {"in": "fse_table1", "dataset": "Average"}, "equal": "a"}
    found = printed_cells.check(relation, [3], np.random.default_rng(0))
    assert len(found) == 4 and found[3].all() and not found["violated"].any()
    at_most = {name: part for name, part in relation.items() if name != "equal"} | {"at most": "a - 1"}
    found = printed_cells.check(at_most, [3], np.random.default_rng(0))
    assert found["violated"].all() and (found.low == -inf).all() and not found["false alarm"].any()


def test_limits_of_a_formula_are_those_of_its_parts():
    """Newcombe's (1998) interval of a difference, his example (a): 56/70 less 48/80 is 0.0524 to 0.3339."""
    parts = {"a": [printed_readings.share_interval(80, 70)], "b": [printed_readings.share_interval(60, 80)]}
    measured = printed_readings.combined("(a - b) / 100", parts)
    assert np.allclose(measured[:3], [0.2, 0.0524, 0.3339], atol=5e-5)
    alone = printed_readings.combined("100 - a", {"a": parts["a"]})
    assert np.allclose([alone.low, alone.high], [100 - parts["a"][0].high, 100 - parts["a"][0].low])


def test_all_readings_have_to_agree():
    holds, fails, open_ = (
        Interval(*three, 100, 100.0) for three in ((20, 12, 28), (-5, -9, -1), (20, 9, 31))
    )
    said = {claims.SUPPORTED: [holds, holds], claims.CONTRADICTED: [fails], claims.READING: [holds, fails]}
    said[claims.OPEN] = [fails, open_]
    for verdict, several in said.items():
        assert printed_readings.own_table(ABOVE, several) == verdict
    assert printed_readings.own_table(ABOVE, []) == claims.OPEN
    assert printed_readings.own_table(ABOVE, [holds], undocumented=True) == claims.UNDOCUMENTED


def test_a_floor_and_a_number_of_cases_are_readings_each():
    entry = {"from": "shares", "value": "a - floor", "floor": [20, 45], "cases": [100, "fits"]}
    entry["a"] = {"in": "fse_table6", "dataset": "CUB-Bird", "t": 1}
    found = printed_readings.readings(entry)
    assert np.allclose([one.value for one in found], [40.3, 40.3, 15.3, 15.3])
    assert [one.cases for one in found] == [100, 58, 100, 58]


def test_every_entry_of_the_file_is_of_a_claim_and_gives_its_printed_value():
    held, relations = claims.load_claims(), printed_cells.load_relations()
    assert set(relations["readings"]) <= set(held)
    verdicts, several = printed_readings.own_tables(held)
    assert verdicts.claim.tolist() == list(held)
    of_one_setting = {"conceptscore-label-free-first", "conceptscore-reference-same-winner"}
    of_one_setting |= {"conceptscore-words-say-the-opposite", "conceptscore-own-concepts-higher"}
    of_one_setting.add("conceptscore-own-concepts-higher-by-ref")
    for name in held.keys() - of_one_setting:
        printed = held[name].paper_value
        assert np.isnan(printed) == (not several[name]), f"{name}: a number is printed, or is not"
        if several[name]:
            assert abs(several[name][0].value - printed) <= 0.01 * abs(printed) + 0.006, name
