"""Exact substitutions: random drawn birds before and after one attribute is changed, as a benchmark."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.labels import class_concepts
from xaihelpers.datasets.sub_benchmark import write_sub
from xaihelpers.substitute.counterfactual import counterfactual_pair, portrait_of
from xaihelpers.substitute.pair_prompts import group_of, substitutable


def write_exact(
    folder: str | Path, world: Dataset, attributes: Sequence[str], n: int, seed: int = 0, portrait: int = 64
) -> list[tuple[Image.Image, Image.Image]]:
    """Write n exact substitutions as a benchmark, of `write_sub`, with before and removed.

    Each is a species and one of the attributes that it lacks and could show, drawn at random. What is gone is
    read off the renderer, in the group that was changed.

    world: a drawn one. attributes: names (group::value) that may be given. portrait: pixels.
    Returns the n birds cut out of their pictures, after and before.
    Raises DatasetError for a world that is not drawn or n below 1, and as `counterfactual_pair` does.
    """
    if not world.drawn or n < 1:
        raise DatasetError(
            f"{n} exact substitutions of {world.name}: 1 or more can be drawn, of a drawn world; else name a "
            "benchmark of substituted birds"
        )
    names = world.attributes["name"].tolist()
    takes = substitutable(world) & (class_concepts(world, names, "hard").T < 0.5)
    takes = takes[:, [names.index(name) for name in attributes]].numpy()
    chosen = np.random.default_rng([seed, 53]).choice(np.argwhere(takes), n)
    birds = [world.class_names[species] for species, _ in chosen]
    given = [attributes[column] for _, column in chosen]
    pairs, removed = [], []
    for row, (bird, attribute) in enumerate(zip(birds, given, strict=True)):
        pairs.append(counterfactual_pair(9000 + seed, row, bird, attribute))
    for pair, attribute in zip(pairs, given, strict=True):
        lost = [names[column] for column in (pair.truth_before & ~pair.truth).nonzero()[:, 0]]
        removed.append([name for name in lost if group_of(name) == group_of(attribute)])
    after, before = ([Image.fromarray(pair[when].image) for pair in pairs] for when in (1, 0))
    more = {"before": before, "removed": removed}
    write_sub(folder, after, given, birds, attributes, world.class_names, **more)
    return [(portrait_of(pair.after, portrait), portrait_of(pair.before, portrait)) for pair in pairs]
