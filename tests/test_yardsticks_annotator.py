"""The examination of annotators finds out who recites, and passes who looks and errs now and then."""

import numpy as np
import pytest

from worlds import aviary
from xaihelpers.yardsticks.annotator_card import PARTS, annotator_card, color_statements

N = 96
NAMES = np.array(aviary.ATTRIBUTES)
GROUP_OF = np.array([name.removeprefix("has_").split("::")[0] for name in NAMES])
GROUPS = sorted(set(PARTS.values()))


@pytest.fixture(scope="module")
def birds():
    """What 96 birds show, whose attributes are set at random, and what their species usually do."""
    rng = np.random.default_rng(0)
    usual, present = [], []
    for row in range(N):
        usual.append(aviary.true_attributes(aviary.usual_individual(row % 48)))
        present.append(aviary.true_attributes(aviary.shuffled(aviary.individual(5, row, row % 48), rng)))
    return np.stack(present), np.stack(usual)


def card_of(birds, said, **about):
    """The card of who says these attributes (N, 312) bool, colours of parts alone."""
    chains = []
    for row in said:
        phrases = []
        for part, group in PARTS.items():
            colors = [name.split("::")[1] for name in NAMES[row & (GROUP_OF == group)]]
            if colors and part not in ("beak", "chest", "feet"):
                phrases.append(f"{' and '.join(colors)} {part}")
        chains.append({"DetailedFeatures": ", ".join(phrases)})
    return annotator_card(chains, *birds, **about).set_index("control")


@pytest.mark.parametrize(
    "text, said",
    [
        ("a red crown, black and white wings", {"crown red", "wing black", "wing white"}),
        ("Gray beak; its legs are orange, redcrowned", {"bill grey"}),
        ("a blue bird with a yellow breast and brown back", {"breast yellow", "back brown"}),
    ],
)
def test_what_a_text_says_of_colors(text, said):
    found = {f"{group.removesuffix('_color')} {color}" for group, color in color_statements(text)}
    assert found == said


def test_who_looks_passes_although_it_errs(birds):
    """Six groups of ten are said, with one value, true in eight cases of ten."""
    present, _ = birds
    truth = card_of(birds, present)
    assert truth.passed.all() and truth.value["does not recite"] == 100
    for seed in range(20):
        rng, said = np.random.default_rng(seed), np.zeros_like(present)
        for row in range(N):
            for group in GROUPS:
                columns = np.flatnonzero(GROUP_OF == group)
                shown, others = columns[present[row, columns]], columns[~present[row, columns]]
                if rng.random() < 0.6:
                    said[row, rng.choice(shown if rng.random() < 0.8 else others)] = True
        card = card_of(birds, said)
        assert card.passed.all(), card


def test_liars_are_found_out(birds):
    present, usual = birds
    commonest = np.zeros(312, bool)
    for group in GROUPS:
        columns = np.flatnonzero(GROUP_OF == group)
        commonest[columns[present[:, columns].mean(0).argmax()]] = True
    main = np.zeros_like(present)
    for row in range(N):
        colors = {name.split("::")[1] for name in NAMES[present[row] & (GROUP_OF == "primary_color")]}
        main[row] = [
            group in GROUPS and name.split("::")[1] in colors
            for name, group in zip(NAMES, GROUP_OF, strict=True)
        ]
    told_first = present & (np.cumsum(np.isin(GROUP_OF, GROUPS) & present, 1) <= 1)
    for liar, said, failing in (
        ("recites its species", usual, {"says what is there", "does not recite"}),
        ("says the commonest", np.tile(commonest, (N, 1)), {"says what is there"}),
        ("says the main colour everywhere", main, {"says what is there"}),
        ("describes another bird", np.roll(present, 7, 0), {"says what is there"}),
        ("says one thing", told_first, {"says enough"}),
    ):
        card = card_of(birds, said)
        failed = set(card.index[~card.passed])
        assert failing <= failed, f"{liar} fails {failed}: {card[['value', 'low']]}"
    for said, passes in ((present, True), (told_first, False)):
        assert card_of(birds, said, ordinary=True).passed.tolist() == [True, passes]
    assert not annotator_card([None] * N, *birds).passed.any()
