"""Networks by name side by side, and where they look: whole ones, linear heads trained here, files of maps.

A head is one linear layer theta on the frozen feature maps A (N, d, h, w) of a network, its backbone:

    classifier/NAME   S_c = theta_c . mean over cells of A + b_c    trained for the class of the picture
    segmenter/NAME    z_cx = theta_c . A_x + b_c in each cell x     trained for the class that covers the cell

so that two heads on one backbone differ in the task of a layer and in nothing else (paper autoxplain, section
4.3, compares networks that differ in everything). Of a segmenter, output 0 is the background.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from xaihelpers import models
from xaihelpers.datasets import Dataset
from xaihelpers.models import ImageNetwork
from xaihelpers.names import SEGMENTER, backbone_of
from xaihelpers.own_model import OwnModelError
from xaihelpers.parameters import ParameterError
from xaihelpers.saliency.hooks import SaliencyError, network_inputs
from xaihelpers.saliency.judging import judge_images
from xaihelpers.saliency.methods import attention_maps
from xaihelpers.saliency.nulls import null_maps
from xaihelpers.saliency.own_maps import own_maps, picture_view

BATCH = 16


@dataclass(eq=False)
class Compared:
    """A network that is explained, or one of whom only maps are known."""

    name: str
    kind: str  # "classification" or "segmentation"
    backbone: str  # the name without what stands on it
    network: ImageNetwork  # the backbone, or how pictures are cut for a file of maps, whose name it has
    names: list[str]  # of its outputs
    outputs: dict[str, set[int]]  # of each label of the data
    heads: list[nn.Module] = field(default_factory=list)  # a draw each; none of a network as it is

    @property
    def sees_pixels(self) -> bool:
        """Whether it can be asked again about other pixels: not a head, which sees maps, nor a file."""
        return self.network.model is not None and not self.heads


def objects_in(network: ImageNetwork, data: Dataset, rows: Sequence[int]) -> torch.Tensor:
    """Where objects are as a network crops pictures, (n, crop, crop) bool: outlines, boxes, or no pixel."""
    outlines = models.crop_masks(network, data, rows)
    return models.crop_boxes(network, data, rows) if outlines is None else outlines > 0


def train_head(
    maps: torch.Tensor, wanted: torch.Tensor, n_classes: int, epochs: int, seed: int
) -> nn.Sequential:
    """A head by cross-entropy, whose layer "0" passes on the maps: logits (N, K), or of cells (N, K, h, w).

    maps: (N, d, h, w). wanted: classes (N,) of pictures, or (N, h, w) of cells.
    seed: of its first weights, and of the order of the pictures.
    """
    of_cells = wanted.ndim == 3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        linear = nn.Conv2d(maps.shape[1], n_classes, 1) if of_cells else nn.Linear(maps.shape[1], n_classes)
        linear = linear.to(maps.device)
        inputs = maps if of_cells else maps.mean((2, 3))
        optimiser = torch.optim.AdamW(linear.parameters(), lr=0.01, weight_decay=0.01)
        for _ in range(epochs):
            for batch in torch.randperm(len(maps)).to(maps.device).split(64):
                optimiser.zero_grad()
                F.cross_entropy(linear(inputs[batch]), wanted[batch]).backward()
                optimiser.step()
    mean = [] if of_cells else [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(nn.Identity(), *mean, linear).eval().requires_grad_(False)


def load_networks(
    names: Sequence[str],
    data: Dataset,
    n_fits: int = 1,
    epochs: int = 10,
    seed: int = 0,
    device: torch.device | str = "cpu",
    **options: Sequence[str],
) -> dict[str, Compared]:
    """Networks by name; heads are trained on the training split, `n_fits` times each.

    names: as of `models.load_backbone`, "segmenter/…" or "classifier/…" with such a name, or files of maps.
    epochs, seed: of the heads.
    options: files of weights, class_names and same_as, and names of layer, for each network or for the first
        ones; "" takes the usual.
    Returns them by name, files of maps without folder and ending.
    Raises ParameterError: more options than networks, two of one name. ModelError as `load_backbone`,
        `target_class_names` and `match_labels`. SaliencyError: a segmenter on data that do not say where
        objects are.
    """
    for what, given in options.items():
        if len(given) > len(names):
            raise ParameterError(f"{what} names {len(given)}, for {len(names)} networks: one for each")
    networks, maps_of, objects, found = {}, {}, {}, {}
    train = np.flatnonzero(data.images.train)
    for n, name in enumerate(names):
        of = defaultdict(str, {what: given[n] for what, given in options.items() if n < len(given)})
        backbone, of_cells, heads = backbone_of(name), name.startswith(SEGMENTER), []
        if backbone not in networks:
            view = picture_view(name) if Path(name).suffix == ".npz" else None
            about = {"device": device, "data": data}
            networks[backbone] = view or models.load_backbone(backbone, of["weights"], **about)
        network = networks[backbone]
        outputs = ["background", *data.class_names] if of_cells else list(data.class_names)
        if name != backbone:
            if backbone not in maps_of:
                files = data.images["path"].iloc[train].tolist()
                maps_of[backbone] = models.extract_features(network, files).maps.to(device)
            maps, wanted = maps_of[backbone], data.labels[train]
            if of_cells:
                view = str(np.divide(network.resize, network.crop))  # what of a picture is seen
                if view not in objects:
                    objects[view] = objects_in(network, data, train)
                if not objects[view].any():
                    raise SaliencyError(f"{name}: {data.name} does not say where its objects are")
                covered = F.adaptive_avg_pool2d(objects[view][:, None].float(), maps.shape[2:])[:, 0]
                wanted = torch.where(covered >= 0.5, 1 + wanted[:, None, None], 0)
            about = maps, wanted.to(device), len(outputs), epochs
            heads = [train_head(*about, seed + draw) for draw in range(n_fits)]
        elif network.model is not None:
            outputs = models.target_class_names(network, data, of["class_names"])
            network = replace(network, layer=of["layer"] or network.layer)
        is_segmenter = of_cells or name.removeprefix("torchvision/") in models.segmenters()
        kind = "segmentation" if is_segmenter else "classification"
        if network.model is None:
            name = backbone = Path(name).stem
        if name in found:
            raise ParameterError(f"two of the networks are {name}: name each once")
        matched = models.match_labels(outputs, data.class_names, of["same_as"])
        found[name] = Compared(name, kind, backbone, network, outputs, matched, heads)
    return found


class Attended(NamedTuple):
    """What networks say of N pictures, and where they look for it.

    Columns of the cases, a row for each network, draw and picture:

    network, kind, backbone, draw   who, as of `Compared`
    row, place, label               picture: its row in the data, its place among those asked about, its label
    predicted, name, number         class that is predicted; the one whose map this is, by name and by output
    right, nothing                  whether the prediction is the label; whether there is no attention: of a
                                    constant map, or of background
    """

    explained: Mapping[str, Compared]
    cases: pd.DataFrame
    maps: dict[tuple[str, int], torch.Tensor]  # (name, draw) -> (N, h, w)
    pixels: dict[str, torch.Tensor]  # backbone -> (N, 3, H, W) uint8

    def by_map(self) -> list[tuple[Compared, pd.DataFrame, torch.Tensor, torch.Tensor]]:
        """Of each network and draw: who, its cases, maps and pixels."""
        found, tables = [], self.cases.groupby(["network", "draw"], sort=False)
        for (name, draw), cases in tables:
            one = self.explained[name]
            found.append((one, cases, self.maps[name, draw], self.pixels[one.backbone]))
        return found

    def energy(self) -> dict[str, torch.Tensor]:
        """Where a backbone's layer responds, whatever the class, (N, h, w) each; 0 of files of maps."""
        found = {}
        for one in self.explained.values():
            pixels = self.pixels[one.backbone]
            if one.network.model is None:
                found[one.backbone] = torch.zeros(len(pixels), 1, 1)
            elif one.backbone not in found:
                about = one.network, network_inputs(one.network, pixels)
                found[one.backbone] = null_maps(*about, "energy", batch_size=BATCH).cpu()
        return found

    def shown(self, kind: str, alpha: float = 25.0, beta: float = 0.4) -> list[Image.Image]:
        """What a judge is shown of each map, in the order of the cases; kind: as of `judge_images`."""
        pictures = []
        for _, _, maps, pixels in self.by_map():
            pictures += judge_images(pixels, maps, kind, alpha, beta)
        return pictures


