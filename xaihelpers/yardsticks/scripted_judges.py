"""Scripted judges of attention, who see the numbers of a case instead of its picture (not in the paper).

The honest ones have to pass `judge_card`, and each of the others ignores something and has to be found out:

| honest | score, 0 to 5 |
|---|---|
| the truth | the prompt's steps where the name is right, else 0; none without a picture |
| the truth, noise of half a point | the same with normal noise, rounded |
| coverage x precision | 5 times their product, where the name is right |

| liar | what it scores |
|---|---|
| looks at no object | the less is lit, the better: 5 - 8 x lit area |
| a brightness meter | how bright the picture is |
| likes the centre | how near the light lies to the middle |
| knows families | as the truth, but its own family's name is as good |
| knows sharp masks | as the truth, but 3 for every map of a network |
| knows the usual place | as the truth, but a network's map by its form and where such birds usually are |
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.ensemble import RandomForestRegressor

from xaihelpers.masks import upsample_maps
from xaihelpers.scores.autoxplain import coverage_and_precision, product_score, soft_iou, step_score
from xaihelpers.scores.intervals import interval
from xaihelpers.yardsticks.judge_card import check_texts, judge_card
from xaihelpers.yardsticks.judge_controls import (
    DOSES,
    ELSEWHERE,
    EXACT,
    LIT,
    LOOK_ALIKE,
    NETWORKS,
    NO_IMAGE,
    ON_MATE,
    Battery,
    Birds,
    ask_battery,
    drawn_battery,
    drawn_birds,
)
from xaihelpers.yardsticks.statements import COVERAGE

SIDE = 64  # at which light and usual places are compared
TAUGHT, MANY = 5000, 192  # added to the seed of birds from whose maps is learnt; how many
# what changes from one picture to the other
PAIRS = ((EXACT, LOOK_ALIKE), (EXACT, f"coverage {DOSES[-1]:g}"), (EXACT, ELSEWHERE))


class Taught(NamedTuple):
    """Maps from which is learnt what a map's form, and the usual place of what is named, say of its score."""

    labels: Sequence[str]  # of n pictures
    things: torch.Tensor  # (n, SIDE, SIDE), where their objects are
    pictures: np.ndarray  # (N,), of which of them a map is
    named: Sequence[str]  # (N,), the class that is named
    lit: torch.Tensor  # (N, SIDE, SIDE) bool
    scores: np.ndarray  # (N,)


def scripted_scores(
    cases: pd.DataFrame, lit: torch.Tensor, seed: int = 0, taught: Taught | None = None
) -> pd.DataFrame:
    """The scores of the scripted judges, 0 to 5, NaN for none: a row for each case, a column for each judge.

    cases: as of `Battery`, or of maps that a network has made: with condition, coverage, precision, area,
        brightness, object and right_name. lit: (N, H, W) bool. seed: of the noise and the forest.
    taught: other maps; without any nobody knows the usual place.
    """
    coverage, precision = cases.coverage, cases.precision.fillna(0.0)
    fit = pd.Series(step_score(coverage, precision), cases.index)
    truth = fit.where(cases.right_name, 0.0)
    noise = np.random.default_rng(seed).normal(0, 0.5, len(cases))
    of_network = cases.condition.str.removesuffix(ON_MATE).isin(NETWORKS)
    is_kin = cases.right_name | cases.condition.eq(LOOK_ALIKE)
    usual = cases[cases.condition.eq(EXACT)] if cases.condition.eq(EXACT).any() else cases
    scores = {
        "the truth": truth,
        "the truth, noise of half a point": (truth + noise).round(),
        "coverage x precision": product_score(coverage, precision) * cases.right_name,
        "looks at no object": 5 - 8 * cases.area,
        "a brightness meter": 4 * cases.brightness / usual.brightness.mean(),
        "likes the centre": 5 * _nearness_to_middle(lit),
        "knows families": fit.where(is_kin, 0.0),
        "knows sharp masks": truth.mask(of_network, 3.0),
    }
    if taught is not None:
        by_form = pd.Series(usual_place_scores(taught, lit, cases.object.tolist(), seed), cases.index)
        scores["knows the usual place"] = truth.mask(of_network & cases.right_name, by_form)
    return pd.DataFrame(scores, index=cases.index).clip(0, 5).mask(cases.condition.eq(NO_IMAGE))


