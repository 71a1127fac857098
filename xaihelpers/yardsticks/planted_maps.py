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


def plant_maps(
    fault: str, dose: float, maps: torch.Tensor, parts: Sequence[Sequence[int]], seed: int = 0
) -> torch.Tensor:
    """Maps (N, L, h, w) of which a share of the images has a fault; honest ones where the dose is 0.

    maps: of `part_maps`. parts: L tuples, of the part that each concept lies on.
    seed: of the images that are afflicted.
    Raises ValueError for an unknown fault and a dose outside 0 to 1.
    """
    if fault not in (*MAP_FAULTS, RANDOM_MAP):
        raise ValueError(f"there is no fault {fault!r}: choose among {', '.join((*MAP_FAULTS, RANDOM_MAP))}")
    if not 0 <= dose <= 1:
        raise ValueError(f"a dose lies between 0, honest, and 1, not at {dose}")
    generator = torch.Generator().manual_seed(seed)
    afflicted = torch.randperm(len(maps), generator=generator) < round(dose * len(maps))
    false = torch.rand(maps.shape, generator=generator)
    if fault == "map of the centre":
        false = centre_maps(maps.shape[-1]).expand_as(maps)
    elif fault == "map of another part":
        places = sorted(set(map(tuple, parts)))
        lent = [tuple(part) for part in parts]
        next_place = {place: places[(number + 1) % len(places)] for number, place in enumerate(places)}
        false = maps[:, [lent.index(next_place[place]) for place in lent]]
    return torch.where(afflicted[:, None, None, None], false, maps)


def centre_maps(cells: int = CELLS) -> torch.Tensor:
    """A round patch in the middle, (1, 1, cells, cells)."""
    along = (torch.arange(cells) + 0.5) / cells - 0.5
    return torch.exp(-(along[:, None] ** 2 + along**2) / (2 * 0.125**2))[None, None]


def shares_on_object(outputs: ConceptOutputs, maps: torch.Tensor, masks: np.ndarray) -> list[np.ndarray]:
    """What an honest judge goes by: shares (n,) of a map's hottest pixels that lie on the object.

    Of the map of each decision, the concepts' maps by the weights of the predicted class; and of one known to
    be wrong, the middle of the picture turned inside out.

    outputs: of n images. maps: (n, L, h, w). masks: (n, H, W) int, 0 beside the object.
    """
    decisive = torch.einsum("nl,nlhw->nhw", outputs.class_weights.T[outputs.predictions], maps)
    wrong = (1 - centre_maps(maps.shape[-1]))[0].expand_as(decisive)
    shares = []
    for shown in (decisive, wrong):
        large = F.interpolate(shown[:, None], masks.shape[1:], mode="bilinear")[:, 0]
        shares.append(inside_at_equal_area(large, torch.from_numpy(masks > 0)).numpy())
    return shares


def planted_judgements(
    fault: str, dose: float, on_object: np.ndarray, on_object_wrong: np.ndarray, seed: int = 0
) -> pd.DataFrame:
    """The columns score and control, from 0 to 5, of a judge that is honest at a dose of 0.

    fault: one of JUDGE_FAULTS. on_object, on_object_wrong: (n,) from 0 to 1, the shares of the shown
        attention on the object, and of that of a map known to be wrong.
    seed: of the images that are afflicted and of what is drawn.
    Raises ValueError for an unknown fault and a dose outside 0 to 1.
    """
    if fault not in JUDGE_FAULTS:
        raise ValueError(f"there is no fault {fault!r}: choose among {', '.join(JUDGE_FAULTS)}")
    if not 0 <= dose <= 1:
        raise ValueError(f"a dose lies between 0, honest, and 1, not at {dose}")
    rng, scores = np.random.default_rng(seed), {}
    afflicted = rng.permutation(len(on_object)) < round(dose * len(on_object))
    honest = {"score": on_object, "control": on_object_wrong}
    honest = {name: STEP * np.round(5 * shares / STEP) for name, shares in honest.items()}
    for name, values in honest.items():
        false = np.maximum(values, GENEROUS)
        if fault == "blind judge":
            false = rng.choice(honest["score"], len(values))
        scores[name] = np.where(afflicted, false, values)
    return pd.DataFrame(scores)


def planted_evidence(
    fault: str,
    dose: float,
    maps: torch.Tensor,
    parts: Sequence[Sequence[int]],
    shares: Sequence[np.ndarray],
    seed: int = 0,
) -> dict[str, torch.Tensor | pd.DataFrame]:
    """What a page is given of maps with a fault, or of a judge's scores: `maps` or `judgements`.

    maps, parts: as `plant_maps` takes them. shares: of `shares_on_object`.
    Raises ValueError for an unknown fault and a dose outside 0 to 1.
    """
    if fault in JUDGE_FAULTS:
        return {"judgements": planted_judgements(fault, dose, *shares, seed)}
    return {"maps": plant_maps(fault, dose, maps, parts, seed)}
