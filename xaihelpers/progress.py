"""How many points of a run are left and about how long they take, as lines of its list."""

import re

from xaihelpers.grids import Point
from xaihelpers.paths import PROJECT

ROW = re.compile(r"^\| \[(\w\w)\]\(notebooks/.*\| *(\d+) \|$", re.MULTILINE)  # of README's table
UNKNOWN = 60.0  # seconds of a notebook that README does not know


class Progress:
    """Counts down the points of a run, by README's seconds scaled by those that have been seen."""

    def __init__(self, points: list[Point], workers: int):
        rows = ROW.findall((PROJECT / "README.md").read_text())
        usual = {number: float(seconds) for number, seconds in rows}
        self.usual = {str(point): usual.get(point.notebook.name[:2], UNKNOWN) for point in points}
        self.left = dict(self.usual)
        self.workers = workers
        self.expected = self.seen = 0.0

    def longest_first(self, points: list[Point]) -> list[Point]:
        """The points in the order in which workers are best kept busy."""
        return sorted(points, key=lambda point: -self.usual[str(point)])

    def ended(self, point: Point, seconds: float | None) -> None:
        """Take a point off the list; seconds: None if it was up to date or failed."""
        usual = self.left.pop(str(point), 0.0)
        if seconds is not None:
            self.expected += usual
            self.seen += seconds

    def __str__(self) -> str:
        scale = self.seen / self.expected if self.expected else 1.0
        seconds = scale * max(sum(self.left.values()) / self.workers, *self.left.values(), 0.0)
        about = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
        return f"{len(self.left)} left, about {about}" if self.left else "none left"
