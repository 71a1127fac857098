"""The suite: models by name on one task, remembered under everything they depend on, and outputs on disk."""

import dataclasses
import json

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from xaihelpers import paths
from xaihelpers.bottlenecks import ConceptOutputs, add_residual, fit_posthoc_cbm, posthoc_cbm_from_text, read_outputs, save_outputs, suite
from xaihelpers.bottlenecks.intervention import value_range
from xaihelpers.bottlenecks.tasks import load_task, read_concepts

N, L, K = 700, 6, 4
CONCEPTS, CLASSES = [f"concept {j}" for j in range(L)], ["jay", "crow", "gull", "tern"]
TEXTS = torch.linalg.qr(torch.randn(16, 2 * L, generator=torch.Generator().manual_seed(3))).Q.T.contiguous()  # (2 L, 16), orthonormal


def embed_texts(texts):
    """Concepts and phrases of one number lie near each other, classes far from all."""
    rows = [
        TEXTS[int(text.split()[-1])] + 0.2 * text.startswith("a ") * TEXTS[L] if text not in CLASSES else TEXTS[L + 1 + CLASSES.index(text)] for text in texts
    ]
    return F.normalize(torch.stack(rows), dim=1)


def new_task(seed=0, **changed):
    generator = torch.Generator().manual_seed(seed)
    present = (torch.rand(N, L, generator=generator) < 0.4).float()
    pooled = 2 * present @ TEXTS[:L] + 0.2 * torch.randn(N, 16, generator=generator)
    images = F.normalize(present @ TEXTS[:L] + 0.05 * torch.randn(N, 16, generator=generator), dim=1)
    train, labels = torch.arange(N) < 600, (2 * present[:, 0] + present[:, 1]).long()
    table = pd.DataFrame({"path": [f"{i}.png" for i in range(N)], "label": labels.numpy(), "train": train.numpy()})
    phrases = [f"a thing {j}" for j in range(L)] + ["a thing that takes far more letters to say 1"]
    task = suite.Task(
        "toy",
        table,
        CLASSES,
        labels,
        train,
        pooled,
        "network A | clip A",
        CONCEPTS,
        present,
        present,
        phrases,
        torch.cat([present, present[:, 1:2]], 1),
        "a clip",
        images,
        embed_texts,
    )
    return dataclasses.replace(task, **changed)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path)


@pytest.mark.parametrize("name", suite.NAMES)
def test_every_model(name, capsys):
    task = new_task()
    first = suite.trained(name, task)
    assert not first.cached and first.seconds > 0 and f"{name}: trained" in capsys.readouterr().out
    assert isinstance(first.outputs, ConceptOutputs) and len(first.outputs.values) == 100 and first.outputs.classes == CLASSES
    assert first.outputs.accuracy(task.labels[~task.train]) > 0.85
    again = suite.trained(name, task)
    assert again.cached and again.seconds == first.seconds and again.dropped == first.dropped and f"{name}: read from the cache" in capsys.readouterr().out
    for part in ("values", "contributions", "logits"):
        assert torch.equal(getattr(again.outputs, part), getattr(first.outputs, part))
    assert again.outputs.concepts == first.outputs.concepts and (again.outputs.class_weights is None) == (name == "cem")
    torch.testing.assert_close(again.model.explain(again.inputs).logits, first.outputs.logits)  # the model itself is read, too
    truth = suite.truth_of(task, first.outputs.concepts)[~task.train]
    corrected = again.model.explain(again.inputs, truth)
    assert corrected.accuracy(task.labels[~task.train]) >= first.outputs.accuracy(task.labels[~task.train]) and not torch.equal(
        corrected.logits, first.outputs.logits
    )


def test_what_the_cache_depends_on():
    task = new_task()
    suite.trained("cbm", task, epochs=2)
    assert suite.trained("cbm", task, epochs=2).cached
    assert suite.trained("cbm", task, epochs=2, concept_weight=5.0, kind="joint").cached  # its defaults, said aloud
    assert suite.trained("cbm", new_task(clip="another", identity="network A | clip B"), epochs=2).cached  # a CBM has no CLIP
    for changed in (
        {"pooled": task.pooled + 1e-3},
        {"present": 1 - task.present},
        {"labels": 3 - task.labels},
        {"train": task.train.flip(0)},
        {"identity": "network B | clip A"},
        {"classes": ["a", "b", "c", "d"]},
        {"concepts": [f"part {j}" for j in range(L)]},
    ):
        assert not suite.trained("cbm", new_task(**changed), epochs=2).cached, changed
    assert not suite.trained("cbm", task, epochs=3).cached and not suite.trained("cbm", task, seed=1, epochs=2).cached
    suite.trained("lfcbm", task)
    assert suite.trained("lfcbm", task).cached
    for changed in ({"identity": "network A | clip B"}, {"image_embeddings": task.image_embeddings.flip(1)}):
        assert suite._key("lfcbm", new_task(**changed), 0, "cpu", {}) != suite._key("lfcbm", task, 0, "cpu", {})


