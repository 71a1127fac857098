"""The everyday world: its pixels and its tables, which belong to a version."""

import hashlib
import os
from types import SimpleNamespace

import pytest

from worlds import everyday
from worlds.everyday import everyday_files
from xaihelpers import datasets

# The version of the renderer, and what it draws: a digest of all categories' pictures and of the tables.
# Whoever means to draw other things, or to write other tables, raises RENDERER_VERSION; then committed
# outputs and shipped weights, that were made from the old ones, are to be made anew too.
VERSION = {"1": "fd301b196d12ee16"}


def digest(picture):
    return hashlib.sha256(
        picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes()
    ).hexdigest()[:16]


def test_a_version_draws_the_same_pictures_and_tables(world):
    assert {everyday.RENDERER_VERSION: world.digest} == VERSION
    assert (
        world.data.labels.tolist() == [n // 2 for n in range(40)] and world.data.mask_names == everyday.PARTS
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """An everyday world of two things a category on disk, and a digest of its pictures and tables."""
    home, drawn = tmp_path_factory.mktemp("data"), []

    def draw(thing):
        picture = everyday.draw(thing)
        drawn.append(digest(picture))
        return picture

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XAI_DATA", str(home))
        patch.setattr(everyday_files, "draw", draw)
        root = everyday.ensure("few", images_per_class=2, seed=7, jobs=1)
        assert root == home / "few" and datasets.load("few").root == root  # one of another size, by its name
    tables = [file.read_text() for file in sorted(root.rglob("*.txt"))]
    whole = hashlib.sha256("".join(drawn + tables).encode()).hexdigest()[:16]
    data = datasets.load(root)
    assert all(map(os.path.isfile, data.images.path))
    return SimpleNamespace(data=data, digest=whole)
