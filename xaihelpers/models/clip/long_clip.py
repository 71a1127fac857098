"""Long-CLIP's stretched text positions: 77 tokens become 248.

Zhang et al. 2024, "Long-CLIP: Unlocking the Long-Text Capability of CLIP", knowledge-preserved stretching;
paper conceptscore, section 3.2, scores with it. With a = kept and r = factor:

    p'_i          = p_i                                             for i < a
    p'_{a+rj+m}   = ((r − m) p_{a+j} + m p_{a+j+1}) / r             for m = 0 … r − 1

| symbol | name | shape |
|---|---|---|
| p, positional embeddings | `positions` | (n, width) |
| p', stretched | the result | (a + r (n − a), width) |
| a, positions that stay | `kept` | scalar, 20 |
| r, factor of the stretching | `factor` | scalar, 4 |
"""

import torch
from torch import nn

KEPT, FACTOR = 20, 4


def stretch_positions(positions: torch.Tensor, kept: int = KEPT, factor: int = FACTOR) -> torch.Tensor:
    """Positional embeddings stretched by linear interpolation: 77 become 248.

    The first `kept` positions stay, because most short texts end there and they are trained best. The last
    `factor` positions extrapolate the last step.

    positions: (n, width).
    Returns (kept + factor · (n − kept), width).
    Raises ValueError: fewer than two positions would be stretched.
    """
    n = len(positions)
    if n < kept + 2:
        raise ValueError(
            f"{n} positions cannot be stretched: {kept} are kept, and at least two more are needed"
        )
    current = positions[kept:]  # (n − kept, width)
    extrapolated = 2 * current[-1:] - current[-2:-1]
    following = torch.cat([current[1:], extrapolated])  # (n − kept, width)
    share = torch.arange(factor, device=positions.device, dtype=positions.dtype)[:, None] / factor
    stretched = current[:, None] * (1 - share) + following[:, None] * share  # (n − kept, factor, width)
    return torch.cat([positions[:kept], stretched.flatten(0, 1)])


def set_positions(tower: nn.Module, positions: torch.Tensor) -> None:
    """Give a text tower of open_clip other positional embeddings (n, width), and a causal mask to match."""
    tower.positional_embedding = nn.Parameter(positions)
    tower.num_pos = tower.context_length = len(positions)
    if tower.attn_mask is not None:
        tower.attn_mask = tower.build_causal_mask().to(positions.device)
