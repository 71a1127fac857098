"""What bottlenecks are trained on: concepts from a file, truths by name, the aviary with its concepts."""

import pytest
import torch
from toy_concepts import toy_dataset

from xaihelpers import datasets
from xaihelpers.bottlenecks import concept_dataset
from xaihelpers.bottlenecks.concept_dataset import load_concept_dataset, read_concepts


def test_concept_files(tmp_path):
    file = tmp_path / "concepts.txt"
    text = "a red crown\r\n\r\n  a gray back \r\nein grauer Ru\u0308cken\r\n"
    file.write_text(text, encoding="utf-8-sig", newline="")
    assert read_concepts(file) == ["a red crown", "a gray back", "ein grauer Rücken"]
    for text, message in (
        ("", "concepts.txt: the list of concepts is empty"),
        ("a bill\na leg\nA  bill\n", "'A  bill' stands twice, at places 0 and 2"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_concepts(file)
    with pytest.raises(ValueError, match="nowhere.txt: No such file"):
        read_concepts(tmp_path / "nowhere.txt")


def test_the_aviary(tmp_path):
    dataset = load_concept_dataset(clip="")
    assert len(dataset.images) == len(dataset.image_ids) == 2400 and dataset.train.sum() == 1440
    assert len(dataset.pooled) == len(dataset.labels) == len(dataset.present) == 2400
    names = "".join(dataset.classes)
    assert len(dataset.classes) == 48 and "_" not in names and "." not in names
    assert len(dataset.concepts) == len(set(dataset.concepts)) == 112
    assert torch.equal(dataset.present, dataset.truth)
    assert dataset.phrase_truth.shape == (2400, len(dataset.phrases))
    assert len(set(dataset.phrases)) == len(dataset.phrases) > 300
    annotated = dataset.truth[:, dataset.concepts.index("blue crown")]
    by_phrase = dataset.phrase_truth[:, dataset.phrases.index("a blue crown")]
    assert annotated.any() and torch.equal(annotated, by_phrase)
    # however it is called, also one that is none of the 112
    spelt = ["Blue Crown", "has_crown_color::blue", "has_crown_color--blue", "a blue_crown"]
    of_others = ["red breast", "A red  breast", "has_breast_color--red"]
    told = concept_dataset.concept_truth(dataset, [*spelt, *of_others, "a look of its own"])
    assert "red breast" not in dataset.concepts and told[:, -1].isnan().all()
    assert (told[:, : len(spelt)] == annotated[:, None]).all()
    by_phrase = dataset.phrase_truth[:, dataset.phrases.index("a red breast")]
    assert (told[:, len(spelt) : -1] == by_phrase[:, None]).all()
    nobody_told = load_concept_dataset(clip="", labels="none")
    assert nobody_told.present is None and nobody_told.phrases == dataset.phrases
    of_class = load_concept_dataset(clip="", labels="class", label_kind="soft")
    assert ((of_class.present > 0) & (of_class.present < 1)).any()
    assert set(of_class.truth.unique().tolist()) == {0.0, 1.0}
    assert all(len(of_class.truth[of_class.labels == k].unique(dim=0)) == 1 for k in range(5))
    file = tmp_path / "concepts.txt"
    file.write_text("a beak\na nest")
    assert load_concept_dataset(clip="", concept_file=str(file)).phrases == ["a beak", "a nest"]


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


def test_labels_for_training_and_for_judging_are_two(tmp_path):
    by_class = load_concept_dataset(clip="", labels="class", truth_labels="image")
    by_image = load_concept_dataset(clip="")
    assert torch.equal(by_class.truth, by_image.truth) and not torch.equal(by_class.present, by_class.truth)
    file = tmp_path / "mine.txt"
    file.write_text("has_crown_color--red\n\nhas_bill_shape::dagger\n")
    own = load_concept_dataset(clip="", concepts=str(file))
    assert own.attributes == ["has_crown_color::red", "has_bill_shape::dagger"]
    assert own.concepts == ["red crown", own.concepts[1]] and own.truth.shape == (2400, 2)
    for concepts, message in ((str(tmp_path / "no.txt"), "nor a text file"), (str(file), "has_crown_colour")):
        file.write_text("has_crown_colour::red")
        with pytest.raises(datasets.DatasetError, match=message):
            load_concept_dataset(clip="", concepts=concepts)
