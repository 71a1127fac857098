"""Arrays on disk: what networks compute of images and texts, kept under the content it was computed from."""
