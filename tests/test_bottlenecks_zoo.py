"""The zoo: models by name on one data set, cached under all they depend on, and outputs from files."""

import dataclasses
import logging
import re
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from test_bottlenecks_cbm import pictures
from toy_concepts import CLASSES, L, N, accuracy, toy_dataset

from xaihelpers import paths
from xaihelpers.bottlenecks import concept_dataset, zoo
from xaihelpers.bottlenecks.fits import fit_several, local_values
from xaihelpers.outputs import ConceptOutputs, save_outputs


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "xaihelpers")
    return caplog


@pytest.mark.parametrize("name", ["cbm", "cbm_per_concept", "cem", "lfcbm_unsupervised", "phcbm_text"])
def test_a_model_is_read_as_it_was_fitted(name, log):
    dataset = toy_dataset()
    first = zoo.fit_or_load(name, dataset)
    assert first.outputs.classes == CLASSES and first.outputs.image_ids == dataset.test_ids
    assert accuracy(first.outputs, dataset.labels[~dataset.train]) > 0.85
    again = zoo.fit_or_load(name, dataset)
    assert f"{name}: trained" in log.text and f"{name}: read from the cache" in log.text
    for part in ("values", "contributions", "logits"):
        assert torch.equal(getattr(again.outputs, part), getattr(first.outputs, part))


SHORT, FIRM = {"epochs": 2}, {"penalty": 0.1, "steps": 12}
REST, FEW = {"solver": "one-vs-rest", "penalty": 0.01}, {"solver": "few steps", "margin": True}
KOH = {"epochs": 1, "recipe": "koh", "learning_rate": 0.01, "weight_decay": 4e-5}
# of a model with settings on these data, fitted with seed 3: values of the first test image's first three
# concepts, and its first three logits
VALUES = [
    ("cbm", SHORT, toy_dataset, [0.44887, 0.50026, 0.53197, -0.02029, 0.18837, 0.13993]),
    ("cbm_independent", SHORT, toy_dataset, [0.45253, 0.49357, 0.53801, 0.3149, 0.18723, -0.20152]),
    ("cbm_sequential", SHORT, toy_dataset, [0.45253, 0.49357, 0.53801, -4.75249, 3.0098, -2.6114]),
    ("cbm_per_concept", SHORT, toy_dataset, [0.40711, 0.36819, 0.31797, 1.23999, -0.22171, 0.15908]),
    ("cem", SHORT, toy_dataset, [0.40174, 0.5182, 0.4081, -0.11005, -0.06569, -0.16927]),
    ("lfcbm", {}, toy_dataset, [0.85199, 1.11005, 0.92835, -1.04111, -4.28247, -5.46389]),
    ("lfcbm_unsupervised", {}, toy_dataset, [0.85246, 1.10205, 0.93036, -0.85775, -4.60202, -5.37218]),
    ("phcbm", FIRM, toy_dataset, [2.34023, 2.84396, 2.33325, -1.17403, 0.25682, -0.11029]),
    ("phcbm", REST, toy_dataset, [2.34023, 2.84396, 2.33325, -10.91751, -2.94071, -5.21456]),
    ("phcbm", FEW, toy_dataset, [0.70434, 0.82247, 0.66589, -1.50794, 0.09268, -0.12984]),
    ("phcbm_text", {"penalty": 0.1}, toy_dataset, [0.54611, 0.60149, 0.57458, -1.24241, 0.14978, 0.0281]),
    ("cbm", KOH, toy_dataset, [0.50046, 0.49598, 0.53607, -0.04765, 0.24105, 0.16858]),
    ("cbm", KOH, pictures, [0.49399, 0.49821, 0.39472, -0.12929, -0.03989, 0.08306]),
    ("cbm_sequential", SHORT, pictures, [0.43147, 0.34644, 0.3919, -8.96506, 1.04218, 1.50565]),
    ("cbm_per_concept", SHORT, pictures, [0.36577, 0.38821, 0.40826, 1.04649, -0.10922, 0.05606]),
    ("cem", SHORT, pictures, [0.49717, 0.50513, 0.50939, -0.01146, -0.02848, 0.00067]),
]


