"""Which images are asked about, and among which candidates (paper fse, section 5.3).

| sets | the four beside the true class |
|---|---|
| class | its class's look-alikes in the dictionary, one reading of the paper |
| image | the four that this image is most like, the other reading |
| balanced | as of class, but any of the five may be the true one, with equal probability (not in the paper) |
| random | any four, drawn anew for each case |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from xaihelpers.fastslow.pools import Pool

CANDIDATES = 5  # the true class and four distractors
LETTERS = tuple("ABCDE")  # of the options
SETS = ("class", "image", "balanced", "random")
COLUMNS = "data sets seed case row file candidates options position label centre".split()


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
    nearest: np.ndarray | None = None,
) -> Cases:
    """Draw images and their candidate sets, each in a random order.

    labels: (N,) of the images to draw from; none is drawn twice while there are enough. count: of cases.
    neighbours: (K, 4), the look-alikes of each class; None draws four other classes at random.
    balanced: the true class is any of a set with equal probability, so that the set itself tells nothing; a
        class without an image never is.
    nearest: (N, 4), the distractors of each image in place of its class's.
    Raises ValueError without an image.
    """
    labels, rng = np.asarray(labels), np.random.default_rng([seed, 31])
    if not len(labels):
        raise ValueError("there is no image to ask about: the data need test images")

    def set_of(centre: int) -> list[int]:
        if neighbours is not None:
            return [centre, *neighbours[centre].tolist()]
        others = np.delete(np.arange(n_classes), centre)
        return [centre, *rng.choice(others, CANDIDATES - 1, replace=False).tolist()]

    # used in balanced sets only, but drawn here, so that both kinds of sets use the same random numbers
    images_of = {int(k): rng.permutation(np.flatnonzero(labels == k)).tolist() for k in np.unique(labels)}
    if balanced:
        rows, sets = [], []
        while len(rows) < count:
            candidates = set_of(int(rng.integers(n_classes)))
            of_class = images_of.get(int(rng.choice(candidates)))
            if of_class is None:  # nothing to ask about: another set
                continue
            rows.append(of_class[0])
            of_class.append(of_class.pop(0))  # the images of a class take turns
            sets.append(candidates)
    else:
        passes = [rng.permutation(len(labels)) for _ in range(-(-count // len(labels)))]
        rows = np.concatenate(passes)[:count]
        sets = [set_of(k) for k in labels[rows]] if nearest is None else np.c_[labels[rows], nearest[rows]]
    options = np.array([rng.permutation(candidates) for candidates in sets]).reshape(-1, CANDIDATES)
    rows = np.array(rows, int)
    positions = (options == labels[rows, None]).argmax(1)
    return Cases(rows, options, positions, np.array([centre for centre, *_ in sets], int))


def case_table(
    pool: Pool,
    sets: str = "class",
    count: int = 0,
    seeds: Sequence[int] = (0,),
    labels: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> pd.DataFrame:
    """The cases of one run for each seed, one case a row.

    sets: one of `SETS`. count: of cases; 0 takes every image of the pool once.
    labels: (N,), classes in place of the true ones, around which the sets are built.
    rows: images of the data set in place of the pool's.
    Returns the columns `data`, `sets`, `seed`, `case` (its number in each run), `row` (of the image in the
        data set), `file` (of the image), `candidates` (class indices), `options` (their names), `position`
        (0 … 4, of the true class), and by name the true class, `label`, and the class whose set it is,
        `centre`; no rows for the sets "image" where the dictionary knows no images.
    Raises ValueError for unknown sets, no seed, a count below 0, and as `draw_cases` and `Dictionary.nearest`
        do.
    """
    if sets not in SETS:
        raise ValueError(f"sets must be one of {', '.join(SETS)}, not {sets!r}")
    if count < 0 or not len(seeds):
        raise ValueError(
            f"{len(seeds)} runs of {count} cases: name 1 run or more, and 1 case or more, or 0 for all images"
        )
    names = np.array(pool.data.class_names, object)
    rows = np.asarray(pool.rows if rows is None else rows, int)
    asked = (pool.labels if labels is None else np.asarray(labels))[rows]
    neighbours = None if sets == "random" else pool.dictionary.neighbours
    nearest = pool.dictionary.nearest(rows, asked) if sets == "image" else None
    if sets == "image" and nearest is None:
        return pd.DataFrame(columns=COLUMNS)
    runs = []
    for seed in seeds:
        about = count or len(rows), neighbours, sets == "balanced", seed, nearest
        drawn = draw_cases(asked, len(names), *about)
        run = pd.DataFrame(
            {"row": rows[drawn.rows], "position": drawn.answers, "centre": names[drawn.centres]}
        )
        run["file"], run["label"] = pool.paths[run["row"]], names[asked[drawn.rows]]
        run["candidates"], run["options"] = drawn.options.tolist(), names[drawn.options].tolist()
        runs.append(run.assign(data=pool.name, sets=sets, seed=seed, case=range(len(run))))
    return pd.concat(runs, ignore_index=True)[COLUMNS]
