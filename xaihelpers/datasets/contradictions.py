"""What a data set says twice, held against itself: boxes, points, masks, sizes, labels, shares, the split.

A contradiction of a few images is counted in the log; one of more than a twentieth is a fault of the whole
set, and refused with what the numbers look like.
"""

import hashlib
import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.dataset import Dataset, DatasetError

log = logging.getLogger(__name__)
OFTEN = 0.05  # share of images
BOX = ["x", "y", "width", "height"]
HALF_A_PIXEL = 0.5
OFF_CENTRE = 0.42  # boxes lie at half of width and height on average
IMAGES_COMPARED = 20_000  # at most, across the split
FEWEST_COPIES = 10
MASKS_COMPARED = 20  # or some fewer
# share of images whose labels are rather those of their class: by chance a half, with many errors still 0.98
SAME_CLASS, RIGHT_OR_NOISY = 0.85, 0.98
OTHER_SCALE = 3
NOISE = 1.15  # times what is expected where the labels of a class are drawn with its shares
FEWEST = 20  # images from which on averages say something


def require_points_in_boxes(root: Path, images: pd.DataFrame, points: np.ndarray) -> None:
    """Hold boxes and part centres against each other: an object's parts lie in its box, or near it.

    images: with the box of each, empty where it has none. points: (N, P, 2), NaN where not visible.
    Raises DatasetError for a negative width or height, boxes in shares of the picture, and points elsewhere.
    """
    boxes = images[BOX].to_numpy(float)
    file = root / "bounding_boxes.txt"
    negative = (boxes[:, 2:] < 0).any(1)
    if negative.any():
        image = images.index[negative.argmax()]
        raise DatasetError(f"{file}, image {image}: a side is negative: write x, y, width and height")
    if 0 < boxes.max() <= 1:
        raise DatasetError(
            f"{file}: the boxes are of 0 to 1: write pixels, times the picture's width and height"
        )
    has_both = ~np.isnan(points[..., 0]).all(1) & (boxes[:, 2:] > 0).all(1)
    outside = has_both & _leave(points, boxes)
    if not outside.any():
        return
    swapped = boxes[:, [1, 0, 3, 2]]
    looks = "of pictures of another size, of other images, or with a box's centre for its corner"
    if np.nanmax(points) <= 1:
        looks = "the points in shares of the picture, of 0 to 1: write pixels"
    elif _is_rare(has_both & _leave(points, swapped), has_both):
        looks = "y before x in one of them: write x first"
    first = Path(images["path"].iloc[outside.argmax()]).name
    told = (
        f"{root}: parts lie outside of their object's box in {outside.sum():,} of {has_both.sum():,} images"
    )
    if not _is_rare(outside, has_both):
        raise DatasetError(
            f"{told}, {first} first: bounding_boxes.txt and parts/part_locs.txt contradict each other, as "
            f"{looks}"
        )
    log.warning("%s, %s first", told, first, extra={"note": True})


def require_boxes_in_pictures(name: str, boxes: np.ndarray, sizes: np.ndarray) -> None:
    """Hold the boxes of some images of a data set, (n, 4), against the sizes of the pictures, (n, 2).

    Raises DatasetError, with what the numbers look like, where too many leave their picture, or all keep to
    its upper left.
    """
    known = (boxes[:, 2:] > 0).all(1)
    boxes, sizes = boxes[known], sizes[known]
    if not len(boxes):
        return
    out = _leave_picture(boxes, sizes)
    if not _is_rare(out, known):
        corners = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)
        are_corners = (corners[:, 2:] > 0).all(1) & ~_leave_picture(corners, sizes)
        looks = "those of the pictures before these were resized or cut: use those, or change boxes, too"
        if _is_rare(~are_corners, known):
            looks = "corners, x1, y1, x2, y2: write x, y, width and height"
        elif _is_rare(_leave_picture(boxes[:, [1, 0, 3, 2]], sizes), known):
            looks = "y before x, and height before width: write x first"
        raise DatasetError(
            f"{name}: {out.sum():,} of {len(out):,} boxes that were looked at leave their picture; they look "
            f"like {looks}"
        )
    centre = ((boxes[:, :2] + boxes[:, 2:] / 2) / sizes).mean(0)
    if len(boxes) < FEWEST or (centre >= OFF_CENTRE).all():
        return
    at = " and ".join(f"{100 * share:.0f} %" for share in centre)
    told = f"{name}: boxes lie on average at {at} of width and height, as of pictures that were enlarged"
    if (centre < OFF_CENTRE).all():
        raise DatasetError(f"{told}: use those before, or change boxes, too")
    log.warning("%s: is that right?", told, extra={"note": True})


