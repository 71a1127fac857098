"""Lists of concepts that no model made, so that it is known what they are worth (not in the papers).

What does a score of concept lists reward: truth, rarity, its own taste, or what the species alone tells?
"""

from collections.abc import Sequence

import numpy as np
import torch

FIVE = 5


def highest(order: torch.Tensor, n: int = FIVE) -> torch.Tensor:
    """Indices of the n highest of the last axis, equal ones in order."""
    return order.argsort(dim=-1, descending=True, stable=True)[..., :n]


def known_lists(
    present: torch.Tensor,
    common: torch.Tensor,
    usual: torch.Tensor,
    liked: torch.Tensor,
    draws: int = 1,
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """Five of L concepts for each of N pictures: name -> indices (D, N, 5), D = `draws` where drawn, else 1.

    present: (N, L) of 0 and 1, what is true of a picture. common: (L,), how common a concept is in training.
    usual: (N, L), the same in the picture's predicted class. liked: (N, L), how a scorer likes a concept
    beside the picture. seed: of what is drawn.
    The first six know what is true of the picture; "species, …" know its predicted class, "constant" nothing,
    and "parrot" what the scorer likes.
    """
    drawn = torch.rand((draws, *present.shape), generator=torch.Generator().manual_seed(seed))
    rare, everywhere = highest(present - common, 3), common.expand_as(present)
    lies = highest(drawn - 2 * present, 2)  # false ones, drawn
    lists = {
        "five rarest true": highest(present - common),
        "five true, drawn": highest(2 * present + drawn),
        "five commonest true": highest(2 * present + common),
        "three rare, two false": torch.cat([rare.expand(draws, -1, -1), lies], 2),
        "three rare, two liked": torch.cat([rare, highest(liked - 2 * present, 2)], 1),
        "five false": highest(drawn - 2 * present),
        "species, usual": highest(usual + 1e-3 * common),
        "species, apart": highest(usual - common),
        "constant": highest(everywhere),
        "parrot": highest(liked),
    }
    return {name: indices if indices.ndim == 3 else indices[None] for name, indices in lists.items()}


def unusual_pairs(
    present: torch.Tensor, usual: torch.Tensor, groups: Sequence[str], seed: int = 0
) -> torch.Tensor:
    """Where a picture is unlike its species: what it has, and the usual, (N, 2) indices; −1 of none.

    The first is true of the picture and unusual, the second usual and false of it, both values of one
    attribute. Who recites the species finds the second better.

    present: (N, L) of 0 and 1. usual: (N, L), the share of the picture's species that has a concept.
    groups: L names of attributes. seed: of the choice where there are several.
    """
    rng, found = np.random.default_rng(seed), torch.full((len(present), 2), -1)
    is_usual, has = (usual > 0.5).numpy(), (present == 1).numpy()
    alike = np.equal.outer(np.asarray(groups), np.asarray(groups))  # (L, L)
    for n in range(len(present)):
        pairs = np.argwhere(np.outer(has[n] & ~is_usual[n], ~has[n] & is_usual[n]) & alike)
        if len(pairs):
            found[n] = torch.from_numpy(rng.choice(pairs))
    return found


def with_last(present: torch.Tensor, last: torch.Tensor, k: int = FIVE, seed: int = 0) -> torch.Tensor:
    """k concepts of each picture, (N, k): true ones, drawn without those of `last`, and `last[:, 0]`.

    present: (N, L) of 0 and 1. last: (N, m), of which the first is named and no other is.
    """
    order = torch.rand(present.shape, generator=torch.Generator().manual_seed(seed)) + 2 * present
    return torch.cat([highest(order.scatter(1, last, -1), k - 1), last[:, :1]], 1)


def exchanged_lists(
    present: torch.Tensor, usual: torch.Tensor, groups: Sequence[str], seed: int = 0
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Five statements of each picture, (N, 5), to be exchanged; and rows (n,) of those unlike their species.

    "true": drawn; "usual": of the species; "true, one unusual": where there is one, it is named.
    "unlike, true" and "unlike, usual", (n, 5), differ in it and in what is usual in its place, and false.
    present, usual, groups: as of `unusual_pairs`.
    """
    chance = torch.rand(present.shape, generator=torch.Generator().manual_seed(seed))
    pair = unusual_pairs(present, usual, groups, seed)
    (rows,) = torch.nonzero(pair[:, 0] >= 0, as_tuple=True)
    lists = {"true": highest(2 * present + chance), "usual": highest(usual + 1e-3 * chance)}
    of_rows = [with_last(present[rows], of, FIVE, seed) for of in (pair[rows], pair[rows].flip(1))]
    lists["true, one unusual"] = lists["true"].index_copy(0, rows, of_rows[0])
    return lists | dict(zip(("unlike, true", "unlike, usual"), of_rows, strict=True)), rows
