"""What a machine allows, and what a path does, counted and not timed."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode


def machine_rates(device: torch.device, rounds: int = 5) -> dict[str, float]:
    """The best of some rounds of copying ("copy", bytes/s) and of products in "float32", "float64" (1/s).

    A copy reads each byte and writes it: both count. A product of matrices of side s counts 2 s³ operations.
    """
    block = torch.zeros(1 << 26, device=device)  # 256 MiB, more than caches hold
    side = 8192 if device.type == "cuda" else 1536
    work = {"copy": (2 * block.nbytes, partial(torch.empty_like(block).copy_, block))}
    for dtype in (torch.float32, torch.float64):
        matrix = torch.ones(side, side, dtype=dtype, device=device)
        work[str(dtype).removeprefix("torch.")] = 2 * side**3, partial(torch.matmul, matrix, matrix)
    rates = {}
    for name, (amount, call) in work.items():
        seconds = []
        for _ in range(rounds + 1):  # the first call asks for memory
            start = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - start)
        rates[name] = amount / min(seconds)
    return rates


def count_work(calls: Mapping[str, Callable[[], Any]], model: torch.nn.Module, n_images: int) -> pd.DataFrame:
    """What paths through a model do for each image: a row for each path.

    calls: path -> function that sends `n_images` through `model`, whose weights have gradients.
    Returns "path"; "GFLOP an image"; "weights differentiated (%)", those that are given a gradient; and "MB
        an image kept" for a backward pass, weights excepted.
    """
    weights = list(model.parameters())
    rows = []
    for path, call in calls.items():
        model.zero_grad(set_to_none=True)
        with FlopCounterMode(display=False) as counter:
            call()
        differentiated = sum(weight.numel() for weight in weights if weight.grad is not None)
        row = {"path": path, "GFLOP an image": counter.get_total_flops() / n_images / 1e9}
        row["weights differentiated (%)"] = 100 * differentiated / sum(weight.numel() for weight in weights)
        rows.append(row | {"MB an image kept": _bytes_kept(call, weights) / n_images / 1e6})
    model.zero_grad(set_to_none=True)
    return pd.DataFrame(rows)


def _bytes_kept(call, weights):
    """Bytes of the tensors other than weights that a call keeps for a backward pass."""
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        call()
    for weight in weights:
        kept.pop(weight.untyped_storage().data_ptr(), None)
    return sum(kept.values())
