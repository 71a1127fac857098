"""The battery of controls rejects judges that ignore something, and passes one that computes the truth."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers import ask
from xaihelpers.saliency import battery
from xaihelpers.saliency.statements import COVERAGE, check_statements, lit_shares
from xaihelpers.scores import judge_card as cards
from xaihelpers.scores.judge_card import judge_card

N = 20


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
    return battery.build_battery(torch.from_numpy(pixels), torch.from_numpy(np.stack(objects)), names, wrong)


def written_truth(case):
    """What may truly be said of a case, in words that can be checked."""
    within = [w for w, (low, high, _) in COVERAGE.items() if low <= case.coverage <= high]
    place = "object" if case.precision >= 0.5 else "background"
    return f"The attention lies mainly on the {place}. It covers {within[-1]} of the object."


def always_the_same(case):
    return "The attention lies mainly on the object. It covers all of the object."


def card_of(controls, score, text=always_the_same):
    cases = list(controls.cases.itertuples())
    answers = controls.cases.assign(
        score=[score(case) for case in cases], text=[text(case) for case in cases]
    )
    parts = torch.zeros(N, 96, 96, dtype=torch.uint8)  # no part is known
    return judge_card(answers, cards.check_texts(answers, controls, parts, [])).set_index("control")


def fit_of_light(case):
    """0 to 5 by coverage and precision, as the rubric asks."""
    return 5 * case.coverage * case.precision if case.precision == case.precision else 0.0


def test_doses_are_what_they_say(controls):
    by_condition = controls.cases.groupby("condition")[["coverage", "precision"]].mean()
    exact = by_condition.loc[battery.EXACT]
    assert exact.coverage == 1 and exact.precision == 1
    for dose in battery.DOSES:
        assert by_condition.loc[f"coverage {dose:g}"].tolist() == pytest.approx([dose, 1], abs=0.01)
        assert by_condition.loc[f"precision {dose:g}"].tolist() == pytest.approx([1, dose], abs=0.01)
    assert by_condition.loc[battery.INVERTED].coverage == 0 and by_condition.loc[battery.WHOLE].coverage == 1
    assert by_condition.loc[battery.CORNER].coverage == 0
    assert by_condition.loc[battery.SCENE].coverage == 1 and by_condition.loc[battery.OTHER_LIT].coverage == 0
    shown = dict(zip(controls.cases.condition, controls.images, strict=True))
    assert shown[battery.NO_IMAGE] is None
    assert np.asarray(shown[battery.BLACK]).max() <= 1 and np.asarray(shown[battery.WHOLE]).mean() > 100


def test_the_same_form_elsewhere_has_the_same_area_and_hardly_meets_the_object(controls):
    cases = controls.cases.set_index("condition")
    assert cases.loc[battery.ELSEWHERE].area.to_numpy() == pytest.approx(cases.loc[battery.EXACT].area)
    assert cases.loc[battery.ELSEWHERE].coverage.max() < 0.3


def test_a_scene_shows_another_name_on_either_side(controls):
    lit = controls.lit[(controls.cases.condition == battery.SCENE).to_numpy()]
    on_the_left = lit[:, :, :48].flatten(1).any(1)
    assert 0.2 < on_the_left.float().mean() < 0.8


def test_names_and_light_are_varied_apart(controls):
    cases = controls.cases.set_index(["row", "condition"])
    for row in range(N):
        assert cases.loc[(row, battery.WRONG_NAME), "object"] == f"bird {(row + 1) % N}"
        assert cases.loc[(row, battery.NO_OBJECT), "object"] == battery.NOTHING
        lit = controls.lit[(controls.cases.row == row).to_numpy().copy()]
        assert torch.equal(lit[0], lit[1]) and torch.equal(lit[0], lit[2])
    assert cases.right_name.groupby("condition").mean()[[battery.EXACT, battery.WRONG_NAME]].tolist() == [
        1,
        0,
    ]


def test_the_truth_passes(controls):
    def truth(case):
        if case.condition == battery.NO_IMAGE:
            return np.nan  # there is nothing to judge
        return fit_of_light(case) if case.right_name else 0.0

    card = card_of(controls, truth, written_truth)
    assert card.passed.all()
    assert card.value["falls with coverage"] == 100  # at each step, in each picture
    assert card.value["writes what is true"] == 0
    assert cards.void(card.reset_index(), [*cards.SEES, *cards.READS, *cards.WRITES]) == ""


def test_what_rests_on_a_failed_control_is_void(controls):
    card = card_of(controls, lambda case: 5 * case.coverage, written_truth).reset_index()
    assert cards.void(card, cards.READS) == (
        "void: fails reads the name, knows what is not there"
    )  # a scene's other half has no coverage
    assert cards.void(card, ["sees coverage", "notices darkness"]) == ""
    both = [card, card_of(controls, fit_of_light, written_truth).reset_index()]
    assert "sees precision" in cards.void(pd.concat(both), cards.SEES)  # each judge has to pass


def test_a_score_that_goes_back_up_is_not_monotone(controls):
    """The ends differ by more than a point; one step between them goes up."""

    def back_up(case):
        if case.condition == battery.NO_IMAGE or not case.right_name:
            return 0.0
        jump = {"coverage 0.5": 4.5, "coverage 0.75": 3.0}
        return jump.get(case.condition, fit_of_light(case))

    card = card_of(controls, back_up, written_truth)
    assert card.passed["sees coverage"] and not card.passed["falls with coverage"]
    assert card.value["falls with coverage"] == -100
    assert card.passed["falls with precision"]


def test_false_statements_are_counted_in_percent(controls):
    """One of the two statements of every tenth text is false: 5 %, whose interval may reach beyond it."""

    def now_and_then(case):
        text = written_truth(case)
        wrong = "object" if "the background" in text else "background"
        if case.Index % 10:
            return text
        return f"The attention lies mainly on the {wrong}.{text.split('.', 1)[1]}"

    card = card_of(controls, fit_of_light, now_and_then)
    assert card.value["writes what is true"] == pytest.approx(5, abs=1)
    assert card.passed["writes what is true"]
    assert not card_of(controls, fit_of_light, always_the_same).passed["writes what is true"]


@pytest.mark.parametrize(
    "ignored, score, failing",
    [
        (
            "the image",
            lambda case: 4.0 if case.right_name else 1.0,
            {*battery.CONTROLS, *cards.STEPS, *cards.WRITES} - {"reads the name", "knows what is not there"},
        ),
        (
            "the name",
            lambda case: (
                np.nan
                if case.condition == battery.NO_IMAGE
                else 5.0
                if case.condition == battery.OTHER_LIT
                else fit_of_light(case)
            ),
            {"reads the name", "knows what is not there", "sees what is lit", *cards.WRITES},
        ),
        (
            "all but how much is lit",
            lambda case: 5 - min(5, 40 * abs(case.area - 0.067)),
            {"reads the name", "knows what is not there", "sees the map", "sees what is lit", *cards.WRITES},
        ),
        (
            "the map",
            lambda case: np.nan if case.condition == battery.NO_IMAGE else (4.0 if case.right_name else 1.0),
            {"sees coverage", "sees precision", "sees the map", "notices darkness", "sees what is lit"}
            | {*cards.STEPS, *cards.WRITES},
        ),
        ("everything", lambda case: 3.0, {*battery.CONTROLS, *cards.STEPS, *cards.WRITES}),
    ],
    ids=["image", "name", "light meter", "map", "everything"],
)
def test_a_judge_that_ignores_something_is_rejected(controls, ignored, score, failing):
    card = card_of(controls, score)
    assert set(card.index[~card.passed]) == failing, f"a judge that ignores {ignored}"


def test_noise_does_not_pass(controls):
    rng = np.random.default_rng(3)
    card = card_of(controls, lambda case: rng.uniform(0, 5))
    assert card.passed.sum() <= 2


def test_a_model_is_asked_with_and_without_pictures(controls):
    class Judge:
        name = identity = "scripted"
        warnings = {}

        def answer(self, requests, seed, temperature):
            for position, one in enumerate(requests):
                score = 4 if one.images else 0
                yield position, ask.Answer(f"Evaluation: fine.\nJustification: so.\nScore: {score}")

    answers = battery.ask_battery(Judge(), controls, progress=False)
    assert answers.score[answers.condition == battery.NO_IMAGE].eq(0).all()
    assert answers.score[answers.condition != battery.NO_IMAGE].eq(4).all()
    assert judge_card(answers).set_index("control").passed["needs the picture"]


def said(text, coverage=1.0, precision=1.0, score=None, **parts):
    found = check_statements(text, coverage, precision, parts, score)
    return [(statement.kind, statement.said, statement.true) for statement in found]


def test_statements_are_held_against_the_masks():
    text = "The attention lies mainly on the background. It covers a small part of the object."
    assert said(text, 0.1, 0.2) == [("mainly", "background", True), ("coverage", "a small part", True)]
    assert said(text, 0.9, 0.8) == [("mainly", "background", False), ("coverage", "a small part", False)]
    assert said("It lies mainly on the wing.", precision=0.9) == [("mainly", "wing", True)]
    assert said("It lies mainly on the wing.", 0, np.nan) == [("mainly", "wing", False)]
    assert said("It covers the whole bird", 0.9) == [("coverage", "all", True)]
    assert said("Of the background it covers some.") == []
    assert said("It covers nothing of the background, most of the background.") == []
    assert said("It does not lie mainly on the background.", precision=0.9) == []
    assert said("It covers a small part of the bird.", 0.0) == [("coverage", "a small part", False)]
    assert said("It lies mainly on the wing.", wing=0.0) == [("mainly", "wing", False)]
    text = "The parts attended are crown, wing."
    assert said(text, crown=0.5, wing=0.0) == [("part", "crown", True), ("part", "wing", False)]


def test_the_score_must_fit_the_text():
    text = "It covers all of the object."
    assert said(text, score=4.0)[-1] == ("score", "4 for all", True)
    assert said(text, score=1.0)[-1] == ("score", "1 for all", False)
    assert len(said(text)) == 1 and len(said("A fine picture.", score=2.0)) == 0


def test_light_on_the_background_rightly_lowers_the_score():
    """The rubric's 3 is for an object that is recognised while irrelevant parts are attended too."""
    text = "The attention lies mainly on the background. It covers all of the object."
    assert said(text, 1.0, 0.3, score=3.0)[-1] == ("score", "3 for all", True)
    assert said(text, 1.0, 0.3, score=2.0)[-1] == ("score", "2 for all", True)
    assert said(text, 1.0, 0.3, score=5.0)[-1] == ("score", "5 for all", False)
    assert said("It covers all of the object.", score=3.0)[-1] == ("score", "3 for all", False)
    text = "The attention lies mainly on the background. It covers none of the object."
    assert said(text, 0.0, 0.0, score=3.0)[-1] == ("score", "3 for none", False)  # at most 3, not 3


def test_the_light_beside_the_object():
    text = "Beside the object lies a little of the attention."
    assert said(text, precision=0.8) == [("beside", "a little", True)]
    assert said(text, precision=0.2) == [("beside", "a little", False)]
    assert said("Beside the object lies nearly all of it.", precision=0.1) == [("beside", "nearly all", True)]
    assert said(text, 0.0, np.nan) == []  # without light there is no share of it


@pytest.mark.parametrize("text", ["Nothing is attended.", "The attention lies mainly on nothing.", ""])
def test_who_says_nothing_states_nothing(text):
    assert said(text, 0.0, np.nan, score=0.0) == []


def test_lit_shares_of_parts():
    parts, lit = torch.zeros(20, 20, dtype=torch.uint8), torch.zeros(20, 20, dtype=torch.bool)
    parts[:4], parts[4:8], parts[8:12], parts[12, :10] = 1, 2, 3, 4
    lit[:2], lit[4:7] = True, True
    shares = lit_shares(parts, lit, ["crown", "left wing", "right wing", "beak"])
    assert shares == {"crown": 0.5, "wing": 0.75}  # the beak has ten pixels only
