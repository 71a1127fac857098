"""CLIP and Long-CLIP: images and texts as unit vectors in one space, through open_clip.

Long texts are read by Long-CLIP's stretched positions: 77 tokens become 248 (Zhang et al. 2024, "Long-CLIP:
Unlocking the Long-Text Capability of CLIP"; paper conceptscore, section 3.2, scores with it). With a = kept
and r = factor:

    p'_i          = p_i                                             for i < a
    p'_{a+rj+m}   = ((r − m) p_{a+j} + m p_{a+j+1}) / r             for m = 0 … r − 1

| symbol | name | shape |
|---|---|---|
| p, positional embeddings | `positions` | (n, width) |
| p', stretched | the result | (a + r (n − a), width) |
| a, positions that stay | `kept` | scalar, 20 |
| r, factor of the stretching | `factor` | scalar, 4 |
"""

import copy
import difflib
import functools
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from einops import einsum
from open_clip.transform import PreprocessCfg, image_transform_v2
from open_clip.transformer import TextTransformer
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.func import functional_call

from xaihelpers import paths
from xaihelpers.datasets import Dataset, load_image
from xaihelpers.devices import resolve_device
from xaihelpers.models.cache import Rows, cached_rows, content_key, file_keys
from xaihelpers.models.image_network import ImageNetwork, as_target
from xaihelpers.models.prefix_trees import encode_trees
from xaihelpers.models.weights import (
    ModelError,
    fit_names,
    read_weights,
    require_fit,
    weights_hash,
)

log = logging.getLogger(__name__)
# the names of open_clip's own folders
CONFIG_FILE = "open_clip_config.json"
WEIGHTS_FILE = "open_clip_model.safetensors"
PLAIN_CONTEXT = 77  # tokens of a CLIP that is not stretched
KEPT, FACTOR = 20, 4
OPENAIS_KEYS = ("input_resolution", "context_length", "vocab_size")  # in OpenAI's files, beside the weights
LONG_KEY = "positional_embedding_res"  # in those of Long-CLIP, which begins from OpenAI's
LOCAL = open_clip.factory.LOCAL_DIR_PREFIX


@dataclass(frozen=True, eq=False)
class Clip:
    """A CLIP in evaluation mode."""

    # as it was asked for, of a folder its own name; then "(long)" or "(stretched, not trained)"
    name: str
    model: nn.Module  # an open_clip model with a text tower of its own, `model.text`
    tokenizer: Any
    context: int  # tokens that a text may have, with its start and its end
    width: int  # e, of the embeddings
    identity: str  # name, sha256 of the weights, preprocessing: what its embeddings depend on
    device: torch.device
    token_ids: dict[str, list[int]] = field(default_factory=dict, repr=False)  # of texts met before


class TextEmbeddings(NamedTuple):
    """What a CLIP makes of N texts."""

    rows: torch.Tensor  # (N, e) float32, unit length
    truncated: torch.Tensor  # (N,) bool, whether a text was cut to the context, its end token kept


