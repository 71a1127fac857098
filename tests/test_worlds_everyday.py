"""The everyday world: its vocabulary, its pictures pixel by pixel, and its folder."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from xaihelpers import datasets
from xaihelpers.worlds import everyday
from xaihelpers.worlds.everyday import everyday_files

PART = {name: number for number, name in enumerate(everyday.PARTS, 1)}
# sha256 of image, parts and points of the first of some categories.
GOLDEN = {
    "house": "fa9d7a276b2f3787",
    "fish": "a00a11eb8e561259",
    "bicycle": "9438f036cea8b12a",
    "balloon": "1c547ffce6e4e049",
}
# The version of the renderer, and what it draws: a digest of all categories' pictures and of the tables.
# Whoever means to draw other things, or to write other tables, raises RENDERER_VERSION; then committed
# outputs and shipped weights, that were made from the old ones, are to be made anew too.
VERSION = {"1": "fd301b196d12ee16"}


def digest(picture):
    return hashlib.sha256(
        picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes()
    ).hexdigest()[:16]


def shown(thing, picture):
    """{group: the values that a thing truly shows}."""
    true = iter(everyday.true_attributes(thing, picture.parts))
    return {group: {value for value in values if next(true)} for group, values in everyday.GROUPS.items()}


def test_golden_pictures():
    names = list(everyday.CATEGORIES)
    things = {name: everyday.thing(0, 50 * names.index(name), name) for name in GOLDEN}
    assert {name: digest(everyday.draw(thing)) for name, thing in things.items()} == GOLDEN


def test_a_version_draws_the_same_pictures_and_tables(world):
    assert {everyday.RENDERER_VERSION: world.digest} == VERSION
    assert (
        world.data.labels.tolist() == [n // 2 for n in range(40)] and world.data.mask_names == everyday.PARTS
    )


def test_attributes_by_hand():
    tree = everyday.Thing("tree", 0, 5, ("green", "red"), "plain", "street")
    picture = everyday.draw(tree)
    assert shown(tree, picture) == {
        "primary_color": {"green"},
        "secondary_color": {"red"},
        "pattern": {"plain"},
        "setting": {"street"},
        "part": {"trunk", "crown", "fruit"},
        "material": {"wood"},
        "superclass": {"plant"},
    }
    bare = picture._replace(parts=np.where(picture.parts == PART["fruit"], PART["crown"], picture.parts))
    assert shown(tree, bare)["part"] == {"trunk", "crown"}
    assert shown(tree, bare)["secondary_color"] == set()  # only its fruit were red
    assert shown(replace(tree, pattern="striped"), bare)["secondary_color"] == {"red"}  # so are its stripes
    trunk = picture._replace(parts=np.where(picture.parts == PART["trunk"], picture.parts, 0))
    assert shown(tree, trunk)["primary_color"] == set()


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
    return SimpleNamespace(data=datasets.load(root, check_files=True), digest=whole)
