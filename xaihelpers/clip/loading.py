"""A CLIP: two towers, their tokenizer and preprocessing, from the shipped folder, an open_clip name or tag, or a checkpoint file."""
import difflib
import json
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from torch import nn

from .. import paths
from ..backbones import BackboneError, save_weights
from ..backbones.weights import read_weights, weights_hash
from ..devices import device_of
from .stretching import set_positions, stretch_positions

CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"  # the names of open_clip's own folders


class ClipError(ValueError):
    """A CLIP, its weights, a text or an image is not as needed; the message names it and the remedy."""


@dataclass(frozen=True, eq=False)
class Clip:
    """A CLIP in evaluation mode."""

    name: str
    model: nn.Module  # an open_clip model with a text tower of its own, `model.text`
    tokenizer: Any
    context: int  # tokens that a text may have, with its start and its end
    width: int  # e, of the embeddings
    identity: str  # name, sha256 of the weights, preprocessing: what its embeddings depend on
    device: torch.device


def load_clip(name: str = "aviary_clip", weights: str = "", long: bool = False, device: str | torch.device = "cpu") -> Clip:
    """A CLIP by name, in evaluation mode on `device` ("auto", "cpu", "cuda").

    `name`: the shipped "aviary_clip", a folder as open_clip saves it, or one of open_clip's architectures (ViT-B-16-quickgelu, …). `weights`: one of open_clip's
    tags (openai, laion2b_s34b_b88k, …) or a file of weights, a Long-CLIP checkpoint among them. `long`: texts of 248 tokens, by the shipped stretched
    model, or by stretching the positions of any model of 77 (Long-CLIP's way, without its training).
    Raises ClipError: an unknown name, weights that are absent, damaged or of another architecture.
    """
    device = device_of(device, ClipError)
    folder = _folder(name, long)
    source = f"{open_clip.factory.LOCAL_DIR_PREFIX}{folder}" if folder else name
    config = open_clip.get_model_config(source)
    if config is None:
        shipped = [path.parent.name for path in paths.models_home().glob(f"*/{CONFIG}")]
        near = difflib.get_close_matches(name, [*shipped, *open_clip.list_models()], n=3, cutoff=0.3)
        raise ClipError(f"There is no CLIP {name!r}: neither shipped, nor a folder with {CONFIG}, nor an architecture of open_clip. Near: {', '.join(near)}.")
    if folder and not weights:
        weights = str(next(folder.glob("*.safetensors"), folder / WEIGHTS))
    is_file = Path(weights).suffix or Path(weights).is_file()
    model = _from_file(source, Path(weights).expanduser()) if is_file else _from_tag(source, name, weights)
    tower = model.text
    if long and tower.context_length <= 77:
        set_positions(tower, stretch_positions(tower.positional_embedding.data))
    model = model.eval().requires_grad_(False)
    identity = f"{name} weights={weights_hash(model)} {json.dumps(model.visual.preprocess_cfg, sort_keys=True, default=str)}"
    tokenizer = open_clip.get_tokenizer(source, context_length=tower.context_length)
    width = tower.output_dim if hasattr(tower, "output_dim") else config["embed_dim"]
    return Clip(name + " (long)" * long, model.to(device), tokenizer, tower.context_length, width, identity, device)


def _folder(name: str, long: bool) -> Path | None:
    """The folder of a model in open_clip's form, shipped or the user's; of its long form, where there is one."""
    for folder in (paths.models_home() / name, Path(name).expanduser()):
        if (folder / CONFIG).is_file():
            stretched = folder.with_name(folder.name + "_long")
            return stretched if long and (stretched / CONFIG).is_file() else folder
    return None


def _from_tag(source: str, name: str, tag: str) -> nn.Module:
    tags = open_clip.list_pretrained_tags_by_model(name)
    if tag not in tags:
        raise ClipError(f"{name} needs weights: {tag!r} is neither a file nor one of open_clip's tags, {', '.join(tags) or 'of which it has none'}.")
    try:
        return open_clip.create_model(source, pretrained=tag, force_custom_text=True)
    except Exception as error:
        raise ClipError(f"The weights {tag!r} of {name} cannot be had ({str(error).splitlines()[0][:200]}): without a connection, "
                        "download them elsewhere and give the file as weights.") from error


def _from_file(source: str, file: Path) -> nn.Module:
    if not file.is_file():
        raise ClipError(f"{file}: no such file of CLIP weights: give a safetensors file or a state dict saved by torch.")
    try:
        state = read_weights(file)
    except BackboneError as error:
        raise ClipError(str(error)) from error
    if "positional_embedding_res" in state:  # Long-CLIP: the first 20 positions are kept in one table, the others trained in a second
        positions = state.pop("positional_embedding_res")
        state["positional_embedding"] = torch.cat([state["positional_embedding"][:20], positions[20:]])
    positions = state.get("positional_embedding", state.get("text.positional_embedding"))
    with _quiet():
        model = open_clip.create_model(source, load_weights=False, force_custom_text=True, force_context_length=None if positions is None else len(positions))
    if "positional_embedding" in state:
        state = open_clip.model.convert_to_custom_text_state_dict(state)
    own = model.state_dict()
    state = {key: value.reshape(own[key].shape) if key in own and value.numel() == own[key].numel() == 1 else value for key, value in state.items()}
    wrong = [key for key in sorted(own.keys() | state.keys()) if key not in own or key not in state or own[key].shape != state[key].shape]
    if wrong:
        has, needs = (f"{tuple(table[wrong[0]].shape)}" if wrong[0] in table else "nothing" for table in (state, own))
        raise ClipError(f"{file}: weights of another architecture than {source.removeprefix('local-dir:')}: {wrong[0]} is {has} in the file and {needs} in the model "
                        f"({len(wrong)} such in all). Name the architecture that the file was made with.")
    model.load_state_dict(state)
    return model


@contextmanager
def _quiet():
    """open_clip warns of every model that it builds without loading it itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def save_clip(model: nn.Module, tokenizer: Any, config: dict, folder: str | Path) -> Path:
    """Write a CLIP as a folder that open_clip loads ("local-dir:…"): `config` (its model_cfg and preprocess_cfg), float16 weights, tokenizer."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    save_weights(model, folder / WEIGHTS)
    return folder