def load_clip(
    name: str = "aviary_clip", weights: str = "", long: bool = False, device: str | torch.device = "cpu"
) -> Clip:
    """A CLIP by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    name: the shipped "aviary_clip", a folder as open_clip saves it, or one of open_clip's architectures
        (ViT-B-16-quickgelu, …).
    weights: one of open_clip's tags (openai, laion2b_s34b_b88k, …) or a file of weights, a Long-CLIP
        checkpoint among them; "" takes the folder's own.
    long: texts of 248 tokens, by the shipped stretched model, or by stretching the positions of any model of
        77 tokens (Long-CLIP's way, without its training).
    Raises ModelError: an unknown name; weights that are absent, damaged, of another architecture or known to
        need QuickGELU where the architecture has none; no such device.
    """
    device = resolve_device(device, ModelError)
    own_folder = folder = paths.find(name, paths.models_home(), paths.data_home(), holding=CONFIG_FILE)
    if own_folder and long:
        stretched = own_folder.with_name(f"{own_folder.name}_long")
        folder = stretched if (stretched / CONFIG_FILE).is_file() else own_folder
    source = f"{LOCAL}{folder}" if folder else name
    config = open_clip.get_model_config(source)
    if config is None:
        shipped = [path.parent.name for path in paths.models_home().glob(f"*/{CONFIG_FILE}")]
        similar = difflib.get_close_matches(name, [*shipped, *open_clip.list_models()], n=3, cutoff=0.3)
        raise ModelError(
            f"There is no CLIP {name!r}: neither shipped, nor a folder with {CONFIG_FILE}, nor an "
            f"architecture of open_clip. Near: {', '.join(similar)}."
        )
    if folder and not weights:
        weights = str(next(folder.glob("*.safetensors"), folder / WEIGHTS_FILE))
    file = paths.find(weights, paths.models_home(), paths.data_home()) or Path(weights)
    is_file = file.suffix or file.is_file()
    load = _from_file if is_file else _from_tag
    model = load(source, name, file if is_file else weights, bool(config.get("quick_gelu")))
    if own_folder:  # what lies elsewhere is no other model
        name = own_folder.name
    tower = model.text
    form = " (long)" if long else ""
    if long and tower.context_length <= PLAIN_CONTEXT:
        set_positions(tower, stretch_positions(tower.positional_embedding.data))
        form = " (stretched, not trained)"
    model = model.eval().requires_grad_(False)
    preprocessing = json.dumps(model.visual.preprocess_cfg, sort_keys=True, default=str)
    identity = f"{name} weights={weights_hash(model)} {preprocessing}"
    return Clip(
        name=f"{name}{form}",
        model=model.to(device),
        tokenizer=open_clip.get_tokenizer(source, context_length=tower.context_length),
        context=tower.context_length,
        width=tower.output_dim if hasattr(tower, "output_dim") else config["embed_dim"],
        identity=identity,
        device=device,
    )


def _from_tag(source: str, name: str, tag: str, quick: bool) -> nn.Module:
    """A model with weights that open_clip finds or downloads."""
    tags = open_clip.list_pretrained_tags_by_model(name)
    if tag not in tags:
        raise ModelError(
            f"{name} needs weights: {tag!r} is neither a file nor one of open_clip's tags, "
            f"{', '.join(tags) or 'of which it has none'}."
        )
    if open_clip.get_pretrained_cfg(name, tag).get("quick_gelu") and not quick:
        raise _needs_quick_gelu(name, f"the weights {tag!r}")
    try:
        return open_clip.create_model(source, pretrained=tag, force_custom_text=True)
    except Exception as error:
        raise ModelError(
            f"The weights {tag!r} of {name} cannot be had ({str(error).splitlines()[0][:200]}): without a "
            "connection, download them elsewhere and give the file as weights."
        ) from error


def _from_file(source: str, name: str, file: Path, quick: bool) -> nn.Module:
    """A model with the weights of a file, its text tower as long as the file's positions."""
    if not file.is_file():
        raise ModelError(
            f"{file}: no such file of CLIP weights: give a safetensors file or a state dict saved by torch."
        )
    state = read_weights(file)
    if not quick and (LONG_KEY in state or all(key in state for key in OPENAIS_KEYS)):
        raise _needs_quick_gelu(name, str(file))
    if not quick and f"{name}-quickgelu" in open_clip.list_models():
        log.warning(
            "%s under %s: whether its weights need QuickGELU cannot be seen; those of OpenAI, MetaCLIP and "
            "DFN do: then name %s-quickgelu",
            file,
            name,
            name,
        )
    state = {key: value for key, value in state.items() if key not in OPENAIS_KEYS}
    if LONG_KEY in state:  # the first positions are kept in one table, the others trained in a second
        trained = state.pop(LONG_KEY)
        state["positional_embedding"] = torch.cat([state["positional_embedding"][:KEPT], trained[KEPT:]])
    of_text = [key for key in state if key.endswith("positional_embedding") and "visual." not in key]
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # open_clip warns of every model that it builds and does not load
    try:
        model = open_clip.create_model(
            source,
            load_weights=False,
            force_custom_text=True,
            force_context_length=len(state[of_text[0]]) if of_text else None,
        )
    finally:
        logging.disable(disabled)
    expected = model.state_dict()
    without_tower = dict.fromkeys(key.removeprefix("text.") for key in expected)  # as OpenAI names them
    state = fit_names(state, without_tower | expected, file)
    if "positional_embedding" in state:
        state = open_clip.model.convert_to_custom_text_state_dict(state)
    for key, value in state.items():
        if key in expected and value.numel() == expected[key].numel() == 1:
            state[key] = value.reshape(expected[key].shape)  # a scalar may be saved as (1,)
    require_fit(state, expected, file, name)
    model.load_state_dict(state)
    return model


