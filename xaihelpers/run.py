"""Run notebooks, several at a time: `python -m xaihelpers.run [IDS...]`, or `make run`.

At their defaults, or, with `-p`, `-f`, `--draws` or a file of grids, over a grid of parameters (see `sweep`).

Executed copies go to `<results>/notebooks/`, what they find to `<results>/`. A notebook is skipped while
nothing that its results depend on has changed (see `dependencies`). The order comes from the notebooks
themselves: their metadata `{"xaihelpers": {"needs": ["00", "11"]}}` names those that run before them; ["*"]
means all others.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout
from tqdm import tqdm

from xaihelpers.notebook_files import clean_notebook, error_text, picture
from xaihelpers.notebook_keys import declared_needs, run_key
from xaihelpers.paths import CODE_KEY, PROJECT, FolderError, ensure_writable, results_home
from xaihelpers.sweep.command import (
    add_arguments,
    asked_points,
    closing_lines,
    counts,
    is_sweep,
    make_executor,
    plan_lines,
)
from xaihelpers.sweep.drive import run_points
from xaihelpers.sweep.grid import Grid, expand
from xaihelpers.sweep.launch import same_instructions
from xaihelpers.sweep.plan import Plan, make_plan

ROOM = "make room or permit writing there, or name another folder by --results"
README_FIGURES = {"62": "yardsticks", "99": "ledger"}  # notebook -> the figure that the README shows


@dataclass
class NotebookJob:
    """A notebook on its way and, while it runs, its process."""

    path: Path
    output: Path  # where the executed copy goes: `path` itself when executed in place
    failed: Path  # where it goes if a cell fails
    needs: list[str]  # ids of those that must run before it, of those that run at all
    key: str = ""
    process: subprocess.Popen | None = None
    messages: IO[str] = field(default_factory=lambda: tempfile.TemporaryFile("w+"))
    started: float = 0.0

    @property
    def id(self) -> str:
        return self.path.name[:2]

    @property
    def partial(self) -> Path:
        return self.output.with_name(f".{self.path.stem}.partial.ipynb")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def find_jobs(notebooks: Path, ids: list[str], results: Path, inplace: bool = False) -> list[NotebookJob]:
    """The notebooks with these ids (all if none is given), in order. Raises ValueError for an unknown id."""
    paths = {path.name[:2]: path for path in sorted(notebooks.glob("[0-9][0-9]_*.ipynb"))}
    unknown = [i for i in ids if i not in paths]
    if unknown or not paths:
        raise ValueError(
            f"No notebook {' '.join(unknown)} in {notebooks}; there are: {' '.join(paths) or 'none'}."
        )
    chosen = [i for i in paths if i in ids or not ids]
    jobs = []
    for i in chosen:
        declared = declared_needs(paths[i])
        needs = [other for other in chosen if other != i and (other in declared or "*" in declared)]
        copy = results / "notebooks" / paths[i].name
        output = paths[i] if inplace else copy
        jobs.append(NotebookJob(paths[i], output, copy.with_suffix(".failed.ipynb"), needs))
    return jobs


def current_key(job: NotebookJob, results: Path) -> str:
    """A hash of what the results depend on, as of `run_key`."""
    return run_key(job.path, results)


def is_up_to_date(job: NotebookJob, results: Path) -> bool:
    """Whether the executed copy has the present key and the records it wrote are still there."""
    try:
        made = json.loads(job.output.read_text())["metadata"]["xaihelpers_run"]
    except (OSError, ValueError, KeyError):
        return False
    return made["key"] == job.key and all((results / name / "run.json").exists() for name in made["records"])


def launch(job: NotebookJob, threads: int, results: Path) -> None:
    """Start papermill on the notebook, in a process of its own with its share of the cores."""
    shares = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    options = ["--no-progress-bar", "--no-log-output"]
    command = [sys.executable, "-m", "papermill", *options, str(job.path), str(job.partial)]
    # idle threads sleep: spinning, they starve the processes beside them
    usual = {"OMP_WAIT_POLICY": "PASSIVE"} | same_instructions()
    environment = usual | os.environ | shares | {"XAI_RESULTS": str(results), CODE_KEY: job.key}
    environment.pop("MPLBACKEND", None)  # figures are to appear in the notebook
    job.started = time.monotonic()
    job.process = subprocess.Popen(
        command,
        env=environment,
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=job.messages,
        start_new_session=True,
    )


def finish(job: NotebookJob, results: Path, inplace: bool) -> str:
    """Put the executed notebook in its place; returns what went wrong, or an empty string."""
    if job.process.returncode:
        job.messages.seek(0)
        error = job.messages.read().strip()[-1500:]
        if job.partial.exists():
            error = error_text(json.loads(job.partial.read_text())) or error
            shutil.move(job.partial, job.failed)
        return f"{error}\n  kept as far as it came: {job.failed}"
    notebook = json.loads(job.partial.read_text())
    clean_notebook(notebook)
    if not inplace:
        written = _records_of(job, results)
        notebook["metadata"]["xaihelpers_run"] = {"key": job.key, "records": written}
    elif job.id in README_FIGURES:
        name = README_FIGURES[job.id]
        job.path.with_name(f"{name}.png").write_bytes(picture(notebook, name))
    job.partial.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    os.replace(job.partial, job.output)
    job.failed.unlink(missing_ok=True)
    return ""


def _records_of(job: NotebookJob, results: Path) -> list[str]:
    """The folders that a run at the defaults has left, not those of sweeps beside it."""
    (point,) = expand([Grid(str(job.path))], results)
    if (point.folder / "run.json").exists():
        return [point.name]
    return [path.parent.name for path in results.glob(f"{job.id}-*/run.json")]


def run(
    jobs: list[NotebookJob], workers: int, results: Path, force: bool = False, inplace: bool = False
) -> list[str]:
    """Execute the jobs, each after those it needs, at most `workers` at a time; returns the ids that failed.

    A notebook that nothing can run beside gets all cores. One that fails stops no other.
    """
    waiting, running, failures = list(jobs), [], []
    bar = _bar(len(jobs), "notebook")
    try:
        while waiting or running:
            open_ids = {job.id for job in waiting + running}
            ready = [job for job in waiting if not open_ids.intersection(job.needs)]
            if not ready and not running:
                names = " ".join(sorted(open_ids))
                raise ValueError(f"Notebooks {names} wait for each other: correct their metadata 'needs'.")
            for job in ready[: workers - len(running)]:
                waiting.remove(job)
                job.key = current_key(job, results)
                if not (force or inplace) and is_up_to_date(job, results):
                    bar.write(f"{job.path.stem}: up to date", file=sys.stdout)
                    bar.update()
                    continue
                alone = len(ready) == 1 and not running
                launch(job, max(1, _cores() // (1 if alone else workers)), results)
                bar.write(f"{job.path.stem}: started", file=sys.stdout)
                running.append(job)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                error = finish(job, results, inplace)
                failures += [job.id] if error else []
                outcome = f"done in {job.seconds:.0f} s"
                if error:
                    outcome = f"FAILED after {job.seconds:.0f} s, {error}"
                bar.write(f"{job.path.stem}: {outcome}", file=sys.stdout)
                bar.update()
            bar.set_postfix_str(", ".join(f"{job.id} ({job.seconds:.0f} s)" for job in running))
            sys.stdout.flush()
            if running:
                time.sleep(0.2)
    finally:
        bar.close()
        for job in running:  # interrupted
            _stop(job)
    return failures


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if a notebook failed, 2 if nothing could be run."""
    options = _parser().parse_args(arguments)
    results = results_home(options.results)
    notebooks = options.notebooks.resolve()
    try:
        if options.plan or is_sweep(options):
            points = asked_points(options, results, notebooks)
            plan = make_plan(points, options.force)
            return _show_plan(plan, options.on) if options.plan else _sweep(plan, options)
        ensure_writable(results / "notebooks", ROOM)
        jobs = find_jobs(notebooks, options.ids, results, options.inplace)
        with FileLock(results / ".lock", timeout=0):
            failures = run(jobs, max(1, options.jobs), results, options.force, options.inplace)
    except (ValueError, FolderError) as error:
        print(error, file=sys.stderr)
        return 2
    except Timeout:
        print(
            f"Another run is writing to {results}: wait for it, or name another folder by --results.",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; what was done is kept, and the next run goes on from there.", file=sys.stderr)
        return 130
    print(_closing(results, failures, made="99" in [job.id for job in jobs] and "99" not in failures))
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.run",
        description="Run notebooks: at their defaults, or over a grid of parameters.",
    )
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID|GRID.yaml",
        help="numbers of notebooks (default: all), or files of grids",
    )
    parser.add_argument(
        "--jobs", type=int, default=min(_cores(), 4), help="notebooks at a time (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="run also what is up to date")
    parser.add_argument(
        "--results", default="results", help="results folder: a name under XAI_DATA, or a path"
    )
    parser.add_argument("--inplace", action="store_true", help="execute the committed notebooks themselves")
    parser.add_argument(
        "--notebooks", type=Path, default=PROJECT / "notebooks", help="folder of the notebooks"
    )
    parser.add_argument(
        "--plan", action="store_true", help="say what would be run and what it would cost, and run nothing"
    )
    parser.add_argument(
        "--on", default="", metavar="DEVICE", help="with --plan: a device of data/bill/devices.csv, as H200"
    )
    add_arguments(parser)
    return parser


def _show_plan(plan: Plan, on: str) -> int:
    """Print what is to be run and its bill; returns 1 where something would stop a run, else 0."""
    # models and their libraries take seconds to import, and only a plan needs them
    from xaihelpers.bill import plan_bills

    print("\n".join(plan_lines(plan)), flush=True)
    lines, can_start = plan_bills(plan.to_run, on)
    print("\n".join(lines))
    return 0 if can_start else 1


def _sweep(plan: Plan, options: argparse.Namespace) -> int:
    """Run what there is to run of a plan; returns the exit code."""
    if options.inplace:
        raise ValueError("--inplace is for notebooks at their defaults: leave it out.")
    print(counts(plan))
    ended = []
    if plan.to_run:
        executor = make_executor(options, _cores())
        with _bar(len(plan.to_run), "point") as bar:

            def say(line: str, ended: bool = False) -> None:
                bar.write(line, file=sys.stdout)
                bar.update(ended)
                sys.stdout.flush()

            ended = run_points(plan, executor, options.retries, options.force, say)
    lines, is_whole = closing_lines(plan, ended)
    print("\n".join(lines))
    return 0 if is_whole else 1


def _bar(total: int, unit: str) -> tqdm:
    form = "{n_fmt}/{total_fmt} {bar:20} {elapsed} {postfix}"
    return tqdm(total=total, unit=unit, disable=None, bar_format=form)


def _closing(results: Path, failures: list[str], made: bool) -> str:
    report = results / "report.html"
    lines = [f"Failed: {' '.join(failures)}."] if failures else []
    lines.append(f"Executed notebooks: {results / 'notebooks'}")
    if report.exists():
        age = "" if made else " (of an earlier run; notebook 99 makes it anew)"
        lines.append(f"Report{age}: {report}\nOpen it in a browser: {report.as_uri()}")
    else:
        lines.append("No report yet: notebook 99 makes it.")
    return "\n".join(lines)


def _stop(job: NotebookJob) -> None:
    """End an interrupted notebook (papermill stops its kernel on SIGINT) and its unfinished copy."""
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        job.process.send_signal(end)
        try:
            job.process.wait(timeout=10)
            break
        except subprocess.TimeoutExpired:
            continue
    job.partial.unlink(missing_ok=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that notebooks are stopped then, too
    sys.exit(main())
