"""Image files and texts as unit vectors of a CLIP, each distinct one embedded once."""
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from open_clip.transform import PreprocessCfg, image_transform_v2
from open_clip.transformer import TextTransformer

from ..store import cached_rows, content_key
from .loading import Clip, ClipError
from .prefixes import encode_trees


class TextEmbeddings(NamedTuple):
    """What a CLIP makes of N texts."""

    rows: torch.Tensor  # (N, e) float32, unit length
    truncated: torch.Tensor  # (N,) bool, whether a text was cut to the context, its end token kept


def embed_images(clip: Clip, files: Sequence[str | Path], batch_size: int = 64) -> torch.Tensor:
    """Embeddings of image files in the order given, (N, e) float32 of unit length, from the cache where their content was embedded before.

    Mixed precision on CUDA. Raises ClipError naming an image whose embedding is not finite, BirdsError naming one that cannot be read.
    """
    from ..birds import load_image

    files = [Path(file) for file in files]
    steps = image_transform_v2(PreprocessCfg(**clip.model.visual.preprocess_cfg), is_train=False).transforms
    numbers = next(i for i, step in enumerate(steps) if type(step).__name__.endswith("ToTensor"))

    def pixels(file):  # only Pillow's work: torch operations in several threads would each start a team of threads of their own
        image = load_image(file)
        for step in steps[:numbers]:
            image = step(image)
        return np.array(image)

    def forward(batch):
        inputs = torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).to(clip.device).float().div(255)
        for step in steps[numbers + 1:]:
            inputs = step(inputs)
        return _rows(clip, clip.model.encode_image, inputs)

    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda file: content_key(file.read_bytes()), files))
    return _embedded(clip, "image", keys, files, pixels, forward, batch_size)


def token_lengths(clip: Clip, texts: Sequence[str]) -> list[int]:
    """How many tokens each text has, with its start and end, before any is cut."""
    return [len(row) for row in _tokens(clip, texts)]


def embed_texts(clip: Clip, texts: Sequence[str], too_long: str = "error", batch_size: int = 256) -> TextEmbeddings:
    """Embeddings of texts in the order given, each distinct text once, from the cache where it was embedded before.

    What texts share at their beginning is computed once. A text of more tokens than `clip.context` is an error that names it, or with too_long="truncate" loses what lies before its end token, and is marked.
    """
    if too_long not in ("error", "truncate"):
        raise ClipError(f'too_long must be "error" or "truncate", not {too_long!r}')
    distinct = list(dict.fromkeys(texts))
    tokens = dict(zip(distinct, _tokens(clip, distinct), strict=True))
    cut = {text for text in distinct if len(tokens[text]) > clip.context}
    if cut and too_long == "error":
        longest = max(cut, key=lambda text: len(tokens[text]))
        raise ClipError(f"{len(cut)} of {len(distinct)} texts have more than the {clip.context} tokens of {clip.name}, the longest {len(tokens[longest])}: "
                        f'"{longest[:80]}…". Shorten them, take a model of longer context (long=True), or pass too_long="truncate".')
    for text in cut:
        tokens[text] = [*tokens[text][:clip.context - 1], tokens[text][-1]]

    def encode(batch):
        if is_causal(clip.model):
            return encode_trees(clip.model, batch, 2**15 if clip.device.type == "cuda" else 2**12, clip.device)
        ids = torch.full((len(batch), clip.context), _pad(clip))
        for row, of_text in zip(ids, batch):
            row[:len(of_text)] = torch.tensor(of_text)
        return clip.model.encode_text(ids.to(clip.device))

    neighbours = sorted(distinct, key=tokens.__getitem__)  # texts that begin alike share a batch
    rows = _embedded(clip, "text", [content_key(text) for text in neighbours], [tokens[text] for text in neighbours], lambda part: part, lambda batch: _rows(clip, encode, batch), batch_size)
    place = {text: row for row, text in enumerate(neighbours)}
    return TextEmbeddings(rows[torch.tensor([place[text] for text in texts])], torch.tensor([text in cut for text in texts]))


def _tokens(clip: Clip, texts: Sequence[str]) -> list[list[int]]:
    """Token ids from start to end token, uncut."""
    tokenizer = clip.tokenizer
    if isinstance(tokenizer, open_clip.SimpleTokenizer):
        return [[tokenizer.sot_token_id, *tokenizer.encode(text), tokenizer.eot_token_id] for text in texts]
    return tokenizer.tokenizer([tokenizer.clean_fn(text) for text in texts], padding=False, truncation=False, verbose=False)["input_ids"]


def is_causal(model: torch.nn.Module) -> bool:
    """Whether a token of a CLIP's text tower sees only what lies before it, and its end token is the embedding: then beginnings can be shared, and padding is not needed."""
    tower = model.text
    return isinstance(tower, TextTransformer) and tower.attn_mask is not None and tower.cls_emb is None and not tower.use_pad_mask and tower.pool_type in ("argmax", "eos")


def encode_tokens(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Text embeddings (B, e), not normalised, of token ids (B, n), n at most the context: a causal tower cuts its positions to n by itself, but not its mask."""
    tower = model.text
    whole = getattr(tower, "attn_mask", None)
    if whole is None:
        return model.encode_text(ids)
    tower.attn_mask = whole[:ids.shape[1], :ids.shape[1]]
    try:
        return model.encode_text(ids)
    finally:
        tower.attn_mask = whole


def _pad(clip: Clip) -> int:
    return 0 if isinstance(clip.tokenizer, open_clip.SimpleTokenizer) else clip.tokenizer.tokenizer.pad_token_id


def _embedded(clip, unit, keys, items, load, forward, batch_size) -> torch.Tensor:
    if not keys or batch_size < 1:
        raise ClipError(f"at least one {unit} and a batch size of 1 or more are needed, not {len(keys)} and {batch_size}")
    distinct = {}
    for key, item in zip(keys, items, strict=True):
        distinct.setdefault(key, item)
    precision = "float16" if clip.device.type == "cuda" else "float32"
    rows = cached_rows(
        f"{clip.name} {unit}", f"{clip.identity} {unit} context={clip.context} {precision}", distinct, {"rows": (clip.width,)}, load, forward,
        lambda item, bad, batch: ClipError(f"{clip.name} gives NaN or infinite embeddings for {bad} of {batch} {unit}s, this one first: {item}: check the weights."),
        batch_size, unit)["rows"]
    row_of = {key: row for row, key in enumerate(distinct)}
    return rows[torch.tensor([row_of[key] for key in keys])]


def _rows(clip: Clip, encode, inputs: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    with torch.inference_mode(), torch.autocast(clip.device.type, torch.float16, enabled=clip.device.type == "cuda"):
        rows = encode(inputs)
    rows = F.normalize(rows.float(), dim=-1).cpu()
    return {"rows": rows}, ~rows.isfinite().all(1)
