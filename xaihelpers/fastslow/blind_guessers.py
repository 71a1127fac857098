"""Guessers that see nothing but the options: what a set of candidates gives away (not in the paper).

A guesser gives each option o of a set S a score and takes the highest; options that tie are taken with equal
probability. SSD(o) are the four look-alikes of o (paper fse, section 5.3).

| guesser | score of o |
|---|---|
| knows the dictionary | how many of S lie in SSD(o) |
| most like the others | Σ over S of cos(v_o, v_k), v the classes' attributes, or their names |
| least wanted | less the number of all classes k with o in SSD(k) |

In the paper's sets S = {y} ∪ SSD(y) the first is right or ties, for the true class y is the set's centre.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer

from xaihelpers.fastslow.candidates import CANDIDATES
from xaihelpers.fastslow.ideal_reader import share_right

CHANCE = "chance"


def blind_guessers(
    candidates: Sequence[Sequence[int]],
    positions: Sequence[int],
    neighbours: np.ndarray,
    vectors: dict[str, np.ndarray],
) -> pd.DataFrame:
    """How probable it is that each guesser takes the true class of each case.

    candidates: (l, 5) class indices. positions: (l,), of the true class among them.
    neighbours: (K, 4), the similarity dictionary.
    vectors: for each kind ("class attributes", "names"), vectors of the classes (K, d), a zero vector where
        nothing is known.
    Returns (l,) rows of probabilities, a column for each guesser, the first "chance".
    """
    options = np.asarray(candidates)  # (l, 5)
    n_classes = len(neighbours)
    is_neighbour = np.zeros((n_classes, n_classes), bool)  # row: a class, column: one of its look-alikes
    is_neighbour[np.arange(n_classes)[:, None], neighbours] = True
    within = is_neighbour[options[:, :, None], options[:, None, :]]  # (l, 5, 5)
    scores = {CHANCE: np.zeros(options.shape), "knows the dictionary": within.sum(2)}
    for kind, of_classes in vectors.items():
        unit = of_classes / np.linalg.norm(of_classes, axis=1, keepdims=True).clip(1e-12)  # (K, d)
        unit = unit[options]  # (l, 5, d)
        scores[f"most like the others, by {kind}"] = np.einsum("lod,lkd->lo", unit, unit)
    scores["least wanted"] = -is_neighbour.sum(0)[options]
    return pd.DataFrame({name: share_right(score, positions) for name, score in scores.items()})


def name_vectors(names: Sequence[str]) -> np.ndarray:
    """Class names by their letters, (K, d): tf-idf of the sequences of two to four letters in their words."""
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(names).toarray()


def rotations(cases: pd.DataFrame) -> pd.DataFrame:
    """Each case five times, its options turned by one place each time: a favourite letter then costs nothing.

    cases: with `options` and `position`. Returns the table with the column `turn`, 0 to 4.
    """
    turned = []
    for turn in range(CANDIDATES):
        options = [[*row[turn:], *row[:turn]] for row in cases["options"]]
        position = (cases["position"] - turn) % CANDIDATES
        turned.append(cases.assign(options=options, position=position, turn=turn))
    return pd.concat(turned, ignore_index=True)