def test_damaged_cache_and_full_disk(monkeypatch, capsys, tmp_path):
    task = new_task()
    first = suite.trained("phcbm", task)
    file = next((tmp_path / "outputs").glob("phcbm-*.safetensors"))
    file.write_bytes(file.read_bytes()[:200])
    again = suite.trained("phcbm", task)
    assert not again.cached and "damaged cache file" in capsys.readouterr().out and torch.equal(again.outputs.logits, first.outputs.logits)
    assert suite.trained("phcbm", task).cached

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(suite, "save_outputs", full)
    assert not suite.trained("phcbm", task, seed=5).cached
    assert "cannot be written (No space left on device), the model is kept in memory only" in capsys.readouterr().out


def test_own_concepts_are_filtered():
    made = suite.trained("lfcbm_unsupervised", new_task())
    assert made.dropped["a thing that takes far more letters to say 1"] == "44 letters, more than 30"
    assert sorted(made.outputs.concepts + list(made.dropped)) == sorted(new_task().phrases) and len(made.outputs.concepts) > 3
    assert suite.trained("lfcbm_unsupervised", new_task(), max_length=50, other_cutoff=0.99, similarity=0.2).outputs.concepts[1] == "a thing 1"
    with pytest.raises(ValueError, match="none of 7 concepts is left by the filters"):
        suite.trained("lfcbm_unsupervised", new_task(), max_length=5)


def test_without_annotations():
    task = new_task(concepts=[], present=None, truth=None, phrase_truth=None)
    for name in ("cbm", "cem", "phcbm", "phcbm_residual"):
        with pytest.raises(ValueError, match="toy comes without concept labels.*lfcbm_unsupervised"):
            suite.trained(name, task)
    outputs = suite.outputs_of(["lfcbm", "phcbm_text"], task)
    assert outputs["phcbm_text"].concepts == task.phrases
    assert suite.truth_of(task, task.phrases).isnan().all()
    with pytest.raises(ValueError, match=r"toy comes without CLIP.*load_task\(clip=...\) adds it"):
        suite.trained("lfcbm", new_task(image_embeddings=None))


def test_outputs_of_another_framework_join_by_a_file(tmp_path):
    task = new_task()
    mine = suite.outputs_of(["cbm"], task)["cbm"]
    file = save_outputs(mine, tmp_path / "forest.safetensors")
    found = suite.outputs_of(["cbm", str(file)], task, similarity=0.2)  # a setting of label-free models leaves others alone
    assert list(found) == ["cbm", "forest"] and torch.equal(found["forest"].values, mine.values) and torch.equal(found["cbm"].values, mine.values)
    fewer = new_task()
    fewer.train[(~fewer.train).nonzero()[0]] = True
    with pytest.raises(ValueError, match=r"forest.safetensors holds \d+ images and \d+ classes, toy has \d+ test images"):
        suite.outputs_of([str(file)], fewer)


def test_truths_by_name():
    task = new_task()
    truth = suite.truth_of(task, ["concept 2", "a thing 4", "something else"])
    assert torch.equal(truth[:, 0], task.truth[:, 2]) and torch.equal(truth[:, 1], task.truth[:, 4]) and truth[:, 2].isnan().all()


