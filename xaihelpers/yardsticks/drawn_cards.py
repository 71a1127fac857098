"""Cards of judges on birds that are drawn for them: what each said of the battery, and what it passes.

Not in the paper; `judge_controls` has the battery, `judge_card` the controls, `scripted_judges` the scripts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from xaihelpers.saliency.judging import judge, judge_images
from xaihelpers.scores.intervals import interval
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.judge_card import check_texts, judge_card
from xaihelpers.yardsticks.judge_controls import DOSES, ELSEWHERE, EXACT, LOOK_ALIKE, Battery
from xaihelpers.yardsticks.scripted_judges import scripted_scores, true_texts

# what changes from one picture to the other; the last one is shown as a heat-map
PAIRS = ((EXACT, LOOK_ALIKE), (EXACT, f"coverage {DOSES[-1]:g}"), (EXACT, ELSEWHERE), (EXACT, "heat-map"))


class DrawnCards(NamedTuple):
    """What was asked about drawn birds, and what came of it."""

    battery: Battery  # of masked pictures
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
    batteries = {kind: judge_controls.drawn_battery(n_birds, kind, seed) for kind in kinds}
    for kind, battery in batteries.items():
        given = settings | (of_kind or {}).get(kind, {})
        for name in judges:
            said = judge_controls.ask_battery(load(name), battery, kind, seed=seed, **given)
            card = judge_card(said, battery, check_texts(said, battery, seed))
            cards.append(card.assign(judge=name, shown=kind))
            if kind == "masked":
                answers[name] = said
    battery = batteries["masked"]
    scores = scripted_scores(battery.cases, battery.lit, seed)
    said = battery.cases.assign(text=true_texts(battery.cases), score=scores["the truth"])
    texts = check_texts(said, battery, seed)  # the same ones by all of them
    for name in scripted:
        answers[name] = said.assign(score=scores[name])
        cards.append(judge_card(answers[name], battery, texts).assign(judge=name, shown="masked"))
    return DrawnCards(battery, answers, pd.concat(cards, ignore_index=True))


def pairs_of_birds(drawn: DrawnCards, model, name: str, **settings) -> tuple[list, list[str]]:
    """The pictures of PAIRS, each of another bird, with a judge's scores: the first ones, then the others.

    model, name: the judge, one of those who were asked. settings: of `judging.judge`, for the heat-map.
    """
    said, battery = drawn.answers[name], drawn.battery
    pictures, titles = [[], []], [[], []]
    has_kin = said["row"][said["condition"] == LOOK_ALIKE]
    for pair, bird in zip(PAIRS, has_kin, strict=False):
        of_bird = said[said["row"] == bird].reset_index().set_index("condition")
        for place, condition in enumerate(pair):
            one = of_bird.loc[condition if condition in of_bird.index else EXACT]
            picture, score = battery.images[one["index"]], one["score"]
            if condition not in of_bird.index:
                thing = (battery.parts[[bird]] > 0).float()
                (picture,) = judge_images(battery.pixels[[bird]], thing, "heat")
                score = judge(model, [picture], [one["object"]], "heat", **settings)["score"][0]
            pictures[place].append(picture)
            titles[place].append(f"{condition}: {score:g}\n“{one['object']}”")
    return sum(pictures, []), sum(titles, [])


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
