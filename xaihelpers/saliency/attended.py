"""What networks attend to in the same images: a row for each network's map, with what is known of its light.

Paper autoxplain, section 4.1. A map's light is what keeps half of it or more under the mask of equation 1.

| column | meaning |
|---|---|
| network, image, item | whose map of which image, and both as the name of an item that people rate |
| object, label, right_name | predicted class and label in plain words, and whether they agree |
| constant | whether the map is the same everywhere and shows nothing |
| area, distance, brightness | lit share of the picture; mean distance of the light from the middle, in half |
| | sides; mean of the masked picture in [0, 1] |
| confidence | the network's probability of the class; NaN where only its maps are known |
| overlap, coverage, precision | of attention and object, as of `soft_iou`; of the lit pixels; NaN where |
| | nobody knows the object |
| parts | share of each visible part that is lit, a dictionary; empty where nobody knows them |
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from xaihelpers.datasets import Dataset, class_name
from xaihelpers.kernels.masking import attention_mask, mask_images, upsample_maps
from xaihelpers.models import crop_masks, load_target, read_pixels, target_class_names
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.layers import logits_of
from xaihelpers.parameters import ParameterError
from xaihelpers.saliency.judging import judge_images
from xaihelpers.saliency.methods import AttentionMaps, attention_maps
from xaihelpers.saliency.own_maps import is_own_maps, own_attention, picture_view
from xaihelpers.saliency.perturbation import perturb
from xaihelpers.scores.autoxplain import soft_iou
from xaihelpers.text_files import plain
from xaihelpers.yardsticks.statements import lit_shares

SIDE = 64  # of the lit pixels that are returned, one size for all networks
BATCH = 16
MEASURES = ["deletion and insertion", "average drop", "AOPC"]


class View(NamedTuple):
    """A network's view of N images: its crop of them, and what it attends to there."""

    target: ImageNetwork
    pixels: torch.Tensor  # (N, 3, H, W) uint8
    maps: AttentionMaps
    names: Sequence[str]  # of its classes


def views_of(
    networks: Sequence[str],
    dataset: Dataset,
    rows: np.ndarray,
    method: str,
    device: torch.device,
    **options: Sequence[str],
) -> dict[str, View]:
    """The views of networks by their names, a file of maps by its stem.

    rows: (N,), which images. method: of `attention_maps`.
    options: weights, class_names and layer, for each network or for the first ones; "" takes the usual.
    Raises ParameterError: more options than networks, two networks of one name. Others as `load_target`.
    """
    for what, given in options.items():
        if len(given) > len(networks):
            raise ParameterError(f"{what} names {len(given)}, for {len(networks)} networks: one for each")
    files, views = [Path(path) for path in dataset.images.path.iloc[rows]], {}
    for n, network in enumerate(networks):
        of = {what: given[n] if n < len(given) else "" for what, given in options.items()}
        name = Path(network).stem if is_own_maps(network) else network
        if name in views:
            raise ParameterError(f"two of the networks are {name}: name each once")
        if is_own_maps(network):
            target = picture_view(network)
            maps, names = own_attention(network, dataset, rows, target, device)
            pixels = read_pixels(target, files).to(device)
        else:
            target = load_target(network, of.get("weights", ""), device, dataset)
            names = target_class_names(target, dataset, of.get("class_names", ""))
            pixels = read_pixels(target, files).to(device)
            how = {"layer": of.get("layer", ""), "batch_size": BATCH}
            maps = attention_maps(target, target.normalised(pixels), method, **how)
        views[name] = View(target, pixels, maps, names)
    return views


def attended_cases(
    views: dict[str, View], dataset: Dataset, rows: np.ndarray, alpha: float = 25.0, beta: float = 0.4
) -> tuple[pd.DataFrame, torch.Tensor]:
    """The table of the module docstring, network by network, and the lit pixels (maps, SIDE, SIDE) bool."""
    labels = [dataset.class_names[k] if k >= 0 else "" for k in dataset.labels[rows].tolist()]
    images = [_image_name(Path(path), dataset.root) for path in dataset.images.path.iloc[rows]]
    cases, lit = [], []
    for name, view in views.items():
        found, of_view = _light(view, dataset, rows, alpha, beta)
        objects = [class_name(view.names[k]) for k in view.maps.classes.tolist()]
        found = found.assign(network=name, image=images, label=labels, object=objects)
        found["item"] = [plain(f"{name.replace('/', ' ')} {image}") for image in images]
        cases.append(found.assign(constant=view.maps.constant.cpu().numpy(), confidence=_confidence(view)))
        lit.append(torch.nn.functional.interpolate(of_view[:, None].float(), (SIDE, SIDE))[:, 0] > 0.5)
    cases = pd.concat(cases, ignore_index=True)
    return cases.assign(right_name=cases["object"] == cases["label"]), torch.cat(lit)


