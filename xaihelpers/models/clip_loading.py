"""CLIP and Long-CLIP by name, through open_clip: its weights, and positions stretched for long texts.

Long-CLIP's stretched positions make 248 tokens of 77 (Zhang et al. 2024, "Long-CLIP: Unlocking the Long-Text
Capability of CLIP"; paper conceptscore, section 3.2, scores with it). With a = kept and r = factor:

    p'_i          = p_i                                             for i < a
    p'_{a+rj+m}   = ((r − m) p_{a+j} + m p_{a+j+1}) / r             for m = 0 … r − 1

| symbol | name | shape |
|---|---|---|
| p, positional embeddings | `positions` | (n, width) |
| p', stretched | the result | (a + r (n − a), width) |
| a, positions that stay | `KEPT` | scalar, 20 |
| r, factor of the stretching | `FACTOR` | scalar, 4 |
"""

import copy
import difflib
import json
import logging
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xaihelpers import paths
from xaihelpers.devices import resolve_device
from xaihelpers.models.weights import ModelError, load_weights, read_weights, weights_hash
from xaihelpers.names import CLIP_FILE as CONFIG_FILE
from xaihelpers.text_files import read_text

log = logging.getLogger(__name__)

WEIGHTS_FILE = "open_clip_model.safetensors"  # in open_clip's own folders
PLAIN_CONTEXT = 77  # tokens of a CLIP that is not stretched
KEPT, FACTOR = 20, 4
LONG_KEY = "positional_embedding_res"  # in Long-CLIP's files, whose training began from OpenAI's weights
OPENAI_KEYS = {"input_resolution", "context_length", "vocab_size"}  # in OpenAI's own, beside the weights


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


def load_clip(
    name: str = "aviary_clip", weights: str = "", long: bool = False, device: str | torch.device = "cpu"
) -> Clip:
    """A CLIP by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    name: the shipped "aviary_clip", a folder as open_clip saves it, or one of open_clip's architectures
        (ViT-B-16-quickgelu, …).
    weights: one of open_clip's tags (openai, laion2b_s34b_b88k, …) or a file of weights, a Long-CLIP
        checkpoint among them; "" takes the folder's own. What pictures are made into for a file is said by
        the CONFIG_FILE of its folder or of `name`'s; OpenAI's need none.
    long: texts of 248 tokens, by the shipped stretched model, or by stretching the positions of any model of
        77 tokens (Long-CLIP's way, without its training).
    Raises ModelError: an unknown name; weights that are absent, damaged, of another architecture or known to
        need QuickGELU where the architecture has none; a CONFIG_FILE that is damaged, or without mean and
        deviation; a file of which nothing says what pictures are made into; no such device.
    """
    import open_clip  # takes seconds

    device = resolve_device(device, ModelError)
    folder = paths.find_model(name, CONFIG_FILE)
    if folder:
        name = folder.name  # what lies elsewhere is no other model
        stretched = folder.with_name(f"{name}_long")
        folder = stretched if long and (stretched / CONFIG_FILE).is_file() else folder
        _preprocessing_in(folder / CONFIG_FILE)
    source = f"{open_clip.factory.LOCAL_DIR_PREFIX}{folder}" if folder else name
    config = open_clip.get_model_config(source)
    if config is None:
        shipped = [path.parent.name for path in paths.models_home().glob(f"*/{CONFIG_FILE}")]
        similar = difflib.get_close_matches(name, [*shipped, *open_clip.list_models()], n=3, cutoff=0.3)
        raise ModelError(
            f"There is no CLIP {name!r}: neither shipped, nor a folder with {CONFIG_FILE}, nor an "
            f"architecture of open_clip. Near: {', '.join(similar)}."
        )
    file = paths.find_model(weights) if weights else None
    if file:
        model = _model_of_file(source, name, file, bool(config.get("quick_gelu")))
    else:
        model = _model_of_open_clip(name if weights else source, weights)
    tower, form = model.text, " (long)" if long else ""
    if long and tower.context_length <= PLAIN_CONTEXT:
        set_positions(tower, stretch_positions(tower.positional_embedding.data))
        form = " (stretched, not trained)"
    model = model.eval().requires_grad_(False)
    preprocessing = json.dumps(model.visual.preprocess_cfg, sort_keys=True, default=str)
    return Clip(
        name=f"{name}{form}",
        model=model.to(device),
        tokenizer=open_clip.get_tokenizer(source, context_length=tower.context_length),
        context=tower.context_length,
        width=config["embed_dim"],
        identity=f"{name} weights={weights_hash(model)} {preprocessing}",
        device=device,
    )


