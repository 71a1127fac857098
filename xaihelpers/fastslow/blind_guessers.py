"""Guessers that see nothing but the options: what a set of candidates gives away (not in the paper).

A guesser gives each option o of a set S a score and takes the highest; options that tie are taken with equal
probability. SSD(o) are the four look-alikes of o (paper fse, section 5.3).

| guesser | score of o |
|---|---|
| knows the dictionary | how many of S lie in SSD(o) |
| most like the others | Σ over S of cos(v_o, v_k), v the classes' attributes, or their names |
| least wanted | less the number of all classes k with o in SSD(k) |

In the paper's sets S = {y} ∪ SSD(y) the first is right or ties, for the true class y is the set's centre.

The floor of a figure is what may have been guessed: the highest of chance, of these guessers, and of the
model's own answers to the options alone, their order turned.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.feature_extraction.text import TfidfVectorizer

from xaihelpers.datasets import Dataset
from xaihelpers.fastslow.candidates import CANDIDATES
from xaihelpers.fastslow.ideal_reader import share_right
from xaihelpers.models.clip import Clip, embed_texts

CHANCE, ITSELF = "chance", "itself, blind"


class Floor(NamedTuple):
    """What a figure has to lie above, case by case."""

    source: str  # a guesser, "chance" or "itself, blind"
    right: np.ndarray  # (l,) how probable it is that this source takes the true class


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


def class_vectors(data: Dataset, clip: Clip | None = None) -> dict[str, np.ndarray]:
    """Vectors (K, d) by which a guesser may find two classes alike, as far as the data set has them.

    clip: whose embeddings of "a photo of a ..." serve as well; None for none.
    """
    vectors = {"names' letters": name_vectors(data.class_names)}
    if data.class_attributes is not None:
        vectors["class attributes"] = data.class_attributes.nan_to_num().numpy()
    if clip is not None:
        phrases = [f"a photo of a {name}" for name in data.class_names]
        vectors["names, by CLIP"] = embed_texts(clip, phrases, "truncate").rows.numpy()
    return vectors


def guess_blind(cases: pd.DataFrame, neighbours: np.ndarray, vectors: dict[str, np.ndarray]) -> pd.DataFrame:
    """`blind_guessers` for a table of cases, as `case_table` gives them: a row for each case, by its index.

    neighbours: (K, 4). vectors: as `class_vectors` gives them.
    """
    guesses = blind_guessers(cases["candidates"].tolist(), cases["position"], neighbours, vectors)
    return guesses.set_index(cases.index)


def blind_floor(guesses: pd.DataFrame, own: ArrayLike | None = None) -> Floor:
    """The best of the guessers, of chance, and of the model's own blind answers.

    guesses: (l,) rows, as `guess_blind` gives them.
    own: (l,), the share of the model's blind answers to a case that are right, in [0, 1]; NaN where none
        could be had. A case counts in all of the sources that are compared, or in none.
    """
    sources = guesses if own is None else guesses.assign(**{ITSELF: np.asarray(own, float)})
    source = sources.dropna().mean().idxmax() if len(sources.dropna()) else CHANCE  # of equal ones the first
    return Floor(source, sources[source].to_numpy())


def name_vectors(names: Sequence[str]) -> np.ndarray:
    """Class names by their letters, (K, d): tf-idf of the sequences of two to four letters in their words."""
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(names).toarray()


def rotations(cases: pd.DataFrame) -> pd.DataFrame:
    """Each case five times, its options turned by one place each time: a favourite letter then costs nothing.

    The options are put in the order of the alphabet first, so that cases with the same five ask the same five
    questions, which a model need answer only once.

    cases: with `options` and `position`. Returns the table with the column `turn`, 0 to 4.
    """
    true_names = [options[place] for options, place in zip(cases["options"], cases["position"], strict=True)]
    in_order = [sorted(options) for options in cases["options"]]
    turned = []
    for turn in range(CANDIDATES):
        options = [[*row[turn:], *row[:turn]] for row in in_order]
        positions = [row.index(name) for row, name in zip(options, true_names, strict=True)]
        turned.append(cases.assign(options=options, position=positions, turn=turn))
    return pd.concat(turned, ignore_index=True)
