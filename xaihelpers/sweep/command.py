"""Sweeps on the command line of `python -m xaihelpers.run`: its arguments, and what they ask for."""

import argparse
import re
from pathlib import Path

from xaihelpers.sweep.drive import Ended, Executor
from xaihelpers.sweep.grid import GridError, Point, expand
from xaihelpers.sweep.grid_files import command_grids, read_grids
from xaihelpers.sweep.launch import DONE, FOUND
from xaihelpers.sweep.local import LocalExecutor
from xaihelpers.sweep.plan import Plan, failure

GRID_FILE = (".yaml", ".yml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of sweeps to a parser that has `ids`."""
    what = parser.add_argument_group("what varies")
    what.add_argument(
        "-p",
        dest="assignments",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE...]",
        help="a parameter; several values make a grid; a list is written [a,b]",
    )
    what.add_argument(
        "-f",
        dest="presets",
        action="append",
        default=[],
        metavar="FILE",
        help="a YAML file of parameters, or what its name has after the notebook's: paper",
    )
    what.add_argument("--draws", type=int, default=0, metavar="N", help="seeds of each point")
    where = parser.add_argument_group("where a grid is run")
    where.add_argument("--part", metavar="I/N", help="only this part of the points, for array jobs")
    where.add_argument(
        "--ray", metavar="ADDRESS", help="on a Ray cluster: host:port, ray://host:port, auto or local"
    )
    where.add_argument("--cpus", type=float, default=1.0, help="CPUs of a job on Ray (default: 1)")
    where.add_argument("--gpus", type=float, help="GPUs of a job, a part of one if below 1")
    where.add_argument(
        "--retries", type=int, default=2, help="tries more, if a worker or machine fails (default: 2)"
    )


def is_sweep(options: argparse.Namespace) -> bool:
    """Whether these arguments ask for anything but notebooks at their defaults."""
    files = [name for name in options.ids if name.endswith(GRID_FILE)]
    return bool(options.assignments or options.presets or options.draws or files)


def asked_points(options: argparse.Namespace, results: Path, notebooks: Path) -> list[Point]:
    """The points that these arguments ask for, in order: those of the files, then those of the notebooks.

    Without any notebook or file these are all notebooks at their defaults.
    Raises GridError as `read_grids`, `command_grids` and `expand` do, and for a part that is none.
    """
    files = [name for name in options.ids if name.endswith(GRID_FILE)]
    ids = [name for name in options.ids if name not in files]
    grids = [grid for file in files for grid in read_grids(file, notebooks)]
    if files and not ids and (options.assignments or options.presets or options.draws):
        raise GridError(
            "-p, -f and --draws are for notebooks; in a file of grids write fixed, preset, draws."
        )
    if not is_sweep(options) and not ids:
        ids = [path.name[:2] for path in sorted(notebooks.glob("[0-9][0-9]_*.ipynb"))]
    if ids or not files:
        grids += command_grids(ids, options.assignments, options.presets, options.draws, notebooks)
    return take_part(expand(grids, results, notebooks), options.part)


def take_part(points: list[Point], part: str | None) -> list[Point]:
    """Every n-th point from the i-th, of "i/n"; all of them for None. Raises GridError for another text."""
    if not part:
        return points
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise GridError(f"--part {part}: write i/n, with i from 1 to n.")
    return points[int(found[1]) - 1 :: int(found[2])]


def make_executor(options: argparse.Namespace, cores: int) -> Executor:
    """What is to run the points. Raises ClusterError, and ValueError for more GPUs than there are."""
    if options.ray:
        # imported where it is used: Ray takes seconds to import and few have it
        from xaihelpers.sweep.ray_executor import RayExecutor

        return RayExecutor(options.ray, options.cpus, options.gpus)
    return LocalExecutor(max(1, options.jobs), cores, options.gpus or 0.0)


def plan_lines(plan: Plan) -> list[str]:
    """A line for each point, with its error if it failed before, and one line of counts."""
    lines = [f"done    {point.name}  {point.title}" for point in plan.done]
    for point in plan.failed:
        reason = " ".join(failure(point).split())
        lines.append(f"failed  {point.name}  {point.title}: {reason}")
    lines += [f"to do   {point.name}  {point.title}" for point in plan.fresh]
    return [*lines, counts(plan)]


def counts(plan: Plan) -> str:
    """How many points there are of each kind."""
    total = len(plan.done) + len(plan.to_run)
    points = "1 point" if total == 1 else f"{total} points"
    again = f", {len(plan.failed)} of them failed before" if plan.failed else ""
    return f"{points}: {len(plan.done)} done, {len(plan.to_run)} to run{again}"


def closing_lines(plan: Plan, ended: list[Ended]) -> tuple[list[str], bool]:
    """What became of a sweep, and whether all of it is done."""
    good = [end for end in ended if end.outcome.state in (DONE, FOUND)]
    bad = [end for end in ended if end not in good]
    lines = [f"{len(good)} points done, {len(plan.done)} were done before, {len(bad)} failed."]
    for end in bad:
        reason = " ".join(end.outcome.reason.split())
        lines.append(f"Failed: {end.point.name}  {end.point.title}: {reason}")
    if bad:
        lines.append("The same command tries them again, and nothing that is done.")
    return lines, not bad
