"""Where attention maps lie, of drawn and of photographed objects alike, and how alike two maps are.

Not in paper autoxplain, which shows maps and asks a judge. v is a map, upsampled to the picture, p* its
hottest pixel, B the pixels in the object's bounding box (or of the object):

    attention in B      sum of v over B / sum of v
    B at equal area     share of the |B| hottest pixels that lie in B
    hottest in B        p* in B: the pointing game (Zhang et al. 2016)
    likeness            Spearman's correlation of two maps, cell by cell
"""

import numpy as np
import torch
from scipy.stats import rankdata

from xaihelpers.masks import upsample_maps
from xaihelpers.scores.autoxplain import attention_inside, inside_at_equal_area


def localisation(
    maps: torch.Tensor, boxes: torch.Tensor, objects: torch.Tensor | None = None
) -> dict[str, np.ndarray]:
    """Measure -> (N,) in %, NaN where a map is constant, or where the truth is not known.

    maps: (N, h, w), of any resolution. boxes: (N, H, W) bool, without a pixel where no box is known.
    objects: (N, H, W) bool; None where nobody drew them.
    """
    boxes = boxes.cpu()
    objects = torch.zeros_like(boxes) if objects is None else objects.cpu()
    whole = upsample_maps(maps, boxes.shape[1:]).cpu()  # (N, H, W)
    hottest = whole.flatten(1).argmax(1, keepdim=True)
    found = {
        "attention in the box": (attention_inside(whole, boxes), boxes),
        "box at equal area": (inside_at_equal_area(whole, boxes), boxes),
        "hottest pixel in the box": (boxes.flatten(1).gather(1, hottest)[:, 0].float(), boxes),
        "object at equal area": (inside_at_equal_area(whole, objects), objects),
    }
    varied = whole.amax((1, 2)) > whole.amin((1, 2))
    for measure, (values, place) in found.items():
        known = place.flatten(1).any(1)
        found[measure] = (100 * values).where(known & varied, torch.nan).numpy()
    return found


def map_correlations(one: torch.Tensor, other: torch.Tensor) -> np.ndarray:
    """Spearman's correlation of maps (N, h, w) in pairs, (N,); NaN where one of a pair is constant."""
    ranks = [rankdata(maps.flatten(1).cpu().numpy(), axis=1) for maps in (one, other)]
    a, b = (rank - rank.mean(1, keepdims=True) for rank in ranks)
    norm = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return np.divide((a * b).sum(1), norm, out=np.full(len(a), np.nan), where=norm > 0)
