"""What is known of the light of attention maps: a row for each map of `attend_all` (paper autoxplain, 4.1).

A map's light is what keeps half of it or more under the mask of equation 1. Columns:

| column | meaning |
|---|---|
| image, item | the picture, and the map as the name of an item that people rate |
| object, right_name | the class in plain words, and whether it reads as the label |
| area, distance, brightness | lit share of the picture; mean distance of the light from the middle, in half |
| | sides; mean of the masked picture in [0, 1] |
| confidence | the network's probability of the class; NaN where it sees no pixels |
| overlap, coverage, precision | of attention and object, as of `soft_iou`; of the lit pixels; NaN where |
| | nobody knows the object |
| parts | share of each visible part that is lit, a dictionary; empty where nobody knows them |
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xaihelpers.datasets import Dataset, class_name
from xaihelpers.kernels.masking import attention_mask, mask_images, upsample_maps
from xaihelpers.models import crop_masks
from xaihelpers.models.layers import logits_of
from xaihelpers.saliency.attended import Attended
from xaihelpers.saliency.explained import BATCH, Explained
from xaihelpers.saliency.perturbation import perturb
from xaihelpers.scores.autoxplain import soft_iou
from xaihelpers.text_files import plain
from xaihelpers.yardsticks.statements import lit_shares

SIDE = 64  # of the lit pixels that are returned, one size for all networks
MEASURES = ["deletion and insertion", "average drop", "AOPC"]


def lit_cases(
    seen: Attended, data: Dataset, alpha: float = 25.0, beta: float = 0.4
) -> tuple[pd.DataFrame, torch.Tensor]:
    """The cases with both tables' columns, and the lit pixels (cases, SIDE, SIDE) bool."""
    found, lit_pixels = [], []
    for one, cases, maps, pixels in seen.by_map():
        upsampled = upsample_maps(maps, pixels.shape[2:])
        lit, light = upsampled >= beta, attention_mask(upsampled, alpha, beta)
        y, x = (torch.linspace(-1, 1, side) for side in light.shape[1:])
        away = torch.hypot(y[:, None], x[None])
        pictures = mask_images(pixels, maps, alpha=alpha, beta=beta)
        values = {
            "area": lit.float().mean((1, 2)),
            "distance": (light * away).sum((1, 2)) / light.sum((1, 2)),
            "brightness": pictures.float().mean((1, 2, 3)) / 255,
            "confidence": _confidence(one, pixels, cases.number),
        }
        masks = crop_masks(one.network, data, cases.row)
        parts = [{} for _ in range(len(cases))]
        for name in ("overlap", "coverage", "precision"):
            values[name] = torch.full((len(cases),), torch.nan)
        if masks is not None:
            thing = masks > 0
            both = (lit & thing).sum((1, 2))
            values["overlap"] = soft_iou(upsampled, thing)
            values |= {"coverage": both / thing.sum((1, 2)), "precision": both / lit.sum((1, 2))}
            pairs = zip(masks, lit, strict=True)
            parts = [lit_shares(mask, shown, data.mask_names) for mask, shown in pairs]
        values = {name: of.numpy() for name, of in values.items()}
        found.append(cases.assign(**values, parts=parts))
        lit_pixels.append(F.interpolate(lit[:, None].float(), (SIDE, SIDE))[:, 0] > 0.5)
    cases = pd.concat(found)
    files = data.images.path.iloc[cases.row].map(Path)
    inside = [file.relative_to(data.root) if file.is_relative_to(data.root) else file for file in files]
    cases["image"] = [file.with_suffix("").as_posix() for file in inside]
    cases["item"] = (cases.network.str.replace("/", " ") + " " + cases.image).map(plain)
    cases["object"] = cases.name.map(class_name)
    return cases.assign(right_name=cases.object == cases.label), torch.cat(lit_pixels)


@torch.no_grad()
def _confidence(one: Explained, pixels: torch.Tensor, classes: Sequence[int]) -> torch.Tensor:
    """The network's probability of the class that it is asked about, (N,)."""
    if not one.sees_pixels:
        return torch.full((len(pixels),), torch.nan)
    device, logits = next(one.network.model.parameters()).device, []
    for part in pixels.split(BATCH):
        logits.append(logits_of(one.network.model(one.network.normalised(part.to(device)))).cpu())
    logits = torch.cat(logits)
    logits = logits.mean((2, 3)) if logits.dim() == 4 else logits  # of a segmenter
    return logits.softmax(1)[range(len(logits)), [*classes]]


def measures(seen: Attended, steps: int, n_images: int, **how) -> pd.DataFrame:
    """What the measures that ask the network say of each map: MEASURES, all turned so that high is good.

    steps: of the curves. n_images: of how many images of each network; the others have NaN, as have maps that
    show nothing, and those of whom sees no pixels. how: as of `perturb`.
    """
    frame = pd.DataFrame(np.nan, seen.cases.index, MEASURES)
    for one, cases, maps, pixels in seen.by_map():
        if not one.sees_pixels:
            continue
        device, some = next(one.network.model.parameters()).device, cases.index[:n_images]
        inputs = one.network.normalised(pixels[:n_images].to(device))
        asked = maps[:n_images].to(device), torch.tensor(cases.number[some].to_numpy(), device=device)
        curves = perturb(one.network, inputs, *asked, steps, BATCH, **how)
        gain = curves.insertion_auc - curves.deletion_auc
        if how.get("least_relevant_first"):  # backwards, the two curves change places
            gain = -gain
        frame.loc[some] = torch.stack([gain, -curves.average_drop, curves.aopc], 1).cpu().numpy()
    frame.loc[seen.cases.nothing] = np.nan
    return frame
