"""The everyday world: its pixels and its tables, which belong to a version."""

import hashlib
import os

from worlds import everyday
from worlds.everyday import everyday_files
from xaihelpers import datasets

# The version of the renderer, and what it draws: a digest of all categories' pictures and of the tables.
# Whoever means to draw other things, or to write other tables, raises RENDERER_VERSION; then committed
# outputs and shipped weights, that were made from the old ones, are to be made anew too.
VERSION = {"1": "fd301b196d12ee16"}


def test_a_version_draws_the_same_pictures_and_tables(tmp_path, monkeypatch):
    drawn = []

    def draw(thing):
        picture = everyday.draw(thing)
        drawn.append(picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes())
        return picture

    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setattr(everyday_files, "draw", draw)
    root = everyday.ensure("few", images_per_class=2, seed=7, jobs=1)
    digests = [hashlib.sha256(content).hexdigest()[:16] for content in drawn]
    tables = [file.read_text() for file in sorted(root.rglob("*.txt"))]
    whole = hashlib.sha256("".join(digests + tables).encode()).hexdigest()[:16]
    assert {everyday.RENDERER_VERSION: whole} == VERSION
    data = datasets.load("few")  # one of another size, by its name
    assert data.labels.tolist() == [n // 2 for n in range(40)] and data.mask_names == everyday.PARTS
    assert data.root == root and all(map(os.path.isfile, data.images.path))
