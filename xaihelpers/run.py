"""Run notebooks: `python -m xaihelpers.run [IDS...]`, or `make run`.

Without options every notebook is run at its defaults; `-p`, `-f`, `--seeds` and files of grids ask for more.
Executed copies go to `<results>/notebooks/`, what they find to `<results>/`. A point of it is skipped while
its results are there, made by the present notebook, package and data.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from graphlib import TopologicalSorter
from importlib.metadata import requires, version
from pathlib import Path

import joblib
import yaml
from filelock import FileLock
from papermill import execute_notebook
from papermill.exceptions import PapermillExecutionError

from xaihelpers.fingerprint import code_hash
from xaihelpers.grids import Point, asked_entries, needs_of, points_of, take_part
from xaihelpers.names import how_to_install
from xaihelpers.notebook_kernels import PrintingKernel, begin, without_ports
from xaihelpers.paths import CODE_KEY, PROJECT, ensure_writable, results_home
from xaihelpers.plans import plan, wants_gpu
from xaihelpers.progress import Progress
from xaihelpers.report import write_report

ROOM = "make room or permit writing there, or name another folder by --results"
ROOMS = ("xaihelpers", "worlds", "recipes")  # the code
SHIPPED = ("models", "papers", "prompts", "devices", "real_runs", "long_runs", "yardsticks")  # of data/
QUIET = ["--IPKernelApp.log_level=ERROR"]  # a kernel warns of what holds for every kernel
REPORT = "99"  # the notebook that becomes a page
README_FIGURE = "five_answers.png"  # of notebook 00
# A CPU of another kind has other instructions and rounds otherwise: with the same ones, those of AVX2, a run
# shows the same digits on all x86 machines; strictly, so that a product does not turn with where its rows
# begin in memory. What the environment says comes first.
SAME_INSTRUCTIONS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "MKL_CBWR": "AVX2,STRICT",
    "OPENBLAS_CORETYPE": "Haswell",
}


def same_instructions() -> dict[str, str]:
    """The environment variables that make every x86 CPU round alike; none on other machines."""
    return SAME_INSTRUCTIONS if platform.machine() in ("x86_64", "AMD64") else {}


@functools.cache
def shipped_hash() -> str:
    """A hash of the data that ship with the project."""
    data = hashlib.sha256()
    for name in SHIPPED:
        for file in sorted((PROJECT / "data" / name).rglob("*.*")):
            data.update(f"{file.parent.name}/{file.name}".encode() + file.read_bytes())
    return data.hexdigest()


@functools.cache
def package_hash() -> str:
    """A hash of the package's code and of the versions of what it stands on."""
    code = code_hash(file for room in ROOMS for file in (PROJECT / room).rglob("*.py"))
    libraries = [re.match(r"[\w-]+", text)[0] for text in requires("xaihelpers") if ";" not in text]
    return hashlib.sha256(json.dumps([code, *map(version, libraries)]).encode()).hexdigest()


def key_of(notebook: Path, results: Path) -> dict[str, str]:
    """What results depend on beside the parameters, by part: the notebook, the package, the shipped data.

    Of a notebook that needs all others, also the runs that lie in the results folder.
    """
    cells = [[cell["cell_type"], cell["source"]] for cell in json.loads(notebook.read_text())["cells"]]
    data = hashlib.sha256(shipped_hash().encode())
    if "*" in needs_of(notebook):
        runs = set(results.glob("*/run.json")) - set(results.glob(f"{notebook.name[:2]}*/run.json"))
        for file in sorted(runs):
            data.update(f"{file.parent.name}".encode() + file.read_bytes())
    return {
        "notebook": hashlib.sha256(json.dumps(cells).encode()).hexdigest(),
        "package": package_hash(),
        "data": data.hexdigest(),
    }


def why_to_run(point: Point, key: dict[str, str]) -> str:
    """Why the results of a point do not count: never run, failed, or what has changed; empty if done."""
    if failed_copy(point).exists():
        return "failed before"
    try:
        made_by = json.loads((point.folder / "run.json").read_text())["key"]
    except (OSError, ValueError, KeyError):
        return "never run"
    changed = [part for part in key if made_by.get(part) != key[part]]
    return f"{' and '.join(changed)} changed" if changed else ""


