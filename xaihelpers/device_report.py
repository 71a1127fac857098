"""What one machine's device makes of the kernels: `python -m xaihelpers.device_report`, or `make gpu`.

Runs the tests that need a GPU, notebooks 12 and 13 on the device and on the CPU, and the benchmarks 81 and
82, and writes one CSV file, `data/devices/<device>.csv`: seconds of every path beside the least that the
device's memory and arithmetic allow, and how far the results of 12 and 13 on it are from the CPU's. 81 and 82
show the files of all devices side by side.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.devices import resolve_device
from xaihelpers.paths import PROJECT
from xaihelpers.records import read_records, read_runs
from xaihelpers.timing import describe_device

FOLDER = PROJECT / "data" / "devices"
COLUMNS = ["device", "notebook", "op", "path", "data", "metric", "value", "low", "high"]
KEYS = ["paper", "table", "row", "metric", "data"]
MARK = "mark.gpu"  # only files with it are collected: others may need packages that this machine lacks
BENCHMARKS, COMPARED = ("81", "82"), ("12", "13")


def read_device_reports(notebook: str) -> pd.DataFrame:
    """Rows of a benchmark from the files of all devices, with the columns COLUMNS; empty without files."""
    files = sorted(FOLDER.glob("*.csv"))
    tables = [pd.read_csv(file, dtype={"notebook": str}) for file in files]
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    rows = pd.concat(tables, ignore_index=True)
    return rows[rows.notebook == notebook].reset_index(drop=True)


def run_notebook(i: str, device: str, folder: Path) -> pd.DataFrame:
    """The records of notebook `i` at its defaults on a device, its results going to `folder`.

    Raises RuntimeError with the end of papermill's output if a cell fails.
    """
    (path,) = (PROJECT / "notebooks").glob(f"{i}_*.ipynb")
    output = folder / f"{i}.ipynb"
    parameters = ["-p", "device", device, "-p", "results", str(folder / "results")]
    command = [sys.executable, "-m", "papermill", str(path), str(output), *parameters, "--no-progress-bar"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"notebook {i} on {device} failed:\n{done.stderr[-3000:]}")
    return read_records(folder / "results")


def benchmark_rows(i: str, device: torch.device, folder: Path) -> pd.DataFrame:
    """Seconds, limits and ratios that notebook `i` records on the device."""
    records = run_notebook(i, str(device), folder)
    return records.reindex(columns=["op", "path", "data", "metric", "value", "low", "high"]).assign(
        notebook=i
    )


def comparison_rows(i: str, device: torch.device, folder: Path) -> pd.DataFrame:
    """Seconds of notebook `i` on the device and the CPU, and the largest difference of a recorded value."""
    rows, values = [], {}
    for place in (str(device), "cpu"):
        inside = folder / place.replace(":", "")
        inside.mkdir()
        values[place] = run_notebook(i, place, inside).set_index(KEYS).value
        (run,) = read_runs(inside / "results")
        rows.append({"path": place, "metric": "seconds", "value": run["seconds"]})
    difference = (values[str(device)] - values["cpu"].reindex(values[str(device)].index)).abs()
    rows.append(
        {"path": f"{device} against cpu", "metric": "largest difference", "value": np.nanmax(difference)}
    )
    return pd.DataFrame(rows).assign(notebook=i, op="whole notebook", data="aviary")


def gpu_tests() -> pd.DataFrame:
    """How many of the tests marked gpu passed, failed and were skipped."""
    files = [str(file) for file in sorted((PROJECT / "tests").glob("test_*.py")) if MARK in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    print(done.stdout[-2000:])
    counts = {
        kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    rows = [{"path": kind, "value": counts.get(kind, 0)} for kind in ("passed", "failed", "skipped", "error")]
    return pd.DataFrame(rows).assign(notebook="", op="gpu tests", data="", metric="tests")


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if a step failed, 2 if the device is not there."""
    parser = argparse.ArgumentParser(prog="python -m xaihelpers.device_report", description=__doc__)
    parser.add_argument("--require", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        device = resolve_device(options.require)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    name, tables, failed = describe_device(device), [], []
    print(f"measuring {name}", flush=True)
    os.environ["TQDM_DISABLE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        steps = [(i, benchmark_rows) for i in BENCHMARKS]
        if device.type == "cuda":
            tables.append(gpu_tests())
            steps += [(i, comparison_rows) for i in COMPARED]
        for i, step in steps:
            began, place = time.perf_counter(), Path(folder) / f"{step.__name__}-{i}"
            place.mkdir()
            try:
                tables.append(step(i, device, place))
            except RuntimeError as error:  # the other steps' numbers are kept
                failed.append(i)
                print(error, file=sys.stderr)
            print(f"notebook {i}: {time.perf_counter() - began:.0f} s", flush=True)
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{slug}.csv"
    pd.concat(tables).assign(device=name).reindex(columns=COLUMNS).to_csv(
        file, index=False, float_format="%.6g"
    )
    print(f"written: {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
