"""The ideal reader: the best choice that a chain of concepts allows (not in the paper).

A statement s is one word about one thing in one stage: "blue crown" among the detailed features says
(detailed, crown, blue). With p_ks the share of class k's chains that say s, estimated from true chains, the
reader takes the option of highest posterior under equal priors,

    log P(k | c) = Σ_s [s ∈ c] log p_ks + [s ∉ c] log (1 − p_ks) + const,

which is optimal for chains like those it learnt from, as far as statements are independent of each other
within a class. What it gets right of true chains is what the vocabulary can carry; of an annotator's chains,
what survives the annotator's errors for a reader who does not expect them.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import Pipeline, make_pipeline

from xaihelpers.datasets import Dataset, image_attributes
from xaihelpers.fastslow.chains import STAGES
from xaihelpers.fastslow.guessers import share_right
from xaihelpers.fastslow.label_chains import UNKNOWN, chain_from_attributes, chains_from_labels

Chain = Mapping[str, str]


def statements(chain: Chain | None) -> list[str]:
    """What a chain says: for each phrase of each stage, its last word, and that word with each before it.

    "long red bill" in DetailedFeatures: "DetailedFeatures bill", "… bill long", "… bill red".
    """
    said = []
    for stage, text in (chain or {}).items():
        for phrase in re.split(r"[,;.]", text.lower()):
            *before, last = re.findall(r"[\w'-]+", phrase) or [""]
            if last:
                said += [f"{stage} {last}", *(f"{stage} {last} {word}" for word in before)]
    return said


def fit_reader(chains: Sequence[Chain], labels: Sequence[int], t: int) -> Pipeline:
    """A reader of the first t stages, from true chains and the classes of what they describe."""
    reader = make_pipeline(
        CountVectorizer(analyzer=statements, binary=True), BernoulliNB(alpha=0.5, fit_prior=False)
    )
    return reader.fit([_first_stages(chain, t) for chain in chains], labels)


def read_chains(
    reader: Pipeline, chains: Sequence[Chain | None], candidates: Sequence[Sequence[int]], t: int
) -> np.ndarray:
    """The posterior of each candidate, (l, 5), given the first t stages; equal where there is no chain.

    candidates: (l, 5) class indices. A class of which the reader knows no chain has probability 0.
    """
    found = reader.predict_log_proba([_first_stages(chain, t) for chain in chains])  # (l, classes known)
    of_class = np.full((len(found), max(reader.classes_.max(), np.max(candidates)) + 1), -np.inf)
    of_class[:, reader.classes_] = found
    scores = np.take_along_axis(of_class, np.asarray(candidates), 1)  # (l, 5)
    scores[[not chain for chain in chains]] = 0.0
    posterior = np.exp(scores - scores.max(1, keepdims=True))
    return posterior / posterior.sum(1, keepdims=True)


def read_cases(reader: Pipeline, cases: pd.DataFrame, found: Mapping[int, Chain | None], t: int) -> pd.Series:
    """How probable it is, in %, that the reader takes the true class of each case; by the index of the cases.

    cases: as of `fastslow.case_table`. found: row of an image -> its chain.
    """
    own = [found[row] for row in cases["row"]]
    posterior = read_chains(reader, own, cases["candidates"].tolist(), t)
    return pd.Series(100 * share_right(posterior, cases["position"]), cases.index)


def training_chains(
    data: Dataset, seed: int = 0, per_class: int = 50
) -> tuple[list[dict[str, str]], np.ndarray]:
    """True chains to learn reading from, and their classes: of the training images' labels.

    Where no image has labels of its own, `per_class` chains are drawn, each attribute for itself with the
    share of people who saw it on the class. None where nothing has attributes.
    """
    if data.attributes is None:
        return [], np.array([], int)
    if data.attribute_level == "image":
        train = np.flatnonzero(data.images["train"])
        return list(chains_from_labels(data, train).values()), data.labels.numpy()[train]
    names = data.attributes["name"].to_numpy()
    shares = data.class_attributes.nan_to_num().numpy()  # (K, A)
    labels = np.arange(len(shares)).repeat(per_class)
    present = np.random.default_rng(seed).random((len(labels), len(names))) < shares[labels]
    return [chain_from_attributes(names[row]) for row in present], labels


def corrupted_chains(
    data: Dataset, rows: Sequence[int], recall: float, precision: float, rng: np.random.Generator
) -> list[dict[str, str]]:
    """The chain of each of these images by its own visible attributes, of which some are false or left out.

    rows: positions (0-based) in `data.images`.
    recall: share of the true attributes that are spoken of at all; precision: share of these that stay true.
    The others are exchanged for false ones of their group, or left out where it has none.
    Raises DatasetError as `image_attributes` does.
    """
    present, certainty = image_attributes(data)
    visible = (present & (certainty > 1)).numpy()[np.asarray(rows, int)]  # (l, A)
    names = data.attributes["name"].to_numpy()
    group = np.array([name.split("::")[0] for name in names])
    said = visible & (rng.random(visible.shape) < recall)
    for row, column in np.argwhere(said & (rng.random(visible.shape) >= precision)):
        others = np.flatnonzero((group == group[column]) & ~visible[row] & ~said[row])
        said[row, column] = False
        if len(others):
            said[row, rng.choice(others)] = True
    return [chain_from_attributes(names[row]) for row in said]


def statements_true(chain: Chain | None, known: Chain) -> tuple[float, float]:
    """How much of what a chain says is true, and how much of what is true it says, in %.

    known: the chain of all that is true. Stages of which it knows nothing are left out. A chain that says
    nothing says nothing that is true: 0 and 0; where nothing is known, NaN.
    """
    stages = [stage for stage, text in known.items() if text != UNKNOWN]
    there, said = set(), set()
    for found, texts in ((there, known), (said, chain or {})):
        of_stages = {stage: texts[stage] for stage in stages if texts.get(stage, UNKNOWN) != UNKNOWN}
        found.update(statements(of_stages))
    if not there:
        return np.nan, np.nan
    both = len(said & there)
    return 100 * both / max(len(said), 1), 100 * both / len(there)


def _first_stages(chain: Chain | None, t: int) -> dict[str, str]:
    return {stage: chain[stage] for stage in STAGES[:t]} if chain else {}
