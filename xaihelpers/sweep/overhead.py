"""What a sweep costs beside its notebooks: `python -m xaihelpers.sweep.overhead [--ray ADDRESS]`.

Jobs of a notebook that only waits are run on 1 and on 2 workers. With w the seconds that a job waits, J jobs,
W workers and T the seconds that all of it took:

| measured | equation |
|---|---|
| efficiency | J w / (W T) |
| overhead of a job | o = W T / J − w |
| of it the kernel's, the process's | seconds of papermill − w, of the process − of papermill |
| the driver alone, a job | d, by jobs that take no time |

On paper, of G workers: the efficiency is w / (w + o), times J / (G ⌈J/G⌉) for the last round, as long as
the driver keeps up, G d < w + o.
"""

import argparse
import math
import tempfile
import time
from pathlib import Path

import nbformat
import pandas as pd

from xaihelpers.sweep.drive import Executor, run_points
from xaihelpers.sweep.grid import Grid, expand
from xaihelpers.sweep.launch import DONE, Job, Outcome
from xaihelpers.sweep.local import LocalExecutor
from xaihelpers.sweep.plan import make_plan

CELLS = (
    'seed: int = 0  # s\nseconds: float = 1.0  # that it waits\nresults: str = "results"  # where to',
    """import json, os, time
from pathlib import Path
from xaihelpers.parameters import check_parameters, parameters_hash

name = f"11-{parameters_hash(check_parameters(globals()))}"
time.sleep(seconds)
folder = Path(os.environ["XAI_RESULTS"]) / name
folder.mkdir()
(folder / "run.json").write_text(json.dumps({"key": os.environ["XAI_CODE_KEY"]}))""",
)
WORKERS_ON_PAPER = 64
JOBS_ON_PAPER = (64, 640, 6400)
MINUTES_ON_PAPER = (1, 10, 60)


class Immediate:
    """An executor whose jobs take no time, so that what is left is the driver."""

    n_slots = WORKERS_ON_PAPER

    def __init__(self):
        self._ended: list[tuple[Job, Outcome]] = []

    def start(self, job: Job, environment: dict[str, str], avoid: set[str]) -> None:
        """Take a job, which is done."""
        self._ended.append((job, Outcome(DONE)))

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The job that was taken first."""
        return [self._ended.pop(0)]

    def stop(self) -> None:
        """Nothing runs."""


def measure(executor: Executor, workers: int, jobs: int, seconds: float) -> dict[str, float]:
    """A row of numbers of jobs that wait so many seconds each; raises RuntimeError if one was not done."""
    with tempfile.TemporaryDirectory() as name:
        start = time.perf_counter()
        ended = run_points(_plan(Path(name), jobs, seconds), executor)
        total = time.perf_counter() - start
    outcomes = [end.outcome for end in ended]
    if bad := [outcome.reason for outcome in outcomes if outcome.state != DONE]:
        raise RuntimeError(f"{len(bad)} of {jobs} jobs were not done: {bad[0]}")
    overhead = workers * total / jobs - seconds
    kernel = sum(outcome.seconds for outcome in outcomes) / jobs - seconds
    process = sum(outcome.wall - outcome.seconds for outcome in outcomes) / jobs
    return {
        "workers": workers,
        "jobs": jobs,
        "seconds in all": total,
        "efficiency (%)": 100 * jobs * seconds / (workers * total),
        "overhead a job (s)": overhead,
        "kernel (s)": kernel,
        "process (s)": process,
        "driver and rest (s)": overhead - kernel - process,
    }


def driver_seconds(jobs: int = 500) -> float:
    """Seconds that the driver needs for a job."""
    with tempfile.TemporaryDirectory() as name:
        plan = _plan(Path(name), jobs, 0.0)
        start = time.perf_counter()
        run_points(plan, Immediate())
        return (time.perf_counter() - start) / jobs


def on_paper(overhead: float, driver: float, workers: int = WORKERS_ON_PAPER) -> pd.DataFrame:
    """Efficiency in % on so many workers, by a job's length and the number of jobs.

    overhead, driver: seconds a job, as measured. Source: module docstring.
    """
    rows = []
    for minutes in MINUTES_ON_PAPER:
        seconds = 60 * minutes
        # what a worker waits for the driver, where it serves all of them in turn
        behind = max(0.0, workers * driver - seconds - overhead)
        row = {"minutes a job": minutes}
        for jobs in JOBS_ON_PAPER:
            last_round = jobs / (workers * math.ceil(jobs / workers))
            row[f"{jobs} jobs"] = 100 * seconds / (seconds + overhead + behind) * last_round
        rows.append(row)
    return pd.DataFrame(rows)


def _plan(folder: Path, jobs: int, seconds: float):
    first = nbformat.v4.new_code_cell(CELLS[0], metadata={"tags": ["parameters"]})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = nbformat.v4.new_notebook(cells=[first, nbformat.v4.new_code_cell(CELLS[1])], metadata=kernel)
    nbformat.write(notebook, folder / "11_waiting.ipynb")
    grid = Grid("11", fixed={"seconds": float(seconds)}, draws=jobs)
    return make_plan(expand([grid], folder / "results", folder))


def main() -> None:
    """Measure, and print the numbers."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.sweep.overhead", description="What a sweep costs beside its notebooks."
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="also on a Ray cluster; local starts one")
    parser.add_argument("--jobs", type=int, default=8, help="jobs of each measurement (default: 8)")
    parser.add_argument("--seconds", type=float, default=10.0, help="that a job waits (default: 10)")
    options = parser.parse_args()
    rows = []
    for workers in (1, 2):
        found = measure(LocalExecutor(workers, workers), workers, options.jobs, options.seconds)
        rows.append({"where": "processes"} | found)
    if options.ray:
        # imported where it is used: Ray takes seconds to import and few have it
        from xaihelpers.sweep.ray_executor import RayExecutor

        executor = RayExecutor(options.ray)
        workers = executor.capacity
        rows.append({"where": "Ray"} | measure(executor, workers, options.jobs, options.seconds))
    table = pd.DataFrame(rows)
    driver = driver_seconds()
    print(table.round(2).to_string(index=False))
    print(f"\nthe driver alone: {1000 * driver:.1f} ms a job")
    overhead = table["overhead a job (s)"].max()
    print(f"\nOn paper, {WORKERS_ON_PAPER} workers, overhead {overhead:.1f} s a job, efficiency in %:")
    print(on_paper(overhead, driver).round(1).to_string(index=False))


if __name__ == "__main__":
    main()
