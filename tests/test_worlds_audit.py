"""What a world gives away: planted leaks are found, and nothing else is; free scenes stay as they are."""

import hashlib

import numpy as np
import pytest

from xaihelpers.worlds import aviary, free_scenes, telling

CLASSES = np.repeat(np.arange(24), 10)


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


def test_a_version_draws_the_same_free_scenes():
    """Whoever means to draw other ones raises SCENES_VERSION."""
    content = hashlib.sha256()
    for name, index in (("Mallard", 7), ("Song_Sparrow", 5), ("Anna_Hummingbird", 3), ("Horned_Puffin", 11)):
        picture = free_scenes.draw_free(aviary.individual(0, index, name))
        content.update(picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes())
    assert {free_scenes.SCENES_VERSION: content.hexdigest()[:16]} == {"1": "57a3b06ffeaceb84"}
