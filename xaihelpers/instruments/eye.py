"""The networks of the shipped annotator and judge: what is to be seen in a drawn picture, and where.

Both see SIZE x SIZE pixels through the shipped backbone's ResNet-18 and a finer map made from all its stages
(a feature pyramid: Lin et al., CVPR 2017), a cell for every four pixels.

| | answers |
|---|---|
| `Eye` | for each group of attributes a place to look at, the value there, whether it is to be seen; names |
| `JudgingEye` | for each cell whether it is lit, the object's, and which part; the name of what is lit |
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import timm
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from safetensors.torch import load_file
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch import nn
from torchvision.transforms import functional as transforms

from worlds import aviary, everyday
from xaihelpers.datasets import load_image
from xaihelpers.text_files import words

SIZE, CELL = 128, 4  # side of a picture and of a cell of the finer map, in pixels
WIDTH, TOKEN = 64, 128  # channels of the finer map, numbers that stand for a group
SEATS = ["branch", "trunk", "water", "air", "rock", "shallows", "ground"]
SPECIES = [name.replace("_", " ") for name in aviary.species_table()["name"]]
THINGS = [name.replace("_", " ") for name in everyday.CATEGORIES]
NAMES = {"birds": SPECIES, "things": THINGS}
GROUPS = {  # of each world: group -> values
    "birds": {**aviary.GROUPS, "seat": SEATS},
    "things": {**everyday.GROUPS, "category": list(everyday.CATEGORIES)},
}
SIZES = [len(values) for groups in GROUPS.values() for values in groups.values()]  # of all groups
# of no single part
WHOLE = ("upperparts_color", "underparts_color", "size", "shape", "primary_color", "seat")
PARTS = [*aviary.PARTS, "body", *everyday.PARTS]  # that the judge names, numbered from 1 on
BRIGHT = 0.15  # of a place's greatest weight: what is above it lies within the box of the second look
LAYOUT = {  # the shipped backbone's own architecture, at twice the resolution in its last stage
    "stem_type": "deep",
    "stem_width": 16,
    "avg_down": True,
    "channels": [32, 64, 128, 256],
    "output_stride": 16,
}


class FineTower(nn.Module):
    """The backbone and the finer map."""

    def __init__(self):
        super().__init__()
        self.backbone = timm.create_model(
            "resnet18", features_only=True, out_indices=(1, 2, 3, 4), pretrained=False, **LAYOUT
        )
        self.channels = self.backbone.feature_info.channels()
        self.to_width = nn.ModuleList(nn.Conv2d(channels, WIDTH, 1) for channels in self.channels)
        self.blocks = nn.ModuleList(block(WIDTH) for _ in range(2))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Of normalised pixels (N, 3, SIZE, SIZE): the finer map (N, WIDTH, 32, 32), the four stages."""
        stages = self.backbone(pixels)
        first, second, third, last = (to(stage) for to, stage in zip(self.to_width, stages, strict=True))
        fine = self.blocks[0](F.interpolate(last + third, scale_factor=2) + second)
        return self.blocks[1](F.interpolate(fine, scale_factor=2) + first), stages


def block(channels: int) -> nn.Sequential:
    """A convolution of 3 x 3 to WIDTH channels, normalised."""
    convolution = nn.Conv2d(channels, WIDTH, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(WIDTH), nn.ReLU())


