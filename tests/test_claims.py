"""The claims of the papers: the file holds what the rule needs, and the rule decides as it says."""

import logging
from dataclasses import replace
from math import nan

import pandas as pd
import pytest

from xaihelpers import claims
from xaihelpers.paths import PROJECT
from xaihelpers.scores import Interval

ABOVE = claims.Claim("a-b", "a", "1", "b", "c", "%", "above", 10, 5, nan, "11")


def measured(value, low, high, effective=40.0):
    return Interval(value, low, high, 100, effective)


def test_the_claims_of_the_five_papers():
    held = claims.load_claims()
    table = pd.DataFrame([vars(claim) for claim in held.values()])
    assert len(held) >= 50 and set(table.paper) == {"fse", "alignment", "conceptscore", "autoxplain", "sub"}
    assert table.drop(columns="paper_value").notna().all(axis=None)
    assert all(claim.id.startswith(claim.paper) for claim in held.values())
    known = {path.name[:2] for path in (PROJECT / "notebooks").glob("*.ipynb")}
    assert {number for claim in held.values() for number in claim.notebook.split()} <= known | {"25"}


@pytest.mark.parametrize(
    "numbers, outcome",
    [
        ((20, 12, 28), "holds"),
        ((12, 11, 14), "fails"),  # above, but by less than matters
        ((12, 11, 18), "cannot be told"),
        ((20, 9, 31), "cannot be told"),
        ((-5, -9, -1), "fails"),
        ((20, nan, nan), "cannot be told"),
    ],
)
def test_above_and_below(numbers, outcome):
    assert claims.decide(ABOVE, measured(*numbers)).outcome == outcome
    mirrored = replace(ABOVE, direction="below", reference=-10)
    value, low, high = numbers
    assert claims.decide(mirrored, measured(-value, -high, -low)).outcome == outcome


@pytest.mark.parametrize(
    "numbers, outcome",
    [((11, 8, 14), "holds"), ((30, 20, 40), "fails"), ((0, -5, 4), "fails"), ((12, 8, 16), "cannot be told")],
)
def test_within(numbers, outcome):
    assert claims.decide(replace(ABOVE, direction="within"), measured(*numbers)).outcome == outcome


def test_a_failed_control_blinds_the_instrument():
    verdict = claims.decide(ABOVE, measured(20, 12, 28), {"sees a planted fault": False, "is null": True})
    assert verdict.outcome == "instrument blind" and verdict.failed == ("sees a planted fault",)
    assert str(verdict) == "instrument blind (sees a planted fault)"


@pytest.fixture
def said(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("xaihelpers"), "propagate", True)
    caplog.set_level(logging.INFO, "xaihelpers")
    return caplog


def test_a_control_is_passed_by_its_interval_alone(said):
    assert not claims.control_passed("reads", measured(9, -0.5, 18), above=0)
    assert said.messages == ["Control, reads: 9 [-0.5, 18] points, wanted above 0: failed"]
    assert claims.control_passed("reads", measured(9, 0.5, 18), above=0)
    assert claims.control_passed("reads", measured(60, 50, 79), below=80)
    assert not claims.control_passed("reads", measured(60, 50, 81), below=80)
    assert not claims.control_passed("reads", measured(9, nan, nan), above=0)


def test_another_measurement_agrees_if_it_decides_alike(said):
    holds, fails, is_open = measured(20, 12, 28), measured(-5, -9, -1), measured(20, 9, 31)
    for first, second, agree in (
        (holds, holds, True),
        (holds, fails, False),
        (holds, is_open, False),  # on the same side, but its interval does not say so
        (fails, fails, True),
        (is_open, fails, True),  # nothing was decided
    ):
        assert claims.control_agrees("elsewhere", ABOVE, first, second) is agree
    assert said.messages[2].startswith("Control, elsewhere: 20 [9, 31] %, cannot be told")
    assert said.messages[2].endswith("failed")


def test_how_many_cases_would_decide():
    """Half the distance to go of the half width: four times the cases."""
    verdict = claims.decide(ABOVE, measured(15, 5, 25))
    assert verdict == claims.Verdict("cannot be told", 160)
    assert str(verdict) == "cannot be told (about 160 independent cases would)"


def test_what_a_paper_itself_prints():
    """All readings must agree; an open step takes back a support, and nothing else."""
    holds, fails, is_open = measured(20, 12, 28), measured(-5, -9, -1), measured(20, 9, 31)
    for readings, documented, open_step in (
        ([holds], claims.SUPPORTED, claims.UNDOCUMENTED),
        ([holds, holds], claims.SUPPORTED, claims.UNDOCUMENTED),
        ([fails, fails], claims.CONTRADICTED, claims.CONTRADICTED),
        ([holds, is_open], claims.OPEN, claims.OPEN),
        ([holds, fails], claims.OPEN, claims.OPEN),
        ([measured(20, nan, nan)], claims.OPEN, claims.OPEN),  # a single case
        ([], claims.OPEN, claims.OPEN),  # nothing is printed
    ):
        assert claims.own_table(ABOVE, readings) == documented
        assert claims.own_table(ABOVE, readings, undocumented=True) == open_step
    assert set(claims.OWN_TABLE) == {claims.SUPPORTED, claims.UNDOCUMENTED, claims.CONTRADICTED, claims.OPEN}


def test_a_wrong_file_names_the_claim(tmp_path):
    table = pd.DataFrame([vars(ABOVE)] * 2)
    table.to_csv(tmp_path / "claims.csv", index=False)
    with pytest.raises(ValueError, match="the claim 'a-b' stands twice"):
        claims.load_claims(tmp_path / "claims.csv")
    for wrong, message in ({"direction": "near"}, "direction 'near'"), ({"smallest": 0}, "smallest effect"):
        table[:1].assign(**wrong).to_csv(tmp_path / "claims.csv", index=False)
        with pytest.raises(ValueError, match=message):
            claims.load_claims(tmp_path / "claims.csv")
