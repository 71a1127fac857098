"""Trained bottlenecks, CBM and CEM: they learn what was planted and believe a person who corrects them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xaihelpers.bottlenecks import (
    ConceptBottleneck,
    ConceptEmbeddingModel,
    cbm,
    fit_cbm,
    fit_cem,
    fit_head,
    minibatch,
)
from xaihelpers.bottlenecks.cem import pairs_and_scores

L, K, D = 6, 4, 20
CONCEPTS, CLASSES = [f"concept {j}" for j in range(L)], ["a", "b", "c", "d"]


def planted(n, noise, seed):
    """Features that hold six concepts, of which the first two are the class's binary digits."""
    generator = torch.Generator().manual_seed(seed)
    present = (torch.rand(n, L, generator=generator) < 0.5).float()
    directions = torch.linalg.qr(torch.randn(D, L, generator=torch.Generator().manual_seed(9))).Q.T
    features = 2 * (present - 0.5) @ directions + noise * torch.randn(n, D, generator=generator)
    return features, present, (2 * present[:, 0] + present[:, 1]).long()


TRAIN, TEST = planted(400, 0.3, 0), planted(200, 0.3, 1)
FITS = {
    "joint": (fit_cbm, {"kind": "joint", "hidden": 16}),
    "independent": (fit_cbm, {"kind": "independent", "hidden": 16}),
    "sequential": (fit_cbm, {"kind": "sequential", "hidden": 16}),
    "per concept": (fit_cbm, {"kind": "independent", "per_concept": True, "hidden": 8}),
    "per concept, linear": (fit_cbm, {"kind": "joint", "per_concept": True, "hidden": 0}),
    "cem": (fit_cem, {"size": 8, "concept_weight": 1.0}),
}


def fit(name, data=TRAIN, **changed):
    function, settings = FITS[name]
    usual = {"epochs": 60, "learning_rate": 0.01, "concept_weight": 5.0}
    return function(*data, CONCEPTS, CLASSES, **usual | settings | changed)


@pytest.mark.parametrize("name", FITS)
def test_it_learns_concepts_and_classes_and_its_outputs_add_up(name):
    features, present, labels = TEST
    model = fit(name)
    shown = model.explain(features)
    assert shown.accuracy(labels) > 0.95
    assert ((shown.values > 0.5) == present.bool()).float().mean(0).min() > 0.95
    assert shown.values.min() >= 0 and shown.values.max() <= 1
    assert shown.concepts == CONCEPTS and shown.classes == CLASSES and not shown.logits.requires_grad
    total = shown.contributions.sum(1) + model.class_bias[shown.predictions]
    torch.testing.assert_close(total, shown.logits.amax(1), atol=1e-4, rtol=1e-4)
    if shown.class_weights is not None:
        expected = shown.values * shown.class_weights.T[shown.predictions]
        torch.testing.assert_close(shown.contributions, expected)


@pytest.mark.parametrize("name", ["joint", "per concept", "cem"])
def test_corrections_raise_accuracy(name):
    # so noisy that concepts are often wrong, in training as well
    features, present, labels = planted(300, 0.8, 2)
    model = fit(name, planted(800, 0.8, 0), epochs=20)
    none = torch.full_like(present, torch.nan)
    assert torch.equal(model.explain(features, none).logits, model.explain(features).logits)
    first = torch.where(torch.arange(L) < 1, present, none)
    accuracies = [model.explain(features, known).accuracy(labels) for known in (none, first, present)]
    assert accuracies[0] < 0.8 and accuracies[0] < accuracies[1] < accuracies[2]
    # embeddings carry the features' noise past the correction
    assert accuracies[2] > (0.93 if name != "cem" else accuracies[0] + 0.05)
    assert torch.equal(model.explain(features, present).values, present)
    # a person who says the opposite is believed, too
    wrong = torch.where(torch.arange(L) < 2, 1 - present, none)
    assert model.explain(features, wrong).accuracy(labels) < (0.05 if name != "cem" else accuracies[0] - 0.2)


