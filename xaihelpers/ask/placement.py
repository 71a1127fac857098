"""Where a local model's weights go, told before they are read: one device, several GPUs, or nowhere."""

import logging
from dataclasses import dataclass

import psutil
import torch

from xaihelpers.ask.messages import AskError

log = logging.getLogger(__name__)
ROOM = 1.15  # memory that a model works in, over that of its weights
GIGABYTE = 1e9


@dataclass(frozen=True)
class Placement:
    """`split`: arguments of from_pretrained that spread a model over several GPUs; empty for one device."""

    n_bytes: int  # of the weights
    split: dict


def weight_bytes(model_class: type, config, dtype: torch.dtype) -> int:
    """Bytes of the weights of a model of transformers, from its configuration alone; nothing is read.

    Raises what the model's constructor raises for a configuration that is not its own.
    """
    with torch.device("meta"):
        model = model_class.from_config(config, dtype=dtype)
    weights = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    return sum(weight.numel() * weight.element_size() for weight in weights.values())


def free_memory(device: torch.device) -> dict[int | str, int]:
    """Free bytes where a model for `device` may lie: of that GPU and, after it, all others; or of the CPU."""
    if device.type != "cuda":
        return {"cpu": psutil.virtual_memory().available}
    first = torch.cuda.current_device() if device.index is None else device.index
    others = [number for number in range(torch.cuda.device_count()) if number != first]
    return {number: torch.cuda.mem_get_info(number)[0] for number in (first, *others)}


def place(name: str, n_bytes: int, free: dict[int | str, int]) -> Placement:
    """One device where the model and its work fit into the first; else all GPUs, by transformers' device_map.

    n_bytes: of the weights. free: bytes by device, the wanted one first, as of `free_memory`.
    Raises AskError, with the bytes that are wanting, for a model that does not fit into all of them.
    """
    wanted = int(ROOM * n_bytes)
    first, *others = free
    if wanted <= free[first]:
        return Placement(n_bytes, {})
    usable = {device: int(room / ROOM) for device, room in free.items()}
    if others and wanted <= sum(free.values()):
        log.info(
            "%s: %.1f GB of weights, %.1f GB free on one GPU: spread over %d",
            name,
            n_bytes / GIGABYTE,
            free[first] / GIGABYTE,
            len(free),
        )
        return Placement(n_bytes, {"device_map": "auto", "max_memory": usable})
    where = "this machine's memory" if first == "cpu" else f"the memory of {len(free)} GPU(s)"
    there = sum(free.values())
    raise AskError(
        f"The model {name!r} does not fit: {n_bytes / GIGABYTE:.3g} GB of weights and the room to work in "
        f"need {wanted / GIGABYTE:.3g} GB of {where}, {there / GIGABYTE:.3g} GB are free, "
        f"{(wanted - there) / GIGABYTE:.3g} GB too few. Take a smaller model, free memory or add a GPU, or "
        "serve it elsewhere and name it server:NAME."
    )
