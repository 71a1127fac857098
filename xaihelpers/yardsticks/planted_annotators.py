"""Planted annotators: chains that are known functions of what is true (not in the paper).

| annotator | what it says |
|---|---|
| the truth | all that can be seen |
| vague | the same, in general words: "a dark wing" |
| wrong, 10, 25, 50 % | this share of the true values exchanged for others of their group |
| recites the species | what the species usually has |
| recites all but colours | true colours; of all else what the species usually has |
| codes | a word of its own for each class, and nothing of the picture |
| denies | "no red crown" for "red crown", and so on |
| values moved on | what each phrase says of its part, of the part of the next phrase |
| phrases shuffled | the true phrases, in any order and stage |
| names of parts | the parts of the true phrases, not what they are like |
| says nothing | the form alone |

Each but the codes is understood by whoever knows the language. How true they are is known, so that a score of
an annotator's words can be held against that (`truths`): on birds as they are, and on birds of which one
group of attributes was changed, where the species says the wrong thing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import CountVectorizer

from xaihelpers.datasets import class_concepts, group_of, normalise_attribute
from xaihelpers.fastslow import Pool
from xaihelpers.fastslow.chains import STAGES
from xaihelpers.fastslow.label_chains import UNKNOWN
from xaihelpers.scores.exchange import Judge, ladder, partners
from xaihelpers.scores.fse import CASE
from xaihelpers.scores.intervals import PERCENT, interval
from xaihelpers.yardsticks.annotator_card import substituted_birds
from xaihelpers.yardsticks.ideal_reader import (
    GENERAL_OF,
    Chain,
    IdealReader,
    fit_author,
    implied,
    read_cases,
    statements,
    visible_attributes,
    written,
)

DOSES = (0.1, 0.25, 0.5)
TRUTH, RECITER, HALF_RECITER, CODES = ("the truth", "recites the species", "recites all but colours", "codes")
DENIES, MOVED, SHUFFLED = ("denies", "values moved on", "phrases shuffled")
PARTS_ONLY, NOTHING = ("names of parts", "says nothing")
IDEAL, AUTHOR = "the ideal reader", "its author"  # who reads
# what a reader does who understands the words
UNDERSTOOD = {
    TRUTH: "finds the class",
    DENIES: "looks for a class that has none of it: at chance or below",
    MOVED: "believes it, and errs",
    SHUFFLED: "reads as before",
    PARTS_ONLY: "learns next to nothing: all have these parts",
    NOTHING: "guesses: at chance",
}


def wrong(dose: float) -> str:
    """The name of an annotator that says this share of values wrong."""
    return f"wrong, {100 * dose:.0f} %"


def planted_chains(
    visible: np.ndarray, usual: np.ndarray, names: Sequence[str], labels: np.ndarray, seed: int = 0
) -> dict[str, list[Chain]]:
    """The chains of all planted annotators for n images, by the annotator's name.

    visible: (n, A) bool, what can be seen. usual: (n, A) bool, what the species of each usually has.
    names: (A,), group::value. labels: (n,), classes, which have code words. seed: of errors and of the order.
    """
    rng = np.random.default_rng([seed, 32])
    of_color = np.array([group_of(name).endswith("color") for name in names])
    silent = dict.fromkeys(STAGES, UNKNOWN)
    true = written(names, visible)
    found = {TRUTH: true, "vague": [_each_phrase(chain, _in_general) for chain in true]}
    found |= {wrong(dose): written(names, exchanged(visible, names, dose, rng)) for dose in DOSES}
    found[RECITER] = written(names, usual)
    found[HALF_RECITER] = written(names, np.where(of_color, visible, usual))
    found[CODES] = [silent | {STAGES[0]: f"glim{label}"} for label in labels]
    found[DENIES] = [_each_phrase(chain, lambda phrase: f"no {phrase}") for chain in true]
    found[MOVED] = [_moved(chain) for chain in true]
    found[SHUFFLED] = [_shuffled(chain, rng) for chain in true]
    found[PARTS_ONLY] = [_each_phrase(chain, lambda phrase: phrase.split()[-1]) for chain in true]
    found[NOTHING] = [silent] * len(true)
    return found


def exchanged(visible: np.ndarray, names: Sequence[str], dose: float, rng: np.random.Generator) -> np.ndarray:
    """What can be seen, (n, A) bool, of which a share `dose` is exchanged for other values of the group.

    Where a group has no other value, the true one is left out.
    """
    said, groups = visible.copy(), np.array([group_of(name) for name in names])
    for row, column in np.argwhere(visible & (rng.random(visible.shape) < dose)):
        others = np.flatnonzero((groups == groups[column]) & ~visible[row] & ~said[row])
        said[row, column] = False
        if len(others):
            said[row, rng.choice(others)] = True
    return said


def _phrases(chain: Chain) -> list[tuple[str, str]]:
    """Stage and phrase, in order, of all that is said."""
    texts = {stage: text for stage, text in chain.items() if text != UNKNOWN}
    return [(stage, phrase) for stage, text in texts.items() for phrase in text.split(", ")]


def _joined(phrases: Sequence[tuple[str, str]]) -> dict[str, str]:
    said = {stage: [text for place, text in phrases if place == stage] for stage in STAGES}
    return {stage: ", ".join(texts) or UNKNOWN for stage, texts in said.items()}


def _each_phrase(chain: Chain, changed) -> dict[str, str]:
    return _joined([(stage, changed(phrase)) for stage, phrase in _phrases(chain)])


def _in_general(phrase: str) -> str:
    return " ".join(dict.fromkeys(GENERAL_OF.get(word, word) for word in phrase.split()))


def _moved(chain: Chain) -> dict[str, str]:
    """What is said before the part moves on to the next phrase of the stage."""
    moved = []
    for stage in STAGES:
        of_stage = [phrase.rpartition(" ") for place, phrase in _phrases(chain) if place == stage]
        for (value, _, _), (_, _, part) in zip(of_stage, of_stage[1:] + of_stage[:1], strict=True):
            moved.append((stage, f"{value} {part}".strip()))
    return _joined(moved)


def _shuffled(chain: Chain, rng: np.random.Generator) -> dict[str, str]:
    phrases = _phrases(chain)
    stages = [stage for stage, _ in phrases]
    return _joined([(stages[n], phrases[m][1]) for n, m in enumerate(rng.permutation(len(phrases)))])


class Truth:
    """What is true of N images, and what of it can be told, by the statements that attributes make.

    names: (A,), group::value. visible: (N, A) bool. A statement can be told of an image where a value of its
    group is visible; what no attribute says cannot be told at all.
    """

    def __init__(self, names: Sequence[str], visible: np.ndarray):
        groups = np.array([group_of(name) for name in names])
        alone = written(names, np.eye(len(names), dtype=bool))
        self.counter = CountVectorizer(analyzer=_values, binary=True)
        self.of_attribute = self.counter.fit_transform(alone).toarray() > 0  # (A, S)
        self.of_group = {group: self.of_attribute[groups == group].any(0) for group in dict.fromkeys(groups)}
        self.true = (visible.astype(float) @ self.of_attribute) > 0  # (N, S)
        seen = np.stack([visible[:, groups == group].any(1) for group in self.of_group], 1).astype(float)
        self.told = (seen @ np.stack([*self.of_group.values()])) > 0

    def _said(self, chains: Sequence[Chain | None]) -> tuple[np.ndarray, np.ndarray]:
        both = [statements(chain) for chain in chains]
        count = CountVectorizer(analyzer=set, vocabulary=self.counter.vocabulary_)
        return tuple(count.transform([one[n] for one in both]).toarray().astype(float) for n in (0, 1))

    def shares(self, chains: Sequence[Chain | None], groups: Sequence[str] | None = None) -> np.ndarray:
        """(N,), how much of what each chain says of its image is true, in %; NaN where it says nothing.

        groups: of each image, to which statements are limited.
        """
        about = self.told & (True if groups is None else np.stack([self.of_group[group] for group in groups]))
        said, denied = (of * about for of in self._said(chains))
        right = (said * self.true + denied * ~self.true).sum(1)
        with np.errstate(invalid="ignore"):
            return 100 * right / (said + denied).sum(1)

    def pairs(self, chains: Sequence[Chain | None]) -> np.ndarray:
        """(N, N), how much of what chain m says is true of image n, in %; NaN where it says nothing."""
        said, denied = self._said(chains)
        true, false, told = (of.astype(float) for of in (self.true, self.told & ~self.true, self.told))
        with np.errstate(invalid="ignore"):
            return 100 * (said @ true.T + denied @ false.T) / ((said + denied) @ told.T)


def _values(chain: Chain) -> set[str]:
    return {statement for statement in implied(statements(chain)[0]) if " " in statement}


def _changed_birds(pool: Pool, seed: int, count: int) -> tuple[np.ndarray, list[str], list[str]]:
    """Birds of which one group of attributes is changed: their classes, what they have now, their pictures.

    Of the aviary they are drawn at first use (`annotator_card.substituted_birds`), all groups alike often. Of
    other data nobody has such pictures: then they are chosen at random, with values that a class lacks.
    """
    if pool.name == "aviary":
        birds = substituted_birds(seed, count).images
        species = birds["bird"].map(pool.data.class_names.index).to_numpy()
        return species, birds["attribute"].tolist(), birds["path"].tolist()
    names = pool.data.attributes["name"].to_numpy()
    lacking = np.argwhere(~usual_of(pool))
    species, given = lacking[np.random.default_rng([seed, 1]).integers(len(lacking), size=count)].T
    return species, names[given].tolist(), []


def usual_of(pool: Pool) -> np.ndarray:
    """What each class usually has, (K, A) bool."""
    names = pool.data.attributes["name"].tolist()
    return class_concepts(pool.data, names, kind="hard").T.bool().numpy()


class Planted(NamedTuple):
    """Annotators that are planted in a data set, and what is true of it."""

    said: dict[str, dict[int, Chain]]  # annotator -> row of an image -> its chain
    lessons: dict[str, list[Chain]]  # of the training images, by whose classes an author's words are learnt
    taught: np.ndarray  # (n,), these classes
    labels: np.ndarray  # of the rows
    on_birds: Truth  # of the rows, in the order of `said`
    reader: IdealReader  # who has learnt from the truth's lessons
    of_changed: dict[str, list[Chain]]  # of birds with one group changed
    species: np.ndarray  # classes of these
    pictures: list[str]  # files of these, none where nobody has such pictures
    groups: list[str]  # what was changed
    on_changed: Truth


def plant(pool: Pool, rows: Sequence[int], seed: int = 0, n_changed: int = 288) -> Planted:
    """Plant all annotators in a data set with attributes.

    rows: of the images that are described. n_changed: birds of which one group of attributes is changed.
    """
    names, rows = pool.data.attributes["name"].tolist(), np.asarray(rows)
    species, given, pictures = _changed_birds(pool, seed, n_changed)
    usual = usual_of(pool)  # (K, A)
    train, labels = np.flatnonzero(pool.data.images["train"]), pool.labels

    def chains(visible, of_labels, n):
        return planted_chains(visible, usual[of_labels], names, of_labels, [seed, n])

    of_rows, of_train = (visible_attributes(pool.data, some, seed) for some in (rows, train))
    said = chains(of_rows, labels[rows], 1)
    said = {name: dict(zip(rows.tolist(), of, strict=True)) for name, of in said.items()}
    lessons = chains(of_train, labels[train], 2)
    changed, groups = usual[species].copy(), np.array([group_of(name) for name in names])
    for bird, attribute in zip(changed, given, strict=True):
        bird[groups == group_of(attribute)] = False
        bird[names.index(normalise_attribute(attribute))] = True
    reader, of_changed = IdealReader(lessons[TRUTH], labels[train]), chains(changed, species, 3)
    about = Truth(names, of_rows), reader, of_changed, species, pictures, [group_of(one) for one in given]
    return Planted(said, lessons, labels[train], labels[rows], *about, Truth(names, changed))


def truths(planted: Planted) -> tuple[pd.DataFrame, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """How true each annotator is, in %: rows of annotator, metric and an Interval over classes.

    The metrics: how often anything is said of the group that was changed; how much of that is true; how much
    is true of birds as they are, of all that is said and can be told; and of that the picture part, which is
    lost with a classmate's chain, and the class part, lost further with another class's (`scores.exchange`).
    Classmates have the same label, for chains have no prediction; nor class scores that could be recited.

    Returns these, and of each annotator how much is true of each bird, and of each changed group.
    """
    rows, shares = [], {}
    drawn = partners(torch.from_numpy(planted.labels))

    def judge(name: str) -> Judge:
        pairs = torch.from_numpy(planted.on_birds.pairs([*planted.said[name].values()]))
        return lambda of: pairs[of, torch.arange(len(pairs))]

    truth = judge(TRUTH)
    of_changed, of_birds = (
        {"clusters": classes, "bounds": PERCENT} for classes in (planted.species, planted.labels)
    )
    for name, chains in planted.said.items():
        changed = planted.on_changed.shares(planted.of_changed[name], planted.groups)
        there = planted.on_birds.shares([*chains.values()])
        shares[name], found = (there, changed), {}
        if any(planted.of_changed[name]):  # else nobody has shown it such a bird
            found["said of the changed group"] = interval(100.0 * np.isfinite(changed), **of_changed)
            found["true of the changed group"] = interval(changed, **of_changed)
        found["true of birds"] = interval(there, **of_birds)
        if np.isfinite(there).any():
            climbed = ladder(judge(name), drawn, truth)
            rungs = {"of the picture": climbed.picture, "of the class": climbed.of_class}
            found |= {} if climbed.refused else rungs
        rows += [{"annotator": name, "metric": what} | of._asdict() for what, of in found.items()]
    return pd.DataFrame(rows), shares


Readings = dict[tuple[str, str, int, str], pd.Series]  # who reads, kind of sets, stages, annotator -> by case


def readings(planted: Planted, cases: Mapping[str, pd.DataFrame], model: str) -> Readings:
    """What the ideal reader, and each annotator's author, get right in %, by case.

    cases: of each kind of sets, as of `case_table`. In the first kind the ideal reader is asked after each
    stage. The author of one who was not planted learns from one half of its chains and reads the other.
    model: by whose name the cases go.
    """
    cases = {kind: of_kind.assign(model=model) for kind, of_kind in cases.items() if len(of_kind)}
    cases = {kind: of_kind.set_index(CASE, drop=False) for kind, of_kind in cases.items()}
    found, whole = {}, len(STAGES)
    for name, chains in planted.said.items():
        for kind, of_kind in cases.items():
            for t in range(1 if kind == next(iter(cases)) else whole, whole + 1):
                found[IDEAL, kind, t, name] = read_cases(planted.reader, of_kind, chains, t)
            if name in planted.lessons:
                author = fit_author(planted.lessons[name], planted.taught)
                right = read_cases(author, of_kind, chains)
            else:
                right = _read_by_halves(chains, planted.labels, of_kind)
            found[AUTHOR, kind, whole, name] = right
    return found


def _read_by_halves(
    chains: Mapping[int, Chain | None], labels: Sequence[int], cases: pd.DataFrame
) -> pd.Series:
    """What its author, who has learnt from one half of the chains, gets right of cases of the other."""
    rows, right = np.array([*chains]), np.full(len(cases), 20.0)
    for half in (0, 1) if any(chains.values()) else ():
        lessons = rows[half::2]
        author = fit_author([chains[row] for row in lessons], np.asarray(labels)[half::2])
        others = ~cases["row"].isin(lessons).to_numpy()
        if others.any():
            right[others] = read_cases(author, cases[others], chains)
    return pd.Series(right, cases.index)


def leads(read: Readings, one: str, other: str, sets: str) -> dict[str, pd.Series]:
    """By how much one annotator leads another by all stages, case by case.

    First by the ideal reader in the sets that are named, then by the readings "candidate sets: kind" and
    "another reader: who" of that.
    """
    first, found = (IDEAL, sets, len(STAGES)), {}
    for *by, name in sorted(read, key=lambda key: key[:3] != first):
        alike = by[2] == len(STAGES) and (by[0] == IDEAL or by[1] == sets)
        if name == other and alike and (*by, one) in read:
            reading = f"candidate sets: {by[1]}" if by[0] == IDEAL else f"another reader: {by[0]}"
            found[reading] = read[*by, one] - read[*by, other]
    return found