def test_wrong_names():
    with pytest.raises(ValueError, match="there is no model 'cbms' in the suite: choose among cbm, cbm_independent"):
        suite.trained("cbms", new_task())
    with pytest.raises(TypeError, match="epoch"):
        suite.trained("cbm", new_task(), epoch=3)


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
    plain = new_task()
    pixels = (plain.present.repeat_interleave(2, 1).reshape(N, 3, 2, 2) * 200).to(torch.uint8)  # pairs alike: mirrored, a picture shows the same
    task = new_task(pixels=pixels, trunk=trunk)
    settings = {"epochs": 40, "learning_rate": 0.05}
    first = suite.trained(name, task, **settings)
    again = suite.trained(name, task, **settings)
    assert again.cached and torch.equal(again.outputs.logits, first.outputs.logits)
    torch.testing.assert_close(again.model.explain(pixels[~task.train]).logits, first.outputs.logits)
    assert not suite.trained(name, plain, **settings).cached  # frozen features are another matter
    assert first.outputs.accuracy(task.labels[~task.train]) > 0.9


# Outputs on disk


def outputs(**changed):
    parts = {
        "values": torch.rand(2, 3),
        "contributions": torch.rand(2, 3),
        "class_weights": torch.rand(3, 2),
        "logits": torch.rand(2, 2),
        "concepts": ["red crown", "Rücken grau", 'a "long" bill'],
        "classes": ["jay", "crow"],
    }
    return ConceptOutputs(**parts | changed)


@pytest.mark.parametrize("weights", [torch.rand(3, 2), None])
def test_outputs_on_disk(tmp_path, weights):
    before = outputs(class_weights=weights)
    after = read_outputs(save_outputs(before, tmp_path / "new" / "outputs.safetensors"))
    assert after.concepts == before.concepts and after.classes == before.classes
    assert all(torch.equal(getattr(after, name), getattr(before, name)) for name in ("values", "contributions", "logits"))
    assert after.class_weights is None if weights is None else torch.equal(after.class_weights, weights)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["outputs.safetensors"]


def test_files_that_hold_no_outputs(tmp_path):
    file = tmp_path / "x.safetensors"
    for content in (b"", b"no tensors at all"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="x.safetensors: no outputs of a bottleneck"):
            read_outputs(file)
    with pytest.raises(ValueError, match="y.safetensors: no outputs of a bottleneck"):
        read_outputs(tmp_path / "y.safetensors")
    tensors = {name: torch.zeros(2, 3) for name in ("values", "contributions")} | {"logits": torch.zeros(2, 2)}
    names = {"concepts": json.dumps(["p", "q", "r"]), "classes": json.dumps(["x", "y"])}
    save_file(tensors, file, names)
    assert read_outputs(file).concepts == ["p", "q", "r"]  # written by another program
    for wrong in ({"concepts": json.dumps(["p", "q"])}, {"concepts": json.dumps(["p", "p", "r"])}, {"concepts": "p, q, r"}):
        save_file(tensors, file, names | wrong)
        with pytest.raises(ValueError, match="x.safetensors: no outputs"):
            read_outputs(file)


# Tasks


def test_concept_files(tmp_path):
    file = tmp_path / "concepts.txt"
    file.write_text("a red crown\n\n  a gray back \nein grauer Rücken\n", encoding="utf-8")
    assert read_concepts(file) == ["a red crown", "a gray back", "ein grauer Rücken"]
    for text, message in (("", "concepts.txt: the list of concepts is empty"), ("a bill\na leg\nA  bill\n", "'A  bill' stands twice, at places 0 and 2")):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_concepts(file)
    with pytest.raises(ValueError, match="nowhere.txt: No such file"):
        read_concepts(tmp_path / "nowhere.txt")


@pytest.fixture
def aviary(monkeypatch):
    monkeypatch.undo()  # the features' cache is the project's own
    return lambda **changed: load_task(clip="", **changed)


def test_the_aviary_as_a_task(aviary, tmp_path):
    task = aviary()
    assert len(task.images) == len(task.pooled) == len(task.labels) == len(task.present) == 2400 and task.train.sum() == 1440
    assert len(task.classes) == 48 and "_" not in "".join(task.classes) and "." not in "".join(task.classes)
    assert len(task.concepts) == len(set(task.concepts)) == 112 and torch.equal(task.present, task.truth)
    assert task.phrase_truth.shape == (2400, len(task.phrases)) and len(set(task.phrases)) == len(task.phrases) > 300
    red, phrase = task.truth[:, task.concepts.index("blue crown")], task.phrase_truth[:, task.phrases.index("a blue crown")]
    assert red.any() and torch.equal(red, phrase)
    of_class = aviary(labels="class", label_kind="soft")
    assert ((of_class.present > 0) & (of_class.present < 1)).any() and set(of_class.truth.unique().tolist()) == {0.0, 1.0}
    assert all(len(of_class.truth[of_class.labels == k].unique(dim=0)) == 1 for k in range(5))
    file = tmp_path / "concepts.txt"
    file.write_text("a beak\na nest")
    assert aviary(concept_file=str(file)).phrases == ["a beak", "a nest"]


