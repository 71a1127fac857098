"""The contract: wrong outputs are refused, files say the same as objects, and rows find their images."""

import json

import pytest
import torch
from safetensors.torch import save_file

from xaihelpers.outputs import ConceptOutputs, read_outputs, save_outputs


def outputs(**changed):
    """Two images, three concepts, two classes."""
    parts = {
        "values": torch.zeros(2, 3),
        "contributions": torch.zeros(2, 3),
        "class_weights": torch.zeros(3, 2),
        "logits": torch.tensor([[0.0, 1.0], [2.0, 1.0]]),
        "concepts": ["red crown", "long bill", "black eye"],
        "classes": ["jay", "crow"],
    }
    return ConceptOutputs(**parts | changed)


def test_outputs():
    assert outputs().predictions.tolist() == [1, 0]
    assert outputs().accuracy(torch.tensor([1, 1])) == 0.5
    assert outputs(class_weights=None).class_weights is None


@pytest.mark.parametrize(
    "name, wrong, needed",
    [
        ("contributions", (2, 2), r"\(2, 3\)"),
        ("values", (2, 4), r"\(2, 3\)"),
        ("class_weights", (2, 3), r"\(3, 2\)"),
        ("logits", (3, 2), r"\(2, 2\)"),
        ("concept_maps", (2, 4, 7, 7), r"\(2, 3, 7, 7\)"),
        ("concept_maps", (2, 3, 7), r"\(2, 3, 'H', 'W'\)"),
    ],
)
def test_outputs_of_wrong_shape(name, wrong, needed):
    with pytest.raises(ValueError, match=f"{name} is .*2 images, 3 concepts and 2 classes need {needed}"):
        outputs(**{name: torch.zeros(wrong)})


@pytest.mark.parametrize(
    "name, shape, place, named",
    [
        ("values", (2, 3), (1, 2), "row 1, 'black eye'"),
        ("contributions", (2, 3), (0, 1), "row 0, 'long bill'"),
        ("class_weights", (3, 2), (2, 0), "row 2, 'black eye'"),
        ("logits", (2, 2), (1, 0), "row 1, 'jay'"),
        ("concept_maps", (2, 3, 4, 5), (1, 0, 3, 4), "row 1, 'red crown'"),
    ],
)
def test_outputs_that_are_no_numbers(name, shape, place, named):
    tensor = torch.zeros(shape)
    tensor[place] = torch.nan if name == "values" else -torch.inf
    with pytest.raises(
        ValueError, match=f"{name} has 1 values that are NaN or infinite, the first in {named}"
    ):
        outputs(**{name: tensor})


def test_outputs_on_different_devices():
    for name in ("contributions", "class_weights", "logits"):
        with pytest.raises(ValueError, match=f"different devices: .*{name} on meta"):
            outputs(**{name: getattr(outputs(), name).to("meta")})
    with pytest.raises(ValueError, match="logits on cpu, labels on meta"):
        outputs().accuracy(torch.zeros(2, device="meta"))


# Images


IDS = ["1.jay/a.png", "1.jay/b.png", "2.crow/a.png", "2.crow/b.png"]


def of_four_images(**changed):
    """Outputs whose numbers say which image they are of."""
    number = torch.arange(4.0)
    parts = {
        "values": number[:, None] + torch.tensor([0.0, 0.1, 0.2]),
        "contributions": 10 * number[:, None].expand(4, 3),
        "class_weights": torch.ones(3, 2),
        "logits": torch.stack([number, 1.5 + 0 * number], 1),
        "image_ids": IDS,
        "concept_maps": number[:, None, None, None].expand(4, 3, 2, 5),
    }
    return outputs(**parts | changed)


PER_IMAGE = ("values", "contributions", "logits", "concept_maps")


