"""Counterfactual pairs: what changes, which individuals are passed over, and what cannot be substituted."""

import numpy as np
import pytest
import torch

from xaihelpers import substitute
from xaihelpers.datasets import DatasetError
from xaihelpers.substitute import counterfactual_pair
from xaihelpers.worlds import aviary
from xaihelpers.worlds.aviary import aviary_files, individuals

RED = aviary.ATTRIBUTES.index("has_crown_color::red")


def test_before_and_after_differ_in_the_attribute_alone():
    """A blue jay with a red crown: the truth has red, not blue; the picture changes at the head alone."""
    crown = torch.tensor([substitute.group_of(name) == "crown_color" for name in aviary.ATTRIBUTES])
    for number in range(6):
        before, after, truth, earlier = counterfactual_pair(3, number, "Blue Jay", "has_crown_color::red")
        red = aviary.ATTRIBUTES.index("has_crown_color::red")
        assert truth[red] and not earlier[red] and (truth != earlier)[~crown].sum() == 0
        assert truth[RED] and truth[crown].sum() == 1
        changed = (before.image.astype(int) - after.image).astype(bool).any(2)
        assert changed.any() and changed.mean() < 0.2 and before.box == after.box


def test_an_individual_that_has_it_already_is_passed_over():
    """A few cardinals are plain morphs without a red crown: only they can be given one."""
    for number in range(3):
        usual = aviary.true_attributes(aviary.individual(1, number, "Cardinal"))
        assert usual[RED]
        assert counterfactual_pair(1, number, "Cardinal", "has_crown_color::red").truth[RED]


def test_a_hidden_part_is_passed_over(monkeypatch):
    """The first bird's crown counts as hidden: another individual is drawn."""
    calls = []
    original = aviary_files.annotation_certainty

    def first_hidden(parts, points, rng):
        calls.append(1)
        if len(calls) == 1:
            return np.where(np.arange(312) == RED, 1, 4)
        return original(parts, points, rng)

    shown = counterfactual_pair(3, 0, "Blue Jay", "has_crown_color::red").after.image
    monkeypatch.setattr(aviary_files, "annotation_certainty", first_hidden)
    other = counterfactual_pair(3, 0, "Blue Jay", "has_crown_color::red").after.image
    assert len(calls) > 1 and not np.array_equal(shown, other)


def test_what_cannot_be_substituted(monkeypatch):
    with pytest.raises(DatasetError, match="none of CUB's 312"):
        counterfactual_pair(0, 0, "Cardinal", "has_crown_color::rad")
    with pytest.raises(ValueError, match="Cardinel"):
        counterfactual_pair(0, 0, "Cardinel", "has_crown_color::red")
    monkeypatch.setattr(individuals, "true_attributes", lambda bird: np.ones(312, bool))
    with pytest.raises(substitute.SubstituteError, match="choose another bird or attribute"):
        counterfactual_pair(0, 0, "Cardinal", "has_crown_color::blue")


def test_portrait_is_of_the_size_asked_for():
    before, *_ = counterfactual_pair(0, 0, "Mallard", "has_breast_color::blue")
    assert substitute.portrait_of(before, 48).size == (48, 48)
