"""The card of an annotator: does it say what it sees, or what the species usually has? (not in the papers)

On ordinary birds the species gives nearly everything away: an annotator that recognises it and recites what
it usually has is right there without having looked. So the birds of this examination have attributes that
their species says nothing of, drawn anew for each seed. A statement is a colour of a part, "a red crown".

| control | measured | passes if |
|---|---|---|
| says what is there | statements true of their own bird, less of another, % | low > 0, value ≥ `LEAST` |
| does not recite | where its own and its species' colours differ and one is said: its own, % | low > 50 |
| says enough | of the parts that are visible, those whose colour is said, % | low ≥ `SAID` |
| does not recite, ordinary birds | the same of birds whose species it may know | low > 50 |
| says enough, ordinary birds | the same of these | low ≥ `SAID` |

The last two are for who recites the species that it knows and looks at other birds alone. Liars are found out
by these bounds, and who is honest passes although a fifth of what it says is wrong (see the tests).
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from worlds import aviary
from xaihelpers.datasets import Dataset, image_attributes, load
from xaihelpers.fastslow.label_chains import chain_from_attributes
from xaihelpers.fastslow.questions import annotate_chains
from xaihelpers.scores.intervals import PERCENT, Interval, interval

LEAST, SAID = 25.0, 20.0  # %
FIRST_SEED = 20_000  # of the birds that are drawn for it: no other world has these
COLORS = {color: color for color in aviary.GROUPS["wing_color"]} | {"gray": "grey", "golden": "yellow"}
# what a part is called -> its group of attributes
PARTS = "crown forehead nape throat breast belly back wing eye leg bill".split()
PARTS = {part: f"{part}_color" for part in PARTS}
PARTS |= {"tail": "upper_tail_color", "beak": "bill_color", "chest": "breast_color", "feet": "leg_color"}


def color_statements(text: str) -> set[tuple[str, str]]:
    """What a text says of colours: (group, color) of each phrase that names a part and colours before it.

    "black and white wings, a red crown" says (wing_color, black), (wing_color, white), (crown_color, red).
    """
    said = set()
    for phrase in re.split(r"[,;.:|\n]|\bwith\b|\bbut\b", text.lower()):
        before: list[str] = []
        for word in re.findall(r"[a-z]+", phrase):
            group = PARTS.get(word) or PARTS.get(word.removesuffix("s"))
            if group:
                said.update((group, color) for color in before)
                before = []
            elif word in COLORS:
                before.append(COLORS[word])
    return said


def color_claims(
    chains: Sequence[Mapping[str, str] | None], present: np.ndarray, usual: np.ndarray, seed: int = 0
) -> tuple[pd.DataFrame, list[float]]:
    """What chains say of colours of visible parts, each claim beside the bird's and beside another bird's.

    chains: N, None where there is none. present: (N, 312) bool, what can be seen of each bird.
    usual: (N, 312) bool, what its species usually shows. seed: of the other birds.
    Returns a row for each claim, with `row` of its bird and whether it is true of its `own` and of the
    `other` bird, and whether bird and species `differ` there and one of the two is said; and of each bird the
    share of visible parts whose colour is said, in %.
    """
    column = {tuple(name.removeprefix("has_").split("::")): k for k, name in enumerate(aviary.ATTRIBUTES)}
    of_group = {group: [column[key] for key in column if key[0] == group] for group in set(PARTS.values())}
    other = (np.arange(len(chains)) + np.random.default_rng(seed).integers(1, len(chains))) % len(chains)
    rows, shares = [], []
    for row, chain in enumerate(chains):
        visible = {group for group, columns in of_group.items() if present[row, columns].any()}
        said = color_statements(" ; ".join((chain or {}).values()))
        said = {(group, color) for group, color in said if group in visible and (group, color) in column}
        shares.append(100 * len({group for group, _ in said}) / len(visible))
        for group, color in said:
            place, columns = column[group, color], of_group[group]
            own, habit = present[row, place], usual[row, place]
            differ = not (present[row, columns] & usual[row, columns]).any()
            line = {"row": row, "own": own, "differ": differ and (own or habit)}
            rows.append(line | {"other": present[other[row], place]})
    claims = pd.DataFrame(rows, columns=["row", "own", "differ", "other"])
    return claims.astype({"differ": bool}), shares


def annotator_card(
    chains: Sequence[Mapping[str, str] | None],
    present: np.ndarray,
    usual: np.ndarray,
    seed: int = 0,
    ordinary: bool = False,
) -> pd.DataFrame:
    """The controls of the module docstring for the chains of one annotator, and which of them it passes.

    ordinary: whether they are of ordinary birds, of which the last two controls alone mean something. The
        other arguments: as of `color_claims`.
    Returns control, metric, the columns of an Interval, and `passed`.
    """
    said, shares = color_claims(chains, present, usual, seed)
    there = interval(100 * said.own - 100 * said.other, clusters=said.row, bounds=(-100, 100))
    own = _share_true(said[said.differ])
    share = interval(shares, bounds=PERCENT)
    looks = there.low > 0 and there.value >= LEAST
    lines = [
        ("says what is there", "true of its own bird, less of another (%)", there, looks),
        ("does not recite", "its own colour, not the usual one (%)", own, own.low > 50),
        ("says enough", "visible parts whose colour is said (%)", share, share.low >= SAID),
    ]
    rows, suffix = [], ", ordinary birds" if ordinary else ""
    for control, metric, found, passed in lines[1:] if ordinary else lines:
        row = {"control": control + suffix, "metric": metric, **found._asdict()}
        rows.append(row | {"passed": bool(passed)})
    return pd.DataFrame(rows)


def _share_true(claims: pd.DataFrame, of: str = "own") -> Interval:
    """How many of the claims are true of a bird, "own" or "other", in %."""
    return interval(100.0 * claims[of], clusters=claims.row, bounds=PERCENT)


def examination_birds(seed: int = 0) -> Dataset:
    """96 birds whose attributes their species says nothing of, in no other world; drawn at first use."""
    number = FIRST_SEED + seed
    name = f"aviary_examination_{number}"
    return load(aviary.ensure(name, images_per_class=2, seed=number, decorrelated=1.0))


def usual_attributes(birds: Dataset) -> np.ndarray:
    """What the species of each bird of the aviary usually shows, (N, 312) bool."""
    of_species = [aviary.true_attributes(aviary.usual_individual(name)) for name in birds.class_names]
    return np.stack(of_species)[birds.labels.numpy()]


def prove_annotators(
    models: Sequence[str], model_of: Callable[[str], object], world_seed: int = 0, count: int = 96, **settings
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Who describes and who recites: what several annotators say of ordinary birds and of random ones.

    Beside them stand "reciter", who says what the species usually has, and "knows the bird".

    models: names. model_of: from a name to the model, as `vlm_loader` gives it. world_seed: of the birds.
    count: of each kind, at most. settings: of `fastslow.annotate_chains`.
    Returns how often what is said of colours is true, in %, with the columns model, `birds` ("ordinary",
    "random attributes"), `true of` ("this bird"; "another bird"; "this bird, not the usual", where it and its
    species differ) and those of an Interval; and the card of each model, by the birds of both kinds.
    """
    shares, cards = [], {name: [] for name in models}
    for kind, world in (("ordinary", load("aviary")), ("random attributes", examination_birds(world_seed))):
        train = world.images["train"].to_numpy() & (kind == "ordinary")
        rows = np.random.default_rng(world_seed).permutation(np.flatnonzero(~train))[:count]
        files = world.images["path"].iloc[rows].tolist()
        there, usual = image_attributes(world)[0].numpy()[rows], usual_attributes(world)[rows]
        said = {name: annotate_chains(model_of(name), files, **settings).chains for name in models}
        for name, chains in said.items():
            cards[name].append(annotator_card(chains, there, usual, world_seed, kind == "ordinary"))
        names = world.attributes["name"].to_numpy()
        said["reciter"] = [chain_from_attributes(names[one]) for one in usual]
        said["knows the bird"] = [chain_from_attributes(names[one]) for one in there]
        for name, chains in said.items():
            claims, _ = color_claims(chains, there, usual, world_seed)
            true_of = {"this bird": _share_true(claims), "another bird": _share_true(claims, "other")}
            true_of["this bird, not the usual"] = _share_true(claims[claims.differ])
            for what, share in true_of.items():
                shares.append({"model": name, "true of": what, **share._asdict(), "birds": kind})
    return pd.DataFrame(shares), {name: pd.concat(of_model) for name, of_model in cards.items()}
