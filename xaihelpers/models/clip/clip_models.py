"""CLIPs by name: two towers with their tokenizer and preprocessing.

They come from a shipped folder, an open_clip name and tag, or a file of weights.
"""

import difflib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from torch import nn

from xaihelpers import paths
from xaihelpers.devices import resolve_device
from xaihelpers.models.clip.long_clip import KEPT, set_positions, stretch_positions
from xaihelpers.models.weights import ModelError, read_weights, save_weights, weights_hash

# the names of open_clip's own folders
CONFIG_FILE = "open_clip_config.json"
WEIGHTS_FILE = "open_clip_model.safetensors"
PLAIN_CONTEXT = 77  # tokens of a CLIP that is not stretched


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
        checkpoint among them; "" takes the folder's own.
    long: texts of 248 tokens, by the shipped stretched model, or by stretching the positions of any model of
        77 tokens (Long-CLIP's way, without its training).
    Raises ModelError: an unknown name, weights that are absent, damaged or of another architecture, no such
        device.
    """
    device = resolve_device(device, ModelError)
    own_folder = paths.find(name, paths.models_home(), paths.data_home(), holding=CONFIG_FILE)
    folder = _long_form(own_folder) if own_folder and long else own_folder
    source = f"{open_clip.factory.LOCAL_DIR_PREFIX}{folder}" if folder else name
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
    model = _from_file(source, file) if is_file else _from_tag(source, name, weights)
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


def _long_form(folder: Path) -> Path:
    """The folder of a model's stretched form beside its own, if there is one; else its own."""
    stretched = folder.with_name(f"{folder.name}_long")
    return stretched if (stretched / CONFIG_FILE).is_file() else folder


def _from_tag(source: str, name: str, tag: str) -> nn.Module:
    """A model with weights that open_clip finds or downloads."""
    tags = open_clip.list_pretrained_tags_by_model(name)
    if tag not in tags:
        raise ModelError(
            f"{name} needs weights: {tag!r} is neither a file nor one of open_clip's tags, "
            f"{', '.join(tags) or 'of which it has none'}."
        )
    try:
        return open_clip.create_model(source, pretrained=tag, force_custom_text=True)
    except Exception as error:
        raise ModelError(
            f"The weights {tag!r} of {name} cannot be had ({str(error).splitlines()[0][:200]}): without a "
            "connection, download them elsewhere and give the file as weights."
        ) from error


def _from_file(source: str, file: Path) -> nn.Module:
    """A model with the weights of a file, its text tower as long as the file's positions."""
    if not file.is_file():
        raise ModelError(
            f"{file}: no such file of CLIP weights: give a safetensors file or a state dict saved by torch."
        )
    state = read_weights(file)
    if "positional_embedding_res" in state:
        # Long-CLIP: the first positions are kept in one table, the others trained in a second
        trained = state.pop("positional_embedding_res")
        state["positional_embedding"] = torch.cat([state["positional_embedding"][:KEPT], trained[KEPT:]])
    positions = state.get("positional_embedding", state.get("text.positional_embedding"))
    with _without_warnings():
        model = open_clip.create_model(
            source,
            load_weights=False,
            force_custom_text=True,
            force_context_length=None if positions is None else len(positions),
        )
    if "positional_embedding" in state:
        state = open_clip.model.convert_to_custom_text_state_dict(state)
    expected = model.state_dict()
    for key, value in state.items():
        if key in expected and value.numel() == expected[key].numel() == 1:
            state[key] = value.reshape(expected[key].shape)  # a scalar may be saved as (1,)
    _check_architecture(state, expected, file, source.removeprefix(open_clip.factory.LOCAL_DIR_PREFIX))
    model.load_state_dict(state)
    return model


def _check_architecture(
    state: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], file: Path, architecture: str
) -> None:
    """Raise ModelError where a state dict has other tensors than those expected."""
    shapes = {key: tuple(value.shape) for key, value in state.items()}
    expected_shapes = {key: tuple(value.shape) for key, value in expected.items()}
    keys = sorted(shapes.keys() | expected_shapes.keys())
    wrong = [key for key in keys if shapes.get(key) != expected_shapes.get(key)]
    if wrong:
        held, needed = (table.get(wrong[0], "nothing") for table in (shapes, expected_shapes))
        raise ModelError(
            f"{file}: weights of another architecture than {architecture}: {wrong[0]} is {held} in the file "
            f"and {needed} in the model ({len(wrong)} such in all). Name the architecture that the file was "
            "made with."
        )


@contextmanager
def _without_warnings() -> Iterator[None]:
    """open_clip warns of every model that it builds without loading it itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def save_clip(model: nn.Module, tokenizer: Any, config: dict, folder: str | Path) -> Path:
    """Write a CLIP as a folder that open_clip loads: configuration, float16 weights, tokenizer.

    config: model_cfg and preprocess_cfg, as open_clip's configuration files hold them.
    Returns the folder. Raises OSError: no room, not allowed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n")
    save_weights(model, folder / WEIGHTS_FILE)
    return folder