def attend_all(
    explained: Mapping[str, Compared],
    data: Dataset,
    rows: Sequence[int],
    method: str = "gradcam",
    asked: str = "predicted",
    all_pixels: bool = False,
) -> Attended:
    """What all networks say of the pictures at `rows`, by every draw.

    Methods that mask the picture mask the maps that a head is shown.

    asked: the class that a segmenter is asked about, the "predicted" one or, as in the authors' code, the
        image's "label". all_pixels: as of `score_classes`.
    Raises OwnModelError: a file of maps without predictions; and what `attention_maps` and `own_maps` raise.
    """
    files = data.images["path"].iloc[np.asarray(rows)].tolist()
    labels = [data.class_names[label] if label >= 0 else "" for label in data.labels[rows].tolist()]
    tables, maps, pixels = [], {}, {}
    for name, one in explained.items():
        network, names = one.network, one.names
        if one.backbone not in pixels:
            pixels[one.backbone] = models.read_pixels(network, files)
        for draw in range(max(1, len(one.heads))):
            if network.model is None:
                found, names = own_maps(network.name, data, rows, network)
                if (found.classes < 0).any():
                    raise OwnModelError(
                        f"{network.name}: maps without predictions: attention is judged for the class that "
                        "was predicted. Add the names of the predicted classes, one for each image, as "
                        "`predicted`"
                    )
            else:
                model, layer, inputs = network, "", network_inputs(network, pixels[one.backbone])
                if one.heads:
                    model, layer = one.heads[draw], "0"
                    inputs = models.extract_features(network, files).maps.to(inputs.device)
                about = {"layer": layer, "batch_size": BATCH, "all_pixels": all_pixels}
                attend = partial(attention_maps, model, inputs, method, **about)
                found = attend()
            predicted = found.classes.tolist()
            if asked == "label" and one.kind == "segmentation":
                found = attend(torch.tensor([min(one.outputs[label]) for label in labels]))
            table = pd.DataFrame({"row": np.asarray(rows), "place": range(len(labels)), "label": labels})
            table = table.assign(network=name, kind=one.kind, backbone=one.backbone, draw=draw)
            table["number"] = found.classes.tolist()
            table["predicted"] = [names[number] for number in predicted]
            table["name"] = [names[number] for number in table.number]
            told = zip(predicted, labels, strict=True)
            table["right"] = [number in one.outputs.get(label, ()) for number, label in told]
            is_background = (one.kind == "segmentation") & table.number.eq(0)
            table["nothing"] = found.constant.cpu().numpy() | is_background
            tables.append(table)
            maps[name, draw] = found.maps.cpu()
    return Attended(explained, pd.concat(tables, ignore_index=True), maps, pixels)
