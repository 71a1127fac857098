"""How good attention maps are: deletion, insertion, AOPC and average drop, which ask the model; and the four cells of right or wrong by looked or not, which ask a judge (autoxplain, sections 3.3 and 4.1)."""
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import pearsonr
from sklearn.metrics import roc_auc_score

from ..attend import class_scores, evaluating, logits_of, scored
from ..backbones import Backbone
from ..kernels.masking import mask_images, upsample_maps
from .intervals import Interval, mean_interval

CELLS = ("CH", "CL", "WH", "WL")  # correct or wrong prediction, high or low score


class Perturbed(NamedTuple):
    """What is left of the probability p of each image's class as pixels go or come, the most relevant first."""

    deletion: torch.Tensor  # (N, S + 1): p with k / S of the pixels replaced, k = 0 ... S
    insertion: torch.Tensor  # (N, S + 1): p with k / S of the pixels shown over a blurred image
    seen: torch.Tensor  # (N,): p of the image multiplied with its map

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
        """Mean of p(0) - p(k) over k = 0 ... S, (N,); high is good: what was replaced first, the most relevant, was needed."""
        return (self.deletion[:, :1] - self.deletion).mean(1)

    @property
    def average_drop(self) -> torch.Tensor:
        """How much of p is lost when only what the map shows is seen, (N,) in [0, 1]; low is good."""
        before = self.deletion[:, 0]
        return (before - self.seen).clamp(min=0) / before.clamp(min=1e-12)


@torch.no_grad()
def perturb(model: torch.nn.Module, inputs: torch.Tensor, maps: torch.Tensor, classes: torch.Tensor, steps: int = 20, batch_size: int = 64) -> Perturbed:
    """Ask a model again while pixels are replaced or shown in the order of their attention: all copies of a batch of images in few passes, each map ranked once.

    model: a network or a Backbone. inputs: (N, 3, H, W), normalised, so that 0 is the mean pixel, which replaces. maps: (N, h, w) in [0, 1]. classes: (N,). steps: S. Ties go in row-major order. Of a
    segmenter p is the mean over the pixels that are the class's own before. Raises ValueError for maps and classes that are not one an image.
    """
    if len(maps) != len(inputs) or len(classes) != len(inputs) or not len(inputs) or steps < 1:
        raise ValueError(f"{len(inputs)} images need as many maps and classes, got {len(maps)} and {len(classes)}, and one image and one step or more, got {steps}")
    from torchvision.transforms.functional import gaussian_blur

    model, count, size = model.model if isinstance(model, Backbone) else model, len(inputs), inputs.shape[2:]
    n_pixels, everyone, own = size[0] * size[1], torch.arange(count, device=inputs.device), None
    order = upsample_maps(maps, size).flatten(1).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty(order.shape, dtype=torch.int32, device=order.device).scatter_(1, order, torch.arange(n_pixels, dtype=torch.int32, device=order.device).expand_as(order)).unflatten(1, size)  # (N, H, W)
    blurred = gaussian_blur(inputs, min(11, 2 * min(size) - 1), 5.0)  # as RISE does
    between = torch.cartesian_prod(everyone, torch.arange(1, steps, device=inputs.device)).view(-1, 2)  # (image, step): both ends are alike for all maps

    def p(rows, logits):
        return class_scores(logits, classes[rows].long(), None if own is None else own[rows], probability=True)

    def of_all(picture_of):
        return torch.cat([p(rows, logits_of(model(picture_of(rows)))) for rows in everyone.split(batch_size)])

    def on_the_way(picture_of):
        """p at the steps between, (N, S - 1); picture_of(rows, first): `first` are the most relevant pixels, (n, 1, H, W) bool."""
        found = [p(rows, logits_of(model(picture_of(rows, (rank[rows] < (step * n_pixels / steps).round()[:, None, None])[:, None])))) for rows, step in (part.T for part in between.split(batch_size))]
        return torch.cat(found).unflatten(0, (count, steps - 1)) if found else inputs.new_empty(count, 0)

    with evaluating(model):
        first = [scored(model(inputs[rows]), classes[rows]) for rows in everyone.split(batch_size)]
        own = None if first[0].own is None else torch.cat([found.own for found in first])
        whole = torch.cat([p(rows, found.logits) for rows, found in zip(everyone.split(batch_size), first)])
        grey = logits_of(model(torch.zeros_like(inputs[:1])))  # one answer for all
        deletion = [whole[:, None], on_the_way(lambda rows, gone: inputs[rows].masked_fill_(gone, 0)), p(everyone, grey.expand(count, *grey.shape[1:]))[:, None]]
        insertion = [of_all(lambda rows: blurred[rows])[:, None], on_the_way(lambda rows, come: blurred[rows].where(~come, inputs[rows])), whole[:, None]]
        seen = of_all(lambda rows: mask_images(inputs[rows], maps[rows], alpha=None))
    return Perturbed(torch.cat(deletion, 1), torch.cat(insertion, 1), seen)


