"""Networks that read known pixels, and maps that show or hide them: what a yardstick of maps is measured by.

    p = σ(STEEPNESS (v − ½)),  v = Σ_r w_r · (share of region r that is still visible)

The network reads nothing else, so what it uses is known pixel by pixel. A map is faithful if it shows the
regions that are read, and right if these are the concept's own part: two things that can come apart.

| fault | the network reads | the map shows | d is the share of |
|---|---|---|---|
| reads another part | another part | what is read | images |
| reads the background | a patch beside the object | what is read | images |
| reads a dot | own part and a dot | what is read | what is read (w_dot) |
| hides a dot | own part and a dot | the own part | what is read (w_dot) |
| map of another part | own part | another part | images |
| map of the centre | own part | the middle of the picture | images |
| random map | own part | noise | – |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torchvision.transforms.functional import gaussian_blur

from xaihelpers.saliency.methods import scaled_maps

MAP_FAULTS = (
    "reads another part",
    "reads the background",
    "reads a dot",
    "hides a dot",
    "map of another part",
    "map of the centre",
)
RANDOM_MAP = "random map"
STEEPNESS = 8.0
CELLS = 14  # of a map's side
DOT = 4  # side of the dot in pixels


class Regions(NamedTuple):
    """Where things are in N pictures, bool (N, H, W) each."""

    own: torch.Tensor  # the part of the concept that is asked about
    other: torch.Tensor  # another part
    background: torch.Tensor  # a patch beside the object
    dot: torch.Tensor


class PlantedMaps(NamedTuple):
    """A network's pictures and what an explanation shows of them."""

    inputs: torch.Tensor  # (N, 3, H, W), as `EvidenceNetwork` reads them
    maps: torch.Tensor  # (N, CELLS, CELLS) in [0, 1]


class EvidenceNetwork(torch.nn.Module):
    """A classifier of two classes that reads the first channel alone: its mean is the visible evidence v."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits (N, 2) of inputs (N, 3, H, W)."""
        logit = STEEPNESS * (inputs[:, 0].mean((1, 2)) - 0.5)
        return torch.stack([torch.zeros_like(logit), logit], 1)


def regions_from_mask(mask: np.ndarray, own: Sequence[int], other: Sequence[int]) -> tuple[np.ndarray, ...]:
    """What `Regions` holds of one picture, four arrays (H, W) bool.

    The patch is a square as large as the own part in the corner that has least of the object, the dot lies in
    the next such corner.

    mask: (H, W) int, the number of the part at each pixel, 0 beside the object.
    own, other: the numbers of the part that is asked about, and of another one; left and right may be two.
    """
    own, other = np.isin(mask, own), np.isin(mask, other)
    height, width = mask.shape
    side = max(2, int(np.sqrt(own.sum())))
    corners = []
    for down in (False, True):
        for right in (False, True):
            patch, dot = np.zeros_like(own), np.zeros_like(own)
            for region, size in ((patch, side), (dot, DOT)):
                top, left = (height - size) * down, (width - size) * right
                region[top : top + size, left : left + size] = True
            corners.append((int((patch & (mask > 0)).sum()), len(corners), patch, dot))
    freest, next_freest = sorted(corners, key=lambda corner: corner[:2])[:2]
    return own, other, freest[2], next_freest[3]


def centre_pixel(region: np.ndarray) -> tuple[float, float]:
    """x and y of the pixel of a region (H, W) that is nearest to its mean, NaN where it has none."""
    if not region.any():
        return np.nan, np.nan
    y, x = np.nonzero(region)
    nearest = ((y - y.mean()) ** 2 + (x - x.mean()) ** 2).argmin()
    return x[nearest] + 0.5, y[nearest] + 0.5


def plant_maps(fault: str, dose: float, regions: Regions, seed: int = 0) -> PlantedMaps:
    """Pictures and maps with a fault at a dose; of an honest explanation where the dose is 0.

    seed: of the images that are afflicted.
    Raises ValueError for an unknown fault and a dose outside 0 to 1.
    """
    if fault not in (*MAP_FAULTS, RANDOM_MAP):
        raise ValueError(f"there is no fault {fault!r}: choose among {', '.join((*MAP_FAULTS, RANDOM_MAP))}")
    if not 0 <= dose <= 1:
        raise ValueError(f"a dose lies between 0, honest, and 1, not at {dose}")
    generator = torch.Generator().manual_seed(seed)
    own = evidence(regions.own)
    n = len(own)
    afflicted = (torch.randperm(n, generator=generator) < round(dose * n))[:, None, None]
    read = shown = own
    if fault == "reads another part":
        read = shown = torch.where(afflicted, evidence(regions.other), own)
    elif fault == "reads the background":
        read = shown = torch.where(afflicted, evidence(regions.background), own)
    elif fault in ("reads a dot", "hides a dot"):
        read = (1 - dose) * own + dose * evidence(regions.dot)
        shown = read if fault == "reads a dot" else own
    elif fault == "map of another part":
        shown = torch.where(afflicted, evidence(regions.other), own)
    maps = shown_maps(shown)
    if fault == "map of the centre":
        maps = torch.where(afflicted, _centre(), maps)
    elif fault == RANDOM_MAP:
        maps = torch.rand(maps.shape, generator=generator)
    inputs = torch.stack([read, torch.zeros_like(read), torch.zeros_like(read)], 1)
    return PlantedMaps(inputs, maps)


def evidence(regions: torch.Tensor) -> torch.Tensor:
    """Equal weight on the pixels of each region (N, H, W) bool, whose mean over the picture is 1.

    Raises ValueError for an empty region, naming its row.
    """
    area = regions.flatten(1).sum(1)
    if (area == 0).any():
        row = int((area == 0).nonzero()[0])
        raise ValueError(f"region {row} has no pixel, so nothing can be read there: leave the picture out")
    size = regions.shape[1] * regions.shape[2]
    return regions.float() * (size / area)[:, None, None]


def shown_maps(weights: torch.Tensor, cells: int = CELLS) -> torch.Tensor:
    """Maps (N, cells, cells) in [0, 1] of pixel weights (N, H, W), with the blur of a last feature map."""
    coarse = F.adaptive_avg_pool2d(weights[:, None], cells)
    return scaled_maps(gaussian_blur(coarse, 5, 1.0)[:, 0])[0]


def _centre(cells: int = CELLS) -> torch.Tensor:
    """A round patch in the middle, the same for every picture, (1, cells, cells)."""
    along = (torch.arange(cells) + 0.5) / cells - 0.5
    return torch.exp(-(along[:, None] ** 2 + along**2) / (2 * 0.125**2))[None]
