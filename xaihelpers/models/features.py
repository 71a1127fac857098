"""Pooled features, last feature maps and logits of image files; each distinct image is embedded once."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm

from xaihelpers.datasets.images import load_image
from xaihelpers.devices import resolve_device
from xaihelpers.models.backbones import Backbone, feature_maps
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.models.weights import ModelError
from xaihelpers.store.rows import Rows, cached_rows, content_key

log = logging.getLogger(__name__)
READERS = 8  # threads that read and hash image files
# On CPUs so many images pass at once, the last ones filled up: convolutions then round an image alike in any
# batch, and what they compute stays in the processor's cache.
ROWS = 16


class Features(NamedTuple):
    """A backbone's outputs for N images, float32 on the CPU."""

    pooled: torch.Tensor  # (N, d), the mean of maps over H and W: f(X)
    maps: torch.Tensor | None  # (N, d, H, W): E; None where they were not asked for
    logits: torch.Tensor  # (N, K'), of the backbone's own head


def extract_features(
    backbone: Backbone,
    paths: Sequence[str | Path],
    device: str | torch.device = "",
    batch_size: int = 64,
    maps: bool = True,
) -> Features:
    """Features of image files, in the order given, from the cache where their content was embedded before.

    The cache, `features/` in `paths.cache_home()`, is keyed by the sha256 of the file, `backbone.identity`
    and the precision, and written batch by batch; processes that want the same images at the same time share
    the work. If it cannot be written, that is logged. After an error, what was computed before stays in it.

    device: "" is where the backbone is; to another one the network is moved. On CUDA it runs in mixed
        precision (float16; a batch that overflows is repeated in float32), on CPUs in float32, where an
        image's features do not depend on its batch, hence not on what the cache held and what ran beside.
    maps: False neither keeps nor stores the maps.
    Raises ModelError: no images, a batch size below 1, an unknown device, a file that is missing, an image
        whose features are NaN or infinite.
    Raises DatasetError naming an image that cannot be read.
    """
    device = resolve_device(device, ModelError) if str(device) else next(backbone.model.parameters()).device
    backbone.model.to(device)
    files = [Path(path) for path in paths]
    if not files or batch_size < 1:
        raise ModelError(
            f"extract_features needs at least one image and a batch size of 1 or more, not {len(files)} "
            f"and {batch_size}."
        )
    keys = content_keys(files)
    file_of = {}
    for key, file in zip(keys, files, strict=True):
        file_of.setdefault(key, file)  # the first file of each content
    precision = "float16" if device.type == "cuda" else f"float32 in batches of {ROWS}"
    shapes = {"pooled": (backbone.n_features,), "logits": (backbone.n_classes,)}
    if maps:
        shapes["maps"] = (backbone.n_features, *backbone.map_size)

    def load(file: Path) -> np.ndarray:
        return _pixels(backbone, file)

    def forward(pixels: list[np.ndarray]) -> tuple[Rows, torch.Tensor]:
        return _forward(backbone, device, torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2), maps)

    def not_finite(file: Path, bad: int, size: int) -> ModelError:
        return ModelError(
            f"{file}: {backbone.name} gives NaN or infinite features for {bad} of {size} images, this one "
            "first: check the weights and the image."
        )

    rows = cached_rows(
        backbone.name,
        f"{backbone.identity} {precision}",
        file_of,
        shapes,
        load,
        forward,
        not_finite,
        batch_size,
        "image",
    )
    if len(files) > len(file_of):
        log.info("%d of %d files repeat another's content", len(files) - len(file_of), len(files))
        row_of = {key: row for row, key in enumerate(file_of)}
        order = torch.tensor([row_of[key] for key in keys])
        rows = {name: tensor[order] for name, tensor in rows.items()}
    return Features(rows["pooled"], rows.get("maps"), rows["logits"])


def _pixels(network: ImageNetwork, file: str | Path) -> np.ndarray:
    """The image as the network crops it, (crop, crop, 3) uint8.

    Only Pillow's work: torch operations in several threads would each start a team of threads of their own.
    """
    return np.array(network.cropped(load_image(file)))


def _forward(
    backbone: Backbone, device: torch.device, pixels: torch.Tensor, maps: bool
) -> tuple[Rows, torch.Tensor]:
    """Features of a batch (B, 3, crop, crop) uint8 on the CPU, and which of its rows are not finite (B,)."""
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
            bad = ~(batch_maps.flatten(1).isfinite().all(1) & logits.isfinite().all(1))
            if not bad.any():
                break
        rows = {"pooled": batch_maps.double().mean((2, 3)).float(), "logits": logits}
        if maps:
            rows["maps"] = batch_maps
        return {name: tensor.contiguous().cpu() for name, tensor in rows.items()}, bad.cpu()


def read_pixels(network: ImageNetwork, paths: Sequence[str | Path]) -> torch.Tensor:
    """Images as the network crops them, (N, 3, crop, crop) uint8.

    Raises DatasetError naming one that cannot be read.
    """
    pixels = torch.empty(len(paths), 3, network.crop, network.crop, dtype=torch.uint8)
    for row, path in enumerate(tqdm(paths, desc="reading pixels", leave=False, delay=1)):
        pixels[row] = torch.from_numpy(_pixels(network, path)).permute(2, 0, 1)
    return pixels


def content_keys(files: Sequence[Path]) -> list[str]:
    """The key of each file's content in the caches.

    Raises ModelError naming a file that cannot be read.
    """
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(_content_key, files))


def _content_key(file: Path) -> str:
    try:
        return content_key(file.read_bytes())
    except OSError as error:
        raise ModelError(
            f"{file}: image file cannot be read ({error.strerror}). Restore it, or drop it from the list."
        ) from error
