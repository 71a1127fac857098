"""The zoo: models by name on one data set, cached under all they depend on, and outputs from files."""

import dataclasses
import logging
import re

import pytest
import torch
from PIL import Image
from toy_concepts import CLASSES, L, N, toy_dataset

from xaihelpers import datasets, paths
from xaihelpers.bottlenecks import concept_dataset, zoo
from xaihelpers.outputs import ConceptOutputs, save_outputs


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "xaihelpers")
    return caplog


@pytest.mark.parametrize("name", zoo.MODEL_NAMES)
def test_every_model(name, log, capsys):
    dataset = toy_dataset()
    test, labels = ~dataset.train, dataset.labels[~dataset.train]
    first = zoo.fit_or_load(name, dataset)
    assert not first.cached and first.seconds > 0 and f"{name}: trained" in log.text
    assert first.outputs.classes == CLASSES and first.outputs.image_ids == dataset.test_ids
    assert first.outputs.accuracy(labels) > 0.85
    again = zoo.fit_or_load(name, dataset)
    assert again.cached and again.seconds == first.seconds and again.dropped == first.dropped
    assert f"{name}: read from the cache" in log.text
    for part in ("values", "contributions", "logits"):
        assert torch.equal(getattr(again.outputs, part), getattr(first.outputs, part))
    assert again.outputs.concepts == first.outputs.concepts
    assert (again.outputs.class_weights is None) == (name == "cem")
    truth = concept_dataset.concept_truth(dataset, first.outputs.concepts)[test]
    corrected = again.model.explain(again.inputs, truth)
    assert corrected.accuracy(labels) >= first.outputs.accuracy(labels)
    assert not torch.equal(corrected.logits, first.outputs.logits)
    assert capsys.readouterr().out == ""  # helpers log, they do not print


def test_what_the_cache_depends_on(monkeypatch):
    dataset = toy_dataset()
    zoo.fit_or_load("cbm", dataset, epochs=2)
    assert zoo.fit_or_load("cbm", dataset, epochs=2).cached
    # a CBM has no CLIP
    assert zoo.fit_or_load("cbm", toy_dataset(clip="another", clip_identity="clip B"), epochs=2).cached
    assert not zoo.fit_or_load("cbm", dataset, epochs=3).cached
    assert not zoo.fit_or_load("cbm", dataset, seed=1, epochs=2).cached
    keys = [zoo._key("lfcbm", dataset, 0, "cpu", {})]
    for changed in (
        {"pooled": dataset.pooled + 1e-3},
        {"present": 1 - dataset.present},
        {"labels": 3 - dataset.labels},
        {"train": dataset.train.flip(0)},
        {"backbone_identity": "network B"},
        {"classes": ["a", "b", "c", "d"]},
        {"concepts": [f"part {j}" for j in range(L)]},
        {"image_ids": [f"other/{i}.png" for i in range(N)]},
        {"clip_identity": "clip B"},
        {"image_embeddings": dataset.image_embeddings.flip(1)},
    ):
        keys.append(zoo._key("lfcbm", toy_dataset(**changed), 0, "cpu", {}))
    monkeypatch.setattr(zoo, "version", lambda library: "0")
    keys.append(zoo._key("lfcbm", dataset, 0, "cpu", {}))
    assert len(set(keys)) == len(keys) == 12


def test_damaged_cache_and_full_disk(monkeypatch, log, tmp_path):
    dataset = toy_dataset()
    first = zoo.fit_or_load("phcbm", dataset)
    (file,) = (tmp_path / "outputs").iterdir()
    file.write_bytes(file.read_bytes()[:200])
    again = zoo.fit_or_load("phcbm", dataset)
    assert not again.cached and torch.equal(again.outputs.logits, first.outputs.logits)
    assert f"{file} is damaged" in log.text
    assert zoo.fit_or_load("phcbm", dataset).cached

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zoo, "write_state", full)
    assert not zoo.fit_or_load("phcbm", dataset, seed=5).cached
    assert "cannot be written (No space left on device), the model is kept in memory only" in log.text


def test_without_annotations():
    dataset = toy_dataset(concepts=[], present=None, truth=None, phrase_truth=None)
    for name in ("cbm", "cem", "phcbm", "phcbm_residual"):
        with pytest.raises(ValueError, match="toy comes without concept labels.*lfcbm_unsupervised"):
            zoo.fit_or_load(name, dataset)
    outputs = zoo.zoo_outputs(["lfcbm", "phcbm_text"], dataset)
    assert outputs["phcbm_text"].concepts == dataset.phrases
    assert concept_dataset.concept_truth(dataset, dataset.phrases).isnan().all()
    with pytest.raises(ValueError, match=r"toy comes without CLIP.*load_concept_dataset\(clip=...\) adds it"):
        zoo.fit_or_load("lfcbm", toy_dataset(image_embeddings=None))


def test_shipped_networks_are_refused_on_other_images():
    """They learnt from drawn birds, and would give numbers for anything."""
    toy, birds = toy_dataset(), toy_dataset(drawn=True)
    with pytest.raises(ValueError, match="aviary_resnet, aviary_clip learnt from drawn birds alone, and toy"):
        zoo.check_shipped(toy, ["aviary_resnet", "resnet18", "aviary_clip"])
    zoo.check_shipped(toy, ["aviary_resnet"], foreign=True)
    zoo.check_shipped(toy, ["resnet18", "ViT-B-32", ""])
    zoo.check_shipped(birds, ["aviary_resnet", "aviary_clip"])
    zoo.check_shipped(datasets.load("aviary"), ["aviary_resnet"])  # images alone, without concepts


