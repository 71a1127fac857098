"""Portraits and prompts whose truth is known, by which the reader and the pipeline are measured.

An attribute is a column of the 312; -1 stands for none.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch
from diffusers import FluxPipeline
from PIL import Image
from torch import nn

from recipes.flux_training.training_portraits import (
    GROUP_OF,
    HELD,
    PHRASES,
    SIZE,
    SPECIES,
    photo_of,
    shown_by,
    taken_by,
)
from worlds import aviary, studio
from xaihelpers import scores, substitute

GROUPS = np.array(GROUP_OF)
RANDOM, OF_SPECIES = "birds with random attributes", "birds of a species"
SUBSTITUTED = "a species, one attribute substituted"
# kinds of prompts
ALONE, WITH_OWN, ANY_BIRD = "a species", "a species with its own", "a bird with an attribute"
WITH_ANOTHERS = "a species with another's"
KINDS = [ALONE, WITH_OWN, ANY_BIRD, WITH_ANOTHERS]


def choices_in(world: str) -> list[int]:
    """Columns of the colours and patterns of parts that some species shows."""
    found = []
    for column, name in enumerate(aviary.ATTRIBUTES):
        is_shape = substitute.category(name) == "shape"
        if shown_by(world)[:, column].any() and not is_shape and GROUP_OF[column] not in substitute.WHOLE:
            found.append(column)
    return found


def one_of(rng: np.random.Generator, columns: Sequence[int]) -> int:
    """One of the columns at random, -1 where there is none."""
    return int(rng.choice(columns)) if len(columns) else -1


def substituted_portrait(
    world: str, seed: int, number: int, label: int, attribute: str
) -> tuple[Image.Image, np.ndarray]:
    """A bird with one attribute substituted: its portrait, its attributes (312,) bool."""
    if world == "studio":
        place = number % len(studio.PLACES)
        bird = aviary.substitute(studio.studio_bird(place, label), attribute)
        return studio.studio_portrait(aviary.draw(bird), SIZE), aviary.true_attributes(bird)
    pair = substitute.counterfactual_pair(HELD + seed, number, SPECIES[label], attribute)
    return substitute.portrait_of(pair.after, SIZE), pair.truth.numpy()


def reader_trials(
    rng: np.random.Generator, world: str, seed: int, held: Sequence[np.ndarray], n_changed: int
) -> tuple[list[Image.Image], pd.DataFrame]:
    """Held-out portraits, behind them species with exactly one attribute substituted; and a row of each.

    A row has kind (RANDOM, OF_SPECIES or SUBSTITUTED), species (-1 of random birds), present, a column that
    is there, and absent, one that is not while another of its group is: if substituted, what the species has.

    held: pixels, visible and species, as `drawn_birds` gives them. n_changed: how many are substituted.
    """
    pixels, visible, species = held
    usual, takes, choices = shown_by(world), taken_by(world), choices_in(world)
    trials = pd.DataFrame({"kind": np.where(species < 0, RANDOM, OF_SPECIES), "species": species})
    trials["present"] = [one_of(rng, [j for j in choices if shown[j]]) for shown in visible]
    absent = []
    for shown in visible:
        others = [j for j in choices if not shown[j] and shown[GROUPS == GROUP_OF[j]].any()]
        absent.append(one_of(rng, others))
    trials["absent"] = absent
    portraits, changed = [Image.fromarray(portrait) for portrait in pixels.transpose(0, 2, 3, 1)], []
    for number in range(n_changed):
        label = int(rng.choice(np.flatnonzero(usual.any(1))))
        target = one_of(rng, [j for j in choices if takes[label, j]])
        portrait, truth = substituted_portrait(world, seed, number, label, aviary.ATTRIBUTES[target])
        replaced = one_of(rng, np.flatnonzero(usual[label] & (GROUPS == GROUP_OF[target]) & ~truth))
        changed.append({"kind": SUBSTITUTED, "species": label, "present": target, "absent": replaced})
        portraits.append(portrait)
    return portraits, pd.concat([trials, pd.DataFrame(changed)], ignore_index=True)


def asked_for(rng: np.random.Generator, kind: str) -> tuple[str, int, int]:
    """Prompt, species (-1: any) and column (-1: none) of one image of the studio, of a kind of `KINDS`."""
    usual, takes, choices = shown_by("studio"), taken_by("studio"), choices_in("studio")
    species = int(rng.choice(np.flatnonzero(usual.any(1))))
    if kind == ALONE:
        return photo_of(species), species, -1
    if kind == ANY_BIRD:
        column = one_of(rng, choices)
        return f"a photo of a bird with {PHRASES[column]}", -1, column
    fitting = usual[species] if kind == WITH_OWN else takes[species]
    column = one_of(rng, [j for j in choices if fitting[j]])
    return f"{photo_of(species)} with {PHRASES[column]}", species, column


def reading_table(reader: nn.Module, pictures: dict[str, list], trials: pd.DataFrame) -> pd.DataFrame:
    """What a reader sees of trials, in %: pictures ("rendered", "restored"), of, metric and an Interval.

    Is what is there seen, what is not there, and the right species?
    """
    rows = []
    for source, images in pictures.items():
        reading = substitute.read_attributes(reader, images)
        measures = {}
        for metric, columns in (("there", trials.present), ("not there", trials.absent)):
            shown = substitute.is_shown(reading, columns.clip(0).tolist())
            measures[f"sees what is {metric} (%)"] = shown.numpy(), columns >= 0
        named = reading.species.argmax(1).numpy() == trials.species
        measures["species right (%)"] = named, trials.kind != RANDOM
        for kind, (metric, (right, is_asked)) in product(trials.kind.unique(), measures.items()):
            of_kind = right[is_asked & (trials.kind == kind)]
            if len(of_kind):
                share = scores.interval(100.0 * of_kind, bounds=scores.PERCENT)._asdict()
                rows.append({"pictures": source, "of": kind, "metric": metric} | share)
    return pd.DataFrame(rows)


def generated_table(pipe: FluxPipeline, reader: nn.Module, n_images: int) -> pd.DataFrame:
    """What a reader sees of `n_images` generated for each kind of prompt: prompt, metric, an Interval, in %.

    Is the attribute shown, is the species named first, and how much of its other plumage is there? Only what
    the prompt asks for is measured.
    """
    rng, rows, usual = np.random.default_rng(HELD), [], shown_by("studio")
    asked_of = {kind: [asked_for(rng, kind) for _ in range(n_images)] for kind in KINDS}
    for kind, asked in asked_of.items():
        prompts, species, columns = (list(values) for values in zip(*asked, strict=True))
        images = substitute.generate(pipe, prompts, range(10**6, 10**6 + n_images))
        reading, measures = substitute.read_attributes(reader, images), {}
        if kind != ALONE:
            chance = np.mean([1 / (GROUPS == GROUP_OF[j]).sum() for j in columns])
            measures["attribute shown (%)"] = substitute.is_shown(reading, columns).float(), chance
        if kind != ANY_BIRD:
            named = reading.species.argmax(1) == torch.tensor(species)
            names = [aviary.ATTRIBUTES[j] for j in columns] if kind != ALONE else ()
            rest = substitute.plumage_preserved(reading, torch.from_numpy(usual)[species], names)
            measures["species right (%)"] = named.float(), 1 / usual.any(1).sum()
            measures["rest of the plumage (%)"] = rest, np.nan
        for metric, (shares, chance) in measures.items():
            share = scores.interval(100 * shares, bounds=scores.PERCENT)._asdict()
            rows.append({"prompt": kind, "metric": metric, **share, "chance": 100 * chance})
    return pd.DataFrame(rows)
