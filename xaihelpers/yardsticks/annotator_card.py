"""The card of an annotator: does it say what it sees, or what the species usually has? (not in the papers)

On ordinary birds the species gives nearly everything away: an annotator that recognises it and recites what
it usually has is right there without having looked. So the card asks of other birds: some have *random
attributes*, of which their species says nothing; others are ordinary but for one *substituted* group, where
the species says the wrong thing. A statement is a value of a part, "a red crown", "its tail is forked".

| control | birds | measured | passes if |
|---|---|---|---|
| says what is there | random | colours true of their bird, less of another, % | low > 0, value ≥ `LEAST` |
| does not recite | random | of its own and its species' colours: its own, % | low > 50 |
| says enough | random | of the parts that are visible, those whose colour is said, % | low ≥ `SAID` |
| has no code of the species | random | texts less like its own than one of its species, % | low ≤ `ALIKE` |
| sees what was changed, colours | substituted | of new and usual colours said: the new, % | low > 50, lead |
| sees what was changed, the rest | substituted | the same of forms, patterns and sizes | low > 50, lead |
| recites no group | substituted | the same of the worst group | not below 50 |

Lead: the new value is said more often of its own bird than of another of which the same group was changed.
The worst group is held against one half by a binomial test, Bonferroni's for all groups. The rest is not
asked of who says next to nothing of it. Liars are found out by these bounds, and who is honest passes
although a fifth of what it says is wrong, if it is vague, or says some of it in words that are not understood
(see the tests). A code of the species that needs few words, or is used of recognised birds alone, is not
found out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.feature_extraction.text import TfidfVectorizer

from worlds import aviary
from xaihelpers import paths
from xaihelpers.datasets import Dataset, image_attributes, load, plain_value
from xaihelpers.datasets.sub_benchmark import parquet_files
from xaihelpers.fastslow.label_chains import BILL_LENGTHS
from xaihelpers.fastslow.questions import annotate_chains
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.substitute import write_exact

Chain = Mapping[str, str]
LEAST, SAID, ALIKE = 25.0, 20.0, 75.0  # %
FEWEST = 6  # answers, new or usual, below which nothing is asked of them
FIRST_SEED = 20_000  # of the birds that are drawn for it: no other world has these
SHARES = ("new", "usual", "other", "nothing")  # what is said of a substituted group
# what a part is called -> the first words of its groups of attributes
_PARTS = "crown forehead nape throat breast belly back wing eye leg bill head upperparts underparts size"
PARTS = {part: [part] for part in _PARTS.split()}
PARTS |= {"tail": ["tail", "upper_tail"], "undertail": ["under_tail"], "beak": ["bill"], "chest": ["breast"]}
PARTS |= {"feet": ["leg"], "bird": ["shape"], "plumage": ["primary"]}
# words after which what was said before is not of the next part, and that no part is meant by
OTHERS = "neck face pupil rump mask cap crest collar bar bars tip tips stripe stripes line ring spot spots"
OTHERS = {*OTHERS.split(), *"patch streak streaks covert coverts feathers".split()}
IS = {*"is are was appears appear looks look".split()}
TO = {*"in to against from than like over above below near on by at that".split()}
FOLLOW = ("upperparts_color", "underparts_color", "primary_color")  # from colours of other groups
NOT = re.compile(r"\b(no|not|lacks?|lacking|without|neither|nor)\b|n't\b")
PHRASES = re.compile(r"[,;.:|\n]|\b(?:with|but|which)\b|\band (?=(?:its|the|a|an|has)\b)")
SYNONYMS = {"gray": "grey", "golden": "yellow", "conical": "cone"}


def _spoken(value: str) -> str:
    """A value of an attribute as it is said before the part that has it."""
    plain = plain_value(value)
    return re.sub(r"[- ](wings|tail|like)$", "", BILL_LENGTHS.get(plain, plain))


# what a part is called -> what may be said before it -> the attributes, (group, value), that it means
VALUES: dict[str, dict[str, list[tuple[str, str]]]] = {part: {} for part in PARTS}
for _part, _beginnings in PARTS.items():
    for _group, _values in aviary.GROUPS.items():
        for _value in _values if _group.rsplit("_", 1)[0] in _beginnings else ():
            VALUES[_part].setdefault(_spoken(_value), []).append((_group, _value))


def statements(text: str) -> set[tuple[str, str]]:
    """What a text says of parts: (group, value) of each phrase with a part and what it is like.

    "black and white wings; its bill is red" says (wing_color, black), (wing_color, white), (bill_color, red).
    Phrases that deny something say nothing.
    """
    said = set()
    for phrase in PHRASES.split(text.lower()):
        words, before, part = re.findall(r"[a-z]+(?:-[a-z]+)*", phrase), [], None
        words = [] if NOT.search(phrase) else words
        for word, following in zip(words, [*words[1:], ""], strict=False):
            known = VALUES.get(word) or VALUES.get(word.removesuffix("s"))
            if word in OTHERS or (known and following in OTHERS):
                before, part = [], None
            elif known:
                said |= _meant(known, before)
                before, part = [], known if following in IS else None
            elif part and word in TO:
                said |= _meant(part, before)
                before, part = [], None
            else:
                halves = [SYNONYMS.get(half, half) for half in word.split("-")]
                before.append((" " if {*halves} <= {*aviary.GROUPS["wing_color"]} else "-").join(halves))
        said |= _meant(part or {}, before)
    return said


def _meant(known: Mapping[str, list[tuple[str, str]]], words: Sequence[str]) -> set[tuple[str, str]]:
    """The attributes that words before a part, or after "is", mean; "very large" is not "large"."""
    text, found = " ".join(words), set()
    for value in sorted(known, key=len, reverse=True):
        text, times = re.subn(rf"(?<![\w-]){re.escape(value)}(?!\w|-(?!like))", "", text)
        found |= {*known[value]} if times else set()
    return found


def _text(chain: Chain | None) -> str:
    return " ; ".join((chain or {}).values())


class Examination(NamedTuple):
    """Birds to examine annotators with: N with random attributes, M ordinary ones with one changed."""

    files: list[str]  # N
    present: np.ndarray  # (N, 312) bool, what can be seen of each
    usual: np.ndarray  # (N, 312) bool, what its species usually shows
    species: np.ndarray  # (N,) int, that each was before
    changed: Dataset  # M substituted birds
    seed: int = 0  # of the birds that others are compared with


def examination(seed: int = 0, count: int = 96, changed: Dataset | None = None) -> Examination:
    """Birds in no other world, drawn at first use, of which the species says nothing; and substituted ones.

    count: of birds with random attributes, 96 at most, two of each species. changed: a benchmark, as of
        `datasets.load`; None draws three times as many as `count`.
    """
    number = FIRST_SEED + seed
    world = load(
        aviary.ensure(f"aviary_examination_{number}", images_per_class=2, seed=number, decorrelated=1.0)
    )
    rows = np.random.default_rng(seed).permutation(len(world.images))
    species = world.labels.numpy()
    rows = rows[species[rows] < -(-count // 2)][:count]
    usual = [aviary.true_attributes(aviary.usual_individual(name)) for name in world.class_names]
    present = image_attributes(world)[0].numpy()[rows]
    if changed is None:
        changed = substituted_birds(seed, 3 * count)
    files = world.images["path"].iloc[rows].tolist()
    return Examination(files, present, np.stack(usual)[species[rows]], species[rows], changed, seed)


def substituted_birds(seed: int = 0, count: int = 288) -> Dataset:
    """Ordinary birds of the aviary with one group substituted, all groups alike often; drawn at first use.

    In the layout of a published benchmark (`datasets.write_sub`), with `before` and `removed`.
    """
    folder = paths.data_home() / f"aviary_substituted_{FIRST_SEED + seed}_{count}"
    if not parquet_files(folder):
        of_group = {
            group: [f"has_{group}::{value}" for value in aviary.GROUPS[group]] for group in aviary.GROUPS
        }
        alike = [name for names in of_group.values() for name in names * (60 // len(names))]
        write_exact(folder, load("aviary"), alike, count, FIRST_SEED + seed)
    return load(folder)


def described(model, birds: Examination, **settings) -> tuple[list[Chain | None], list[Chain | None]]:
    """What a model says of both kinds of birds, N and M chains; settings: of `annotate_chains`."""
    kinds = birds.files, birds.changed.images["path"].tolist()
    of_random, of_changed = (annotate_chains(model, files, **settings).chains for files in kinds)
    return of_random, of_changed


def annotator_card(
    chains: Sequence[Chain | None], of_changed: Sequence[Chain | None], birds: Examination
) -> pd.DataFrame:
    """The card of who says this of the birds, N and M chains.

    Returns a row for each control: control, metric, the columns of an Interval, and `passed`.
    """
    found = random_card(chains, birds), changed_card(said_of_changed(of_changed, birds.changed))
    return pd.concat(found, ignore_index=True)


def is_color(group: str) -> bool:
    """Whether a group of attributes is one of colours."""
    return group.endswith("color")


def color_claims(chains: Sequence[Chain | None], birds: Examination) -> tuple[pd.DataFrame, np.ndarray]:
    """What N chains say of colours of visible parts, each claim beside the bird's and another bird's.

    Returns a row for each claim, with `row` of its bird and whether it is true of its `own` and of the
    `other` bird, and whether bird and species `differ` there and one of the two is said; and of each bird the
    share of visible parts whose colour is said, in %.
    """
    names = [tuple(name.removeprefix("has_").split("::")) for name in aviary.ATTRIBUTES]
    asked = {f"{beginning}_color" for beginnings in PARTS.values() for beginning in beginnings} - {*FOLLOW}
    columns = [k for k, (group, _) in enumerate(names) if group in asked]
    names, present, usual = [names[k] for k in columns], birds.present[:, columns], birds.usual[:, columns]
    of_group = pd.get_dummies([group for group, _ in names]).to_numpy()  # (columns, groups) bool
    visible = present @ of_group  # (N, groups) bool
    told = [statements(_text(chain)) for chain in chains]
    said = np.array([[name in of for name in names] for of in told]) & (visible @ of_group.T)
    shares = 100 * (said @ of_group).sum(1) / visible.sum(1)
    differ = ~((present & usual) @ of_group @ of_group.T) & (present | usual)
    shift = np.random.default_rng(birds.seed).integers(1, len(chains))
    other = (np.arange(len(chains)) + shift) % len(chains)
    row, column = said.nonzero()
    claims = {"row": row, "own": present[row, column], "other": present[other[row], column]}
    return pd.DataFrame(claims | {"differ": differ[row, column]}), shares


def random_card(chains: Sequence[Chain | None], birds: Examination) -> pd.DataFrame:
    """The controls that are asked of birds with random attributes, for the N chains of one annotator."""
    said, shares = color_claims(chains, birds)
    there = interval(100 * said.own - 100 * said.other, clusters=said.row, bounds=(-100, 100))
    unusual = said[said.differ]
    own = interval(100.0 * unusual.own, clusters=unusual.row, bounds=PERCENT)
    share = interval(shares, bounds=PERCENT)
    alike = _alike_by_species(list(map(_text, chains)), birds.species)
    looks = there.low > 0 and there.value >= LEAST
    code = "texts of other species less like its own than one of its species (%)"
    lines = [
        ("says what is there", "true of its own bird, less of another (%)", there, looks),
        ("does not recite", "its own colour, not the usual one (%)", own, own.low > 50),
        ("says enough", "visible parts whose colour is said (%)", share, share.low >= SAID),
        ("has no code of the species", code, alike, alike.low <= ALIKE),
    ]
    return _card(lines)


def _card(lines: Iterable[tuple[str, str, Interval, bool]]) -> pd.DataFrame:
    rows = [[control, metric, *found, bool(passed)] for control, metric, found, passed in lines]
    return pd.DataFrame(rows, columns=["control", "metric", *Interval._fields, "passed"])


def _alike_by_species(texts: Sequence[str], species: np.ndarray) -> Interval:
    """In what share of the cases one of the same species has a text more like a bird's than another has."""
    counter = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]+", lowercase=False, ngram_range=(1, 2))
    said = counter.fit_transform([f"says {text}" for text in texts])  # one word at least
    alike, shares, of = (said @ said.T).toarray(), [], []
    for row, own in enumerate(species):
        others = alike[row, species != own]
        for same in np.flatnonzero((species == own) & (np.arange(len(species)) != row)):
            less, as_much = others < alike[row, same], others == alike[row, same]
            shares.append(100 * (less.mean() + as_much.mean() / 2))
            of.append(own)
    return interval(shares, clusters=np.array(of), bounds=PERCENT)


