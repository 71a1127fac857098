"""Trained bottlenecks, CBM and CEM: they learn what was planted and believe a person who corrects them."""

import dataclasses

import pytest
import torch
from torch import nn
from toy_concepts import L, accuracy, toy_dataset

from xaihelpers.bottlenecks import (
    ConceptBottleneck,
    ConceptEmbeddingModel,
    fit_cbm,
    fit_cem,
    fit_head,
    networks,
)
from xaihelpers.bottlenecks.cem import pairs_and_scores

FITS = {
    "joint": (fit_cbm, {"kind": "joint", "hidden": 16}),
    "independent": (fit_cbm, {"kind": "independent", "hidden": 16}),
    "sequential": (fit_cbm, {"kind": "sequential", "hidden": 16}),
    "per concept": (fit_cbm, {"kind": "independent", "per_concept": True, "hidden": 8}),
    "cem": (fit_cem, {}),
}


def fit(name, dataset, **changed):
    function, settings = FITS[name]
    return function(dataset, **{"epochs": 30, "learning_rate": 0.01} | settings | changed)


@pytest.mark.parametrize("name", ["joint", "per concept", "cem"])
def test_it_learns_and_corrections_raise_accuracy(name):
    """With features so noisy that concepts are often wrong, in training as well."""
    dataset = toy_dataset()
    test = ~dataset.train
    shown = fit(name, dataset).explain(dataset.pooled[test])
    assert ((shown.values > 0.5) == dataset.present[test].bool()).float().mean(0).min() > 0.95
    dataset.pooled += torch.randn(dataset.pooled.shape, generator=torch.Generator().manual_seed(1))
    features, present, labels = dataset.pooled[test], dataset.present[test], dataset.labels[test]
    model = fit(name, dataset, epochs=60)
    shown = model.explain(features)
    total = shown.contributions.sum(1) + model.class_bias[shown.predictions]
    torch.testing.assert_close(total, shown.logits.amax(1), atol=1e-4, rtol=1e-4)
    none = torch.full_like(present, torch.nan)
    first = torch.where(torch.arange(L) < 1, present, none)
    accuracies = [accuracy(model.explain(features, known), labels) for known in (none, first, present)]
    assert accuracies[0] < 0.8 and accuracies[0] < accuracies[1] < accuracies[2]
    # embeddings carry the features' noise past the correction
    assert accuracies[2] > (0.93 if name != "cem" else accuracies[0] + 0.05)
    # a person who says the opposite is believed, too
    wrong = torch.where(torch.arange(L) < 2, 1 - present, none)
    expected = 0.05 if name != "cem" else accuracies[0] - 0.2
    assert accuracy(model.explain(features, wrong), labels) < expected


def test_heads_of_the_three_kinds():
    dataset = toy_dataset()
    features, present, labels = (
        part[dataset.train] for part in (dataset.pooled, dataset.present, dataset.labels)
    )
    independent, sequential = fit("independent", dataset), fit("sequential", dataset)
    # the concepts know nothing of the head
    assert torch.equal(independent.concept_weights, sequential.concept_weights)
    torch.testing.assert_close(independent.class_weights, fit_head(present, labels, 4)[0])
    values = sequential.explain(features).values
    torch.testing.assert_close(sequential.class_weights, fit_head(values, labels, 4)[0])
    # a joint model's concepts do feel the classes
    shuffled = dataclasses.replace(dataset, labels=dataset.labels.flip(0))
    assert torch.equal(fit("independent", shuffled).concept_weights, independent.concept_weights)
    assert not torch.equal(fit("joint", shuffled).concept_weights, fit("joint", dataset).concept_weights)
    # other labels of one concept change its own network alone
    other = dataset.present.clone()
    other[:, 2] = 1 - other[:, 2]
    before = fit("per concept", dataset).explain(features).values
    after = fit("per concept", dataclasses.replace(dataset, present=other)).explain(features).values
    assert (before != after).any(0).tolist() == [j == 2 for j in range(L)]