class Eye(nn.Module):
    """What is to be seen: a place, a value and whether it can be seen for each of the G groups."""

    def __init__(self):
        super().__init__()
        self.tower = FineTower()
        first, *_, last = self.tower.channels
        self.content = block(WIDTH)
        self.where = nn.Conv2d(WIDTH, len(SIZES), 1)
        self.whole = nn.Linear(last, WIDTH)
        self.tokens = nn.ModuleList(nn.Linear(2 * WIDTH + first, TOKEN) for _ in SIZES)
        self.values = nn.ModuleList(nn.Linear(TOKEN, size) for size in SIZES)
        self.visible = nn.ModuleList(nn.Linear(TOKEN, 1) for _ in SIZES)
        self.names = nn.Linear(last, len(SPECIES))
        self.is_thing = nn.Linear(sum(self.tower.channels) + WIDTH, 1)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of normalised pixels (N, 3, SIZE, SIZE), and `means` (N, C) of all stages and the finer map.

        places: (N, G, cells). values: (N, all values of all groups, side by side). visible: (N, G).
        names: (N, species). is_thing: (N,).
        """
        fine, stages = self.tower(pixels)
        places = self.where(fine).flatten(2)
        content = torch.cat([self.content(fine), stages[0]], 1).flatten(2)  # (N, C, cells)
        looked_at = places.softmax(2) @ content.mT  # (N, G, C)
        pooled = stages[3].mean((2, 3))
        means = torch.cat([of.mean((2, 3)) for of in (*stages, fine)], 1)
        whole = self.whole(pooled).relu()
        tokens = [
            of(torch.cat([looked_at[:, group], whole], 1)).relu() for group, of in enumerate(self.tokens)
        ]
        return {
            "places": places,
            "values": torch.cat([of(token) for of, token in zip(self.values, tokens, strict=True)], 1),
            "visible": torch.cat([of(token) for of, token in zip(self.visible, tokens, strict=True)], 1),
            "names": self.names(pooled),
            "is_thing": self.is_thing(means)[:, 0],
            "means": means,
        }


class JudgingEye(nn.Module):
    """What is lit, what of it is the object, and what the object is called."""

    def __init__(self):
        super().__init__()
        self.tower = FineTower()
        first, *_, last = self.tower.channels
        self.content = block(WIDTH + first)
        self.cells = nn.Conv2d(WIDTH, 2 + 1 + len(PARTS), 1)
        of_names = nn.Linear(256, len(SPECIES) + len(THINGS))
        self.names = nn.Sequential(nn.Linear(2 * WIDTH + first + 2 * last, 256), nn.ReLU(), of_names)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Of normalised pixels (N, 3, SIZE, SIZE), with cells of CELL x CELL pixels.

        lit, object: logits (N, 32, 32); the object is where it is seen or must be. parts: logits
            (N, 1 + parts, 32, 32), 0 beside the object. names: logits (N, species and things).
        covered, precise: (N,), share of the object that is lit, share of the light that lies on it.
        """
        fine, stages = self.tower(pixels)
        content = self.content(torch.cat([fine, stages[0]], 1))
        cells = self.cells(content)
        lit, thing = cells[:, 0].sigmoid(), cells[:, 1].sigmoid()
        both = lit * thing
        weight = both.detach() / (both.detach().sum((1, 2), keepdim=True) + 1e-3)
        near = (torch.cat([content, fine, stages[0]], 1) * weight[:, None]).sum((2, 3))
        ratio = weight.shape[1] // stages[3].shape[2]
        coarse = F.avg_pool2d(weight[:, None], ratio) * ratio**2
        seen = [near, (stages[3] * coarse).sum((2, 3)), stages[3].mean((2, 3))]
        return {
            "lit": cells[:, 0],
            "object": cells[:, 1],
            "parts": cells[:, 2:],
            "names": self.names(torch.cat(seen, 1)),
            "covered": both.sum((1, 2)) / (thing.sum((1, 2)) + 1e-2),
            "precise": both.sum((1, 2)) / (lit.sum((1, 2)) + 1e-2),
        }


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """Pixels (N, 3, H, W) in [0, 1] as the networks take them."""
    return transforms.normalize(pixels, IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD)


def load_eye(network: nn.Module, file: Path, device: torch.device) -> nn.Module:
    """A network with the weights of a file, for use. Raises OSError, or RuntimeError for other weights."""
    network.load_state_dict({name: weight.float() for name, weight in load_file(file).items()})
    return network.to(device).eval()


def first_named(text: str) -> str:
    """The known name that a text says first, the longest of those that begin there; "" of none."""
    text, found = words(text), []
    for name in SPECIES + THINGS:
        if place := re.search(rf"\b{re.escape(words(name))}\b", text):
            found.append((place.start(), -len(name), name))
    return min(found, default=(0, 0, ""))[2]


