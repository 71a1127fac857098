"""What networks computed of images and texts, kept on disk under the content it was computed from."""
from .rows import cached_rows, content_key

__all__ = ["cached_rows", "content_key"]
