"""Questions whose answers are concepts, names or letters; each knows the true answer from the renderer.

A question is a function (rng, pool) -> (text, answer, picture): rng a NumPy generator, pool the pictures
that are asked about (`lesson_pictures.stacked` by world), picture (world, row) or None where none is shown.
"""

import json

import numpy as np

from recipes.annotator_training.lesson_pictures import NAMES, SPECIES, THINGS
from recipes.annotator_training.true_answers import chain_of, five_of, nearest, reasoning_of, usual
from xaihelpers import datasets
from xaihelpers.ask import lettered_options, prompt
from xaihelpers.fastslow import THE_IMAGE, UNKNOWN, chain_prefix, segment_reasoning


def random_world(rng: np.random.Generator) -> str:
    """ "birds" seven times in ten, else "things"."""
    return "birds" if rng.random() < 0.7 else "things"


def random_picture(
    rng: np.random.Generator, pool: dict, world: str, named: bool = True
) -> tuple[int, np.ndarray, int]:
    """A row of a world, what is to be seen in it, and its class; named: one whose class can be asked for."""
    _, _, seen, label = pool[world]
    if named:
        row = int(rng.choice(np.flatnonzero(label >= 0)))
    else:
        row = int(rng.integers(len(label)))
    return row, seen[row], int(label[row])


def random_class(rng: np.random.Generator) -> tuple[str, int]:
    """A world and one of its classes."""
    world = random_world(rng)
    return world, int(rng.integers(len(NAMES[world])))


def ask_chain_image(rng, pool):
    """The five stages of a chain, of a picture."""
    world = random_world(rng)
    row, seen, _ = random_picture(rng, pool, world, named=False)
    return prompt("fse_chain", entity=THE_IMAGE), chain_prefix(chain_of(world, seen), 5), (world, row)


def ask_chain_class(rng, pool):
    """The same of a class that is named and not shown."""
    world, label = random_class(rng)
    question = prompt("fse_chain", entity=datasets.with_article(NAMES[world][label]))
    return question, chain_prefix(chain_of(world, usual(world)[label]), 5), None


def ask_reasoning(rng, pool):
    """A train of thought on a class that is named."""
    world, label = random_class(rng)
    question = prompt("fse_reasoning", entity=datasets.with_article(NAMES[world][label]))
    reasoning, answer = reasoning_of(world, usual(world)[label])
    return question, f"<think>{reasoning}</think>{answer}", None


def ask_top5(rng, pool):
    """The five most salient concepts of a picture."""
    world = random_world(rng)
    row, seen, _ = random_picture(rng, pool, world, named=False)
    return prompt("fse_top5"), json.dumps(five_of(world, seen)), (world, row)


def in_any_order(rng: np.random.Generator, true_name: str, other_names) -> tuple[str, str]:
    """The options, lettered, and the letter of the true one."""
    names = rng.permutation([true_name, *other_names]).tolist()
    return lettered_options(names), "ABCDE"[names.index(true_name)]


def hard_options(rng: np.random.Generator, world: str, label: int) -> tuple[str, str]:
    """Five candidates with the true class among them, and its letter.

    Four others at random, or a class and the four most similar to it, of which any may be the true one.
    """
    names = NAMES[world]
    if rng.random() < 0.4:
        others = rng.choice(np.delete(np.arange(len(names)), label), 4, replace=False)
    else:
        centre = int(rng.choice([label, *nearest(world)[label][:4]]))
        near = [k for k in (centre, *nearest(world)[centre][:5]) if k != label]
        others = rng.choice(near, 4, replace=False)
    return in_any_order(rng, names[label], [names[k] for k in others])


def easy_options(rng: np.random.Generator, world: str, label: int) -> tuple[str, str]:
    """The true class among one to four others, of either world, and its letter."""
    true_name = NAMES[world][label]
    others = [name for name in SPECIES + THINGS if name != true_name]
    return in_any_order(rng, true_name, rng.choice(others, rng.integers(1, 5), replace=False))


def concepts_of(rng: np.random.Generator, world: str, label: int, seen: np.ndarray) -> str:
    """What slow mode is given: stages of a chain, five concepts, or part of a train of thought."""
    kind = rng.choice(["image", "class", "five", "reasoning"], p=[0.55, 0.15, 0.18, 0.12])
    if kind == "five":
        return json.dumps(five_of(world, seen))
    if kind == "reasoning":
        segments = segment_reasoning(reasoning_of(world, usual(world)[label])[0])
        return chain_prefix(segments, int(rng.integers(1, 6)))
    chain = chain_of(world, seen if kind == "image" else usual(world)[label])
    if rng.random() < 0.1:
        chain["Background"] = UNKNOWN
    return chain_prefix(chain, int(rng.choice([1, 2, 3, 4, 5], p=[0.06, 0.08, 0.14, 0.32, 0.40])))


def ask_choice(name, rng, pool, options_of=hard_options):
    """A choice by `name`: from the "image", from "concepts", from "both", or from "nothing"."""
    world = random_world(rng)
    row, seen, label = random_picture(rng, pool, world)
    options, letter = options_of(rng, world, label)
    fields = {"options": options}
    if name in ("concepts", "both"):
        fields["concepts"] = concepts_of(rng, world, label, seen)
    picture = (world, row) if name in ("image", "both") else None
    return prompt(f"fse_choose_{name}", **fields), letter, picture


def ask_name(rng, pool):
    """The class of a picture, in words."""
    world = random_world(rng)
    row, _, label = random_picture(rng, pool, world)
    return prompt("fse_name"), NAMES[world][label], (world, row)


def ask_letters(rng, pool):
    """Two to five lettered options without an image: which letter has this name, or the reverse?

    A help in learning and no prompt of the papers.
    """
    names = rng.choice(SPECIES + THINGS, rng.integers(2, 6), replace=False)
    place = int(rng.integers(len(names)))
    letter, name = "ABCDE"[place], names[place]
    asked, answer = [(letter, f" {name}"), (name, letter)][rng.integers(2)]
    return f"Which is {asked}?\n{lettered_options(names)}", answer, None


def ask_name_of_concepts(rng, pool):
    """The class that concepts describe, in words; a help in learning to choose by them."""
    world = random_world(rng)
    _, seen, label = random_picture(rng, pool, world)
    return f"{concepts_of(rng, world, label, seen)}\nName it.", NAMES[world][label], None
