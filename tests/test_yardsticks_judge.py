"""The battery of controls rejects judges that ignore something, and passes one that computes the truth."""

import numpy as np
import pytest
import torch

from xaihelpers.saliency.statements import COVERAGE, check_statements
from xaihelpers.yardsticks import judge_card as cards
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.judge_card import judge_card

N = 60
FAMILIES = ["Jay", "Tern", "Wren", "Gull", "Dove", "Crow"]
NAMES = {"reads the name", "tells look-alikes", "knows what is not there"}
BACK, FEW = "The attention lies mainly on the background.", "It covers a small part of the object."
WING, ALL = "It lies mainly on the wing.", "It covers all of the object."
BESIDE = "Beside the object lies a little of the attention."


@pytest.fixture(scope="module")
def battery():
    """Round things of many sizes and shades, and maps that lie more or less on them."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:64, :64]
    objects, maps = [], {condition: [] for condition in judge_controls.NETWORKS}
    pixels = rng.integers(60, 200, (N, 3, 64, 64), dtype=np.uint8)
    for row in range(N):
        (top, left), radius = rng.integers(20, 44, 2), rng.uniform(9, 14)
        objects.append((y - top) ** 2 + (x - left) ** 2 < radius**2)
        pixels[row, :, objects[-1]] = rng.integers(20, 200)
        for of_network in maps.values():
            down, right = rng.normal(0, 8, 2)
            far = (y - top - down) ** 2 + (x - left - right) ** 2
            of_network.append(np.exp(-far / rng.uniform(6, 16) ** 2))
    names = [f"bird {row} {FAMILIES[row % 6]}" for row in range(N)]
    wrong = [f"another {FAMILIES[(row + 1) % 6]}" for row in range(N)]
    alike = [f"another {FAMILIES[row % 6]}" for row in range(N)]
    maps = {condition: torch.tensor(np.stack(some)) for condition, some in maps.items()}
    objects = torch.from_numpy(np.stack(objects))
    return judge_controls.build_battery(torch.from_numpy(pixels), objects, names, wrong, alike, maps)


def written_truth(case):
    """What may truly be said of a case, in words that can be checked."""
    within = [w for w, (low, high, _) in COVERAGE.items() if low <= case.coverage <= high]
    place = "object" if case.precision >= 0.5 else "background"
    return f"The attention lies mainly on the {place}. It covers {within[-1]} of the object."


def card_of(battery, score, text=lambda case: f"{BACK} {ALL}"):
    """The card of a scripted judge: a function of a case, or its scores."""
    cases = list(battery.cases.itertuples())
    scores = list(map(score, cases)) if callable(score) else score
    answers = battery.cases.assign(score=scores, text=list(map(text, cases)))
    parts = torch.zeros(N, 64, 64, dtype=torch.uint8)  # no part is known
    return judge_card(answers, battery, cards.check_texts(answers, battery, parts, [])).set_index("control")


def fit_of_light(case):
    """0 to 5 by coverage and precision."""
    return 5 * case.coverage * case.precision if case.precision == case.precision else 0.0


def truth(case):
    if case.condition == judge_controls.NO_IMAGE:
        return np.nan  # there is nothing to judge
    return fit_of_light(case) if case.right_name else 0.0


def literal(case):
    """The steps of the prompt as they stand, in which how much lies beside the object makes no difference."""
    if case.condition == judge_controls.NO_IMAGE or not case.right_name:
        return truth(case)
    if not case.coverage >= 0.15:
        return 0.0
    if case.coverage < 0.4 or case.precision < 0.25:
        return 2.0
    return 3.0 if case.precision < 0.9 else 4.0 if case.coverage < 0.9 else 5.0


def test_the_truth_passes(battery):
    card = card_of(battery, truth, written_truth)
    assert card.passed.all() and len(card) == 16
    assert card.value["falls with precision"] == 1  # in each picture
    assert card.value["writes what is true"] == 0
    assert cards.void(card.reset_index(), [*cards.SEES, *cards.READS, *cards.WRITES]) == ""
    failing = card_of(battery, fit_of_light, written_truth).reset_index()
    assert cards.void(failing, ["reads the name"]) == "void: fails reads the name"
    assert cards.void(failing, cards.SEES[:4]) == ""


@pytest.mark.parametrize("honest", [truth, literal])
def test_honest_judges_pass_although_they_round_and_waver(honest, battery):
    """With noise of a point: 95 of 100 pass at least, here each of twenty."""
    scores = np.array([honest(case) for case in battery.cases.itertuples()])
    assert judge_card(battery.cases.assign(score=np.round(scores)), battery).passed.all()
    for seed in range(20):
        wavering = np.round(scores + np.random.default_rng(seed).normal(0, 1, len(scores))).clip(0, 5)
        card = judge_card(battery.cases.assign(score=wavering), battery)
        assert card.passed.all(), card.control[~card.passed]


def of_family(case):
    """Told a bird of the same family, it sees no difference."""
    is_kin = case.right_name or case.condition == judge_controls.LOOK_ALIKE
    return truth(case._replace(right_name=is_kin))


def of_cut_outs(case):
    """An expert on sharp masks, who is lost before a network's map."""
    return 3.0 if case.condition in judge_controls.NETWORKS else truth(case)


