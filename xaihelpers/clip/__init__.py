"""CLIP and Long-CLIP: images and texts in one space, through open_clip."""
from .embedding import TextEmbeddings, embed_images, embed_texts, encode_tokens, token_lengths
from .loading import Clip, ClipError, load_clip, save_clip
from .stretching import set_positions, stretch_positions

__all__ = ["Clip", "ClipError", "TextEmbeddings", "embed_images", "embed_texts", "encode_tokens", "load_clip", "save_clip", "set_positions", "stretch_positions",
           "token_lengths"]
