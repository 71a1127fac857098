"""Who knows nothing of a substitution (paper sub), and who knows all: what each says, as probabilities.

| name | what it says |
|---|---|
| reciter | the label of the bird's class |
| vocabulary | every attribute that the benchmark substitutes, of every picture |
| commonest value | in each group what most training birds have |
| coin | heads or tails for each concept, in each draw anew |
| the truth | the label of the class with the one change made; of ordinary birds their own label |

The first four never look. Not in the paper, but the coin.
"""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from xaihelpers.datasets.dataset import Dataset
from xaihelpers.datasets.labels import class_concepts, concept_labels
from xaihelpers.scores.sub import group_argmax


def guessers(
    images: pd.DataFrame,
    world: Dataset,
    concepts: Sequence[str],
    removed: Tensor,
    vocabulary: Sequence[str],
    draws: int = 1,
    seed: int = 0,
) -> dict[str, dict[str, Tensor]]:
    """Name -> place -> what it says of the L concepts, (D, ., L) of 0 to 1, D > 1 of the coin alone.

    Places are the N birds after and before the change, and the ordinary test birds ("real").

    images: of `sub.benchmark_images`. removed: bool (N, L), what is gone. vocabulary: attributes that are
    substituted. draws, seed: of the coin. Raises DatasetError as `concept_labels` does.
    """
    concepts, test = list(concepts), ~world.train
    of_class = class_concepts(world, concepts, "hard").T > 0.5  # (K, L)
    names = world.attributes["name"].tolist()
    n_train = world.labels[world.train].bincount(minlength=len(of_class))
    counts = (class_concepts(world, names, "hard") * n_train).sum(1)
    usual = group_argmax(counts[None], names)[0, [names.index(name) for name in concepts]]
    rows = torch.tensor(images.label.tolist())
    new = torch.tensor([[name == given for name in concepts] for given in images.attribute])
    own = concept_labels(world, concepts, world.attribute_level)[test] > 0.5
    true_of = {"after": (rows, of_class[rows] & ~removed | new), "before": (rows, of_class[rows])}
    true_of["real"] = world.labels[test], own
    listed = torch.tensor([name in set(vocabulary) for name in concepts])
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for place, (some, truth) in true_of.items():
        said = {"reciter": of_class[some], "vocabulary": listed.expand(len(some), -1)}
        said["commonest value"] = usual.expand(len(some), -1)
        said["coin"] = torch.rand(draws, len(some), len(concepts), generator=generator)
        said["the truth"] = truth
        for name, values in said.items():
            found.setdefault(name, {})[place] = values.float().reshape(-1, *values.shape[-2:])
    return found