def blind_to_names(case):
    return 5.0 if case.condition == judge_controls.OTHER_LIT else fit_of_light(case)


def test_liars_are_found_out(battery):
    exact = battery.cases[battery.cases.condition == judge_controls.EXACT]
    y, x = np.mgrid[:64, :64]
    central = [np.hypot(y[lit] - 32, x[lit] - 32).mean() if lit.any() else 64 for lit in battery.lit.numpy()]
    blackest = np.argsort(battery.of_objects)[:8]
    for lies_by, score, failing in (
        ("brightness", lambda case: 4 * case.brightness / exact.brightness.mean(), {"falls with coverage"}),
        ("area", lambda case: min(5, 4 * case.area / exact.area.mean()), {"falls with coverage"}),
        ("a usual area", lambda case: 5 - min(5, 40 * abs(case.area - 0.1)), {"sees the map"}),
        ("the centre", lambda case: 5 * max(0, 1 - central[case.Index] / 32), {"the same elsewhere"}),
        ("the family", of_family, {"tells look-alikes"}),
        ("cut-outs", of_cut_outs, {"reads a network's map"}),
        ("black birds", lambda case: truth(case) * (case.row not in blackest), {"the same for dark objects"}),
        ("the name", lambda case: 4.0 if case.right_name else 1.0, {*cards.SEES[:8]}),
        ("light alone", blind_to_names, {*NAMES, "sees what is lit"}),
    ):
        card = card_of(battery, score, written_truth)
        failed = set(card.index[~card.passed])
        assert failing <= failed, f"a judge by {lies_by} fails {failed}"
        if lies_by in ("the family", "cut-outs", "black birds", "light alone"):
            assert failed == failing, f"a judge by {lies_by}"
    everything = card_of(battery, lambda case: 3.0)
    same = {*cards.UNCHANGED, "the same for dark objects"}
    assert set(everything.index[everything.passed]) == same, "a judge that says the same of all"


def test_a_control_whose_interval_holds_zero_fails(battery):
    """Right on average, by more than a point, but now ten points better and now eight worse."""
    sign = np.where(np.arange(N) < 34, 1, -0.8)
    card = card_of(battery, lambda case: 5 * sign[case.row] * case.right_name)
    gap = card.loc["reads the name"]
    assert gap.value >= cards.LEAST and gap.low < 0 and not gap.passed


def test_a_world_without_families_has_no_look_alikes(battery):
    alike = battery.cases.condition == judge_controls.LOOK_ALIKE
    cases = battery.cases[~alike]
    answers = cases.assign(score=[truth(case) for case in cases.itertuples()])
    assert "tells look-alikes" not in set(judge_card(answers, battery).control)


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
