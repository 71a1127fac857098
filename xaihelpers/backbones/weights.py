"""Files of weights: read without running any code they may hold, written in half the space, and their hash."""
import hashlib
import pickle
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import nn

from ..paths import write_whole


class BackboneError(ValueError):
    """A network, its weights, its feature maps or an image is not as needed; the message names it and the remedy."""


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """A state dict in float32 from safetensors, or from a checkpoint that holds nothing but tensors and plain values."""
    try:
        if file.suffix == ".safetensors":
            state = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
        state = next((state[key] for key in ("state_dict", "model") if isinstance(state.get(key), dict)), state)
        return {key.removeprefix("module."): value for key, value in _cast(state, torch.float32).items()}
    except Exception as error:
        # torch's own message for a pickle advises to run its code
        unsafe = isinstance(error, pickle.UnpicklingError)
        reason = "it holds more than tensors" if unsafe else str(error).split("\n")[0] or type(error).__name__
        raise BackboneError(f"{file}: cannot be read as weights ({reason}). It must be a whole safetensors file or a "
                            "state dict saved by torch; fetch or save it again.") from error


def save_weights(model: nn.Module, file: str | Path, metadata: dict[str, str] | None = None) -> Path:
    """Write a network's weights as float16 safetensors, whole or not at all; `metadata` goes into the file's header.

    Raises BackboneError, writing nothing, if a value is not finite in float16.
    """
    state = _cast(model.state_dict(), torch.float16)
    infinite = [key for key, value in state.items() if not value.isfinite().all()]
    if infinite:
        raise BackboneError(f"{file}: {infinite[0]} has values that are not finite in float16; nothing was written.")
    return write_whole(file, save(state, metadata=metadata))


def weights_hash(model: nn.Module) -> str:
    """The sha256 of all parameters and buffers with their names, on whatever device and in whatever file they lay."""
    digest = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        digest.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().cpu().numpy().data)
    return digest.hexdigest()


def _cast(state: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {key: (value.to(dtype) if value.is_floating_point() else value).contiguous().cpu() for key, value in state.items()}
