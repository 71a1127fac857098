"""A reader: which attributes a picture shows, group by group, and which species it is."""
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import nn

from .. import paths
from ..aviary import ATTRIBUTES, GROUPS
from ..backbones.weights import read_weights
from ..birds import load_image
from ..devices import device_of
from .prompts import SubstituteError, group_of

PIXELS = 64  # side of the pictures that a reader takes
SIZES = [len(values) for values in GROUPS.values()]  # attributes of each group
WHOLE = {"primary_color", "upperparts_color", "underparts_color"}  # colours that follow from those of parts
SHOWN = 1 / 3  # share of its group from which an attribute counts as shown: two colours of one part have about half each


class Read(NamedTuple):
    """What a reader sees in N pictures, float32 on the CPU."""
    attributes: torch.Tensor  # (N, 312) in [0, 1], the share of each in its group: sums 1 a group
    species: torch.Tensor  # (N, K) in [0, 1], sums 1


class _Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, width):
        super().__init__()
        self.both = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(x + self.both(x))


class AttributeReader(nn.Module):
    """Names attributes and species: (N, 3, 64, 64) in [-1, 1] -> logits (N, 312 + K).

    Convolutions make 8 x 8 maps of `width` channels. Each attribute group, and the species, has a query of its own that looks them up: a colour belongs to the part where it is found, which a mean over space forgets.
    """

    def __init__(self, n_species: int, width: int = 128):
        super().__init__()
        self.n_species, stages = n_species, ((3, width // 4, 0), (width // 4, width // 2, 1), (width // 2, width, 2))
        self.maps = nn.Sequential(*(layer for before, after, blocks in stages for layer in
                                    (nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(), *(_Residual(after) for _ in range(blocks)))))
        self.places = nn.Parameter(torch.randn((PIXELS // 8) ** 2, width) * 0.02)
        self.mixed = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.queries = nn.Parameter(torch.randn(len(SIZES) + 1, width) * 0.5)
        self.look, self.norm = nn.MultiheadAttention(width, 4, batch_first=True), nn.LayerNorm(width)
        self.values, self.species = nn.Linear(width, len(ATTRIBUTES)), nn.Linear(width, n_species)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        cells = self.mixed(self.maps(pixels).flatten(2).transpose(1, 2) + self.places)  # (N, 64, width)
        found = self.norm(self.look(self.queries.expand(len(pixels), -1, -1), cells, cells, need_weights=False)[0] + self.queries)  # (N, 29, width)
        of = [F.linear(found[:, g], weight, bias) for g, (weight, bias) in enumerate(zip(self.values.weight.split(SIZES), self.values.bias.split(SIZES)))]
        return torch.cat([*of, self.species(found[:, -1])], 1)


def load_reader(name: str = "aviary_reader", device: "str | torch.device" = "cpu") -> AttributeReader:
    """A reader trained by notebook 94: the shipped one by its name, or a file. Raises SubstituteError where there is none, or it is another network; BackboneError for a broken file."""
    file = next((place for place in (paths.models_home() / f"{name}.safetensors", Path(name).expanduser()) if place.is_file()), None)
    if file is None:
        raise SubstituteError(f"{name}: there is no such reader, neither among the shipped weights nor as a file; notebook 94 trains one")
    state = read_weights(file)
    if "species.weight" not in state:
        raise SubstituteError(f"{name}: these are not the weights of a reader of attributes and species, which notebook 94 trains")
    reader = AttributeReader(*state["species.weight"].shape)
    reader.load_state_dict(state)
    return reader.eval().requires_grad_(False).to(device_of(device, SubstituteError))


def read(reader: AttributeReader, images: Sequence[Image.Image | str | Path], batch_size: int = 64) -> Read:
    """What the reader sees in images (PIL or files), each cut to a square. Raises BirdsError naming a file that cannot be read."""
    rows, device = [], next(reader.parameters()).device
    for start in range(0, len(images), batch_size):
        opened = [image if isinstance(image, Image.Image) else load_image(image) for image in images[start:start + batch_size]]
        fitted = [np.array(ImageOps.fit(image.convert("RGB"), (PIXELS, PIXELS), Image.Resampling.LANCZOS)) for image in opened]
        with torch.inference_mode():
            rows.append(reader(torch.from_numpy(np.stack(fitted)).permute(0, 3, 1, 2).to(device).float() / 127.5 - 1).float().cpu())
    logits = torch.cat(rows) if rows else torch.empty(0, len(ATTRIBUTES) + reader.n_species)
    shares = [part.softmax(1) for part in logits[:, :len(ATTRIBUTES)].split(SIZES, 1)]
    return Read(torch.cat(shares, 1), logits[:, len(ATTRIBUTES):].softmax(1))


def is_shown(seen: Read, columns: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Whether each picture shows an attribute, bool (N,): columns (N,) say which of the 312."""
    return seen.attributes.gather(1, torch.as_tensor(columns, dtype=torch.long)[:, None])[:, 0] >= SHOWN


def touched_groups(attribute: str) -> set[str]:
    """The attribute groups that a substitution may change besides its own: colour and pattern of the same region, and the colours of the whole bird that follow from it."""
    group = group_of(attribute)
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
    groups = [group_of(name) for name in ATTRIBUTES]
    left_out = {attribute: torch.tensor([group in touched_groups(attribute) for group in groups]) for attribute in set(attributes)}
    for i, attribute in enumerate(attributes):
        counted[i] &= ~left_out[attribute]
    return ((seen.attributes >= SHOWN) & counted).sum(1) / counted.sum(1)
