"""The rule of verdicts on yardsticks, on scores made by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from xaihelpers.scores import validity
from xaihelpers.scores.intervals import Interval

DOSES = np.tile([0.0, 0.25, 0.5, 0.75, 1.0], 5)
DRAWS = np.arange(5).repeat(5)
NOISE = np.random.default_rng(0).normal(size=25)


def test_verdicts_by_the_table():
    for low, high, areas in (
        (-0.9, -0.5, {0.95: "sees it", 0.9: "sees it", 0.8: "unclear"}),
        (0.4, 0.8, {0.05: "fooled", 0.3: "unclear"}),
        (-0.2, 0.3, {0.5: "blind", 0.95: "unclear"}),
        (math.nan, math.nan, {0.5: "unclear"}),
    ):
        response = Interval((low + high) / 2, low, high, 25, 5)
        assert {area: validity.verdict(response, area) for area in areas} == areas


def test_dose_response_of_falling_and_constant_scores():
    assert validity.dose_response(DOSES, -DOSES + 0.1 * NOISE, DRAWS).high < -0.5
    equal_draws = validity.dose_response(DOSES, -DOSES, DRAWS)  # counted by their models
    assert equal_draws.value == pytest.approx(-1) and equal_draws.high < -0.5
    assert validity.dose_response(DOSES, np.ones(25), DRAWS)[:3] == (0, 0, 0)
    noisy = validity.dose_response(DOSES, NOISE, DRAWS)
    assert noisy.low < 0 < noisy.high


def test_told_apart():
    assert validity.told_apart([3, 2], [1, 2]) == pytest.approx(0.875)  # of four pairs one ties
    assert validity.told_apart([1.0], [1.0 + 1e-13]) == 0.5  # rounding is no difference
    assert math.isnan(validity.told_apart([math.nan], [1.0]))


def scored(score, rank, fault="lie"):
    """Rows of one yardstick on five draws of five doses. rank: of models at the full dose, else 2."""
    rows = pd.DataFrame({"yardstick": "one", "fault": fault, "dose": DOSES, "draw": DRAWS, "score": score})
    return rows.assign(rank=np.where(DOSES == 1, rank, 2))


def judged(*given):
    return validity.judge_yardsticks(scored(*given)).iloc[0]


def test_judging_scores_and_what_the_page_says():
    seen = judged(-DOSES + 0.05 * NOISE, 0)
    assert seen.verdict == "sees it" and seen.auc == 1 and seen["shift"] < -5
    assert seen["page changes"] == 1 and seen["page praises"] == 0
    silent = judged(-DOSES + 0.05 * NOISE, 2)  # the score falls, the page says the same
    assert silent.verdict == "sees it" and silent["page changes"] == 0 and silent["page praises"] == 1
    assert judged(NOISE, 2).verdict == "blind"


def test_honest_models_that_differ_by_more_hide_a_fault():
    quality = np.array([0.0, 0.5, 1.0, 1.5, 2.0])[DRAWS]  # of the draws
    assert judged(-0.1 * DOSES, 2).verdict == "sees it"
    assert judged(quality - 0.1 * DOSES, 2).verdict != "sees it"


def test_a_constant_is_no_measurement_and_no_number_passes_nothing():
    rounding = 1 - 6e-8 * (NOISE > 0)  # of float32
    assert judged(rounding, 2).verdict == "by construction"
    no_number = judged(np.where(DOSES > 0, np.nan, 1.0), 1)
    assert no_number.verdict == "unclear" and no_number["page praises"] == 0
