"""The aviary and the studio: their pixels and tables, and what changes with an attribute."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation

from worlds import aviary, studio
from worlds.aviary import aviary_files
from xaihelpers import datasets

# species, index, sha256 of image, parts and points; of several seats: branch, trunk, water, air
GOLDEN = {
    ("Song Sparrow", 5): "16e6c127f2072d98",
    ("Downy Woodpecker", 1): "9c132d9e4b5a6930",
    ("Mallard", 7): "7da8578c96915bdf",
    ("Anna Hummingbird", 3): "6355c79109ef708e",
}
# The version of the renderer, and what it draws: a digest of all species' pictures and of the tables.
# Whoever means to draw other birds, or to write other tables, raises RENDERER_VERSION; then committed outputs
# and shipped weights, that were made from the old ones, are to be made anew too.
VERSION = {"1": "acc1f35e4fab107b"}


def content(picture):
    return picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes()


def digest(picture):
    return hashlib.sha256(content(picture)).hexdigest()[:16]


def test_unknown_names_suggest_the_nearest():
    bird = aviary.individual(0, 0, "Blue Jay")
    with pytest.raises(ValueError, match="unknown species 'Blu_Jay'.*'Blue_Jay'"):
        aviary.individual(0, 0, "Blu Jay")
    with pytest.raises(ValueError, match="unknown attribute 'has_crown_colour::red'.*has_crown_color::red"):
        aviary.substitute(bird, "has_crown_colour::red")
    assert aviary.species_id("Black and white Warbler") == 1


def test_same_birds_in_another_process():
    """Other hash seed, other threads, the instruction set of an older machine, other birds drawn first."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    code = f"""
from test_worlds_aviary import aviary, digest

for name, index in {[*GOLDEN][::-1]}:
    print(digest(aviary.draw(aviary.individual(0, index, name))))
"""
    plain = {
        "PYTHONHASHSEED": "4711",
        "OMP_NUM_THREADS": "3",
        "NPY_DISABLE_CPU_FEATURES": " ".join(f for f in __cpu_dispatch__ if __cpu_features__[f]),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    started = [sys.executable, "-c", code]
    done = subprocess.run(started, env={**os.environ, **plain}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*GOLDEN.values()][::-1]


def test_a_substituted_colour_stays_in_its_region():
    """What has an edge changes nothing beyond its anti-aliased edge."""
    bird = aviary.individual(0, 9, "Blue Jay")
    before = aviary.draw(bird)
    for part in ("left eye", "beak", "left leg", "left wing"):
        group = part.split()[-1].replace("beak", "bill") + "_color"
        near = [name for name in aviary.PARTS if name.split()[-1] == part.split()[-1]]
        region = np.isin(before.parts, [aviary.PARTS.index(name) + 1 for name in near])
        value = "red" if "blue" in bird.values[group] else "blue"
        after = aviary.draw(aviary.substitute(bird, f"has_{group}::{value}"))
        changed = (after.image != before.image).any(-1)
        assert changed[region].mean() > 0.4  # the markings keep their own colour
        assert not changed[~binary_dilation(region, np.ones((3, 3)), iterations=3)].any()
        assert np.array_equal(after.parts, before.parts) and after.box == before.box


def test_a_version_draws_the_same_pictures_and_tables(tmp_path, monkeypatch):
    """Of one bird a species."""
    drawn = []

    def draw(bird, free_scene):
        picture = aviary.draw(bird, free_scene)
        drawn.append(digest(picture))
        return picture

    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setattr(aviary_files, "draw", draw)
    root = aviary.ensure(images_per_class=1, seed=7, jobs=1)
    tables = [file.read_text() for file in sorted(root.rglob("*.txt"))]
    whole = hashlib.sha256("".join(drawn + tables).encode()).hexdigest()[:16]
    assert {aviary.RENDERER_VERSION: whole} == VERSION
    data, picture = datasets.load(root), aviary.draw(aviary.individual(7, 9, 9))
    on_disk = np.asarray(Image.open(data.images["path"].iloc[9])).astype(float)
    assert np.abs(on_disk - picture.image).mean() < 6  # JPEG, and the grain that it smoothes
    assert np.array_equal(data.part_mask(9), picture.parts)


def test_a_version_draws_the_same_free_scenes():
    """Whoever means to draw other ones raises SCENES_VERSION."""
    drawn = hashlib.sha256()
    for name, index in (("Mallard", 7), ("Song_Sparrow", 5), ("Anna_Hummingbird", 3), ("Horned_Puffin", 11)):
        drawn.update(content(aviary.draw(aviary.individual(0, index, name), free_scene=True)))
    assert {aviary.SCENES_VERSION: drawn.hexdigest()[:16]} == {"1": "57a3b06ffeaceb84"}


def test_birds_of_the_studio_are_free_and_their_pixels_stay():
    """Other pixels belong to another RENDERER_VERSION."""
    drawn = hashlib.sha256()
    for place in range(4):
        bird = studio.studio_bird(place, aviary.species_id("Cardinal"))
        picture = aviary.draw(bird)
        visible = aviary.visible_attributes(bird, picture, np.random.default_rng(0))
        assert visible[studio.studio_shows()[bird.species]].all()  # each of the eight groups can be seen
        assert studio.studio_portrait(picture, 64).size == (64, 64)
        drawn.update(picture.image.tobytes())
    assert {aviary.RENDERER_VERSION: drawn.hexdigest()[:16]} == {"1": "57cf16b4a1194873"}
