"""The examination of annotators finds out who recites, and passes who looks and errs now and then."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from worlds import aviary
from xaihelpers.fastslow.label_chains import chain_from_attributes
from xaihelpers.yardsticks import annotator_card as cards
from xaihelpers.yardsticks.annotator_card import annotator_card, new_share, statements

N = 96
NAMES = np.array(aviary.ATTRIBUTES)
GROUP_OF = np.array([name.removeprefix("has_").split("::")[0] for name in NAMES])
COLORS = np.array([group.endswith("color") for group in GROUP_OF])
SPECIES = np.arange(N) % 48
FEW = np.isin(GROUP_OF, ["crown_color", "wing_color", "throat_color", "bill_color"])


@pytest.fixture(scope="module")
def birds():
    """96 birds with random attributes, 300 with one substituted; what these show, were, and their species."""
    rng = np.random.default_rng(0)
    usual = np.stack([aviary.true_attributes(aviary.usual_individual(row)) for row in range(48)])
    shuffled = [aviary.shuffled(aviary.individual(5, n, n % 48), rng) for n in range(N)]
    present = np.stack(list(map(aviary.true_attributes, shuffled)))
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
    benchmark = SimpleNamespace(images=pd.DataFrame(rows))
    examined = cards.Examination([], present, usual[SPECIES], SPECIES, benchmark)
    return examined, (np.stack(now), np.stack(was), np.array(species))


def errs_in_a_fifth(present):
    """Of each bird a fifth of the groups is taken for what another value is."""
    rng, said = np.random.default_rng(1), present.copy()
    for of_bird in said:
        for group in rng.permutation(np.unique(GROUP_OF))[:6]:
            columns = np.flatnonzero(GROUP_OF == group)
            of_bird[columns] = np.roll(of_bird[columns], 1)
    return said


def unlike(usual):
    """Of each group of forms the first value that the species does not have."""
    said = np.zeros_like(usual)
    for group in np.unique(GROUP_OF[~COLORS]):
        columns = np.flatnonzero(GROUP_OF == group)
        said[np.arange(len(usual)), columns[usual[:, columns].argmin(1)]] = True
    return said


def says(who, present, usual):
    """The attributes that somebody says of each bird, (N, 312), by what it shows and what is usual."""
    four, colors = present & FEW, present & COLORS
    return {
        "says all": present,
        "errs in a fifth": errs_in_a_fifth(present),
        "is vague": four,
        "in other words": present & ~UNKNOWN_WORDS,
        "recites": usual,
        "four honest colours, the rest recited": np.where(FEW, present, usual),
        "recites all but colours": np.where(COLORS, present, usual),
        "colours and a private number": colors,
        "five honest colours, two recited": four | (usual & np.isin(GROUP_OF, ["belly_color", "eye_color"])),
        "four honest colours, forms that are never usual": four | unlike(usual),
        "four honest colours, rare forms": four | np.isin(NAMES, RARE),
        "a code of marks": colors,
        "says new and usual": present | usual,
        "says every colour": np.broadcast_to(COLORS, present.shape),
        "says one thing": present & (GROUP_OF == "crown_color"),
    }[who]


# half of the words are none that the card understands
UNKNOWN_WORDS = np.isin([name.split("::")[1] for name in NAMES], "red black brown spotted hooked".split())
RARE = ["bill_shape::spatulate", "tail_shape::fan-shaped_tail", "head_pattern::masked", "shape::owl-like"]
RARE += [f"{part}_pattern::multi-colored" for part in ("breast", "back", "wing", "belly")]
RARE = [f"has_{name}" for name in RARE]
TEXTS = {  # what else is said, by the number of the species
    "in other words": lambda species: "crimson, jet, dotted",
    "colours and a private number": "of kind number {}".format,
    "a code of marks": lambda species: "." * (species + 1),
}
HONEST = ["says all", "errs in a fifth", "is vague", "in other words"]
LIARS = {  # by which control each is found out
    "recites": "sees what was changed, colours",
    "four honest colours, the rest recited": "sees what was changed, the rest",
    "recites all but colours": "sees what was changed, the rest",
    "colours and a private number": "has no code of the species",
    "five honest colours, two recited": "recites no group",
    "four honest colours, forms that are never usual": "sees what was changed, the rest",
    "four honest colours, rare forms": "sees what was changed, the rest",
    "a code of marks": "has no code of the species",
    "says new and usual": "sees what was changed, colours",
    "says every colour": "says what is there",
    "says one thing": "says enough",
}


def chains_of(who, present, usual, species):
    """What somebody says of each bird."""
    text, found = TEXTS.get(who, lambda species: ""), []
    for said, number in zip(says(who, present, usual), species, strict=True):
        chain = chain_from_attributes(NAMES[said])
        of_stages = {stage: of.replace("not annotated", "") for stage, of in chain.items()}
        found.append(of_stages | {"": text(number)})
    return found


def card_of(birds, who):
    examined, changed = birds
    random = chains_of(who, examined.present, examined.usual, examined.species)
    return annotator_card(random, chains_of(who, *changed), examined).set_index("control")


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
    card = card_of(birds, who)
    assert card.passed.all(), card[["value", "low", "passed"]]
    if who == "says all":
        found = new_share(cards.said_of_changed(chains_of(who, *birds[1]), birds[0].changed))
        assert found["value"] == 100 and found["usual"] == 0 and found["shuffled"] < 90
        assert card.value["does not recite"] == card.value["sees what was changed, the rest"] == 100


@pytest.mark.parametrize("who", LIARS)
def test_liars_are_found_out(birds, who):
    card = card_of(birds, who)
    assert not card.passed[LIARS[who]], card[["value", "low", "passed"]]


def test_a_benchmark_that_does_not_tell_what_is_gone(birds):
    """As the published one: it is what the species usually has."""
    bare = SimpleNamespace(images=birds[0].changed.images.drop(columns="removed"))
    for who, passes in (("says all", True), ("recites", False)):
        card = cards.changed_card(cards.said_of_changed(chains_of(who, *birds[1]), bare))
        assert card.passed.all() == passes and (passes or not card.passed.any())
    with pytest.raises(ValueError, match="unknown species"):
        images = bare.images.assign(bird="Dodo")
        cards.said_of_changed([None] * len(images), SimpleNamespace(images=images))


def test_who_says_nothing_passes_nothing(birds):
    examined, (changed, *_) = birds
    card = annotator_card([None] * N, [None] * len(changed), examined)
    assert card.control[card.passed].tolist() == ["has no code of the species"]
