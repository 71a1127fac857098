"""Cards of judges on birds that are drawn for them: what each said of the battery, and what it passes.

Not in the paper; `judge_controls` has the battery, `judge_card` the controls, `scripted_judges` the scripts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd
import torch

from xaihelpers.models import crop_masks, load_target, read_pixels
from xaihelpers.saliency.judging import judge, judge_images
from xaihelpers.scores.intervals import interval
from xaihelpers.yardsticks import judge_card, judge_controls
from xaihelpers.yardsticks.judge_controls import DOSES, ELSEWHERE, EXACT, LOOK_ALIKE, Battery
from xaihelpers.yardsticks.scripted_judges import scripted_scores, true_texts

# what changes from one picture to the other; the last one is shown as a heat-map
PAIRS = ((EXACT, LOOK_ALIKE), (EXACT, f"coverage {DOSES[-1]:g}"), (EXACT, ELSEWHERE), (EXACT, "heat-map"))


class DrawnCards(NamedTuple):
    """What was asked about drawn birds, and what came of it."""

    pixels: torch.Tensor  # (N, 3, H, W) uint8, of the birds
    things: torch.Tensor  # (N, H, W) int, their parts, 0 beside them
    batteries: dict[str, Battery]  # by kind of picture
    answers: dict[tuple[str, str], pd.DataFrame]  # by judge and kind, as of `ask_battery`
    cards: pd.DataFrame  # as of `judge_card`, with the columns judge and shown


def draw_cards(
    load: Callable,
    judges: Sequence[str],
    scripted: Sequence[str] = (),
    kinds: Sequence[str] = ("masked",),
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
    world = judge_controls.battery_world("aviary", seed)
    view = load_target("aviary_resnet", "", "cpu", world)
    batteries, answers, cards = {}, {}, []
    for kind in kinds:
        batteries[kind], rows = judge_controls.drawn_battery(world, view, n_birds, kind, seed)
    things = crop_masks(view, world, rows)
    for kind, battery in batteries.items():
        given = settings | (of_kind or {}).get(kind, {})
        for name in judges:
            said = judge_controls.ask_battery(load(name), battery, kind, seed=seed, **given)
            texts = judge_card.check_texts(said, battery, things, world.parts, seed)
            answers[name, kind] = said
            cards.append(judge_card.judge_card(said, battery, texts).assign(judge=name, shown=kind))
    battery = batteries["masked"]
    scores = scripted_scores(battery.cases, battery.lit, seed)
    said = battery.cases.assign(text=true_texts(battery.cases), score=scores["the truth"])
    texts = judge_card.check_texts(said, battery, things, world.parts, seed)  # the same ones by all of them
    for name in scripted:
        answers[name, "masked"] = said.assign(score=scores[name])
        card = judge_card.judge_card(answers[name, "masked"], battery, texts)
        cards.append(card.assign(judge=name, shown="masked"))
    pixels = read_pixels(view, world.images["path"].iloc[rows].tolist())
    return DrawnCards(pixels, things, batteries, answers, pd.concat(cards, ignore_index=True))


def pairs_of_birds(drawn: DrawnCards, model, name: str, **settings) -> tuple[list, list[str]]:
    """The pictures of PAIRS, each of another bird, with a judge's scores: the first ones, then the others.

    model, name: the judge, one of those who were asked. settings: of `judging.judge`, for the heat-map.
    """
    said = drawn.answers[name, "masked"]
    pictures, titles = [[], []], [[], []]
    has_kin = said["row"][said["condition"] == LOOK_ALIKE]
    for pair, bird in zip(PAIRS, has_kin, strict=False):
        of_bird = said[said["row"] == bird].reset_index().set_index("condition")
        for place, condition in enumerate(pair):
            one = of_bird.loc[condition if condition in of_bird.index else EXACT]
            picture, score = drawn.batteries["masked"].images[one["index"]], one["score"]
            if condition not in of_bird.index:
                thing = (drawn.things[[bird]] > 0).float()
                (picture,) = judge_images(drawn.pixels[[bird]], thing, "heat")
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
        said = drawn.answers[name, "masked"]
        for condition, place in places.items():
            mean = interval(said["score"][said["condition"] == condition], bounds=(0, 5))
            means.append({"judge": name, axis: place, **mean._asdict()})
    return pd.DataFrame(means).sort_values(axis, kind="stable")
