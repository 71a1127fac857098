"""Networks by name as they are explained side by side: whole ones, linear heads trained here, files of maps.

A head is one linear layer theta on the frozen feature maps A (N, d, h, w) of a network, its backbone:

    classifier/NAME   S_c = theta_c . mean over cells of A + b_c    trained for the class of the picture
    segmenter/NAME    z_cx = theta_c . A_x + b_c in each cell x     trained for the class that covers the cell

so that two heads on one backbone differ in the task of a layer and in nothing else (paper autoxplain, section
4.3, compares networks that differ in everything). Of a segmenter, output 0 is the background.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from xaihelpers.datasets import Dataset
from xaihelpers.models import (
    ImageNetwork,
    crop_boxes,
    crop_masks,
    extract_features,
    load_backbone,
    match_labels,
    segmenters,
    target_class_names,
)
from xaihelpers.parameters import ParameterError
from xaihelpers.saliency.hooks import SaliencyError
from xaihelpers.saliency.own_maps import picture_view

SEGMENTER, CLASSIFIER = "segmenter/", "classifier/"


@dataclass(eq=False)
class Explained:
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


def backbone_of(name: str) -> str:
    """The name of the network that a head stands on; of any other its own."""
    return name.removeprefix(SEGMENTER).removeprefix(CLASSIFIER)


def objects_in(network: ImageNetwork, data: Dataset, rows: Sequence[int]) -> torch.Tensor:
    """Where objects are as a network crops pictures, (n, crop, crop) bool: outlines, boxes, or no pixel."""
    outlines = crop_masks(network, data, rows)
    return crop_boxes(network, data, rows) if outlines is None else outlines > 0


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


def load_explained(
    names: Sequence[str],
    data: Dataset,
    draws: int = 1,
    epochs: int = 10,
    seed: int = 0,
    device: torch.device | str = "cpu",
    size: int = 0,
    **options: Sequence[str],
) -> dict[str, Explained]:
    """Networks by name; heads are trained on the training split, `draws` times each.

    names: as of `models.load_backbone`, "segmenter/…" or "classifier/…" with such a name, or files of maps.
    epochs, seed: of the heads. size: of the input of torchvision's segmenters.
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
            networks[backbone] = view or load_backbone(
                backbone, of["weights"], device=device, data=data, size=size
            )
        network = networks[backbone]
        outputs = ["background", *data.class_names] if of_cells else list(data.class_names)
        if name != backbone:
            if backbone not in maps_of:
                files = data.images["path"].iloc[train].tolist()
                maps_of[backbone] = extract_features(network, files).maps.to(device)
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
            heads = [train_head(*about, seed + draw) for draw in range(draws)]
        elif network.model is not None:
            outputs = target_class_names(network, data, of["class_names"])
            network = replace(network, layer=of["layer"] or network.layer)
        is_segmenter = of_cells or name.removeprefix("torchvision/") in segmenters()
        kind = "segmentation" if is_segmenter else "classification"
        if network.model is None:
            name = backbone = Path(name).stem
        if name in found:
            raise ParameterError(f"two of the networks are {name}: name each once")
        matched = match_labels(outputs, data.class_names, of["same_as"])
        found[name] = Explained(name, kind, backbone, network, outputs, matched, heads)
    return found
