"""Guessers that see nothing but the options: what a set of candidates gives away (not in the paper).

A guesser gives each option o of a set S a score and takes the highest; options that tie are taken with equal
probability. SSD(o) are the four look-alikes of o (paper fse, section 5.3).

| guesser | score of o |
|---|---|
| knows the dictionary | how many of S lie in SSD(o) |
| most like the others | Σ over S of cos(v_o, v_k), v the classes' attributes, or their names |
| least wanted | less the number of all classes k with o in SSD(k) |

In the paper's sets S = {y} ∪ SSD(y) the first is right or ties, for the true class y is the set's centre.
The floor of a figure is the highest of chance, these guessers, and the model's own answers to the options
alone, their order turned.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.preprocessing import normalize

from xaihelpers.fastslow.candidates import CANDIDATES
from xaihelpers.fastslow.pools import Pool

CHANCE = "chance"


def guess_blind(cases: pd.DataFrame, pool: Pool) -> pd.DataFrame:
    """How probable it is, in %, that each guesser takes the true class; a row for each case, by its index.

    cases: as of `case_table`. Columns: the guessers, the first "chance".
    """
    options = np.array(cases["candidates"].tolist(), int).reshape(-1, CANDIDATES)
    neighbours = pool.dictionary.neighbours
    in_set_of = np.zeros((len(neighbours), len(neighbours)), bool)  # row: a class, column: a look-alike
    np.put_along_axis(in_set_of, neighbours, True, 1)
    known = in_set_of[options[:, :, None], options[:, None, :]]  # (l, 5, 5)
    scores = {CHANCE: np.zeros(options.shape), "knows the dictionary": known.sum(2)}
    for kind, of_classes in pool.vectors.items():
        unit = normalize(of_classes)[options]  # (l, 5, d)
        scores[f"most like the others, by {kind}"] = np.einsum("lod,lkd->lo", unit, unit)
    scores["least wanted"] = -in_set_of.sum(0)[options]
    right = {guesser: 100 * share_right(of, cases["position"]) for guesser, of in scores.items()}
    return pd.DataFrame(right, cases.index)


def share_right(scores: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """(l,): 1 where the true option alone has the highest score, its share where several tie, else 0."""
    best = np.isclose(scores, scores.max(1, keepdims=True), rtol=1e-9)
    return best[np.arange(len(best)), np.asarray(positions, int)] / best.sum(1)


def blind_floor(guesses: pd.DataFrame, own: pd.Series | None = None) -> pd.Series:
    """How probable it is, in %, that the best of the guessers and of the model's own blind answers is right.

    guesses: (l,) rows, as of `guess_blind`.
    own: by the same index, the share of the model's blind answers to a case that are right, in %; what is
        missing could not be had. A case counts in all of the sources that are compared, or in none.
    Returns what a figure has to lie above, case by case, under the name of its source.
    """
    sources = guesses if own is None else guesses.assign(**{"itself, blind": own.reindex(guesses.index)})
    compared = sources.dropna()
    source = compared.mean().idxmax() if len(compared) else CHANCE  # of equal ones the first
    return sources[source]


def rotations(cases: pd.DataFrame) -> pd.DataFrame:
    """Each case five times, its options turned by one place each time: a favourite letter then costs nothing.

    The options are put in the order of the alphabet first, so that cases with the same five ask the same five
    questions, which a model need answer only once. `turn` is 0 to 4.
    """
    true_names = [options[place] for options, place in zip(cases["options"], cases["position"], strict=True)]
    turned = []
    for turn in range(CANDIDATES):
        options = [sorted(five)[turn:] + sorted(five)[:turn] for five in cases["options"]]
        positions = [five.index(name) for five, name in zip(options, true_names, strict=True)]
        turned.append(cases.assign(options=options, position=positions, turn=turn))
    return pd.concat(turned, ignore_index=True)
