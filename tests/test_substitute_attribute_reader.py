"""The reader of attributes: what a substitution affects, what is preserved, and what a reader must be."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from worlds.aviary import ATTRIBUTES
from xaihelpers import substitute
from xaihelpers.datasets import DatasetError
from xaihelpers.models import ModelError, aviary_resnet, save_weights


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("reader") / "reader.safetensors"
    return save_weights(substitute.AttributeReader(5, width=16), file)


def test_affected_groups_by_hand():
    assert substitute.affected_groups("has_crown_color--red") == {"crown_color"}
    assert substitute.affected_groups("has_tail_shape::forked_tail") == {"tail_shape"}
    breast = "breast_pattern breast_color primary_color upperparts_color underparts_color"
    assert substitute.affected_groups("has_breast_pattern::spotted") == set(breast.split())
    tail = {"tail_pattern", "upper_tail_color", "under_tail_color"}
    assert substitute.affected_groups("has_tail_pattern::solid") == tail


def test_plumage_preserved_by_hand():
    usual, shares = torch.zeros(2, 312, dtype=torch.bool), torch.zeros(2, 312)
    names = "crown_color::red", "wing_color::blue", "size::small_(5_-_9_in)", "leg_color::grey"
    columns = [ATTRIBUTES.index(f"has_{name}") for name in names]
    usual[:, columns] = True
    shares[0, columns[:2]] = 0.9
    shares[1, columns] = torch.tensor([0.3, 0.4, 0.6, 0.1])
    asked = substitute.Reading(shares, shares), usual
    assert substitute.plumage_preserved(*asked).tolist() == [0.5, 0.5]
    # with the crown substituted its group no longer counts
    preserved = substitute.plumage_preserved(*asked, ["has_crown_color::blue", "has_crown_color--blue"])
    assert preserved.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_what_is_no_reader(weights, tmp_path):
    file = save_weights(aviary_resnet(48), tmp_path / "small.safetensors")
    for name in (str(file), "nobody"):
        with pytest.raises(ModelError, match=f"{name}: no reader of attributes and species"):
            substitute.load_reader(name)
    cut = save_weights(substitute.AttributeReader(5, width=16).species, tmp_path / "cut.safetensors")
    save_file({f"species.{key}": value for key, value in load_file(cut).items()}, cut)
    with pytest.raises(ModelError, match="cut.safetensors: these are not the weights of a reader"):
        substitute.load_reader(str(cut))
    with pytest.raises(DatasetError, match="nowhere.png"):
        substitute.read_attributes(substitute.load_reader(str(weights)), ["nowhere.png"])
