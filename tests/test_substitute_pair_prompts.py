"""Pairs: their prompts, and exact counterfactuals."""

import numpy as np
import pytest
import torch

from worlds import aviary
from worlds.aviary import individuals
from xaihelpers import substitute
from xaihelpers.datasets import DatasetError
from xaihelpers.substitute import SubstituteError, category, counterfactual_pair, pair_prompts


def test_prompts_are_the_papers_three_forms():
    reference, guide = pair_prompts("Cardinal", "has_breast_pattern::spotted")
    assert reference == "a photo of a Cardinal with a spotted breast like a Brown Thrasher"
    assert guide == "a photo of a Brown Thrasher with a spotted breast"
    reference, guide = pair_prompts("Blue Jay", "has_bill_shape--needle")
    assert reference == "a photo of a Blue Jay with the body of a Blue Jay and a beak like a Hummingbird"
    assert guide == "a photo of a Hummingbird"
    reference, guide = pair_prompts("053.Western_Grebe", "has_leg_color::black")
    assert reference == "a photo of a Western Grebe with black legs"
    assert guide == "a photo of a bird with black legs"
    reference, _ = pair_prompts("Blue Jay", "has_tail_shape::forked_tail", "Barn_Swallow")
    assert reference.endswith("and a tail like a Barn Swallow")
    groups = ("wing_color", "tail_pattern", "bill_shape", "size")
    assert [category(f"has_{group}::x") for group in groups] == ["color", "pattern", "shape", "shape"]

    with pytest.raises(SubstituteError, match="has_bill_shape::cone: a shape is taken from a guide bird"):
        pair_prompts("Blue Jay", "has_bill_shape::cone")


@pytest.mark.parametrize(
    ("bird", "attribute", "reference", "guide"),
    [
        ("European Goldfinch", "has_crown_color::black", "{} with {}", "a bird with {}"),
        ("Downy Woodpecker", "has_breast_color::red", "{} with {}", "a bird with {}"),
        (
            "Western Grebe",
            "has_tail_pattern::solid",
            "{} with {} like a Gray Catbird",
            "a Gray Catbird with {}",
        ),
        (
            "Cardinal",
            "has_breast_pattern::spotted",
            "{} with {} like a Brown Thrasher",
            "a Brown Thrasher with {}",
        ),
        (
            "Blue Jay",
            "has_bill_shape::needle",
            "{} with the body of a Blue Jay and {} like a Hummingbird",
            "a Hummingbird",
        ),
    ],
)
def test_prompts_as_appendix_d_prints_them(bird, attribute, reference, guide):
    words = {
        "crown_color": "black colored feathers on the crown of its head",
        "breast_color": "a red colored breast",
    }
    words |= {"tail_pattern": "a solid tail", "breast_pattern": "a spotted belly", "bill_shape": "a beak"}
    said = words[substitute.group_of(attribute)]
    an = "a European" if bird.startswith("European") else f"a {bird.split()[0]}"
    wanted = (
        f"A photo of {reference.format(an + bird[len(bird.split()[0]) :], said)}",
        f"A photo of {guide.format(said)}",
    )
    assert pair_prompts(bird, attribute, forms="sub_pairs_paper.json") == wanted


@pytest.mark.parametrize("text", ["", "[]", '{"color": {"reference": "a bird"}}'])
def test_a_file_of_other_forms_is_named(tmp_path, text):
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(SubstituteError, match="mine.json holds no forms of prompts"):
        pair_prompts("Cardinal", "has_leg_color::black", forms=str(tmp_path / "mine.json"))


def test_counterfactual_pairs(monkeypatch):
    """A blue jay with a red crown: the truth differs at the crown alone, and so does the picture."""
    crown = torch.tensor([substitute.group_of(name) == "crown_color" for name in aviary.ATTRIBUTES])
    before, after, truth, earlier = counterfactual_pair(3, 0, "Blue Jay", "has_crown_color::red")
    assert truth[aviary.ATTRIBUTES.index("has_crown_color::red")] and truth[crown].sum() == 1
    assert (truth != earlier)[crown].any() and not (truth != earlier)[~crown].any()
    assert 0 < (before.image != after.image).any(2).mean() < 0.2 and before.box == after.box
    with pytest.raises(DatasetError, match="none of CUB's 312"):
        counterfactual_pair(0, 0, "Cardinal", "has_crown_color::rad")
    monkeypatch.setattr(individuals, "true_attributes", lambda bird: np.ones(312, bool))
    with pytest.raises(SubstituteError, match="choose another bird or attribute"):
        counterfactual_pair(0, 0, "Cardinal", "has_crown_color::blue")
