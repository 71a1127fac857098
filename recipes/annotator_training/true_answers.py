"""What the renderer's truth says in the words of the prompts: chains, five concepts, trains of thought."""

from dataclasses import replace
from functools import cache

import numpy as np

from recipes.annotator_training.lesson_pictures import (
    ATTRIBUTES,
    CATEGORIES,
    SEATS,
    SPECIES,
    THINGS,
    is_seat,
)
from xaihelpers import datasets
from xaihelpers.fastslow import UNKNOWN, chain_from_attributes
from xaihelpers.worlds import aviary, everyday


def chain_of(world: str, seen: np.ndarray) -> dict[str, str]:
    """The true chain of a picture, stage -> words, from what is to be seen in it (A,) bool."""
    attributes = ATTRIBUTES[world]
    names = [name for name, visible in zip(attributes, seen[: len(attributes)], strict=True) if visible]
    seat = ""
    if world == "birds" and seen[312:].any():
        seat = SEATS[int(seen[312:].argmax())]
    return chain_from_attributes(names, seat)


def usual_bird(label: int) -> np.ndarray:
    """What a species usually shows, and its seat, (312 + 7,) bool."""
    bird = aviary.usual_individual(label)
    return np.concatenate([aviary.true_attributes(bird), is_seat(bird)])


def usual_thing(label: int) -> np.ndarray:
    """What a category usually shows, bool: its first setting and colours, without a pattern."""
    kind = everyday.CATEGORIES[CATEGORIES[label]]
    thing = everyday.thing(0, 0, kind.name)
    colors = (kind.colors[0], kind.colors[1])
    thing = replace(thing, setting=kind.settings[0], colors=colors, pattern="plain")
    return everyday.true_attributes(thing, everyday.draw(thing).parts)


@cache
def usual(world: str) -> np.ndarray:
    """What each class of a world usually shows, (K, A) bool."""
    if world == "birds":
        return np.stack([usual_bird(label) for label in range(len(SPECIES))])
    return np.stack([usual_thing(label) for label in range(len(THINGS))])


@cache
def similarity(world: str) -> np.ndarray:
    """Cosine of what two classes usually show, (K, K); -1 of a class with itself."""
    rows = usual(world)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T - 2 * np.eye(len(rows))


@cache
def nearest(world: str) -> np.ndarray:
    """For each class the others, the most similar first and the class itself last, (K, K)."""
    return np.argsort(-similarity(world), axis=1)


def five_of(world: str, seen: np.ndarray) -> list[str]:
    """The five most salient concepts: parts in uncommon colours first."""
    chain = chain_of(world, seen)
    salient = chain["SalientFeatures"].split(", ")
    detailed = chain["DetailedFeatures"].split(", ")
    if world == "things":
        return [*detailed, *salient, chain["Superclass"], chain["Background"]][:5]

    def rank(phrase):
        places = [place for place, part in enumerate(salient) if phrase.endswith(part)]
        return places[0] if places else len(salient) + 9

    detailed.sort(key=rank)
    return [*detailed, *chain["AuxiliaryFeatures"].split(", ")][:5]


def reasoning_of(world: str, seen: np.ndarray) -> tuple[str, str]:
    """A train of thought, a step for every stage that is annotated, and the answer after it."""
    chain = chain_of(world, seen)
    steps = [
        f"Its place is {chain['Background']}.",
        f"It is {datasets.with_article(chain['Superclass'])}.",
        f"Look at its {chain['SalientFeatures']}.",
        f"It shows {chain['DetailedFeatures']}.",
        f"It also has {chain['AuxiliaryFeatures']}.",
    ]
    reasoning = " ".join(f"> {step}" for step in steps if UNKNOWN not in step)
    return reasoning, f"Look for {chain['DetailedFeatures'].split(', ')[0]}."
