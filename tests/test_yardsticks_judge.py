"""The battery of controls rejects judges that ignore something, and passes one that computes the truth."""

import numpy as np
import pytest
import torch

from xaihelpers.saliency.statements import COVERAGE, check_statements
from xaihelpers.yardsticks import judge_card as cards
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.judge_card import judge_card

N = 20
BACK, FEW = "The attention lies mainly on the background.", "It covers a small part of the object."
WING, ALL = "It lies mainly on the wing.", "It covers all of the object."
BESIDE = "Beside the object lies a little of the attention."


@pytest.fixture(scope="module")
def controls():
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:96, :96]
    objects, pixels = [], rng.integers(60, 200, (N, 3, 96, 96), dtype=np.uint8)
    for _ in range(N):
        top, left = rng.integers(30, 66, 2)
        objects.append((y - top) ** 2 + (x - left) ** 2 < 14**2)
    names = [f"bird {row}" for row in range(N)]
    wrong = names[1:] + names[:1]
    return judge_controls.build_battery(
        torch.from_numpy(pixels), torch.from_numpy(np.stack(objects)), names, wrong
    )


def written_truth(case):
    """What may truly be said of a case, in words that can be checked."""
    within = [w for w, (low, high, _) in COVERAGE.items() if low <= case.coverage <= high]
    place = "object" if case.precision >= 0.5 else "background"
    return f"The attention lies mainly on the {place}. It covers {within[-1]} of the object."


def card_of(controls, score, text=lambda case: f"{BACK} {ALL}"):
    cases = list(controls.cases.itertuples())
    answers = controls.cases.assign(score=list(map(score, cases)), text=list(map(text, cases)))
    parts = torch.zeros(N, 96, 96, dtype=torch.uint8)  # no part is known
    return judge_card(answers, cards.check_texts(answers, controls, parts, [])).set_index("control")


def fit_of_light(case):
    """0 to 5 by coverage and precision, as the rubric asks."""
    return 5 * case.coverage * case.precision if case.precision == case.precision else 0.0


def test_the_truth_passes(controls):
    def truth(case):
        if case.condition == judge_controls.NO_IMAGE:
            return np.nan  # there is nothing to judge
        return fit_of_light(case) if case.right_name else 0.0

    card = card_of(controls, truth, written_truth)
    assert card.passed.all()
    assert card.value["falls with coverage"] == 100  # at each step, in each picture
    assert card.value["writes what is true"] == 0
    assert cards.void(card.reset_index(), [*cards.SEES, *cards.READS, *cards.WRITES]) == ""
    failing = card_of(controls, lambda case: 5 * case.coverage, written_truth).reset_index()
    assert cards.void(failing, cards.READS) == "void: fails reads the name, knows what is not there"
    assert cards.void(failing, ["sees coverage", "notices darkness"]) == ""


def test_a_judge_that_ignores_something_is_rejected(controls):
    def of_light(case):
        return 5.0 if case.condition == judge_controls.OTHER_LIT else fit_of_light(case)

    def of_area(case):
        return 5 - min(5, 40 * abs(case.area - 0.067))

    def of_name(case):
        return 4.0 if case.right_name else 1.0

    names, writes = {"reads the name", "knows what is not there"}, set(cards.WRITES)
    everything = {*judge_controls.CONTROLS, *cards.STEPS, *writes}
    for ignored, score, failing in (
        ("the image", of_name, everything - names),
        ("the name", of_light, {*names, "sees what is lit", *writes}),
        ("all but how much is lit", of_area, {*names, "sees the map", "sees what is lit", *writes}),
        ("everything", lambda case: 3.0, everything),
    ):
        card = card_of(controls, score)
        assert set(card.index[~card.passed]) == failing, f"a judge that ignores {ignored}"


def test_a_control_whose_interval_holds_zero_fails(controls):
    """Right on average, by more than a point, but now ten points better and now eight worse."""
    sign = np.where(np.arange(N) < 12, 1, -0.8)
    card = card_of(controls, lambda case: 5 * sign[case.row] * case.right_name)
    gap = card.loc["reads the name"]
    assert gap.value >= cards.LEAST and gap.low < 0 and not gap.passed


def said(text, coverage, precision):
    found = check_statements(text, coverage, precision, {}, None)
    return [f"{'' if one.true else 'no: '}{one.kind} {one.said}" for one in found]


@pytest.mark.parametrize(
    "text, coverage, precision, statements",
    [
        (f"{BACK} {FEW}", 0.1, 0.2, ["mainly background", "coverage a small part"]),
        (f"{BACK} {FEW}", 0.9, 0.8, ["no: mainly background", "no: coverage a small part"]),
        (FEW, 0.0, 1, ["no: coverage a small part"]),
        (WING, 1, 0.9, ["mainly wing"]),
        (WING, 0, np.nan, ["no: mainly wing"]),
        ("It covers the whole bird", 0.9, 1, ["coverage all"]),
        ("Of the background it covers some.", 1, 1, []),
        ("It covers nothing of the background, most of the background.", 1, 1, []),
        ("It does not lie mainly on the background.", 1, 0.9, []),
        (BESIDE, 1, 0.8, ["beside a little"]),
        (BESIDE, 1, 0.2, ["no: beside a little"]),
        (BESIDE, 0, np.nan, []),  # without light there is no share of it
        ("The attention lies mainly on nothing.", 0, np.nan, []),
    ],
)
def test_statements_are_held_against_the_masks(text, coverage, precision, statements):
    assert said(text, coverage, precision) == statements
