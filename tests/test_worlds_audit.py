"""What a world gives away: planted leaks are found, and nothing else is; scenes that are free say nothing."""

import hashlib

import numpy as np
import pytest

from xaihelpers.worlds import aviary, free_scenes, telling

N, LABELS = 240, 20
CLASSES = np.repeat(np.arange(24), 10)


@pytest.fixture(scope="module")
def world():
    """Noise for features (240, 30), and twenty labels that have nothing to do with it."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 30)), (rng.random((N, LABELS)) < 0.3).astype(float)


# How well labels are told


def test_an_area_worked_out_by_hand():
    """Of the four pairs of a picture with the label and one without it, three are in order."""
    scores = np.tile([0.1, 0.4, 0.35, 0.8], 8)[:, None]
    labels = np.tile([0, 0, 1, 1], 8)[:, None]
    assert telling.areas(scores, labels) == pytest.approx([0.75])
    assert telling.areas(np.zeros_like(scores), labels) == pytest.approx([0.5])  # ties count half
    terms = telling.area_terms(scores, labels)[:, 0]
    # with the label: half and all of the others lie below; without it: all and half lie above
    assert terms[:4] == pytest.approx(0.75 + np.array([0.25, -0.25, -0.25, 0.25]) / 0.5)
    assert np.isnan(telling.areas(scores, np.eye(32)[:, :1])).all()  # a single picture has the label
    with pytest.raises(ValueError, match="have 239, 240 and 240 rows"):
        telling.told(np.zeros((239, 2)), np.zeros((240, 3)), CLASSES)


@pytest.mark.parametrize("kind", ["one column", "bent", "faint in all columns"])
def test_a_planted_leak_is_found_and_only_that(world, kind):
    features, labels = world[0].copy(), world[1]
    sign = 2 * labels[:, 3] - 1
    if kind == "one column":
        features[:, 7] = sign + 0.3 * features[:, 7]
    elif kind == "bent":  # far from the middle on either side
        features = np.where(labels[:, 3:4] > 0, 3, 0.5) * features[:, :2]
    else:
        features += 0.4 * sign[:, None]
    found = telling.told(features, labels, CLASSES)
    assert found.beyond[3] and found.areas[3] > 0.8
    assert np.delete(found.beyond, 3).sum() <= 1 and abs(np.delete(found.areas, 3).mean() - 0.5) < 0.03


# What pictures give


# What the renderer gives


# Free scenes


def test_a_version_draws_the_same_free_scenes():
    """Whoever means to draw other ones raises SCENES_VERSION."""
    content = hashlib.sha256()
    for name, index in (("Mallard", 7), ("Song_Sparrow", 5), ("Anna_Hummingbird", 3), ("Horned_Puffin", 11)):
        picture = free_scenes.draw_free(aviary.individual(0, index, name))
        content.update(picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes())
    assert {free_scenes.SCENES_VERSION: content.hexdigest()[:16]} == {"1": "57a3b06ffeaceb84"}
