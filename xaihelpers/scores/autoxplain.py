"""Attention confusion matrix, and overlap of attention and object.

Paper autoxplain, sections 3.3 and 4.1. The measures that ask the model again are in `saliency.perturbation`;
correlations and areas under a curve are `scores.interval`'s.
"""

import numpy as np
import pandas as pd
import torch

from xaihelpers.scores.intervals import PERCENT, interval

CELLS = ("CH", "CL", "WH", "WL")  # correct or wrong prediction, high or low score


def attention_matrix(correct, scores, threshold: float = 2.5, clusters=None, draws=None) -> pd.DataFrame:
    """The attention confusion matrix and the average score (section 3.3).

    correct: (N,) bool, whether the prediction is right.
    scores: (N,) from 0 to 5, NaN where the judge gave none; these are left out.
    threshold: scores from here on are high. clusters, draws: (N,), as of `scores.interval`.
    Returns rows CH, CL, WH and WL in %, and Avg, with the columns metric and those of an Interval.
    """
    correct, scores = np.asarray(correct, bool), np.asarray(scores, float)
    scored = ~np.isnan(scores)
    correct, scores = correct[scored], scores[scored]
    factors = {"clusters": clusters, "draws": draws}
    factors = {name: np.asarray(of)[scored] for name, of in factors.items() if of is not None}
    high = scores >= threshold
    cells = {"CH": correct & high, "CL": correct & ~high, "WH": ~correct & high, "WL": ~correct & ~high}
    intervals = {name: interval(100.0 * cells[name], bounds=PERCENT, **factors) for name in CELLS}
    intervals["Avg"] = interval(scores, bounds=(0, 5), **factors)
    return pd.DataFrame([{"metric": name, **of_cell._asdict()} for name, of_cell in intervals.items()])


def soft_iou(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Soft intersection over union, (N,) in [0, 1]: the sum of the lesser over the sum of the greater.

    It has no threshold, so no mask is favoured.

    maps: attention (N, H, W) in [0, 1]. object_pixels: (N, H, W) bool.
    """
    object_pixels = object_pixels.float()
    intersection = torch.minimum(maps, object_pixels).sum((1, 2))
    return intersection / torch.maximum(maps, object_pixels).sum((1, 2))


def attention_inside(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Share of the attention (N, H, W) on the object's pixels (N, H, W) bool, (N,); NaN without attention."""
    return (maps * object_pixels).sum((1, 2)) / maps.sum((1, 2))


def inside_at_equal_area(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Share of a map's hottest pixels, as many as the object has, that lie on the object, (N,) in [0, 1].

    Every map shows the same area, so a sparse one gains nothing (not in the paper). Pixels that tie at the
    area's edge count by the share of them that it takes; NaN without an object.

    maps: (N, H, W). object_pixels: (N, H, W) bool.
    """
    inside = []
    for values, is_object in zip(maps.flatten(1), object_pixels.flatten(1).bool(), strict=True):
        count = int(is_object.sum())
        if not count:
            inside.append(maps.new_tensor(torch.nan))
            continue
        level = values.topk(count).values[-1]
        above, at = values > level, values == level
        left = (count - above.sum()) / at.sum()
        inside.append(((above & is_object).sum() + left * (at & is_object).sum()) / count)
    return torch.stack(inside)
