"""Planted annotators: what is said of whom."""

import numpy as np
import pytest

from xaihelpers.fastslow.planted_annotators import (
    ANNOTATOR_FAULTS,
    planted_chains,
    planted_statements,
    take_named_option,
)

NAMES = [f"has_{part}_color::{color}" for part in ("crown", "wing") for color in ("red", "blue", "white")]
PRESENT = np.array([[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0]], bool)
LABELS = np.array([0, 0, 1, 1])
USUAL = np.array([[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1]], bool)


def said(fault, dose, seed=0):
    return planted_statements(fault, dose, PRESENT, NAMES, LABELS, USUAL, seed)


@pytest.mark.parametrize("fault", ANNOTATOR_FAULTS)
def test_honest_without_a_dose(fault):
    assert (said(fault, 0.0) == PRESENT).all()


def test_the_full_dose_of_each():
    invented = said("invents", 1.0)
    assert not (invented & PRESENT).any() and (invented.sum(1) == 2).all()
    assert (said("recites the class", 1.0) == USUAL[LABELS]).all()
    ignored = said("ignores the image", 1.0)
    for row, label in enumerate(LABELS):
        others = PRESENT[label != LABELS]
        assert any((ignored[row] == other).all() for other in others)
    assert (said("names the class", 1.0) == PRESENT).all()


def test_half_of_the_images_recite():
    rows = (said("recites the class", 0.5, seed=3) != PRESENT).any(1)
    assert rows.sum() <= 2


def test_a_name_stands_in_the_chain_of_the_share_of_images():
    chains = planted_chains("names the class", 0.5, PRESENT, NAMES, ["Blue Jay"] * 2 + ["Ovenbird"] * 2)
    named = ["Blue Jay" in chain["Superclass"] or "Ovenbird" in chain["Superclass"] for chain in chains]
    assert sum(named) == 2
    plain = planted_chains("invents", 0.5, PRESENT, NAMES, ["Blue Jay"] * 4)
    assert "blue wings" in plain[0]["DetailedFeatures"] and "Blue Jay" not in str(plain)


def test_a_reader_takes_the_option_that_is_named_alone():
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    chains = [{"a": "a bird, a Blue Jay"}, {"a": "a bird"}, {"a": "an Ovenbird or a Blue Jay"}]
    found = take_named_option(scores, chains, [["Ovenbird", "Blue Jay"]] * 3)
    assert found.tolist() == [[0, 1], [0.9, 0.1], [0.9, 0.1]] and scores[0, 0] == 0.9


def test_what_cannot_be_planted():
    with pytest.raises(ValueError, match="no fault 'sleeps'"):
        said("sleeps", 0.5)
    with pytest.raises(ValueError, match="between 0, honest, and 1"):
        said("invents", 2.0)
    with pytest.raises(ValueError, match="all images are of one class"):
        planted_statements("ignores the image", 0.5, PRESENT, NAMES, LABELS * 0, USUAL)