def said_of_changed(chains: Sequence[Chain | None], birds: Dataset) -> pd.DataFrame:
    """What chains say of the group that was substituted in each bird, as of `answers_to`.

    birds: a benchmark, as of `datasets.load`. What is gone stands in its images' `removed`; without it, it is
        what the species has in the aviary's table, which is CUB's.
    Raises ValueError: a bird that is in neither (with the nearest name).
    """
    rows = []
    for number, (chain, bird) in enumerate(zip(chains, birds.images.to_dict("records"), strict=True)):
        group, new = bird["attribute"].removeprefix("has_").split("::")
        gone = bird.get("removed")
        if gone is None:
            usual = aviary.true_attributes(aviary.usual_individual(bird["bird"]))
            gone = [name for name, has in zip(aviary.ATTRIBUTES, usual, strict=True) if has]
        gone = {tuple(name.removeprefix("has_").split("::")) for name in gone}
        values = {value for of, value in statements(_text(chain)) if of == group}
        rows.append((number, group, values, {new}, {value for of, value in gone if of == group} - {new}))
    return answers_to(rows)


def answers_to(rows: Sequence[tuple[int, str, set, set, set]]) -> pd.DataFrame:
    """What is said of substituted groups, a row for each.

    rows: number of the picture, group, values that are said, new values, and usual ones, that are gone.
    Returns these, `said`, one of `SHARES` ("new": a new value and none that is gone; "usual": one that is
    gone, no new one), and `shuffled`, the same of what is said of another picture with this group; "" of one.
    """
    table = pd.DataFrame(rows, columns=["picture", "group", "values", "new", "usual"])
    table["said"] = [_answer(*one) for one in zip(table["values"], table["new"], table["usual"], strict=True)]
    table["shuffled"] = ""
    for _, part in table.groupby("group"):
        other = zip(np.roll(part["values"], 1), part["new"], part["usual"], strict=True)
        table.loc[part.index, "shuffled"] = [_answer(*one) for one in other] if len(part) > 1 else ""
    return table