@pytest.mark.parametrize("name, settings, make, expected", VALUES)
def test_a_fit_that_gives_other_values_has_another_version(name, settings, make, expected):
    """What is kept in caches is read as long as zoo.VERSION stays: the values are those of version 1.

    Heads by L-BFGS stop where float32 no longer sees the loss fall, which moves their logits.
    """
    outputs = zoo.fit_or_load(name, make(), 3, **settings).outputs
    found = torch.cat([outputs.values[0, :3], outputs.logits[0, :3]])
    close = torch.isclose(found, torch.tensor(expected), rtol=1e-4, atol=1e-4)
    if "solver" not in settings and name not in ("cbm", "cem", "lfcbm", "lfcbm_unsupervised"):
        close[3:] = torch.isclose(found, torch.tensor(expected), atol=0.01)[3:]
    assert close.all(), f"raise VERSION in bottlenecks/zoo.py, and these values: {found.tolist()}"


def test_what_the_cache_depends_on(monkeypatch):
    dataset, another = toy_dataset(), SimpleNamespace(identity="clip B")

    def key(name="lfcbm", seed=0, settings=None, **changed):
        return zoo._key(name, toy_dataset(**changed), seed, "cpu", settings or {})

    assert key("cbm", clip=another) == key("cbm")  # a CBM has no CLIP
    keys = [key(), key("cbm"), key("cbm", 1), key("cbm", settings={"a": 1}), key(clip=another)]
    for changed in (
        {"pooled": dataset.pooled + 1e-3},
        {"present": 1 - dataset.present},
        {"labels": 3 - dataset.labels},
        {"train": dataset.train.flip(0)},
        {"backbone_identity": "network B"},
        {"classes": ["a", "b", "c", "d"]},
        {"concepts": [f"part {j}" for j in range(L)]},
        {"image_ids": [f"other/{i}.png" for i in range(N)]},
        {"image_embeddings": dataset.image_embeddings.flip(1)},
    ):
        keys.append(key(**changed))
    for name, value in {"version": lambda library: "0", "VERSION": 0}.items():
        monkeypatch.setattr(zoo, name, value)
        keys.append(key())
    assert len(set(keys)) == len(keys) == 16


def test_a_damaged_cache_and_a_full_disk(monkeypatch, log, tmp_path):
    dataset = toy_dataset()
    first = zoo.fit_or_load("phcbm", dataset)
    (file,) = (tmp_path / "outputs").iterdir()
    file.write_bytes(file.read_bytes()[:200])
    again = zoo.fit_or_load("phcbm", dataset)
    assert torch.equal(again.outputs.logits, first.outputs.logits) and f"{file} is damaged" in log.text

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zoo, "save_checkpoint", full)
    zoo.fit_or_load("phcbm", dataset, seed=5)
    assert "cannot be written (No space left on device), the model is kept in memory only" in log.text


def test_what_a_model_cannot_be_fitted_to(monkeypatch):
    unlabelled = {"concepts": [], "present": None, "truth": None, "told": {}}
    for name, changed, message in (
        ("cbm", unlabelled, "toy comes without concept labels.*lfcbm_unsupervised"),
        ("lfcbm", {"image_embeddings": None}, "toy comes without CLIP, which lfcbm learns from: name one"),
        ("cbm", {"classes": CLASSES[:3]}, "600 training images and 3 classes, and not every image is of"),
        ("cbms", {}, "there is no model 'cbms' in the zoo: choose among cbm, cbm_independent"),
    ):
        with pytest.raises(ValueError, match=message):
            zoo.fit_or_load(name, toy_dataset(**changed))
    with pytest.raises(TypeError, match="epoch"):
        zoo.fit_or_load("cbm", toy_dataset(), epoch=3)
    with pytest.raises(ValueError, match="label_free holds top_activation, similarity, penalty: 3 numbers"):
        zoo.load_fits(["cbm"], 1, label_free=[0.2])
    # shipped networks learnt from drawn birds, and would give numbers for anything
    monkeypatch.setattr(zoo, "load_concept_dataset", lambda device, **_: toy_dataset(**unlabelled))
    with pytest.raises(ValueError, match="aviary_resnet, aviary_clip learnt from drawn birds alone, and toy"):
        zoo.load_fits(["lfcbm"], 1)
    for asked in ({"foreign": True}, {"backbone": "resnet18", "clip": "ViT-B-32"}):
        with pytest.raises(ValueError, match="toy has no concept labels"):
            zoo.load_fits(["lfcbm"], 1, need_labels=True, **asked)