def run_point(point: Point, key: dict[str, str], force: bool, inplace: bool) -> tuple[Point, str, float]:
    """Execute a point's notebook, if its results do not count; returns how that ended, in words, and seconds.

    Whoever else wants the same point waits, and then finds it done. What a run records and its executed copy
    appear whole or not at all, so this process may be killed at any time.
    """
    results, started = point.folder.parent, time.monotonic()
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", **same_instructions()}.items():
        os.environ.setdefault(name, value)
    os.environ |= {"XAI_RESULTS": str(results), CODE_KEY: json.dumps(key), "TQDM_DISABLE": "1"}
    os.environ.pop("MPLBACKEND", None)  # figures are to appear in the notebook
    outcome = "done"
    try:
        lock = FileLock(ensure_writable(results / ".locks", ROOM) / point.folder.name)
        with lock, tempfile.TemporaryDirectory(dir=point.copy.parent, prefix=".") as folder:
            if force or inplace or why_to_run(point, key):
                execute(point, Path(folder) / point.copy.name, inplace)
            else:
                outcome = "up to date"
    except Exception as error:  # a cell, the kernel or its start, the disk: what ends one stops no other
        reason = f"{error.ename}: {error.evalue}" if isinstance(error, PapermillExecutionError) else error
        kept = [str(file) for file in (failed_copy(point), prints_of(point)) if file.exists()]
        outcome = f"FAILED, {reason}" + "".join(f"\n  see {file}" for file in kept)
    if outcome == "done" and why_to_run(point, key):
        outcome = f"FAILED, it recorded nothing in {point.folder}"
    return point, outcome, time.monotonic() - started


def failed_copy(point: Point) -> Path:
    """Where the notebook of a point that failed is kept, as far as it came."""
    return point.copy.with_suffix(".failed.ipynb")


def prints_of(point: Point) -> Path:
    """Where stands what the kernel of a point that failed has printed beside its cells."""
    return point.copy.with_suffix(".failed.txt")


def execute(point: Point, executed: Path, inplace: bool) -> None:
    """Run a point's notebook into the file `executed`, and put that into its place, or beside it."""
    printed, config = executed.with_suffix(".txt"), without_ports()
    config.PrintingKernel.printed = str(printed)
    # on a cold disk, beside others, a kernel may take longer than the usual minute to start
    how = {"progress_bar": False, "cwd": PROJECT, "extra_arguments": QUIET, "start_timeout": 120}
    how |= {"kernel_manager_class": PrintingKernel, "config": config}
    try:
        begin(execute_notebook, point.notebook, executed, point.changed, **how)
        if point.notebook.name.startswith(REPORT):
            write_report(executed, point.folder.parent / point.changed.get("report", "report.html"))
        clean(executed, inplace)
        os.replace(executed, point.notebook if inplace else point.copy)
    except Exception:
        for file, kept in ((executed, failed_copy(point)), (printed, prints_of(point))):
            if file.exists() and file.stat().st_size:
                os.replace(file, kept)
        raise
    for kept in (failed_copy(point), prints_of(point)):
        kept.unlink(missing_ok=True)


def clean(file: Path, inplace: bool) -> None:
    """Rid an executed notebook of papermill's metadata and of widgets' views, which need a kernel."""
    notebook, unwanted = json.loads(file.read_text()), ("papermill", "execution", "widgets")
    for part in (notebook, *notebook["cells"]):
        part["metadata"] = {k: v for k, v in part["metadata"].items() if k not in unwanted and v != []}
        if inplace and "outputs" in part and "remove-output" in part["metadata"].get("tags", []):
            part["outputs"] = []  # too large to be committed
        for output in part.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    file.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def waves(points: list[Point]) -> Iterator[list[Point]]:
    """Points in the order of what their notebooks need; those of a wave may run side by side."""
    needs = {point.notebook.name[:2]: needs_of(point.notebook) for point in points}
    for number, of in needs.items():
        needs[number] = needs.keys() - {number} if "*" in of else needs.keys() & of
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    while ready := sorter.get_ready():
        yield [point for point in points if point.notebook.name[:2] in ready]
        sorter.done(*ready)


def run_points(points: list[Point], workers: int, force: bool = False, inplace: bool = False) -> list[str]:
    """Run points, at most `workers` at a time, and say how each ends; returns a line for each that failed."""
    backend, _ = joblib.parallel.get_active_backend()
    as_they_end = "generator_unordered" if backend.supports_return_generator else "list"
    failures, progress = [], Progress(points, workers)
    print(f"{len(points)} notebooks: {progress}")
    for wave in waves(points):
        key = {point.notebook: key_of(point.notebook, point.folder.parent) for point in wave}
        left = {str(point): (point, "its worker died") for point in progress.longest_first(wave)}
        for _ in range(2):  # what failed is tried once more
            task = joblib.delayed(run_point)
            tasks = [task(one, key[one.notebook], force, inplace) for one, _ in left.values()]
            # workers as many as always: by their number each has its threads, and digits turn with these
            work = joblib.Parallel(workers, return_as=as_they_end)
            with contextlib.suppress(BrokenProcessPool):
                for point, outcome, seconds in work(tasks):
                    del left[str(point)]
                    if outcome.startswith("FAILED"):
                        left[str(point)] = point, outcome
                    progress.ended(point, seconds if outcome == "done" else None)
                    took = f" in {seconds:.0f} s" if outcome == "done" else ""
                    print(f"{point}: {outcome}{took}; {progress}", flush=True)
        failures += [f"{name}: {outcome}" for name, (_, outcome) in left.items()]
    return failures


