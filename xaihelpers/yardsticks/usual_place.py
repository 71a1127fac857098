"""What the form of a map's light says of its overlap, with the place where what is named usually is.

It sees neither picture nor object, and is what a judge of maps has to lead (not in paper autoxplain).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.ensemble import RandomForestRegressor

from xaihelpers.datasets import Dataset
from xaihelpers.models import crop_masks
from xaihelpers.saliency.networks_compared import Compared, attend_all
from xaihelpers.scores.autoxplain import soft_iou
from xaihelpers.yardsticks.attention_studies import SIDE, lit_cases


def overlap_by_place(
    lit: torch.Tensor,
    named: Sequence[str],
    explained: Mapping[str, Compared],
    data: Dataset,
    rows: Sequence[int],
    method: str,
    alpha: float = 25.0,
    beta: float = 0.4,
    seed: int = 0,
) -> np.ndarray | None:
    """The overlap of maps and objects as a random forest tells it from maps of other pictures, (N,).

    lit: (N, SIDE, SIDE) bool, as of `lit_cases`. named: the class of each map, in plain words.
    explained: the networks, of whose maps at `rows`, other pictures, is learnt. method, alpha, beta: of all
        maps. seed: of the forest.
    None where nobody knows the objects, and of files of maps.
    """
    masks = crop_masks(next(iter(explained.values())).network, data, rows)
    if masks is None or any(one.network.model is None for one in explained.values()):
        return None
    cases, known = lit_cases(attend_all(explained, data, rows, method), data, alpha, beta)
    things = F.interpolate((masks > 0).float()[:, None], (SIDE, SIDE))[:, 0]
    labels = [data.class_names[label] if label >= 0 else "" for label in data.labels[rows].tolist()]
    forest = RandomForestRegressor(200, min_samples_leaf=3, random_state=seed)
    # a picture does not count to the usual place that its own maps are learnt with
    usual = _usual_places(things, labels, cases.object.tolist(), cases.place.to_numpy())
    forest.fit(_form(known, usual), cases.overlap)
    return forest.predict(_form(lit, _usual_places(things, labels, named)))


def _usual_places(
    things: torch.Tensor, labels: Sequence[str], named: Sequence[str], own: np.ndarray | None = None
) -> torch.Tensor:
    """Where objects of these classes are on average, (N, SIDE, SIDE), in other pictures than `own` (N,)."""
    weights = np.equal.outer(np.asarray(named), np.asarray(labels)).astype(np.float32)
    if own is not None:
        weights[np.arange(len(own)), own] = 0
    weights[weights.sum(1) == 0] = 1  # of a name without pictures those of all
    weights = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    return torch.einsum("ab,bxy->axy", weights, things)


def _form(lit: torch.Tensor, place: torch.Tensor) -> np.ndarray:
    """Area, overlap with a place in two ways, middle and spread along both sides, (N, 7)."""
    lit = lit.float()
    share = lit / lit.sum((1, 2), keepdim=True).clamp(min=1)
    found, along = [lit.mean((1, 2)), (share * place).sum((1, 2)), soft_iou(lit, place)], torch.arange(SIDE)
    for axis in (1, 2):
        at = share.sum(axis)
        middle = (at * along).sum(1, keepdim=True)
        found += [middle[:, 0], (at * (along - middle) ** 2).sum(1).sqrt()]
    return torch.stack(found, 1).numpy()
