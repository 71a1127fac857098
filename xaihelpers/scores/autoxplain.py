"""The steps of the judge's prompt, attention confusion matrix, and overlap of attention and object.

Paper autoxplain, sections 3.3 and 4.1, appendix A.4. The measures that ask the model again, deletion and
insertion, are in `saliency.perturbation`; correlations and areas under a ROC curve are `scores.interval`'s.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import ndimage
from scipy.stats import ttest_ind
from torchvision.ops import box_iou

from xaihelpers.scores.intervals import PERCENT, Interval, interval

CELLS = ("CH", "CL", "WH", "WL")  # correct or wrong prediction, high or low score


class Cuts(NamedTuple):
    """Where the prompt's steps part. It prints no shares: these were fixed from its words alone."""

    missed: float = 0.15  # less covered: 0, "nothing to do with the object"
    small: float = 0.40  # less covered: 2, "only a small part of the object"
    scattered: float = 0.25  # less precise: 2 as well, for most of it lies elsewhere
    irrelevant: float = 0.90  # less precise: 3, "irrelevant parts are attended too"
    whole: float = 0.90  # less covered: 4, "most of the object"; else 5, "the whole object, and nothing else"


FROM_WORDS = Cuts()


def coverage_and_precision(lit: torch.Tensor, objects: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Share of the object that is lit, NaN without one; share of the light that lies on it, NaN without any.

    lit, objects: (N, H, W) bool.
    """
    both = (lit & objects).sum((1, 2))
    return tuple((both / of.sum((1, 2))).cpu().numpy() for of in (objects, lit))


def step_score(coverage, precision, cuts: Cuts = FROM_WORDS) -> np.ndarray:
    """The score of attention by the prompt's steps (appendix A.4), (N,): 0, 2, 3, 4 or 5.

    "1, the object is missed and irrelevant areas are attended" is not told from 0 by these two shares.

    coverage: share of the object that is attended, (N,), NaN where nobody knows, as the score is then.
    precision: share of the attention that lies on the object, (N,); NaN, of none, matters not.
    """
    coverage, precision = np.asarray(coverage, float), np.asarray(precision, float)
    small = (coverage < cuts.small) | (precision < cuts.scattered)
    steps = np.isnan(coverage), coverage < cuts.missed, small, precision < cuts.irrelevant
    return np.select([*steps, coverage < cuts.whole], [np.nan, 0.0, 2.0, 3.0, 4.0], 5.0)


def product_score(coverage, precision) -> np.ndarray:
    """Five times coverage times precision, (N,), 0 without attention: not the prompt's, a rival to it."""
    return 5 * np.asarray(coverage, float) * np.nan_to_num(np.asarray(precision, float))


SCALES = {  # name -> score of coverage and precision: the prompt's, six other readings of it, and a rival
    "the prompt's steps": step_score,
    "a small part: below 25 %": partial(step_score, cuts=Cuts(small=0.25)),
    "a small part: below 50 %": partial(step_score, cuts=Cuts(small=0.50)),
    "scattered: precision below 10 %": partial(step_score, cuts=Cuts(scattered=0.10)),
    "scattered: precision below 50 %": partial(step_score, cuts=Cuts(scattered=0.50)),
    "all cuts milder": partial(step_score, cuts=Cuts(0.05, 0.25, 0.10, 0.75, 0.75)),
    "all cuts stricter": partial(step_score, cuts=Cuts(0.25, 0.50, 0.50, 0.95, 0.95)),
    "5 × coverage × precision": product_score,
}


def attention_matrix(correct, scores, threshold: float = 2.5, clusters=None, draws=None) -> pd.DataFrame:
    """The attention confusion matrix and the average score (section 3.3).

    correct: (N,) bool. scores: (N,) from 0 to 5, NaN where the judge gave none; these are left out.
    threshold: scores from here on are high. clusters, draws: as of `scores.interval`.
    Returns rows CH, CL, WH and WL in %, and Avg, with the columns metric and those of an Interval.
    """
    correct, scores = np.asarray(correct, bool), np.asarray(scores, float)
    high, factors, rows = scores >= threshold, {"clusters": clusters, "draws": draws}, []
    cells = correct & high, correct & ~high, ~correct & high, ~correct & ~high
    for name, cell in zip(CELLS, cells, strict=True):
        share = np.where(np.isnan(scores), np.nan, 100.0 * cell)
        rows.append({"metric": name, **interval(share, bounds=PERCENT, **factors)._asdict()})
    rows.append({"metric": "Avg", **interval(scores, bounds=(0, 5), **factors)._asdict()})
    return pd.DataFrame(rows)


def dealt_at_random(correct, scores, threshold: float = 2.5) -> dict[str, float]:
    """What the same scores, dealt to the same images at random, put into each cell on average, in %.

    It is the product of the matrix's margins. correct, scores, threshold: as of `attention_matrix`.
    """
    scored = ~np.isnan(np.asarray(scores, float))
    right, high = np.asarray(correct, bool)[scored].mean(), (np.asarray(scores)[scored] >= threshold).mean()
    of_cells = np.outer([right, 1 - right], [high, 1 - high]).ravel()
    return dict(zip(CELLS, 100 * of_cells, strict=True))


def above_random(correct, scores, threshold: float = 2.5, clusters=None, draws=None) -> Interval:
    """By how many points CH and WL exceed what dealt scores would put there, and CL and WH fall short.

    All arguments: as of `attention_matrix`.
    """
    scores = np.asarray(scores, float)
    right = np.where(np.isnan(scores), np.nan, 100.0 * np.asarray(correct, bool))
    high = 100.0 * (scores >= threshold)

    def covariance(right: np.ndarray, high: np.ndarray) -> float:
        return float(np.mean(right * high) - right.mean() * high.mean()) / 100

    about = {"clusters": clusters, "draws": draws, "bounds": (-25, 25)}
    return interval(right, high, statistic=covariance, **about)


def lead_of_kinds(values, is_segmenter, backbones, images=None, draws=None) -> Interval:
    """Mean over segmenters less mean over classifiers, networks as the cases.

    Where each backbone carries both kinds, the differences are paired: by backbone, image and draw, all three
    in the interval. Where one does not, as of the paper's eight networks, it is Welch's interval of means.

    values: (N,), a row for each network, image and draw, or one for each network; NaN are left out.
    is_segmenter: (N,) bool. backbones, images, draws: (N,). A backbone without draws counts in each of them.
    Returns an Interval whose `effective` is the number of backbones; low and high are NaN with one of them,
        value as well where a kind is missing.
    """
    table = pd.DataFrame({"value": np.asarray(values, float), "segmenter": np.asarray(is_segmenter, bool)})
    keys = ["backbone", "image", "draw"]
    for name, given in zip(keys, (backbones, images, draws), strict=True):
        table[name] = 0 if given is None else np.asarray(given)
    table = table.dropna(subset="value")
    if table["segmenter"].nunique() < 2:
        return Interval(np.nan, np.nan, np.nan, len(table), 0.0)
    n_backbones = table["backbone"].nunique()
    means = table.groupby(["backbone", "segmenter"])["value"].mean().unstack()
    if means.isna().any(axis=None):
        kinds = [means[kind].dropna() for kind in (True, False)]
        limits = np.nan, np.nan
        if min(map(len, kinds)) > 1:
            limits = ttest_ind(*kinds, equal_var=False).confidence_interval()
        return Interval(kinds[0].mean() - kinds[1].mean(), *limits, len(table), float(n_backbones))
    once = table.groupby(["backbone", "segmenter"])["draw"].transform("nunique") == 1
    every = sorted(table["draw"].unique())  # what has no draws is the same in each
    table = pd.concat([table[~once], *(table[once].assign(draw=draw) for draw in every)])
    wide = table.groupby([*keys, "segmenter"])["value"].mean().unstack()
    gaps = (wide[True] - wide[False]).dropna()
    backbone, image, draw = (gaps.index.get_level_values(key) for key in keys)
    found = interval(gaps, clusters=[backbone, image], draws=draw)._replace(effective=float(n_backbones))
    return found if n_backbones > 1 else found._replace(low=np.nan, high=np.nan)


def box_overlap(lit: torch.Tensor, objects: torch.Tensor) -> np.ndarray:
    """Intersection over union of the boxes around the largest lit region and the largest object, (N,).

    It needs no judge and reads no name; a lit outline has 1. 0 where nothing is lit, NaN without an object.
    How class activation maps are scored as detectors (Zhou et al. 2016; Choe et al. 2020); not in the paper.

    lit, objects: (N, H, W) bool.
    """
    found = []
    for pair in zip(lit.cpu().numpy(), objects.cpu().numpy(), strict=True):
        of_lit, of_object = map(_largest_box, pair)
        found.append(float(box_iou(of_lit, of_object).sum()) if len(of_object) else np.nan)  # no pair: 0
    return np.array(found)


def _largest_box(pixels: np.ndarray) -> torch.Tensor:
    """The box around the largest region of pixels (H, W): left, top, right, bottom, (1, 4) or (0, 4)."""
    regions, count = ndimage.label(pixels)
    if not count:
        return torch.zeros(0, 4)
    rows, columns = ndimage.find_objects(regions)[np.bincount(regions.ravel())[1:].argmax()]
    return torch.tensor([[columns.start, rows.start, columns.stop, rows.stop]], dtype=torch.float64)


def soft_iou(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Soft intersection over union, (N,) in [0, 1]: the sum of the lesser over that of the greater.

    maps: attention (N, H, W) in [0, 1]. object_pixels: (N, H, W) bool.
    """
    object_pixels = object_pixels.float()
    intersection = torch.minimum(maps, object_pixels).sum((1, 2))
    return intersection / torch.maximum(maps, object_pixels).sum((1, 2))


def attention_inside(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Share of the attention (N, H, W) on the object's pixels (N, H, W) bool, (N,); NaN without attention."""
    return (maps * object_pixels).sum((1, 2)) / maps.sum((1, 2))


def inside_at_equal_area(maps: torch.Tensor, object_pixels: torch.Tensor) -> torch.Tensor:
    """Share of a map's hottest pixels, as many as the object has, that lie on the object, (N,) in [0, 1].

    Every map shows the same area, so a sparse one gains nothing (not in the paper). Pixels that tie at the
    area's edge count by the share of them that it takes; NaN without an object.

    maps: (N, H, W). object_pixels: (N, H, W) bool.
    """
    inside = maps.new_full([len(maps)], torch.nan)
    pairs = zip(maps.flatten(1), object_pixels.flatten(1).bool(), strict=True)
    for n, (values, is_object) in enumerate(pairs):
        if count := int(is_object.sum()):
            level = values.topk(count).values[-1]
            above, at = values > level, values == level
            left = (count - above.sum()) / at.sum()
            inside[n] = ((above & is_object).sum() + left * (at & is_object).sum()) / count
    return inside
