"""A reader: which attributes a picture shows, group by group, and which species it is; a backbone with one output for each."""
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps

from .. import backbones, paths
from ..aviary import ATTRIBUTES, GROUPS
from ..birds import load_image, normalise_attribute
from .prompts import SubstituteError

N_ATTRIBUTES, PIXELS = 312, 96  # CUB's attributes; side of the pictures that the shipped reader was trained on
WHOLE = {"primary_color", "upperparts_color", "underparts_color"}  # colours that follow from those of parts
SHOWN = 1 / 3  # share of its group from which an attribute counts as shown: two colours of one part have about half each


class Read(NamedTuple):
    """What a reader sees in N pictures, float32 on the CPU."""
    attributes: torch.Tensor  # (N, 312) in [0, 1], the share of each in its group: sums 1 a group
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
    sizes = [len(values) for values in GROUPS.values()]
    shares = [part.softmax(1) for part in logits[:, :N_ATTRIBUTES].split(sizes, 1)]
    return Read(torch.cat(shares, 1), logits[:, N_ATTRIBUTES:].softmax(1))


def is_shown(seen: Read, columns: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Whether each picture shows an attribute, bool (N,): columns (N,) say which of the 312."""
    return seen.attributes.gather(1, torch.as_tensor(columns)[:, None])[:, 0] >= SHOWN


def touched_groups(attribute: str) -> set[str]:
    """The attribute groups that a substitution may change besides its own: colour and pattern of the same region, and the colours of the whole bird that follow from it."""
    group = normalise_attribute(attribute).removeprefix("has_").split("::")[0]
    region = "tail" if group.endswith(("tail_color", "tail_pattern")) else group.split("_")[0]
    if group in WHOLE:
        return WHOLE | {f"{part}_{kind}" for part in ("wing", "back", "breast", "belly") for kind in ("color", "pattern")}
    if group.endswith(("_color", "_pattern")) and region in ("wing", "back", "breast", "belly"):
        return WHOLE | {f"{region}_color", f"{region}_pattern"}
    return {"upper_tail_color", "under_tail_color", "tail_pattern"} if region == "tail" and group != "tail_shape" else {group}


def plumage_kept(seen: Read, usual: torch.Tensor, attributes: Sequence[str] = ()) -> torch.Tensor:
    """Share of what is usual that is shown, (N,): how much else a substitution left as it was.

    usual: bool (N, 312), what each picture's bird usually has. attributes: the N substituted ones, whose groups, and those that follow, are left out.
    """
    counted = usual.clone()
    groups = [name.removeprefix("has_").split("::")[0] for name in ATTRIBUTES]
    left_out = {attribute: torch.tensor([group in touched_groups(attribute) for group in groups]) for attribute in set(attributes)}
    for i, attribute in enumerate(attributes):
        counted[i] &= ~left_out[attribute]
    return ((seen.attributes >= SHOWN) & counted).sum(1) / counted.sum(1)
