"""Questions on single attributes: ratings of explanations, values of a group, what is there and what is not.

As in `concept_questions`, a question is a function (rng, pool) -> (text, answer, picture).
"""

from functools import cache

import numpy as np

from recipes.annotator_training.concept_questions import random_picture
from recipes.annotator_training.lesson_pictures import SLICES, SPECIES
from xaihelpers import datasets
from xaihelpers.ask import lettered_options, prompt
from xaihelpers.worlds import aviary

PLAIN = [datasets.plain_name(attribute) for attribute in aviary.ATTRIBUTES]


@cache
def common_columns() -> np.ndarray:
    """Columns of the 112 concepts of bottleneck models among the 312 attributes."""
    return np.array([aviary.ATTRIBUTES.index(name) for name in datasets.cbm_concepts().name])


def random_concepts(rng: np.random.Generator, seen: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Columns of a few concepts, a random share of them true of the picture, and their weights."""
    candidates = common_columns() if rng.random() < 0.7 else np.arange(312)
    count, share = int(rng.choice([3, 5, 8, 12])), rng.random()
    true, false = candidates[seen[candidates]], candidates[~seen[candidates]]
    columns = []
    for _ in range(count):
        from_true = len(true) and rng.random() < share
        columns.append(int(rng.choice(true if from_true else false)))
    columns = list(dict.fromkeys(columns))
    if rng.random() < 0.85:
        weights = np.sort(rng.exponential(np.exp(rng.normal()), len(columns)))[::-1]
    else:
        weights = rng.normal(0, 1, len(columns))
    return columns, weights


def ask_rating(rng, pool):
    """How well concepts and their weights explain a picture, 1 to 4: 1 + 3 times the share of true weight."""
    row, seen, label = random_picture(rng, pool, "birds", named=False)
    keep = label >= 0 and rng.random() < 0.7
    prediction = SPECIES[label if keep else rng.integers(len(SPECIES))]
    columns, weights = random_concepts(rng, seen)
    true_share = (np.abs(weights) * seen[columns]).sum() / np.abs(weights).sum()
    named = [f"{PLAIN[j]}: {weight:.2f}" for j, weight in zip(columns, weights, strict=True)]
    question = prompt("conceptscore_rating", prediction=prediction, features=", ".join(named))
    return question, str(int(np.round(1 + 3 * true_share))), ("birds", row)


def ask_presence(rng, pool):
    """Which of a few concepts are to be seen? A help in learning to rate them."""
    kind = str(rng.choice(["birds", "portraits"]))
    row, seen, _ = random_picture(rng, pool, kind, named=False)
    columns, _ = random_concepts(rng, seen)
    named = ", ".join(PLAIN[j] for j in columns)
    answer = ", ".join("yes" if seen[j] else "no" for j in columns)
    return f"Seen or not? {named}", answer, (kind, row)


def known_groups(seen: np.ndarray) -> list[tuple[str, list[str], int]]:
    """Groups of which just one value is to be seen: name, values, position of that value."""
    groups = []
    for columns, (group, values) in zip(SLICES["birds"], aviary.GROUPS.items(), strict=False):
        visible = np.flatnonzero(seen[columns])
        if len(visible) == 1:
            groups.append((group, values, int(visible[0])))
    return groups


def ask_attribute(rng, pool, world="birds"):
    """The value of a group among lettered options; "Other" is right where the true one is left out."""
    row, seen, _ = random_picture(rng, pool, world, named=False)
    groups = known_groups(seen)
    group, values, true = groups[rng.integers(len(groups))]
    order = np.arange(len(values)) if rng.random() < 0.6 else rng.permutation(len(values))
    if rng.random() < 0.12:
        order = order[order != true]
    options = [datasets.plain_value(values[k]) for k in order] + ["Other"]
    place = int(np.flatnonzero(order == true)[0]) if true in order else len(order)
    fields = {"group": group.replace("_", " "), "options": lettered_options(options, ")")}
    return prompt("sub_attribute", **fields), chr(65 + place), (world, row)


def ask_value(rng, pool):
    """The value of a group in words: a help in learning to find it among options."""
    kind = str(rng.choice(["birds", "portraits"]))
    row, seen, _ = random_picture(rng, pool, kind, named=False)
    groups = known_groups(seen)
    group, values, true = groups[rng.integers(len(groups))]
    question = f"Say its {group.replace('_', ' ')}."
    return question, datasets.plain_value(values[true]), (kind, row)
