"""Pooled features, last feature maps and logits of image files, each distinct image decoded and embedded once."""
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..devices import device_of
from ..store import cached_rows, content_key
from .loading import Backbone, feature_maps
from .weights import BackboneError


class Features(NamedTuple):
    """What a backbone makes of N images, float32 on the CPU."""

    pooled: torch.Tensor  # (N, d), the mean of maps over H and W: f(X)
    maps: torch.Tensor | None  # (N, d, H, W): E
    logits: torch.Tensor  # (N, K'), of the backbone's own head


def embed(backbone: Backbone, paths: Sequence[str | Path], device: str | torch.device = "", batch_size: int = 64,
          maps: bool = True) -> Features:
    """Features of image files, in the order given, from the cache where their content was embedded before.

    `device`: "" is where the backbone is; the network is moved there otherwise. On CUDA it runs in mixed precision
    (float16; a batch that overflows is repeated in float32), on CPUs in float32. `maps=False` neither keeps nor stores
    the maps. The cache, `features/` in `paths.cache_home()`, is keyed by the sha256 of the file, `backbone.identity` and
    the precision, and written batch by batch; processes that want the same images at the same time share the work.
    If it cannot be written, one line says so. Raises BackboneError naming the image whose features are NaN or infinite,
    BirdsError naming one that cannot be read; what was computed before stays in the cache.
    """
    device = device_of(device, BackboneError) if str(device) else next(backbone.model.parameters()).device
    backbone.model.to(device)
    files = [Path(path) for path in paths]
    if not files or batch_size < 1:
        raise BackboneError(f"embed needs at least one image and a batch size of 1 or more, not {len(files)} and {batch_size}.")
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(_content_hash, files))
    file_of = {}
    for key, file in zip(keys, files, strict=True):
        file_of.setdefault(key, file)  # the first file of each content
    row_of = {key: row for row, key in enumerate(file_of)}
    precision = "float16" if device.type == "cuda" else "float32"
    shapes = {"pooled": (backbone.n_features,), "logits": (backbone.n_classes,)} | ({"maps": (backbone.n_features, *backbone.map_size)} if maps else {})
    out = cached_rows(
        backbone.name, f"{backbone.identity} {precision}", file_of, shapes, lambda file: _pixels(backbone, file),
        lambda pixels: _forward(backbone, device, torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2), maps),
        lambda file, bad, batch: BackboneError(f"{file}: {backbone.name} gives NaN or infinite features for {bad} of {batch} images, this one first: "
                                               "check the weights and the image."), batch_size, "image")
    if len(files) > len(row_of):
        print(f"{len(files) - len(row_of)} of {len(files)} files repeat another's content")
        rows = torch.tensor([row_of[key] for key in keys])
        out = {name: tensor[rows] for name, tensor in out.items()}
    return Features(out["pooled"], out.get("maps"), out["logits"])


def _pixels(backbone: Backbone, file: Path) -> np.ndarray:
    """Only Pillow's work: torch operations in several threads would each start a team of threads of their own."""
    from ..birds import load_image

    return np.array(backbone.cropped(load_image(file)))


def _forward(backbone, device, pixels, maps) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Features of one batch on the CPU, and which of its rows are not finite (B,)."""
    with torch.inference_mode():
        inputs = backbone.normalised(pixels.to(device))
        for mixed in ((True, False) if device.type == "cuda" else (False,)):
            with torch.autocast(device.type, torch.float16, enabled=mixed):
                e, logits = feature_maps(backbone, inputs)
            e, logits = e.float(), logits.float()
            bad = ~(e.flatten(1).isfinite().all(1) & logits.isfinite().all(1))
            if not bad.any():
                break
        rows = {"pooled": e.mean((2, 3)), "logits": logits} | ({"maps": e} if maps else {})
        return {name: tensor.contiguous().cpu() for name, tensor in rows.items()}, bad.cpu()


def read_pixels(backbone: Backbone, paths: Sequence[str | Path]) -> torch.Tensor:
    """Images as the backbone crops them, (N, 3, crop, crop) uint8. Raises BirdsError naming one that cannot be read."""
    from tqdm.auto import tqdm

    pixels = torch.empty(len(paths), 3, backbone.crop, backbone.crop, dtype=torch.uint8)
    for row, path in enumerate(tqdm(paths, desc="reading pixels", leave=False, delay=1)):
        pixels[row] = torch.from_numpy(_pixels(backbone, path)).permute(2, 0, 1)
    return pixels


def _content_hash(file: Path) -> str:
    try:
        return content_key(file.read_bytes())
    except OSError as error:
        raise BackboneError(f"{file}: image file cannot be read ({error.strerror}). "
                            "Restore it, or drop it from the list.") from error
