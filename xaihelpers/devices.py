"""The device that a name means."""


def device_of(device: "str | torch.device", error: type[Exception] = ValueError) -> "torch.device":  # noqa: F821
    """The torch device of "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1" or a device. Raises `error`, with the remedy, for any other and for a GPU that is not there."""
    import torch

    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.split(":")[0] not in ("cpu", "cuda"):
        raise error(f"The device must be auto, cpu or cuda, not {name!r}.")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise error(f"The device {name!r} was asked for, but torch sees no GPU here: use auto or cpu.")
    return torch.device(name)
