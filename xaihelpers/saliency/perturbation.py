"""Perturbation curves: a model is asked again as pixels go or come in the order of their attention.

Paper autoxplain, section 4.1, compares its judge with the measures that follow from them:

    deletion AUC = int_0^1 p,  insertion AUC = int_0^1 q,  by the trapezoid rule over k / S
    AOPC         = 1 / (S + 1) sum_k (p(0) - p(k))
    average drop = max(0, p(0) - p_v) / p(0)

    p    deletion   (N, S + 1)   probability of the class with k / S of the pixels replaced, k = 0 ... S
    q    insertion  (N, S + 1)   the same with k / S of the pixels shown over a blurred image
    p_v  masked     (N,)         the same for the image multiplied with its map
    S    steps

The paper says neither from what insertion starts nor in which order AOPC's pixels go; the defaults are those
of the papers that it takes the measures from. Its authors' code inserts into zeros (`insertion_from`),
removes the least relevant first for AOPC (`least_relevant_first`), and takes S = 30.
"""

from typing import NamedTuple

import torch
from torchvision.transforms.functional import gaussian_blur

from xaihelpers.masks import mask_images, upsample_maps
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.saliency.hooks import class_scores, score_classes

BLUR, SIGMA = 11, 5.0  # pixels, as RISE's authors have it


class PerturbationCurves(NamedTuple):
    """Probability of each image's class as pixels go or come, usually the most relevant first."""

    deletion: torch.Tensor  # p
    insertion: torch.Tensor  # q
    masked: torch.Tensor  # p_v

    @property
    def deletion_auc(self) -> torch.Tensor:
        """Area under deletion, (N,) in [0, 1]; low is good."""
        return torch.trapezoid(self.deletion, dx=1 / (self.deletion.shape[1] - 1))

    @property
    def insertion_auc(self) -> torch.Tensor:
        """Area under insertion, (N,) in [0, 1]; high is good."""
        return torch.trapezoid(self.insertion, dx=1 / (self.insertion.shape[1] - 1))

    @property
    def aopc(self) -> torch.Tensor:
        """Area over the perturbation curve, (N,); high is good."""
        return (self.deletion[:, :1] - self.deletion).mean(1)

    @property
    def average_drop(self) -> torch.Tensor:
        """Share of p that is lost when only what the map shows is seen, (N,) in [0, 1]; low is good."""
        before = self.deletion[:, 0]
        return (before - self.masked).clamp(min=0) / before.clamp(min=1e-12)


@torch.no_grad()
def perturb(
    model: torch.nn.Module | ImageNetwork,
    inputs: torch.Tensor,
    maps: torch.Tensor,
    classes: torch.Tensor,
    steps: int = 20,
    batch_size: int = 64,
    insertion_from: str = "blur",
    least_relevant_first: bool = False,
) -> PerturbationCurves:
    """Perturbation curves of a batch.

    Of a segmenter, p is the mean over the pixels that it gave to the class before any were replaced.

    inputs: (N, 3, H, W), normalised, so that 0 is the mean pixel, by which pixels are replaced.
    maps: (N, h, w) in [0, 1], each ranked once; ties go in row-major order. classes: (N,). steps: S.
    insertion_from: "blur" inserts into the blurred image, "zeros" into the mean pixel everywhere.
    least_relevant_first: in both curves the least relevant pixels go or come first, ties the last ones first.
        Inserting them into zeros is the usual deletion backwards, and deleting them the usual insertion.
    Raises ValueError: no step, another start of insertion, classes out of range.
    """
    if insertion_from not in ("blur", "zeros"):
        raise ValueError(f"insertion_from must be blur or zeros, not {insertion_from!r}")
    if steps < 1:
        raise ValueError(f"steps is {steps}: it has to be 1 or more")
    model = (model.model if isinstance(model, ImageNetwork) else model).eval()
    size, n_pixels = inputs.shape[2:], inputs[0, 0].numel()
    order = upsample_maps(maps, size).flatten(1).argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(1)  # (N, H W), each pixel's place in that order
    rank = (n_pixels - 1 - rank if least_relevant_first else rank).unflatten(1, size)
    grey = start = torch.zeros_like(inputs)
    if insertion_from == "blur":
        start = gaussian_blur(inputs, min(BLUR, 2 * min(size) - 1), SIGMA)
    images = torch.arange(len(inputs), device=inputs.device)
    parts = [score_classes(model(inputs[rows]), classes[rows]) for rows in images.split(batch_size)]
    whole = torch.cat([class_scores(*part, probability=True) for part in parts])[:, None]
    pixels = torch.cat([part.class_pixels for part in parts])
    scores = parts[0]._replace(classes=classes.long(), class_pixels=pixels)

    def curve(firsts: torch.Tensor, others: torch.Tensor, at: range) -> torch.Tensor:
        """p, (N, n), at these steps, of images whose pixels of the first ranks are others."""
        points = torch.cartesian_prod(images, torch.tensor([*at], device=inputs.device))
        found = []
        for rows, step in (part.T for part in points.split(batch_size)):
            n_first = (step * n_pixels / steps).round()
            first = (rank[rows] < n_first[:, None, None])[:, None]
            mixed = torch.where(first, firsts[rows], others[rows])
            found.append(scores.again(model(mixed), rows, probability=True))
        return torch.cat(found).view(len(inputs), -1)

    deletion = torch.cat([whole, curve(grey, inputs, range(1, steps + 1))], 1)
    insertion = torch.cat([curve(inputs, start, range(steps)), whole], 1)
    masked = []
    for rows in images.split(batch_size):
        masked_images = mask_images(inputs[rows], maps[rows], alpha=None)
        masked.append(scores.again(model(masked_images), rows, probability=True))
    return PerturbationCurves(deletion, insertion, torch.cat(masked))
