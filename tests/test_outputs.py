"""The contract: wrong outputs are refused, files say the same as objects, and rows find their images."""

import json
import re
import unicodedata

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors.torch import save_file

from xaihelpers.outputs import ConceptOutputs, outputs_of_fields, read_outputs, save_outputs

IDS = ["1.jay/a.png", "1.jay/b.png", "2.crow/a.png", "2.crow/b.png"]


def outputs(**changed):
    """Four images, three concepts, two classes; the numbers say which image they are of."""
    number = torch.arange(4.0)
    parts = {
        "values": number[:, None] + torch.tensor([0.0, 0.1, 0.2]),
        "contributions": 10 * number[:, None].expand(4, 3),
        "class_weights": torch.arange(6.0).view(3, 2),
        "logits": torch.stack([number, 1.5 + 0 * number], 1),
        "concepts": ["red crown", "long bill", "black eye"],
        "classes": ["jay", "crow"],
        "image_ids": IDS,
        "concept_maps": number[:, None, None, None].expand(4, 3, 2, 5),
    }
    return ConceptOutputs(**parts | changed)


def test_what_cannot_be_right_is_refused():
    for changed, message in (
        ({"contributions": torch.zeros(4, 2)}, r"is \(4, 2\), but 4 images, 3 .* 2 classes need \(4, 3\)"),
        ({"values": torch.full((4, 3), torch.nan)}, "values has 12 .* NaN or infinite, the first in row 0"),
        ({"concepts": ["x", "y", "X "]}, "'x' and 'X ' would be one and the same"),
        ({"concepts": ["0", "1", "2"]}, "concepts: 0, 1, 2 are numbers: give each concept a name in words"),
        ({"concepts": ["x", "y", " "]}, "concepts: the list is empty, or holds an empty name"),
        ({"image_ids": IDS[:3]}, "3 image ids for 4 images"),
        ({"image_ids": [*IDS[:2], "Mo\u0308we.png", "M\u00f6we.png"]}, "stands twice among the image ids"),
    ):
        with pytest.raises(ValueError, match=message):
            outputs(**changed)


# Images and classes


def test_outputs_in_another_order_are_realigned():
    whole, order = outputs(), [2, 0, 3, 1]
    aligned = whole.take(order).align(IDS)
    assert aligned.image_ids == IDS and whole.take(order).image_ids == [IDS[row] for row in order]
    for name in ("values", "contributions", "logits", "concept_maps", "class_weights"):
        assert torch.equal(getattr(aligned, name), getattr(whole, name)), name
    assert aligned.predictions.tolist() == [1, 1, 0, 0]
    some = outputs(concept_maps=None).align([IDS[3], IDS[1]])  # further images are left out
    assert some.values[:, 0].tolist() == [3, 1] and some.image_ids == [IDS[3], IDS[1]]


def test_outputs_of_other_images_are_refused():
    others = [f"3.gull/{name}.png" for name in "abcd"]
    message = "mine.safetensors: outputs of other images. 4 of the 5 images wanted .* first '3.gull/a.png'"
    with pytest.raises(ValueError, match=message):
        outputs().align([IDS[0], *others], "mine.safetensors")
    with pytest.raises(ValueError, match="mine: 4 rows without image ids.*such as '1.jay/a.png'"):
        outputs(image_ids=None).align(IDS, "mine")


def test_ids_and_classes_are_compared_as_text():
    """Folders are decomposed on some computers, and a blank behind a name means nothing."""
    names = ["Möwe/é.png", "Bläss/a.png", "Kolkrabe/ü.png", "b.png"]
    held = outputs(image_ids=[unicodedata.normalize("NFD", name) + " " for name in names])
    aligned = held.align(names[::-1])
    assert aligned.image_ids == names[::-1] and aligned.values[:, 0].tolist() == [3, 2, 1, 0]
    whole = outputs()
    for classes, data in (
        (["029.American_Crow", "073.Blue_Jay"], ["Blue Jay", "American Crow"]),
        (["Kra\u0308he", " Häher"], ["Häher", "Kr\u00e4he"]),
    ):
        matched = outputs(classes=classes).of_classes(data)
        assert matched.classes == data and torch.equal(matched.logits, whole.logits.flip(1))
        assert torch.equal(matched.class_weights, whole.class_weights.flip(1))
    # others, also as many of them, and two that are one
    for classes in (["0", "1"], ["jay", "Jay"]):
        with pytest.raises(ValueError, match="mine holds 2 classes, .* must be the same, by their"):
            outputs(classes=classes).of_classes(["jay", "crow"], "mine")


# Outputs on disk


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


@pytest.mark.parametrize("whole", [True, False])
def test_outputs_are_read_as_they_were_written(tmp_path, whole):
    names = {"concepts": ["red crown", "Rücken grau", 'a "long" bill'], "image_ids": None}
    before = outputs(class_weights=None, concept_maps=None, **names)
    if whole:
        weights = outputs().class_weights
        contributions = before.values * weights.T[before.predictions]
        before = outputs(contributions=contributions, thresholds=torch.ones(3))
    after = read_outputs(save_outputs(before, tmp_path / "new" / "outputs.safetensors"))
    for name, held in vars(before).items():
        kept = getattr(after, name)
        assert torch.equal(kept, held) if isinstance(held, torch.Tensor) else kept == held, name
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["outputs.safetensors"]


