"""Lists of concepts that no model made, so that it is known what they are worth (not in the papers).

What does a score of concept lists reward: truth, rarity, its own taste, or what the species alone tells?
"""

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
