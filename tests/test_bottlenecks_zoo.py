"""The zoo: models by name on one data set, cached under all they depend on, and outputs from files."""

import dataclasses
import logging

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
    """What the helpers log, also after a test that started a run, which ends propagation to the root."""
    logger = logging.getLogger("xaihelpers")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)
    logger.setLevel(level)


@pytest.mark.parametrize("name", zoo.MODEL_NAMES)
def test_every_model(name, log, capsys):
    dataset = toy_dataset()
    test, labels = ~dataset.train, dataset.labels[~dataset.train]
    first = zoo.fit_or_load(name, dataset)
    assert not first.cached and first.seconds > 0 and f"{name}: trained" in log.text
    assert isinstance(first.outputs, ConceptOutputs) and len(first.outputs.values) == 100
    assert first.outputs.classes == CLASSES and first.outputs.image_ids == dataset.test_ids
    assert first.outputs.accuracy(labels) > 0.85
    again = zoo.fit_or_load(name, dataset)
    assert again.cached and again.seconds == first.seconds and again.dropped == first.dropped
    assert f"{name}: read from the cache" in log.text
    for part in ("values", "contributions", "logits"):
        assert torch.equal(getattr(again.outputs, part), getattr(first.outputs, part))
    assert again.outputs.concepts == first.outputs.concepts
    assert again.outputs.image_ids == first.outputs.image_ids
    assert (again.outputs.class_weights is None) == (name == "cem")
    # the model itself is read, too
    torch.testing.assert_close(again.model.explain(again.inputs).logits, first.outputs.logits)
    truth = concept_dataset.concept_truth(dataset, first.outputs.concepts)[test]
    corrected = again.model.explain(again.inputs, truth)
    assert corrected.accuracy(labels) >= first.outputs.accuracy(labels)
    assert not torch.equal(corrected.logits, first.outputs.logits)
    assert capsys.readouterr().out == ""  # helpers log, they do not print


def test_what_the_cache_depends_on(monkeypatch):
    dataset = toy_dataset()
    zoo.fit_or_load("cbm", dataset, epochs=2)
    assert zoo.fit_or_load("cbm", dataset, epochs=2).cached
    # its defaults, named
    assert zoo.fit_or_load("cbm", dataset, epochs=2, concept_weight=5.0, kind="joint").cached
    # a CBM has no CLIP
    assert zoo.fit_or_load("cbm", toy_dataset(clip="another", clip_identity="clip B"), epochs=2).cached
    for changed in (
        {"pooled": dataset.pooled + 1e-3},
        {"present": 1 - dataset.present},
        {"labels": 3 - dataset.labels},
        {"train": dataset.train.flip(0)},
        {"backbone_identity": "network B"},
        {"classes": ["a", "b", "c", "d"]},
        {"concepts": [f"part {j}" for j in range(L)]},
        {"image_ids": [f"other/{i}.png" for i in range(N)]},
    ):
        assert not zoo.fit_or_load("cbm", toy_dataset(**changed), epochs=2).cached, changed
    assert not zoo.fit_or_load("cbm", dataset, epochs=3).cached
    assert not zoo.fit_or_load("cbm", dataset, seed=1, epochs=2).cached
    zoo.fit_or_load("lfcbm", dataset)
    assert zoo.fit_or_load("lfcbm", dataset).cached
    key = zoo._key("lfcbm", dataset, 0, "cpu", {})
    with monkeypatch.context() as patched:
        patched.setattr(zoo, "version", lambda library: "0")
        assert zoo._key("lfcbm", dataset, 0, "cpu", {}) != key
    for changed in ({"clip_identity": "clip B"}, {"image_embeddings": dataset.image_embeddings.flip(1)}):
        assert zoo._key("lfcbm", toy_dataset(**changed), 0, "cpu", {}) != key


def test_damaged_cache_and_full_disk(monkeypatch, log, tmp_path):
    dataset = toy_dataset()
    first = zoo.fit_or_load("phcbm", dataset)
    file = next((tmp_path / "outputs").glob("phcbm-*.safetensors"))
    file.write_bytes(file.read_bytes()[:200])
    again = zoo.fit_or_load("phcbm", dataset)
    assert not again.cached and torch.equal(again.outputs.logits, first.outputs.logits)
    assert f"{file} is damaged" in log.text
    assert zoo.fit_or_load("phcbm", dataset).cached

    torn = file.with_suffix(".outputs")
    torn.write_bytes(torn.read_bytes()[:200])
    log.clear()
    again = zoo.fit_or_load("phcbm", dataset)
    assert not again.cached and torch.equal(again.outputs.logits, first.outputs.logits)
    assert f"{torn} is damaged" in log.text and f"{file} is damaged" not in log.text
    assert torn.with_name(f"{torn.name}.damaged").stat().st_size == 200
    assert zoo.fit_or_load("phcbm", dataset).cached
    torn.unlink()
    log.clear()
    assert not zoo.fit_or_load("phcbm", dataset).cached and "damaged" not in log.text

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zoo, "save_outputs", full)
    assert not zoo.fit_or_load("phcbm", dataset, seed=5).cached
    assert "cannot be written (No space left on device), the model is kept in memory only" in log.text