def usual_place_scores(taught: Taught, lit: torch.Tensor, named: Sequence[str], seed: int = 0) -> np.ndarray:
    """What a forest scores that sees the form of the light and knows where what is named usually is, (N,).

    lit: (N, H, W) bool. named: the class of each map. A picture does not count to the usual place that its
    own maps are learnt with.
    """
    forest = RandomForestRegressor(200, min_samples_leaf=3, random_state=seed)
    places = _usual_places(taught, taught.named, taught.pictures)
    forest.fit(_form(taught.lit, places), taught.scores)
    lit = F.interpolate(lit[:, None].float(), (SIDE, SIDE))[:, 0]
    return forest.predict(_form(lit, _usual_places(taught, named)))


def _usual_places(taught: Taught, named: Sequence[str], own: np.ndarray | None = None) -> torch.Tensor:
    """Where the objects of these classes are on average, (N, SIDE, SIDE), in other pictures than `own`."""
    weights = np.equal.outer(np.asarray(named), np.asarray(taught.labels)).astype(np.float32)
    if own is not None:
        weights[np.arange(len(own)), own] = 0
    weights[weights.sum(1) == 0] = 1  # of a name without pictures those of all
    weights = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    return torch.einsum("ab,bxy->axy", weights, taught.things)


def taught_by_birds(birds: Birds) -> Taught:
    """What the maps of a network of drawn birds teach, scored by the prompt's steps."""
    things = F.interpolate((birds.parts > 0).float()[:, None], (SIDE, SIDE))[:, 0]
    known = torch.cat([upsample_maps(maps, (SIDE, SIDE)) for maps in birds.maps.values()])
    names, n_maps = birds.names.own.tolist(), len(birds.maps)
    score = step_score(*coverage_and_precision(known > LIT, things.bool().repeat(n_maps, 1, 1)))
    pictures = np.tile(np.arange(len(names)), n_maps)
    return Taught(names, things, pictures, names * n_maps, known > LIT, score)


def _form(lit: torch.Tensor, place: torch.Tensor) -> np.ndarray:
    """Area, overlap with a place in two ways, middle and spread along both sides, (N, 7)."""
    lit = lit.float()
    share = lit / lit.sum((1, 2), keepdim=True).clamp(min=1)
    found, along = [lit.mean((1, 2)), (share * place).sum((1, 2)), soft_iou(lit, place)], torch.arange(SIDE)
    for axis in (1, 2):
        at = share.sum(axis)
        middle = (at * along).sum(1, keepdim=True)
        found += [middle[:, 0], (at * (along - middle) ** 2).sum(1).sqrt()]
    return torch.stack(found, 1).numpy()


def true_texts(cases: pd.DataFrame) -> list[str]:
    """What is true of the light of each case, in words that `check_statements` knows."""
    texts = []
    for case in cases.itertuples():
        fitting = [word for word, (low, high, _) in COVERAGE.items() if low <= case.coverage <= high]
        place = "object" if case.precision >= 0.5 else "background"
        texts.append(f"The attention lies mainly on the {place}. It covers {fitting[-1]} of the object.")
    return texts


def _nearness_to_middle(lit: torch.Tensor) -> np.ndarray:
    """1 less the mean distance of the lit pixels from the middle, in half sides, (N,); 0 where none is."""
    height, width = lit.shape[1:]
    y = torch.linspace(-1, 1, height)[:, None]
    x = torch.linspace(-1, 1, width)[None]
    away = (torch.hypot(y, x) * lit).sum((1, 2)) / lit.sum((1, 2))
    return (1 - away).clamp(min=0).nan_to_num(0.0).numpy()


