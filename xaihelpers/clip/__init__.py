"""CLIP and Long-CLIP: images and texts in one space, through open_clip."""
from .embedding import TextEmbeddings, embed_images, embed_texts, token_lengths
from .loading import Clip, ClipError, load_clip, save_clip
from .stretching import stretch_positions

__all__ = ["Clip", "ClipError", "TextEmbeddings", "embed_images", "embed_texts", "load_clip", "save_clip", "stretch_positions", "token_lengths"]
