"""What networks say of the same pictures, and where they look for it (paper autoxplain, 4.1 and 4.3).

A row for each network, draw and picture:

| column | meaning |
|---|---|
| network, kind, backbone, draw | who, as of `Explained` |
| row, place, label | picture: its row in the data, its place among those asked about, its label |
| predicted, name, number | class that is predicted; the one whose map this is, by name and by output |
| right | whether the prediction is the label |
| nothing | whether there is no attention: of a constant map, or of background |
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from xaihelpers.datasets import Dataset
from xaihelpers.models import read_pixels
from xaihelpers.saliency.explained import BATCH, Explained, attend
from xaihelpers.saliency.judging import judge_images
from xaihelpers.saliency.nulls import null_maps


class Attended(NamedTuple):
    """What networks say of N pictures, and where they look for it."""

    explained: Mapping[str, Explained]
    cases: pd.DataFrame  # of the module docstring
    maps: dict[tuple[str, int], torch.Tensor]  # (name, draw) -> (N, h, w)
    pixels: dict[str, torch.Tensor]  # backbone -> (N, 3, H, W) uint8

    def by_map(self) -> list[tuple[Explained, pd.DataFrame, torch.Tensor, torch.Tensor]]:
        """Of each network and draw: who, its cases, maps and pixels."""
        found = []
        for (name, draw), maps in self.maps.items():
            one = self.explained[name]
            of_map = self.cases.network.eq(name) & self.cases.draw.eq(draw)
            found.append((one, self.cases[of_map], maps, self.pixels[one.backbone]))
        return found


def attention_cases(
    one: Explained,
    data: Dataset,
    rows: Sequence[int],
    method: str = "gradcam",
    draw: int = 0,
    asked: str = "predicted",
    all_pixels: bool = False,
) -> tuple[pd.DataFrame, torch.Tensor]:
    """The table of the module docstring for one network and draw, and its maps (n, h, w).

    asked: the class that a segmenter is asked about, the "predicted" one or, as in the authors' code, the
        image's "label". all_pixels: as of `score_classes`.
    """
    found = attend(one, data, rows, method, draw, None, all_pixels)
    predicted = found.classes.tolist()
    labels = [data.class_names[label] if label >= 0 else "" for label in data.labels[rows].tolist()]
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
    table["right"] = [number in one.outputs.get(label, ()) for number, label in told]
    table["nothing"] = found.constant.cpu().numpy() | np.array(is_background)
    return table.assign(number=asked_about), found.maps.cpu()


def attend_all(
    explained: Mapping[str, Explained], data: Dataset, rows: Sequence[int], method: str = "gradcam", **how
) -> Attended:
    """What all networks say of the pictures at `rows`, by every draw.

    explained: as of `load_explained`. how: asked and all_pixels, as of `attention_cases`.
    """
    files = data.images["path"].iloc[np.asarray(rows)].tolist()
    tables, maps, pixels = [], {}, {}
    for name, one in explained.items():
        if one.backbone not in pixels:
            pixels[one.backbone] = read_pixels(one.network, files)
        for draw in range(max(1, len(one.heads))):
            table, maps[name, draw] = attention_cases(one, data, rows, method, draw, **how)
            tables.append(table)
    return Attended(explained, pd.concat(tables, ignore_index=True), maps, pixels)


def energy_of(seen: Attended) -> dict[str, torch.Tensor]:
    """Where a backbone's layer responds, whatever the class, (N, h, w) by backbone; 0 of files of maps."""
    energy = {}
    for one, cases, _, pixels in seen.by_map():
        if one.backbone in energy:
            continue
        energy[one.backbone] = torch.zeros(len(cases), 1, 1)
        if one.network.model is not None:
            inputs = one.network.normalised(pixels.to(next(one.network.model.parameters()).device))
            about = {"classes": torch.zeros(len(cases), dtype=torch.int64), "names": ["energy"]}
            found = null_maps(one.network, inputs, batch_size=BATCH, **about)
            energy[one.backbone] = found["energy"].maps.cpu()
    return energy


def shown_pictures(seen: Attended, kind: str, alpha: float = 25.0, beta: float = 0.4) -> list[Image.Image]:
    """What a judge is shown of each map, in the order of the cases; kind: as of `judge_images`."""
    pictures = []
    for _, _, maps, pixels in seen.by_map():
        pictures += judge_images(pixels, maps, kind, alpha, beta)
    return pictures
