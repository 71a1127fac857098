"""Planted annotators: chains that are known functions of what is true (not in the paper).

| annotator | what it says |
|---|---|
| the truth | all that can be seen |
| wrong, 10, 25, 50 % | this share of the true values exchanged for others of their group |
| recites the species | what the species usually has |
| recites all but colours | true colours; of all else what the species usually has |
| codes | a word of its own for each class, and nothing of the picture |
| denies | "no red crown" for "red crown", and so on |
| values moved on | what each phrase says of its part, of the part of the next phrase |
| names of parts | the parts of the true phrases, not what they are like |
| says nothing | the form alone |

Each but the codes is understood by whoever knows the language. How true they are is known, so that a score of
an annotator's words can be held against that (`truths`): on birds as they are, and on birds of which one
group of attributes was changed, where the species says the wrong thing.
"""

from collections.abc import Callable, Mapping, Sequence
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
    Chain,
    IdealReader,
    fit_author,
    read_cases,
    statements,
    visible_attributes,
    written,
)

DOSES = (0.1, 0.25, 0.5)
TRUTH, RECITER, HALF_RECITER, CODES = ("the truth", "recites the species", "recites all but colours", "codes")
DENIES, MOVED, PARTS_ONLY, NOTHING = ("denies", "values moved on", "names of parts", "says nothing")
IDEAL, AUTHOR = "the ideal reader", "its author"  # who reads


def wrong(dose: float) -> str:
    """The name of an annotator that says this share of values wrong."""
    return f"wrong, {100 * dose:.0f} %"


def planted_chains(
    visible: np.ndarray, usual: np.ndarray, names: Sequence[str], labels: np.ndarray, seed: int = 0
) -> dict[str, list[Chain]]:
    """The chains of all planted annotators for n images, by the annotator's name.

    visible: (n, A) bool, what can be seen. usual: (n, A) bool, what the species of each usually has.
    names: (A,), group::value. labels: (n,), classes, which have code words. seed: of errors.
    """
    rng = np.random.default_rng([seed, 32])
    of_color = np.array([group_of(name).endswith("color") for name in names])
    silent = dict.fromkeys(STAGES, UNKNOWN)
    true = written(names, visible)
    found = {TRUTH: true}
    found |= {wrong(dose): written(names, exchanged(visible, names, dose, rng)) for dose in DOSES}
    found[RECITER] = written(names, usual)
    found[HALF_RECITER] = written(names, np.where(of_color, visible, usual))
    found[CODES] = [silent | {STAGES[0]: f"glim{label}"} for label in labels]
    for name, change in {DENIES: _denied, MOVED: _moved_on, PARTS_ONLY: _parts_alone}.items():
        found[name] = [_rewritten(chain, change) for chain in true]
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


def _rewritten(chain: Chain, change: Callable[[list[str]], list[str]]) -> dict[str, str]:
    """A chain of which the phrases of each stage are changed."""
    found = {}
    for stage, text in chain.items():
        found[stage] = text if text == UNKNOWN else ", ".join(change(text.split(", ")))
    return found


def _denied(phrases: list[str]) -> list[str]:
    return [f"no {phrase}" for phrase in phrases]


def _moved_on(phrases: list[str]) -> list[str]:
    """What is said before the part moves on to the next phrase."""
    split = [phrase.rpartition(" ") for phrase in phrases]
    following = zip(split, split[1:] + split[:1], strict=True)
    return [f"{value} {part}".strip() for (value, _, _), (_, _, part) in following]


def _parts_alone(phrases: list[str]) -> list[str]:
    return [phrase.split()[-1] for phrase in phrases]


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

    def pairs(self, chains: Sequence[Chain | None], groups: Sequence[str] | None = None) -> np.ndarray:
        """(M, N), how much of what chain m says is true of image n, in %; NaN where it says nothing.

        groups: (M,), to which the statements of each chain are limited.
        """
        both = [statements(chain) for chain in chains]
        count = CountVectorizer(analyzer=set, vocabulary=self.counter.vocabulary_)
        said, denied = (count.transform([one[n] for one in both]).toarray().astype(float) for n in (0, 1))
        if groups is not None:
            about = np.stack([self.of_group[group] for group in groups])
            said, denied = said * about, denied * about
        true, false, told = (of.astype(float) for of in (self.true, self.told & ~self.true, self.told))
        with np.errstate(invalid="ignore"):
            return 100 * (said @ true.T + denied @ false.T) / ((said + denied) @ told.T)


def _values(chain: Chain) -> set[str]:
    return {statement for statement in statements(chain)[0] if " " in statement}


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

    The metrics: how much is true of the group that was changed; of birds as they are, of all that is said
    and can be told; and of that the picture part, which is lost with a classmate's chain, and the class part,
    lost further with another class's (`scores.exchange`). Classmates have the same label, for chains have no
    prediction; nor class scores that could be recited.

    Returns these, and of each annotator how much is true of each bird, and of each changed group.
    """
    rows, shares = [], {}
    drawn = partners(torch.from_numpy(planted.labels))

    def judge(pairs: np.ndarray) -> Judge:
        return lambda of: torch.from_numpy(pairs)[of, torch.arange(len(pairs))]

    truth = judge(planted.on_birds.pairs([*planted.said[TRUTH].values()]))
    for name, chains in planted.said.items():
        pairs, of_changed = planted.on_birds.pairs([*chains.values()]), planted.of_changed[name]
        there = np.diag(pairs)
        changed = np.diag(planted.on_changed.pairs(of_changed, planted.groups))
        shares[name], found = (there, changed), {}
        if any(of_changed):  # else nobody has shown it such a bird
            found["true of the changed group"] = interval(changed, clusters=planted.species, bounds=PERCENT)
        found["true of birds"] = interval(there, clusters=planted.labels, bounds=PERCENT)
        if np.isfinite(there).any():
            climbed = ladder(judge(pairs), drawn, truth)
            rungs = {"of the picture": climbed.picture, "of the class": climbed.of_class}
            found |= {} if climbed.refused else rungs
        rows += [{"annotator": name, "metric": what} | of._asdict() for what, of in found.items()]
    return pd.DataFrame(rows), shares


Readings = dict[tuple[str, str, int, str], pd.Series]  # who reads, kind of sets, stages, annotator -> by case


def readings(planted: Planted, cases: Mapping[str, pd.DataFrame], model: str) -> Readings:
    """What the ideal reader, and each annotator's author, get right in %, by case.

    cases: of each kind of sets, as of `case_table`. In the first kind the ideal reader is asked after the
    first stage, too. The author of one who was not planted learns from one half of its chains and reads the
    other. model: by whose name the cases go.
    """
    cases = {kind: of_kind.assign(model=model) for kind, of_kind in cases.items() if len(of_kind)}
    cases = {kind: of_kind.set_index(CASE, drop=False) for kind, of_kind in cases.items()}
    found, whole = {}, len(STAGES)
    for name, chains in planted.said.items():
        for kind, of_kind in cases.items():
            for t in (1, whole) if kind == next(iter(cases)) else (whole,):
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
    found = {f"candidate sets: {sets}": None}
    for who, kind, t, name in read:
        asked = who, kind, t
        if name == other and t == len(STAGES) and (*asked, one) in read and (who == IDEAL or kind == sets):
            reading = f"candidate sets: {kind}" if who == IDEAL else f"another reader: {who}"
            found[reading] = read[*asked, one] - read[*asked, other]
    return found