def test_a_full_gpu_is_no_damage(monkeypatch, log):
    zoo.fit_or_load("phcbm", toy_dataset())

    def read(*args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(zoo, "read_model", read)
    with pytest.raises(torch.OutOfMemoryError):
        zoo.fit_or_load("phcbm", toy_dataset())
    assert "damaged" not in log.text


def test_named_concepts_are_filtered():
    made = zoo.fit_or_load("lfcbm_unsupervised", toy_dataset())
    assert made.dropped["a thing that takes far more letters to say 1"] == "44 letters, more than 30"
    assert sorted(made.outputs.concepts + list(made.dropped)) == sorted(toy_dataset().phrases)
    assert len(made.outputs.concepts) > 3
    wider = zoo.fit_or_load(
        "lfcbm_unsupervised", toy_dataset(), max_length=50, other_cutoff=0.99, similarity=0.2
    )
    assert wider.outputs.concepts[1] == "a thing 1"
    with pytest.raises(ValueError, match="none of 7 concepts is left by the filters"):
        zoo.fit_or_load("lfcbm_unsupervised", toy_dataset(), max_length=5)


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


def test_a_data_set_with_the_outputs_of_models(monkeypatch):
    asked = {}

    def load(device, **settings):
        asked.update(settings, device=device)
        return toy_dataset(drawn=True)

    monkeypatch.setattr(zoo, "load_concept_dataset", load)
    dataset, outputs = zoo.load_outputs(
        ["cbm", "lfcbm"], 3, "cpu", [0.2, 0.3, 0.01], data="toy", clip="a clip"
    )
    assert asked == {"data": "toy", "clip": "a clip", "device": "cpu"} and dataset.data == "toy"
    settings = {"top_activation": 0.2, "similarity": 0.3, "penalty": 0.01}
    by_hand = zoo.zoo_outputs(["cbm", "lfcbm"], toy_dataset(), 3, **settings)
    for name in ("cbm", "lfcbm"):
        assert torch.equal(outputs[name].values, by_hand[name].values)
    with pytest.raises(ValueError, match="label_free holds top_activation, similarity, penalty: 3 numbers"):
        zoo.load_outputs(["cbm"], label_free=[0.2])
    monkeypatch.setattr(zoo, "load_concept_dataset", lambda device: toy_dataset(truth=None, present=None))
    with pytest.raises(ValueError, match="toy has no concept labels"):
        zoo.load_outputs(["lfcbm"], need_labels=True, foreign=True)


def test_shipped_networks_are_refused_on_other_images():
    """They learnt from drawn birds, and would give numbers for anything."""
    toy, birds = toy_dataset(), toy_dataset(drawn=True)
    with pytest.raises(ValueError, match="aviary_resnet, aviary_clip learnt from drawn birds alone, and toy"):
        zoo.check_shipped(toy, ["aviary_resnet", "resnet18", "aviary_clip"])
    zoo.check_shipped(toy, ["aviary_resnet"], foreign=True)
    zoo.check_shipped(toy, ["resnet18", "ViT-B-32", ""])
    zoo.check_shipped(birds, ["aviary_resnet", "aviary_clip"])
    zoo.check_shipped(datasets.load("aviary"), ["aviary_resnet"])  # images alone, without concepts


def test_finished_outputs_need_no_network(tmp_path, monkeypatch):
    """A file and its images are enough: neither the backbone nor the teacher of the model is loaded."""
    small = datasets.load("aviary")
    test_ids = [name for name, train in zip(small.image_ids, small.train.tolist(), strict=True) if not train]
    n = len(test_ids)
    outputs = ConceptOutputs(
        torch.rand(n, 2),
        torch.rand(n, 2),
        None,
        torch.rand(n, 48),
        ["red crown", "blue wing"],
        small.class_names,
        image_ids=test_ids,
    )
    file = save_outputs(outputs, tmp_path / "my-model.v2.safetensors")

    def no_network(*_, **__):
        raise AssertionError("a network was loaded")

    for name in ("load_backbone", "load_clip"):
        monkeypatch.setattr(f"xaihelpers.bottlenecks.concept_dataset.{name}", no_network)
    dataset, found = zoo.load_outputs([str(file)], data="aviary", backbone="nowhere", clip="nothing")
    assert list(found) == ["my-model.v2"] and torch.equal(found["my-model.v2"].values, outputs.values)
    assert dataset.pooled.shape == (len(small.images), 0)


def test_outputs_of_a_folder_of_pictures(tmp_path):
    """One file and one folder of images, of which nobody knows the classes."""
    (tmp_path / "images").mkdir()
    names = ["a.png", "b.png"]
    for name in names:
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / name)
    values = torch.rand(2, 3)
    about = {"concepts": list("xyz"), "classes": ["p", "q"], "image_ids": names[::-1]}
    outputs = ConceptOutputs(values, values.clone(), None, torch.rand(2, 2), **about)
    file = save_outputs(outputs, tmp_path / "mine.safetensors")
    dataset, found = zoo.load_outputs([str(file)], data=str(tmp_path / "images"))
    assert dataset.test_ids == names and torch.equal(found["mine"].values, values.flip(0))