def test_outputs_in_another_order_are_realigned():
    whole, order = of_four_images(), [2, 0, 3, 1]
    shuffled = of_four_images(
        image_ids=[IDS[row] for row in order], **{name: getattr(whole, name)[order] for name in PER_IMAGE}
    )
    aligned = shuffled.align(IDS)
    assert aligned.image_ids == IDS
    for name in (*PER_IMAGE, "class_weights"):
        assert torch.equal(getattr(aligned, name), getattr(whole, name)), name
    assert aligned.predictions.tolist() == [1, 1, 0, 0] and shuffled.image_ids != IDS
    assert whole.align(tuple(IDS)) is whole
    some = of_four_images(concept_maps=None).align([IDS[3], IDS[1]])  # further images are left out
    assert some.values[:, 0].tolist() == [3, 1] and some.image_ids == [IDS[3], IDS[1]]
    assert some.concept_maps is None and some.concepts == whole.concepts


def test_outputs_of_other_images_are_refused():
    others = [f"3.gull/{name}.png" for name in "abcd"]
    with pytest.raises(ValueError, match="mine.safetensors: outputs of other images") as error:
        of_four_images().align([IDS[0], *others], "mine.safetensors")
    message = str(error.value)
    assert "4 of the 5 images wanted have no row" in message
    for name in (*others[:3], *IDS[:3]):  # the first of either
        assert repr(name) in message
    assert repr(others[3]) not in message
    with pytest.raises(ValueError, match="mine: 4 rows without image ids.*such as '1.jay/a.png'"):
        of_four_images(image_ids=None).align(IDS, "mine")


def test_image_ids_that_cannot_be_right():
    with pytest.raises(ValueError, match="3 image ids for 4 images"):
        of_four_images(image_ids=IDS[:3])
    with pytest.raises(ValueError, match="image '1.jay/b.png' stands twice"):
        of_four_images(image_ids=[*IDS[:3], IDS[1]])


# Outputs on disk


def random_outputs(**changed):
    return outputs(
        values=torch.rand(2, 3),
        contributions=torch.rand(2, 3),
        logits=torch.rand(2, 2),
        concepts=["red crown", "Rücken grau", 'a "long" bill'],
        **changed,
    )


@pytest.mark.parametrize("whole", [True, False])
def test_outputs_on_disk(tmp_path, whole):
    weights, maps, ids = None, None, None
    if whole:
        weights, maps, ids = torch.rand(3, 2), torch.rand(2, 3, 4, 5), ["jay/ä.png", "crow/b.png"]
    before = random_outputs(class_weights=weights, concept_maps=maps, image_ids=ids)
    after = read_outputs(save_outputs(before, tmp_path / "new" / "outputs.safetensors"))
    assert after.concepts == before.concepts and after.classes == before.classes
    assert after.image_ids == ids
    for name in ("values", "contributions", "logits"):
        assert torch.equal(getattr(after, name), getattr(before, name))
    for name, tensor in (("class_weights", weights), ("concept_maps", maps)):
        kept = getattr(after, name)
        assert kept is None if tensor is None else torch.equal(kept, tensor)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["outputs.safetensors"]


def test_files_that_hold_no_outputs(tmp_path):
    file = tmp_path / "x.safetensors"
    for content in (b"", b"no tensors at all"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="x.safetensors: no outputs of a bottleneck"):
            read_outputs(file)
    with pytest.raises(ValueError, match="y.safetensors: no outputs of a bottleneck"):
        read_outputs(tmp_path / "y.safetensors")
    tensors = {"values": torch.zeros(2, 3), "contributions": torch.zeros(2, 3), "logits": torch.zeros(2, 2)}
    names = {"concepts": json.dumps(["p", "q", "r"]), "classes": json.dumps(["x", "y"])}
    save_file(tensors, file, names)
    assert read_outputs(file).concepts == ["p", "q", "r"]  # written by another program
    for wrong in (
        {"concepts": json.dumps(["p", "q"])},
        {"concepts": json.dumps(["p", "p", "r"])},
        {"concepts": "p, q, r"},
        {"image_ids": json.dumps(["one.png"])},
    ):
        save_file(tensors, file, names | wrong)
        with pytest.raises(ValueError, match="x.safetensors: no outputs"):
            read_outputs(file)
