"""The card of a judge of attention: which controls of `saliency.battery` its scores pass (not in the paper).

For each control the score of the better condition less that of the worse one, over pictures; it passes if the
interval lies above 0 and the difference reaches `LEAST`.
"""

import pandas as pd

from xaihelpers.datasets import load
from xaihelpers.models import load_target
from xaihelpers.saliency.battery import CONTROLS, NO_IMAGE, ask_battery, drawn_battery
from xaihelpers.scores.intervals import interval

LEAST = 1.0  # points of five by which the better condition has to score higher


def judge_card(answers: pd.DataFrame) -> pd.DataFrame:
    """For each control: by how much the better condition scores higher, over pictures, and whether it passes.

    answers: with `condition`, `row` and `score`, one score a condition and picture; NaN where there is none.
        Without a picture, none counts as 0.
    Returns control, the columns of an Interval, and `passed`: the interval lies above 0, its value at `LEAST`
    or above.
    """
    without_score = answers["score"].isna() & (answers["condition"] == NO_IMAGE)
    if "error" in answers:  # an answer that could not be had is no refusal
        without_score &= answers["error"].fillna("").eq("")
    answers = answers.assign(score=answers["score"].mask(without_score, 0.0))
    score = answers.pivot_table(index="row", columns="condition", values="score", dropna=False)
    lines = []
    for control, (better, worse) in CONTROLS.items():
        gap = interval(score[better] - score[worse], bounds=(-5, 5))
        passed = bool(gap.low > 0 and gap.value >= LEAST)
        lines.append({"control": control, **gap._asdict(), "passed": passed})
    return pd.DataFrame(lines)


def prove_judge(model, kind: str = "masked", n_images: int = 20, seed: int = 0, **settings) -> pd.DataFrame:
    """The card of a judge on birds of the aviary, whatever it judges elsewhere, as of `judge_card`.

    model: as `load_vlm` gives it. kind: of what is shown. settings: of `judging.judge`.
    """
    aviary = load("aviary")
    battery, _ = drawn_battery(aviary, load_target("aviary_resnet", "", "cpu", aviary), n_images, kind, seed)
    return judge_card(ask_battery(model, battery, kind, **settings))
