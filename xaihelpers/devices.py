"""The device that a name means, and what it is called."""

import torch


def resolve_device(device: str | torch.device, error: type[Exception] = ValueError) -> torch.device:
    """The torch device of a name: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", or a device.

    error: the class of what is raised for any other name and for a GPU that is not there.
    """
    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.split(":")[0] not in ("cpu", "cuda"):
        raise error(f"The device must be auto, cpu or cuda, not {name!r}.")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise error(f"The device {name!r} was asked for, but torch sees no GPU here: use auto or cpu.")
    return torch.device(name)


def describe_device(device: torch.device) -> str:
    """The hardware that measured times hold for: the GPU's name, or the CPU with its number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} {'thread' if threads == 1 else 'threads'}"