def test_heads_of_the_three_kinds():
    features, present, labels = TRAIN
    independent, sequential = fit("independent"), fit("sequential")
    # the concepts know nothing of the head
    torch.testing.assert_close(independent.concept_weights, sequential.concept_weights)
    torch.testing.assert_close(independent.class_weights, fit_head(present, labels, K)[0])
    values = sequential.explain(features).values
    torch.testing.assert_close(sequential.class_weights, fit_head(values, labels, K)[0])
    assert not torch.allclose(independent.class_weights, sequential.class_weights)
    shuffled = labels.flip(0)  # a joint model's concepts do feel the classes
    independent_again = fit("independent", (features, present, shuffled))
    assert torch.equal(independent_again.concept_weights, independent.concept_weights)
    joint_again = fit("joint", (features, present, shuffled))
    assert not torch.equal(joint_again.concept_weights, fit("joint").concept_weights)
    # a joint model whose concepts weigh nothing
    careless = fit("joint", concept_weight=0.0).explain(features)
    assert (
        careless.accuracy(labels) > 0.95 and ((careless.values > 0.5) == present.bool()).float().mean() < 0.8
    )
    # other labels of one concept change its own network alone
    other = present.clone()
    other[:, 2] = 1 - other[:, 2]
    before, after = (
        fit("per concept", (features, p, labels)).explain(features).values for p in (present, other)
    )
    assert (before != after).any(0).tolist() == [j == 2 for j in range(L)]


# Concept embeddings


def test_embeddings_by_hand():
    model = ConceptEmbeddingModel(
        torch.tensor([1.0]),
        torch.tensor([2.0]),
        torch.tensor([[[[1.0], [-1.0]]]]),
        torch.tensor([[[0.5], [0.0]]]),
        torch.tensor([[1.0], [10.0]]),
        torch.tensor(0.0),
        torch.tensor([[[1.0, -1.0]]]),
        torch.tensor([0.0, 0.25]),
        ["p"],
        ["x", "y"],
    )
    pairs, scores = pairs_and_scores(torch.tensor([[5.0]]), model)  # standardised 2: (2.5, leaky −2)
    torch.testing.assert_close(pairs, torch.tensor([[[[2.5], [-0.02]]]]))
    torch.testing.assert_close(scores, torch.tensor([[2.3]]))
    # a person says that it is absent: the embedding is −0.02
    shown = model.explain(torch.tensor([[5.0]]), torch.tensor([[0.0]]))
    torch.testing.assert_close(shown.logits, torch.tensor([[-0.02, 0.27]]))
    torch.testing.assert_close(shown.contributions, torch.tensor([[0.02]]))
    assert shown.values.tolist() == [[0.0]] and shown.class_weights is None


# From pixels


class Squares(nn.Module):
    """A network for pictures in which each concept is a bright square at its own place."""

    def __init__(self):
        super().__init__()
        self.maps = nn.Conv2d(3, 8, 4, stride=4)

    def forward(self, pixels):
        return self.maps(pixels.float() / 255).relu().flatten(1)  # (B, 8 · 1 · 6)


def pictures(n, seed):
    generator = torch.Generator().manual_seed(seed)
    present = (torch.rand(n, L, generator=generator) < 0.5).float()
    # left and right alike: what is mirrored has the same labels
    present = torch.cat([present[:, :3], present[:, :3].flip(1)], 1)
    bright = present.repeat_interleave(4, 1)[:, None, None].expand(n, 3, 4, 4 * L)
    pixels = 40 + 150 * bright + 10 * torch.randn(n, 3, 4, 4 * L, generator=generator)
    return pixels.clamp(0, 255).to(torch.uint8), present, (2 * present[:, 0] + present[:, 1]).long()


def squares():
    torch.manual_seed(0)
    return Squares()


