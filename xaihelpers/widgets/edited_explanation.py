"""An explanation of one picture to be edited, and what the scores say of it and of controls.

Paper conceptscore, section 3.2: concepts with weights, written as one text. Which scores there are, the
notebook says.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from xaihelpers.plots import PALETTE, to_picture
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice, press, weights

Explanation = list[tuple[str, float]]
SCORED = ("as edited", "as the model says", "random concepts", "another picture's")
MARKS = "Dos^"


def explanation_board(
    pictures: Mapping[str, object],
    explanations: Sequence[Explanation],
    concepts: Sequence[str],
    score: Callable[[int, list[Explanation]], Mapping[str, Sequence[float]]],
    seed: int = 0,
) -> Board:
    """A board on which an explanation is lengthened, shortened, reweighted and reordered.

    pictures: name -> image, as `plots.to_picture` takes them. explanations: of each picture, pairs of a
        concept and its weight. concepts: all that can be named.
    score: number of a picture and lists of pairs -> metric -> its score of each list.
    seed: of the random concepts, which get the edited list's weights.
    Raises ValueError: as `Board`.
    """
    names = list(pictures)
    plain = [[[str(name), round(float(weight), 2)] for name, weight in pairs] for pairs in explanations]
    named = [name for pairs in plain for name, _ in pairs]  # "not red" may be no concept of the list
    options = list(dict.fromkeys([*concepts, *named]))
    controls = [
        choice("picture", "picture", names),
        weights("list", "what is named, with its weight, the first first:", options),
        press("reset", "back to what the model says"),
        press("first only", "keep the first only"),
    ]

    def lists(i: int, edited: Explanation) -> list[Explanation]:
        drawn = np.random.default_rng([seed, i]).permutation(list(concepts))[: len(edited)].tolist()
        random = [[name, weight] for name, (_, weight) in zip(drawn, edited, strict=True)]
        return [edited, plain[i], random, plain[(i + 1) % len(plain)]]

    def draw(values: dict) -> tuple[Figure, str]:
        i = names.index(values["picture"])
        if not values["list"]:
            raise ValueError("Nothing is named: add a concept.")
        scores = score(i, lists(i, values["list"]))
        fig = Figure(figsize=(3.1 + 1.1 * len(scores), 2.2), layout="constrained")
        picture, *axes = fig.subplots(1, 1 + len(scores))
        picture.imshow(to_picture(list(pictures.values())[i]))
        picture.set_title(values["picture"], fontsize=10)
        picture.axis("off")
        for ax, (metric, numbers) in zip(axes, scores.items(), strict=True):
            _draw_scores(ax, metric, numbers, labelled=ax is axes[0])
        told = [
            f"{metric} {round(numbers[0], 3):g} (as the model says: {round(numbers[1], 3):g})"
            for metric, numbers in scores.items()
        ]
        return fig, f"{len(values['list'])} concepts: {'; '.join(told)}."

    def reset(values: dict) -> dict:
        return values | {"list": plain[names.index(values["picture"])]}

    def first_only(values: dict) -> dict:
        return values | {"list": values["list"][:1]}

    def adjust(old: dict, new: dict) -> dict:
        return new if old["picture"] == new["picture"] else reset(new)

    title = "Edit the explanation of one picture and watch its scores; the controls beside know less."
    first = {"picture": names[0], "list": plain[0]}
    return Board(title, controls, first, draw, {"reset": reset, "first only": first_only}, adjust)


def _draw_scores(ax, metric: str, numbers: Sequence[float], labelled: bool) -> None:
    """A marker for each list: the edited one, the model's, and the controls."""
    for place, (number, mark) in enumerate(zip(numbers, MARKS, strict=True)):
        ax.plot(number, place, mark, color=PALETTE[place], ms=8 if not place else 6)
    ax.axvline(numbers[0], color=PALETTE[0], lw=0.8, ls=":")
    ax.set_yticks(range(len(SCORED)), SCORED if labelled else [""] * len(SCORED), fontsize=10)
    ax.set_ylim(len(SCORED) - 0.5, -0.5)
    ax.margins(x=0.25)
    ax.tick_params(axis="x", labelsize=10)
    ax.set_title(metric, fontsize=10)
