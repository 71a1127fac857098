"""What is handed to a job's process and what comes back from it; nothing but the standard library.

The function that starts the process runs as it stands on the machines of a cluster.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

DONE = "done"  # it ran, and recorded its results
FOUND = "found"  # another process had done it before
HELD = "held"  # another process runs it now
FAILED = "failed"  # a cell of the notebook failed: the same would happen elsewhere
LOST = "lost"  # the process, its kernel or its machine failed: worth another try, best elsewhere
MARK = "OUTCOME "  # begins the line that tells a job's outcome
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


class Job(NamedTuple):
    """One point, as its process is told of it: texts, numbers and lists only."""

    notebook: str  # its file
    changed: dict  # parameters that are not at their defaults
    name: str  # of the folder of its results
    copy: str  # stem of its executed notebook
    key: str  # of the code
    results: str  # the folder of all results
    witness: str  # a file in it that whoever shares the folder sees
    project: str  # where the process works
    force: bool = False  # run it though it is done


class Outcome(NamedTuple):
    """What became of a job."""

    state: str  # DONE, FOUND, HELD, FAILED or LOST
    reason: str = ""  # why it failed or was lost, or what could not be kept
    where: str = ""  # the machine
    of_machine: bool = False  # whether that machine would lose other jobs as well
    seconds: float = 0.0  # that the notebook took, its kernel's start included
    wall: float = 0.0  # that the whole process took
    node: str = ""  # the machine as Ray names it


def same_instructions() -> dict[str, str]:
    """The environment variables that make every x86 CPU round alike; none on other machines."""
    return SAME_INSTRUCTIONS if platform.machine() in ("x86_64", "AMD64") else {}


def start_job(
    job: dict, environment: dict, started: Callable[[subprocess.Popen], object] = lambda process: None
) -> dict:
    """Run a job in a process of its own and wait for it; returns an Outcome as a dict.

    job: a `Job` as a dict. environment: variables that are set for it beside those of this process.
    started: is told of the process as soon as it runs.
    """
    clock = time.monotonic()
    variables = {**same_instructions(), **os.environ, **environment}
    variables.pop("MPLBACKEND", None)  # figures are to appear in the notebook
    folders = [job["project"], *variables.get("PYTHONPATH", "").split(os.pathsep)]
    variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, folders)))
    process = subprocess.Popen(
        [sys.executable, "-m", "xaihelpers.sweep.job"],
        env=variables,
        cwd=job["project"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    started(process)
    output, errors = process.communicate(json.dumps(job))
    told = [line for line in output.splitlines() if line.startswith(MARK)]
    if told:
        outcome = json.loads(told[-1].removeprefix(MARK))
    elif process.returncode < 0:
        ended_by = signal.Signals(-process.returncode).name
        outcome = {"state": LOST, "reason": f"its process was ended by {ended_by}"}
    else:
        outcome = {"state": LOST, "reason": f"its process failed: {errors.strip()[-1500:]}"}
    return outcome | {"wall": time.monotonic() - clock}