# Outputs of other programs


@pytest.fixture
def dataset_and_outputs():
    dataset = toy_dataset()
    return dataset, zoo.zoo_outputs(["cbm"], dataset)["cbm"]


def rows_of(outputs, rows, **changed):
    """The outputs of some rows, as another program might have written them."""
    chosen = {name: getattr(outputs, name)[rows] for name in ("values", "contributions", "logits")}
    ids = [outputs.image_ids[row] for row in rows]
    return dataclasses.replace(outputs, **{"image_ids": ids} | chosen | changed)


def test_outputs_of_another_program_join_by_a_file(tmp_path, dataset_and_outputs):
    dataset, mine = dataset_and_outputs
    file = save_outputs(mine, tmp_path / "forest.safetensors")
    # a setting of label-free models leaves others alone
    joined = zoo.zoo_outputs(["cbm", str(file)], dataset, similarity=0.2)
    assert list(joined) == ["cbm", "forest"]
    assert torch.equal(joined["forest"].values, mine.values) and torch.equal(
        joined["cbm"].values, mine.values
    )


def test_a_file_in_another_order_is_realigned(tmp_path, dataset_and_outputs):
    dataset, mine = dataset_and_outputs
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0)).tolist()
    file = save_outputs(rows_of(mine, order), tmp_path / "forest.safetensors")
    forest = zoo.zoo_outputs([str(file)], dataset)["forest"]
    for name in ("values", "contributions", "logits"):
        assert torch.equal(getattr(forest, name), getattr(mine, name))
    assert forest.image_ids == dataset.test_ids


def test_a_file_of_other_images_is_refused(tmp_path, dataset_and_outputs):
    dataset, mine = dataset_and_outputs
    others = [f"crow/{i}.png" for i in range(100)]
    file = save_outputs(rows_of(mine, range(100), image_ids=others), tmp_path / "forest.safetensors")
    with pytest.raises(ValueError, match="forest.safetensors: outputs of other images") as error:
        zoo.zoo_outputs([str(file)], dataset)
    assert "100 of the 100 images wanted have no row" in str(error.value)
    for name in (*dataset.test_ids[:3], *others[:3]):
        assert repr(name) in str(error.value)
    fewer = save_outputs(rows_of(mine, range(99)), tmp_path / "fewer.safetensors")
    with pytest.raises(ValueError, match="1 of the 100 images wanted have no row, the first '699.png'"):
        zoo.zoo_outputs([str(fewer)], dataset)


def test_a_file_without_image_ids_is_refused(tmp_path, dataset_and_outputs):
    dataset, mine = dataset_and_outputs
    file = save_outputs(dataclasses.replace(mine, image_ids=None), tmp_path / "forest.safetensors")
    with pytest.raises(ValueError, match="forest.safetensors: 100 rows without image ids"):
        zoo.zoo_outputs([str(file)], dataset)


def test_a_file_of_other_classes_is_refused(tmp_path, dataset_and_outputs):
    dataset, mine = dataset_and_outputs
    classes = [*CLASSES[1:], CLASSES[0]]
    file = save_outputs(dataclasses.replace(mine, classes=classes), tmp_path / "forest.safetensors")
    with pytest.raises(ValueError, match="forest.safetensors holds 4 classes, the first .*same order"):
        zoo.zoo_outputs([str(file)], dataset)


def test_wrong_names():
    with pytest.raises(
        ValueError, match="there is no model 'cbms' in the zoo: choose among cbm, cbm_independent"
    ):
        zoo.fit_or_load("cbms", toy_dataset())
    with pytest.raises(TypeError, match="epoch"):
        zoo.fit_or_load("cbm", toy_dataset(), epoch=3)


# From pixels


class Flat(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 8)

    def forward(self, pixels):
        return self.layer(pixels.flatten(1).float() / 255).relu()


def trunk():
    torch.manual_seed(0)
    return Flat()


@pytest.mark.parametrize("name", ["cbm", "cbm_per_concept", "cem"])
def test_trained_from_pixels_and_read_again(name):
    plain = toy_dataset()
    # pairs alike: mirrored, a picture shows the same
    pixels = (plain.present.repeat_interleave(2, 1).reshape(N, 3, 2, 2) * 200).to(torch.uint8)
    dataset = toy_dataset(pixels=pixels, trunk=trunk)
    settings = {"epochs": 40, "learning_rate": 0.05}
    first = zoo.fit_or_load(name, dataset, **settings)
    again = zoo.fit_or_load(name, dataset, **settings)
    assert again.cached and torch.equal(again.outputs.logits, first.outputs.logits)
    torch.testing.assert_close(again.model.explain(pixels[~dataset.train]).logits, first.outputs.logits)
    assert not zoo.fit_or_load(name, plain, **settings).cached  # frozen features are another matter
    assert first.outputs.accuracy(dataset.labels[~dataset.train]) > 0.9
