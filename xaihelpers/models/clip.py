"""Images and texts as unit vectors in the one space of a CLIP, each computed once."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum
from torch.func import functional_call
from torch.nn.utils.rnn import pad_sequence

from xaihelpers.datasets import load_image
from xaihelpers.models.cache import Rows, cached_rows, content_key, file_keys
from xaihelpers.models.clip_loading import Clip, load_clip, untrained_clip  # noqa: F401
from xaihelpers.models.weights import ModelError

log = logging.getLogger(__name__)
IMAGES, TEXTS = 64, 2048  # in a file of the cache
AT_ONCE = {"cpu": 32, "cuda": 512}  # texts: small parts stay in a CPU's caches


class TextEmbeddings(NamedTuple):
    """What a CLIP makes of N texts."""

    rows: torch.Tensor  # (N, e) float32, unit length
    truncated: torch.Tensor  # (N,) bool, whether a text was cut to the context, its end token kept


def embed_images(clip: Clip, files: Iterable[str | Path]) -> torch.Tensor:
    """Embeddings of image files in the order given, from the cache where their content was embedded before.

    On CUDA they are computed in mixed precision, on CPUs in float64: rounded to float32, an embedding does
    not depend on what else was in its batch, hence not on what the cache held and what ran beside.

    Returns (N, e) float32, unit length, on the CPU.
    Raises ModelError: no file, an image whose embedding is not finite. OSError or DatasetError: a file that
        is missing or no image.
    """
    from open_clip.transform import PreprocessCfg, image_transform_v2  # takes seconds

    files = [Path(file) for file in files]
    steps = image_transform_v2(PreprocessCfg(**clip.model.visual.preprocess_cfg), is_train=False).transforms
    to_tensor = [type(step).__name__.endswith("ToTensor") for step in steps].index(True)

    def load(file: Path) -> np.ndarray:
        # only Pillow's work: torch operations in several threads would each start threads of their own
        image = load_image(file)
        for step in steps[:to_tensor]:
            image = step(image)
        return np.array(image)

    def encode(batch: list[np.ndarray]) -> torch.Tensor:
        inputs = torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).to(clip.device).float().div(255)
        for step in steps[to_tensor + 1 :]:
            inputs = step(inputs)
        return clip.model.encode_image(inputs.to(next(clip.model.parameters()).dtype))

    return _embed(clip, "image", file_keys(files), files, load, encode, IMAGES)


def embed_texts(
    clip: Clip, texts: Sequence[str], too_long: str = "error", exact: bool = True
) -> TextEmbeddings:
    """Embeddings of texts in the order given, from the cache where they were embedded before.

    too_long: a text of more tokens than `clip.context` is an "error", or with "truncate" loses what lies
        before its end token, is marked, and counted in the log.
    exact: on CPUs, compute in float64 as `embed_images` does. False, for texts that are scored and that
        nothing learns from: float32, some five times as fast, but the last bits of an embedding may depend
        on what else was computed with it. The cache keeps the two apart; on CUDA they are the same.
    Raises ModelError: no text, a text that is too long, an embedding that is not finite.
    """
    distinct = list(dict.fromkeys(texts))
    tokens = dict(zip(distinct, _token_ids(clip, distinct), strict=True))
    truncated = {text for text in distinct if len(tokens[text]) > clip.context}
    told = f"{len(truncated)} of {len(distinct)} texts have more than {clip.name}'s {clip.context} tokens"
    if truncated and too_long != "truncate":
        longest = max(truncated, key=lambda text: len(tokens[text]))
        raise ModelError(
            f'{told}, the longest {len(tokens[longest])}: "{longest[:80]}…". Shorten them, or take a model '
            "of longer context (long)."
        )
    if truncated:
        log.warning("%s: truncated", told)
    for text in truncated:
        tokens[text] = [*tokens[text][: clip.context - 1], tokens[text][-1]]
    padding = 0 if _is_simple(clip) else clip.tokenizer.tokenizer.pad_token_id
    encode = partial(encode_tokens, clip.model, padding=padding)
    distinct.sort(key=lambda text: len(tokens[text]))  # a batch is of like length
    keys = list(map(content_key, distinct))
    rows = _embed(clip, "text", keys, distinct, tokens.__getitem__, encode, TEXTS, exact)
    row_of = {text: row for row, text in enumerate(distinct)}
    return TextEmbeddings(
        rows[torch.tensor([row_of[text] for text in texts])],
        torch.tensor([text in truncated for text in texts]),
    )


def text_cosines(clip: Clip, images: torch.Tensor, lists: Sequence[Sequence[str]]) -> torch.Tensor:
    """Cosines (..., V, N) of N images with their texts, of V lists of N texts each.

    images: (..., N, e), embeddings by the same CLIP, of images or of other texts. Texts that are too long are
    truncated and counted in the log; all are embedded in float32, for nothing learns from them.
    Source: paper conceptscore, the cosine of eq. 1 and 2.
    """
    every = [text for texts in lists for text in texts]
    rows = embed_texts(clip, every, "truncate", exact=False).rows.view(len(lists), images.shape[-2], -1)
    return einsum(images, rows, "... n e, v n e -> ... v n")


def _token_ids(clip: Clip, texts: Sequence[str]) -> list[list[int]]:
    """Token ids from start to end token, not truncated."""
    tokenizer = clip.tokenizer
    if _is_simple(clip):
        start, end = tokenizer.sot_token_id, tokenizer.eot_token_id
        return [[start, *tokenizer.encode(text), end] for text in texts]
    cleaned = [tokenizer.clean_fn(text) for text in texts]
    return tokenizer.tokenizer(cleaned, padding=False, truncation=False, verbose=False)["input_ids"]


def _is_simple(clip: Clip) -> bool:
    """Whether its tokenizer is open_clip's own, and not one of Hugging Face."""
    from open_clip import SimpleTokenizer

    return isinstance(clip.tokenizer, SimpleTokenizer)