def _answer(values: set[str], new: set[str], usual: set[str]) -> str:
    if values & usual:
        return "other" if values & new else "usual"
    return "new" if values & new else "other" if values else "nothing"


def new_share(said: pd.DataFrame) -> dict:
    """Of the answers that are new or usual, the new, in %, of some rows of `answers_to`; the usual has 0.

    Beside the Interval: shuffled, the same of the answer about another picture; blind, of the commonest new
    value of each group, whatever the picture; and of all answers the shares in % that are each of `SHARES`.
    """
    told = said[said.said.isin(["new", "usual"])]
    shuffled, hits, misses = said.shuffled[said.shuffled.isin(["new", "usual"])], 0, 0
    for _, part in said.groupby("group"):
        commonest = part["new"].explode().mode()[0]
        hits += sum(commonest in new for new in part["new"])
        misses += sum(commonest in usual for usual in part["usual"])
    found = interval(100.0 * (told.said == "new"), clusters=told.picture, bounds=PERCENT)._asdict()
    found |= {"shuffled": 100 * (shuffled == "new").mean(), "blind": 100 * hits / max(hits + misses, 1)}
    return found | {answer: 100 * (said.said == answer).mean() for answer in SHARES}


def changed_card(said: pd.DataFrame) -> pd.DataFrame:
    """The controls that are asked of substituted birds. said: as of `answers_to`."""
    metric, lines = "the new value, not the usual one (%)", []
    told = said[said.said.isin(["new", "usual"])]
    for kind, is_kind in (("colours", said.group.map(is_color)), ("the rest", ~said.group.map(is_color))):
        part, answers = said[is_kind], told[is_kind[told.index]]
        share = interval(100.0 * (answers.said == "new"), bounds=PERCENT)
        lead = interval(100.0 * (part.said == "new") - 100.0 * (part.shuffled == "new"), bounds=(-100, 100))
        if kind == "colours" or len(answers) >= FEWEST:
            lines.append((f"sees what was changed, {kind}", metric, share, share.low > 50 and lead.low > 0))
    groups = [100.0 * (of == "new") for _, of in told.said.groupby(told.group)]
    worst = min(groups, key=_recited, default=pd.Series(dtype=float))
    found = interval(worst, bounds=PERCENT)
    passes = len(groups) > 0 and _recited(worst) > 0.05 / len(groups)
    lines.append(("recites no group", "the same of its worst group (%)", found, passes))
    return _card(lines)


def _recited(is_new: pd.Series) -> float:
    """How probable so few new values, 0 or 100, are where new and usual ones are said alike."""
    return binomtest(int((is_new > 0).sum()), len(is_new), alternative="less").pvalue
