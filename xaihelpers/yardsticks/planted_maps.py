"""Concept maps that show each concept's own part, and what may be false of them or of their judge.

| fault | what is false | d is the share of |
|---|---|---|
| map of another part | the map shows another part | images |
| map of the centre | the map shows the middle of the picture | images |
| random map | the map is noise: it knows nothing | images |
| generous judge | no map is scored below GENEROUS | images |
| blind judge | a score is drawn from those of all maps | images |

The honest judge scores the share of the shown attention on the object, in the steps of the paper's prompt; a
map known to be wrong, the middle of the picture turned inside out, is its control.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torchvision.transforms.functional import gaussian_blur

from xaihelpers.outputs import ConceptOutputs
from xaihelpers.saliency.methods import scaled_maps
from xaihelpers.saliency.nulls import centre_map
from xaihelpers.scores.autoxplain import inside_at_equal_area

MAP_FAULTS = ("map of another part", "map of the centre")
RANDOM_MAP = "random map"
JUDGE_FAULTS = ("generous judge", "blind judge")
CELLS = 14  # of a map's side
GENEROUS = 4.0
STEP = 0.5  # of the scores from 0 to 5


def part_maps(masks: np.ndarray, parts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Maps (N, L, CELLS, CELLS) in [0, 1] that show each concept's part, the whole object where it has none.

    masks: (N, H, W) int, the number of the part at each pixel, 0 beside the object.
    parts: L tuples of such numbers. A part that an image does not show leaves the map empty.
    """
    shown = {}
    for numbers in dict.fromkeys(map(tuple, parts)):
        region = np.isin(masks, numbers) if numbers else masks > 0
        coarse = F.adaptive_avg_pool2d(torch.from_numpy(region).float()[:, None], CELLS)
        shown[numbers] = scaled_maps(gaussian_blur(coarse, 5, 1.0)[:, 0])[0]
    return torch.stack([shown[tuple(numbers)] for numbers in parts], 1)


def inside(maps: torch.Tensor, objects: torch.Tensor) -> torch.Tensor:
    """Share of the hottest pixels of maps (n, h, w) that lie on objects (n, H, W) bool, (n,)."""
    large = F.interpolate(maps[:, None], objects.shape[1:], mode="bilinear")[:, 0]
    return inside_at_equal_area(large, objects)


def decisive_maps(outputs: ConceptOutputs, maps: torch.Tensor) -> torch.Tensor:
    """The concepts' maps (n, L, h, w) by the weights of the predicted class, (n, h, w)."""
    return torch.einsum("nl,nlhw->nhw", outputs.class_weights.T[outputs.predictions], maps)


def shares_on_object(outputs: ConceptOutputs, maps: torch.Tensor, masks: np.ndarray) -> list[np.ndarray]:
    """What an honest judge goes by: shares (n,) of a map's hottest pixels that lie on the object.

    Of the map of each decision; and of one known to be wrong, the middle of the picture turned inside out.

    outputs: of n images. maps: (n, L, h, w). masks: (n, H, W) int, 0 beside the object.
    """
    decisive, objects = decisive_maps(outputs, maps), torch.from_numpy(masks > 0)
    wrong = (1 - centre_map(*maps.shape[2:])).expand_as(decisive)
    return [inside(shown, objects).numpy() for shown in (decisive, wrong)]


def planted_evidence(
    fault: str,
    dose: float,
    maps: torch.Tensor,
    parts: Sequence[Sequence[int]],
    shares: Sequence[np.ndarray],
    seed: int = 0,
) -> dict[str, torch.Tensor | pd.DataFrame]:
    """What a page is given of maps with a fault, or of a judge's scores; honest ones where the dose is 0.

    dose: 0 to 1. maps: of `part_maps`. parts: L tuples, of the part that each concept lies on.
    shares: of `shares_on_object`. seed: of the images that are afflicted and of what is drawn.
    Returns `maps` (N, L, h, w), or `judgements` with the columns score and control, from 0 to 5.
    """
    if fault in JUDGE_FAULTS:
        return {"judgements": _judgements(fault, dose, shares, seed)}
    generator = torch.Generator().manual_seed(seed)
    afflicted = torch.randperm(len(maps), generator=generator) < round(dose * len(maps))
    if fault == RANDOM_MAP:
        false = torch.rand(maps.shape, generator=generator)
    elif fault == "map of the centre":
        false = centre_map(*maps.shape[2:]).expand_as(maps)
    elif fault not in MAP_FAULTS:
        raise ValueError(f"there is no fault {fault!r}: choose among {', '.join(MAP_FAULTS + JUDGE_FAULTS)}")
    else:
        places = sorted(set(map(tuple, parts)))
        lent = [tuple(part) for part in parts]
        next_place = {place: places[(number + 1) % len(places)] for number, place in enumerate(places)}
        false = maps[:, [lent.index(next_place[place]) for place in lent]]
    return {"maps": torch.where(afflicted[:, None, None, None], false, maps)}


def _judgements(fault: str, dose: float, shares: Sequence[np.ndarray], seed: int) -> pd.DataFrame:
    """A judge's scores of the true maps and of the wrong ones."""
    honest = [STEP * np.round(5 * some / STEP) for some in shares]
    rng, scores = np.random.default_rng(seed), {}
    afflicted = rng.permutation(len(honest[0])) < round(dose * len(honest[0]))
    for name, values in zip(("score", "control"), honest, strict=True):
        false = np.maximum(values, GENEROUS)
        if fault == "blind judge":
            false = rng.choice(honest[0], len(values))
        scores[name] = np.where(afflicted, false, values)
    return pd.DataFrame(scores)
