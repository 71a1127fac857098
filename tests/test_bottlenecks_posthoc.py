"""Bottlenecks that are linear in frozen features, post hoc and label-free: they find what was planted."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from toy_concepts import CLASSES, CONCEPTS, TEXTS, L, N, accuracy, toy_dataset

from xaihelpers.bottlenecks import (
    PosthocCBM,
    concept_samples,
    cubed_similarity,
    elastic_net_head,
    filter_concepts,
    fit_labelfree_cbm,
    fit_posthoc_cbm,
)
from xaihelpers.bottlenecks.head import intervene, value_range

# Examples of concepts

PRESENT = (
    torch.rand(200, 6, generator=torch.Generator().manual_seed(0))
    < torch.tensor([0.5, 0.5, 0.04, 0.3, 0.97, 0.5])
).float()


def test_samples():
    drawn = concept_samples(PRESENT, 20, seed=3)
    assert drawn.kept == [0, 1, 3, 5] and drawn.dropped == [2, 4]
    assert drawn.labels.tolist() == [1.0] * 20 + [-1.0] * 20
    for j, rows in zip(drawn.kept, drawn.rows, strict=True):
        assert len(rows.unique()) == 40  # without replacement
        assert PRESENT[rows, j].tolist() == [1.0] * 20 + [0.0] * 20
    with pytest.raises(ValueError, match="no concept has 101 positive and 101 negative examples among 200"):
        concept_samples(PRESENT, 101)
    with pytest.raises(ValueError, match="concept labels must be 0 or 1"):
        concept_samples(torch.full((9, 2), 0.5), 5)


# The post-hoc bottleneck


@pytest.mark.parametrize("margin", [False, True])
def test_a_posthoc_cbm_finds_what_was_planted(margin):
    """The last concept is present in too few images."""
    data = toy_dataset()
    test, truth = ~data.train, data.truth[~data.train, :5]
    data.present = data.present.clone()
    data.present[20:600, 5] = 0
    model = fit_posthoc_cbm(data, svm_c=0.1, margin=margin)
    assert model.concepts == CONCEPTS[:5]
    assert (F.cosine_similarity(model.bank, TEXTS[:5]) > 0.95).all()
    shown = model.explain(data.pooled[test])
    assert accuracy(shown, data.labels[test]) > 0.97
    limits = 0 if margin else shown.thresholds
    assert ((shown.values > limits) == truth.bool()).float().mean(0).min() > 0.97
    # the head needs no others
    assert model.class_weights[:2].abs().min() > 5 * model.class_weights[2:].abs().max()
    total = shown.contributions.sum(1) + model.class_bias[shown.predictions]
    torch.testing.assert_close(total, shown.logits.amax(1), atol=1e-4, rtol=1e-4)


def test_explain_by_hand():
    bank = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    head = {"class_weights": torch.tensor([[1.0, 0.0], [-1.0, 2.0]]), "class_bias": torch.tensor([0.5, 0.0])}
    head |= {"low": torch.zeros(2), "high": torch.ones(2), "concepts": ["p", "q"], "classes": ["x", "y"]}
    model = PosthocCBM(bank=bank, shift=torch.zeros(2), scale=torch.ones(2), **head)
    shown = model.explain(torch.tensor([[1.0, 2.0], [2.0, 0.0]]))
    assert shown.values.tolist() == [[11, 4], [6, 0]]
    assert shown.logits.tolist() == [[7.5, 8], [6.5, 0]]
    assert shown.contributions.tolist() == [[0, 8], [6, 0]]  # of y to the first image, of x to the second
    margin = dataclasses.replace(model, shift=torch.tensor([-5.0, 2.0]), scale=torch.tensor([5.0, 2.0]))
    assert margin.explain(torch.tensor([[1.0, 2.0]])).values[0].tolist() == pytest.approx([3.2, 1.0])


# What a person says


def test_what_absent_and_present_mean():
    """The centres of two clusters, which are found without labels."""
    # present in 4 of 100, so above the 95th percentile
    rare = torch.tensor([0.0, 1, 0, 1] * 24 + [9, 9, 11, 11])[:, None]
    low, high = value_range(rare)
    assert low.item() == pytest.approx(0.5) and high.item() == pytest.approx(10)
    low, high = value_range(torch.full((20, 2), 3.0))
    assert low.tolist() == high.tolist() == [3, 3]


def test_corrections_by_hand():
    values = torch.tensor([[0.0, 5.0, 2.0], [7.0, -3.0, 2.0]])
    known = torch.tensor([[1.0, 0.0, torch.nan], [1.0, 0.0, torch.nan]])
    low, high = torch.tensor([-1.0, 0.0, -9.0]), torch.tensor([4.0, 6.0, 9.0])
    # what says so more clearly already stays: 7 is above 4, −3 below 0
    assert intervene(values, known, low, high).tolist() == [[4, 0, 2], [7, -3, 2]]
    for wrong in (known[:1], 3 * known):
        with pytest.raises(ValueError, match=r"known must be 0, 1 or NaN .*, of shape \(2, 3\)"):
            intervene(values, wrong, low, high)


# The label-free bottleneck

DIRECTIONS = {
    "jay": (1, 0, 0, 0),
    "crow": (0, 1, 0, 0),
    "blue wing": (0.5, 0, 0.866, 0),
    "azure wing": (0.48, 0, 0.87, 0.1),
    "like a jay": (0.95, 0, 0.3, 0),
    "black bill": (0, 0.3, 0, 0.95),
    "a bill that is black as coal in the night": (0, 0.3, 0, 0.95),
}


def embed_text(texts):
    return F.normalize(torch.tensor([DIRECTIONS[text] for text in texts], dtype=torch.float32), dim=1)


def test_filters():
    concepts, classes = list(DIRECTIONS)[2:], ["jay", "crow"]
    assert filter_concepts(concepts, classes, embed_text) == ["blue wing", "black bill"]
    # of two the earlier stays
    assert filter_concepts(concepts[::-1], classes, embed_text) == ["black bill", "azure wing"]
    for some in (["like a jay"], concepts[-1:]):
        with pytest.raises(ValueError, match="none of 1 concepts is left.*give other concepts"):
            filter_concepts(some, ["jay"], embed_text)


def test_similarity_by_hand():
    values = torch.tensor([[0.0], [0.0], [0.0], [4.0]])  # standardised: three times −1/√3, once √3
    target = torch.tensor([[0.0], [0.0], [1.0], [1.0]])  # standardised: −1, −1, 1, 1
    a, b = -(3**-0.5), 3**0.5
    cubes = torch.tensor([a**3, a**3, a**3, b**3])
    expected = (cubes @ torch.tensor([-1.0, -1, 1, 1]) / (cubes.norm() * 2)).item()
    assert cubed_similarity(values, target).item() == pytest.approx(expected, abs=1e-6)
    moved = cubed_similarity(5 * values - 3, 0.1 * target + 7)  # neither scale nor zero counts
    assert moved.item() == pytest.approx(expected, abs=1e-5)


def planted():
    """The toy data, but CLIP does not see concept 3, and the features do not hold concept 5."""
    dataset, generator = toy_dataset(), torch.Generator().manual_seed(5)
    seen, known = dataset.present.clone(), dataset.present.clone()
    seen[:, 3], known[:, 5] = 0, torch.rand(N, generator=generator)
    images = seen @ TEXTS[:L] + TEXTS[L] + 0.05 * torch.randn(N, 16, generator=generator)
    pooled = 2 * known @ TEXTS[:L] + 0.2 * torch.randn(N, 16, generator=generator)
    return dataclasses.replace(dataset, image_embeddings=F.normalize(images, dim=1), pooled=pooled)


def test_a_labelfree_cbm_finds_what_was_planted():
    dataset = planted()
    train, test = dataset.train, ~dataset.train
    model = fit_labelfree_cbm(dataset)
    assert model.concepts == [name for j, name in enumerate(CONCEPTS) if j not in (3, 5)]
    shown = model.explain(dataset.pooled[test])
    assert accuracy(shown, dataset.labels[test]) > 0.9
    for place, name in enumerate(model.concepts):
        has_concept = dataset.present[test, CONCEPTS.index(name)].bool()
        low, high = shown.values[~has_concept, place], shown.values[has_concept, place]
        assert (high[:, None] > low[None]).float().mean() > 0.95, name  # area under the ROC curve
    # values are standardised on the training images, and the sparse head is fitted on these
    values = model.explain(dataset.pooled[train]).values
    torch.testing.assert_close(values.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(values.std(0), torch.ones(4), atol=1e-4, rtol=0)
    weights, _ = elastic_net_head(values, dataset.labels[train], len(CLASSES), 7e-4)
    torch.testing.assert_close(weights.float(), model.class_weights, atol=1e-3, rtol=0)


def test_where_no_concept_is_left_the_parameter_is_named():
    message = r"none of 5 concepts .* is learnt .* the nearest, 'concept \d', reaches 0.8\d\d. "
    with pytest.raises(ValueError, match=message + r"Lower similarity \(now 0.9999\)"):
        fit_labelfree_cbm(planted(), similarity=0.9999)
