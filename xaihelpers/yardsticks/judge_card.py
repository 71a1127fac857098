"""The card of a judge of attention: which controls of `judge_controls` its answers pass (not in the paper).

| control | measured, over pictures | passes if |
|---|---|---|
| of `judge_controls.CONTROLS` | score of the better condition less of the worse | low > 0, value ≥ `LEAST` |
| falls with coverage, precision | from a dose to the next lower: falls less rises, % | low > 0 of each step |
| writes what is true | false statements in its texts, % | high ≤ `MOST_FALSE` |

A number that rests on a failed control is void (`void`). How much an answer changes when it is repeated takes
further questions: notebook 45.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets import load
from xaihelpers.models import crop_masks, load_target
from xaihelpers.saliency.statements import check_statements, lit_shares
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.judge_controls import CONTROLS, DOSES, EXACT, NO_IMAGE, Battery

LEAST = 1.0  # points of five by which the better condition has to score higher
MOST_FALSE = 20.0  # % of a judge's statements that may be false: with 20 pictures even 0 has a limit of 17
STEPS = {f"falls with {axis}": axis for axis in ("coverage", "precision")}
# what rests on what: a score on seeing the light, its fit to a name on reading it, words on being true
SEES = (
    "sees coverage",
    "sees precision",
    "sees the map",
    "notices darkness",
    "needs the picture",
    *STEPS,
)
READS = ("reads the name", "knows what is not there", "sees what is lit")
WRITES = ("writes what is true",)


def judge_card(answers: pd.DataFrame, statements: pd.DataFrame | None = None) -> pd.DataFrame:
    """The controls of the module docstring for one judge, and which of them it passes.

    answers: with `condition`, `row` and `score`, one score a condition and picture; NaN where there is none.
        Without a picture, none counts as 0.
    statements: of its texts, as of `check_texts`; None leaves their control out.
    Returns control, metric, the columns of an Interval, and `passed`.
    """
    without_score = answers["score"].isna() & (answers["condition"] == NO_IMAGE)
    if "error" in answers:  # an answer that could not be had is no refusal
        without_score &= answers["error"].fillna("").eq("")
    answers = answers.assign(score=answers["score"].mask(without_score, 0.0))
    score = answers.pivot_table(index="row", columns="condition", values="score", dropna=False)
    lines = []

    def add(control, metric, found, passed):
        lines.append({"control": control, "metric": metric, **found._asdict(), "passed": bool(passed)})

    for control, (better, worse) in CONTROLS.items():
        gap = interval(score[better] - score[worse], bounds=(-5, 5))
        add(control, "difference of scores", gap, gap.low > 0 and gap.value >= LEAST)
    for control, axis in STEPS.items():
        least = least_step(score, axis)
        add(control, "least step: falls less rises (%)", least, least.low > 0)
    if statements is not None:
        false = false_share(statements)
        add(*WRITES, "false statements (%)", false, false.high <= MOST_FALSE)
    return pd.DataFrame(lines)


def least_step(score: pd.DataFrame, axis: str) -> Interval:
    """The least step from a dose to the next lower one, with the least limits of all steps: is it monotone?

    A step is the share of pictures in which the score falls, less the share in which it rises, in %.

    score: a row for each picture, a column for each condition. axis: "coverage" or "precision".
    """
    doses = [EXACT, *(f"{axis} {dose:g}" for dose in DOSES)]
    steps = []
    for more, less in pairwise(doses):
        steps.append(interval(100 * np.sign(score[more] - score[less]), bounds=(-100, 100)))
    least = min(steps, key=lambda step: step.value)
    return least._replace(
        low=np.min([step.low for step in steps]), high=np.min([step.high for step in steps])
    )


def check_texts(
    answers: pd.DataFrame, battery: Battery, parts: torch.Tensor, names: Sequence[str], seed: int = 0
) -> pd.DataFrame:
    """The statements of a judge's texts that the masks can check, true of their own case, and of another.

    Scenes of two and questions without a picture are left out.

    answers: as of `ask_battery`. parts: (N, H, W) int, of each picture; names: of the parts 1, 2, ...
    seed: of the other case, one of the same picture that is otherwise lit.
    Returns a row for each statement: case, row, kind, and, as bool, `true` and `of another case`.
    """
    scenes = [NO_IMAGE, judge_controls.SCENE, judge_controls.OTHER_LIT]
    found, shown = [], answers[~answers["condition"].isin(scenes)]
    rng = np.random.default_rng(seed)
    lit_parts = {case: lit_shares(parts[shown.row[case]], battery.lit[case], names) for case in shown.index}
    for case in shown.itertuples():
        others = shown[(shown.row == case.row) & (shown.area != case.area)]
        other = others.iloc[int(rng.integers(len(others)))]
        own = check_statements(case.text, case.coverage, case.precision, lit_parts[case.Index], case.score)
        of_other = check_statements(
            case.text, other.coverage, other.precision, lit_parts[other.name], case.score
        )
        elsewhere = {(one.kind, one.said): one.true for one in of_other}
        for kind, said, true in own:
            if (kind, said) in elsewhere:  # what lies beside the light is not said of darkness
                line = {"case": case.Index, "row": case.row, "kind": kind, "true": bool(true)}
                found.append(line | {"of another case": bool(elsewhere[kind, said])})
    return pd.DataFrame(found, columns=["case", "row", "kind", "true", "of another case"])


def false_share(statements: pd.DataFrame, column: str = "true") -> Interval:
    """Share of the statements about the light that are false, in %, pictures as clusters.

    Whether the score fits the text is no statement about the light, and left out.

    statements: as of `check_texts`. column: "true", of their own case, or "of another case".
    """
    of_light = statements[statements["kind"] != "score"]
    false = 100.0 * (1 - of_light[column].astype(float))
    return interval(false, clusters=of_light["row"], bounds=PERCENT)


def void(card: pd.DataFrame, controls: Sequence[str]) -> str:
    """Why what rests on these controls decides nothing: "void: fails ..."; "" if all of them are passed.

    card: as of `judge_card`, of one judge or of several, each of which has to pass.
    """
    failed = card["control"][card["control"].isin(controls) & ~card["passed"]].unique()
    return f"void: fails {', '.join(failed)}" if len(failed) else ""


def prove_judge(model, kind: str = "masked", n_images: int = 20, seed: int = 0, **settings) -> pd.DataFrame:
    """The card of a judge on birds of the aviary, whatever it judges elsewhere, as of `judge_card`.

    model: as `load_vlm` gives it. kind: of what is shown. settings: of `judging.judge`.
    """
    aviary = load("aviary")
    target = load_target("aviary_resnet", "", "cpu", aviary)
    battery, rows = judge_controls.drawn_battery(aviary, target, n_images, kind, seed)
    answers = judge_controls.ask_battery(model, battery, kind, **settings)
    return judge_card(
        answers, check_texts(answers, battery, crop_masks(target, aviary, rows), aviary.parts, seed)
    )
