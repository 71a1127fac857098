"""Bottleneck models on disk: safetensors with their plain fields in the header, written whole or not."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import nn

from xaihelpers.bottlenecks.minibatch import frozen
from xaihelpers.paths import write_whole


def save_model(model, file: str | Path, **about) -> Path:
    """Write a bottleneck model: a dataclass of tensors, plain values and perhaps a list of `trunks`.

    about: plain values to keep with it.

    Returns the file's path. Raises OSError where it cannot be written.
    """
    tensors, plain = {}, {}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name == "trunks":
            plain["trunks"] = len(value)
            for number, trunk in enumerate(value):
                for key, tensor in trunk.state_dict().items():
                    tensors[f"trunks.{number}.{key}"] = tensor
        elif isinstance(value, torch.Tensor):
            tensors[field.name] = value
        else:
            plain[field.name] = value
    # clones: two trunks may share a frozen tensor, which safetensors refuses
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return write_whole(file, save(tensors, {"fields": json.dumps(plain), "about": json.dumps(about)}))


def read_model(
    kind: type,
    file: str | Path,
    device: str | torch.device = "cpu",
    trunk: Callable[[], nn.Module] | None = None,
):
    """The model of class `kind` that `save_model` wrote, on `device`, and its `about`.

    trunk: makes the network that the weights of the model's trunks belong to.

    Raises what safetensors, json and torch raise for a file that is damaged or of another model.
    """
    with safe_open(file, framework="pt", device=str(device)) as content:
        header = content.metadata()
        tensors = {name: content.get_tensor(name) for name in content.keys()}
    plain, about = json.loads(header["fields"]), json.loads(header["about"])
    if "trunks" in plain:
        plain["trunks"] = [_read_trunk(trunk, number, tensors, device) for number in range(plain["trunks"])]
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith("trunks.")}
    return kind(**plain, **weights), about


def _read_trunk(make_trunk, number, tensors, device) -> nn.Module:
    prefix = f"trunks.{number}."
    weights = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            weights[name.removeprefix(prefix)] = tensor
    network = make_trunk().to(device)
    network.load_state_dict(weights)
    return frozen(network)
