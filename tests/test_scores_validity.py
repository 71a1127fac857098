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


def test_dose_response_of_falling_rising_and_constant_scores():
    falling = validity.dose_response(DOSES, -DOSES + 0.1 * NOISE, DRAWS)
    assert falling.high < -0.5
    equal_draws = validity.dose_response(DOSES, -DOSES, DRAWS)  # counted by their models
    assert equal_draws.value == pytest.approx(-1) and equal_draws.high < -0.5
    rising = validity.dose_response(DOSES, DOSES + 0.1 * NOISE, DRAWS)
    assert rising.low > 0.5
    assert validity.dose_response(DOSES, np.ones(25), DRAWS)[:3] == (0, 0, 0)
    noisy = validity.dose_response(DOSES, NOISE, DRAWS)
    assert noisy.low < 0 < noisy.high


def test_told_apart_and_smallest_dose():
    assert validity.told_apart([3, 2], [1, 2]) == pytest.approx(0.875)  # of four pairs one ties
    assert validity.told_apart([1.0], [1.0 + 1e-13]) == 0.5  # rounding is no difference
    assert math.isnan(validity.told_apart([math.nan], [1.0]))
    assert validity.smallest_dose({0.25: 0.6, 0.5: 0.95, 0.75: 0.9, 1.0: 1.0}) == 0.5
    assert validity.smallest_dose({0.25: 1.0, 0.5: 0.5, 1.0: 1.0}) == 1.0
    assert math.isnan(validity.smallest_dose({0.5: 0.95, 1.0: 0.5}))


def test_judging_a_table():
    rows = []
    for n, width in ((100, 0.5), (1000, 0.05)):
        for dose, draw, error in zip(DOSES, DRAWS, NOISE, strict=True):
            shared = {"fault": "lie", "dose": dose, "draw": draw, "n": n}
            rows.append({"yardstick": "sees", "score": -dose + width * error, **shared})
            rows.append({"yardstick": "blind", "score": error * width, **shared})
    found = validity.judge_yardsticks(pd.DataFrame(rows)).set_index("yardstick")
    assert found.verdict.to_dict() == {"sees": "sees it", "blind": "blind"}
    seen = found.loc["sees"]
    assert seen["dose at 1000"] <= 0.25 and not seen["dose at 100"] <= 0.25
    assert seen.auc == 1 and seen["shift"] < -5 and seen.n == 1000
    assert math.isnan(found.loc["blind", "dose at 1000"])
