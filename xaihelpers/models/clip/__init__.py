"""CLIP and Long-CLIP: images and texts in one space, through open_clip."""

from xaihelpers.models.clip.clip_embeddings import (
    TextEmbeddings,
    embed_images,
    embed_texts,
    encode_tokens,
    token_lengths,
)
from xaihelpers.models.clip.clip_models import CONFIG_FILE, WEIGHTS_FILE, Clip, load_clip, save_clip
from xaihelpers.models.clip.long_clip import set_positions, stretch_positions
from xaihelpers.models.clip.probe import clip_probe

__all__ = [
    "CONFIG_FILE",
    "Clip",
    "TextEmbeddings",
    "WEIGHTS_FILE",
    "clip_probe",
    "embed_images",
    "embed_texts",
    "encode_tokens",
    "load_clip",
    "save_clip",
    "set_positions",
    "stretch_positions",
    "token_lengths",
]
