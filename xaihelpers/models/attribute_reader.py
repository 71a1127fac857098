"""A reader: a small network that tells which attributes an image shows, and which species it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import nn

from worlds.aviary.individuals import ATTRIBUTES, GROUPS
from xaihelpers import paths
from xaihelpers.ask.messages import open_image
from xaihelpers.datasets.attribute_names import group_of
from xaihelpers.devices import resolve_device
from xaihelpers.models.weights import ModelError, load_weights, read_weights

PIXELS = 64  # side of the images that a reader takes
SIZES = [len(values) for values in GROUPS.values()]  # attributes of each group
REGIONS = ("wing", "back", "breast", "belly")
WHOLE = {"primary_color", "upperparts_color", "underparts_color"}  # colours that follow from those of parts
# share of its group from which an attribute counts as shown: two colours of one part have about half each
SHOWN_FROM = 1 / 3


class Reading(NamedTuple):
    """What a reader finds in N images, float32 on the CPU."""

    attributes: torch.Tensor  # (N, 312) in [0, 1], a softmax within each group
    species: torch.Tensor  # (N, K) in [0, 1], a softmax


class _Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, width: int):
        super().__init__()
        layers = []
        for _ in range(2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        self.both = nn.Sequential(*layers[:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.both(x))


class AttributeReader(nn.Module):
    """Names attributes and species: (N, 3, 64, 64) in [-1, 1] -> logits (N, 312 + K).

    Convolutions make 8 x 8 maps of `width` channels. Each attribute group, and the species, has a learnt
    query that attends to them, so a colour belongs to the part where it is found; global average pooling
    would lose that.
    """

    def __init__(self, n_species: int, width: int = 128):
        super().__init__()
        self.n_species = n_species
        layers, before = [], 3
        for after, blocks in ((width // 4, 0), (width // 2, 1), (width, 2)):
            layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            layers += [_Residual(after) for _ in range(blocks)]
            before = after
        self.maps = nn.Sequential(*layers)
        self.places = nn.Parameter(torch.randn((PIXELS // 8) ** 2, width) * 0.02)
        self.mixed = nn.TransformerEncoderLayer(
            width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.queries = nn.Parameter(torch.randn(len(SIZES) + 1, width) * 0.5)
        self.look = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.values = nn.Linear(width, len(ATTRIBUTES))
        self.species = nn.Linear(width, n_species)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        cells = self.maps(pixels).flatten(2).transpose(1, 2) + self.places  # (N, 64, width)
        cells = self.mixed(cells)
        queries = self.queries.expand(len(pixels), -1, -1)  # (N, 29, width)
        attended, _ = self.look(queries, cells, cells, need_weights=False)
        attended = self.norm(attended + self.queries)  # (N, 29, width)
        logits = []  # of each group, from its own query
        groups = zip(self.values.weight.split(SIZES), self.values.bias.split(SIZES), strict=True)
        for group, (weight, bias) in enumerate(groups):
            logits.append(F.linear(attended[:, group], weight, bias))
        return torch.cat([*logits, self.species(attended[:, -1])], 1)


class SpeciesReader(nn.Module):
    """A reader as a classifier of species: (N, 3, H, W) in [-1, 1], of any size -> logits (N, K)."""

    def __init__(self, reader: AttributeReader):
        super().__init__()
        self.reader = reader

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        small = F.interpolate(pixels, (PIXELS, PIXELS), mode="area")
        return self.reader(small)[:, len(ATTRIBUTES) :]


def load_reader(name: str = "aviary_reader", device: str | torch.device = "cpu") -> AttributeReader:
    """A reader of recipes/flux.py, in evaluation mode: the shipped one by its name, or a file of weights.

    Raises ModelError: no such reader, no such device, a damaged file, weights of another network.
    """
    file = paths.find(f"{name}.safetensors", paths.models_home()) or paths.find(name)
    state = read_weights(file) if file and file.is_file() else {}
    if "species.weight" not in state:
        raise ModelError(
            f"{name}: no reader of attributes and species, neither among the shipped weights nor as a file "
            "of weights; recipes/flux.py trains one"
        )
    reader = load_weights(AttributeReader(*state["species.weight"].shape), state, file, "a reader")
    return reader.eval().requires_grad_(False).to(resolve_device(device, ModelError))


def read_attributes(
    reader: AttributeReader, images: Sequence[Image.Image | str | Path], batch_size: int = 64
) -> Reading:
    """What the reader finds in N images (PIL or files), each cropped to its central square.

    Raises DatasetError naming a file that is missing or cannot be read.
    """
    device = next(reader.parameters()).device
    batches = []
    for start in range(0, len(images), batch_size):
        squares = []
        for image in images[start : start + batch_size]:
            square = ImageOps.fit(open_image(image), (PIXELS, PIXELS), Image.Resampling.LANCZOS)
            squares.append(np.array(square))
        pixels = torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)
        with torch.inference_mode():
            logits = reader(pixels.to(device).float() / 127.5 - 1)
        batches.append(logits.float().cpu())
    logits = torch.cat(batches) if batches else torch.empty(0, len(ATTRIBUTES) + reader.n_species)
    groups = logits[:, : len(ATTRIBUTES)].split(SIZES, 1)
    shares = torch.cat([group.softmax(1) for group in groups], 1)
    return Reading(shares, logits[:, len(ATTRIBUTES) :].softmax(1))


def is_shown(reading: Reading, columns: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Whether each image shows an attribute, bool (N,); columns: (N,), which of the 312."""
    columns = torch.as_tensor(columns, dtype=torch.long)
    return reading.attributes.gather(1, columns[:, None])[:, 0] >= SHOWN_FROM


def affected_groups(attribute: str) -> set[str]:
    """The attribute groups that a substitution may change: its own, its region's, the whole bird's."""
    group = group_of(attribute)
    regions = [region for region in REGIONS if group in (f"{region}_color", f"{region}_pattern")]
    regions = REGIONS if group in WHOLE else regions
    if regions:
        return WHOLE.union(*({f"{region}_color", f"{region}_pattern"} for region in regions))
    if group.endswith(("tail_color", "tail_pattern")):
        return {"upper_tail_color", "under_tail_color", "tail_pattern"}
    return {group}


def plumage_preserved(reading: Reading, usual: torch.Tensor, attributes: Sequence[str] = ()) -> torch.Tensor:
    """Share of the usual attributes that are shown, (N,) in [0, 1]: what a substitution left as it was.

    usual: bool (N, 312), what each image's bird usually has.
    attributes: the N substituted ones, if any, whose own and affected groups are left out.
    """
    counted = usual.clone()
    groups = [group_of(name) for name in ATTRIBUTES]
    for row, attribute in enumerate(attributes):
        affected = affected_groups(attribute)
        counted[row] &= torch.tensor([group not in affected for group in groups])
    shown = reading.attributes >= SHOWN_FROM
    return (shown & counted).sum(1) / counted.sum(1)