class Look(NamedTuple):
    """What the eye found in one picture.

    values: world -> group -> value -> probability. visible: world -> group -> probability that it can be
    seen. names: name -> probability, of species and things together. is_thing: the probability of no bird.
    """

    values: dict[str, dict[str, dict[str, float]]]
    visible: dict[str, dict[str, float]]
    names: dict[str, float]
    is_thing: float


@torch.inference_mode()
def look(eye: Eye, images: Sequence[Image.Image]) -> list[Look]:
    """What is to be seen in each RGB image: looked at as a whole, and again where the object is."""
    squares = [ImageOps.fit(image, (min(image.size),) * 2) for image in images]
    device = next(eye.parameters()).device
    first = eye(as_pixels(squares).to(device))
    nearer = [square.crop(box) for square, box in zip(squares, _boxes(first["places"], squares), strict=True)]
    second = eye(as_pixels(nearer).to(device))
    both = {name: ((first[name] + second[name]) / 2).cpu() for name in first if name != "places"}
    found = []
    for row, is_thing in enumerate(both["is_thing"].sigmoid().tolist()):
        values, visible = {world: {} for world in GROUPS}, {world: {} for world in GROUPS}
        of_groups = zip(both["values"][row].split(SIZES), both["visible"][row], strict=True)
        for world, groups in GROUPS.items():
            for group, named in groups.items():
                logits, seen = next(of_groups)
                values[world][group] = dict(zip(named, logits.softmax(0).tolist(), strict=True))
                visible[world][group] = seen.sigmoid().item()
        species = ((1 - is_thing) * both["names"][row].softmax(0)).tolist()
        things = [is_thing * chance for chance in values["things"]["category"].values()]
        names = dict(zip(SPECIES + THINGS, species + things, strict=True))
        found.append(Look(values, visible, names, is_thing))
    return found


def attribute_chances(eye: Eye, files: Sequence[str | Path], attributes: Sequence[str]) -> torch.Tensor:
    """How probable the eye finds each attribute of birds, and that it can be seen, (N, L): their product.

    files: N images. attributes: L names such as "has_wing_color::red".
    Raises KeyError for an attribute that the eye was not taught; DatasetError as `load_image`.
    """
    asked, found = [name.removeprefix("has_").split("::") for name in attributes], []
    for start in range(0, len(files), 64):
        for one in look(eye, list(map(load_image, files[start : start + 64]))):
            values, visible = one.values["birds"], one.visible["birds"]
            found.append([visible[group] * values[group][value] for group, value in asked])
    return torch.tensor(found)


def as_pixels(images: Sequence[Image.Image]) -> torch.Tensor:
    """RGB images as normalised pixels (N, 3, SIZE, SIZE)."""
    fitted = [ImageOps.fit(image, (SIZE, SIZE), Image.Resampling.BICUBIC) for image in images]
    return normalised(torch.stack([transforms.to_tensor(image) for image in fitted]))


def _boxes(places: torch.Tensor, squares: Sequence[Image.Image]) -> list[tuple[int, int, int, int]]:
    """The square around the object in each picture, from where the whole object was seen."""
    of_whole = [number for number, group in enumerate(GROUPS["birds"]) if group in WHOLE]
    cells = SIZE // CELL
    maps = places[:, of_whole].softmax(2).mean(1).view(-1, cells, cells).cpu()
    boxes = []
    for one, square in zip(maps, squares, strict=True):
        rows, columns = torch.where(one > BRIGHT * one.max())
        low = torch.stack([columns.min(), rows.min()]) / cells
        high = (torch.stack([columns.max(), rows.max()]) + 1) / cells
        side = min(1.0, 1.1 * (high - low).max().item())
        corner = ((low + high - side) / 2).clamp(0, 1 - side)
        left, upper = (corner * square.width).int().tolist()
        length = max(1, int(side * square.width))
        boxes.append((left, upper, left + length, upper + length))
    return boxes
