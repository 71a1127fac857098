"""Run the notebooks at their defaults, several at a time: `python -m xaihelpers.run [IDS...]`, or `make run`.

Executed copies go to `<results>/notebooks/`, what they find to `<results>/`. A notebook is skipped while nothing that its
results depend on has changed. The order comes from the notebooks themselves: their metadata
`{"xaihelpers": {"needs": ["00", "11"]}}` names those that run before them, ["*"] is all others.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
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

from xaihelpers.paths import PROJECT, FolderError, ensure_writable, models_home, results_home

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
DEFAULT_NEEDS = {"00": [], "99": ["*"]}  # all others: 00, which draws the built-in world


@dataclass
class Job:
    """A notebook on its way and, while it runs, its process."""

    path: Path
    output: Path  # where the executed copy goes: `path` itself when executed in place
    failed: Path  # where it goes if a cell fails
    needs: list[str]
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


def find_jobs(notebooks: Path, ids: list[str], results: Path, inplace: bool = False) -> list[Job]:
    """The notebooks with these ids (all of them if none is given), in order. Raises ValueError for an unknown id."""
    paths = {path.name[:2]: path for path in sorted(notebooks.glob("[0-9][0-9]_*.ipynb"))}
    unknown = [i for i in ids if i not in paths]
    if unknown or not paths:
        raise ValueError(f"No notebook {' '.join(unknown)} in {notebooks}; there are: {' '.join(paths) or 'none'}.")
    chosen = [i for i in paths if i in ids or not ids]
    jobs = []
    for i in chosen:
        metadata = json.loads(paths[i].read_text())["metadata"]
        needs = metadata.get("xaihelpers", {}).get("needs", DEFAULT_NEEDS.get(i, ["00"]))
        needs = [other for other in chosen if other != i and (other in needs or "*" in needs)]
        copy = results / "notebooks" / paths[i].name
        jobs.append(Job(paths[i], paths[i] if inplace else copy, copy.with_suffix(".failed.ipynb"), needs))
    return jobs


def current_key(job: Job, results: Path) -> str:
    """A hash of what the results depend on: the notebook's source, package, models, papers, versions; for 99 all records."""
    cells = json.loads(job.path.read_text())["cells"]
    digest = hashlib.sha256(json.dumps([[cell["cell_type"], cell["source"]] for cell in cells]).encode())
    files = _shared_files()
    if job.id == "99":
        files += [path for path in results.glob("[!.]*/*.*") if path.name in ("run.json", "results.csv") and path.parent.name[:2] != "99"]
    for path in sorted(files):
        if path.is_file():
            digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    digest.update(f"{platform.python_version()} {importlib.metadata.version('torch')}".encode())
    return digest.hexdigest()


def is_up_to_date(job: Job, results: Path) -> bool:
    """Whether the executed copy has the present key and the records it wrote are still there."""
    try:
        made = json.loads(job.output.read_text())["metadata"]["xaihelpers_run"]
    except (OSError, ValueError, KeyError):
        return False
    return made["key"] == job.key and all((results / name / "run.json").exists() for name in made["records"])


def launch(job: Job, threads: int, results: Path) -> None:
    """Start papermill on the notebook, in a process of its own with its share of the cores."""
    shares = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "--no-log-output", str(job.path), str(job.partial)]
    passive = {"OMP_WAIT_POLICY": "PASSIVE"}  # idle threads sleep: spinning, they starve the processes beside them
    environment = passive | os.environ | shares | {"XAI_RESULTS": str(results)}
    environment.pop("MPLBACKEND", None)  # figures are to appear in the notebook
    job.started = time.monotonic()
    job.process = subprocess.Popen(
        command, env=environment, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=job.messages, start_new_session=True,
    )  # fmt: skip


def tidy(notebook: dict) -> None:
    """Make an executed notebook fit to be committed: without papermill's metadata and finished progress bars, its figures as small PNGs."""
    kept = {name: value for name, value in notebook["metadata"].items() if name not in ("papermill", "widgets")}
    notebook["metadata"] = kept | {"kernelspec": KERNELSPEC}
    for cell in notebook["cells"]:
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k not in ("papermill", "execution") and v != []}
        if cell["cell_type"] == "code":
            cell["outputs"] = [output for output in cell["outputs"] if not _is_progress_bar(output)]
            for output in cell["outputs"]:
                if png := output.get("data", {}).get("image/png"):
                    output["data"]["image/png"] = _small_png(png)


