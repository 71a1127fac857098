"""What networks say of the same pictures, and where they look for it (paper autoxplain, 4.1 and 4.3).

A row for each network, draw and picture:

| column | meaning |
|---|---|
| network, kind, backbone, draw | who, as of `Explained` |
| row, place, label | picture: its row in the data, its place among those asked about, its label |
| predicted, name, number | class that is predicted; the one whose map this is, by name and by output |
| right | whether the prediction is the label |
| nothing | whether there is no attention: of a constant map, or of background |

A map's light is what keeps half of it or more under the mask of equation 1. Of it are known, by `lit_cases`:

| column | meaning |
|---|---|
| image, item | the picture, and the map as the name of an item that people rate |
| object, right_name | the class in plain words, and whether it reads as the label |
| area, distance, brightness | lit share of the picture; mean distance of the light from the middle, in half |
| | sides; mean of the masked picture in [0, 1] |
| confidence | the network's probability of the class; NaN where it sees no pixels |
| overlap, coverage, precision | of attention and object, as of `soft_iou`; of the lit pixels; NaN where |
| | nobody knows the object |
| parts | share of each visible part that is lit, a dictionary; empty where nobody knows them |
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from PIL import Image

from xaihelpers.datasets import Dataset, class_name
from xaihelpers.kernels.masking import attention_mask, mask_images, upsample_maps
from xaihelpers.models import crop_masks, extract_features, read_pixels
from xaihelpers.models.layers import logits_of
from xaihelpers.own_model import OwnModelError
from xaihelpers.saliency.explained import Explained
from xaihelpers.saliency.hooks import network_inputs
from xaihelpers.saliency.judging import judge_images
from xaihelpers.saliency.methods import attention_maps
from xaihelpers.saliency.nulls import null_maps
from xaihelpers.saliency.own_maps import own_maps
from xaihelpers.saliency.perturbation import perturb
from xaihelpers.scores.autoxplain import soft_iou
from xaihelpers.text_files import plain
from xaihelpers.yardsticks.statements import lit_shares

BATCH = 16
SIDE = 64  # of the lit pixels that are returned, one size for all networks
MEASURES = ["deletion and insertion", "average drop", "AOPC"]


class Attended(NamedTuple):
    """What networks say of N pictures, and where they look for it."""

    explained: Mapping[str, Explained]
    cases: pd.DataFrame  # the first table of the module docstring
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
    """The first table of the module docstring for one network and draw, and its maps (n, h, w).

    Methods that mask the picture mask the maps that a head is shown.

    asked: the class that a segmenter is asked about, the "predicted" one or, as in the authors' code, the
        image's "label". all_pixels: as of `score_classes`.
    Raises OwnModelError: a file of maps without predictions; and what `attention_maps` and `own_maps` raise.
    """
    files, names = data.images["path"].iloc[np.asarray(rows)].tolist(), one.names
    labels = [data.class_names[label] if label >= 0 else "" for label in data.labels[rows].tolist()]
    if one.network.model is None:
        found, names = own_maps(one.network.name, data, rows, one.network)
        if (found.classes < 0).any():
            raise OwnModelError(
                f"{one.network.name}: maps without predictions: attention is judged for the class that was "
                "predicted. Add the names of the predicted classes, one for each image, as `predicted`"
            )
    else:
        model, layer, inputs = one.network, "", network_inputs(one.network, read_pixels(one.network, files))
        if one.heads:
            model, layer = one.heads[draw], "0"
            inputs = extract_features(one.network, files).maps.to(inputs.device)
        how = {"layer": layer, "batch_size": BATCH, "all_pixels": all_pixels}
        found = attention_maps(model, inputs, method, **how)
    predicted = found.classes.tolist()
    if asked == "label" and one.kind == "segmentation":
        wanted = torch.tensor([min(one.outputs[label]) for label in labels])
        found = attention_maps(model, inputs, method, wanted, **how)
    asked_about = found.classes.tolist()
    is_background = [one.kind == "segmentation" and number == 0 for number in asked_about]
    table = pd.DataFrame({"row": np.asarray(rows), "place": range(len(labels)), "label": labels})
    table = table.assign(network=one.name, kind=one.kind, backbone=one.backbone, draw=draw)
    table["predicted"] = [names[number] for number in predicted]
    table["name"] = [names[number] for number in asked_about]
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
    for one in seen.explained.values():
        pixels = seen.pixels[one.backbone]
        if one.network.model is None:
            energy[one.backbone] = torch.zeros(len(pixels), 1, 1)
        elif one.backbone not in energy:
            about = {"batch_size": BATCH, "names": ["energy"]}
            found = null_maps(one.network, network_inputs(one.network, pixels), **about)
            energy[one.backbone] = found["energy"].cpu()
    return energy


def shown_pictures(seen: Attended, kind: str, alpha: float = 25.0, beta: float = 0.4) -> list[Image.Image]:
    """What a judge is shown of each map, in the order of the cases; kind: as of `judge_images`."""
    pictures = []
    for _, _, maps, pixels in seen.by_map():
        pictures += judge_images(pixels, maps, kind, alpha, beta)
    return pictures


@torch.no_grad()
def lit_cases(
    seen: Attended, data: Dataset, alpha: float = 25.0, beta: float = 0.4
) -> tuple[pd.DataFrame, torch.Tensor]:
    """The cases with both tables' columns, and the lit pixels (cases, SIDE, SIDE) bool."""
    found, lit_pixels = [], []
    for one, cases, maps, pixels in seen.by_map():
        upsampled = upsample_maps(maps, pixels.shape[2:])
        lit, light = upsampled >= beta, attention_mask(upsampled, alpha, beta)
        y, x = (torch.linspace(-1, 1, side) for side in light.shape[1:])
        away = torch.hypot(y[:, None], x[None])
        pictures = mask_images(pixels, maps, alpha=alpha, beta=beta)
        values = {
            "area": lit.float().mean((1, 2)),
            "distance": (light * away).sum((1, 2)) / light.sum((1, 2)),
            "brightness": pictures.float().mean((1, 2, 3)) / 255,
        }
        for name in ("confidence", "overlap", "coverage", "precision"):
            values[name] = torch.full((len(cases),), torch.nan)
        if one.sees_pixels:
            inputs = (network_inputs(one.network, part) for part in pixels.split(BATCH))
            logits = torch.cat([logits_of(one.network.model(part)).cpu() for part in inputs])
            logits = logits.mean((2, 3)) if logits.dim() == 4 else logits  # of a segmenter
            values["confidence"] = logits.softmax(1)[range(len(logits)), cases.number.tolist()]
        masks, parts = crop_masks(one.network, data, cases.row), [{} for _ in range(len(cases))]
        if masks is not None:
            thing = masks > 0
            both = (lit & thing).sum((1, 2))
            values["overlap"] = soft_iou(upsampled, thing)
            values |= {"coverage": both / thing.sum((1, 2)), "precision": both / lit.sum((1, 2))}
            pairs = zip(masks, lit, strict=True)
            parts = [lit_shares(mask, shown, data.mask_names) for mask, shown in pairs]
        values = {name: of.numpy() for name, of in values.items()}
        found.append(cases.assign(**values, parts=parts))
        lit_pixels.append(F.interpolate(lit[:, None].float(), (SIDE, SIDE))[:, 0] > 0.5)
    cases = pd.concat(found)
    files = data.images.path.iloc[cases.row].map(Path)
    inside = [file.relative_to(data.root) if file.is_relative_to(data.root) else file for file in files]
    cases["image"] = [file.with_suffix("").as_posix() for file in inside]
    cases["item"] = (cases.network.str.replace("/", " ") + " " + cases.image).map(plain)
    cases["object"] = cases.name.map(class_name)
    return cases.assign(right_name=cases.object == cases.label), torch.cat(lit_pixels)


def measures(seen: Attended, steps: int, n_images: int, **how) -> pd.DataFrame:
    """What the measures that ask the network say of each map: MEASURES, all turned so that high is good.

    steps: of the curves. n_images: of how many images of each network; the others have NaN, as have maps that
    show nothing, and those of whom sees no pixels. how: as of `perturb`.
    """
    frame = pd.DataFrame(np.nan, seen.cases.index, MEASURES)
    for one, cases, maps, pixels in seen.by_map():
        if not one.sees_pixels:
            continue
        inputs, some = network_inputs(one.network, pixels[:n_images]), cases[:n_images]
        classes = torch.tensor(some.number.to_numpy(), device=inputs.device)
        curves = perturb(one.network, inputs, maps[:n_images].to(inputs.device), classes, steps, BATCH, **how)
        gain = curves.insertion_auc - curves.deletion_auc
        if how.get("least_relevant_first"):  # backwards, the two curves change places
            gain = -gain
        frame.loc[some.index] = torch.stack([gain, -curves.average_drop, curves.aopc], 1).cpu().numpy()
    frame.loc[seen.cases.nothing] = np.nan
    return frame