def test_outputs_of_another_program(tmp_path):
    """Joined by a file, its rows in any order; refused where images or classes are others."""
    dataset = toy_dataset()
    mine = zoo.zoo_outputs(["cbm"], dataset)["cbm"]
    file = str(tmp_path / "forest.safetensors")
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = {name: getattr(mine, name)[order] for name in ("values", "contributions", "logits")}
    ids = [mine.image_ids[row] for row in order]
    rotated = torch.tensor([1, 2, 3, 0])  # the classes, too, are matched by their names
    shuffled |= {"logits": shuffled["logits"][:, rotated], "class_weights": mine.class_weights[:, rotated]}
    about = {"image_ids": ids, "classes": [CLASSES[k] for k in rotated]}
    save_outputs(dataclasses.replace(mine, **about, **shuffled), file)
    # a setting of label-free models leaves others alone
    joined = zoo.zoo_outputs(["cbm", file], dataset, similarity=0.2)
    assert list(joined) == ["cbm", "forest"] and joined["forest"].image_ids == dataset.test_ids
    for name in ("values", "contributions", "logits", "class_weights"):
        assert torch.equal(getattr(joined["forest"], name), getattr(mine, name))
        assert torch.equal(getattr(joined["cbm"], name), getattr(mine, name))
    for changed, message in (
        (
            {"image_ids": [f"crow/{i}.png" for i in range(100)]},
            "forest.safetensors: outputs of other images.*100 of the 100 images wanted have no row",
        ),
        (
            {"image_ids": [*mine.image_ids[:-1], "crow.png"]},
            "1 of the 100 images wanted have no row, the first '699.png'",
        ),
        ({"image_ids": None}, "forest.safetensors: 100 rows without image ids"),
        (
            {"classes": [*CLASSES[1:], "finch"]},
            "forest.safetensors holds 4 classes, the first .*must be the same",
        ),
    ):
        save_outputs(dataclasses.replace(mine, **changed), file)
        with pytest.raises(ValueError, match=message):
            zoo.zoo_outputs([file], dataset)
    with pytest.raises(ValueError, match="two models are called cbm: rename one of the files"):
        zoo.zoo_outputs([str(tmp_path / "cbm.safetensors"), "cbm"], dataset)


def test_concepts_that_nobody_labelled_are_counted(tmp_path, log):
    dataset = toy_dataset()
    mine = zoo.zoo_outputs(["cbm"], dataset)["cbm"]
    for names, said in (
        (["Concept_0", " A thing 1", "concept 2", "concept  3", "CONCEPT 4", "a Thing 5"], ""),
        (["Concept_0", "teapot", "concept 2", "concept 3", "kettle", "concept 5"], "2 of 6 .*'teapot'"),
    ):
        log.clear()
        file = save_outputs(dataclasses.replace(mine, concepts=names), tmp_path / "forest.safetensors")
        zoo.zoo_outputs([str(file)], dataset)
        told = concept_dataset.concept_truth(dataset, names)
        known = ~told.isnan().any(0)
        assert torch.equal(told[:, known], dataset.truth[:, known]) and (~known).sum() == 2 * bool(said)
        assert bool(said) == ("left out" in log.text) and re.search(said, log.text)


def test_finished_outputs_need_no_network(tmp_path, monkeypatch):
    """A file and its images are enough, also pictures of which nobody knows the classes."""
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / name)
    values = torch.rand(2, 3)
    about = {"concepts": list("xyz"), "classes": ["p", "q"], "image_ids": ["b.png", "a.png"]}
    outputs = ConceptOutputs(values, values.clone(), None, torch.rand(2, 2), **about)
    file = save_outputs(outputs, tmp_path / "my-model.v2.safetensors")

    def no_network(*_, **__):
        raise AssertionError("a network was loaded")

    for name in ("load_backbone", "load_clip"):
        monkeypatch.setattr(f"xaihelpers.bottlenecks.concept_dataset.{name}", no_network)
    data = str(tmp_path / "images")
    dataset, (found,) = zoo.load_draws([str(file)], 1, data=data, backbone="nowhere", clip="nothing")
    assert dataset.test_ids == ["a.png", "b.png"] and list(found) == ["my-model.v2"]
    assert torch.equal(found["my-model.v2"].values, values.flip(0)) and dataset.pooled.shape == (2, 0)


def test_wrong_names(monkeypatch):
    with pytest.raises(ValueError, match="label_free holds top_activation, similarity, penalty: 3 numbers"):
        zoo.load_draws(["cbm"], 1, label_free=[0.2])
    monkeypatch.setattr(zoo, "load_concept_dataset", lambda device: toy_dataset(truth=None, present=None))
    with pytest.raises(ValueError, match="toy has no concept labels"):
        zoo.load_draws(["lfcbm"], 1, need_labels=True, foreign=True)
    message = "there is no model 'cbms' in the zoo: choose among cbm, cbm_independent"
    with pytest.raises(ValueError, match=message):
        zoo.fit_or_load("cbms", toy_dataset())
    with pytest.raises(TypeError, match="epoch"):
        zoo.fit_or_load("cbm", toy_dataset(), epoch=3)
