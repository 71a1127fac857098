"""Pooled features, last feature maps and logits of image files; each distinct image is embedded once."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from xaihelpers.models.cache import Rows, cached_rows, file_keys
from xaihelpers.models.image_network import ImageNetwork, cropped_pixels, feature_maps
from xaihelpers.models.weights import ModelError

# On CPUs so many images pass at once, the last ones filled up: convolutions then round an image alike in any
# batch, and what they compute stays in the processor's cache.
ROWS = 16
IMAGES = 64  # in a file of the cache


class Features(NamedTuple):
    """A backbone's outputs for N images, float32 on the CPU."""

    pooled: torch.Tensor  # (N, d), the mean of maps over H and W: f(X)
    maps: torch.Tensor | None  # (N, d, H, W): E; None where they were not asked for
    logits: torch.Tensor  # (N, K'), of the backbone's own head


def extract_features(backbone: ImageNetwork, paths: Sequence[str | Path], maps: bool = True) -> Features:
    """Features of image files, in the order given, from the cache where their content was embedded before.

    The cache (see `models.cache`) is keyed by the sha256 of the file, `backbone.identity` and the precision,
    and written batch by batch. On CUDA the network runs in mixed precision (float16; a batch that overflows
    is repeated in float32), on CPUs in float32, where an image's features do not depend on its batch, hence
    not on what the cache held and what ran beside.

    maps: False neither keeps nor stores the maps.
    Raises ModelError: no images, an image whose features are NaN or infinite, a segmenter. OSError or
        DatasetError: an image file that is missing or cannot be read.
    """
    device = next(backbone.model.parameters()).device
    files = [Path(path) for path in paths]
    precision = "float16" if device.type == "cuda" else f"float32 in batches of {ROWS}"
    shapes = {"pooled": (backbone.n_features,), "logits": (backbone.n_classes,)}
    if maps:
        shapes["maps"] = (backbone.n_features, *backbone.map_size)
    load, forward = partial(cropped_pixels, backbone), partial(_forward, backbone, device, maps)
    about = backbone.name, f"{backbone.identity} {precision}", file_keys(files), files, shapes
    rows = cached_rows(*about, load, forward, IMAGES, "image")
    return Features(rows["pooled"], rows.get("maps"), rows["logits"])


def _forward(backbone: ImageNetwork, device: torch.device, maps: bool, images: list[np.ndarray]) -> Rows:
    """Features of B images (crop, crop, 3) uint8."""
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    n = at_once = len(pixels)
    if device.type == "cpu":
        at_once = ROWS
        pixels = torch.cat([pixels, pixels[-1:].expand(-n % ROWS, -1, -1, -1)])
    with torch.inference_mode():
        inputs = backbone.normalised(pixels.to(device))
        for mixed in (True, False) if device.type == "cuda" else (False,):
            with torch.autocast(device.type, torch.float16, enabled=mixed):
                parts = [feature_maps(backbone, part) for part in inputs.split(at_once)]
            batch_maps, logits = (torch.cat(part)[:n].float() for part in zip(*parts, strict=True))
            if logits.ndim > 2:
                raise ModelError(f"{backbone.name} is a segmenter: features are taken from a classifier")
            if batch_maps.isfinite().all() and logits.isfinite().all():
                break
        rows = {"pooled": batch_maps.double().mean((2, 3)).float(), "logits": logits}
        if maps:
            rows["maps"] = batch_maps
        return {name: tensor.contiguous().cpu() for name, tensor in rows.items()}
