"""The contract: wrong outputs are refused, files say the same as objects, and rows find their images."""

import json
import re
import unicodedata

import numpy as np
import pytest
import safetensors.numpy
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
    with pytest.raises(ValueError, match="stands twice"):  # composed and decomposed
        of_four_images(image_ids=[*IDS[:2], "Mo\u0308we.png", "M\u00f6we.png"])


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_ids_are_compared_as_text(form):
    """Folders are decomposed on some computers, and a blank behind a name means nothing."""
    names = ["Möwe/é.png", "Bläss/a.png", "Kolkrabe/ü.png", "b.png"]
    outputs = of_four_images(image_ids=[unicodedata.normalize(form, name) + " " for name in names])
    wanted = [unicodedata.normalize("NFD" if form == "NFC" else "NFC", name) for name in names[::-1]]
    aligned = outputs.align(wanted)
    assert aligned.image_ids == wanted and aligned.values[:, 0].tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    "held, data",
    [
        (["crow", "jay"], ["jay", "crow"]),
        (["029.American_Crow", "073.Blue_Jay"], ["Blue Jay", "American Crow"]),
        (["Kra\u0308he", " Häher"], ["Häher", "Kr\u00e4he"]),
    ],
)
def test_classes_are_matched_by_name(held, data):
    logits = torch.tensor([[0.0, 1.0], [2.0, 1.0], [5.0, 4.0], [0.0, 3.0]])
    weights = torch.arange(6.0).view(3, 2)
    outputs = of_four_images(classes=held, logits=logits, class_weights=weights).of_classes(data)
    assert outputs.classes == data and torch.equal(outputs.logits, logits.flip(1))
    assert torch.equal(outputs.class_weights, weights.flip(1)) and outputs.predictions.tolist() == [
        0,
        1,
        1,
        0,
    ]


def test_other_classes_are_refused():
    """Also as many of them, and two that are one."""
    for held, data in ((["0", "1"], ["jay", "crow"]), (["jay", "Jay"], ["jay", "crow"])):
        with pytest.raises(ValueError, match="mine holds 2 classes, the first .*must be the same, by their"):
            of_four_images(classes=held).of_classes(data, "mine")
    with pytest.raises(ValueError, match="the data have 3"):
        of_four_images().of_classes(["jay", "crow", "gull"])


# Outputs on disk


@pytest.mark.parametrize("whole", [True, False])
def test_outputs_on_disk(tmp_path, whole):
    weights, maps, ids, values, logits = None, None, None, torch.rand(2, 3), torch.rand(2, 2)
    contributions = torch.rand(2, 3)
    if whole:
        weights, maps, ids = torch.rand(3, 2), torch.rand(2, 3, 4, 5), ["jay/ä.png", "crow/b.png"]
        contributions = values * weights.T[logits.argmax(1)]
    names = ["red crown", "Rücken grau", 'a "long" bill']
    optional = {"class_weights": weights, "concept_maps": maps, "image_ids": ids}
    before = outputs(values=values, contributions=contributions, logits=logits, concepts=names, **optional)
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


def linear(n=40, n_concepts=6, n_classes=5, side=0.0):
    """NumPy arrays of a linear head on random values; side: of what the logits have beyond, its share."""
    rng = np.random.default_rng(0)
    values, weights = rng.random((n, n_concepts)), rng.normal(size=(n_concepts, n_classes))
    logits = values @ weights + rng.normal(size=n_classes) + side * rng.normal(size=(n, n_classes))
    contributions = values * weights.T[logits.argmax(1)]
    return {"values": values, "contributions": contributions, "logits": logits, "class_weights": weights}