# Ranges


def test_the_two_clusters_of_a_concept():
    rare = torch.tensor([0.0, 1, 0, 1] * 24 + [9, 9, 11, 11])[:, None]  # present in 4 of 100, so above the 95th percentile
    low, high = value_range(rare)
    assert low.item() == pytest.approx(0.5) and high.item() == pytest.approx(10)
    low, high = value_range(torch.full((20, 2), 3.0))
    assert low.tolist() == high.tolist() == [3, 3]


# The post-hoc bottleneck's other forms


def test_texts_as_concept_vectors():
    task = new_task()
    model = posthoc_cbm_from_text(task.image_embeddings[:200], embed_texts(CONCEPTS), task.labels[:200], CONCEPTS, CLASSES)
    shown = model.explain(task.image_embeddings[200:])
    torch.testing.assert_close(shown.values, task.image_embeddings[200:] @ embed_texts(CONCEPTS).T)
    assert shown.accuracy(task.labels[200:]) > 0.95
    with pytest.raises(ValueError, match=r"text_embeddings is \(6, 15\), but 6 concepts and image embeddings of 16 need \(6, 16\)"):
        posthoc_cbm_from_text(task.image_embeddings[:200], embed_texts(CONCEPTS)[:, :15], task.labels[:200], CONCEPTS, CLASSES)
    with pytest.raises(ValueError, match="the list of concepts is empty"):
        posthoc_cbm_from_text(task.image_embeddings[:200], embed_texts(CONCEPTS)[:0], task.labels[:200], [], CLASSES)


def test_the_residual_adds_what_the_concepts_lack():
    """The class is concept 0 and a direction in the features that no concept knows."""
    generator = torch.Generator().manual_seed(0)
    present, hidden = (torch.rand(2, 400, 1, generator=generator) < 0.5).float()
    labels = (2 * present + hidden)[:, 0].long()
    features = torch.cat([2 * present - 1, 2 * hidden - 1], 1) @ TEXTS[:2] + 0.2 * torch.randn(400, 16, generator=generator)
    bare, _ = fit_posthoc_cbm(features[:300], present[:300], labels[:300], ["known"], CLASSES, n=50)
    bare.bank -= (bare.bank @ TEXTS[1])[:, None] * TEXTS[1]  # not even by chance
    full = add_residual(bare, features[:300], labels[:300])
    before, after = bare.explain(features[300:]), full.explain(features[300:])
    assert before.accuracy(labels[300:]) < 0.65 and after.accuracy(labels[300:]) > 0.97
    assert torch.equal(full.class_weights, bare.class_weights) and torch.equal(after.values, before.values) and bare.residual_weights is None
    torch.testing.assert_close(after.logits, before.logits + features[300:] @ full.residual_weights + full.residual_bias)
    again = add_residual(full, features[:300], labels[:300])  # in place of the old residual, not on top of it
    torch.testing.assert_close(again.residual_weights, full.residual_weights)


def test_corrections_of_the_posthoc_bottleneck():
    task = new_task()
    model, _ = fit_posthoc_cbm(task.pooled[:200], task.present[:200], task.labels[:200], CONCEPTS, CLASSES, n=50)
    values, present = model.explain(task.pooled[:200]).values, task.present[:200]
    torch.testing.assert_close(model.high, (values * present).sum(0) / present.sum(0), rtol=0, atol=0.02)  # the two clusters are found without their labels
    torch.testing.assert_close(model.low, (values * (1 - present)).sum(0) / (1 - present).sum(0), rtol=0, atol=0.02)
    noisy = task.pooled[200:] + torch.randn(500, 16, generator=torch.Generator().manual_seed(1))
    before, after = model.explain(noisy), model.explain(noisy, task.truth[200:])
    assert before.accuracy(task.labels[200:]) < 0.9 < after.accuracy(task.labels[200:])
    expected = torch.where(task.truth[200:] == 1, before.values.maximum(model.high), before.values.minimum(model.low))
    assert torch.equal(after.values, expected)
    with pytest.raises(ValueError, match="has no range of training values"):
        dataclasses.replace(model, low=None).explain(noisy, task.truth[200:])
