"""Image files and texts as unit vectors of a CLIP, each distinct one embedded once and kept in the cache."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from open_clip.transform import PreprocessCfg, image_transform_v2
from open_clip.transformer import TextTransformer

from xaihelpers.datasets.images import load_image
from xaihelpers.models.clip.clip_models import Clip
from xaihelpers.models.clip.prefix_trees import encode_trees
from xaihelpers.models.features import content_keys
from xaihelpers.models.weights import ModelError
from xaihelpers.store.rows import Rows, cached_rows, content_key


class TextEmbeddings(NamedTuple):
    """What a CLIP makes of N texts."""

    rows: torch.Tensor  # (N, e) float32, unit length
    truncated: torch.Tensor  # (N,) bool, whether a text was cut to the context, its end token kept


def embed_images(clip: Clip, files: Iterable[str | Path], batch_size: int = 64) -> torch.Tensor:
    """Embeddings of image files in the order given, from the cache where their content was embedded before.

    On CUDA they are computed in mixed precision, on CPUs in float64: rounded to float32, an embedding does
    not depend on what else was in its batch, hence not on what the cache held and what ran beside.

    Returns (N, e) float32, unit length, on the CPU.
    Raises ModelError: no file, a batch size below 1, a file that is missing, an image whose embedding is not
        finite.
    Raises DatasetError: a file that is no image.
    """
    files = [Path(file) for file in files]
    config = PreprocessCfg(**clip.model.visual.preprocess_cfg)
    transforms = image_transform_v2(config, is_train=False).transforms
    is_to_tensor = [type(transform).__name__.endswith("ToTensor") for transform in transforms]
    to_tensor = is_to_tensor.index(True)

    def load(file: Path) -> np.ndarray:
        # only Pillow's work: torch operations in several threads would each start threads of their own
        image = load_image(file)
        for transform in transforms[:to_tensor]:
            image = transform(image)
        return np.array(image)

    def encode(batch: list[np.ndarray]) -> torch.Tensor:
        inputs = torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).to(clip.device).float().div(255)
        for transform in transforms[to_tensor + 1 :]:
            inputs = transform(inputs)
        return clip.model.encode_image(inputs.to(next(clip.model.parameters()).dtype))

    return _embed(clip, "image", content_keys(files), files, load, encode, batch_size)


def token_lengths(clip: Clip, texts: Sequence[str]) -> list[int]:
    """How many tokens each text has, with its start and end, before any is truncated."""
    return [len(tokens) for tokens in _token_ids(clip, texts)]


def embed_texts(
    clip: Clip, texts: Sequence[str], too_long: str = "error", batch_size: int = 256, exact: bool = True
) -> TextEmbeddings:
    """Embeddings of texts in the order given, from the cache where they were embedded before.

    Each distinct text is computed once, and so is what texts share at their beginning.

    too_long: a text of more tokens than `clip.context` is an "error", or with "truncate" loses what lies
        before its end token, and is marked.
    exact: on CPUs, compute in float64 as `embed_images` does. False, for texts that are scored and that
        nothing learns from: float32, about three times as fast, but the last bits of an embedding may depend
        on what else was computed with it. The cache keeps the two apart; on CUDA they are the same.
    Raises ModelError: no text, a batch size below 1, another `too_long`, a text that is too long, an
        embedding that is not finite.
    """
    if too_long not in ("error", "truncate"):
        raise ModelError(f'too_long must be "error" or "truncate", not {too_long!r}')
    distinct = list(dict.fromkeys(texts))
    tokens = dict(zip(distinct, _token_ids(clip, distinct), strict=True))
    truncated = {text for text in distinct if len(tokens[text]) > clip.context}
    if truncated and too_long == "error":
        longest = max(truncated, key=lambda text: len(tokens[text]))
        raise ModelError(
            f"{len(truncated)} of {len(distinct)} texts have more than the {clip.context} tokens of "
            f'{clip.name}, the longest {len(tokens[longest])}: "{longest[:80]}…". Shorten them, take a '
            'model of longer context (long=True), or pass too_long="truncate".'
        )
    for text in truncated:
        tokens[text] = [*tokens[text][: clip.context - 1], tokens[text][-1]]

    def encode(batch: list[list[int]]) -> torch.Tensor:
        return _encode_token_lists(clip, batch)

    ordered = sorted(distinct, key=tokens.__getitem__)  # texts that begin alike share a batch
    keys = [content_key(text) for text in ordered]
    token_lists = [tokens[text] for text in ordered]
    rows = _embed(clip, "text", keys, token_lists, _unchanged, encode, batch_size, exact)
    row_of = {text: row for row, text in enumerate(ordered)}
    return TextEmbeddings(
        rows[torch.tensor([row_of[text] for text in texts])],
        torch.tensor([text in truncated for text in texts]),
    )


def _unchanged(tokens: list[int]) -> list[int]:
    return tokens


def _token_ids(clip: Clip, texts: Sequence[str]) -> list[list[int]]:
    """Token ids from start to end token, not truncated."""
    tokenizer = clip.tokenizer
    if isinstance(tokenizer, open_clip.SimpleTokenizer):
        return [[tokenizer.sot_token_id, *tokenizer.encode(text), tokenizer.eot_token_id] for text in texts]
    cleaned = [tokenizer.clean_fn(text) for text in texts]
    return tokenizer.tokenizer(cleaned, padding=False, truncation=False, verbose=False)["input_ids"]


def _encode_token_lists(clip: Clip, token_lists: list[list[int]]) -> torch.Tensor:
    """Text embeddings (B, e), not normalised: as prefix trees by a causal tower, else with padding."""
    if is_causal(clip.model):
        batch_tokens = 2**15 if clip.device.type == "cuda" else 2**12
        return encode_trees(clip.model, token_lists, batch_tokens, clip.device)
    simple = isinstance(clip.tokenizer, open_clip.SimpleTokenizer)
    padding = 0 if simple else clip.tokenizer.tokenizer.pad_token_id
    ids = torch.full((len(token_lists), clip.context), padding)
    for row, tokens in zip(ids, token_lists, strict=True):
        row[: len(tokens)] = torch.tensor(tokens)
    return clip.model.encode_text(ids.to(clip.device))


def is_causal(model: torch.nn.Module) -> bool:
    """Whether a CLIP's text tower is causal and takes the end token as the embedding.

    Then a token sees only what lies before it: beginnings can be shared, and padding is not needed.
    """
    tower = model.text
    return (
        isinstance(tower, TextTransformer)
        and tower.attn_mask is not None
        and tower.cls_emb is None
        and not tower.use_pad_mask
        and tower.pool_type in ("argmax", "eos")
    )


def encode_tokens(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Text embeddings of token ids shorter than the context, not normalised.

    A causal tower of open_clip cuts its positions to their number by itself, but not its mask.

    ids: (B, n), n at most the context.
    Returns (B, e).
    """
    tower = model.text
    whole = getattr(tower, "attn_mask", None)
    if whole is None:
        return model.encode_text(ids)
    tower.attn_mask = whole[: ids.shape[1], : ids.shape[1]]
    try:
        return model.encode_text(ids)
    finally:
        tower.attn_mask = whole


