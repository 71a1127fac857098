"""Networks by name as they are explained side by side: whole ones, linear heads trained here, files of maps.

A head is one linear layer theta on the frozen feature maps A (N, d, h, w) of a network, its backbone:

    classifier/NAME   S_c = theta_c . mean over cells of A + b_c    trained for the class of the picture
    segmenter/NAME    z_cx = theta_c . A_x + b_c in each cell x     trained for the class that covers the cell

so that two heads on one backbone differ in the task of a layer and in nothing else (paper autoxplain, section
4.3, compares networks that differ in everything). Of a segmenter, output 0 is the background.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

from xaihelpers.datasets import Dataset
from xaihelpers.models import (
    ImageNetwork,
    crop_boxes,
    crop_masks,
    extract_features,
    load_target,
    match_labels,
    read_pixels,
    segmenters,
    target_class_names,
)
from xaihelpers.saliency.hooks import SaliencyError
from xaihelpers.saliency.methods import AttentionMaps, attention_maps
from xaihelpers.saliency.nulls import null_maps
from xaihelpers.saliency.own_maps import is_own_maps, own_attention, picture_view

SEGMENTER, CLASSIFIER = "segmenter/", "classifier/"


class Head(nn.Module):
    """One linear layer on maps (N, d, h, w): logits of their mean (N, K), or of cells (N, K, h, w)."""

    def __init__(self, n_features: int, n_classes: int, of_cells: bool):
        super().__init__()
        self.maps = nn.Identity()  # the layer whose maps are explained
        self.of_cells = of_cells
        self.linear = nn.Conv2d(n_features, n_classes, 1) if of_cells else nn.Linear(n_features, n_classes)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        maps = self.maps(maps)
        return self.linear(maps if self.of_cells else maps.mean((2, 3)))


class Attended(NamedTuple):
    """What networks say of N pictures, and where they look for it."""

    cases: pd.DataFrame  # as of `attention_cases`, of all networks and draws
    maps: dict[tuple[str, int], torch.Tensor]  # (name, draw) -> (N, h, w)
    pixels: dict[str, torch.Tensor]  # backbone -> (N, 3, H, W) uint8
    energy: dict[str, torch.Tensor]  # backbone -> (N, h, w), where its layer responds; 0 of maps from a file


@dataclass(eq=False)
class Explained:
    """A network that is explained, or one of whom only maps are known."""

    name: str
    kind: str  # "classification" or "segmentation"
    backbone: str  # the name without what stands on it
    network: ImageNetwork  # the backbone, or how pictures are cut for a file of maps
    names: list[str]  # of its outputs
    outputs: dict[str, set[int]]  # of each label of the data
    layer: str = ""
    heads: list[Head] = field(default_factory=list)  # a draw each; none of a network as it is
    file: str = ""  # of maps

    @property
    def draws(self) -> int:
        return max(1, len(self.heads))


def backbone_of(name: str) -> str:
    """The name of the network that a head stands on; of any other its own."""
    return name.removeprefix(SEGMENTER).removeprefix(CLASSIFIER)


def objects_in(network: ImageNetwork, data: Dataset, rows: Sequence[int]) -> torch.Tensor:
    """Where objects are as a network crops pictures, (n, crop, crop) bool: outlines, boxes, or no pixel."""
    outlines = crop_masks(network, data, rows)
    return crop_boxes(network, data, rows) if outlines is None else outlines > 0


def train_head(maps: torch.Tensor, wanted: torch.Tensor, n_classes: int, epochs: int, seed: int) -> Head:
    """A head by cross-entropy.

    maps: (N, d, h, w). wanted: classes (N,) of pictures, or (N, h, w) of cells.
    seed: of its first weights, and of the order of the pictures.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = Head(maps.shape[1], n_classes, wanted.ndim == 3).to(maps.device)
        inputs = maps if head.of_cells else maps.mean((2, 3))
        optimiser = torch.optim.AdamW(head.parameters(), lr=0.01, weight_decay=0.01)
        for _ in range(epochs):
            for batch in torch.randperm(len(maps)).to(maps.device).split(64):
                optimiser.zero_grad()
                F.cross_entropy(head.linear(inputs[batch]), wanted[batch]).backward()
                optimiser.step()
    return head.eval().requires_grad_(False)


