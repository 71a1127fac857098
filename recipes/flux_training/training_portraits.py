"""Portraits of aviary birds with their captions, from which the small Flux and its reader learn.

Two worlds: the "studio" has perching birds in four fixed poses and places (`worlds.studio`), "portraits" any
bird of the aviary as it sits; of these the reader alone learns. Every odd bird has random attributes and no
species.
"""

from functools import cache, partial

import numpy as np

from recipes.shared import drawn_in_parallel
from worlds import aviary, studio
from xaihelpers import datasets, substitute

SIZE = 64  # side of the portraits in pixels
TRAINED, HELD, CHANGED, FURTHER = 94, 95, 96, 97  # streams of birds: no bird is of two of them
SPECIES = [datasets.class_name(name) for name in aviary.species_table()["name"]]
GROUP_OF = [substitute.group_of(name) for name in aviary.ATTRIBUTES]
PHRASES = [datasets.phrase(name) for name in aviary.ATTRIBUTES]
COLOURS = np.array([group.endswith("_color") for group in GROUP_OF])  # (312,)
NAMED = 0.3  # how often a colour that deviates is named where captions do that
pair_prompts = cache(substitute.pair_prompts)


@cache
def shown_by(world: str) -> np.ndarray:
    """Attributes that each species usually shows in a world, (K, 312) bool; in the studio of eight groups."""
    if world == "studio":
        return studio.studio_shows()
    birds = [aviary.usual_individual(species) for species in range(len(SPECIES))]
    return np.stack([aviary.true_attributes(bird) for bird in birds])


@cache
def taken_by(world: str) -> np.ndarray:
    """Attributes that each species lacks and can be given in a world, (K, 312) bool."""
    if world == "studio":
        return studio.studio_takes()
    return substitute.substitutable(datasets.load("aviary")).numpy()


@cache
def named_in_studio() -> np.ndarray:
    """Attributes that captions may name, (312,) bool: those of the studio's eight groups."""
    return shown_by("studio").any(0) | taken_by("studio").any(0)


def drawn_portrait(world: str, seed: int, stream: int, number: int) -> tuple[np.ndarray, np.ndarray, int]:
    """One bird: portrait (SIZE, SIZE, 3), visible attributes (312,), species (-1: random attributes).

    Of a species' bird in the studio 5 to 15 % of the groups deviate, of the stream CHANGED 10 to 30 and of
    FURTHER 0 to 30; elsewhere none, and of CHANGED one in ten.
    """
    rng = np.random.default_rng([seed, number, stream])
    species = int(rng.choice(np.flatnonzero(shown_by(world).any(1))))
    is_random = number % 2 == 1 and stream != CHANGED
    if world == "studio":
        low, high = {CHANGED: (0.1, 0.3), FURTHER: (0.0, 0.3)}.get(stream, (0.05, 0.15))
        share = 1.0 if is_random else rng.uniform(low, high)
        bird = studio.studio_bird(int(rng.integers(len(studio.PLACES))), species, rng, share)
    else:
        bird = aviary.individual(4000 + seed + stream, number, species)
        if is_random or stream == CHANGED:
            bird = aviary.shuffled(bird, rng, rng.uniform(0.3, 1) if is_random else rng.uniform(0.04, 0.16))
    picture = aviary.draw(bird)
    visible = aviary.visible_attributes(bird, picture, rng)
    cut = studio.studio_portrait if world == "studio" else substitute.portrait_of
    return np.asarray(cut(picture, SIZE)), visible, -1 if is_random else species


def drawn_birds(world: str, seed: int, count: int, stream: int) -> list[np.ndarray]:
    """Pixels (N, 3, SIZE, SIZE) uint8, visible (N, 312) bool, species (N,)."""
    rows = drawn_in_parallel(partial(drawn_portrait, world, seed, stream), count)
    portraits, visible, species = (np.stack(column) for column in zip(*rows, strict=True))
    return [portraits.transpose(0, 3, 1, 2).copy(), visible, species]


def caption(
    rng: np.random.Generator, visible: np.ndarray, species: int, long: bool, deviating: bool = False
) -> str:
    """One true caption of a portrait of the studio, in the forms of the paper's prompts (section 4.1).

    Short: a bird with one to four attributes. Long: a bird with all that are named. Of a species: alone, with
    an attribute that it usually has, or with one like another species that has it; with a colour that
    deviates, if it has one, if `deviating`, in three of ten.
    """
    usual, named = shown_by("studio"), named_in_studio()
    if deviating and species >= 0 and rng.random() < NAMED:
        colours = np.flatnonzero(visible & named & COLOURS & ~usual[species])
        if len(colours):
            return f"{photo_of(species)} with {PHRASES[rng.choice(colours)]}"
    columns = rng.permutation(np.flatnonzero(visible & named))
    if species < 0:
        few = int(rng.choice([1, 1, 1, 2, 3, 4]))
        phrases = [PHRASES[column] for column in columns[: 10 if long else few]]
        return f"a photo of a bird with {' and '.join(phrases)}"
    columns = columns[usual[species, columns]]
    like_another = rng.random() < 0.25
    others = np.flatnonzero(usual[:, columns[0]] & (np.arange(len(SPECIES)) != species))
    if like_another and len(others):
        other = SPECIES[rng.choice(others)]
        return pair_prompts(SPECIES[species], aviary.ATTRIBUTES[columns[0]], other)[0]
    text = photo_of(species)
    return text if rng.random() < 0.6 else f"{text} with {PHRASES[columns[0]]}"


def photo_of(species: int) -> str:
    """The prompt for a species."""
    return f"a photo of {datasets.with_article(SPECIES[species])}"