def _image_name(file: Path, root: Path) -> str:
    """The image's path within the data set, without suffix."""
    inside = file.relative_to(root) if file.is_relative_to(root) else file
    return inside.with_suffix("").as_posix()


def _light(view: View, dataset: Dataset, rows: np.ndarray, alpha: float, beta: float):
    """What is lit of each map, and where; and the lit pixels (N, H, W) bool."""
    upsampled = upsample_maps(view.maps.maps, view.pixels.shape[2:]).cpu()
    lit, light = upsampled >= beta, attention_mask(upsampled, alpha, beta)
    y, x = (torch.linspace(-1, 1, side) for side in light.shape[1:])
    away = torch.hypot(y[:, None], x[None])
    pictures = mask_images(view.pixels, view.maps.maps, alpha=alpha, beta=beta)
    values = {
        "area": lit.float().mean((1, 2)),
        "distance": (light * away).sum((1, 2)) / light.sum((1, 2)),
        "brightness": pictures.float().mean((1, 2, 3)).cpu() / 255,
    }
    parts = crop_masks(view.target, dataset, rows)
    if parts is None:
        values |= dict.fromkeys(["overlap", "coverage", "precision"], torch.full((len(lit),), torch.nan))
        shares = [{} for _ in range(len(lit))]
    else:
        thing = parts > 0
        both = (lit & thing).sum((1, 2))
        values["overlap"] = soft_iou(upsampled, thing)
        values |= {"coverage": both / thing.sum((1, 2)), "precision": both / lit.sum((1, 2))}
        pairs = zip(parts, lit, strict=True)
        shares = [lit_shares(of_parts, shown, dataset.mask_names) for of_parts, shown in pairs]
    return pd.DataFrame({name: of.numpy() for name, of in values.items()}).assign(parts=shares), lit


@torch.no_grad()
def _confidence(view: View) -> np.ndarray:
    """The network's probability of the class that it is asked about, (N,)."""
    if view.target.model is None:
        return np.full(len(view.pixels), np.nan)
    found = []
    for pixels, classes in zip(view.pixels.split(BATCH), view.maps.classes.split(BATCH), strict=True):
        logits = logits_of(view.target.model(view.target.normalised(pixels)))
        logits = logits.mean((2, 3)) if logits.dim() == 4 else logits  # of a segmenter
        found.append(logits.softmax(1).gather(1, classes[:, None].long())[:, 0].cpu())
    return torch.cat(found).numpy()


def shown_pictures(
    views: dict[str, View], kind: str, alpha: float = 25.0, beta: float = 0.4
) -> list[Image.Image]:
    """What a judge is shown of each map, in the order of `attended_cases`; kind: as of `judge_images`."""
    pictures = []
    for view in views.values():
        pictures += judge_images(view.pixels, view.maps.maps, kind, alpha, beta)
    return pictures


def measures(views: dict[str, View], steps: int, n_images: int, **how) -> pd.DataFrame:
    """What the measures that ask the network say of each map: MEASURES, all turned so that high is good.

    steps: of the curves. n_images: of how many images of each network; the others have NaN, as have constant
    maps and networks that are known by their maps alone. how: as of `perturb`.
    """
    found = []
    for view in views.values():
        frame = pd.DataFrame(np.nan, range(len(view.pixels)), MEASURES)
        some = slice(0, n_images)
        if view.target.model is not None:
            inputs = view.target.normalised(view.pixels[some])
            asked = view.target, inputs, view.maps.maps[some], view.maps.classes[some]
            curves = perturb(*asked, steps, BATCH, **how)
            gain = curves.insertion_auc - curves.deletion_auc
            if how.get("least_relevant_first"):  # backwards, the two curves change places
                gain = -gain
            values = torch.stack([gain, -curves.average_drop, curves.aopc], 1)
            frame.iloc[some] = values.cpu().numpy()
        frame.loc[view.maps.constant.cpu().numpy()] = np.nan
        found.append(frame)
    return pd.concat(found, ignore_index=True)
