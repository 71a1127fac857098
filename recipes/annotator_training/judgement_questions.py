"""Judgements of attention maps, under the right name or a wrong one, and what helps in learning them.

As in `concept_questions`, a question is a function (rng, pool) -> (text, answer, picture); `pool["judged"]`
is what `attention_maps.under_attention` gives.
"""

import numpy as np

from recipes.annotator_training.attention_maps import overlap
from recipes.annotator_training.lesson_pictures import NAMES, SPECIES, THINGS
from xaihelpers.ask import prompt
from xaihelpers.worlds import aviary, everyday

# the sentence of each score, 0 to 5
REASONS = [
    "The attention has nothing to do with the object.",
    "The object is missed.",
    "Only a small part of the object is attended, or much more besides it.",
    "A part of the object is attended, or much besides it.",
    "Most of the object is attended with little distraction.",
    "The whole object is attended and nothing else.",
]
PART_NAMES = {
    "birds": [part.removeprefix("left ").removeprefix("right ") for part in aviary.PARTS] + ["body"],
    "things": everyday.PARTS,
}
OF_OBJECT = ("none", "a small part", "about half", "most", "all")
BESIDE = ("nothing", "a little", "some", "much", "nearly all")
AMOUNTS = (0.05, 0.40, 0.65, 0.85)  # shares at which the next of these words begins
FOREIGN = """spoon ladder elephant violin pumpkin train bridge candle hammer shoe piano rabbit
tractor apple castle dog cat table window basket tiger airplane camera helmet carrot drum pencil
pillow cow horse lemon onion anchor barrel bucket ticket person mountain""".split()
SYLLABLES = "ba be ko lu mi no pan ra sel ti tu vor wen zi gar do fen hal kin rus".split()
SEEN, SAME = "What is seen is a", "These are "


def amount(share: float, words: tuple[str, ...]) -> str:
    """The word for a share in [0, 1]."""
    return words[int(np.searchsorted(AMOUNTS, share, side="right"))]


def what_is_attended(judged: tuple, number: int) -> tuple[list[str], int]:
    """Sentences about a picture under a map, from the map and the part mask, and its score."""
    rows, _, heats, judged_scores, judged_parts = judged
    heat, parts = heats[number].astype(np.float32), judged_parts[number]
    names = PART_NAMES[rows[number][0]]
    attended = heat > 0.4
    covered, precise = overlap(heat, parts > 0)
    pixels = np.bincount(parts[attended], minlength=len(names) + 1)
    share = pixels / np.bincount(parts.ravel(), minlength=len(names) + 1).clip(min=1)
    place = "background"
    if not attended.any():
        place = "nothing"
    elif precise >= 0.5:
        place = names[int(pixels[1:].argmax())]
    order = [part for part in np.argsort(-pixels) if part and pixels[part] > 30]
    lit = list(dict.fromkeys(names[part - 1] for part in order if share[part] > 0.3))[:3]
    sentences = [
        f"The attention lies mainly on {'' if place == 'nothing' else 'the '}{place}.",
        f"It covers {amount(covered, OF_OBJECT)} of the object.",
        f"Beside the object lies {amount(1 - precise, BESIDE)} of it.",
        f"The parts attended are {', '.join(lit)}." if lit else "No part is attended.",
    ]
    return sentences, int(judged_scores[number])


def both_names(name: str, true_name: str) -> str:
    """How a judgement begins: with what is to be seen, and the name in the question."""
    verdict = f"{SAME}the same" if name == true_name else f"{SAME}not the same"
    return f"{SEEN} {true_name}; the name given is {name}. {verdict}."


def judgement(judged: tuple, number: int, name: str, true_name: str) -> str:
    """Evaluation, justification and score under the right name or a wrong one, whose score is 0."""
    sentences, score = what_is_attended(judged, number)
    reason = REASONS[score]
    if name != true_name:
        score = 0
        reason = f"What is attended is no {name}."
    evaluation = " ".join([both_names(name, true_name), *sentences])
    return f"Evaluation: {evaluation}\nJustification: {reason}\nScore: {score}"


def foreign_name(rng: np.random.Generator) -> str:
    """A word that no picture fits: a thing of neither world, or no word at all."""
    if rng.random() < 0.5:
        return str(rng.choice(FOREIGN))
    return "".join(rng.choice(SYLLABLES, rng.integers(2, 4)))


def given_name(
    rng: np.random.Generator, label: int, world: str, beside: int = -1, right_share: float = 0.4
) -> tuple[str, str]:
    """A name to ask with, right in `right_share` of the cases, and the right one.

    label: class of what is attended, -1 for a bird with random attributes. beside: class of a thing beside
        it, whose name is a third of the wrong ones; -1 for none.
    """
    true_name = NAMES[world][label] if label >= 0 else "bird"
    if rng.random() < right_share:
        return true_name, true_name
    if beside >= 0 and NAMES[world][beside] != true_name and rng.random() < 0.33:
        return NAMES[world][beside], true_name
    others = NAMES[world] if label >= 0 and rng.random() < 0.7 else SPECIES + THINGS
    if rng.random() < 0.15:
        return foreign_name(rng), true_name
    if label < 0:
        others = THINGS
    return str(rng.choice([other for other in others if other != true_name])), true_name


def ask_judgement(rng, pool, name=None):
    """A judgement of one picture under a map; name: the one to ask with, by default as `given_name`."""
    length = str(rng.choice(["", "_short", "_long"], p=[0.45, 0.45, 0.1]))
    number = int(rng.integers(len(pool["judged"][0])))
    world, row, other = pool["judged"][0][number]
    labels = pool[world][3]
    given, true_name = given_name(rng, labels[row], world, labels[other] if other >= 0 else -1)
    name = name or given
    view = ("masked", "heat")[number % 2]
    question = prompt(f"autoxplain_{view}{length}", object=name)
    return question, judgement(pool["judged"], number, name, true_name), ("judged", number)


def ask_repeat(rng, pool):
    """The name in a question is said again: a help in learning to read it."""
    name = foreign_name(rng) if rng.random() < 0.5 else str(rng.choice(SPECIES + THINGS))
    question, *_ = ask_judgement(rng, pool, name)
    return f"Which name is given? {question}", f"The name given is {name}", None


def ask_same(rng, pool):
    """Two names, of which half are the same: a help in learning to compare them."""
    name = str(rng.choice(SPECIES + THINGS)) if rng.random() < 0.8 else foreign_name(rng)
    other = name
    if rng.random() < 0.5:
        alike = [one for one in SPECIES + THINGS if set(one.split()) & set(name.split())]
        others = alike if len(alike) > 1 and rng.random() < 0.3 else SPECIES + THINGS
        other = str(rng.choice([one for one in others if one != name]))
        name, other = rng.permutation([name, other]).tolist()
    sentence = both_names(name, other)
    start = sentence.index(SAME)
    return sentence[: start - 1], sentence[start:], None


def ask_seen(rng, pool):
    """What is to be seen in a picture with a map over it? A help in naming what is half hidden."""
    number = int(rng.integers(len(pool["judged"][0])))
    world, row, _ = pool["judged"][0][number]
    label = pool[world][3][row]
    return "What is seen?", NAMES[world][label] if label >= 0 else "bird", ("judged", number)


def ask_without_picture(rng, pool):
    """A judgement without a picture: none is given."""
    question, *_ = ask_judgement(rng, pool)
    reason = "There is no picture to judge."
    return question, f"Evaluation: Nothing is shown.\nJustification: {reason}\nScore: none", None
