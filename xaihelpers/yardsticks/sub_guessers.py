"""Who knows nothing of a substitution (paper sub), and who knows all: what each says, as probabilities.

| name | what it says |
|---|---|
| reciter | the label of the bird's class |
| vocabulary | every attribute that the benchmark substitutes, of every picture |
| commonest value | in each group what most training birds have |
| coin | heads or tails for each concept, in each draw anew |
| colours anywhere | how much of a colour the picture has, bird or not: `colours_anywhere` |
| the truth | the label of the class with the one change made; of ordinary birds their own label |

The first four never look; who counts colours sees no bird and no part. Not in the paper, but the coin.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.colors import to_rgb
from torch import Tensor

from xaihelpers.datasets.dataset import Dataset
from xaihelpers.datasets.images import load_image
from xaihelpers.datasets.labels import class_concepts, concept_labels
from xaihelpers.scores.sub import group_argmax

# CUB's colours as the XKCD survey names them; iridescence is no colour
COLOURS = {
    name: np.array(to_rgb("xkcd:" + {"rufous": "rust"}.get(name, name)))
    for name in "blue brown purple rufous grey yellow olive green pink orange black white red buff".split()
}


def colour_shares(files: Sequence) -> Tensor:
    """The share of each picture's pixels to which each of `COLOURS` is the nearest, (N, colours).

    Raises DatasetError for a file that cannot be read.
    """
    centres, shares = np.stack([*COLOURS.values()]), []
    for file in files:
        pixels = np.asarray(load_image(file).convert("RGB").resize((48, 48))).reshape(-1, 1, 3) / 255
        nearest = np.square(pixels - centres).sum(2).argmin(1)
        shares.append(np.bincount(nearest, minlength=len(centres)) / len(nearest))
    return torch.tensor(np.array(shares)).reshape(-1, len(centres))


def colours_anywhere(shares: Mapping[str, Tensor], concepts: Sequence[str]) -> dict[str, Tensor]:
    """Place -> what is said of the L concepts by the amount of a colour in a picture, (1, ., L) of 0 to 1.

    A colour is as probable, for whatever part, as it is more frequent than in the ordinary pictures, which
    are those of the place "real"; what is no colour has 0.

    shares: place -> of `colour_shares`.
    """
    usual = shares["real"].sort(0).values.T.contiguous()  # (colours, M)
    values = [name.partition("::")[2] for name in concepts]
    column = [[*COLOURS].index(value) if value in COLOURS else -1 for value in values]
    found = {}
    for place, of_place in shares.items():
        mine = of_place.T.contiguous()
        below = torch.searchsorted(usual, mine) + torch.searchsorted(usual, mine, right=True)
        ranks = below.T.float() / (2 * usual.shape[1])  # (., colours)
        found[place] = torch.cat([ranks, torch.zeros(len(ranks), 1)], 1)[:, column][None]
    return found


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
