"""Files of weights: read without running code that they may hold, fitted to a network, written, hashed."""

import hashlib
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import nn

from xaihelpers.paths import write_whole
from xaihelpers.text_files import plain, read_text, require_distinct

NESTED = ("state_dict", "model_state_dict", "model", "net")  # under what training programs keep weights
WRAPPERS = ("module.", "model.", "net.")  # what they put before a network's own names


class ModelError(ValueError):
    """A network, its weights, its maps or an image is not as needed; the message names it and the remedy."""


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """A state dict in float32, from safetensors or a checkpoint of nothing but tensors and plain values.

    It may lie one level down, under one of `NESTED`. Names lose what torch.compile and DataParallel add.
    Raises ModelError: a file that is missing, damaged or holds more, as a TorchScript archive does.
    """
    _refuse_torchscript(file)
    try:
        if _is_safetensors(file):
            state = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
        state = next((state[key] for key in NESTED if isinstance(state.get(key), Mapping)), state)
        strays = [key for key, value in state.items() if not torch.is_tensor(value)]
        if strays:
            raise ValueError(f"{strays[0]!r} in it is {type(state[strays[0]]).__name__}, no tensor")
        state = _renamed(state, lambda key: key.replace("_orig_mod.", "").removeprefix("module."))
        return _cast(state, torch.float32)
    except Exception as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        # torch's own message for a pickle advises to run its code
        if isinstance(error, pickle.UnpicklingError):
            reason = "it holds more than tensors"
        raise ModelError(
            f"{file}: cannot be read as weights ({reason}). It must be a whole safetensors file or a state "
            f"dict saved by torch, perhaps under {', '.join(NESTED)}; fetch or save it again."
        ) from error


def _refuse_torchscript(file: Path) -> None:
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        has_code = any("/code/" in name for name in archive.namelist())
    if has_code:
        state = Path(file).with_suffix(".state.pt")
        raise ModelError(
            f"{file}: a TorchScript archive, as OpenAI publishes its CLIPs: it holds code, which is not run "
            "here. If you trust it, make a state dict of it and give that: "
            f"python -c \"import torch; m = torch.jit.load('{file}', 'cpu'); "
            f"torch.save(m.state_dict(), '{state}')\""
        )


def _is_safetensors(file: Path) -> bool:
    """Whether a file is one of safetensors, by its content: files in a hub's cache have no telling names."""
    with open(file, "rb") as content:
        return content.read(9)[8:] == b"{"  # after the length of the header, 8 bytes, the header as JSON


def _renamed(state: Mapping[str, torch.Tensor], rename, source: str = "") -> dict[str, torch.Tensor]:
    """A state dict under other names. Raises ModelError where two would become one."""
    key_of = {}
    for key in state:
        other = key_of.setdefault(rename(key), key)
        if other != key:
            raise ModelError(f"{source}its {other!r} and {key!r} are one and the same: keep one of them")
    return {name: state[key] for name, key in key_of.items()}


def fit_names(
    state: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], source: object
) -> dict[str, torch.Tensor]:
    """A state dict under a network's own names, without `WRAPPERS`.

    The counters of batch norms, which only training reads, may be missing. source: for the error.
    Raises ModelError where two names become one, as those of a network and of its moving average.
    """

    def own(key: str) -> str:
        name = key
        while name not in expected and name.startswith(WRAPPERS):
            name = name.partition(".")[2]
        return name if name in expected else key

    state = _renamed(state, own, f"{source}: ")
    counters = [key for key in expected if key.endswith("num_batches_tracked") and key not in state]
    return state | {key: expected[key] for key in counters}


def require_fit(
    state: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], source: object, name: str
) -> None:
    """Raise ModelError unless a state dict has the names and shapes of a network; it says which differ."""
    differing = {
        "missing": [key for key in expected if key not in state],
        "unexpected": [key for key in state if key not in expected],
        "of another shape": of_another_shape(state, expected),
    }
    counts = [f"{len(keys)} {kind} (first: {keys[0]})" for kind, keys in differing.items() if keys]
    if counts:
        first = (differing["of another shape"] or differing["missing"] or differing["unexpected"])[0]
        held, needed = (tuple(one[first].shape) if first in one else "nothing" for one in (state, expected))
        raise ModelError(
            f"{source}: these are not the weights of {name}: {', '.join(counts)}; {first} is {held} in the "
            f"file and {needed} in the network. Name the network they belong to."
        )


def of_another_shape(state: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> list[str]:
    """The names that both have with different shapes."""
    return [key for key in expected if key in state and expected[key].shape != state[key].shape]


def carried_class_names(file: Path) -> list[str] | None:
    """The names of a network's classes, in the order of its outputs, that its weights carry; None without.

    They are a JSON list, `classes` in the header of a safetensors file or in the card beside the weights, a
    JSON file of the same name. Anything else of these names is not theirs.
    Raises TextFileError for two names that would be one.
    """
    told = {}
    try:
        if file.with_suffix(".json").is_file():
            told = json.loads(read_text(file.with_suffix(".json")))
        if _is_safetensors(file):
            with safe_open(file, "pt") as content:
                header = content.metadata() or {}
            told = {"classes": json.loads(header["classes"])} if "classes" in header else told
    except ValueError:
        return None
    names = told.get("classes") if isinstance(told, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
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
        raise ModelError(
            f"{file}: {infinite[0]} has values that are not finite in float16; nothing was written."
        )
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
        value = value.to(dtype) if value.is_floating_point() else value
        cast[key] = value.contiguous().cpu()
    return cast
