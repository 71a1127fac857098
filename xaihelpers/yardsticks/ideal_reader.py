"""The ideal reader: the best choice by what a chain says, to one who understands it (not in the paper).

A statement is a part and what it is like, wherever in the chain it stands: "long red bill" says (bill, long)
and (bill, red), and that there is a bill. What the reader does with each:

| said | log-likelihood of class k |
|---|---|
| there is such a part, s | log p_ks, the share of class k's chains that name it |
| a value of a part, s | log p_ks, its share in those that say anything of this part |
| a value that is not said of a part of which others are | log (1 − p_ks) |
| "no red bill" | log (1 − p_ks); all else of the part stays unknown |
| nothing of a part; a word that no class has | nothing |

The shares are those of true chains, and priors are equal. So a chain that denies what is there leads away
from the class, one that moves colours to other parts says what it says, in another order it says the same,
and names of parts alone say next to nothing, for all classes have them. Its choice is the best by what
is said in chains like those it learnt from, as far as statements are independent within a class.

`fit_author` is another reader, who has learnt what the words of one annotator stand for, whatever they say.
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
from xaihelpers.fastslow.label_chains import UNKNOWN, chain_from_attributes

Chain = Mapping[str, str]
NEGATIONS = {*"no not without never lacks lack lacking isn't aren't".split()}
IDLE = {*"a an the and in of with its it has have".split()}
IS = re.compile(r"^(.+?) (?:is|are|isn't|aren't) (.+)$")


def statements(chain: Chain | None) -> tuple[set[str], set[str]]:
    """What a chain says and what it denies: "bill", "bill long", "bill red" of the phrase "long red bill".

    A phrase is about its last word, or about that before "is"; its other words are what that is like. Words
    such as "and" are passed over, and a phrase that denies is one with a word of `NEGATIONS`.
    """
    said, denied = set(), set()
    for text in (chain or {}).values():
        for phrase in re.split(r"[,;.]", "" if text == UNKNOWN else text.lower()):
            words = re.findall(r"[\w'-]+", IS.sub(r"\2 \1", phrase.strip()))
            of_phrase = denied if NEGATIONS & {*re.findall(r"[\w'-]+", phrase)} else said
            *values, part = [word for word in words if word not in NEGATIONS | IDLE] or [""]
            part = part.removesuffix("s")
            of_phrase |= {f"{part} {value}" for value in values} or ({part} if part else set())
            said |= {part} if part and of_phrase is said else set()
    return said, denied


class IdealReader:
    """One who has learnt from true chains, and the classes of what they describe; see the module.

    classes_: (K,), the classes that it knows.
    """

    def __init__(self, chains: Sequence[Chain], labels: Sequence[int]):
        labels = np.asarray(labels)
        self.known = CountVectorizer(analyzer=lambda chain: statements(chain)[0], binary=True)
        says = self.known.fit_transform(chains).toarray().astype(float)  # (n, S)
        parts, _, values = np.array([name.partition(" ") for name in self.known.get_feature_names_out()]).T
        is_value = values != ""
        # (S, S): row, a value; column, any statement of its part
        self.values_of = (is_value[:, None] & (parts[:, None] == parts)).astype(float)
        self.is_value, self.classes_ = is_value, np.unique(labels)
        of_class = (labels == self.classes_[:, None]).astype(float)  # (K, n)
        asked = np.where(is_value, says @ self.values_of > 0, 1.0)  # (n, S), whether it could be said
        shares = (of_class @ says + 0.5) / (of_class @ asked + 1)
        self.there, self.missing = np.log(shares), np.log(1 - shares)  # (K, S)

    def understands(self, chains: Sequence[Chain | None]) -> float:
        """The share of what chains say and deny, in %, that the true chains of some class say."""
        said = [one for chain in chains for of in statements(chain) for one in of if " " in one]
        return 100 * float(np.mean([one in self.known.vocabulary_ for one in said])) if said else np.nan

    def predict_log_proba(self, chains: Sequence[Chain | None]) -> np.ndarray:
        """The log-likelihood of each class that is known, (n, K)."""
        both = [statements(chain) for chain in chains]
        count = CountVectorizer(analyzer=set, vocabulary=self.known.vocabulary_, binary=True)
        says, denies = (
            count.transform([one[place] for one in both]).toarray().astype(float) for place in (0, 1)
        )
        silent = (says @ self.values_of > 0) * self.is_value * (1 - says)
        return says @ self.there.T + np.maximum(silent, denies) @ self.missing.T


def fit_author(chains: Sequence[Chain], labels: Sequence[int]) -> Pipeline:
    """One who has learnt which phrases an annotator writes of which class, by naive Bayes."""

    def phrases(chain: Chain | None) -> list[str]:
        return [phrase for text in (chain or {}).values() for phrase in text.split(", ")]

    reader = make_pipeline(
        CountVectorizer(analyzer=phrases, binary=True), BernoulliNB(alpha=0.5, fit_prior=False)
    )
    return reader.fit(chains, labels)


def read_chains(
    reader: IdealReader | Pipeline,
    chains: Sequence[Chain | None],
    candidates: Sequence[Sequence[int]],
    t: int = len(STAGES),
) -> np.ndarray:
    """The posterior of each candidate, (l, 5), given the first t stages; equal where there is no chain.

    candidates: (l, 5) class indices. A class of which the reader knows no chain has probability 0.
    """
    read = [{at: text for at, text in (chain or {}).items() if at in STAGES[:t]} for chain in chains]
    found = reader.predict_log_proba(read)  # (l, classes known)
    of_class = np.full((len(found), max(reader.classes_.max(), np.max(candidates)) + 1), -np.inf)
    of_class[:, reader.classes_] = found
    scores = np.take_along_axis(of_class, np.asarray(candidates), 1)  # (l, 5)
    nothing = np.isneginf(scores).all(1) | np.array([not chain for chain in chains])
    scores[nothing] = 0.0
    posterior = np.exp(scores - scores.max(1, keepdims=True))
    return posterior / posterior.sum(1, keepdims=True)


def read_cases(
    reader: IdealReader | Pipeline,
    cases: pd.DataFrame,
    found: Mapping[int, Chain | None],
    t: int = len(STAGES),
) -> pd.Series:
    """How probable it is, in %, that the reader takes the true class of each case; by the index of the cases.

    cases: as of `fastslow.case_table`. found: row of an image -> its chain.
    """
    own = [found[row] for row in cases["row"]]
    posterior = read_chains(reader, own, cases["candidates"].tolist(), t)
    return pd.Series(100 * share_right(posterior, cases["position"]), cases.index)


def visible_attributes(data: Dataset, rows: Sequence[int], seed: int = 0) -> np.ndarray:
    """What can be seen in these images, (n, A) bool, by their labels.

    Where only classes have labels, each attribute is drawn for itself with the share of people who saw it.
    """
    rows = np.asarray(rows, int)
    if data.attribute_level == "class":
        shares = data.class_attributes.nan_to_num().numpy()[data.labels.numpy()[rows]]
        return np.random.default_rng(seed).random(shares.shape) < shares
    present, certainty = image_attributes(data)
    return (present & (certainty > 1)).numpy()[rows]


def written(names: Sequence[str], has: np.ndarray) -> list[dict[str, str]]:
    """The chain of each of n birds or things by what it has, (n, A) bool, of attributes of these names."""
    names = np.asarray(names)
    things = any(name.split("::")[0] in ("superclass", "setting") for name in names)
    return [chain_from_attributes(names[row], things=things) for row in has]


def training_chains(data: Dataset, seed: int = 0) -> tuple[list[dict[str, str]], np.ndarray]:
    """True chains to learn reading from, of the training images' labels, and their classes.

    There are none where nothing has attributes.
    """
    if data.attributes is None:
        return [], np.array([], int)
    rows = np.flatnonzero(data.images["train"])
    return written(data.attributes["name"], visible_attributes(data, rows, seed)), data.labels.numpy()[rows]
