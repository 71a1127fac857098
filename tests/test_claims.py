"""The claims of the papers: the file holds what the rule needs, and the rule decides as it says."""

import logging
from dataclasses import replace
from math import inf, nan

import pandas as pd
import pytest
from notebook_nets import PATHS

from xaihelpers import claims
from xaihelpers.scores import Interval

NOTHING = ((), (), ())  # of readings, rivals and controls
ABOVE = claims.Claim("a-b", "a", "1", "b", "c", "%", "above", 10, 5, nan, "11", "method", *NOTHING)


def measured(value, low, high, effective=40.0):
    return Interval(value, low, high, 100, effective)


HOLDS, FAILS, OPEN = measured(20, 12, 28), measured(-5, -9, -1), measured(20, 9, 31)
TOLD, BLIND = measured(3, 0.1, 6), measured(3, 0.0, 6)  # leads over a rival


def test_the_claims_of_the_five_papers():
    held = claims.load_claims()
    table = pd.DataFrame([vars(claim) for claim in held.values()])
    lines = claims.FILE.read_text().splitlines()
    assert len(held) == len(lines) - 1 >= 50, "an id stands twice"
    directions = ["above", "below", "within", "not above", "not below"]
    assert table.direction.isin(directions).all() and table.reference.notna().all()
    assert table.about.isin(["yardstick", "method", "data", *claims.NEED_AN_ANSWER]).all()
    assert (table.smallest > 0).all()
    assert all(claim.id.startswith(claim.paper) for claim in held.values())
    assert {number for claim in held.values() for number in claim.notebook.split()} <= PATHS.keys()


def test_above_and_below():
    mirrored = replace(ABOVE, direction="below", reference=-10)
    for value, low, high, outcome in (
        (20, 12, 28, "holds"),
        (15, 10.1, 20, "holds"),  # as much as matters
        (12, 11, 14, "fails"),  # above, but by less than matters
        (12, 11, 18, "too few cases"),
        (20, 10, 30, "too few cases"),
        (-5, -9, -1, "fails"),
        (20, nan, nan, "not applicable"),
        (nan, 12, 28, "not applicable"),
        (20, -inf, inf, "too few cases"),
    ):
        assert claims.decide(ABOVE, measured(value, low, high)).outcome == outcome
        assert claims.decide(mirrored, measured(-value, -high, -low)).outcome == outcome


def test_within_is_equivalence():
    within = replace(ABOVE, direction="within")
    for value, low, high, outcome in (
        (11, 8, 14, "holds"),
        (10, 5, 15, "holds"),
        (30, 20, 40, "fails"),
        (0, -5, 4, "fails"),
        (12, 8, 16, "too few cases"),  # near, and not inside on both sides
        (11, nan, nan, "not applicable"),
    ):
        assert claims.decide(within, measured(value, low, high)).outcome == outcome
    high, low = measured(30, 20, 40), measured(-5, -9, -1)  # fails on both sides
    assert claims.decide(within, high, rewritten={"a": high}).outcome == "fails"
    assert claims.decide(within, high, rewritten={"a": low}).outcome == "ill-posed"


def test_an_equivalence_fails_on_the_side_that_its_words_name():
    """ "Hardly more often": 20 less is not more; "keeps": 20 more is kept."""
    for direction, sign in (("not above", 1), ("not below", -1)):
        claim = replace(ABOVE, direction=direction, reference=0)
        for value, low, high, outcome in (
            (2, -1, 4, "holds"),
            (-30, -40, -20, "holds"),
            (30, 20, 40, "fails"),
            (4, 1, 7, "too few cases"),
        ):
            ends = sorted((sign * low, sign * high))
            assert claims.decide(claim, measured(sign * value, *ends)).outcome == outcome


def test_what_stands_against_a_verdict():
    def some(kind, *numbers):
        return {kind: {f"{kind} {place}": one for place, one in enumerate(numbers)}}

    ahead = measured(-3, -5, -1)
    for found, against, outcome in (
        (HOLDS, some("rewritten", HOLDS, FAILS), "ill-posed"),
        (HOLDS, some("rewritten", OPEN), "ill-posed"),  # on the same side, but its interval does not say so
        (FAILS, some("rewritten", HOLDS), "ill-posed"),
        (HOLDS, {"rewritten": {}}, "not applicable"),  # a model without a linear head has no other writing
        (OPEN, some("readings", HOLDS, FAILS), "depends on the reading"),
        (HOLDS, some("readings", FAILS), "depends on the reading"),
        (HOLDS, some("readings", OPEN, None), "holds"),  # an undecided one contradicts nothing
        (HOLDS, some("rivals", TOLD, BLIND), "not told from its rival"),  # the strongest counts
        (HOLDS, some("rivals", TOLD, None), "holds"),
        (FAILS, some("rivals", BLIND), "fails"),
        (OPEN, some("rivals", BLIND), "too few cases"),
        (OPEN, some("rivals", ahead), "not told from its rival"),  # it speaks before anything is decided
        (FAILS, some("rivals", ahead), "fails"),
        (HOLDS, some("rivals", TOLD, measured(5, nan, nan)), "not told from its rival"),
        # who refutes a claim that something is missed has a rival, too
        (FAILS, some("refuters", TOLD), "fails"),
        (FAILS, some("refuters", TOLD, BLIND), "not told from its rival"),
        (HOLDS, some("refuters", BLIND), "holds"),
        (HOLDS, {"controls": {"sees": None}}, "holds"),  # which this run cannot ask
        (HOLDS, {"room": {"above": False}}, "no room"),
        # the first that is true
        (HOLDS, {"needs": "people", "controls": {"sees": False}}, "needs people"),
        (measured(20, nan, nan), {"controls": {"sees": False}}, "instrument failed"),
        (HOLDS, {"controls": {"sees": False}, "room": {"above": False}}, "instrument failed"),
        (measured(20, nan, nan), some("rewritten", HOLDS, FAILS), "not applicable"),
        (HOLDS, some("rewritten", FAILS) | some("rivals", ahead), "not told from its rival"),
        (HOLDS, some("rewritten", FAILS) | some("readings", FAILS), "ill-posed"),
        (HOLDS, some("readings", FAILS) | some("rivals", BLIND), "depends on the reading"),
    ):
        assert claims.decide(ABOVE, found, **against).outcome == outcome, against