def test_both_by_hand():
    fields = {"mean": [1.0], "std": [2.0], "class_bias": [0.0, 1.0], "concept_bias": [0.0, 0.0]}
    fields |= {"concept_weights": [[1.0, 0.0]], "class_weights": [[2.0, 0.0], [0.0, 4.0]]}
    fields = {name: torch.tensor(values) for name, values in fields.items()}
    model = ConceptBottleneck(**fields, concepts=["p", "q"], classes=["x", "y"])
    shown = model.explain(torch.tensor([[1.0], [1e6]]))  # p: sigmoid(0) and 1; q: 0.5 always
    assert shown.values.tolist() == [[0.5, 0.5], [1.0, 0.5]]
    assert shown.logits.tolist() == [[1, 3], [2, 3]] and shown.contributions.tolist() == [[0, 2], [0, 2]]
    corrected = model.explain(torch.tensor([[1.0]]), torch.tensor([[1.0, 0.0]]))
    assert corrected.logits.tolist() == [[2, 1]] and corrected.contributions.tolist() == [[2, 0]]
    fields = {"mean": [1.0], "std": [2.0], "class_bias": [0.0, 0.25], "score_bias": 0.0}
    fields |= {"pair_weights": [[[[1.0], [-1.0]]]], "pair_bias": [[[0.5], [0.0]]]}
    fields |= {"score_weights": [[1.0], [10.0]], "class_weights": [[[1.0, -1.0]]]}
    fields = {name: torch.tensor(values) for name, values in fields.items()}
    embeddings = ConceptEmbeddingModel(**fields, concepts=["p"], classes=["x", "y"])
    pairs, scores = pairs_and_scores(torch.tensor([[5.0]]), embeddings)  # standardised 2: (2.5, leaky −2)
    torch.testing.assert_close(pairs, torch.tensor([[[[2.5], [-0.02]]]]))
    torch.testing.assert_close(scores, torch.tensor([[2.3]]))
    # a person says that it is absent: the embedding is −0.02
    shown = embeddings.explain(torch.tensor([[5.0]]), torch.tensor([[0.0]]))
    torch.testing.assert_close(shown.logits, torch.tensor([[-0.02, 0.27]]))
    torch.testing.assert_close(shown.contributions, torch.tensor([[0.02]]))
    assert shown.class_weights is None


# From pixels


class Squares(nn.Module):
    """A network for pictures in which each concept is a bright square at its own place."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.maps = nn.Conv2d(3, 8, 4, stride=4)

    def forward(self, pixels):
        return self.maps(pixels.float() / 255).relu().flatten(1)  # (B, 8 · 1 · 6)


def pictures():
    """700 pictures, left and right alike: what is mirrored has the same labels."""
    present = toy_dataset().present
    present = torch.cat([present[:, :3], present[:, :3].flip(1)], 1)
    bright = present.repeat_interleave(4, 1)[:, None, None].expand(-1, 3, 4, 4 * L)
    pixels = 40 + 150 * bright + 10 * torch.randn(bright.shape, generator=torch.Generator().manual_seed(0))
    pixels, labels = pixels.clamp(0, 255).to(torch.uint8), (2 * present[:, 0] + present[:, 1]).long()
    return toy_dataset(present=present, truth=present, labels=labels, pixels=pixels, trunk=Squares)


def test_from_pixels():
    dataset = pictures()
    test = ~dataset.train
    model = fit("per concept", dataset, epochs=20, learning_rate=0.03)
    shown = model.explain(dataset.pixels[test])
    assert accuracy(shown, dataset.labels[test]) > 0.95
    assert ((shown.values > 0.5) == dataset.present[test].bool()).float().mean() > 0.97
    assert len(model.trunks) == L
    assert not any(torch.equal(trunk.maps.weight, Squares().maps.weight) for trunk in model.trunks)
    torch.testing.assert_close(model.explain(model.encode(dataset.pixels[test])).logits, shown.logits)


def test_a_training_from_pixels_that_was_killed_goes_on(tmp_path, monkeypatch):
    """It ends where a whole run ends, bit for bit; a state that was cut off begins anew.

    With two epochs for each concept the fifth state is of the third network, where the run is killed.
    """
    dataset = pictures()
    whole = fit("per concept", dataset, epochs=2).explain(dataset.pixels[:20]).values
    keep, kept = networks.save_checkpoint, []

    def killed(state, file):
        keep(state, file)
        kept.append(file)
        if len(kept) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(networks, "save_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        fit("per concept", dataset, epochs=2, checkpoints=tmp_path)
    resumed = fit("per concept", dataset, epochs=2, checkpoints=tmp_path)
    assert len(kept) == 2 * L  # none is trained twice
    assert torch.equal(resumed.explain(dataset.pixels[:20]).values, whole)
    kept[0].write_bytes(kept[0].read_bytes()[:200])
    anew = fit("per concept", dataset, epochs=2, checkpoints=tmp_path)
    assert len(kept) == 2 * L + 2 and torch.equal(anew.explain(dataset.pixels[:20]).values, whole)


def test_rare_concepts_weigh_more_by_the_published_recipe():
    rare = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert networks.rarity(rare, "koh").tolist() == [3, 3] and networks.rarity(rare, "adamw") is None
    assert networks.rarity(torch.zeros(4, 1), "koh").tolist() == [3]  # none: as one of them


def test_bad_input():
    dataset = toy_dataset()
    with pytest.raises(ValueError, match="the loss is nan after epoch 1: lower learning_rate"):
        fit_cbm(dataset, learning_rate=1e30)
    with pytest.raises(ValueError, match="recipe must be one of adamw, koh, not 'adam'"):
        fit_cem(dataset, recipe="adam")