def encode_tokens(model: torch.nn.Module, token_lists: list[list[int]], padding: int = 0) -> torch.Tensor:
    """Text embeddings (B, e) of token lists, not normalised.

    In a causal tower nothing sees what lies behind the end token: lists of like length are computed together,
    without padding behind the longest. padding: the token behind the end in other towers.
    """
    from open_clip.transformer import TextTransformer

    tower, embeddings = model.text, []
    # a token sees only what lies before it, and the embedding is that of the end token
    is_causal = isinstance(tower, TextTransformer) and tower.attn_mask is not None and not tower.use_pad_mask
    is_causal = is_causal and tower.cls_emb is None and tower.pool_type in ("argmax", "eos")
    device = next(model.parameters()).device
    order = torch.tensor([len(tokens) for tokens in token_lists]).argsort()
    for part in order.split(AT_ONCE[device.type]):
        rows = [torch.tensor(token_lists[i]) for i in part]
        if is_causal:
            ids = pad_sequence(rows, batch_first=True).to(device)
            mask = tower.attn_mask[: ids.shape[1], : ids.shape[1]]
            embeddings.append(functional_call(tower, {"attn_mask": mask}, ids))
        else:
            ids = torch.full((len(rows), tower.context_length), padding)
            for whole, row in zip(ids, rows, strict=True):
                whole[: len(row)] = row
            embeddings.append(model.encode_text(ids.to(device)))
    return torch.cat(embeddings)[order.argsort()]


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
    on_cuda = clip.device.type == "cuda"
    dtype = next(clip.model.parameters()).dtype
    computed_in = torch.float64 if exact and not on_cuda else dtype
    precision = "float16" if on_cuda else str(computed_in).removeprefix("torch.")

    def forward(batch: list) -> Rows:
        clip.model.to(computed_in)
        with torch.inference_mode(), torch.autocast(clip.device.type, torch.float16, enabled=on_cuda):
            embeddings = encode(batch)
        embeddings = embeddings.float() if on_cuda else embeddings
        return {"rows": F.normalize(embeddings, dim=-1).float().cpu()}

    name, identity = f"{clip.name} {unit}", f"{clip.identity} {unit} context={clip.context} {precision}"
    about = name, identity, keys, items, {"rows": (clip.width,)}
    try:
        return cached_rows(*about, load, forward, batch_size, unit)["rows"]
    finally:
        clip.model.to(dtype)