def _embed(
    clip: Clip,
    unit: str,
    keys: list[str],
    items: list,
    load: Callable[[Any], Any],
    encode: Callable[[list], torch.Tensor],
    batch_size: int,
    exact: bool = True,
) -> torch.Tensor:
    """Unit embeddings (N, e) of items under their keys, each distinct key once.

    encode: loaded items -> embeddings (B, e), not normalised. exact: float64 on CPUs, else float32.
    """
    if not keys or batch_size < 1:
        raise ModelError(
            f"at least one {unit} and a batch size of 1 or more are needed, not {len(keys)} and {batch_size}"
        )
    item_of = {}
    for key, item in zip(keys, items, strict=True):
        item_of.setdefault(key, item)
    on_cuda = clip.device.type == "cuda"
    on_cpu = torch.float64 if exact else torch.float32
    precision = "float16" if on_cuda else str(on_cpu).removeprefix("torch.")
    dtype = next(clip.model.parameters()).dtype

    def forward(batch: list) -> tuple[Rows, torch.Tensor]:
        if not on_cuda:
            clip.model.to(on_cpu)
        with torch.inference_mode(), torch.autocast(clip.device.type, torch.float16, enabled=on_cuda):
            embeddings = encode(batch)
        embeddings = embeddings.float() if on_cuda else embeddings
        rows = F.normalize(embeddings, dim=-1).float().cpu()
        return {"rows": rows}, ~rows.isfinite().all(1)

    def not_finite(item, bad: int, size: int) -> ModelError:
        return ModelError(
            f"{clip.name} gives NaN or infinite embeddings for {bad} of {size} {unit}s, this one first: "
            f"{item}: check the weights."
        )

    try:
        rows = cached_rows(
            f"{clip.name} {unit}",
            f"{clip.identity} {unit} context={clip.context} {precision}",
            item_of,
            {"rows": (clip.width,)},
            load,
            forward,
            not_finite,
            batch_size,
            unit,
        )["rows"]
    finally:
        clip.model.to(dtype)
    row_of = {key: row for row, key in enumerate(item_of)}
    return rows[torch.tensor([row_of[key] for key in keys])]
