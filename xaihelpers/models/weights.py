"""Files of weights: read without running code that they may hold, written as float16, and hashed."""

import hashlib
import pickle
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import nn

from xaihelpers.paths import write_whole


class ModelError(ValueError):
    """A network, its weights, its maps or an image is not as needed; the message names it and the remedy."""


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """A state dict in float32, from safetensors or a checkpoint of nothing but tensors and plain values.

    Raises ModelError: a file that is missing, damaged or holds more.
    """
    try:
        if _is_safetensors(file):
            state = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
        for key in ("state_dict", "model"):
            if isinstance(state.get(key), dict):
                state = state[key]
                break
        return {key.removeprefix("module."): value for key, value in _cast(state, torch.float32).items()}
    except Exception as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        # torch's own message for a pickle advises to run its code
        if isinstance(error, pickle.UnpicklingError):
            reason = "it holds more than tensors"
        raise ModelError(
            f"{file}: cannot be read as weights ({reason}). It must be a whole safetensors file or a state "
            "dict saved by torch; fetch or save it again."
        ) from error


def _is_safetensors(file: Path) -> bool:
    """Whether a file is one of safetensors, by its content: files in a hub's cache have no telling names."""
    with open(file, "rb") as content:
        return content.read(9)[8:] == b"{"  # after the length of the header, 8 bytes, the header as JSON


def save_weights(model: nn.Module, file: str | Path, metadata: dict[str, str] | None = None) -> Path:
    """Write a network's weights as float16 safetensors, whole or not at all; returns the file.

    metadata: goes into the file's header.
    Raises ModelError, writing nothing, if a value is not finite in float16.
    """
    state = _cast(model.state_dict(), torch.float16)
    infinite = [key for key, value in state.items() if not value.isfinite().all()]
    if infinite:
        raise ModelError(
            f"{file}: {infinite[0]} has values that are not finite in float16; nothing was written."
        )
    return write_whole(file, save(state, metadata=metadata))


def weights_hash(model: nn.Module) -> str:
    """The sha256 of all parameters and buffers with their names, whatever device and file they lay in."""
    digest = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        digest.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().cpu().numpy().data)
    return digest.hexdigest()


def _cast(state: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors on the CPU, those of floating point as `dtype`."""
    cast = {}
    for key, value in state.items():
        value = value.to(dtype) if value.is_floating_point() else value
        cast[key] = value.contiguous().cpu()
    return cast
