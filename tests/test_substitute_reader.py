"""The reader of attributes: what a substitution touches, what is kept, and what a reader must be."""
import numpy as np
import pytest
import torch
from PIL import Image

from xaihelpers import aviary, backbones
from xaihelpers.aviary import ATTRIBUTES
from xaihelpers.backbones.weights import save_weights
from xaihelpers.substitute import (
    AttributeReader,
    Read,
    SubstituteError,
    is_shown,
    load_reader,
    plumage_kept,
    read,
    touched_groups,
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    return save_weights(AttributeReader(5, width=16), tmp_path_factory.mktemp("reader") / "reader.safetensors")


def test_touched_groups_are_the_renderers():
    for number in range(200):
        rng = np.random.default_rng(number)
        bird, attribute = aviary.individual(1, number, int(rng.integers(48))), str(rng.choice(ATTRIBUTES))
        changed = aviary.true_attributes(bird) != aviary.true_attributes(aviary.substitute(bird, attribute))
        assert {name.removeprefix("has_").split("::")[0] for name, of in zip(ATTRIBUTES, changed) if of} <= touched_groups(attribute), attribute


def test_touched_groups_by_hand():
    assert touched_groups("has_crown_color--red") == {"crown_color"} and touched_groups("has_tail_shape::forked_tail") == {"tail_shape"}
    assert touched_groups("has_breast_pattern::spotted") == {"breast_pattern", "breast_color", "primary_color", "upperparts_color", "underparts_color"}
    assert touched_groups("has_tail_pattern::solid") == {"tail_pattern", "upper_tail_color", "under_tail_color"}


def test_plumage_kept_by_hand():
    usual, seen = torch.zeros(2, 312, dtype=torch.bool), torch.zeros(2, 312)
    names = ["has_crown_color::red", "has_wing_color::blue", "has_size::small_(5_-_9_in)", "has_leg_color::grey"]
    columns = [ATTRIBUTES.index(name) for name in names]
    usual[:, columns] = True
    seen[0, columns[:2]] = 0.9
    seen[1, columns] = torch.tensor([0.3, 0.4, 0.6, 0.1])
    assert plumage_kept(Read(seen, seen), usual).tolist() == [0.5, 0.5]
    # with the crown substituted its group no longer counts
    assert plumage_kept(Read(seen, seen), usual, ["has_crown_color::blue", "has_crown_color--blue"]).tolist() == pytest.approx([1 / 3, 2 / 3])


def test_reading(weights, tmp_path):
    reader = load_reader(str(weights))
    pictures = [Image.fromarray(pixels) for pixels in np.random.default_rng(0).integers(256, size=(3, 120, 100, 3), dtype=np.uint8)]
    pictures[1].save(tmp_path / "bird.png")
    seen = read(reader, [pictures[0], tmp_path / "bird.png", pictures[2]], batch_size=2)
    assert seen.attributes.shape == (3, 312) and seen.species.shape == (3, 5)
    torch.testing.assert_close(seen.attributes.sum(1), torch.full((3,), 28.0))  # a softmax for each of the 28 groups
    assert is_shown(seen, seen.attributes.argmax(1)).all() and not is_shown(seen, seen.attributes.argmin(1)).any()
    torch.testing.assert_close(seen.species.sum(1), torch.ones(3))
    torch.testing.assert_close(read(reader, pictures[1:2]).attributes, seen.attributes[1:2])
    assert read(reader, []).attributes.shape == (0, 312)


def test_what_is_no_reader(weights, tmp_path):
    file = backbones.save_weights(backbones.aviary_resnet(48), tmp_path / "small.safetensors")
    with pytest.raises(SubstituteError, match="not the weights of a reader of attributes and species, which notebook 94 trains"):
        load_reader(str(file))
    with pytest.raises(SubstituteError, match="nobody: there is no such reader, neither among the shipped weights nor as a file"):
        load_reader("nobody")
    with pytest.raises(Exception, match="nowhere.png"):
        read(load_reader(str(weights)), ["nowhere.png"])


def test_each_group_is_read_by_its_own_query():
    """Moving one group's query moves the logits of that group alone; the species have the last."""
    torch.manual_seed(0)
    reader, pictures = AttributeReader(5, width=16).eval(), torch.rand(2, 3, 64, 64) * 2 - 1
    before = reader(pictures)
    assert before.shape == (2, 312 + 5)
    sizes, start = [len(values) for values in aviary.GROUPS.values()], 0
    for g, size in enumerate([*sizes, 5]):
        with torch.no_grad():
            reader.queries[g] += 1
        changed = (reader(pictures) != before).any(0)
        assert changed[start:start + size].all() and changed.sum() == size
        with torch.no_grad():
            reader.queries[g] -= 1
        before, start = reader(pictures), start + size
