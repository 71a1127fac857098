"""One bird with one attribute substituted, and what each model says of the attribute before and after.

Paper sub, Figure 1 and section 5.4.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from xaihelpers.plots import PALETTE, to_picture, wrapped_lines
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice

LEAST = 1e-4  # probabilities below it, and as near to 1, are drawn here
TICKS = {1e-4: "10⁻⁴", 0.01: "0.01", 0.5: "½", 0.99: "0.99", 1 - 1e-4: ""}


def bird_board(
    birds: Sequence[str],
    attributes: Mapping[str, str],
    pair_of: Callable[[str, str], tuple],
    probabilities_of: Callable[[object, str], Mapping[str, Sequence[float]]],
    bird: str,
    attribute: str,
) -> Board:
    """A board of substituted birds.

    attributes: name in words -> name as the two functions take it.
    pair_of: bird and attribute -> pictures before and after, as `plots.to_picture` takes them, or the latter
        alone; a ValueError for a pair that cannot be, whose text is shown.
    probabilities_of: a picture and the attribute -> model -> its probabilities of the attribute, one for each
        of its training draws.
    bird, attribute: those of the beginning, the attribute in words.
    Raises ValueError: as `Board`, and as `pair_of` for the first pair.
    """
    controls = [choice("bird", "bird", birds), choice("attribute", "is given", list(attributes))]
    kept = {}  # what has been computed, by bird and attribute

    def draw(values: dict) -> tuple[Figure, str]:
        key = values["bird"], attributes[values["attribute"]]
        if key not in kept:
            pair = pair_of(*key)
            kept[key] = pair, [probabilities_of(picture, key[1]) for picture in pair]
        pair, said = kept[key]
        fig = Figure(figsize=(6.4, 2.3), layout="constrained")
        *pictures, ax = fig.subplots(1, 3, width_ratios=[1, 1, 1.3])
        titles = [f"{values['bird']}, before", f"with {values['attribute']}"][-len(pair) :]
        for axis in pictures:
            axis.axis("off")
        for axis, picture, title in zip(pictures, pair, titles, strict=False):
            axis.imshow(to_picture(picture))
            axis.set_title(wrapped_lines(title, 20), fontsize=10)
        _draw_change(ax, said[0], said[-1])
        lines = []
        for model in said[-1]:
            lines.append(f"{model} {' → '.join(f'{np.mean(one[model]):.2g}' for one in said)}")
        return fig, f"Probability of “{values['attribute']}”, before → after: {'; '.join(lines)}."

    title = "Give a bird an attribute: does a model's probability follow the picture?"
    return Board(title, controls, {"bird": bird, "attribute": attribute}, draw)


def _draw_change(ax, old: Mapping[str, Sequence[float]], new: Mapping[str, Sequence[float]]) -> None:
    """A line a model, from its mean probability before to that after; small dots: draws after.

    The axis is that of log-odds: a step of a probability near 0 is seen as well as one near a half.
    """
    for place, model in enumerate(old):
        draws = np.clip(new[model], LEAST, 1 - LEAST)
        start, end = np.clip([np.mean(old[model]), np.mean(new[model])], LEAST, 1 - LEAST)
        ax.plot(draws, [place + 0.22] * len(draws), ".", ms=4, color="0.5")
        ax.plot([start, end], [place, place], "-", color="0.4", lw=1.5)
        ax.plot(start, place, "o", mfc="white", color=PALETTE[0], label="before" if not place else "")
        ax.plot(end, place, "D", color=PALETTE[1], label="after" if not place else "")
    ax.axvline(0.5, color="0.6", lw=0.8, ls="--")
    ax.set_yticks(range(len(old)), [wrapped_lines(model.replace("_", " "), 16) for model in old], fontsize=10)
    ax.set_xscale("logit")
    ax.set_xticks(list(TICKS), list(TICKS.values()))
    ax.set_xticks([], minor=True)
    ax.set(xlim=(LEAST / 2, 1 - LEAST / 2), ylim=(len(old) - 0.5, -0.6), xlabel="probability")
    ax.legend(fontsize=10, ncols=2, frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0))