@pytest.mark.parametrize(
    "function, settings",
    [
        (fit_cbm, {"kind": "joint", "concept_weight": 5.0}),
        (fit_cbm, {"kind": "independent", "per_concept": True}),
        (fit_cem, {"size": 4}),
    ],
)
def test_from_pixels(function, settings):
    start = squares()
    before = copy.deepcopy(start.state_dict())
    model = function(
        *pictures(300, 0), CONCEPTS, CLASSES, trunk=start, epochs=40, learning_rate=0.03, **settings
    )
    pixels, present, labels = pictures(100, 1)
    shown = model.explain(pixels)
    assert shown.accuracy(labels) > 0.95 and ((shown.values > 0.5) == present.bool()).float().mean() > 0.97
    assert len(model.trunks) == (L if settings.get("per_concept") else 1)
    for trunk in model.trunks:  # trained end to end, as copies
        assert not torch.equal(trunk.maps.weight, before["maps.weight"])
    assert torch.equal(start.maps.weight, before["maps.weight"])
    torch.testing.assert_close(model.explain(model.encode(pixels)).logits, shown.logits)


def one_by_one(**more):
    """A network for each concept, from pixels."""
    settings = {"kind": "independent", "per_concept": True, "epochs": 2, "trunk": squares(), **more}
    return fit_cbm(*pictures(60, 0), CONCEPTS, CLASSES, **settings)


