"""Body plans, and where every part of one bird lies in its picture."""

from importlib.resources import files

import numpy as np
import pandas as pd

from worlds.aviary.individuals import Individual
from worlds.canvas import SIZE

# Proportions of each body shape, lengths in body lengths, tilt in degrees, and where such a bird sits.
_PLANS = pd.read_csv(files("worlds.aviary") / "plans.csv")
PLANS = {plan.shape: plan for plan in _PLANS.itertuples(index=False, name="BodyPlan")}
SCALE = {"very_small": 0.80, "small": 0.87, "medium": 0.94, "large": 1.0, "very_large": 1.05}
FREE_SEATS = ("branch", "ground", "rock", "shallows", "trunk")  # water and air hide the legs
BILL_LENGTH = {"shorter_than_head": 0.62, "about_the_same_as_head": 1.15, "longer_than_head": 1.95}


class Pose:
    """Where every part of a bird lies in the picture, from its first values and its own random draws.

    Points are pixels (x, y); the bird faces right until the picture is flipped at the very end. `unit` is the
    body length in pixels, `now` and `born` the first value of each group, as drawn and before any
    substitution.

    free_scene: the seat and the size of leaves, `grain`, are drawn by lot. Else they go with the shape and
        the size that the bird was born with, as in nature.
    """

    def __init__(self, bird: Individual, free_scene: bool = False):
        rng = np.random.default_rng([bird.seed, bird.index, 1])
        born = {group: values[0] for group, values in bird.born.items()}
        now = {group: values[0] for group, values in bird.values.items()}
        self.plan = now["shape"]
        if self.plan != "chicken-like-marsh":
            self.plan = self.plan.removesuffix("-like")
        plan = PLANS[self.plan]
        self.seat = plan.seat
        self.flip = bool(rng.random() < 0.5)
        steady = 0.5 if self.seat in ("water", "trunk") else 1
        self.tilt = np.radians(plan.tilt + rng.uniform(-9, 9) * steady)
        self.nod = np.radians(rng.uniform(-14, 14))
        self.plumpness = plan.plumpness * rng.uniform(0.93, 1.07)
        self.wing_raised = bool(rng.random() < {"hummingbird": 0.65, "swallow": 0.25}.get(self.plan, 0.07))
        self.tail_swing = np.radians(rng.uniform(-10, 12))
        self.neck = plan.neck * rng.uniform(0.85, 1.15)
        self.leg = plan.leg * rng.uniform(0.9, 1.1)
        self.head_radius = plan.head_radius * rng.uniform(0.95, 1.05)
        self.tail_length = plan.tail * rng.uniform(0.93, 1.07)
        offset, fill = rng.uniform(-1, 1, 2), rng.uniform(0.80, 1.0)
        # In a unit frame first: the body from the rump (-0.5) to the breast (0.5), tilted up.
        self.origin, self.unit = np.zeros(2), 1.0
        points = self._extent(born)
        low, high = points.min(0), points.max(0)
        size = SCALE[born["size"].split("_(")[0]]
        self.unit = min(0.90 * fill * size * SIZE / (high - low).max(), 120.0)
        slack = np.maximum(SIZE - (high - low) * self.unit, 10.0) / 2
        self.origin = np.array([SIZE / 2, SIZE / 2]) - self.unit * (low + high) / 2 + offset * slack * 0.7
        self.grain = 1.0 / size**2  # perches and leaves look bigger beside a small bird
        self.unit *= SCALE[now["size"].split("_(")[0]] / size  # a substituted size
        self.born, self.now = born, now
        if free_scene:
            lot = np.random.default_rng([bird.seed, bird.index, 21])
            self.seat = str(lot.choice(FREE_SEATS))
            self.grain = 1.0 / float(lot.choice(list(SCALE.values()))) ** 2

    def at(self, x: float, y: float) -> np.ndarray:
        """Body coordinates to pixels."""
        cos, sin = np.cos(self.tilt), np.sin(self.tilt)
        return self.origin + self.unit * np.array([cos * x + sin * y, -sin * x + cos * y])

    @property
    def body(self):
        """Points and radii of the body as a chain of round cones, from the rump to the breast."""
        along = ((-0.52, -0.02), (-0.26, 0.0), (0.02, 0.03), (0.28, 0.02), (0.45, -0.03))
        fat, unit = self.plumpness, self.unit
        radii = [0.065 * unit, 0.165 * fat * unit, 0.245 * fat * unit, 0.235 * fat * unit, 0.135 * unit]
        return [self.at(*point) for point in along], radii

    @property
    def neck_line(self):
        """Points and radii from the shoulders to the head: straight for short necks, an S for long ones."""
        unit, neck = self.unit, self.neck
        start = self.at(0.36, -0.06)
        angle = self.tilt * 0.45 + 0.35 + neck * 0.7
        end = start + unit * (0.235 + neck) * np.array([np.cos(angle), -np.sin(angle)])
        bend = np.array([0.16, 0.05]) * neck * unit
        middle = (start + end) / 2 + bend
        width = max(0.175 * self.plumpness * (1 - neck), 0.075)
        points = [start, (start + middle) / 2 + bend * 0.4, middle, end]
        radii = [
            width * unit,
            (width * 0.75 + 0.02) * unit,
            max(self.head_radius * 0.72, width * 0.55) * unit,
            self.head_radius * 0.85 * unit,
        ]
        return points, radii

    @property
    def head(self):
        return self.neck_line[0][-1]

    def head_at(self, x: float, y: float) -> np.ndarray:
        """Head coordinates (in head radii, x to the bill, y down) to pixels."""
        cos, sin = np.cos(self.nod), np.sin(self.nod)
        return self.head + self.unit * self.head_radius * np.array([cos * x - sin * y, sin * x + cos * y])

    def bill_length(self, values: dict[str, str]) -> float:
        """Length of the bill of a bird with these values, in head radii."""
        length = BILL_LENGTH[values["bill_length"]] * (
            1.35 if self.plan in ("hummingbird", "duck", "long-legged") else 1.0
        )
        if values["bill_shape"] == "specialized":
            length *= 1.15 if values["bill_length"] == "longer_than_head" else 0.95
        return length

    def _extent(self, values: dict[str, str]) -> np.ndarray:
        """Points (n, 2) that the picture has to hold."""
        unit, head = self.unit, self.head
        rump, front = self.at(-0.52, 0), self.at(0.5, 0)
        swing = self.tilt * 0.8 + self.tail_swing
        tail = rump + unit * self.tail_length * np.array([-np.cos(swing), np.sin(swing)])
        feet = self.at(0, 0.26) + unit * np.array([0.05, self.leg])
        radius = self.head_radius * unit
        bill_tip = self.head_at(1 + self.bill_length(values), 0.1)
        head_top, head_front = head + [0, -1.3 * radius], head + [radius, 0]
        back, belly = self.at(0, -0.3), self.at(0.1, 0.3)
        return np.array([rump, front, tail, feet, head_top, head_front, bill_tip, back, belly])

    @property
    def hips(self):
        """Where the near and the far leg begin."""
        return [self.at(0.02, 0.20 * self.plumpness), self.at(0.12, 0.19 * self.plumpness)]