def _needs_quick_gelu(name: str, weights: str) -> ModelError:
    quick = f"{name}-quickgelu"
    remedy = f"name {quick}" if quick in open_clip.list_models() else f"set quick_gelu in its {CONFIG_FILE}"
    return ModelError(f"{weights}: made with QuickGELU, without which every embedding is off: {remedy}.")


def untrained_clip(clip: Clip, seed: int = 0) -> Clip:
    """The same network without what it has learnt: the entries of each weight in a random order.

    What its scores still tell apart is owed to the form of texts and pictures.
    """
    model, generator = copy.deepcopy(clip.model), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.data = parameter.data.flatten()[order].view_as(parameter)
    return replace(clip, name="untrained", model=model, identity=f"{clip.identity} shuffled {seed}")


def stretch_positions(positions: torch.Tensor, kept: int = KEPT, factor: int = FACTOR) -> torch.Tensor:
    """Positional embeddings stretched by linear interpolation: 77 become 248.

    The first `kept` positions stay, because most short texts end there and they are trained best. The last
    `factor` positions extrapolate the last step.

    positions: (n, width).
    Returns (kept + factor · (n − kept), width).
    Raises ValueError: fewer than two positions would be stretched.
    """
    n = len(positions)
    if n < kept + 2:
        raise ValueError(
            f"{n} positions cannot be stretched: {kept} are kept, and at least two more are needed"
        )
    current = positions[kept:]  # (n − kept, width)
    extrapolated = 2 * current[-1:] - current[-2:-1]
    following = torch.cat([current[1:], extrapolated])  # (n − kept, width)
    share = torch.arange(factor, device=positions.device, dtype=positions.dtype)[:, None] / factor
    stretched = current[:, None] * (1 - share) + following[:, None] * share  # (n − kept, factor, width)
    return torch.cat([positions[:kept], stretched.flatten(0, 1)])


def set_positions(tower: nn.Module, positions: torch.Tensor) -> None:
    """Give a text tower of open_clip other positional embeddings (n, width), and a causal mask to match."""
    tower.positional_embedding = nn.Parameter(positions)
    tower.num_pos = tower.context_length = len(positions)
    if tower.attn_mask is not None:
        tower.attn_mask = tower.build_causal_mask().to(positions.device)


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

    return _embed(clip, "image", file_keys(files), files, load, encode, batch_size)


def token_lengths(clip: Clip, texts: Sequence[str]) -> list[int]:
    """How many tokens each text has, with its start and end, before any is truncated."""
    return [len(tokens) for tokens in _token_ids(clip, texts)]


