import numpy as np
import pytest
import torch

from xaihelpers import aviary, substitute

RED = aviary.ATTRIBUTES.index("has_crown_color::red")


def test_before_and_after_differ_in_the_attribute_alone():
    """A blue jay with a red crown: the truth has red, not blue; nothing outside the crown's group changes, and neither does the picture far from the head."""
    for number in range(6):
        before, after, truth = substitute.exact(3, number, "Blue Jay", "has_crown_color::red")
        crown = torch.tensor([substitute.group_of(name) == "crown_color" for name in aviary.ATTRIBUTES])
        assert truth[RED] and truth[crown].sum() == 1
        changed = (before.image.astype(int) - after.image).astype(bool).any(2)
        assert changed.any() and changed.mean() < 0.2 and before.box == after.box


def test_an_individual_that_has_it_already_is_passed_over():
    """A few cardinals are plain morphs without a red crown: only they can be given one."""
    found = [substitute.exact(1, number, "Cardinal", "has_crown_color::red").truth[RED] for number in range(3)]
    plain = [aviary.true_attributes(aviary.individual(1, number, "Cardinal"))[RED] for number in range(3)]
    assert all(found) and all(plain)


def test_a_hidden_part_is_passed_over(monkeypatch):
    """The first bird's crown counts as hidden: another individual is drawn."""
    seen = []
    real = aviary.certainties

    def first_hidden(parts, points, rng):
        seen.append(1)
        return np.where(np.arange(312) == RED, 1, 4) if len(seen) == 1 else real(parts, points, rng)

    shown = substitute.exact(3, 0, "Blue Jay", "has_crown_color::red").after.image
    monkeypatch.setattr(aviary, "certainties", first_hidden)
    other = substitute.exact(3, 0, "Blue Jay", "has_crown_color::red").after.image
    assert len(seen) > 1 and not np.array_equal(shown, other)


def test_what_cannot_be_substituted(monkeypatch):
    with pytest.raises(substitute.SubstituteError, match="none of CUB's 312"):
        substitute.exact(0, 0, "Cardinal", "has_crown_color::rad")
    with pytest.raises(ValueError, match="Cardinel"):
        substitute.exact(0, 0, "Cardinel", "has_crown_color::red")
    monkeypatch.setattr(aviary, "true_attributes", lambda bird: np.ones(312, bool))
    with pytest.raises(substitute.SubstituteError, match="choose another bird or attribute"):
        substitute.exact(0, 0, "Cardinal", "has_crown_color::blue")


def test_portrait_is_of_the_size_asked_for():
    before, *_ = substitute.exact(0, 0, "Mallard", "has_breast_color::blue")
    assert substitute.portrait(before, 48).size == (48, 48)