NAMED = {
    "concepts": json.dumps([f"concept {j}" for j in range(6)]),
    "classes": json.dumps([f"class {k}" for k in range(5)]),
    "image_ids": json.dumps([f"{n}.png" for n in range(40)]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_floats_of_any_kind_are_read(dtype, tmp_path, caplog):
    tensors = {name: torch.from_numpy(array).to(dtype) for name, array in linear().items()}
    save_file(tensors, tmp_path / "mine.safetensors", NAMED)
    read = read_outputs(tmp_path / "mine.safetensors")
    for name, tensor in tensors.items():
        assert getattr(read, name).dtype == torch.float32 and torch.equal(getattr(read, name), tensor.float())
    assert not caplog.records


def test_ties_of_half_precision_are_no_contradiction(tmp_path):
    """Two logits that bfloat16 makes equal: the contributions are of the one that was higher."""
    arrays = linear()
    arrays["logits"] += 1000
    tensors = {name: torch.from_numpy(array).bfloat16() for name, array in arrays.items()}
    assert (tensors["logits"].topk(2).values.diff() == 0).any()
    save_file(tensors, tmp_path / "mine.safetensors", NAMED)
    assert read_outputs(tmp_path / "mine.safetensors").predictions.shape == (40,)


def test_what_is_no_number_is_refused_and_what_is_true_or_false_is_1_or_0(tmp_path):
    arrays = {name: torch.from_numpy(array) for name, array in linear().items()}
    present = arrays["values"] > 0.5
    arrays |= {"values": present, "class_weights": (9 * arrays["class_weights"]).to(torch.int8)}
    arrays["contributions"] = present * arrays["class_weights"].T[arrays["logits"].argmax(1)]
    file = tmp_path / "mine.safetensors"
    save_file(arrays, file, NAMED)
    assert torch.equal(read_outputs(file).values, present.float())
    for wrong, message in (
        ({"logits": arrays["logits"] > 0}, "logits is of type torch.bool"),
        ({"class_weight": arrays["class_weights"].clone()}, "it has 'class_weight', which is no field"),
        ({"values": arrays["values"] * 1e300}, "values has .* NaN or infinite"),
    ):
        save_file(arrays | wrong, file, NAMED)
        with pytest.raises(ValueError, match=f"mine.safetensors: no outputs of a bottleneck .{message}"):
            read_outputs(file)
    save_file(arrays, file, NAMED | {"concepts": '"abcdef"'})
    with pytest.raises(ValueError, match="concepts is the one text 'abcdef'"):
        read_outputs(file)


@pytest.mark.parametrize("scrambled", [*linear(), "every"])
@pytest.mark.parametrize("how", ["transposed", "cut"])
def test_an_array_whose_memory_is_in_another_order_is_found(scrambled, how, tmp_path):
    """safetensors writes the memory of NumPy's arrays as it lies; contiguous, the same arrays are right."""
    arrays, file = linear(), tmp_path / "mine.safetensors"
    for name in arrays if scrambled == "every" else [scrambled]:
        if how == "transposed":
            arrays[name] = np.asfortranarray(arrays[name])
        else:  # every second row of a larger one
            arrays[name] = np.repeat(arrays[name], 2, axis=0)[::2]
    safetensors.numpy.save_file(arrays, file, NAMED)
    with pytest.raises(
        ValueError, match="mine.safetensors: contributions are not values × class_weights.*np"
    ):
        read_outputs(file)
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    safetensors.numpy.save_file(contiguous, file, NAMED)
    assert np.allclose(read_outputs(file).values, linear()["values"])


@pytest.mark.parametrize(
    "change, worst",
    [
        (lambda given: {"contributions": 1.05 * given["contributions"]}, "40 of 40"),
        (lambda given: {"contributions": given["contributions"][:, [1, 0, 2, 3, 4, 5]]}, "40 of 40"),
        (lambda given: {"class_weights": np.roll(given["class_weights"], 1, 1)}, "40 of 40"),
        (
            lambda given: {"values": given["values"] + 3 * np.eye(40, 6, -7)},
            r"6 of 40 .*'([789]|1[012]).png', concept",
        ),
    ],
)
def test_contributions_that_contradict_are_named(change, worst, tmp_path):
    arrays = linear()
    safetensors.numpy.save_file(arrays | change(arrays), tmp_path / "mine.safetensors", NAMED)
    with pytest.raises(ValueError, match=f"predicted class in {worst}"):
        read_outputs(tmp_path / "mine.safetensors")


@pytest.mark.parametrize(
    "given, said",
    [
        (linear(), ""),  # a bias alone
        (linear(side=0.5), r"up to [\d.]+ \(image '\d+.png'\) beyond values @ class_weights and a bias"),
        (linear(side=0.1) | {"class_weights": None}, "no class_weights.*beyond contributions and a bias"),
        (
            linear() | {"class_weights": None},
            "there are no class_weights, so values are held against nothing.$",
        ),
        (linear() | {"logits": linear()["logits"] ** 3}, "beyond values @ class_weights"),  # the same classes
    ],
)
def test_what_logits_have_beyond_is_said(given, said, tmp_path, caplog):
    """As of a side channel, or of a head that is not linear; none of these is refused."""
    arrays = {name: array for name, array in given.items() if array is not None}
    safetensors.numpy.save_file(arrays, tmp_path / "mine.safetensors", NAMED)
    read = read_outputs(tmp_path / "mine.safetensors")
    assert np.allclose(read.logits, given["logits"])
    assert bool(said) == len(caplog.records) and re.search(said, caplog.text.strip())