def embed_texts(
    clip: Clip, texts: Sequence[str], too_long: str = "error", batch_size: int = 256, exact: bool = True
) -> TextEmbeddings:
    """Embeddings of texts in the order given, from the cache where they were embedded before.

    Each distinct text is computed once, and so is what texts of a batch share at their beginning; a batch is
    32 times as large where a tower can share.

    too_long: a text of more tokens than `clip.context` is an "error", or with "truncate" loses what lies
        before its end token, is marked, and counted in the log.
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
    if truncated:
        cut = (len(truncated), len(distinct), clip.context, clip.name)
        log.warning("%d of %d texts have more than the %d tokens of %s: truncated", *cut)
    for text in truncated:
        tokens[text] = [*tokens[text][: clip.context - 1], tokens[text][-1]]

    encode = functools.partial(_encode_token_lists, clip)
    ordered = sorted(distinct, key=tokens.__getitem__)  # texts that begin alike share a batch
    if is_causal(clip.model):  # encoded some tokens at a time, whatever the number of texts
        batch_size *= 32
    keys = [content_key(text) for text in ordered]
    rows = _embed(clip, "text", keys, ordered, tokens.__getitem__, encode, batch_size, exact)
    row_of = {text: row for row, text in enumerate(ordered)}
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
    tokenizer, new = clip.tokenizer, [text for text in texts if text not in clip.token_ids]
    if isinstance(tokenizer, open_clip.SimpleTokenizer):
        start, end = tokenizer.sot_token_id, tokenizer.eot_token_id
        found = [[start, *tokenizer.encode(text), end] for text in new]
    elif new:
        cleaned = [tokenizer.clean_fn(text) for text in new]
        found = tokenizer.tokenizer(cleaned, padding=False, truncation=False, verbose=False)["input_ids"]
    else:
        found = []
    clip.token_ids.update(zip(new, found, strict=True))
    return [clip.token_ids[text] for text in texts]


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
    mask = getattr(model.text, "attn_mask", None)
    cut = {} if mask is None else {"attn_mask": mask[: ids.shape[1], : ids.shape[1]]}
    return functional_call(model.text, cut, ids)


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

    name, identity = f"{clip.name} {unit}", f"{clip.identity} {unit} context={clip.context} {precision}"
    shapes = {"rows": (clip.width,)}
    try:
        about = name, identity, keys, items, shapes
        return cached_rows(*about, load, forward, batch_size, unit, "embeddings")["rows"]
    finally:
        clip.model.to(dtype)


class _Probe(torch.nn.Module):
    """The image tower of a CLIP with a linear layer on its unit embeddings: (N, 3, H, W) -> (N, K)."""

    def __init__(self, tower: torch.nn.Module, weights: torch.Tensor, bias: torch.Tensor):
        super().__init__()
        self.tower = tower
        self.head = torch.nn.Linear(weights.shape[1], weights.shape[0])
        self.head.weight.data = weights
        self.head.bias.data = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.nn.functional.normalize(self.tower(x), dim=-1))


def clip_probe(
    name: str, data: Dataset, weights: str = "", device: str | torch.device = "cpu", seed: int = 0
) -> ImageNetwork:
    """A CLIP's image tower as a classifier of a data set's classes.

    Its linear layer is a logistic regression (scikit-learn) on the embeddings of the training split.

    name, weights: as `load_clip` takes them.
    Raises ModelError: as `load_clip`, an embedding that is not finite, a training split without images of
        every class or with fewer than two classes.
    Raises DatasetError: an image that cannot be read.
    """
    train = data.images[data.images.train]
    if train.label.nunique() < max(2, len(data.classes)):
        raise ModelError(
            f"{name}: its linear layer is trained on the training split, but {data.name} has images of "
            f"{train.label.nunique()} of its {len(data.classes)} classes there"
        )
    clip = load_clip(name, weights, device=device)
    embeddings = embed_images(clip, train.path.tolist())
    # to its end, so that rounding, as by other threads, does not show
    regression = LogisticRegression(C=100, tol=1e-6, max_iter=3000, random_state=seed)
    regression.fit(embeddings.double().numpy(), train.label)
    coefficients, intercepts = regression.coef_, regression.intercept_
    if len(coefficients) == 1:  # of two classes, scikit-learn keeps one row of weights, that of the second
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
        intercepts = np.concatenate([-intercepts, intercepts]) / 2
    probe = _Probe(
        clip.model.visual,
        torch.tensor(coefficients, dtype=torch.float32),
        torch.tensor(intercepts, dtype=torch.float32),
    )
    preprocessing = PreprocessCfg(**clip.model.visual.preprocess_cfg)
    size = preprocessing.size
    return as_target(
        name,
        probe,
        size if isinstance(size, int) else size[0],
        f"{clip.identity} probe {seed}",
        device,
        class_names=data.class_names,
        interpolation=preprocessing.interpolation,
        mean=tuple(preprocessing.mean),
        std=tuple(preprocessing.std),
    )
