"""Body plans, and where everything of one bird lies in its picture."""
import numpy as np

from .canvas import SIZE
from .individuals import Individual

# Body plans: tilt in degrees, neck, leg, head radius, plumpness, tail (unit: body length), and where such a bird sits.
PLANS = {"perching": (34, .0, .26, .215, 1.0, .55, "branch"), "tree-clinging": (72, .05, .05, .20, .88, .50, "trunk"), "duck": (4, .34, .10, .155, 1.0, .26, "water"),
         "hummingbird": (38, .02, .10, .185, .80, .50, "air"), "upright-perching_water": (62, .05, .14, .20, 1.02, .20, "rock"),
         "long-legged": (14, .62, .75, .13, .90, .25, "shallows"), "gull": (8, .14, .26, .16, .88, .42, "shallows"), "owl": (72, -.06, .14, .29, 1.15, .35, "branch"),
         "chicken-like-marsh": (16, .20, .36, .15, 1.05, .22, "ground"), "pigeon": (22, .10, .18, .15, 1.08, .55, "ground"), "hawk": (48, .02, .22, .19, 1.0, .60, "branch"),
         "sandpiper": (12, .16, .46, .15, .88, .25, "shallows"), "upland-ground": (14, .12, .28, .16, 1.12, .40, "ground"), "swallow": (24, -.02, .12, .18, .80, .62, "branch")}
SCALE = {"very_small": .80, "small": .87, "medium": .94, "large": 1.0, "very_large": 1.05}
BILL_LENGTH = {"shorter_than_head": .62, "about_the_same_as_head": 1.15, "longer_than_head": 1.95}


class Pose:
    """Where everything of a bird lies in the picture, from its birth values and its own chance; the bird faces right until the very end."""

    def __init__(self, bird: Individual):
        rng = np.random.default_rng([bird.seed, bird.index, 1])
        born = {g: v[0] for g, v in bird.born.items()}
        now = {g: v[0] for g, v in bird.values.items()}
        self.plan = now["shape"].removesuffix("-like") if now["shape"] != "chicken-like-marsh" else now["shape"]
        tilt, neck, leg, head, fat, tail, self.seat = PLANS[self.plan]
        self.flip = bool(rng.random() < 0.5)
        self.tilt = np.radians(tilt + rng.uniform(-9, 9) * (0.5 if self.seat in ("water", "trunk") else 1))
        self.nod = np.radians(rng.uniform(-14, 14))
        self.fat = fat * rng.uniform(.93, 1.07)
        self.wing_raised = bool(rng.random() < {"hummingbird": .65, "swallow": .25}.get(self.plan, .07))
        self.tail_swing = np.radians(rng.uniform(-10, 12))
        self.neck, self.leg, self.head_r = neck * rng.uniform(.85, 1.15), leg * rng.uniform(.9, 1.1), head * rng.uniform(.95, 1.05)
        self.tail_length = tail * rng.uniform(.93, 1.07)
        offset, fill = rng.uniform(-1, 1, 2), rng.uniform(.80, 1.0)
        # Unit frame: body from rump (-.5) to breast (.5), front up by the tilt.
        self.origin, self.unit = np.zeros(2), 1.0
        points = self._extent(born)
        low, high = points.min(0), points.max(0)
        size = SCALE[born["size"].split("_(")[0]]
        self.unit = min(.90 * fill * size * SIZE / (high - low).max(), 120.0)
        slack = np.maximum(SIZE - (high - low) * self.unit, 10.0) / 2
        self.origin = np.array([SIZE / 2, SIZE / 2]) - self.unit * (low + high) / 2 + offset * slack * .7
        self.grain = 1.0 / size ** 2  # perches and leaves look bigger beside a small bird
        self.unit *= SCALE[now["size"].split("_(")[0]] / size  # a substituted size
        self.born, self.now = born, now

    def at(self, x: float, y: float) -> np.ndarray:
        """Body coordinates to pixels."""
        c, s = np.cos(self.tilt), np.sin(self.tilt)
        return self.origin + self.unit * np.array([c * x + s * y, -s * x + c * y])

    @property
    def body(self):
        f, u = self.fat, self.unit
        points = [self.at(*p) for p in ((-.52, -.02), (-.26, .0), (.02, .03), (.28, .02), (.45, -.03))]
        return points, [.065 * u, .165 * f * u, .245 * f * u, .235 * f * u, .135 * u]

    @property
    def neck_line(self):
        """From the shoulders to the head: straight for short necks, an S for long ones."""
        u, n = self.unit, self.neck
        start = self.at(.36, -.06)
        up = np.array([np.cos(self.tilt * .45 + .35 + n * .7), -np.sin(self.tilt * .45 + .35 + n * .7)])
        end = start + u * (.235 + n) * up
        bend = np.array([.16, .05]) * n * u
        middle = (start + end) / 2 + bend
        wide = max(.175 * self.fat * (1 - n), .075)
        return [start, (start + middle) / 2 + bend * .4, middle, end], [wide * u, (wide * .75 + .02) * u, max(self.head_r * .72, wide * .55) * u, self.head_r * .85 * u]

    @property
    def head(self):
        return self.neck_line[0][-1]

    def head_at(self, a: float, b: float) -> np.ndarray:
        """Head coordinates (in head radii, x to the bill, y down) to pixels."""
        c, s = np.cos(self.nod), np.sin(self.nod)
        return self.head + self.unit * self.head_r * np.array([c * a - s * b, s * a + c * b])

    def bill(self, values):
        length = BILL_LENGTH[values["bill_length"]] * (1.35 if self.plan in ("hummingbird", "duck", "long-legged") else 1.0)
        if values["bill_shape"] == "specialized":
            length *= 1.15 if values["bill_length"] == "longer_than_head" else .95
        return length

    def _extent(self, values):
        u = self.unit
        rump, front, head = self.at(-.52, 0), self.at(.5, 0), self.head
        swing = self.tilt * .8 + self.tail_swing
        tail = rump + u * self.tail_length * np.array([-np.cos(swing), np.sin(swing)])
        feet = self.at(0, .26) + u * np.array([.05, self.leg])
        r = self.head_r * u
        points = [rump, front, tail, feet, head + [0, -1.3 * r], head + [r, 0], self.head_at(1 + self.bill(values), .1), self.at(0, -.3), self.at(.1, .3)]
        return np.array(points)

    @property
    def feet(self):
        return [self.at(.02, .20 * self.fat), self.at(.12, .19 * self.fat)]
