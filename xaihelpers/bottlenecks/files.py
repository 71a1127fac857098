"""Bottleneck models on disk: safetensors with their plain fields in the header, written whole or not at all."""
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import nn

from ..paths import write_whole


def save_model(model, file: str | Path, **about) -> Path:
    """Write a bottleneck model (a dataclass of tensors, plain values and perhaps a list of `trunks`); `about`: plain values to keep with it."""
    tensors, plain = {}, {}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name == "trunks":
            for number, trunk in enumerate(value or []):
                tensors |= {f"trunks.{number}.{key}": tensor for key, tensor in trunk.state_dict().items()}
            plain["trunks"] = len(value or [])
        elif isinstance(value, torch.Tensor):
            tensors[field.name] = value
        else:
            plain[field.name] = value
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}  # two trunks may share a frozen tensor
    return write_whole(file, save(tensors, {"fields": json.dumps(plain), "about": json.dumps(about)}))


def read_model(kind: type, file: str | Path, device: str | torch.device = "cpu", trunk: Callable[[], nn.Module] | None = None):
    """The model of class `kind` that `save_model` wrote, on `device`, and its `about`; `trunk` makes the network that its trunks' weights belong to."""
    with safe_open(file, framework="pt", device=str(device)) as content:
        header = content.metadata()
        tensors = {name: content.get_tensor(name) for name in content.keys()}
    plain, about = json.loads(header["fields"]), json.loads(header["about"])
    if "trunks" in plain:
        plain["trunks"] = [_trunk(trunk, f"trunks.{number}.", tensors, device) for number in range(plain["trunks"])]
    return kind(**plain, **{name: tensor for name, tensor in tensors.items() if not name.startswith("trunks.")}), about


def _trunk(make, prefix, tensors, device):
    network = make().to(device)
    network.load_state_dict({name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)})
    return network.eval().requires_grad_(False)