def test_networks_trained_one_by_one_are_kept_one_by_one(tmp_path, monkeypatch):
    """Killed in the third concept, the next run trains the other four, and ends where a whole run ends."""
    whole = one_by_one().explain(pictures(20, 1)[0]).values
    train, trained = cbm._train_together, []

    def until_the_third(model, *arguments):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(model.concepts)
        train(model, *arguments)

    monkeypatch.setattr(cbm, "_train_together", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        one_by_one(checkpoints=tmp_path)
    kept = sorted(tmp_path.iterdir())
    assert [file.name for file in kept] == ["000.safetensors", "001.safetensors"]
    kept[1].write_bytes(kept[1].read_bytes()[:100])  # cut off: it is trained again
    again = []

    def counted(model, *arguments):
        again.append(model.concepts[0])
        train(model, *arguments)

    monkeypatch.setattr(cbm, "_train_together", counted)
    resumed = one_by_one(checkpoints=tmp_path)
    assert again == CONCEPTS[1:] and (tmp_path / "001.safetensors.damaged").exists()
    assert torch.equal(resumed.explain(pictures(20, 1)[0]).values, whole)


def test_a_training_from_pixels_that_was_killed_goes_on_with_its_next_epoch(tmp_path, monkeypatch):
    """And ends where a whole run ends, bit for bit; a state that was cut off begins anew."""

    def fitted(**more):
        return fit_cem(*pictures(40, 0), CONCEPTS, CLASSES, epochs=4, trunk=squares(), **more)

    whole = fitted().explain(pictures(20, 1)[0]).values
    keep, epochs = minibatch.save_state, []

    def until_the_second(file, epoch, *state):
        keep(file, epoch, *state)
        epochs.append(epoch)
        if epochs == [1, 2]:
            raise KeyboardInterrupt

    monkeypatch.setattr(minibatch, "save_state", until_the_second)
    with pytest.raises(KeyboardInterrupt):
        fitted(checkpoints=tmp_path)
    resumed = fitted(checkpoints=tmp_path)
    assert epochs == [1, 2, 3, 4] and torch.equal(resumed.explain(pictures(20, 1)[0]).values, whole)
    state = tmp_path / "training.checkpoint"
    state.write_bytes(state.read_bytes()[:200])
    anew = fitted(checkpoints=tmp_path)
    assert epochs[4:] == [1, 2, 3, 4] and torch.equal(anew.explain(pictures(20, 1)[0]).values, whole)
    assert (tmp_path / "training.checkpoint.damaged").exists()


def test_the_published_recipe():
    features, present, labels = TEST
    model = fit("joint", recipe="koh", learning_rate=0.05, weight_decay=4e-5)
    assert ((model.explain(features).values > 0.5) == present.bool()).float().mean() > 0.95
    rare = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert minibatch.rarity(rare, "koh").tolist() == [3, 3]
    assert minibatch.rarity(torch.zeros(4, 1), "koh").tolist() == [3]  # none: as one of them
    assert minibatch.rarity(rare, "adamw") is None


# Bad input


@pytest.mark.parametrize("function", [fit_cbm, fit_cem])
def test_inputs_that_do_not_fit(function):
    features, present, labels = TRAIN
    half, doubtful = present.clone(), present.clone()
    doubtful[7, 3] = 1.5
    broken = features.clone()
    broken[11, 0] = torch.nan
    pixels = torch.zeros(400, 3, 4, 4, dtype=torch.uint8)
    for x, y, concepts, classes, message in (
        (features, half[:, :5], CONCEPTS, CLASSES, r"6 concepts need present \(400, 6\)"),
        (features, doubtful, CONCEPTS, CLASSES, "row 7, 'concept 3' is 1.5"),
        (features, present, CONCEPTS, CLASSES[:3], "labels run from 0 to 3, but there are 3 classes"),
        (broken, present, CONCEPTS, CLASSES, "the first in row 11"),
        (features, present, ["x"] * 6, CLASSES, "'x' stands twice, at places 0 and 1"),
        (features, present[:, :0], [], CLASSES, "the list of concepts is empty"),
        (pixels, present, CONCEPTS, CLASSES, "give pixels .* together with a trunk"),
    ):
        with pytest.raises(ValueError, match=message):
            function(x, y, labels, concepts, classes, epochs=1)


def test_other_bad_input():
    with pytest.raises(ValueError, match="kind must be one of joint, independent, sequential, not 'both'"):
        fit_cbm(*TRAIN, CONCEPTS, CLASSES, kind="both")
    with pytest.raises(ValueError, match="choose kind independent or sequential"):
        fit_cbm(*pictures(20, 0), CONCEPTS, CLASSES, per_concept=True, trunk=squares())
    with pytest.raises(ValueError, match="intervention is a probability below 1"):
        fit_cem(*TRAIN, CONCEPTS, CLASSES, intervention=1.0)
    with pytest.raises(ValueError, match="the loss is nan after epoch 1: lower learning_rate"):
        fit_cbm(*TRAIN, CONCEPTS, CLASSES, learning_rate=1e30)
    with pytest.raises(ValueError, match="recipe must be one of adamw, koh, not 'adam'"):
        fit("joint", recipe="adam", epochs=1)
    model = fit("joint", epochs=1)
    with pytest.raises(ValueError, match="embed the images with its backbone first"):
        model.explain(torch.zeros(2, 3, 4, 4, dtype=torch.uint8))
    message = r"known is \(3, 6\), but 200 images and 6 concepts need \(200, 6\)"
    with pytest.raises(ValueError, match=message):
        model.explain(TEST[0], torch.zeros(3, L))
    with pytest.raises(ValueError, match="known must be 0, 1 or NaN, but row 0, concept 0 is 0.4"):
        model.explain(TEST[0], torch.full((200, L), 0.4))


def test_explain_by_hand():
    model = ConceptBottleneck(
        torch.tensor([1.0]),
        torch.tensor([2.0]),
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([0.0, 0.0]),
        torch.tensor([[2.0, 0.0], [0.0, 4.0]]),
        torch.tensor([0.0, 1.0]),
        ["p", "q"],
        ["x", "y"],
    )
    shown = model.explain(torch.tensor([[1.0], [1e6]]))  # p: sigmoid(0) and 1; q: 0.5 always
    assert shown.values.tolist() == [[0.5, 0.5], [1.0, 0.5]]
    assert shown.logits.tolist() == [[1, 3], [2, 3]] and shown.contributions.tolist() == [[0, 2], [0, 2]]
    corrected = model.explain(torch.tensor([[1.0]]), torch.tensor([[1.0, 0.0]]))
    assert corrected.logits.tolist() == [[2, 1]] and corrected.contributions.tolist() == [[2, 0]]
    assert F.softmax(corrected.logits, 1).argmax() == 0
