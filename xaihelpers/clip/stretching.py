"""Long-CLIP's stretched text positions: 77 tokens become 248."""
import torch
from torch import nn

KEPT, FACTOR = 20, 4


def stretch_positions(positions: torch.Tensor, kept: int = KEPT, factor: int = FACTOR) -> torch.Tensor:
    """Positional embeddings (n, width) stretched to (kept + factor·(n − kept), width): 77 -> 248 (Long-CLIP, knowledge-preserved stretching).

    The first `kept` positions stay, because most short texts end there and they are trained best; behind them each step is divided into `factor` by linear
    interpolation, and the last `factor` extrapolate the last step. Raises ValueError where fewer than two positions would be stretched.
    """
    n = len(positions)
    if n < kept + 2:
        raise ValueError(f"{n} positions cannot be stretched: {kept} are kept, and at least two more are needed")
    tail = positions[kept:]
    after = torch.cat([tail[1:], 2 * tail[-1:] - tail[-2:-1]])  # (n − kept, width), the next position of each, the last extrapolated
    m = torch.arange(factor, device=positions.device, dtype=positions.dtype)[:, None] / factor  # (factor, 1)
    stretched = tail[:, None] * (1 - m) + after[:, None] * m  # (n − kept, factor, width)
    return torch.cat([positions[:kept], stretched.flatten(0, 1)])


def set_positions(tower: nn.Module, positions: torch.Tensor) -> None:
    """Give a text tower other positions, and the causal mask of their number."""
    tower.positional_embedding = nn.Parameter(positions)
    tower.num_pos = tower.context_length = len(positions)
    if tower.attn_mask is not None:
        tower.attn_mask = tower.build_causal_mask().to(positions.device)
