"""The prompts of pairs, what they are checked against, and what a bird can take."""

import pytest

from xaihelpers import substitute
from xaihelpers.datasets import DatasetError
from xaihelpers.substitute import SubstituteError, category, check_pair, pair_prompts


def test_prompts_are_the_papers_three_forms():
    assert pair_prompts("Cardinal", "has_breast_pattern::spotted") == (
        "a photo of a Cardinal with a spotted breast like a Brown Thrasher",
        "a photo of a Brown Thrasher with a spotted breast",
    )
    assert pair_prompts("Blue Jay", "has_bill_shape--needle") == (
        "a photo of a Blue Jay with the body of a Blue Jay and a beak like a Hummingbird",
        "a photo of a Hummingbird",
    )
    assert pair_prompts("053.Western_Grebe", "has_leg_color::black") == (
        "a photo of a Western Grebe with black legs",
        "a photo of a bird with black legs",
    )
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


def test_unknown_attributes_are_the_datas_error(drawn_birds):
    message = "unknown attribute 'has_crown_color::yelow'.*did you mean 'has_crown_color::yellow'"
    with pytest.raises(DatasetError, match=message):
        pair_prompts("Blue Jay", "has_crown_color::yelow")
    with pytest.raises(DatasetError, match=message):
        check_pair(drawn_birds, "Blue Jay", "has_crown_color::yelow")
    with pytest.raises(DatasetError, match="unknown attribute 'yellow crown'.*It is none of CUB's 312"):
        pair_prompts("Blue Jay", "yellow crown")


def test_a_shape_without_a_guide_of_the_papers():
    message = "has_bill_shape::cone: a shape is taken from a guide bird.*pass guide="
    with pytest.raises(SubstituteError, match=message):
        pair_prompts("Blue Jay", "has_bill_shape::cone")


def test_prompts_from_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"color": {"reference": "{reference}, {attribute}", "guide": "{guide}!"}, "guides": {}}')
    prompts = pair_prompts("Blue Jay", "has_crown_color::red", forms=file)
    assert prompts == ("a Blue Jay, a red crown", "a bird!")
    with pytest.raises(SubstituteError, match="mine.json: no file of prompt forms.*pattern"):
        pair_prompts("Blue Jay", "has_breast_pattern::spotted", forms=file)
    with pytest.raises(SubstituteError, match="nowhere.json"):
        pair_prompts("Blue Jay", "has_crown_color::red", forms=tmp_path / "nowhere.json")


def test_what_a_bird_can_take(drawn_birds):
    """It lacks it and could show it: a blue jay no blue crown, a swimming duck no black legs."""
    takes = substitute.substitutable(drawn_birds)
    birds = [name.split(".")[-1] for name in drawn_birds.classes.name]
    attributes = drawn_birds.attributes.name.tolist()

    def can_take(bird, attribute):
        return bool(takes[birds.index(bird), attributes.index(attribute)])

    assert takes.shape == (48, 312) and not (takes & substitute.class_shows(drawn_birds)).any()
    assert can_take("Blue_Jay", "has_crown_color::yellow") and not can_take(
        "Blue_Jay", "has_crown_color::blue"
    )
    assert can_take("Blue_Jay", "has_leg_color::pink") and not can_take("Gadwall", "has_leg_color::black")