def finish(job: Job, results: Path, inplace: bool) -> str:
    """Put the executed notebook in its place; returns what went wrong, or an empty string."""
    if job.process.returncode:
        job.messages.seek(0)
        error = job.messages.read().strip()[-1500:]
        if job.partial.exists():
            error = _error(json.loads(job.partial.read_text())) or error
            shutil.move(job.partial, job.failed)
        return f"{error}\n  kept as far as it came: {job.failed}"
    notebook = json.loads(job.partial.read_text())
    tidy(notebook)
    if not inplace:
        written = [path.parent.name for path in results.glob(f"{job.id}-*/run.json")]
        notebook["metadata"]["xaihelpers_run"] = {"key": job.key, "records": written}
    job.partial.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    os.replace(job.partial, job.output)
    job.failed.unlink(missing_ok=True)
    return ""


def run(jobs: list[Job], workers: int, results: Path, force: bool = False, inplace: bool = False) -> list[str]:
    """Execute the jobs, each after those it needs, at most `workers` at a time; returns the ids of those that failed.

    A notebook that nothing can run beside gets all cores. One that fails stops no other.
    """
    waiting, running, failures = list(jobs), [], []
    bar = tqdm(total=len(jobs), unit="notebook", disable=None, bar_format="{n_fmt}/{total_fmt} {bar:20} {elapsed} {postfix}")
    try:
        while waiting or running:
            open_ids = {job.id for job in waiting + running}
            ready = [job for job in waiting if not open_ids.intersection(job.needs)]
            if not ready and not running:
                raise ValueError(f"Notebooks {' '.join(sorted(open_ids))} wait for each other: correct their metadata 'needs'.")
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
                outcome = f"FAILED after {job.seconds:.0f} s, {error}" if error else f"done in {job.seconds:.0f} s"
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
    parser = argparse.ArgumentParser(prog="python -m xaihelpers.run", description="Run the notebooks at their defaults.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="numbers of notebooks, e.g. 11 13 (default: all)")
    parser.add_argument("--jobs", type=int, default=min(_cores(), 4), help="notebooks at a time (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="run also what is up to date")
    parser.add_argument("--results", default="results", help="results folder: a name under XAI_DATA, or a path")
    parser.add_argument("--inplace", action="store_true", help="execute the committed notebooks themselves")
    parser.add_argument("--notebooks", type=Path, default=PROJECT / "notebooks", help="folder of the notebooks")
    options = parser.parse_args(arguments)
    results = results_home(options.results)
    try:
        ensure_writable(results / "notebooks", "make room or permit writing there, or name another folder by --results")
        jobs = find_jobs(options.notebooks.resolve(), options.ids, results, options.inplace)
        with FileLock(results / ".lock", timeout=0):
            failures = run(jobs, max(1, options.jobs), results, options.force, options.inplace)
    except (ValueError, FolderError) as error:
        print(error, file=sys.stderr)
        return 2
    except Timeout:
        print(f"Another run is writing to {results}: wait for it, or name another folder by --results.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; what was done is kept, and the next run goes on from there.", file=sys.stderr)
        return 130
    print(_closing(results, failures, made="99" in [job.id for job in jobs] and "99" not in failures))
    return 1 if failures else 0


def _shared_files() -> list[Path]:
    package = Path(__file__).parent
    ours = [path for suffix in ("py", "csv", "js", "css") for path in package.rglob(f"*.{suffix}")]
    return [*ours, *models_home().rglob("*"), *(PROJECT / "data/papers").glob("*.csv"), *(PROJECT / "data/prompts").glob("*")]


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


def _error(notebook: dict) -> str:
    """The failing cell's number and its error; empty if no cell failed."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                return f"in cell [{cell['execution_count']}]\n  {output['ename']}: {output['evalue'][:1000]}"
    return ""


def _is_progress_bar(output: dict) -> bool:
    """Whether an output is nothing but tqdm's bar, as text or as a widget."""
    if output.get("name") == "stderr":
        text = "".join(output["text"]).replace("\r", "\n")
        lines = [line for line in text.splitlines() if line.strip("\x1b[A ")]
        return all(re.search(r"\[\d+:\d\d", line) for line in lines)
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def _small_png(encoded: str) -> str:
    """A PNG in base64 as one of 256 colours chosen for it: pictures of birds are a fifth of the size, and look the same."""
    import base64
    import io

    from PIL import Image

    image, small = Image.open(io.BytesIO(base64.b64decode(encoded))), io.BytesIO()
    image.convert("RGB").quantize(256, kmeans=3, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return min(base64.b64encode(small.getvalue()).decode(), "".join(encoded.split()), key=len)


def _stop(job: Job) -> None:
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
