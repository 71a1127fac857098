"""RISE (Petsiuk et al. 2018): the mean of random masks, weighted by the probability left under each.

The map of an image, before it is scaled to [0, 1]:

    v = 1 / (m keep) sum_i p_c(image through M_i) M_i

    M_i  masks          (m, H, W)  random grids of cells, upsampled and cut at random corners
    p_c  probabilities  (N, m)     of the image's class
    m    n_masks
    v    returned       (N, H, W)
"""

import torch

from xaihelpers.kernels.masking import mask_images, upsample_maps
from xaihelpers.models.layers import logits_of
from xaihelpers.saliency.hooks import SaliencyError, class_scores, score_classes


@torch.no_grad()
def rise(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    classes: torch.Tensor | None = None,
    background: int = 0,
    n_masks: int = 2000,
    cells: int = 7,
    keep: float = 0.5,
    seed: int = 0,
    batch_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps v (N, H, W), not scaled, and the classes (N,) asked about.

    inputs: (N, 3, H, W), normalised, on the model's device. classes, background: as of `score_classes`.
    n_masks: random masks, of cells x cells each, of which a cell is kept with probability `keep`; they are
        the same on every device.
    batch_size: masks in a pass of one image.
    Raises SaliencyError: no masks or cells, keep outside (0, 1), classes out of range; ModelError: an output
        that is no logits.
    """
    if n_masks < 1 or cells < 1 or not 0 < keep < 1:
        raise SaliencyError(
            "RISE needs one mask or more of one cell or more, and keep between 0 and 1; "
            f"got n_masks {n_masks}, cells {cells}, keep {keep}"
        )
    scores = score_classes(model(inputs), classes, background)
    size = inputs.shape[2:]
    cell_size = [-(-side // cells) for side in size]  # pixels, rounded up
    full = tuple((cells + 1) * side for side in cell_size)
    generator = torch.Generator().manual_seed(seed)
    grids = (torch.rand(n_masks, cells, cells, generator=generator) < keep).float().to(inputs.device)
    corners = [torch.randint(0, side, (n_masks,), generator=generator) for side in cell_size]
    corners = torch.stack(corners, 1).to(inputs.device)  # (m, 2)
    total = torch.zeros(len(inputs), *size, device=inputs.device)
    for part in torch.arange(n_masks, device=inputs.device).split(batch_size):
        masks = upsample_maps(grids[part], size, corners[part], full)  # those of one pass
        probabilities = []
        for row in range(len(inputs)):
            masked = _through_masks(inputs[row], masks, grids[part], corners[part], full)
            class_pixels = None
            if scores.class_pixels is not None:
                class_pixels = scores.class_pixels[row].expand(len(part), -1, -1)
            kept = class_scores(
                logits_of(model(masked)),
                scores.classes[row].expand(len(part)),
                class_pixels,
                probability=True,
            )
            probabilities.append(kept)
        total += torch.einsum("nm,mhw->nhw", torch.stack(probabilities), masks)
    return total / (n_masks * keep), scores.classes


def _through_masks(image: torch.Tensor, masks, grids, corners, full) -> torch.Tensor:
    """One image (3, H, W) through each mask, (m, 3, H, W): on a GPU by the kernel, from the grids."""
    if not image.is_cuda:
        return image * masks[:, None]
    rows = torch.zeros(len(grids), dtype=torch.int64)
    return mask_images(image[None], grids, rows, alpha=None, corners=corners, full=full)