# Draws


def test_draws_differ_and_are_those_of_the_zoo(tmp_path):
    dataset = toy_dataset()
    first, second = fit_several("phcbm", dataset, 2, seed=5, n=50, svm_c=0.1)
    assert not torch.equal(first.outputs.values, second.outputs.values)
    again = zoo.fit_or_load("phcbm", dataset, zoo.seed_of(5, 1), n=50, svm_c=0.1)
    assert torch.equal(again.outputs.values, second.outputs.values)
    training = second.model.explain(dataset.pooled[dataset.train]).values
    torch.testing.assert_close(second.centre, training.mean(0))
    assert torch.equal(second.present, dataset.truth[~dataset.train])
    file = save_outputs(second.outputs, tmp_path / "own.safetensors")
    (draw,) = fit_several(str(file), dataset, 8)  # a file is one draw
    assert draw.model is None and torch.equal(draw.outputs.values, second.outputs.values)
    torch.testing.assert_close(draw.centre, second.outputs.values.mean(0))


@pytest.mark.parametrize("name", ["phcbm", "cem", "lfcbm"])
def test_values_of_places(name):
    """Where all places are alike, each has the value of the whole, but for a post-hoc map's factor 1/d."""
    dataset = toy_dataset()
    (draw,) = fit_several(name, dataset, 1, **({"epochs": 1} if name[0] == "c" else {}))
    pooled = dataset.pooled[~dataset.train][:7]
    found = local_values(draw.model, pooled[:, :, None, None].expand(-1, -1, 2, 3).contiguous())
    whole = draw.outputs.values[:7] / (pooled.shape[1] if name == "phcbm" else 1)
    torch.testing.assert_close(found, whole[:, :, None, None].expand(-1, -1, 2, 3), atol=1e-4, rtol=1e-4)


# Outputs of one's own


def test_outputs_of_another_program(tmp_path):
    """Joined by a file, its rows and classes in any order."""
    dataset = toy_dataset()
    mine = zoo.fit_or_load("cbm", dataset, epochs=1).outputs
    file = str(tmp_path / "forest.safetensors")
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0)).tolist()
    rotated = torch.tensor([1, 2, 3, 0])  # the classes, too, are matched by their names
    shuffled = mine.take(order)._picked("classes", rotated, classes=[CLASSES[k] for k in rotated])
    save_outputs(shuffled, file)
    joined = zoo.own_outputs(["cbm", file], dataset)
    assert list(joined) == ["forest"] and joined["forest"].image_ids == dataset.test_ids
    for name in ("values", "contributions", "logits", "class_weights"):
        assert torch.equal(getattr(joined["forest"], name), getattr(mine, name))
    with pytest.raises(ValueError, match="two models are called cbm: rename one of the files"):
        zoo.own_outputs([str(tmp_path / "cbm.safetensors"), "cbm"], dataset)


def test_concepts_that_nobody_labelled_are_counted(tmp_path, log):
    dataset = toy_dataset()
    mine = zoo.fit_or_load("cbm", dataset, epochs=1).outputs
    names = ["Concept_0", "teapot", " A thing 2", "concept  3", "kettle", "CONCEPT 5"]
    file = save_outputs(dataclasses.replace(mine, concepts=names), tmp_path / "forest.safetensors")
    zoo.own_outputs([str(file)], dataset)
    told = concept_dataset.concept_truth(dataset, names)
    known = ~told.isnan().any(0)
    assert known.tolist() == [True, False, True, True, False, True]
    assert torch.equal(told[:, known], dataset.truth[:, known])
    assert re.search("2 of 6 concepts .*'teapot': left out", log.text)


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
        monkeypatch.setattr(concept_dataset, name, no_network)
    data = str(tmp_path / "images")
    dataset, (found,) = zoo.load_fits([str(file)], 1, data=data, backbone="nowhere", clip="nothing")
    assert dataset.test_ids == ["a.png", "b.png"] and list(found) == ["my-model.v2"]
    assert torch.equal(found["my-model.v2"].values, values.flip(0)) and dataset.pooled.shape == (2, 0)
