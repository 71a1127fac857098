"""The networks of the shipped annotator and judge: what is to be seen in a drawn picture, and where.

Both see SIZE x SIZE pixels through the shipped backbone's ResNet-18 and a finer map made from all its stages
(a feature pyramid: Lin et al., CVPR 2017), a cell for every four pixels.

| | answers |
|---|---|
| `Eye` | names; for each group of attributes a place to look at; what a thing has, where a bird sits |
| `CloseEye`, a part of it | of a square around each place: the value there, and whether it is to be seen |
| `JudgingEye` | for each cell what is lit, the object, both, which part; the name of what is lit |
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
from torchvision.ops import roi_align
from torchvision.transforms import functional as transforms

from worlds import aviary, everyday
from xaihelpers.datasets import load_image
from xaihelpers.text_files import words

SIZE, CELL = 128, 4  # side of a picture and of a cell of the finer map, in pixels
DETAIL, CLOSE = 224, 64  # side of the picture that squares are cut from, and of such a square
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
# what is looked at by itself: the groups of a bird that are read there, and nowhere else
REGIONS = {
    "head": "head_pattern forehead_color crown_color nape_color throat_color bill_length",
    "bill": "bill_shape bill_color",
    "eye": "eye_color",
    "front": "breast_pattern breast_color belly_pattern belly_color",
    "wing": "wing_shape wing_pattern wing_color",
    "back": "back_pattern back_color",
    "tail": "tail_shape tail_pattern upper_tail_color under_tail_color",
    "legs": "leg_color",
    "bird": "size shape primary_color upperparts_color underparts_color",  # of no single part
}
REGIONS = {region: groups.split() for region, groups in REGIONS.items()}
CLOSE_GROUPS = list(aviary.GROUPS)  # read by `CloseEye`; the others, by `Eye`, come after them
REGION_OF = [next(r for r, some in enumerate(REGIONS.values()) if group in some) for group in CLOSE_GROUPS]
PARTS = [*aviary.PARTS, "body", *everyday.PARTS]  # that the judge names, numbered from 1 on
BRIGHT = 0.15  # of a place's greatest weight: what is above it lies within the box of the next look
MARGIN, LEAST = 1.5, 0.25  # of the square around a part: more than the part, and of the bird's at least
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


class CloseEye(nn.Module):
    """What squares around the parts of a bird show.

    It is not given the name, nor what lies beside a square; but those of back, front and wing hold most of a
    bird. That it does not recite there is a matter of its lessons, and asked on its card.
    """

    def __init__(self):
        super().__init__()
        layout = LAYOUT | {"output_stride": 8}
        self.trunk = timm.create_model(
            "resnet18", features_only=True, out_indices=(3,), pretrained=False, **layout
        )
        self.trunk["layer3"] = self.trunk["layer3"][:1]
        self.trunk.to(memory_format=torch.channels_last)
        channels, sizes = self.trunk.feature_info.channels()[0], SIZES[: len(CLOSE_GROUPS)]
        self.where = nn.Conv2d(channels, len(sizes), 1)
        self.tokens = nn.ModuleList(nn.Linear(2 * channels, TOKEN // 4) for _ in sizes)
        self.values = nn.ModuleList(nn.Linear(TOKEN // 4, size) for size in sizes)
        self.visible = nn.ModuleList(nn.Linear(TOKEN // 4, 1) for _ in sizes)

    def forward(self, squares: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of normalised squares (N, REGIONS, 3, CLOSE, CLOSE) logits of the 28 groups of a bird.

        Returns places (N, 28, cells) in the square, values (N, all values), visible (N, 28).
        """
        content = self.trunk(squares.flatten(0, 1).contiguous(memory_format=torch.channels_last))[0]
        places = self.where(content).flatten(2).unflatten(0, squares.shape[:2])  # (N, R, 28, cells)
        content = content.flatten(2).unflatten(0, squares.shape[:2])  # (N, R, C, cells)
        found, tokens = [], []
        for group, (region, token) in enumerate(zip(REGION_OF, self.tokens, strict=True)):
            found.append(places[:, region, group])
            here = content[:, region]
            looked_at = (here @ found[-1].softmax(1)[..., None])[..., 0]
            tokens.append(token(torch.cat([looked_at, here.mean(2)], 1)).relu())
        return torch.stack(found, 1), *_answers(self, tokens)


