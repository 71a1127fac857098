"""Birds whose attributes are set at random: what models are given of their parts, and planted labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xaihelpers.datasets.images import load_image
from xaihelpers.scores.sub import groups_of

LEVELS = np.array([0.1, 0.5, 0.9])  # of each colour channel within a part, as quantiles
USUAL_SIZE = 250  # pixels of a part, by which sizes are divided


def colours_of_parts(
    files: Sequence[str | Path], masks: Sequence[np.ndarray], mask_names: Sequence[str]
) -> Tensor:
    """Three levels of red, green and blue in each of R parts, and its size: (N, 10 R) float32.

    Nobody can fail to find a part in these numbers. Left and right are one part; what is not seen is 0.

    files: N pictures, (2 H, 2 W). masks: N of (H, W), 0 or the number of a part from 1 on. mask_names: of the
    numbers. Raises DatasetError for a file that cannot be read.
    """
    parts = [name.removeprefix("left ").removeprefix("right ") for name in mask_names]
    regions = list(dict.fromkeys(parts))
    region_of = np.array([0, *(regions.index(name) + 1 for name in parts)])  # by number in a mask
    rows = []
    for file, mask in zip(files, masks, strict=True):
        pixels = np.asarray(load_image(file))[::2, ::2][mask > 0] / 255  # (n, 3), of the bird
        region, row = region_of[mask[mask > 0]], []
        for number in range(1, len(regions) + 1):
            mine = np.sort(pixels[region == number], axis=0)
            at = np.rint(LEVELS * (len(mine) - 1)).astype(int)
            row += [*(mine[at] if len(mine) else np.zeros((3, 3))).ravel(), len(mine) / USUAL_SIZE]
        rows.append(row)
    return torch.from_numpy(np.array(rows)).float()


def wrong_at_random(
    truth: Tensor, stated: Tensor, concepts: Sequence[str], rng: np.random.Generator
) -> Tensor:
    """Labels (N, L) of which as many groups are wrong as of `stated`, but of birds drawn by chance.

    Each group of a bird that is stated wrongly is given, as it was stated, to another bird.

    truth, stated: (N, L) of 0 and 1. concepts: L attributes, group::value.
    """
    made, group_of = truth.clone(), groups_of(concepts)
    for group in dict.fromkeys(group_of):
        mine = torch.from_numpy(np.flatnonzero(group_of == group))
        wrong = (truth[:, mine] != stated[:, mine]).any(1).nonzero()[:, 0]
        given_to = torch.from_numpy(rng.permutation(len(truth))[: len(wrong)])
        made[given_to[:, None], mine] = stated[wrong][:, mine]
    return made
