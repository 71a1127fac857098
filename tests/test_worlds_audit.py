"""What a world gives away: planted leaks are found, and nothing else is; free scenes stay as they are."""

import hashlib
import json
from functools import partial

import numpy as np
import pytest
from PIL import Image

from xaihelpers.worlds import audit, aviary, free_scenes, telling
from xaihelpers.worlds.aviary import aviary_files

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


def test_bad_input_is_named(tmp_path, monkeypatch):
    Image.new("RGB", (224, 224)).save(tmp_path / "1.png")
    with pytest.raises(ValueError, match="a mask of .10, 224. pixels for an image of .224, 224."):
        audit.look(tmp_path / "1.png", np.zeros((10, 224), np.uint8))
    assert audit.shown_on("has_wing_color") == ("left wing", "right wing")
    with pytest.raises(ValueError, match="unknown attribute group 'hat'"):
        audit.shown_on("hat")
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    picture = aviary.draw(aviary.individual(0, 5, "Song_Sparrow"))
    monkeypatch.setattr(aviary_files, "draw", lambda bird: picture)
    root = aviary.ensure("birds", 1, decorrelated=1.0, jobs=1)
    for ensure in (free_scenes.ensure, partial(aviary.ensure, decorrelated=0.5)):
        with pytest.raises(ValueError, match="of other settings"):
            ensure("birds", 1, jobs=1)
    assert "scenes" not in json.loads((root / "aviary.json").read_text())


def test_a_version_draws_the_same_free_scenes():
    """Whoever means to draw other ones raises SCENES_VERSION."""
    content = hashlib.sha256()
    for name, index in (("Mallard", 7), ("Song_Sparrow", 5), ("Anna_Hummingbird", 3), ("Horned_Puffin", 11)):
        picture = free_scenes.draw_free(aviary.individual(0, index, name))
        content.update(picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes())
    assert {free_scenes.SCENES_VERSION: content.hexdigest()[:16]} == {"1": "57a3b06ffeaceb84"}
