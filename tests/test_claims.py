"""The claims of the papers: the file holds what the rule needs, and the rule decides as it says."""

import logging
from dataclasses import replace
from math import inf, nan

import pandas as pd
from notebook_nets import PATHS

from xaihelpers import claims
from xaihelpers.scores import Interval

ABOVE = claims.Claim("a-b", "a", "1", "b", "c", "%", "above", 10, 5, nan, "11")


def measured(value, low, high, effective=40.0):
    return Interval(value, low, high, 100, effective)


HOLDS, FAILS, OPEN = measured(20, 12, 28), measured(-5, -9, -1), measured(20, 9, 31)
TOLD, BLIND = measured(3, 0.1, 6), measured(3, 0.0, 6)  # leads over a rival


def test_the_claims_of_the_five_papers():
    held = claims.load_claims()
    table = pd.DataFrame([vars(claim) for claim in held.values()])
    lines = claims.FILE.read_text().splitlines()
    assert len(held) == len(lines) - 1 >= 50, "an id stands twice"
    assert table.direction.isin(["above", "below", "within"]).all() and table.reference.notna().all()
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
    assert claims.decide(within, high, rewritten=[high]).outcome == "fails"
    assert claims.decide(within, high, rewritten=[low]).outcome == "ill-posed"


def test_what_stands_against_a_verdict():
    for found, against, outcome in (
        (HOLDS, {"rewritten": [HOLDS, FAILS]}, "ill-posed"),
        (HOLDS, {"rewritten": [OPEN]}, "ill-posed"),  # on the same side, but its interval does not say so
        (FAILS, {"rewritten": [HOLDS]}, "ill-posed"),
        (OPEN, {"rewritten": [HOLDS, OPEN]}, "ill-posed"),  # the same model
        (OPEN, {"readings": [HOLDS, OPEN]}, "too few cases"),  # nothing was decided
        (OPEN, {"readings": [HOLDS, FAILS]}, "depends on the reading"),
        (HOLDS, {"readings": [OPEN]}, "depends on the reading"),
        (FAILS, {"readings": [FAILS]}, "fails"),
        (HOLDS, {"rival": TOLD}, "holds"),
        (HOLDS, {"rival": BLIND}, "not told from its rival"),
        (FAILS, {"rival": BLIND}, "fails"),
        (OPEN, {"rival": BLIND}, "too few cases"),
        (HOLDS, {"controls": {"sees": True}}, "holds"),
        # the first that is true
        (HOLDS, {"needs": "people", "controls": {"sees": False}}, "needs people"),
        (measured(20, nan, nan), {"controls": {"sees": False}}, "instrument failed"),
        (measured(20, nan, nan), {"rewritten": [HOLDS, FAILS]}, "not applicable"),
        (HOLDS, {"controls": {"sees": False}, "rewritten": [FAILS]}, "instrument failed"),
        (HOLDS, {"rewritten": [FAILS], "readings": [FAILS]}, "ill-posed"),
        (HOLDS, {"readings": [FAILS], "rival": BLIND}, "depends on the reading"),
    ):
        assert claims.decide(ABOVE, found, **against).outcome == outcome, against


def test_how_many_cases_would_decide_is_said_where_there_are_as_many():
    """Half the distance to go of the half width: four times the cases."""
    undecided = measured(15, 5, 25)
    verdict = claims.decide(ABOVE, undecided, available=160)
    assert verdict == claims.Verdict("too few cases", 160)
    assert str(verdict) == "too few cases (about 160 independent ones would do)"
    for available in (0, 159):
        assert str(claims.decide(ABOVE, undecided, available=available)) == "too few cases"
    near = claims.decide(ABOVE, measured(13, 9, 17), available=1e9)  # 2 to go, 4 wide: 40 · 2²
    within = claims.decide(replace(ABOVE, direction="within"), measured(12, 6, 18), available=1e9)
    assert (near.needed, within.needed) == (160, 160)  # 3 to go, 6 wide
    assert claims.decide(ABOVE, measured(20, -inf, inf), available=1e9).needed is None
    failed = claims.decide(ABOVE, HOLDS, {"sees a planted fault": False, "is null": True})
    assert failed.needed is None and str(failed) == "instrument failed (sees a planted fault)"


def test_a_control_is_passed_by_its_interval_alone(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("xaihelpers"), "propagate", True)
    caplog.set_level(logging.INFO, "xaihelpers")
    assert not claims.control_passed("reads", measured(9, -0.5, 18), above=0)
    assert caplog.messages == ["Control, reads: 9 [-0.5, 18] points, wanted above 0: failed"]
    assert claims.control_passed("reads", measured(9, 0.5, 18), above=0, below=20, unit="%")
    assert caplog.messages[1].endswith("[0.5, 18] %, wanted above 0 and below 20: passed")
    assert not claims.control_passed("reads", measured(60, 50, 81), below=80)
    assert not claims.control_passed("reads", measured(9, nan, nan), above=0)