def on_ray(address: str, cpus: float, gpus: float | None, points: list[Point]) -> int:
    """Connect to a Ray cluster, whose machines share all folders; returns how many points it runs at a time.

    cpus, gpus: of each point; None takes a GPU where the cluster has some and `device` is not cpu.
    Raises ValueError where there is no Ray, no cluster, or no room on it.
    """
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise ValueError(f"Ray is not installed: {how_to_install('cluster')}") from error
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"No Ray cluster answers at {address} ({error}): write host:port, auto or local."
        ) from error
    register_ray()
    total = ray.cluster_resources()
    if gpus is None:
        gpus = float("GPU" in total and wants_gpu(points))
    # one process for each point; one that dies, or whose machine does, is begun again elsewhere
    actors = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": -1, "max_task_retries": -1}
    joblib.parallel_config(backend="ray", ray_remote_args=actors, maxtasksperchild=1)
    each = {"CPU": cpus, "GPU": gpus}
    workers = min(int(total.get(kind, 0) / share) for kind, share in each.items() if share)
    if not workers:
        raise ValueError(
            f"The cluster has no {cpus:g} CPUs and {gpus:g} GPUs for a point: see --cpus, --gpus."
        )
    return workers


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m xaihelpers.run", description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("ids", nargs="*", metavar="ID|GRID.yaml", help="notebooks (default: all), or files of grids")
    option("-p", dest="assignments", action="append", default=[], metavar="NAME=VALUE[,VALUE...]")
    option("-f", dest="presets", action="append", default=[], metavar="PRESET", help="a file, or as paper")
    option("--seeds", type=int, default=0, metavar="N", help="seeds of each point")
    option("--part", default="1/1", metavar="I/N", help="only this part of the points, for array jobs")
    option("--jobs", type=int, default=min(joblib.cpu_count(), 4), help="at a time (default: %(default)s)")
    option("--ray", default="", metavar="ADDRESS", help="on a Ray cluster: host:port, auto or local")
    option("--cpus", type=float, default=1.0, help="of each point on Ray (default: 1)")
    of_gpu = "of each point on Ray, or a part of one (default: 1 on a cluster with GPUs, 0 with device: cpu)"
    option("--gpus", type=float, help=of_gpu)
    option("--plan", action="store_true", help="run nothing, say what is done and what the rest lacks")
    option("--force", action="store_true", help="run also what is done")
    option("--results", default="results", help="results folder: a name under XAI_DATA, or a path")
    option("--inplace", action="store_true", help="execute the committed notebooks themselves")
    option("--notebooks", type=Path, default=PROJECT / "notebooks", help="folder of the notebooks")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if a point failed, 2 if nothing could be run."""
    options = make_parser().parse_args(arguments)
    results = results_home(options.results)
    try:
        entries = asked_entries(options)
        asked = [point for entry in entries for point in points_of(entry, options.notebooks, results)]
        asked = take_part(list({point.folder: point for point in asked}.values()), options.part)
        if options.plan:
            keys = {notebook: key_of(notebook, results) for notebook in {one.notebook for one in asked}}
            for line in plan(asked, lambda point: why_to_run(point, keys[point.notebook]), bool(options.ray)):
                print(line)
            return 0
        ensure_writable(results / "notebooks", ROOM)
        workers = on_ray(options.ray, options.cpus, options.gpus, asked) if options.ray else options.jobs
        failures = run_points(asked, workers, options.force, options.inplace)
        for point in asked if options.inplace else ():
            if (figure := point.folder / README_FIGURE).exists():
                shutil.copy(figure, options.notebooks)
    except (ValueError, OSError, yaml.YAMLError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; what was done is kept, and the next run goes on from there.", file=sys.stderr)
        return 130
    report = results / "report.html"
    print(*[f"Failed: {line}" for line in failures], f"Executed notebooks: {results / 'notebooks'}", sep="\n")
    print(f"Report: {report.as_uri()}" if report.exists() else "No report yet: notebook 99 makes it.")
    return 1 if failures else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that notebooks are stopped then, too
    from xaihelpers import run  # workers find the functions in the module

    sys.exit(run.main())
