"""Pooled features, last feature maps and logits of image files, each distinct image decoded and embedded once."""
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm

from .loading import Backbone, _device, feature_maps
from .store import claim, read_shards, shard_folder, write_shard
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
    device = _device(device) if str(device) else next(backbone.model.parameters()).device
    backbone.model.to(device)
    files = [Path(path) for path in paths]
    if not files or batch_size < 1:
        raise BackboneError(f"embed needs at least one image and a batch size of 1 or more, not {len(files)} and {batch_size}.")
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(_content_hash, files))
    file_of = dict(zip(reversed(keys), reversed(files), strict=True))  # the first file of each content
    row_of = {key: row for row, key in enumerate(dict.fromkeys(keys))}

    out = {"pooled": torch.empty(len(row_of), backbone.n_features), "logits": torch.empty(len(row_of), backbone.n_classes)}
    if maps:
        out["maps"] = torch.empty(len(row_of), backbone.n_features, *backbone.map_size)
    precision = "float16" if device.type == "cuda" else "float32"
    folder, seen, wanted = shard_folder(backbone.name, f"{backbone.identity} {precision}"), set(), dict(row_of)
    read_shards(folder, wanted, out, seen)
    computed = _compute(backbone, device, file_of, wanted, out, folder, seen, batch_size) if wanted else 0
    repeats = len(files) - len(row_of)
    print(f"features: {len(row_of) - computed} from the cache, {computed} computed"
          + (f" ({repeats} of {len(files)} files repeat another's content)" if repeats else ""))
    if repeats:
        rows = torch.tensor([row_of[key] for key in keys])
        out = {name: tensor[rows] for name, tensor in out.items()}
    return Features(out["pooled"], out.get("maps"), out["logits"])


def _compute(backbone, device, file_of, wanted, out, folder, seen, batch_size) -> int:
    """Fill the rows that the cache lacks, batch by batch; returns how many were computed here."""
    computed, writable = 0, True
    parts = {}  # sixteenths by content: what processes side by side divide among themselves
    for key in wanted:
        parts.setdefault(key[0], []).append(key)
    # decoding threads: as many as torch may use, so that limits set for processes side by side hold here too
    pool = ThreadPoolExecutor(torch.get_num_threads())
    with pool, tqdm(total=len(wanted), desc=backbone.name, unit="image", leave=False, delay=1) as bar:
        while parts:
            with ExitStack() as held:
                taken = []
                for part in list(parts):
                    if len(taken) < 2 * batch_size and (claimed := claim(folder, part, wait=False)):
                        held.enter_context(claimed)
                        taken += parts.pop(part)
                if not taken:  # all that is left is in other processes' hands: wait for one of them
                    part = next(iter(parts))
                    held.enter_context(claim(folder, part, wait=True))
                    taken = parts.pop(part)
                read_shards(folder, wanted, out, seen)  # what others wrote meanwhile
                for batch, pixels in _decoded(backbone, pool, file_of, [key for key in taken if key in wanted], batch_size):
                    rows, bad = _forward(backbone, device, pixels, "maps" in out)
                    good = [key for key, is_bad in zip(batch, bad.tolist(), strict=True) if not is_bad]
                    rows = {name: tensor[~bad] for name, tensor in rows.items()}
                    writable = writable and _stored(folder, good, rows)
                    if bad.any():
                        first = file_of[batch[int(bad.int().argmax())]]
                        raise BackboneError(f"{first}: {backbone.name} gives NaN or infinite features for {int(bad.sum())} of "
                                            f"{len(batch)} images, this one first: check the weights and the image.")
                    numbers = [wanted.pop(key) for key in good]
                    for name, tensor in rows.items():
                        out[name][numbers] = tensor
                    computed += len(good)
                    bar.update(bar.total - len(wanted) - bar.n)
    return computed


def _stored(folder: Path, keys: list[str], rows: dict[str, torch.Tensor]) -> bool:
    """Add to the cache; where that fails the results are still good, so it is said and not raised."""
    try:
        if keys:
            write_shard(folder, keys, rows)
    except OSError as error:
        print(f"features: the cache {folder} cannot be written ({error.strerror or error}), results are kept in memory only: "
              "free some space, or set XAI_DATA to another folder")
        return False
    return True


def _decoded(backbone, pool, file_of, keys, batch_size):
    """Batches of keys and their pixels (B, 3, crop, crop) uint8, decoded one batch ahead of the network.

    At an unreadable image the good ones before it make a last batch; then its error is raised.
    """
    batches = [keys[start:start + batch_size] for start in range(0, len(keys), batch_size)]

    def begin(number):
        return [pool.submit(_pixels, backbone, file_of[key]) for key in batches[number]] if number < len(batches) else []

    ahead = begin(0)
    for number in range(len(batches)):
        now, ahead = ahead, begin(number + 1)
        pixels, error = [], None
        for future in now:
            error = future.exception()
            if error:
                break
            pixels.append(future.result())
        if pixels:
            yield batches[number][:len(pixels)], torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
        if error:
            for future in now + ahead:
                future.cancel()
            raise error


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


def _content_hash(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise BackboneError(f"{file}: image file cannot be read ({error.strerror}). "
                            "Restore it, or drop it from the list.") from error
