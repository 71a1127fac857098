"""Files of weights: read without running code that they may hold, fitted to a network, written, hashed."""

import hashlib
import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import nn

from xaihelpers.paths import write_whole
from xaihelpers.text_files import plain, read_text, require_distinct

NESTED = ("state_dict", "model_state_dict", "model", "net")  # under what training programs keep weights
WRAPPERS = ("_orig_mod.", "module.", "model.", "net.")  # what they put before a network's own names


class ModelError(ValueError):
    """A network, its weights, its maps or an image is not as needed; the message names it and the remedy."""


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """A state dict in float32, from safetensors or a checkpoint of nothing but tensors and plain values.

    It may lie one level down, under one of `NESTED`.
    Raises ModelError: a file that is missing, damaged or holds more, as a TorchScript archive does.
    """
    try:
        is_safe = _is_safetensors(file)
        state = load_file(file) if is_safe else torch.load(file, map_location="cpu", weights_only=True)
        state = next((state[key] for key in NESTED if isinstance(state.get(key), Mapping)), state)
        return _cast(state, torch.float32)
    except Exception as error:
        reason, remedy = str(error).split("\n")[0] or type(error).__name__, ""
        # torch's own messages advise to run the code in it
        if isinstance(error, pickle.UnpicklingError):
            reason = "it holds more than tensors"
        if "TorchScript" in reason:
            reason = "it is a TorchScript archive, which holds code"
            remedy = "name OpenAI's CLIPs by open_clip's tag openai in place of a file; of others "
        raise ModelError(
            f"{file}: cannot be read as weights ({reason}): {remedy}fetch a whole safetensors file, or a "
            f"state dict saved by torch, perhaps under {', '.join(NESTED)}"
        ) from error


def _is_safetensors(file: Path) -> bool:
    """Whether a file is one of safetensors, by its content: files in a hub's cache have no telling names."""
    with open(file, "rb") as content:
        return content.read(9)[8:] == b"{"  # after the length of the header, 8 bytes, the header as JSON


def own_names(
    state: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], source: object
) -> dict[str, torch.Tensor]:
    """A state dict under a network's own names, without `WRAPPERS`. source: for the error.

    Raises ModelError where two names become one, as those of a network and of its moving average.
    """
    fitted = {}
    for key, value in state.items():
        name = key
        while name not in expected and name.startswith(WRAPPERS):
            name = name.partition(".")[2]
        if name in fitted:
            raise ModelError(f"{source}: {name!r} stands in it twice, also as {key!r}: keep one of the two")
        fitted[name] = value
    return fitted


def load_weights(model: nn.Module, state: Mapping[str, torch.Tensor], source: object, name: str) -> nn.Module:
    """The network, with these weights. Raises ModelError, with what does not fit, for another one's."""
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{source}: these are not the weights of {name}: {reason} … Name the network that they belong to."
        ) from error
    return model


def carried_class_names(file: Path) -> list[str] | None:
    """The names of a network's classes, in the order of its outputs, that its weights carry; None without.

    They are a JSON list, `classes` in the header of a safetensors file or in the card beside the weights, a
    JSON file of the same name.
    Raises TextFileError for two names that would be one.
    """
    names, card = None, file.with_suffix(".json")
    try:
        if _is_safetensors(file):
            with safe_open(file, "pt") as content:
                names = json.loads((content.metadata() or {}).get("classes", "null"))
        if not names and card.is_file():
            names = json.loads(read_text(card)).get("classes")
    except (ValueError, AttributeError):  # something else of this name
        return None
    if not isinstance(names, list) or not names:
        return None
    require_distinct(names, f"classes of {file}")
    return [plain(name) for name in names]


def save_weights(model: nn.Module, file: str | Path, classes: list[str] | None = None) -> Path:
    """Write a network's weights as float16 safetensors, whole or not at all; returns the file.

    classes: the names of its outputs, in their order, by which they are matched with a data set's.
    Raises ModelError, writing nothing, if a value is not finite in float16.
    """
    state = _cast(model.state_dict(), torch.float16)
    infinite = [key for key, value in state.items() if not value.isfinite().all()]
    if infinite:
        raise ModelError(f"{file}: {infinite[0]} is not finite in float16; nothing was written.")
    metadata = {"classes": json.dumps(classes, ensure_ascii=False)} if classes else None
    return write_whole(file, save(state, metadata=metadata))


def weights_hash(model: nn.Module) -> str:
    """The sha256 of all parameters and buffers with their names, whatever device and file they lay in."""
    digest = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        digest.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().cpu().numpy().data)
    return digest.hexdigest()


def _cast(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors on the CPU, those of floating point as `dtype`."""
    cast = {}
    for key, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"{key!r} in it is no tensor")
        value = value.to(dtype) if value.is_floating_point() else value
        cast[key] = value.contiguous().cpu()
    return cast