def _answers(network: nn.Module, tokens: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the values of some groups, side by side, and of whether each can be seen."""
    values = [of(token) for of, token in zip(network.values, tokens, strict=True)]
    visible = [of(token) for of, token in zip(network.visible, tokens, strict=True)]
    return torch.cat(values, 1), torch.cat(visible, 1)


class Eye(nn.Module):
    """What a whole picture shows: a name, where to look for each of G groups, the seat, what a thing has."""

    def __init__(self):
        super().__init__()
        self.tower, self.close = FineTower(), CloseEye()
        first, *_, last = self.tower.channels
        self.content = block(WIDTH)
        self.where = nn.Conv2d(WIDTH, len(SIZES), 1)
        self.whole = nn.Linear(last, WIDTH)
        sizes = SIZES[len(CLOSE_GROUPS) :]
        self.tokens = nn.ModuleList(nn.Linear(2 * WIDTH + first, TOKEN) for _ in sizes)
        self.values = nn.ModuleList(nn.Linear(TOKEN, size) for size in sizes)
        self.visible = nn.ModuleList(nn.Linear(TOKEN, 1) for _ in sizes)
        self.names = nn.Linear(last, len(SPECIES))
        self.is_thing = nn.Linear(sum(self.tower.channels) + WIDTH, 1)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of normalised pixels (N, 3, SIZE, SIZE).

        places: (N, G, cells). values, visible: of the groups that `CloseEye` does not read, (N, values side
        by side) and (N, groups). names: (N, species). is_thing: (N,).
        """
        fine, stages = self.tower(pixels)
        places = self.where(fine).flatten(2)
        content = torch.cat([self.content(fine), stages[0]], 1).flatten(2)  # (N, C, cells)
        looked_at = places[:, len(CLOSE_GROUPS) :].softmax(2) @ content.mT  # (N, groups, C)
        pooled = stages[3].mean((2, 3))
        means = torch.cat([of.mean((2, 3)) for of in (*stages, fine)], 1)
        whole = self.whole(pooled).relu()
        tokens = [
            of(torch.cat([looked_at[:, group], whole], 1)).relu() for group, of in enumerate(self.tokens)
        ]
        values, visible = _answers(self, tokens)
        names, is_thing = self.names(pooled), self.is_thing(means)[:, 0]
        return {"places": places, "values": values, "visible": visible, "names": names, "is_thing": is_thing}


class JudgingEye(nn.Module):
    """What is lit, what of it is the object, and what the object is called.

    A mask leaves a trace of what lies in its dark: each cell's mean is given as its fourth root, too.
    """

    def __init__(self):
        super().__init__()
        self.tower = FineTower()
        first, *_, last = self.tower.channels
        self.content = block(WIDTH + first + 3)
        self.cells = nn.Conv2d(WIDTH, 3 + 1 + len(PARTS), 1)
        of_names = nn.Linear(256, len(SPECIES) + len(THINGS))
        self.names = nn.Sequential(nn.Linear(2 * WIDTH + first + 2 * last, 256), nn.ReLU(), of_names)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Of normalised pixels (N, 3, SIZE, SIZE), with cells of CELL x CELL pixels.

        lit, object, both: logits (N, 32, 32); the object is where it is seen or must be. parts: logits
            (N, 1 + parts, 32, 32), 0 beside the object. names: logits (N, species and things).
        covered, precise: (N,), share of the object that is lit, share of the light that lies on it.
        """
        fine, stages = self.tower(pixels)
        means = F.avg_pool2d(pixels, CELL)
        content = self.content(torch.cat([fine, stages[0], in_unit(means) ** 0.25], 1))
        cells = self.cells(content)
        lit, thing, both = cells[:, :3].sigmoid().unbind(1)
        weight = both.detach() / (both.detach().sum((1, 2), keepdim=True) + 1e-3)
        near = (torch.cat([content, fine, stages[0]], 1) * weight[:, None]).sum((2, 3))
        ratio = weight.shape[1] // stages[3].shape[2]
        coarse = F.avg_pool2d(weight[:, None], ratio) * ratio**2
        seen = [near, (stages[3] * coarse).sum((2, 3)), stages[3].mean((2, 3))]
        return {
            "lit": cells[:, 0],
            "object": cells[:, 1],
            "both": cells[:, 2],
            "parts": cells[:, 3:],
            "names": self.names(torch.cat(seen, 1)),
            "covered": (both.sum((1, 2)) / (thing.sum((1, 2)) + 1e-2)).clamp(max=1),
            "precise": (both.sum((1, 2)) / (lit.sum((1, 2)) + 1e-2)).clamp(max=1),
        }


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """Pixels (N, 3, H, W) in [0, 1] as the networks take them."""
    return transforms.normalize(pixels, IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD)


def in_unit(pixels: torch.Tensor) -> torch.Tensor:
    """Normalised pixels (N, 3, H, W) as they were, in [0, 1]."""
    mean, std = (pixels.new_tensor(of).view(3, 1, 1) for of in (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD))
    return (pixels * std + mean).clamp(0, 1)


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
    """What is to be seen in each RGB image: of the whole, again where the object is, and part by part."""
    squares = [ImageOps.fit(image, (min(image.size),) * 2) for image in images]
    pixels = as_pixels(squares, DETAIL).to(next(eye.parameters()).device)
    both, parts = looked_at(eye, pixels)
    _, values, visible = eye.close(cut_out(pixels, parts, CLOSE))
    both["values"] = torch.cat([values, both["values"]], 1)
    both["visible"] = torch.cat([visible, both["visible"]], 1)
    both = {name: of.cpu() for name, of in both.items()}
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


@torch.inference_mode()
def looked_at(eye: Eye, pixels: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Of normalised pixels (N, 3, DETAIL, DETAIL): the mean of what `Eye` answers of the whole and where the
    object is, without places; and the squares around its parts, (N, REGIONS, 4) in shares of the side."""
    first = eye(F.interpolate(pixels, SIZE, mode="bicubic", antialias=True))
    objects = object_boxes(first["places"])
    second = eye(cut_out(pixels, objects[:, None], SIZE)[:, 0])
    parts = part_boxes(places_lit(second["places"]))
    corner, side = objects[:, None, :2], objects[:, None, 2:] - objects[:, None, :2]
    both = {name: (first[name] + second[name]) / 2 for name in first if name != "places"}
    return both, parts * side.tile(2) + corner.tile(2)


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


def as_pixels(images: Sequence[Image.Image], size: int = SIZE) -> torch.Tensor:
    """RGB images as normalised pixels (N, 3, size, size)."""
    fitted = [ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC) for image in images]
    return normalised(torch.stack([transforms.to_tensor(image) for image in fitted]))


