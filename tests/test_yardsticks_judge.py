"""The battery of controls rejects judges that ignore something, and passes one that computes the truth."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.yardsticks import judge_card as cards
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.judge_card import judge_card
from xaihelpers.yardsticks.scripted_judges import SIDE, _form, scripted_scores, taught_by_birds, true_texts
from xaihelpers.yardsticks.statements import check_statements

N = 60
FAMILIES = ["Jay", "Tern", "Wren", "Gull", "Dove", "Crow"]
EXCHANGED = ["follows the object, sharp", "leads the old place, sharp"]
EXCHANGED += ["follows the object, soft", "leads the old place, soft"]
ON_SOFT_MAPS = {f"{control} maps" for control in EXCHANGED[2:]}
EXACTLY = ["knows families", "knows sharp masks", "knows the usual place", "remembers the map"]
EXACTLY += ["black birds", "ignores the name"]
NAMES = {"reads the name", "tells look-alikes", "knows what is not there"}
BACK, FEW = "The attention lies mainly on the background.", "It covers a small part of the object."
WING, ALL = "It lies mainly on the wing.", "It covers all of the object."
BESIDE = "Beside the object lies a little of the attention."


@pytest.fixture(scope="module")
def battery():
    return judge_controls.build_battery(round_things(0))


@pytest.fixture(scope="module")
def taught():
    """Others, from which is learnt where such things usually are."""
    return taught_by_birds(round_things(1))


def round_things(seed):
    """Round things of many sizes and shades, and maps that lie more or less on them."""
    rng = np.random.default_rng(seed)
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
    half = N // 2  # of each name there are two
    names = pd.DataFrame({"own": [f"bird {row % half} {FAMILIES[row % 6]}" for row in range(N)]})
    names["wrong"] = [f"another {FAMILIES[(row + 1) % 6]}" for row in range(N)]
    names["alike"] = [f"another {FAMILIES[row % 6]}" for row in range(N)]
    maps = {condition: torch.tensor(np.stack(some)) for condition, some in maps.items()}
    objects = torch.from_numpy(np.stack(objects)).byte()
    pixels = torch.from_numpy(pixels)
    mates = pixels.roll(half, 0), objects.roll(half, 0)
    return judge_controls.Birds(pixels, objects, [], names, maps, mates)


def card_of(battery, scores, texts=None):
    """The card of a judge by its scores; without texts it always says the same."""
    answers = battery.cases.assign(score=scores, text=texts or f"{BACK} {ALL}")
    return judge_card(answers, battery, cards.check_texts(answers, battery)).set_index("control")


def test_the_truth_passes(battery):
    cases, scores = battery.cases, scripted_scores(battery.cases, battery.lit)
    card = card_of(battery, scores["the truth"], true_texts(cases))
    assert card.passed.all() and len(card) == 20
    by_product = card_of(battery, scores["coverage x precision"], true_texts(cases))
    assert by_product.passed.all() and by_product.value["falls with precision"] == 1  # in each picture
    assert card.value["writes what is true"] == 0
    every = [*cards.SEES, *cards.READS, *cards.WRITES]
    assert cards.void(card.reset_index(), every) == ""
    card.loc["reads the name", "passed"] = False
    assert cards.void(card.reset_index(), every) == "void: fails reads the name"
    no_kin = cases.assign(score=scores["the truth"])[cases.condition != judge_controls.LOOK_ALIKE]
    assert "tells look-alikes" not in set(judge_card(no_kin, battery).control)  # a world without families


def test_honest_judges_pass_although_they_round_and_waver(battery):
    """With noise of half a point 90 of 100 pass at least, here each of twenty."""
    scores = scripted_scores(battery.cases, battery.lit)["the truth"]
    for seed in range(20):
        wavering = np.round(scores + np.random.default_rng(seed).normal(0, 0.5, len(scores))).clip(0, 5)
        card = judge_card(battery.cases.assign(score=wavering), battery)
        assert card.passed.all(), card.control[~card.passed]


def test_liars_are_found_out(battery, taught):
    scores, cases = scripted_scores(battery.cases, battery.lit, 0, taught), battery.cases
    scores["a light meter"] = 40 * cases.area.clip(upper=0.125)
    scores["ignores the picture"] = np.where(cases.right_name, 4.0, 1.0)
    fit = 5 * cases.coverage * cases.precision.fillna(0.0)
    fit = fit.mask(cases.condition.eq(judge_controls.OTHER_LIT), 5.0)  # a bird is lit, whichever
    scores["ignores the name"] = fit.mask(cases.condition.eq(judge_controls.NO_IMAGE))
    scores["a usual area"] = 5 - (40 * (cases.area - 0.1).abs()).clip(upper=5)
    blackest = np.argsort(battery.of_objects)[:8]
    scores["black birds"] = scores["the truth"].mask(cases.row.isin(blackest), scores["the truth"] * 0)
    own = dict(zip(zip(cases.row, cases.condition, strict=True), scores["the truth"], strict=True))
    there = [
        own.get((case.row, case.condition.removesuffix(judge_controls.ON_MATE)))
        for case in cases.itertuples()
    ]
    scores["remembers the map"] = there  # whatever it lies on
    for liar, failing in (
        ("looks at no object", {"sees the map"}),
        ("a brightness meter", {"falls with coverage"}),
        ("a light meter", {"falls with coverage"}),
        ("a usual area", {"sees the map"}),
        ("likes the centre", {"the same elsewhere"}),
        ("knows families", {"tells look-alikes"}),
        ("knows sharp masks", {"reads a network's map", *ON_SOFT_MAPS}),
        ("knows the usual place", ON_SOFT_MAPS),
        ("remembers the map", {f"{control} maps" for control in EXCHANGED}),
        ("black birds", {"the same for dark objects"}),
        ("ignores the picture", {*cards.SEES[:8]}),
        ("ignores the name", {*NAMES, "sees what is lit"}),
    ):
        card = card_of(battery, scores[liar], true_texts(cases))
        failed = set(card.index[~card.passed])
        assert failing <= failed, f"{liar}: fails {failed}"
        if liar in EXACTLY:
            assert failed == failing, liar
    everything = card_of(battery, np.full(len(cases), 3.0))
    same = {*cards.UNCHANGED, "the same for dark objects"}
    assert set(everything.index[everything.passed]) == same, "a judge that says the same of all"
    # right on average, by more than a point, but now ten points better and now eight worse
    sign = np.where(np.arange(N) < 34, 1, -0.8)
    gap = card_of(battery, 5 * sign[cases.row] * cases.right_name).loc["reads the name"]
    assert gap.value >= cards.LEAST and gap.low < 0 and not gap.passed


@pytest.mark.parametrize(
    "text, coverage, precision, statements",
    [
        (f"{BACK} {FEW}", 0.1, 0.2, ["mainly background", "coverage a small part"]),
        (f"{BACK} {FEW}", 0.9, 0.8, ["no: mainly background", "no: coverage a small part"]),
        (FEW, 0.0, 1, ["no: coverage a small part"]),
        (WING, 1, 0.9, ["mainly wing"]),
        (WING, 0, np.nan, ["no: mainly wing"]),
        ("It covers the whole bird", 0.9, 1, ["coverage all"]),
        ("Of the background it covers some. It does not lie mainly on the background.", 1, 1, []),
        ("It covers nothing of the background, most of the background.", 1, 1, []),
        (BESIDE, 1, 0.8, ["beside a little"]),
        (BESIDE, 1, 0.2, ["no: beside a little"]),
        (f"{BESIDE} The attention lies mainly on nothing.", 0, np.nan, []),  # without light no share of it
    ],
)
def test_statements_are_held_against_the_masks(text, coverage, precision, statements):
    found = check_statements(text, coverage, precision, {}, None)
    assert [f"{'' if one.true else 'no: '}{one.kind} {one.said}" for one in found] == statements


def test_the_form_of_a_light_by_hand():
    """Four rows of two columns: area, overlap with a place that is everywhere, middle and spread."""
    lit = torch.zeros(1, SIDE, SIDE)
    lit[0, 2:6, 10:12] = 1
    area = 8 / SIDE**2
    by_hand = [area, 1, area, 10.5, 0.5, 3.5, 1.25**0.5]
    assert _form(lit, torch.ones(1, SIDE, SIDE))[0].tolist() == pytest.approx(by_hand)
