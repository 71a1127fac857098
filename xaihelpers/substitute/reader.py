"""A reader: which attributes a picture shows, each for itself, and which species it is; a backbone with one output for each."""
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps

from .. import backbones, paths
from ..birds import load_image
from .prompts import SubstituteError

N_ATTRIBUTES, PIXELS = 312, 96  # CUB's attributes; side of the pictures that the shipped reader was trained on


class Read(NamedTuple):
    """What a reader sees in N pictures, float32 on the CPU."""
    attributes: torch.Tensor  # (N, 312) in [0, 1], each for itself
    species: torch.Tensor  # (N, K) in [0, 1], sums 1


def load_reader(name: str = "aviary_reader", backbone: str = "aviary_resnet", device: "str | torch.device" = "cpu") -> backbones.Backbone:
    """A reader trained by notebook 94: the shipped one, or a file of weights of `backbone` with 312 attributes and K species as its outputs. Raises BackboneError, SubstituteError."""
    file = paths.models_home() / f"{name}.safetensors"
    network = backbones.load_backbone(backbone, str(file if file.is_file() else Path(name).expanduser()), device=device)
    if network.n_classes <= N_ATTRIBUTES:
        raise SubstituteError(f"{name}: a reader has an output for each of {N_ATTRIBUTES} attributes and one or more species, this network {network.n_classes} in all; notebook 94 trains one")
    return network


def read(reader: backbones.Backbone, images: Sequence[Image.Image | str | Path], pixels: int = PIXELS, batch_size: int = 64) -> Read:
    """What the reader sees in images (PIL or files), each cut to a square of `pixels`. Raises BirdsError naming a file that cannot be read."""
    rows, device = [], next(reader.model.parameters()).device
    for start in range(0, len(images), batch_size):
        opened = [image if isinstance(image, Image.Image) else load_image(image) for image in images[start:start + batch_size]]
        fitted = [np.array(ImageOps.fit(image.convert("RGB"), (pixels, pixels), Image.Resampling.LANCZOS)) for image in opened]
        with torch.inference_mode():
            inputs = reader.normalised(torch.from_numpy(np.stack(fitted)).permute(0, 3, 1, 2).to(device)).contiguous(memory_format=torch.channels_last)
            rows.append(reader.model(inputs).float().cpu())
    logits = torch.cat(rows) if rows else torch.empty(0, reader.n_classes)
    return Read(logits[:, :N_ATTRIBUTES].sigmoid(), logits[:, N_ATTRIBUTES:].softmax(1))
