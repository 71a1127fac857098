"""Which points of a grid are done, which failed, and which are to be run, read from the results folder.

Nothing else is kept: a run that is done has its folder, with the key of the code that made it in `run.json`;
one that failed has its executed notebook, as far as it came, beside the others.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from xaihelpers.notebook_files import error_text
from xaihelpers.notebook_keys import run_key
from xaihelpers.sweep.grid import Point


@dataclass(frozen=True)
class Plan:
    """The points of a grid by what is to be done about them, each kind in the order of the grid."""

    done: list[Point]  # made by the present code
    failed: list[Point]  # tried before; they are tried again
    fresh: list[Point]  # never run, or by other code
    keys: dict[Path, str]  # notebook -> key of its present code

    @property
    def to_run(self) -> list[Point]:
        """What there is to run: first what was never tried."""
        return [*self.fresh, *self.failed]


def make_plan(points: list[Point], force: bool = False) -> Plan:
    """Sort points by what the results folder holds of them.

    force: take none of them for done.
    """
    keys = {}
    for point in points:
        if point.notebook not in keys:
            keys[point.notebook] = run_key(point.notebook, point.results)
    plan = Plan([], [], [], keys)
    for point in points:
        if not force and is_done(point.folder, keys[point.notebook], failed_copy(point)):
            plan.done.append(point)
        elif failed_copy(point).exists():
            plan.failed.append(point)
        else:
            plan.fresh.append(point)
    return plan


def is_done(folder: Path, key: str, failed: Path) -> bool:
    """Whether a run's folder is there, whole, made by the code of this key, and no cell failed later.

    failed: where the executed notebook lies if one did.
    """
    try:
        made_by = json.loads((folder / "run.json").read_text()).get("key")
    except (OSError, ValueError):
        return False
    return made_by == key and not failed.exists()


def executed_copy(point: Point) -> Path:
    """Where the executed notebook of a point goes."""
    return point.results / "notebooks" / f"{point.notebook.stem}-{point.name[3:]}.ipynb"


def failed_copy(point: Point) -> Path:
    """Where it goes if a cell fails, as far as it came."""
    return executed_copy(point).with_suffix(".failed.ipynb")


def failure(point: Point) -> str:
    """The error of the failed run that is kept of a point; empty if none is."""
    try:
        return error_text(json.loads(failed_copy(point).read_text()))
    except (OSError, ValueError):
        return ""
