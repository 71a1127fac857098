"""What S+ is to be compared with: recall on real images, in the benchmark's mix of attributes.

With w_a the share of the benchmark's images whose attribute is a, and r_a the share of the real images with a
of which it is predicted:

    recall = Σ_a w_a r_a / Σ_a w_a,     gap = Σ_a w_a (S+_a - r_a) / Σ_a w_a

over the attributes that the real images have.

| symbol | name | shape |
|---|---|---|
| r_a | `hits`, one for each attribute present of each real image | (D · present,) |
| w_a | `weights` | (L,) |
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.scores.sub.substitution import columns_of


def standardised_recall(
    predicted: torch.Tensor,
    truth: torch.Tensor,
    labels: Sequence[int],
    images: pd.DataFrame,
    concepts: Sequence[str],
) -> Interval:
    """Recall on real images in %, each attribute weighed as the benchmark weighs it.

    What S+ would be if a changed bird were seen as well as one that has the attribute by nature.

    predicted: bool (D, M, L), of D draws and M real images. truth: (M, L) of 0 and 1.
    labels: (M,), classes of the real images.
    images: N rows of the benchmark with the column attribute.
    Raises DatasetError as `columns_of`.
    """
    present = _present(predicted, truth, labels)
    columns = columns_of(images.attribute.tolist(), concepts)
    weights = np.bincount(columns[columns >= 0], minlength=len(concepts)).astype(float)
    return _weighed_mean(present.assign(block=present.concept), weights, PERCENT)


def recall_gap(
    s_plus: np.ndarray,
    images: pd.DataFrame,
    predicted: torch.Tensor,
    truth: torch.Tensor,
    labels: Sequence[int],
    concepts: Sequence[str],
) -> Interval:
    """S+ less the standardised recall, in points, over the attributes that the real images have.

    s_plus: (D, N) in %, of `image_scores`. images: N rows with the columns attribute and label.
    The rest, and the errors, as of `standardised_recall`.
    """
    columns = np.tile(columns_of(images.attribute.tolist(), concepts), len(s_plus))
    changed = pd.DataFrame(
        {
            "hit": s_plus.ravel(),
            "concept": columns,
            "label": np.tile(images.label.to_numpy(), len(s_plus)),
            "draw": np.arange(len(s_plus)).repeat(len(images)),
        }
    )
    changed = changed[changed.hit.notna() & (columns >= 0)]
    present = _present(predicted, truth, labels)
    changed = changed[changed.concept.isin(present.concept)]
    present = present[present.concept.isin(changed.concept)]
    weights = np.bincount(changed.concept, minlength=len(concepts)).astype(float)
    # a second block of concepts, of the real images and negative: the mean over both is half of the gap
    present = present.assign(hit=-present.hit, block=present.concept + len(concepts))
    rows = pd.concat([changed.assign(block=changed.concept), present])
    half = _weighed_mean(rows, np.tile(weights, 2), None)
    value, low, high = (2 * number for number in half[:3])
    return half._replace(value=value, low=max(-100.0, low), high=min(100.0, high), cases=len(changed))


def _present(predicted: torch.Tensor, truth: torch.Tensor, labels: Sequence[int]) -> pd.DataFrame:
    """A row for each concept that a real image has, by draw: hit (0, 100), concept, label, draw."""
    rows, concepts = np.nonzero(truth.numpy() > 0.5)
    hits = 100.0 * predicted.numpy()[:, rows, concepts]  # (D, present)
    n_draws = len(hits)
    return pd.DataFrame(
        {
            "hit": hits.ravel(),
            "concept": np.tile(concepts, n_draws),
            "label": np.tile(np.asarray(labels)[rows], n_draws),
            "draw": np.arange(n_draws).repeat(len(rows)),
        }
    )


def _weighed_mean(rows: pd.DataFrame, weights: np.ndarray, bounds: tuple[int, int] | None) -> Interval:
    """The mean over blocks, weighted, of their mean hit; concepts, classes and draws are drawn again."""
    rows = rows[weights[rows.block] > 0]
    n_blocks = len(weights)

    def weighed(sums, counts):
        used = weights * (counts > 0)
        with np.errstate(invalid="ignore", divide="ignore"):  # no block is left
            return (used * sums / np.maximum(counts, 1)).sum(-1) / used.sum(-1)

    def sums_and_counts(hits, blocks, groups, n_groups):
        cells = groups * n_blocks + blocks.astype(int)
        sums = np.bincount(cells, hits, n_groups * n_blocks)
        counts = np.bincount(cells, minlength=n_groups * n_blocks)
        return sums.reshape(n_groups, n_blocks), counts.reshape(n_groups, n_blocks)

    def mean(hits, blocks):
        (value,) = weighed(*sums_and_counts(hits, blocks, np.zeros(len(hits), int), 1))
        return value

    def without(columns, groups):
        sums, counts = sums_and_counts(*columns, groups, groups.max() + 1)
        return weighed(sums.sum(0) - sums, counts.sum(0) - counts)

    return interval(
        rows.hit,
        rows.block,
        statistic=mean,
        clusters=[rows.concept, rows.label],
        draws=rows.draw if rows.draw.nunique() > 1 else None,
        bounds=bounds,
        without=without,
    )
