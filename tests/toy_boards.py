"""Boards of small invented arrays, for tests in this process and in a browser's kernel."""

import numpy as np
import pandas as pd
import torch

from xaihelpers import widgets

SIDE = 24
CURVES = pd.DataFrame(
    [
        {"who": who, "t": t, "value": 20.0 + 10 * t, "low": 10.0 + 10 * t, "high": 30.0 + 10 * t}
        for who in ("annotator", "ideal reader")
        for t in (1, 2)
    ]
)


def picture(number):
    """A picture (SIDE, SIDE, 3) uint8 of a bright square on grey."""
    image = np.full((SIDE, SIDE, 3), 90, np.uint8)
    image[4 * number + 2 : 4 * number + 8, 4:12] = (250, 60 * number, 20)
    return image


def part_board():
    """Two pictures, two concepts; the map of the first peaks at the upper left, of the second opposite."""
    peak = torch.zeros(2, 2, 6, 6)
    peak[:, 0, 1, 1] = peak[:, 1, 4, 4] = 1
    centres = torch.full((2, 2, 2, 2), torch.nan)
    centres[:, 0, 0] = 6.0
    pictures = {f"bird {n}": picture(n) for n in range(2)}
    return widgets.part_board(pictures, ["crown", "tail"], peak, [1, 6], centres)


def mask_board():
    """A map that is hot at the left, and one that is even."""
    pictures = torch.stack([torch.from_numpy(picture(n)).movedim(-1, 0) for n in range(2)])
    left = torch.linspace(1, 0, 6).expand(2, 6, 6)
    objects = torch.zeros(2, SIDE, SIDE, dtype=torch.bool)
    objects[:, :, :12] = True
    maps = {"gradcam": left, "even": torch.full((2, 6, 6), 0.5)}
    return widgets.mask_board(pictures, ["first", "second"], maps, 25.0, 0.4, objects)


def explanation_board():
    """Scores by counting: how many true concepts, and the sum of the weights."""
    true = [{"red", "blue"}, {"green"}]

    def score(i, lists):
        hits = [sum(name in true[i] for name, _ in pairs) for pairs in lists]
        return {"true": hits, "weight": [sum(weight for _, weight in pairs) for pairs in lists]}

    pictures = {f"bird {n}": picture(n) for n in range(2)}
    explanations = [[("red", 0.5), ("green", -0.25)], [("green", 1.0)]]
    return widgets.explanation_board(pictures, explanations, ["red", "green", "blue", "grey"], score)


def bird_board():
    """A model that sees what is there, and one that recites."""

    def pair_of(bird, attribute):
        if (bird, attribute) == ("Mallard", "has_eye::red"):
            raise ValueError("a Mallard cannot be given red eyes")
        return picture(0), picture(1)

    def probabilities_of(image, attribute):
        seen = float(image[8, 6, 1]) / 255
        return {"sees": [seen, seen / 2], "recites": [0.1, 0.2]}

    attributes = {"blue breast": "has_breast::blue", "red eyes": "has_eye::red"}
    birds = ["Blue Jay", "Mallard"]
    return widgets.bird_board(birds, attributes, pair_of, probabilities_of, "Blue Jay", "blue breast")


def fault_board():
    """A yardstick that falls with the dose, one that rises, one that stays, and one of another kind."""
    rng = np.random.default_rng(0)
    rows = []
    for fault, dose, draw in [("honest", 0.0, d) for d in range(8)] + [
        ("leak", dose, d) for dose in (0.5, 1.0) for d in range(8)
    ]:
        for yardstick, slope in (("T", -10), ("accuracy", 10), ("blind", 0)):
            score = slope * dose + rng.normal(0, 0.5)
            rows.append(["bottlenecks", yardstick, fault, dose, draw, 100, score])
    rows.append(["maps", "CLM", "honest", 0.0, 0, 100, 1.0])
    columns = ["planted", "yardstick", "fault", "dose", "draw", "n", "score"]
    kinds = {"leak": "bottlenecks", "never planted": "bottlenecks"}
    return widgets.fault_board(pd.DataFrame(rows, columns=columns), kinds)


def slow_mode(rater="anna", file="slow.sqlite", words="on a branch"):
    """Two cases of two stages; the truth of both is option B."""
    options = ["Blue Jay", "SECRET Mallard", "Crow", "Heron", "Tern"]
    cases = []
    for n in range(2):
        stages = {"Background": f"{words} {n}", "Superclass": f"a bird {n}"}
        cases.append(widgets.Case(f"case {n}", stages, options, 1, picture(n)))
    return widgets.SlowMode(cases, CURVES, "toy", rater, file)