def require_masks_in_boxes(data: Dataset, rows: Sequence[int]) -> None:
    """Hold some of the part masks of images (at `rows`, 0-based) against the boxes, where both are there.

    Raises DatasetError where more than a fifth of what they show lies outside, and as `Dataset.part_mask`.
    """
    shares = []
    for row in rows[:: len(rows) // MASKS_COMPARED + 1]:
        image = data.images.iloc[row]
        if "width" not in image or not data.mask_file(row).is_file() or not Path(image["path"]).is_file():
            continue
        down, right = np.nonzero(data.part_mask(row))
        if len(right) and image["width"] > 0 and image["height"] > 0:
            across = (right + 1 > image["x"]) & (right < image["x"] + image["width"])
            along = (down + 1 > image["y"]) & (down < image["y"] + image["height"])
            shares.append((across & along).mean())
    if shares and np.mean(shares) < 0.8:
        raise DatasetError(
            f"{data.name}: only {100 * np.mean(shares):.0f} % of what {len(shares)} part masks show, as "
            f"{data.mask_file(rows[0])}, lies in the boxes of bounding_boxes.txt: masks are of other images, "
            "or boxes and points have y before x"
        )


def require_labels_of_classes(
    file: Path, present: torch.Tensor, visible: torch.Tensor, labels: torch.Tensor, shares: torch.Tensor
) -> None:
    """Hold the attribute labels of images against the shares of their classes, and of the others.

    Labels of other images, as where a subset was numbered anew beside the whole's file, agree as well with
    any class as with their own. Where classes hardly differ, labels pass that are as near to the shares as
    labels drawn with them.

    present, visible: (N, A) bool. labels: (N,) int64. shares: (K, A) in [0, 1].
    Raises DatasetError where labels and shares contradict each other.
    """
    if len(present) < FEWEST or len(shares) < 2:
        return
    seen, rows = visible.float(), torch.arange(len(present))
    found = (present & visible).float()
    distance = seen @ shares.T + found @ (1 - 2 * shares).T  # (N, K), sum of |label - share|
    own = distance[rows, labels]
    other = (distance.sum(1) - own) / (len(shares) - 1)
    agree = float((own <= other + 1e-4).float().mean())
    votes = torch.zeros_like(shares).index_add_(0, labels, found)
    counts = torch.zeros_like(shares).index_add_(0, labels, seen)
    is_known = counts > 0
    gap = (votes / counts.clamp(min=1) - shares).abs()[is_known].mean()
    # the mean absolute deviation of a normal variable is 0.8 times its standard deviation
    expected = 0.8 * (shares * (1 - shares) / counts.clamp(min=1)).sqrt()[is_known].mean()
    scale = float(((counts * shares).sum() + 1) / (found.sum() + 1))
    if not 1 / OTHER_SCALE < scale < OTHER_SCALE:
        raise DatasetError(
            f"{file}: by the percentages of their classes images would have {scale:.2g} times the attributes "
            "that they are labelled with: write percentages of 0 to 100, and labels of these images"
        )
    told = f"{file}: the labels of {100 * agree:.1f} % of the images are nearer to the percentages of their "
    told += "class than to those of the others"
    if gap > NOISE * expected and agree < SAME_CLASS:
        raise DatasetError(
            f"{told}: images, classes or attributes are numbered otherwise than in images.txt, classes.txt "
            "and attributes.txt: take the file of this data set"
        )
    if gap > NOISE * expected and agree < RIGHT_OR_NOISY:
        log.warning("%s: are some labels those of other images?", told, extra={"note": True})


def require_split(data: Dataset) -> None:
    """Count the test images whose files are, byte for byte, also for training.

    Of data with more than `IMAGES_COMPARED` images some classes are compared.
    Raises DatasetError where most test images are for training, and `FEWEST_COPIES` or more are different.
    """
    paths, train, labels = data.images["path"].to_numpy(), data.train.numpy(), data.labels.numpy()
    if not train.any() or train.all():
        return
    classes, counts = np.unique(labels, return_counts=True)
    order = np.random.default_rng(0).permutation(len(classes))
    fit = max(1, int((counts[order].cumsum() <= IMAGES_COMPARED).sum()))
    compared = np.isin(labels, classes[order[:fit]])
    of_size = defaultdict(lambda: ([], []))  # test and training files of a size
    for path, is_train in zip(paths[compared], train[compared].tolist(), strict=True):
        try:
            of_size[os.stat(path).st_size][is_train].append(path)
        except OSError:
            continue  # `load_image` names it
    copies = {}  # test files that are for training, and their content
    for size, (test, training) in of_size.items():
        if size and test and training:
            known = set(map(_content, training))
            of_test = {path: _content(path) for path in test}
            copies |= {path: content for path, content in of_test.items() if content in known}
    if not copies:
        return
    n_test = int((~train & compared).sum())
    told = f"{data.name}: {len(copies):,} of {n_test:,} test images are also for training, byte for byte"
    if len(copies) > n_test / 2 and len(set(copies.values())) >= FEWEST_COPIES:
        raise DatasetError(f"{told}, {min(copies)} first: take other images for testing")
    log.warning("%s, %s first", told, Path(min(copies)).name, extra={"note": True})


def _content(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _is_rare(wrong: np.ndarray, of: np.ndarray) -> bool:
    """Whether a fault is one of few images: a twentieth at most, or a single one of several."""
    return wrong.sum() <= max(OFTEN * of.sum(), of.sum() > 1)


def _leave(points: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """(N,) bool, whether any visible point lies outside of its box with a tenth of its sides as margin."""
    start, size = boxes[:, None, :2], boxes[:, None, 2:]
    margin = size / 10 + HALF_A_PIXEL
    return ((points < start - margin) | (points > start + size + margin)).any((1, 2))


def _leave_picture(boxes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(n,) bool, whether a box leaves its picture, by more than rounding."""
    is_before = (boxes[:, :2] < -HALF_A_PIXEL).any(1)
    return is_before | (boxes[:, :2] + boxes[:, 2:] > sizes + HALF_A_PIXEL).any(1)