def places_lit(places: torch.Tensor) -> torch.Tensor:
    """Where each of the REGIONS lies by places (N, G, cells): (N, R, 32, 32) bool."""
    shares = places[:, : len(CLOSE_GROUPS)].softmax(2)
    lit = (shares > BRIGHT * shares.amax(2, keepdim=True)).unflatten(2, (SIZE // CELL, SIZE // CELL))
    of_region = torch.tensor(REGION_OF)
    return torch.stack([lit[:, of_region == region].any(1) for region in range(len(REGIONS))], 1)


def object_boxes(places: torch.Tensor) -> torch.Tensor:
    """The square around the object of each picture, within it, from where the whole bird was seen, (N, 4)."""
    of_whole = [CLOSE_GROUPS.index(group) for group in REGIONS["bird"]]
    shares = places[:, of_whole].softmax(2).mean(1).unflatten(1, (SIZE // CELL, SIZE // CELL))
    boxes = bounds_of(shares > BRIGHT * shares.amax((1, 2), keepdim=True))
    side = (1.1 * (boxes[:, 2:] - boxes[:, :2]).amax(1, keepdim=True)).clamp(max=1)
    corner = ((boxes[:, :2] + boxes[:, 2:] - side) / 2).clamp(min=0).minimum(1 - side)
    return torch.cat([corner, corner + side], 1)


def part_boxes(lit: torch.Tensor) -> torch.Tensor:
    """The square around each of R regions, with its `MARGIN`, (N, R, 4); the last region is the bird.

    lit: (N, R, H, W) bool; a region that is nowhere is the bird's.
    """
    lit = torch.where(lit.any((2, 3), keepdim=True), lit, lit[:, -1:])
    boxes = bounds_of(lit)
    sides = (boxes[..., 2:] - boxes[..., :2]).amax(2, keepdim=True)
    half = (MARGIN * sides).maximum(LEAST * sides[:, -1:]) / 2
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2
    return torch.cat([middle - half, middle + half], 2)


def bounds_of(lit: torch.Tensor) -> torch.Tensor:
    """Left, top, right, bottom of what is lit (..., H, W), shares of its sides (..., 4); 0 to 1 of none."""
    ends = []
    for axis in (-2, -1):  # of columns, of rows
        line = lit.any(axis).float()
        size = line.shape[-1]
        ends += [line.argmax(-1) / size, 1 - line.flip(-1).argmax(-1) / size]
    return torch.stack([ends[0], ends[2], ends[1], ends[3]], -1)


def cut_out(pixels: torch.Tensor, boxes: torch.Tensor, size: int) -> torch.Tensor:
    """Squares of pixels (N, 3, S, S) by boxes (N, R, 4) in shares of its side, (N, R, 3, size, size)."""
    rows = torch.arange(len(boxes), device=boxes.device).repeat_interleave(boxes.shape[1])[:, None]
    rois = torch.cat([rows.to(boxes), boxes.flatten(0, 1) * pixels.shape[-1]], 1)
    return roi_align(pixels, rois, size, aligned=True).unflatten(0, boxes.shape[:2])
