"""What bottlenecks are trained on: concepts from a file, truths by name, the aviary with its concepts."""

import pytest
import torch
from toy_concepts import toy_dataset

from xaihelpers import datasets
from xaihelpers.bottlenecks import concept_dataset


def load(**asked):
    return concept_dataset.load_concept_dataset(clip="", backbone="", **asked)


def test_concept_files(tmp_path):
    file = tmp_path / "concepts.txt"
    text = "a red crown\r\n\r\n  a gray back \r\nein grauer Ru\u0308cken\r\n"
    file.write_text(text, encoding="utf-8-sig", newline="")
    assert load(concept_file=str(file)).phrases == ["a red crown", "a gray back", "ein grauer Rücken"]
    file.write_text("1. **A red crown**,\n2. **a 3-toed foot**,\n")
    assert load(concept_file=str(file)).phrases == ["A red crown", "a 3-toed foot"]
    file.write_text("a bill\na leg\nA  bill\n")
    with pytest.raises(ValueError, match="concepts.txt: 'a bill' and 'A  bill' would be one"):
        load(concept_file=str(file))


def test_concepts_of_the_aviary(tmp_path):
    dataset = load()
    assert len(dataset.images) == 2400 and len(dataset.concepts) == len(set(dataset.concepts)) == 112
    assert torch.equal(dataset.present, dataset.truth) and len(set(dataset.phrases)) > 300
    annotated = dataset.truth[:, dataset.concepts.index("blue crown")]
    # however it is called, also one that is none of the 112
    spelt = ["Blue Crown", "has_crown_color::blue", "has_crown_color--blue", "a blue_crown"]
    of_others = ["red breast", "A red  breast", "has_breast_color--red"]
    told = concept_dataset.concept_truth(dataset, [*spelt, *of_others, "a look of its own"])
    assert annotated.any() and (told[:, : len(spelt)] == annotated[:, None]).all()
    world = datasets.load("aviary", attributes="image")
    red = datasets.concept_labels(world, ["has_breast_color::red"])
    assert "red breast" not in dataset.concepts and (told[:, len(spelt) : -1] == red).all()
    assert told[:, -1].isnan().all()
    nobody_told = load(labels="none")
    assert nobody_told.present is None and nobody_told.phrases == dataset.phrases
    soft = {"labels": "class", "label_kind": "soft", "truth_labels": "image"}
    of_class = load(**soft)
    assert ((of_class.present > 0) & (of_class.present < 1)).any()
    assert torch.equal(of_class.truth, dataset.truth)
    file = tmp_path / "mine.txt"
    file.write_text("has_crown_color--red\n\nhas_bill_shape::dagger\n")
    asked = {"concepts": str(file), "concept_file": str(file)}
    own = load(**asked)
    assert own.attributes == ["has_crown_color::red", "has_bill_shape::dagger"]
    assert own.concepts[0] == "red crown" and len(own.phrases) == 2


def test_rows_of_another_class():
    labels = torch.tensor([2, 0, 1, 0, 2, 1, 0])
    other = concept_dataset.rows_of_another_class(labels)
    assert (labels[other] != labels).all() and sorted(other.tolist()) == list(range(7))
    with pytest.raises(ValueError, match="4 images are too few, or too much of one class"):
        concept_dataset.rows_of_another_class(torch.tensor([0, 0, 0, 1]))


def test_drawn_rows_are_of_labelled_test_images():
    dataset = toy_dataset()
    dataset.truth[~dataset.train] = (torch.arange(100) % 2).float()[:, None]
    everything = concept_dataset.draw_test_rows(dataset)
    assert everything.tolist() == list(range(1, 100, 2))
    drawn = [concept_dataset.draw_test_rows(dataset, 10, seed).tolist() for seed in (0, 0, 1)]
    assert drawn[0] == sorted(drawn[0]) == drawn[1] != drawn[2] and set(drawn[0]) < set(everything.tolist())