class DrawnCards(NamedTuple):
    """What was asked about drawn birds, and what came of it."""

    battery: Battery  # of masked pictures
    taught: Taught  # by others, as `scripted_scores` takes it
    answers: dict[str, pd.DataFrame]  # by judge, as of `ask_battery`, about masked pictures
    cards: pd.DataFrame  # as of `judge_card`, with the columns judge and shown


def draw_cards(
    load: Callable,
    judges: Sequence[str],
    scripted: Sequence[str],
    kinds: Sequence[str],
    n_birds: int = 60,
    seed: int = 0,
    of_kind: dict[str, dict] | None = None,
    **settings,
) -> DrawnCards:
    """Draw birds and ask judges about them, and scripted ones about the masked pictures.

    load: a model by its name, as `vlm_loader` gives it. scripted: of `scripted_scores`; their texts are true.
    kinds: of pictures, "masked" among them.
    of_kind: further settings by kind of picture. settings: of `judging.judge`.
    """
    answers, cards = {}, []
    batteries = {kind: drawn_battery(n_birds, kind, seed) for kind in kinds}
    for kind, battery in batteries.items():
        given = settings | (of_kind or {}).get(kind, {})
        for name in judges:
            said = ask_battery(load(name), battery, kind, seed=seed, **given)
            card = judge_card(said, battery, check_texts(said, battery, seed))
            cards.append(card.assign(judge=name, shown=kind))
            if kind == "masked":
                answers[name] = said
    battery = batteries["masked"]
    taught = taught_by_birds(drawn_birds(MANY, seed + TAUGHT))
    scores = scripted_scores(battery.cases, battery.lit, seed, taught)
    said = battery.cases.assign(text=true_texts(battery.cases), score=scores["the truth"])
    texts = check_texts(said, battery, seed)  # by all of them
    for name in scripted:
        answers[name] = said.assign(score=scores[name])
        cards.append(judge_card(answers[name], battery, texts).assign(judge=name, shown="masked"))
    return DrawnCards(battery, taught, answers, pd.concat(cards, ignore_index=True))


def pairs_of_birds(drawn: DrawnCards, name: str) -> tuple[list, list[str]]:
    """The pictures of PAIRS, each of another bird, with a judge's scores: the first ones, then the others.

    Of each pair the bird is shown whose difference of scores is the median.
    """
    said = drawn.answers[name].reset_index(names="case")
    score = said.pivot_table(index="row", columns="condition", values="score", dropna=False)
    chosen = {}  # bird -> pair
    for pair in PAIRS:
        gaps = (score[pair[0]] - score[pair[1]]).drop([*chosen]).dropna().sort_values(kind="stable")
        chosen |= {bird: pair for bird in gaps.index[len(gaps) // 2 :][:1]}
    pictures, titles = [], []
    for place in range(2):
        for bird, pair in chosen.items():
            one = said[(said.row == bird) & (said.condition == pair[place])].iloc[0]
            pictures.append(drawn.battery.images[one.case])
            titles.append(f"{one.condition}: {one.score:g}\n“{one.object}”")
    return pictures, titles


def mean_scores(drawn: DrawnCards, names: Sequence[str], places: dict[str, float], axis: str) -> pd.DataFrame:
    """Each judge's mean score of masked pictures, by condition: judge, axis and the columns of an Interval.

    places: condition -> where it stands on the axis.
    """
    means = []
    for name in names:
        said = drawn.answers[name]
        for condition, place in places.items():
            mean = interval(said["score"][said["condition"] == condition], bounds=(0, 5))
            means.append({"judge": name, axis: place, **mean._asdict()})
    return pd.DataFrame(means).sort_values(axis, kind="stable")