def load_explained(
    names: Sequence[str],
    data: Dataset,
    draws: int = 1,
    epochs: int = 10,
    seed: int = 0,
    device: torch.device | str = "cpu",
    size: int = 0,
    files: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Explained]:
    """Networks by name; heads are trained on the training split, `draws` times each.

    names: as of `models.load_target`, "segmenter/…" or "classifier/…" with such a name, or files of maps.
    epochs, seed: of the heads. size: of the input of torchvision's segmenters.
    files: by name of a network the file of its "weights", "class_names" or "same_as", and its "layer".
    Returns them by name, files of maps without folder and ending.
    Raises ModelError as `load_target`, `target_class_names` and `match_labels`; SaliencyError for a segmenter
        on data that do not say where objects are.
    """
    given = {key: (files or {}).get(key, {}) for key in ("weights", "class_names", "same_as", "layer")}
    networks, maps_of, outlines, found = {}, {}, {}, {}
    labels, train = data.class_names, np.flatnonzero(data.images.train)
    for name in names:
        backbone = backbone_of(name)
        if backbone not in networks:
            view = picture_view(name) if is_own_maps(name) else None
            weights = given["weights"].get(name, "")
            networks[backbone] = view or load_target(backbone, weights, device, data, size)
        network, is_head, heads = networks[backbone], name != backbone, []
        of_cells = name.startswith(SEGMENTER)
        if is_head or network.model is None:
            outputs = ["background", *labels] if of_cells else list(labels)
        else:
            outputs = target_class_names(network, data, given["class_names"].get(name, ""))
        if is_head:
            if backbone not in maps_of:
                files = data.images["path"].iloc[train].tolist()
                maps_of[backbone] = extract_features(network, files).maps.to(device)
            maps, wanted = maps_of[backbone], data.labels[train]
            if of_cells:
                view = np.divide(network.resize, network.crop).tolist()  # what of a picture is seen
                if str(view) not in outlines:
                    outlines[str(view)] = objects_in(network, data, train)
                of_objects = outlines[str(view)]
                if not of_objects.any():
                    raise SaliencyError(f"{name}: {data.name} does not say where its objects are")
                covered = F.adaptive_avg_pool2d(of_objects[:, None].float(), maps.shape[2:])[:, 0]
                wanted = torch.where(covered >= 0.5, 1 + wanted[:, None, None], 0)
            about = maps, wanted.to(device), len(outputs), epochs
            heads = [train_head(*about, seed + draw) for draw in range(draws)]
        matched = match_labels(outputs, labels, given["same_as"].get(name, ""))
        known_segmenter = name.removeprefix("torchvision/") in segmenters()
        kind = "segmentation" if of_cells or known_segmenter else "classification"
        layer = given["layer"].get(name, "")
        short, file = (Path(name).stem, name) if network.model is None else (name, "")
        about = network, outputs, matched, layer, heads, file
        found[short] = Explained(short, kind, backbone if short == name else short, *about)
    return found


def attend(
    one: Explained,
    data: Dataset,
    rows: Sequence[int],
    method: str = "gradcam",
    draw: int = 0,
    classes: torch.Tensor | None = None,
    all_pixels: bool = False,
) -> AttentionMaps:
    """Attention of one of `load_explained` for the pictures at `rows`, as of `attention_maps`.

    draw: which of its heads. Methods that mask the picture mask the maps that a head is shown.
    Raises what `attention_maps` and `own_attention` raise.
    """
    files = data.images["path"].iloc[np.asarray(rows)].tolist()
    if one.network.model is None:
        found, one.names = own_attention(one.file, data, rows, one.network)
        return found
    device = next(one.network.model.parameters()).device
    if one.heads:
        model, layer = one.heads[draw], "maps"
        inputs = extract_features(one.network, files).maps.to(device)
    else:
        model, layer = one.network, one.layer
        inputs = one.network.normalised(read_pixels(one.network, files).to(device))
    return attention_maps(model, inputs, method, classes, layer, 16, all_pixels=all_pixels)


def attention_cases(
    one: Explained,
    data: Dataset,
    rows: Sequence[int],
    method: str = "gradcam",
    draw: int = 0,
    asked: str = "predicted",
    all_pixels: bool = False,
) -> tuple[pd.DataFrame, torch.Tensor]:
    """What a network says of each picture and where it looked for it: a table, and maps (n, h, w).

    asked: the class that a segmenter is asked about, the "predicted" one or, as in the authors' code, the
        image's "label". all_pixels: as of `score_classes`.
    Returns network, kind, backbone, draw, row, place (0 to n - 1), label, predicted, name (of the class asked
        about), right, and nothing: whether there is no attention, of a constant map or of background.
    """
    found = attend(one, data, rows, method, draw, None, all_pixels)
    predicted = found.classes.tolist()
    labels = [data.class_names[label] for label in data.labels[np.asarray(rows)].tolist()]
    if asked == "label" and one.kind == "segmentation":
        wanted = torch.tensor([min(one.outputs[label]) for label in labels])
        found = attend(one, data, rows, method, draw, wanted, all_pixels)
    asked_about = found.classes.tolist()
    is_background = [one.kind == "segmentation" and number == 0 for number in asked_about]
    table = pd.DataFrame({"row": np.asarray(rows), "place": range(len(labels)), "label": labels})
    table = table.assign(network=one.name, kind=one.kind, backbone=one.backbone, draw=draw)
    table["predicted"] = [one.names[number] for number in predicted]
    table["name"] = [one.names[number] for number in asked_about]
    told = zip(predicted, labels, strict=True)
    table["right"] = [number in one.outputs[label] for number, label in told]
    table["nothing"] = found.constant.cpu().numpy() | np.array(is_background)
    return table, found.maps.cpu()


def attend_all(
    explained: Mapping[str, Explained], data: Dataset, rows: Sequence[int], method: str = "gradcam", **how
) -> Attended:
    """What all networks say of the pictures at `rows`, by every draw.

    explained: as of `load_explained`. how: asked and all_pixels, as of `attention_cases`.
    """
    files = data.images["path"].iloc[np.asarray(rows)].tolist()
    tables, maps, pixels, energy = [], {}, {}, {}
    for name, one in explained.items():
        if one.backbone not in pixels:
            pixels[one.backbone] = read_pixels(one.network, files)
            energy[one.backbone] = torch.zeros(len(files), 1, 1)
            if one.network.model is not None:
                device = next(one.network.model.parameters()).device
                inputs = one.network.normalised(pixels[one.backbone].to(device))
                unasked = torch.zeros(len(files), dtype=torch.int64)  # energy knows no class
                found = null_maps(one.network, inputs, method, one.layer, unasked, 16, names=["energy"])
                energy[one.backbone] = found["energy"].maps.cpu()
        for draw in range(one.draws):
            table, maps[name, draw] = attention_cases(one, data, rows, method, draw, **how)
            tables.append(table)
    return Attended(pd.concat(tables, ignore_index=True), maps, pixels, energy)
