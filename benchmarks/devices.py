"""What one machine's device makes of the kernels: `python benchmarks/devices.py`, or `make gpu`.

Runs the tests that need a GPU, notebooks 12 and 13 on the device and on the CPU, and notebook 81 at its full
size, and writes one CSV file, `data/devices/<device>.csv`: seconds of every path beside the least that the
device's memory and arithmetic allow, and how far the results of 12 and 13 on it are from the CPU's. 81 shows
the files of all devices side by side.
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
import papermill
import yaml
from papermill.exceptions import PapermillExecutionError

from xaihelpers.devices import describe_device, resolve_device
from xaihelpers.paths import PROJECT
from xaihelpers.records import read_records, read_runs

COLUMNS = ["device", "notebook", "op", "path", "data", "metric", "value", "low", "high"]
KEYS = ["paper", "table", "row", "metric", "data"]
KEPT = PROJECT / "data" / "devices"
NAMES_SINCE = {  # what paths and data in kept files were called -> what they are called now
    "path": {r" \((triton|torch)\)": "", r"SVC, \d+ × joblib": "SVC by joblib", " alone$": ""},
    "data": {"^FLUX's size$": "random", "^(real|aviary aviary_resnet)$": "aviary"},
}


def read_kept(folder: Path = KEPT) -> pd.DataFrame:
    """All rows kept of all devices, `COLUMNS`, under today's names; of several of one name the last."""
    tables = [pd.read_csv(file, dtype={"notebook": str}) for file in sorted(folder.glob("*.csv"))]
    rows = pd.concat(tables, ignore_index=True)
    for column, names in NAMES_SINCE.items():
        rows[column] = rows[column].replace(names, regex=True)
    return rows.drop_duplicates(["device", "op", "path", "data", "metric"], keep="last")


def run_notebook(number: str, device: str, folder: Path) -> pd.DataFrame:
    """The records of a notebook on a device, at its defaults or its full size, into the folder `folder`.

    Raises PapermillExecutionError if a cell fails.
    """
    folder.mkdir(exist_ok=True)
    (path,) = (PROJECT / "notebooks").glob(f"{number}_*.ipynb")
    preset = PROJECT / "notebooks" / "presets" / f"{number}.full.yaml"
    parameters = yaml.safe_load(preset.read_text()) if preset.exists() else {}
    parameters |= {"device": device, "results": str(folder / "results")}
    papermill.execute_notebook(path, folder / path.name, parameters, progress_bar=False, cwd=PROJECT)
    return read_records(folder / "results")


def compare_with_cpu(number: str, device: str, folder: Path) -> pd.DataFrame:
    """Seconds of a notebook on the device and the CPU, and the largest difference of a recorded value."""
    rows, values = [], []
    for place in (device, "cpu"):
        values.append(run_notebook(number, place, folder / place).set_index(KEYS).value)
        (run,) = read_runs(folder / place / "results")
        rows.append({"path": place, "metric": "seconds", "value": run["seconds"]})
    on_device, on_cpu = values
    difference = np.nanmax((on_device - on_cpu.reindex(on_device.index)).abs())
    rows.append({"path": f"{device} against cpu", "metric": "largest difference", "value": difference})
    return pd.DataFrame(rows).assign(notebook=number, op="whole notebook", data="aviary")


def gpu_tests() -> pd.DataFrame:
    """How many of the tests marked gpu passed, failed and were skipped."""
    # only files with the mark are collected: others may need packages that this machine lacks
    files = [str(file) for file in (PROJECT / "tests").glob("test_*.py") if "mark.gpu" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", *sorted(files)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    print(done.stdout[-2000:])
    counts = dict.fromkeys(["passed", "failed", "skipped", "error"], 0)
    for count, kind in re.findall(rf"(\d+) ({'|'.join(counts)})", done.stdout):
        counts[kind] = int(count)
    rows = pd.DataFrame(counts.items(), columns=["path", "value"])
    return rows.assign(notebook="", op="gpu tests", data="", metric="tests")


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if a step failed, 2 if the device is not there."""
    parser = argparse.ArgumentParser(prog="python benchmarks/devices.py", description=__doc__)
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
    steps = {"81": run_notebook}
    if device.type == "cuda":
        tables.append(gpu_tests())
        steps |= {"12": compare_with_cpu, "13": compare_with_cpu}
    for number, step in steps.items():
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                tables.append(step(number, str(device), Path(folder)))
            except (PapermillExecutionError, RuntimeError) as error:  # the other steps' numbers are kept
                failed.append(number)
                print(error, file=sys.stderr)
        print(f"notebook {number}: {time.perf_counter() - began:.0f} s", flush=True)
    if not tables:
        return 1
    file = KEPT / f"{re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')}.csv"
    file.parent.mkdir(exist_ok=True)
    rows = pd.concat(tables).assign(device=name).reindex(columns=COLUMNS)
    rows.to_csv(file, index=False, float_format="%.6g")
    print(f"written: {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
