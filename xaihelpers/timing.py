"""Timing: several ways to the same end, taken in turns on one device (notebooks 81 and 82)."""
import time
from collections.abc import Callable, Mapping

import torch


def machine_name(device: torch.device) -> str:
    """What the times of a run hold for: the GPU's name, or the CPU with its threads."""
    threads = torch.get_num_threads()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {threads} thread{'s' * (threads > 1)}"


def race(paths: Mapping[str, Callable], rounds: int, device: torch.device) -> tuple[dict[str, list[float]], dict]:
    """Run every path once per round, one after the other: its seconds (rounds,), and what it returned last. The work of a GPU is waited for."""
    if rounds < 1:
        raise ValueError(f"a race needs one round or more, got {rounds}")
    wait = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)
    seconds, returned = {name: [] for name in paths}, {}
    for _ in range(rounds):
        for name, path in paths.items():
            returned.pop(name, None)  # its memory is not to hinder the next
            wait()
            start = time.perf_counter()
            returned[name] = path()
            wait()
            seconds[name].append(time.perf_counter() - start)
    return seconds, returned