def _model_of_open_clip(source: str, tag: str) -> nn.Module:
    """A model with the weights of its folder, or of a tag, which open_clip finds or downloads."""
    import open_clip

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "QuickGELU mismatch")  # every embedding would be off
            return open_clip.create_model(
                source, tag or None, require_pretrained=True, force_custom_text=True
            )
    except Exception as error:
        tags = open_clip.list_pretrained_tags_by_model(source)
        raise ModelError(
            f"The weights {tag!r} of {source} cannot be had ({str(error)[:300]}): give a file, or one of "
            f"open_clip's tags: {', '.join(tags) or 'none here'}"
        ) from error


def _model_of_file(source: str, name: str, file: Path, quick: bool) -> nn.Module:
    """A model with the weights of a file, its text tower as long as the file's positions."""
    import open_clip

    state = {key.removeprefix("module."): value for key, value in read_weights(file).items()}
    of_openai = LONG_KEY in state or not OPENAI_KEYS.isdisjoint(state)
    if of_openai and not quick:
        raise ModelError(
            f"{file}: made with QuickGELU, without which every embedding is off: name {name}-quickgelu, "
            f"or set quick_gelu in the {CONFIG_FILE} of a folder"
        )
    state = {key: value for key, value in state.items() if key not in OPENAI_KEYS}
    if LONG_KEY in state:  # the first positions are kept in one table, the others trained in a second
        trained = state.pop(LONG_KEY)
        state["positional_embedding"] = torch.cat([state["positional_embedding"][:KEPT], trained[KEPT:]])
    if "positional_embedding" in state:  # without a text tower of its own, as OpenAI's
        state = open_clip.model.convert_to_custom_text_state_dict(state)
    positions = state.get("text.positional_embedding")
    options = {"force_context_length": len(positions)} if positions is not None else {}
    beside = file.with_name(CONFIG_FILE)
    seen = {}  # as a folder's own says, or else OpenAI's
    if source == name and beside.is_file():
        seen = _preprocessing_in(beside)
    elif source == name and not of_openai:
        raise ModelError(
            f"{file}: it is not known what pictures are made into for these weights of {name}: put beside it "
            f'the {CONFIG_FILE} of its publisher, with "preprocess_cfg" (mean, std, …), or name a tag instead'
        )
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # open_clip warns of every model that it builds and does not load
    try:
        model = open_clip.create_model(
            source, load_weights=False, force_custom_text=True, force_preprocess_cfg=seen, **options
        )
    finally:
        logging.disable(disabled)
    return load_weights(model, state, file, name)


def _preprocessing_in(file: Path) -> dict:
    """What a CONFIG_FILE says that pictures are made into.

    Raises ModelError: it is damaged, or says nothing of mean or deviation, for which open_clip would take
    OpenAI's.
    """
    try:
        config = json.loads(read_text(file))
        form, seen = config.get("model_cfg"), dict(config.get("preprocess_cfg") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"{file}: cannot be read ({error}): fetch or save the folder again") from error
    if not (form and seen.get("mean") and seen.get("std")):
        raise ModelError(
            f'{file}: it needs "model_cfg" and, for what pictures are made into, "preprocess_cfg" with mean '
            "and std: add them, as the model's publisher gives them"
        )
    return seen


def untrained_clip(clip: Clip, seed: int = 0) -> Clip:
    """The same network without what it has learnt: the entries of each weight in a random order.

    What its scores still tell apart is owed to the form of texts and pictures.
    """
    model, generator = copy.deepcopy(clip.model), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.data = parameter.data.flatten()[order].view_as(parameter)
    return replace(clip, name="untrained", model=model, identity=f"{clip.identity} shuffled {seed}")


def stretch_positions(positions: torch.Tensor) -> torch.Tensor:
    """Positional embeddings stretched by linear interpolation: 77 become 248.

    The first `KEPT` positions stay, because most short texts end there and they are trained best. The last
    `FACTOR` positions extrapolate the last step.

    positions: (n, width), n at least KEPT + 2.
    Returns (KEPT + FACTOR · (n − KEPT), width).
    """
    current = positions[KEPT:]  # (n − a, width)
    extrapolated = 2 * current[-1:] - current[-2:-1]
    following = torch.cat([current[1:], extrapolated])  # (n − a, width)
    share = torch.arange(FACTOR, device=positions.device, dtype=positions.dtype)[:, None] / FACTOR
    stretched = current[:, None] * (1 - share) + following[:, None] * share  # (n − a, r, width)
    return torch.cat([positions[:KEPT], stretched.flatten(0, 1)])


def set_positions(tower: nn.Module, positions: torch.Tensor) -> None:
    """Give a text tower of open_clip other positional embeddings (n, width), and a causal mask to match."""
    tower.positional_embedding = nn.Parameter(positions)
    tower.num_pos = tower.context_length = len(positions)
    if tower.attn_mask is not None:
        tower.attn_mask = tower.build_causal_mask().to(positions.device)
