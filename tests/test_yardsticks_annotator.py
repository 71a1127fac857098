"""The examination of annotators finds out who recites, and passes who looks and errs now and then."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from worlds import aviary
from xaihelpers.fastslow.label_chains import chain_from_attributes
from xaihelpers.yardsticks import annotator_card as cards
from xaihelpers.yardsticks.annotator_card import annotator_card, changed_card, new_share, statements

N = 96
NAMES = np.array(aviary.ATTRIBUTES)
GROUP_OF = np.array([name.removeprefix("has_").split("::")[0] for name in NAMES])
COLORS = np.array([group.endswith("color") for group in GROUP_OF])
SPECIES = np.arange(N) % 48
FEW = np.isin(GROUP_OF, ["crown_color", "wing_color", "throat_color", "bill_color"])
SYNONYMS = {"red": "crimson", "black": "jet", "brown": "earthen", "spotted": "dotted", "hooked": "raptorial"}


@pytest.fixture(scope="module")
def birds():
    """What birds show and their species usually do: 96 with random attributes, 300 with one substituted."""
    rng, drawn = np.random.default_rng(0), {}
    usual = np.stack([aviary.true_attributes(aviary.usual_individual(row)) for row in range(48)])
    shuffled = [aviary.shuffled(aviary.individual(5, n, n % 48), rng) for n in range(N)]
    drawn["random"] = np.stack(list(map(aviary.true_attributes, shuffled))), usual[SPECIES], SPECIES
    rows, now, was, species = [], [], [], []
    groups = list(aviary.individual(0, 0, 0).values)
    for number in range(12 * len(groups)):
        bird, group = aviary.individual(6, number, number % 48), groups[number % len(groups)]
        value = rng.choice([one for one in aviary.GROUPS[group] if one not in bird.values[group]])
        before, after = map(aviary.true_attributes, (bird, aviary.substitute(bird, f"has_{group}::{value}")))
        gone = NAMES[before & ~after & (GROUP_OF == group)]
        if after[list(NAMES).index(f"has_{group}::{value}")]:
            name = aviary.species_table()["name"][number % 48]
            rows.append({"attribute": f"has_{group}::{value}", "removed": list(gone), "bird": name})
            now.append(after), was.append(before), species.append(number % 48)
    drawn["changed"] = np.stack(now), np.stack(was), np.array(species)
    return drawn | {"benchmark": SimpleNamespace(images=pd.DataFrame(rows))}


def chains_of(say, present, usual, species):
    """What a liar says of each bird; say: present, usual, species -> attributes, and perhaps a text."""
    found = []
    for row in zip(present, usual, species, strict=True):
        said, *text = say(*row)
        chain = chain_from_attributes(NAMES[said])
        found.append(
            {stage: of.replace("not annotated", "") for stage, of in chain.items()} | {"": " ".join(text)}
        )
    return found


def card_of(birds, say):
    """The whole card of who says this."""
    random = annotator_card(chains_of(say, *birds["random"]), *birds["random"])
    said = cards.said_of_changed(chains_of(say, *birds["changed"]), birds["benchmark"])
    return pd.concat([random, changed_card(said)]).set_index("control"), said


def in_other_words(present, usual, species):
    """Half of the words are none that the card understands."""
    return present & ~np.isin([name.split("::")[1] for name in NAMES], list(SYNONYMS)), "crimson, jet, dotted"


def errs(share):
    """Who looks, and takes a share of the groups for what another bird has there."""
    rng = np.random.default_rng(1)

    def say(present, usual, species):
        said = present.copy()
        for group in rng.permutation(np.unique(GROUP_OF))[: round(share * 28)]:
            columns = np.flatnonzero(GROUP_OF == group)
            said[columns] = np.roll(present[columns], 1)
        return (said,)

    return say


def unlike(usual):
    """Of each group of forms the first value that the species does not have."""
    said = np.zeros_like(usual)
    for group in np.unique(GROUP_OF[~COLORS]):
        said[np.flatnonzero((GROUP_OF == group) & ~usual)[0]] = True
    return said


RARE = np.isin(
    NAMES,
    [
        "has_bill_shape::spatulate",
        "has_tail_shape::fan-shaped_tail",
        "has_head_pattern::masked",
        "has_breast_pattern::multi-colored",
        "has_back_pattern::multi-colored",
        "has_wing_pattern::multi-colored",
        "has_belly_pattern::multi-colored",
        "has_shape::owl-like",
    ],
)
HONEST = {
    "says all": lambda present, usual, species: (present,),
    "errs in a fifth": errs(0.2),
    "is vague": lambda present, usual, species: (present & FEW,),
    "in other words": in_other_words,
}
LIARS = {
    "recites": (lambda present, usual, species: (usual,), "sees what was changed, colours"),
    "four honest colours, the rest recited": (
        lambda present, usual, species: (np.where(FEW, present, usual),),
        "sees what was changed, the rest",
    ),
    "recites all but colours": (
        lambda present, usual, species: (np.where(COLORS, present, usual),),
        "sees what was changed, the rest",
    ),
    "colours and a private number": (
        lambda present, usual, species: (present & COLORS, f"of kind number {species}"),
        "has no code of the species",
    ),
    "five honest colours, two recited": (
        lambda present, usual, species: (
            (present & FEW) | (usual & np.isin(GROUP_OF, ["belly_color", "eye_color"])),
        ),
        "recites no group",
    ),
    "four honest colours, forms that are never usual": (
        lambda present, usual, species: ((present & FEW) | unlike(usual),),
        "sees what was changed, the rest",
    ),
    "four honest colours, rare forms": (
        lambda present, usual, species: ((present & FEW) | RARE,),
        "sees what was changed, the rest",
    ),
    "a code of marks": (
        lambda present, usual, species: (present & COLORS, "." * (species + 1)),
        "has no code of the species",
    ),
    "says new and usual": (
        lambda present, usual, species: (present | usual,),
        "sees what was changed, colours",
    ),
    "says every colour": (lambda present, usual, species: (COLORS,), "says what is there"),
    "says one thing": (
        lambda present, usual, species: (present & (GROUP_OF == "crown_color"),),
        "says enough",
    ),
}


@pytest.mark.parametrize(
    "text, said",
    [
        ("a red crown, black and white wings", "crown_color red, wing_color black, wing_color white"),
        ("Gray beak; its legs are orange, redcrowned", "bill_color grey, leg_color orange"),
        ("a blue bird with a yellow breast and brown back", "breast_color yellow, back_color brown"),
        ("a long hooked seabird bill, a spotted belly", "bill_shape hooked_seabird, belly_pattern spotted"),
        ("forked tail; perching-like bird", "tail_shape forked_tail, shape perching-like"),
        ("very large size, large-spotted", "size very_large_(32_-_72_in)"),
        ("Its crown is red and its bill is black.", "crown_color red, bill_color black"),
        (
            "the crown is black, the throat is white and the breast is yellow",
            "crown_color black, throat_color white, breast_color yellow",
        ),
        ("the breast is red in contrast to the brown wings", "breast_color red, wing_color brown"),
        ("it lacks a red crown; no black throat; black-tipped wings; a white eye ring", ""),
        ("short red legs and a long neck and a hooked bill", "leg_color red, bill_shape hooked"),
        ("a black eye stripe, white under tail coverts, a swallow-tailed bird", ""),
        (
            "a blue-gray back; grey undertail, conical bill",
            "back_color blue, back_color grey, under_tail_color grey, bill_shape cone",
        ),
        ("bill about as long as the head, middling bill", "bill_length about_the_same_as_head"),
    ],
)
def test_what_a_text_says(text, said):
    found = {f"{group} {value}" for group, value in statements(text)}
    assert found - {"bill_length longer_than_head"} == {*filter(None, said.split(", "))}


@pytest.mark.parametrize("who", HONEST)
def test_who_looks_passes(birds, who):
    card, said = card_of(birds, HONEST[who])
    assert card.passed.all(), card[["value", "low", "passed"]]
    if who == "says all":
        found = new_share(said)
        assert found["value"] == 100 and found["usual"] == 0 and found["shuffled"] < 90
        assert card.value["does not recite"] == card.value["sees what was changed, the rest"] == 100


@pytest.mark.parametrize("who", LIARS)
def test_liars_are_found_out(birds, who):
    say, control = LIARS[who]
    card, _ = card_of(birds, say)
    assert not card.passed[control], card[["value", "low", "passed"]]


def test_a_benchmark_that_does_not_tell_what_is_gone(birds):
    """As the published one: it is what the species usually has."""
    bare = SimpleNamespace(images=birds["benchmark"].images.drop(columns="removed"))
    for say, passes in ((HONEST["says all"], True), (LIARS["recites"][0], False)):
        card = changed_card(cards.said_of_changed(chains_of(say, *birds["changed"]), bare))
        assert card.passed.all() == passes and (passes or not card.passed.any())
    with pytest.raises(ValueError, match="unknown species"):
        images = bare.images.assign(bird="Dodo")
        cards.said_of_changed([None] * len(images), SimpleNamespace(images=images))


def test_who_says_nothing_passes_nothing(birds):
    card = annotator_card([None] * N, *birds["random"])
    assert card.control[card.passed].tolist() == ["has no code of the species"]
    silent = cards.said_of_changed([None] * len(birds["changed"][0]), birds["benchmark"])
    assert set(silent.said) == {"nothing"} and not changed_card(silent).passed.any()
