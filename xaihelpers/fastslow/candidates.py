"""Which images are asked about, and among which candidates (paper fse, section 5.3)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

CANDIDATES = 5  # the true class and four distractors
# the columns of `case_table` that say which cases hang together: those of one set, and those of one true
# class (its pictures, and its chain where it has one); the same column twice but in balanced sets
CLUSTERS = ["centre", "label"]


class Cases(NamedTuple):
    """l cases to be asked about."""

    rows: np.ndarray  # (l,) which image
    options: np.ndarray  # (l, 5) the candidates as class indices, in the order of their letters
    answers: np.ndarray  # (l,) the position of the true class among them
    centres: np.ndarray  # (l,) the class whose set it is: the true one, but in balanced sets


def draw_cases(
    labels: np.ndarray,
    n_classes: int,
    count: int,
    neighbours: np.ndarray | None = None,
    balanced: bool = False,
    seed: int = 0,
) -> Cases:
    """Draw images and their candidate sets, each in a random order.

    labels: (N,) of the images to draw from; none is drawn twice while there are enough. count: of cases.
    neighbours: (K, 4) as `similarity_dictionary` gives them; None draws four other classes at random.
    balanced: False, as in the paper, makes the true class the centre of its own set. True makes a set of a
        class and its four neighbours, of which any is the true one with equal probability, so that the set
        itself tells nothing. A class without an image is then never the true one.
    Raises ValueError: fewer than five classes, or no image.
    """
    labels, rng = np.asarray(labels), np.random.default_rng([seed, 31])
    if n_classes < CANDIDATES or not len(labels):
        raise ValueError(
            f"{n_classes} classes and {len(labels)} images: a set of candidates needs at least {CANDIDATES} "
            "classes, and an image to ask about"
        )
    # drawn in balanced sets only, but here, so that both kinds of sets use the same random numbers
    images_of = {int(k): rng.permutation(np.flatnonzero(labels == k)).tolist() for k in np.unique(labels)}
    if balanced:
        rows, sets, true_classes = _balanced_sets(rng, images_of, n_classes, count, neighbours)
    else:
        passes = [rng.permutation(len(labels)) for _ in range(-(-count // len(labels)))]
        rows = np.concatenate(passes)[:count]
        true_classes = labels[rows].tolist()
        sets = [[k, *_distractors(rng, k, n_classes, neighbours)] for k in true_classes]
    options = np.array([rng.permutation(candidates) for candidates in sets]).reshape(-1, CANDIDATES)
    positions = (options == np.array(true_classes)[:, None]).argmax(1)
    centres = np.array([centre for centre, *_ in sets], int)
    return Cases(np.array(rows, int), options, positions, centres)


def case_table(
    rows: Sequence[int],
    labels: np.ndarray,
    class_names: Sequence[str],
    count: int,
    neighbours: np.ndarray | None = None,
    balanced: bool = False,
    seeds: Sequence[int] = (0,),
) -> pd.DataFrame:
    """The cases of one run for each seed, one case a row.

    rows: the images of the data set to draw from.
    labels: (N,) of all its images. The other arguments: as in `draw_cases`.
    Returns the columns `seed`, `case` (0 … count − 1 in each run), `row` (of the image in the data set),
        `candidates` (class indices), `options` (their names), `position` (0 … 4, of the true class), and by
        name the true class, `label`, and the class whose set it is, `centre`.
    Raises ValueError as `draw_cases` does.
    """
    rows = np.asarray(rows)
    lines = []
    for seed in seeds:
        drawn = draw_cases(np.asarray(labels)[rows], len(class_names), count, neighbours, balanced, seed)
        for case, (row, candidates, position, centre) in enumerate(zip(*drawn, strict=True)):
            line = {"seed": seed, "case": case, "row": int(rows[row]), "candidates": candidates.tolist()}
            line["options"] = [class_names[k] for k in candidates]
            line |= {"position": int(position), "label": line["options"][position]}
            lines.append(line | {"centre": class_names[centre]})
    return pd.DataFrame(lines)


def _balanced_sets(
    rng: np.random.Generator,
    images_of: dict[int, list[int]],
    n_classes: int,
    count: int,
    neighbours: np.ndarray | None,
) -> tuple[list[int], list[list[int]], list[int]]:
    """Images, sets of candidates and true classes; each member of a set is the true one equally often."""
    rows, sets, true_classes = [], [], []
    while len(rows) < count:
        centre = int(rng.integers(n_classes))
        candidates = [centre, *_distractors(rng, centre, n_classes, neighbours)]
        true_class = int(rng.choice(candidates))
        if true_class not in images_of:  # nothing to ask about: another set
            continue
        first, *others = images_of[true_class]
        images_of[true_class] = [*others, first]  # the images of a class take turns
        rows.append(first)
        sets.append(candidates)
        true_classes.append(true_class)
    return rows, sets, true_classes


def _distractors(
    rng: np.random.Generator, label: int, n_classes: int, neighbours: np.ndarray | None
) -> list[int]:
    if neighbours is not None:
        return [int(k) for k in neighbours[label]]
    others = np.delete(np.arange(n_classes), label)
    return rng.choice(others, CANDIDATES - 1, replace=False).tolist()
