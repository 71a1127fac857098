"""RISE (Petsiuk et al. 2018): the mean of random masks, weighted by the probability left under each.

v = 1 / (m / 2) sum_i p_c(image through M_i) M_i

M_i  masks          (m, H, W)  random grids of cells, half of them kept, upsampled and cut at random corners
p_c  probabilities  (N, m)     of the image's class
m    n_masks
v    returned       (N, H, W), before it is scaled to [0, 1]
"""

import torch

from xaihelpers.kernels.masking import upsample_maps
from xaihelpers.saliency.hooks import SaliencyError, score_classes


@torch.no_grad()
def rise(
    model, inputs, classes=None, n_masks=2000, cells=7, seed=0, batch_size=64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps v (N, H, W), not scaled, and the classes (N,) asked about.

    inputs: (N, 3, H, W), normalised, on the model's device. classes: as of `score_classes`.
    n_masks: random masks, of cells x cells each, the same on every device.
    batch_size: masks in a pass of one image.
    Raises SaliencyError: no masks, classes out of range; ModelError: an output that is no logits.
    """
    if n_masks < 1:
        raise SaliencyError(f"RISE needs a mask or more, not n_masks {n_masks}")
    scores = score_classes(model(inputs), classes)
    size = inputs.shape[2:]
    cell_size = [-(-side // cells) for side in size]  # pixels, rounded up
    full = tuple((cells + 1) * side for side in cell_size)
    generator = torch.Generator().manual_seed(seed)
    grids = (torch.rand(n_masks, cells, cells, generator=generator) < 0.5).float().to(inputs.device)
    corners = [torch.randint(0, side, (n_masks,), generator=generator) for side in cell_size]
    corners = torch.stack(corners, 1).to(inputs.device)  # (m, 2)
    total = torch.zeros(len(inputs), *size, device=inputs.device)
    for grid, corner in zip(grids.split(batch_size), corners.split(batch_size), strict=True):
        masks = upsample_maps(grid, size, corner, full)
        probabilities = []
        for row in range(len(inputs)):
            rows = torch.full((len(grid),), row)
            masked = inputs[row] * masks[:, None]
            probabilities.append(scores.again(model(masked), rows, probability=True))
        total += torch.einsum("nm,mhw->nhw", torch.stack(probabilities), masks)
    return total / (n_masks * 0.5), scores.classes
