"""The studio: birds of one place differ in their plumage and in nothing else."""

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt

from xaihelpers.worlds import aviary, studio


def test_birds_of_a_place_differ_in_the_changed_part_alone():
    species = aviary.species_id("Cardinal")
    before = studio.studio_bird(1, species)
    after = aviary.substitute(before, "has_belly_color::blue")
    pictures = [aviary.draw(bird) for bird in (before, after)]
    assert np.array_equal(pictures[0].parts, pictures[1].parts)
    changed = (pictures[0].image != pictures[1].image).any(2)
    belly = pictures[0].parts == aviary.PARTS.index("belly") + 1
    assert changed[belly].mean() > 0.9
    assert np.quantile(distance_transform_edt(~belly)[changed], 0.98) < 5  # and its blended edge
    other = aviary.draw(studio.studio_bird(1, aviary.species_id("Blue_Jay")))
    assert np.array_equal(other.parts > 0, pictures[0].parts > 0)  # one outline
    outside = distance_transform_edt(pictures[0].parts == 0) > 2
    assert np.array_equal(other.image[outside], pictures[0].image[outside])  # one ground


def test_the_four_places_are_free_and_differ():
    birds = [studio.studio_bird(place, aviary.species_id("Cardinal")) for place in range(4)]
    pictures = [aviary.draw(bird) for bird in birds]
    for bird, picture in zip(birds, pictures, strict=True):
        visible = aviary.visible_attributes(bird, picture, np.random.default_rng(0))
        eight = studio.studio_shows()[bird.species]
        assert visible[eight].all()  # each of the eight groups can be seen
        portrait = np.asarray(studio.studio_portrait(picture, 64))
        assert portrait.shape == (64, 64, 3)
    assert len({picture.image.tobytes() for picture in pictures}) == 4


def test_species_differ_and_deviate_in_the_eight_groups_alone():
    shows, takes = studio.studio_shows(), studio.studio_takes()
    species = studio.studio_species()
    assert len(np.unique(shows[species], axis=0)) >= len(species) - 1
    assert not shows[np.setdiff1d(np.arange(len(shows)), species)].any()
    assert not (shows & takes).any() and takes[species].any(1).all()
    rng = np.random.default_rng(0)
    usual = aviary.true_attributes(studio.studio_bird(0, species[0]))
    eight = [name.removeprefix("has_").split("::")[0] in studio.STUDIO_GROUPS for name in aviary.ATTRIBUTES]
    follow = [name.split("::")[0].endswith(("upperparts_color", "underparts_color", "primary_color"))
              for name in aviary.ATTRIBUTES]  # fmt: skip
    fixed = ~(np.array(eight) | np.array(follow))
    n_changed = 0
    for _ in range(200):
        now = aviary.true_attributes(studio.studio_bird(0, species[0], rng, 0.1))
        assert np.array_equal(now[fixed], usual[fixed])
        n_changed += (now != usual).any()
    assert 60 < n_changed < 140  # of 200: 1 - .9^8 is .57, less what is drawn as it was


def test_a_bird_that_does_not_perch_is_none_of_the_studio():
    with pytest.raises(ValueError, match="not of the studio"):
        studio.studio_bird(0, aviary.species_id("Mallard"))
