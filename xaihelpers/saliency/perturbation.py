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

from collections.abc import Callable
from typing import NamedTuple

import torch
from torchvision.transforms.functional import gaussian_blur

from xaihelpers.kernels.masking import mask_images, upsample_maps
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.layers import logits_of
from xaihelpers.saliency.hooks import class_scores, evaluation_mode, score_classes

STARTS = ("blur", "zeros")  # of insertion
BLUR = {"kernel_size": 11, "sigma": 5.0}  # as RISE's authors do; pixels


class PerturbationCurves(NamedTuple):
    """Probability of each image's class as pixels go or come, usually the most relevant first."""

    deletion: torch.Tensor  # (N, S + 1): p with k / S of the pixels replaced, k = 0 ... S
    insertion: torch.Tensor  # (N, S + 1): p with k / S of the pixels shown, over a blurred image or zeros
    masked: torch.Tensor  # (N,): p of the image multiplied with its map

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
        """Area over the perturbation curve, the mean of p(0) - p(k) over k = 0 ... S, (N,); high is good."""
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
    """Perturbation curves of a batch: all copies of the images go through the model in few passes.

    Of a segmenter, p is the mean over the pixels that it gave to the class before any were replaced.

    model: a classifier or a segmenter.
    inputs: (N, 3, H, W), normalised, so that 0 is the mean pixel, by which pixels are replaced.
    maps: (N, h, w) in [0, 1], each ranked once; ties go in row-major order. classes: (N,). steps: S.
    insertion_from: "blur" inserts into the blurred image, "zeros" into the mean pixel everywhere.
    least_relevant_first: in both curves the least relevant pixels go or come first, ties the last ones first.
        Inserting them into zeros is the usual deletion backwards, and deleting them the usual insertion.
    Raises ValueError for maps and classes that are not one per image, fewer than one step, and another start
        of insertion; SaliencyError for classes out of range; ModelError for an output that is no logits.
    """
    if insertion_from not in STARTS:
        raise ValueError(f"insertion_from must be one of {', '.join(STARTS)}, not {insertion_from!r}")
    if len(maps) != len(inputs) or len(classes) != len(inputs) or not len(inputs) or steps < 1:
        raise ValueError(
            f"{len(inputs)} images need as many maps and classes, got {len(maps)} and {len(classes)}, "
            f"and one image and one step or more, got {steps}"
        )
    model = model.model if isinstance(model, ImageNetwork) else model
    n_images, size = len(inputs), inputs.shape[2:]
    rank = _pixel_rank(maps, size)
    if least_relevant_first:
        rank = size[0] * size[1] - 1 - rank
    if insertion_from == "blur":
        start = gaussian_blur(inputs, min(BLUR["kernel_size"], 2 * min(size) - 1), BLUR["sigma"])
    else:
        start = torch.zeros_like(inputs)
    images = torch.arange(n_images, device=inputs.device)
    # (image, step) of all points between the two ends, which are alike for all maps
    inner_steps = torch.arange(1, steps, device=inputs.device)
    inner_points = torch.cartesian_prod(images, inner_steps).view(-1, 2)
    class_pixels = None  # (N, H, W), of a segmenter

    def probability(rows: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        pixels = None if class_pixels is None else class_pixels[rows]
        return class_scores(logits, classes[rows].long(), pixels, probability=True)

    def of_images(render: Callable) -> torch.Tensor:
        """p of render(rows), (N,)."""
        parts = [probability(rows, logits_of(model(render(rows)))) for rows in images.split(batch_size)]
        return torch.cat(parts)

    def at_inner_points(render: Callable) -> torch.Tensor:
        """p of render(rows, first), (N, S - 1); first: the most relevant pixels, (n, 1, H, W) bool."""
        if not len(inner_points):
            return inputs.new_empty(n_images, 0)
        parts = []
        for part in inner_points.split(batch_size):
            rows, step = part.T
            n_first = (step * size[0] * size[1] / steps).round()
            first = rank[rows] < n_first[:, None, None]
            parts.append(probability(rows, logits_of(model(render(rows, first[:, None])))))
        return torch.cat(parts).unflatten(0, (n_images, steps - 1))

    with evaluation_mode(model):
        batches = images.split(batch_size)
        scores = [score_classes(model(inputs[rows]), classes[rows]) for rows in batches]
        if scores[0].class_pixels is not None:
            class_pixels = torch.cat([part.class_pixels for part in scores])
        whole = [probability(rows, part.logits) for rows, part in zip(batches, scores, strict=True)]
        whole = torch.cat(whole)[:, None]
        grey = logits_of(model(torch.zeros_like(inputs[:1])))  # the same for all images
        grey = probability(images, grey.expand(n_images, *grey.shape[1:]))[:, None]
        deletion = at_inner_points(lambda rows, first: inputs[rows].masked_fill_(first, 0))
        blank = of_images(lambda rows: start[rows])[:, None]
        insertion = at_inner_points(lambda rows, first: start[rows].where(~first, inputs[rows]))
        masked = of_images(lambda rows: mask_images(inputs[rows], maps[rows], alpha=None))
    return PerturbationCurves(
        torch.cat([whole, deletion, grey], 1), torch.cat([blank, insertion, whole], 1), masked
    )


def _pixel_rank(maps: torch.Tensor, size) -> torch.Tensor:
    """Place of each pixel in the order of its attention, (N, H, W) int32, 0 for the most relevant."""
    order = upsample_maps(maps, size).flatten(1).argsort(dim=1, descending=True, stable=True)
    places = torch.arange(order.shape[1], dtype=torch.int32, device=order.device).expand_as(order)
    rank = torch.empty(order.shape, dtype=torch.int32, device=order.device)
    return rank.scatter_(1, order, places).unflatten(1, size)