def attention_matrix(correct, judged, threshold: float = 2.5, groups=None) -> pd.DataFrame:
    """The four cells and the average score (section 3.3): rows CH, CL, WH, WL in % and Avg, with value, low, high, cases.

    correct: (N,) bool, whether the prediction is right. judged: (N,) scores 0 ... 5, NaN where the judge gave none, which is left out. High is `threshold` or more. groups: (N,), as of `mean_interval`.
    """
    correct, judged = np.asarray(correct, bool), np.asarray(judged, float)
    given = ~np.isnan(judged)
    right, high, judged, groups = correct[given], judged[given] >= threshold, judged[given], None if groups is None else np.asarray(groups)[given]
    cells = dict(zip(CELLS, (right & high, right & ~high, ~right & high, ~right & ~high), strict=True))
    rows = [{"metric": name, **mean_interval(100.0 * of, groups=groups)._asdict()} for name, of in cells.items()]
    return pd.DataFrame([*rows, {"metric": "Avg", **mean_interval(judged, groups=groups)._asdict()}])


def overlap(maps: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Soft intersection over union, (N,), of attention (N, H, W) in [0, 1] and the object's pixels (N, H, W) bool: sum of the lesser over sum of the greater. It has no threshold, so no mask is favoured."""
    there = there.float()
    return torch.minimum(maps, there).sum((1, 2)) / torch.maximum(maps, there).sum((1, 2))


def attention_inside(maps: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Share of the attention (N, H, W) that lies on the object's pixels (N, H, W) bool, (N,); NaN where there is no attention."""
    return (maps * there).sum((1, 2)) / maps.sum((1, 2))


def roc_auc(positive, values, resamples: int = 1000, seed: int = 0) -> Interval:
    """Area under the ROC curve of telling the positive (N,) bool by high values (N,), with its 95 % percentile bootstrap interval over the cases; NaN values are left out. NaN without cases of both kinds."""
    positive, values = np.asarray(positive, bool), np.asarray(values, float)
    positive, values = positive[~np.isnan(values)], values[~np.isnan(values)]
    if len(set(positive)) < 2:
        return Interval(np.nan, np.nan, np.nan, len(values))
    drawn = [roc_auc_score(positive[rows], values[rows]) for rows in resampled(np.arange(len(values)), resamples, seed) if len(set(positive[rows])) == 2]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(float(roc_auc_score(positive, values)), float(low), float(high), len(values))


def pearson(x, y, groups=None, resamples: int = 1000, seed: int = 0) -> Interval:
    """Pearson's correlation with its 95 % interval, over the pairs in which both are numbers; NaN for fewer than four or where one is constant.

    groups: (N,), such as the image that several maps are of. Where it is given, the interval is a percentile bootstrap over whole groups, since their members are alike; else Fisher's.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Interval(np.nan, np.nan, np.nan, len(x))
    found = pearsonr(x, y)
    if groups is None:
        low, high = found.confidence_interval()
        return Interval(float(found.statistic), float(low), float(high), len(x))
    drawn = [np.corrcoef(x[rows], y[rows])[0, 1] for rows in resampled(np.asarray(groups)[both], resamples, seed) if np.ptp(x[rows]) and np.ptp(y[rows])]
    low, high = np.percentile(drawn, [2.5, 97.5]) if drawn else (np.nan, np.nan)
    return Interval(float(found.statistic), float(low), float(high), len(x))


def resampled(groups, resamples: int = 1000, seed: int = 0):
    """Row numbers of bootstrap samples in which whole groups (N,) are drawn, one array a sample."""
    members = list(pd.Series(range(len(groups))).groupby(np.asarray(groups)).apply(np.asarray))
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])
