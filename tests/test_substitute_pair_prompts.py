"""Pairs: their prompts, what these are checked against, and exact counterfactuals."""

import numpy as np
import pytest
import torch

from xaihelpers import substitute
from xaihelpers.datasets import DatasetError
from xaihelpers.substitute import SubstituteError, category, check_pair, counterfactual_pair, pair_prompts
from xaihelpers.worlds import aviary
from xaihelpers.worlds.aviary import individuals

YELOW, CONE, SPOTTED = "has_crown_color::yelow", "has_bill_shape::cone", "has_breast_pattern::spotted"


def test_prompts_are_the_papers_three_forms():
    for bird, attribute, reference, guide in (
        (
            "Cardinal",
            SPOTTED,
            "Cardinal with a spotted breast like a Brown Thrasher",
            "Brown Thrasher with a spotted breast",
        ),
        (
            "Blue Jay",
            "has_bill_shape--needle",
            "Blue Jay with the body of a Blue Jay and a beak like a Hummingbird",
            "Hummingbird",
        ),
        (
            "053.Western_Grebe",
            "has_leg_color::black",
            "Western Grebe with black legs",
            "bird with black legs",
        ),
    ):
        assert pair_prompts(bird, attribute) == (f"a photo of a {reference}", f"a photo of a {guide}")
    reference, _ = pair_prompts("Blue Jay", "has_tail_shape::forked_tail", "Barn_Swallow")
    assert reference.endswith("and a tail like a Barn Swallow")
    groups = ("wing_color", "tail_pattern", "bill_shape", "size")
    assert [category(f"has_{group}::x") for group in groups] == ["color", "pattern", "shape", "shape"]


def test_pairs_are_checked_against_the_birds(drawn_birds):
    check_pair(drawn_birds, "Blue_Jay", "has_crown_color--yellow", "bird")
    check_pair(drawn_birds, "Blue Jay", "has_bill_shape::needle", "Anna_Hummingbird")
    message = "unknown class 'Bluu Jayy'.*did you mean 'Blue Jay'.*aviary has 48 birds"
    with pytest.raises(SubstituteError, match=message):
        check_pair(drawn_birds, "Bluu Jayy", "has_crown_color::yellow")
    with pytest.raises(SubstituteError, match="Blue Jay has a blue crown already"):
        check_pair(drawn_birds, "Blue Jay", "has_crown_color::blue")
    message = "the guide Mallard has not a needle bill: choose one that has, as .*Hummingbird"
    with pytest.raises(SubstituteError, match=message):
        substitute.substitute(None, "Blue Jay", "has_bill_shape::needle", "Mallard", world=drawn_birds)


def test_what_is_wrong_with_a_prompt(drawn_birds, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"color": {"reference": "{reference}, {attribute}", "guide": "{guide}!"}, "guides": {}}')
    prompts = pair_prompts("Blue Jay", "has_crown_color::red", forms=file)
    assert prompts == ("a Blue Jay, a red crown", "a bird!")
    for error, message, attribute, forms in (
        (DatasetError, "'has_crown_color::yelow'.*did you mean 'has_crown_color::yellow'", YELOW, {}),
        (DatasetError, "unknown attribute 'yellow crown'.*It is none of CUB's 312", "yellow crown", {}),
        (SubstituteError, "has_bill_shape::cone: a shape is taken from a guide bird.*pass guide=", CONE, {}),
        (SubstituteError, "mine.json: no file of prompt forms.*pattern", SPOTTED, {"forms": file}),
        (SubstituteError, "nowhere.json", SPOTTED, {"forms": tmp_path / "nowhere.json"}),
    ):
        with pytest.raises(error, match=message):
            pair_prompts("Blue Jay", attribute, **forms)


def test_what_a_bird_can_take(drawn_birds):
    """It lacks it and could show it: a blue jay no blue crown, a swimming duck no black legs."""
    takes = substitute.substitutable(drawn_birds)
    assert takes.shape == (48, 312) and not (takes & substitute.class_shows(drawn_birds)).any()
    birds = [name.split(".")[-1] for name in drawn_birds.classes.name]
    attributes = drawn_birds.attributes.name.tolist()
    for bird, attribute, can in (
        ("Blue_Jay", "has_crown_color::yellow", True),
        ("Blue_Jay", "has_crown_color::blue", False),
        ("Blue_Jay", "has_leg_color::pink", True),
        ("Gadwall", "has_leg_color::black", False),
    ):
        assert takes[birds.index(bird), attributes.index(attribute)] == can


RED = aviary.ATTRIBUTES.index("has_crown_color::red")


def test_before_and_after_differ_in_the_attribute_alone():
    """A blue jay with a red crown: the truth has red, not blue; the picture changes at the head alone."""
    crown = torch.tensor([substitute.group_of(name) == "crown_color" for name in aviary.ATTRIBUTES])
    for number in range(3):
        before, after, truth, earlier = counterfactual_pair(3, number, "Blue Jay", "has_crown_color::red")
        assert truth[RED] and not earlier[RED] and (truth != earlier)[~crown].sum() == 0
        assert truth[crown].sum() == 1 and substitute.portrait_of(before, 48).size == (48, 48)
        changed = (before.image.astype(int) - after.image).astype(bool).any(2)
        assert changed.any() and changed.mean() < 0.2 and before.box == after.box


def test_what_cannot_be_substituted(monkeypatch):
    with pytest.raises(DatasetError, match="none of CUB's 312"):
        counterfactual_pair(0, 0, "Cardinal", "has_crown_color::rad")
    with pytest.raises(ValueError, match="Cardinel"):
        counterfactual_pair(0, 0, "Cardinel", "has_crown_color::red")
    monkeypatch.setattr(individuals, "true_attributes", lambda bird: np.ones(312, bool))
    with pytest.raises(substitute.SubstituteError, match="choose another bird or attribute"):
        counterfactual_pair(0, 0, "Cardinal", "has_crown_color::blue")
