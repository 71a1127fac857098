"""How fast a device is: this machine as measured now and in recorded runs, or another by its data sheet."""

import csv
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch

from xaihelpers.bill.data_sizes import FOLDER
from xaihelpers.devices import resolve_device
from xaihelpers.parameters import ParameterError
from xaihelpers.paths import results_home
from xaihelpers.records import read_runs
from xaihelpers.timing import describe_device

CPU_SHARE, CPU_BANDWIDTH = 0.25, 10e9  # of a product's speed in a network; bytes a second
# of servers elsewhere, unless earlier bills say otherwise: seconds until the first token, tokens a second
SERVER_WAIT, SERVER_TOKENS, SERVER_REQUESTS = 1.0, 60.0, 16


class Rate(NamedTuple):
    """A device's speed and memory."""

    name: str
    memory: float  # bytes
    flops: float  # a second, of large products in the type that networks run in
    bandwidth: float  # bytes a second
    prefill_share: float  # of flops that whole prompts and pictures get
    decode_share: float  # of bandwidth that generation gets
    weight_bytes: int  # of a weight
    batch: int  # requests at a time
    earlier: dict[str, float] | None = None  # model -> seconds that a request took in recorded runs

    def of_flops(self, flops: float) -> float:
        """Seconds for so many floating point operations."""
        return flops / (self.flops * self.prefill_share)

    def of_answers(self, billions: float, tokens_in: float, tokens_out: float) -> float:
        """Seconds in which a model of 10⁹ × billions weights reads and writes so many tokens."""
        reading = self.of_flops(2e9 * billions * tokens_in)
        a_step = billions * 1e9 * self.weight_bytes / (self.bandwidth * self.decode_share)
        computing = self.of_flops(2e9 * billions * tokens_out)
        return reading + max(a_step * tokens_out / self.batch, computing)


def rate_of(name: str = "") -> Rate:
    """The rate of a device of data/bill/devices.csv ("H200"), or of this machine, measured; "" stands for it.

    Raises ParameterError: a device that the table does not hold.
    """
    if not name or name.lower() == "here":
        rate = measured_rate()
        return rate._replace(earlier=earlier_answers(results_home()))
    rows = device_rows()
    for row in rows:
        if row["name"].lower() == name.lower():
            shares = float(row["prefill_share"]), float(row["decode_share"])
            numbers = [float(row[column]) for column in ("memory_gb", "tflops", "bandwidth_gb")]
            return Rate(row["name"], numbers[0] * 1e9, numbers[1] * 1e12, numbers[2] * 1e9, *shares, 2, 16)
    known = ", ".join(row["name"] for row in rows)
    raise ParameterError(
        f"--on {name}: there is no such device in {FOLDER / 'devices.csv'}; it holds {known}. Add a line "
        "there, or leave --on out for this machine."
    )


def device_rows() -> list[dict]:
    """The rows of data/bill/devices.csv."""
    with open(FOLDER / "devices.csv", encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def measured_rate(side: int = 1024, seconds: float = 0.3) -> Rate:
    """The rate of this machine: its GPU's or else its CPU's, by products of two matrices of `side`²."""
    device = resolve_device("auto", ParameterError)
    is_gpu = device.type == "cuda"
    dtype = torch.bfloat16 if is_gpu else torch.float32
    side = 8 * side if is_gpu else side
    matrix = torch.ones(side, side, dtype=dtype, device=device)
    matrix @ matrix  # the first one loads the library
    _wait(device)
    started, each = time.perf_counter(), []
    while (begun := time.perf_counter()) - started < seconds:
        matrix @ matrix
        _wait(device)
        each.append(time.perf_counter() - begun)
    flops = 2 * side**3 / statistics.median(each)
    if is_gpu:
        about = torch.cuda.get_device_properties(device)
        known = [row for row in device_rows() if row["name"].lower() in about.name.replace(" ", "").lower()]
        bandwidth = float(known[0]["bandwidth_gb"]) * 1e9 if known else flops / 250
        return Rate(about.name, about.total_memory, flops, bandwidth, 0.5, 0.6, 2, 16)
    return Rate("this machine's CPU", _memory(), flops, CPU_BANDWIDTH, CPU_SHARE, 1.0, 4, 32)


def earlier_answers(results: Path) -> dict[str, float]:
    """Seconds a request by model, over all runs of a results folder that were made on this device."""
    here, sums = describe_device(resolve_device("auto", ParameterError)), {}
    for entry in read_runs(results) if results.is_dir() else ():
        rows = entry.get("bill", {}).get("asked", []) if entry.get("device") == here else []
        for row in rows:
            before = sums.get(row["model"], (0.0, 0))
            sums[row["model"]] = before[0] + row["seconds"], before[1] + row["asked"]
    return {model: seconds / asked for model, (seconds, asked) in sums.items() if asked}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _memory() -> float:
    """Bytes of memory of this machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as opened:
            return 1024.0 * int(opened.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return 16e9
