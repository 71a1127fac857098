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
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from PIL import Image

from xaihelpers.scores.autoxplain import product_score, step_score
from xaihelpers.scores.intervals import interval
from xaihelpers.yardsticks.judge_card import check_texts, judge_card
from xaihelpers.yardsticks.judge_controls import (
    DOSES,
    ELSEWHERE,
    EXACT,
    LOOK_ALIKE,
    NETWORKS,
    NO_IMAGE,
    ON_MATE,
    ask_battery,
    drawn_battery,
)

# what changes from one picture to the other
PAIRS = ((EXACT, LOOK_ALIKE), (EXACT, f"coverage {DOSES[-1]:g}"), (EXACT, ELSEWHERE))


def scripted_scores(cases: pd.DataFrame, lit: torch.Tensor, seed: int = 0) -> pd.DataFrame:
    """The scores of the scripted judges, 0 to 5, NaN for none: a row for each case, a column for each judge.

    cases: as of `Battery`, or of maps that a network has made: with condition, coverage, precision, area,
        brightness and right_name. lit: (N, H, W) bool. seed: of the noise.
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
    return pd.DataFrame(scores, index=cases.index).clip(0, 5).mask(cases.condition.eq(NO_IMAGE))


def _nearness_to_middle(lit: torch.Tensor) -> np.ndarray:
    """1 less the mean distance of the lit pixels from the middle, in half sides, (N,); 0 where none is."""
    height, width = lit.shape[1:]
    y = torch.linspace(-1, 1, height)[:, None]
    x = torch.linspace(-1, 1, width)[None]
    away = (torch.hypot(y, x) * lit).sum((1, 2)) / lit.sum((1, 2))
    return (1 - away).clamp(min=0).nan_to_num(0.0).numpy()


def draw_cards(
    load: Callable,
    judges: Sequence[str],
    kinds: Sequence[str],
    n_birds: int = 60,
    seed: int = 0,
    of_kind: dict[str, dict] | None = None,
    **settings,
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Draw birds and ask judges about them, and scripted ones about the masked pictures.

    load: a model by its name, as `vlm_loader` gives it. Scripted judges write nothing.
    kinds: of pictures, "masked" among them.
    of_kind: further settings by kind of picture. settings: of `judging.judge`.
    Returns, by judge, what was answered about masked pictures, as of `ask_battery` with a column `picture`;
    and cards as of `judge_card`, with the columns judge and shown.
    """
    answers, cards = {}, []
    for kind in kinds:
        battery = drawn_battery(n_birds, kind, seed)
        given = settings | (of_kind or {}).get(kind, {})
        for name in judges:
            said = ask_battery(load(name), battery, kind, seed=seed, **given)
            card = judge_card(said, battery, check_texts(said, battery, seed))
            cards.append(card.assign(judge=name, shown=kind))
            if kind == "masked":
                answers[name] = said.assign(picture=battery.images)
        if kind == "masked":
            scores = scripted_scores(battery.cases, battery.lit, seed)
            for name in scores:
                answers[name] = battery.cases.assign(score=scores[name], picture=battery.images)
                cards.append(judge_card(answers[name], battery).assign(judge=name, shown=kind))
    return answers, pd.concat(cards, ignore_index=True)


def pairs_of_birds(said: pd.DataFrame) -> tuple[list[Image.Image], list[str]]:
    """The pictures of PAIRS, each of another bird, with a judge's scores: the first ones, then the others.

    Of each pair the bird is shown whose difference of scores is the median.

    said: of `draw_cards`, one judge's.
    """
    score = said.pivot_table(index="row", columns="condition", values="score", dropna=False)
    chosen = {}  # bird -> pair
    for pair in PAIRS:
        gaps = (score[pair[0]] - score[pair[1]]).drop([*chosen]).dropna().sort_values(kind="stable")
        chosen |= {bird: pair for bird in gaps.index[len(gaps) // 2 :][:1]}
    pictures, titles = [], []
    for place in range(2):
        for bird, pair in chosen.items():
            one = said[(said.row == bird) & (said.condition == pair[place])].iloc[0]
            pictures.append(one.picture)
            titles.append(f"{one.condition}: {one.score:g}\n“{one.object}”")
    return pictures, titles


def mean_scores(
    answers: dict[str, pd.DataFrame], names: Sequence[str], places: dict[str, float], axis: str
) -> pd.DataFrame:
    """Each judge's mean score of masked pictures, by condition: judge, axis and the columns of an Interval.

    answers: of `draw_cards`. places: condition -> where it stands on the axis.
    """
    means = []
    for name in names:
        said = answers[name]
        for condition, place in places.items():
            mean = interval(said["score"][said["condition"] == condition], bounds=(0, 5))
            means.append({"judge": name, axis: place, **mean._asdict()})
    return pd.DataFrame(means).sort_values(axis, kind="stable")
