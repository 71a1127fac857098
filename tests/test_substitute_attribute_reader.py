"""The reader of attributes: what a substitution affects, what is preserved, and what a reader must be."""

import numpy as np
import pytest
import torch
from PIL import Image

from xaihelpers.datasets import DatasetError
from xaihelpers.models import aviary_resnet, save_weights
from xaihelpers.substitute import (
    AttributeReader,
    Reading,
    SubstituteError,
    affected_groups,
    group_of,
    is_shown,
    load_reader,
    plumage_preserved,
    read_attributes,
)
from xaihelpers.worlds import aviary
from xaihelpers.worlds.aviary import ATTRIBUTES


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("reader") / "reader.safetensors"
    return save_weights(AttributeReader(5, width=16), file)


def test_affected_groups_are_the_renderers():
    for number in range(200):
        rng = np.random.default_rng(number)
        bird = aviary.individual(1, number, int(rng.integers(48)))
        attribute = str(rng.choice(ATTRIBUTES))
        changed = aviary.true_attributes(bird) != aviary.true_attributes(aviary.substitute(bird, attribute))
        groups = {group_of(ATTRIBUTES[column]) for column in np.flatnonzero(changed)}
        assert groups <= affected_groups(attribute), attribute


def test_affected_groups_by_hand():
    assert affected_groups("has_crown_color--red") == {"crown_color"}
    assert affected_groups("has_tail_shape::forked_tail") == {"tail_shape"}
    assert affected_groups("has_breast_pattern::spotted") == {
        "breast_pattern",
        "breast_color",
        "primary_color",
        "upperparts_color",
        "underparts_color",
    }
    tail = {"tail_pattern", "upper_tail_color", "under_tail_color"}
    assert affected_groups("has_tail_pattern::solid") == tail


def test_plumage_preserved_by_hand():
    usual, shares = torch.zeros(2, 312, dtype=torch.bool), torch.zeros(2, 312)
    names = [
        "has_crown_color::red",
        "has_wing_color::blue",
        "has_size::small_(5_-_9_in)",
        "has_leg_color::grey",
    ]
    columns = [ATTRIBUTES.index(name) for name in names]
    usual[:, columns] = True
    shares[0, columns[:2]] = 0.9
    shares[1, columns] = torch.tensor([0.3, 0.4, 0.6, 0.1])
    reading = Reading(shares, shares)
    assert plumage_preserved(reading, usual).tolist() == [0.5, 0.5]
    # with the crown substituted its group no longer counts
    preserved = plumage_preserved(reading, usual, ["has_crown_color::blue", "has_crown_color--blue"])
    assert preserved.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_reading(weights, tmp_path):
    reader = load_reader(str(weights))
    pixels = np.random.default_rng(0).integers(256, size=(3, 120, 100, 3), dtype=np.uint8)
    pictures = [Image.fromarray(image) for image in pixels]
    pictures[1].save(tmp_path / "bird.png")
    reading = read_attributes(reader, [pictures[0], tmp_path / "bird.png", pictures[2]], batch_size=2)
    assert reading.attributes.shape == (3, 312) and reading.species.shape == (3, 5)
    # a softmax for each of the 28 groups
    torch.testing.assert_close(reading.attributes.sum(1), torch.full((3,), 28.0))
    assert is_shown(reading, reading.attributes.argmax(1)).all()
    assert not is_shown(reading, reading.attributes.argmin(1)).any()
    torch.testing.assert_close(reading.species.sum(1), torch.ones(3))
    torch.testing.assert_close(read_attributes(reader, pictures[1:2]).attributes, reading.attributes[1:2])
    assert read_attributes(reader, []).attributes.shape == (0, 312)


def test_what_is_no_reader(weights, tmp_path):
    file = save_weights(aviary_resnet(48), tmp_path / "small.safetensors")
    message = "not the weights of a reader of attributes and species, which notebook 94 trains"
    with pytest.raises(SubstituteError, match=message):
        load_reader(str(file))
    message = "nobody: there is no such reader, neither among the shipped weights nor as a file"
    with pytest.raises(SubstituteError, match=message):
        load_reader("nobody")
    with pytest.raises(DatasetError, match="nowhere.png"):
        read_attributes(load_reader(str(weights)), ["nowhere.png"])


def test_each_group_is_read_by_its_own_query():
    """Moving one group's query moves the logits of that group alone; the species have the last."""
    torch.manual_seed(0)
    reader = AttributeReader(5, width=16).eval()
    pictures = torch.rand(2, 3, 64, 64) * 2 - 1
    before = reader(pictures)
    assert before.shape == (2, 312 + 5)
    sizes = [len(values) for values in aviary.GROUPS.values()]
    start = 0
    for group, size in enumerate([*sizes, 5]):
        with torch.no_grad():
            reader.queries[group] += 1
        changed = (reader(pictures) != before).any(0)
        assert changed[start : start + size].all() and changed.sum() == size
        with torch.no_grad():
            reader.queries[group] -= 1
        before = reader(pictures)
        start += size