def test_files_that_hold_no_outputs(tmp_path):
    file = tmp_path / "x.safetensors"
    file.write_bytes(b"no tensors at all")
    for wrong in (file, tmp_path / "y.safetensors"):
        with pytest.raises(ValueError, match=f"{wrong.name}: no outputs of a bottleneck"):
            read_outputs(wrong)
    arrays = {name: torch.from_numpy(array) for name, array in linear().items()}
    for changed, names, message in (
        ({"class_weight": arrays["class_weights"].clone()}, {}, "it has 'class_weight', which is no field"),
        ({"values": arrays["values"] * 1e300}, {}, "values has .* NaN or infinite"),
        ({}, {"concepts": '"abcdef"'}, "concepts is the one text 'abcdef'"),
        ({}, {"concepts": "p, q, r"}, "concepts in its header is 'p, q, r', no JSON: write json.dumps"),
        ({}, {"classes": '{"0": "jay", "1": "crow"}'}, "classes is of type dict: a list of texts is wanted"),
        ({}, {"classes": '["a", "b", "c", null, "d"]'}, "classes has no name in place 3, but None"),
    ):
        save_file(arrays | changed, file, NAMED | names)
        with pytest.raises(ValueError, match=f"x.safetensors: no outputs of a bottleneck .{message}"):
            read_outputs(file)


def written(folder, arrays, names=NAMED):
    """The file of such arrays, with contributions by the class weights where there are none."""
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if "contributions" not in arrays:
        of_predicted = arrays["class_weights"].T[arrays["logits"].argmax(1)]
        arrays["contributions"] = arrays["values"] * of_predicted
    safetensors.numpy.save_file(arrays, folder / "mine.safetensors", names)
    return folder / "mine.safetensors"


def test_half_precision_is_read(tmp_path, caplog):
    """It makes ties, of which any may be the class predicted."""
    tensors = {name: torch.from_numpy(array).bfloat16() for name, array in linear().items()}
    save_file(tensors, tmp_path / "mine.safetensors", NAMED)
    read = read_outputs(tmp_path / "mine.safetensors")
    for name, tensor in tensors.items():
        assert getattr(read, name).dtype == torch.float32 and torch.equal(getattr(read, name), tensor.float())
    assert not caplog.records


def test_an_array_whose_memory_is_in_another_order_is_found(tmp_path):
    """safetensors writes the memory of NumPy's arrays as it lies."""
    for name, array in linear().items():
        for scrambled in (np.asfortranarray(array), np.repeat(array, 2, axis=0)[::2]):
            file = written(tmp_path, linear() | {name: scrambled})
            with pytest.raises(ValueError, match="contributions are not values × class_weights.*np"):
                read_outputs(file)


def test_contributions_that_contradict_are_named(tmp_path):
    arrays = linear()
    for name, factor, wrong in (
        ("contributions", 1.05, "40 of 40 images, the first in row 0"),
        ("values", 1 + 3 * np.eye(40, 6, -7), "6 of 40 images, the first in row 7, concept 'concept 0'"),
    ):
        file = written(tmp_path, arrays | {name: arrays[name] * factor})
        with pytest.raises(ValueError, match=f"predicted class in {wrong}"):
            read_outputs(file)


GIVEN = linear()
VALUES, THETA, LOGITS = GIVEN["values"], GIVEN["class_weights"], GIVEN["logits"]
SOFTMAX = torch.from_numpy(LOGITS).softmax(1).numpy()
SHARES = torch.from_numpy(THETA).softmax(0).numpy()  # each class a mean of values from 0 to 1
BESIDE = linear(side=0.5)
SAID = [
    (GIVEN, ""),  # a bias alone
    (BESIDE, "beyond values @ class_weights and a bias.*as of a side channel"),  # is not refused
    (BESIDE | {"class_weights": None}, "no class_weights, so values are held against nothing"),
    (GIVEN | {"logits": SOFTMAX}, "from 0 to 1, as probabilities do: give the logits"),
    (GIVEN | {"logits": np.log(SOFTMAX).astype(np.float16)}, "logarithms of probabilities: give the logits"),
    (
        GIVEN | {"logits": np.log(VALUES / (1 - VALUES)) @ THETA, "contributions": None},
        "values are a sigmoid of what the head takes",
    ),
    # a head that averages probabilities: its logits are probabilities, and right
    (GIVEN | {"class_weights": SHARES, "logits": VALUES @ SHARES, "contributions": None}, ""),
    (GIVEN | {"thresholds": np.full(6, 0.5)}, ""),
    (GIVEN | {"thresholds": np.full(6, 50.0)}, "from 50 to 50, values from .* no concept's values lie on"),
]


@pytest.mark.parametrize("arrays, said", SAID)
def test_what_does_not_fit_is_said_and_not_refused(arrays, said, tmp_path, caplog):
    read = read_outputs(written(tmp_path, arrays))
    assert np.allclose(read.logits, arrays["logits"], atol=0.01)
    assert len(caplog.records) == bool(said) and re.search(said, caplog.text)


def test_class_weights_that_are_transposed_are_refused(tmp_path):
    """As many concepts as classes: the shapes agree."""
    arrays = linear(n_concepts=5)
    arrays |= {"class_weights": np.ascontiguousarray(arrays["class_weights"].T), "contributions": None}
    file = written(tmp_path, arrays, NAMED | {"concepts": json.dumps(list("abcde"))})
    with pytest.raises(ValueError, match=r"class_weights are \(classes, concepts\): give them transposed"):
        read_outputs(file)


def test_names_in_bytes_and_arrays_are_names():
    fields = {"values": np.eye(2), "logits": np.eye(2), "class_weights": np.eye(2)}
    for names in (np.array(["Rücken", "crown"]), ["Rücken".encode(), b"crown "]):
        read = outputs_of_fields(fields | {"concepts": names, "classes": np.array([b"jay", b"crow"])})
        assert read.concepts == ["Rücken", "crown"] and read.classes == ["jay", "crow"]