def test_a_verdict_names_the_readings_that_turn_it():
    for own, other in ((HOLDS, FAILS), (FAILS, HOLDS)):
        verdict = claims.decide(ABOVE, own, {"as it is": own, "by size": other, "open": OPEN})
        assert str(verdict) == "depends on the reading (by size)"


def test_what_a_claim_is_to_be_asked_has_to_be_given():
    claim = replace(ABOVE, readings=("scorer", "k"), controls=("sees",))
    given = {"readings": {"scorer: one": HOLDS, "k": None}, "rivals": {}, "controls": {"sees: one": True}}
    claim.require_asked(**given)
    with pytest.raises(ValueError, match="a-b was not asked its readings k: give them by these names"):
        claim.require_asked(**given | {"readings": {"scorer: one": HOLDS}})
    with pytest.raises(ValueError, match="not asked its controls sees"):
        claim.require_asked(**given | {"controls": {}})


def test_who_was_made_here_decides_nothing(tmp_path):
    mine, named = tmp_path / "mine.py", tmp_path / "named.py"
    mine.write_text("def answer(requests): ...")
    named.write_text('STANDS_FOR = "a model of a server"\ndef answer(requests): ...')
    answers, of_model = tmp_path / "a.csv", tmp_path / "b.csv"
    answers.write_text("item,rating\n")
    of_model.write_text("item,rating,written_by\na,3,gpt-4o\n")
    nobody = tmp_path / "c.csv"
    nobody.write_text("item,rating,written_by\na,3,annotator\n")
    for name in (
        "annotator",
        "judge",
        "studio_flux",
        "classifier/aviary_resnet",
        f"python:{mine}",
        str(answers),
        str(nobody),
        "",
    ):
        assert claims.needed_of(name) == "a model", name
    for name in ("server:gpt-4o", f"python:{named}", str(of_model), "Qwen/Qwen2-VL-2B"):
        assert claims.needed_of(name) == "", name
    assert claims.needed_of("server:gpt-4o", "annotator") == claims.needed_of() == "a model"


def test_how_many_cases_would_decide_is_said_where_there_are_as_many():
    """Half the distance to go of the half width: four times the cases."""
    undecided = measured(15, 5, 25)
    verdict = claims.decide(ABOVE, undecided, level=("birds", 40, 160))
    assert verdict == claims.Verdict("too few cases", "160 birds")
    assert str(verdict) == "too few cases (about 160 birds would do)"
    for most in (0, 159):
        assert str(claims.decide(ABOVE, undecided, level=("birds", 40, most))) == "too few cases"
    level = "pairs", 5, 1e9  # whatever number of independent cases the interval is worth
    near = claims.decide(ABOVE, measured(13, 9, 17), level=level)  # 2 to go, 4 wide: 5 · 2²
    within = claims.decide(replace(ABOVE, direction="within"), measured(12, 6, 18), level=level)
    assert near.needed == within.needed == "20 pairs"  # 3 to go, 6 wide
    assert not claims.decide(ABOVE, measured(20, -inf, inf), level=level).needed
    none = replace(ABOVE, reference=0)  # of 20 cases none: 72 would do for less than 5 %
    assert claims.decide(none, measured(0, 0, 16.8, 20), level=("classes", 20, 200)).needed == "72 classes"
    failed = claims.decide(ABOVE, HOLDS, controls={"sees a planted fault": False, "is null": True})
    assert not failed.needed and str(failed) == "instrument failed (sees a planted fault)"


def test_a_control_is_passed_by_its_interval_alone(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("xaihelpers"), "propagate", True)
    caplog.set_level(logging.INFO, "xaihelpers")
    assert not claims.control_passed("reads", measured(9, -0.5, 18), above=0)
    assert caplog.messages == ["Control, reads: 9 [-0.5, 18] points, wanted above 0: failed"]
    assert claims.control_passed("reads", measured(9, 0.5, 18), above=0, below=20, unit="%")
    assert caplog.messages[1].endswith("[0.5, 18] %, wanted above 0 and below 20: passed")
    assert not claims.control_passed("reads", measured(60, 50, 81), below=80)
    assert not claims.control_passed("reads", measured(9, nan, nan), above=0)
