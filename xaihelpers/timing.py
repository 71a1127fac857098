"""Timing of several ways to the same result, in turns on one device (notebook 81)."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch


def describe_device(device: torch.device) -> str:
    """The hardware that measured times hold for: the GPU's name, or the CPU with its number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} {'thread' if threads == 1 else 'threads'}"


def time_in_turns(
    functions: Mapping[str, Callable[[], Any]], rounds: int, device: torch.device
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Call every function once per round, one after the other, so that slow moments meet them all.

    functions: by name, without arguments. device: of the work; a GPU's queued work is waited for.
    Returns the seconds of each call, `rounds` of them by name, and by name what each function returned last.
    Raises ValueError for fewer than one round, and whatever a function raises.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be 1 or more, got {rounds}")
    seconds = {name: [] for name in functions}
    results = {}
    for _ in range(rounds):
        for name, function in functions.items():
            results.pop(name, None)  # its memory must not slow the next call
            _synchronise(device)
            start = time.perf_counter()
            results[name] = function()
            _synchronise(device)
            seconds[name].append(time.perf_counter() - start)
    return seconds, results


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
