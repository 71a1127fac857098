"""Portraits of aviary birds with their captions, from which the small Flux and its reader learn.

Two worlds: the "studio" has perching birds in four fixed poses and places (`worlds.studio`), "portraits" any
bird of the aviary as it sits. Every odd bird has random attributes and no species.
"""

from functools import cache
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from tqdm.auto import tqdm

from worlds import aviary, studio
from xaihelpers import datasets, substitute

SIZE = 64  # side of the portraits in pixels
TRAINED, HELD, CHANGED, FURTHER = 94, 95, 96, 97  # streams of birds: no bird is of two of them
SPECIES = [datasets.class_name(name) for name in aviary.species_table()["name"]]
GROUP_OF = [substitute.group_of(name) for name in aviary.ATTRIBUTES]
PHRASES = [datasets.phrase(name) for name in aviary.ATTRIBUTES]
WORLDS = ("studio", "portraits")
pair_prompts = cache(substitute.pair_prompts)


@cache
def shown_by(world: str) -> np.ndarray:
    """Attributes that each species usually shows in a world, (K, 312) bool; in the studio of eight groups.

    Raises ValueError: another world than those two.
    """
    if world not in WORLDS:
        raise ValueError(f"world must be studio or portraits, not {world!r}")
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
def named_in(world: str) -> np.ndarray:
    """Attributes that captions may name, (312,) bool: in the studio those of the eight groups."""
    if world == "studio":
        return shown_by(world).any(0) | taken_by(world).any(0)
    return np.ones(len(aviary.ATTRIBUTES), bool)


def studio_individual(rng: np.random.Generator, species: int, is_random: bool, stream: int):
    """A bird of the studio: of a species 5 to 15 % of the groups deviate, of a random bird all.

    Of the stream CHANGED it is 10 to 30 %, of FURTHER 0 to 30.
    """
    low, high = {CHANGED: (0.1, 0.3), FURTHER: (0.0, 0.3)}.get(stream, (0.05, 0.15))
    share = 1.0 if is_random else rng.uniform(low, high)
    return studio.studio_bird(int(rng.integers(len(studio.PLACES))), species, rng, share)


def any_individual(
    rng: np.random.Generator, species: int, is_random: bool, stream: int, seed: int, number: int
):
    """A bird of the aviary: of the stream CHANGED, one group in ten is random."""
    bird = aviary.individual(4000 + seed + stream, number, species)
    if stream == CHANGED:
        return aviary.shuffled(bird, rng, share=rng.uniform(0.04, 0.16))
    return aviary.shuffled(bird, rng, share=rng.uniform(0.3, 1)) if is_random else bird


def drawn_portrait(world: str, seed: int, number: int, stream: int) -> tuple[np.ndarray, np.ndarray, int]:
    """One bird: portrait (SIZE, SIZE, 3), visible attributes (312,), species (-1: random attributes)."""
    rng = np.random.default_rng([seed, number, stream])
    species = int(rng.choice(np.flatnonzero(shown_by(world).any(1))))
    is_random = number % 2 == 1 and stream != CHANGED
    if world == "studio":
        bird = studio_individual(rng, species, is_random, stream)
    else:
        bird = any_individual(rng, species, is_random, stream, seed, number)
    picture = aviary.draw(bird)
    visible = aviary.visible_attributes(bird, picture, rng)
    cut = studio.studio_portrait if world == "studio" else substitute.portrait_of
    return np.asarray(cut(picture, SIZE)), visible, -1 if is_random else species


def drawn_birds(world: str, seed: int, count: int, stream: int, folder: str = "") -> list[np.ndarray]:
    """Pixels (N, 3, SIZE, SIZE) uint8, visible (N, 312) bool, species (N,).

    folder: where they are kept and, if they are there, read from; "" keeps none.
    """
    name = f"{world}_{stream}_{count}_{seed}_{aviary.RENDERER_VERSION}.npz"
    file = Path(folder or ".") / name
    if folder and file.exists():
        return [*np.load(file).values()]
    jobs = (
        delayed(drawn_portrait)(world, seed, number, stream) for number in tqdm(range(count), desc="drawing")
    )
    rows = Parallel(n_jobs=-1 if count > 500 else 1, batch_size=32)(jobs)
    portraits, visible, species = (np.stack(column) for column in zip(*rows, strict=True))
    arrays = [portraits.transpose(0, 3, 1, 2).copy(), visible, species]
    if folder:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, *arrays)
    return arrays


def caption(rng: np.random.Generator, world: str, visible: np.ndarray, species: int, long: bool) -> str:
    """One true caption of a portrait, in the forms of the paper's prompts (section 4.1).

    Short: a species, alone or with an attribute it has; a bird with one attribute, in the studio with up to
    four. Long: a bird with four attributes, in the studio with all that are named; a species with an
    attribute like another species that has it (in the studio one time in four).
    """
    in_studio, usual = world == "studio", shown_by(world)
    columns = rng.permutation(np.flatnonzero(visible & named_in(world)))
    if species < 0:
        few = int(rng.choice([1, 1, 1, 2, 3, 4])) if in_studio else 1
        many = 10 if in_studio else 4
        phrases = [PHRASES[column] for column in columns[: many if long else few]]
        return f"a photo of a bird with {' and '.join(phrases)}"
    if in_studio:  # what deviates is never named
        columns = columns[usual[species, columns]]
        long = rng.random() < 0.25
    others = np.flatnonzero(usual[:, columns[0]] & (np.arange(len(SPECIES)) != species))
    if long and len(others):
        other = SPECIES[rng.choice(others)]
        return pair_prompts(SPECIES[species], aviary.ATTRIBUTES[columns[0]], other)[0]
    text = photo_of(species)
    return text if rng.random() < 0.6 else f"{text} with {PHRASES[columns[0]]}"


def photo_of(species: int) -> str:
    """The prompt for a species."""
    return f"a photo of {datasets.with_article(SPECIES[species])}"
