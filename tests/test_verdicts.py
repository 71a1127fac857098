"""Pinned verdicts: of each a liar that must not get it, and an honest case that must not be refused it.

A case goes through the functions that its notebook calls. "The rule" is that of `claims`, "the ledger" that
of notebook 99, and 61 to 63 are the notebooks on yardsticks and on printed tables.
"""

from math import nan

import numpy as np
import pandas as pd
import pytest
import torch
from test_scores_exchange import draw_world, headed, ladder_of, misread, usual_of

from xaihelpers import claims, ledger, printed_readings
from xaihelpers.scores import Interval, validity
from xaihelpers.yardsticks.card import _rungs
from xaihelpers.yardsticks.reading import YARDSTICKS

T = next(YARDSTICKS[YARDSTICKS.yardstick == "T"].itertuples())
ABOVE = claims.Claim("a-b", "a", "1", "b", "c", "points", "above", 0, 5, nan, "11", "method", (), (), ())
HOLDS, FAILS = Interval(8, 6, 10, 100, 40.0), Interval(-8, -10, -6, 100, 40.0)


def decided(**asked):
    """What the rule says of a quantity that holds by its interval."""
    return claims.decide(ABOVE, HOLDS, **asked).outcome


def about_picture(liar):
    """Of what the line T of a page speaks: of one who recites by its class scores, or an honest reader."""
    world = draw_world(5)
    generator, labels, present, train, scores = world
    values = misread(present, 0.1, generator)
    if liar:
        values = usual_of(present[train], labels[train])[scores.argmax(1)]
        values = values + 0.1 * torch.randn(values.shape, generator=generator)
    else:
        scores = headed(values, labels, train)
    return _rungs(T, ladder_of(values, scores, world))["about"]


def seen_fault(liar):
    """The outcome of a yardstick under a fault: one that falls with quality alone, or with the fault."""
    doses, draws = np.tile([0, 0.5, 1.0], 8), np.arange(24) // 3
    quality = np.random.default_rng(0).normal(0, 0.05, 8)[draws]
    score = quality + np.random.default_rng(1).normal(0, 0.05, 24) - (0 if liar else doses)
    rows = {"yardstick": "y", "fault": "f", "dose": doses, "draw": draws, "score": score, "rank": 2}
    return validity.judge_yardsticks(pd.DataFrame(rows)).verdict.item()


def printed(liar):
    """What a table supports: one reading of two that holds, or both."""
    return printed_readings.own_table(ABOVE, [HOLDS, FAILS if liar else HOLDS])


def in_ledger(liar):
    """Two models of one column that differ, or agree."""
    verdicts = [{"outcome": claims.HOLDS, "model": "a", "data": "d"}]
    verdicts.append({"outcome": claims.FAILS if liar else claims.HOLDS, "model": "b", "data": "d"})
    return ledger.settled([(verdict, {}) for verdict in verdicts])[0]["outcome"]


behind, ahead = Interval(1, -1, 3, 100, 40.0), Interval(2, 1, 3, 100, 40.0)
CASES = {  # what it is of -> the verdict, what the liar and the honest case get
    "the rule, a rival": (claims.HOLDS, lambda liar: decided(rivals={"x": behind if liar else ahead})),
    "the rule, a reading": (claims.HOLDS, lambda liar: decided(readings={"x": FAILS if liar else HOLDS})),
    "the rule, a writing": (claims.HOLDS, lambda liar: decided(rewritten={"x": FAILS if liar else HOLDS})),
    "the rule, a control": (claims.HOLDS, lambda liar: decided(controls={"x": not liar})),
    "the rule, room": (claims.HOLDS, lambda liar: decided(room={"x": not liar})),
    "the rule, who answered": (
        claims.HOLDS,
        lambda liar: decided(needs=claims.needed_of("annotator" if liar else "server:x")),
    ),
    "the ledger": (claims.HOLDS, in_ledger),
    "61": ("the picture", about_picture),
    "62": (validity.SEES, seen_fault),
    "63": (claims.SUPPORTED, printed),
}


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_is_refused_to_a_liar_and_given_to_the_honest(name):
    verdict, said = CASES[name]
    assert said(liar=False) == verdict
    assert said(liar=True) != verdict


def test_what_several_verdicts_of_a_column_come_to():
    def settled(*said):
        found = [({"model": m, "data": d, "outcome": o}, {"run": n}) for n, (m, d, o) in enumerate(said)]
        verdict, run = ledger.settled(found)
        assert run == {"run": 0}
        return verdict["outcome"]

    assert settled(("a", "d", "holds"), ("b", "d", "holds")) == "holds"
    assert settled(("a", "d", "holds"), ("b", "d", "too few cases")) == claims.OF_MODEL
    assert settled(("a", "d", "holds"), ("a", "e", "fails")) == claims.OF_DATA
    assert settled(("a", "d", "holds"), ("b", "d", "holds"), ("a", "e", "fails")) == claims.OF_DATA
    assert settled(("a", "d", "holds"), ("a", "d", "fails")) == claims.TOO_FEW  # of another seed
