"""The post-hoc bottleneck: examples drawn as they should be, outputs that add up, and its other forms."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from toy_concepts import CLASSES, CONCEPTS, TEXTS, embed_texts, toy_dataset

from xaihelpers.bottlenecks import (
    PosthocCBM,
    add_residual,
    concept_samples,
    concept_values,
    fit_head,
    fit_posthoc_cbm,
    posthoc_cbm_from_text,
)

# Examples of concepts

PRESENT = (
    torch.rand(200, 6, generator=torch.Generator().manual_seed(0))
    < torch.tensor([0.5, 0.5, 0.04, 0.3, 0.97, 0.5])
).float()


def test_samples():
    drawn = concept_samples(PRESENT, 20, seed=3)
    few, many = int(PRESENT[:, 2].sum()), int(PRESENT[:, 4].sum())
    assert few < 20 and 200 - many < 20
    assert drawn.kept == [0, 1, 3, 5] and drawn.dropped == {2: (few, 200 - few), 4: (many, 200 - many)}
    assert drawn.rows.shape == (4, 40) and drawn.labels.tolist() == [1.0] * 20 + [-1.0] * 20
    for j, rows in zip(drawn.kept, drawn.rows, strict=True):
        assert len(rows.unique()) == 40  # without replacement
        assert PRESENT[rows, j].tolist() == [1.0] * 20 + [0.0] * 20
    assert torch.equal(drawn.rows, concept_samples(PRESENT, 20, seed=3).rows)
    assert not torch.equal(drawn.rows, concept_samples(PRESENT, 20, seed=4).rows)
    assert torch.equal(drawn.rows, concept_samples(PRESENT.bool(), 20, seed=3).rows)


def test_no_concept_left_and_soft_labels():
    with pytest.raises(ValueError, match="no concept has 101 positive and 101 negative examples among 200"):
        concept_samples(PRESENT, 101)
    present = PRESENT.clone()
    present[7, 3] = 0.5
    with pytest.raises(ValueError, match="must be 0 or 1, but row 7, concept 3 is"):
        concept_samples(present, 5)


# The whole bottleneck


@pytest.mark.parametrize("margin", [False, True])
def test_posthoc_cbm_finds_what_was_planted(margin):
    """The last concept is present in too few images."""
    data = toy_dataset()
    present, train, rest = data.present.clone(), slice(0, 600), slice(600, None)
    present[20:600, 5] = 0
    learnt_from = data.pooled[train], present[train], data.labels[train], CONCEPTS, CLASSES
    model, samples = fit_posthoc_cbm(*learnt_from, n=50, svm_c=0.1, margin=margin)
    assert model.concepts == CONCEPTS[:5] and samples.kept == [0, 1, 2, 3, 4] and list(samples.dropped) == [5]
    assert (F.cosine_similarity(model.bank, TEXTS[:5]) > 0.95).all()
    shown = model.explain(data.pooled[rest])
    assert shown.accuracy(data.labels[rest]) > 0.97
    decisions = concept_values(data.pooled[rest], model.bank, model.intercepts, margin=True) > 0
    assert (decisions == data.truth[rest, :5].bool()).float().mean(0).min() > 0.97
    # the head needs no others
    assert model.class_weights[:2].abs().min() > 5 * model.class_weights[2:].abs().max()
    total = shown.contributions.sum(1) + model.class_bias[shown.predictions]
    torch.testing.assert_close(total, shown.logits.amax(1), atol=1e-4, rtol=1e-4)


def test_features_that_are_no_numbers_or_elsewhere():
    data = toy_dataset()
    given = data.present, data.labels, CONCEPTS, CLASSES, 50
    model, _ = fit_posthoc_cbm(data.pooled, *given)
    broken = data.pooled.clone()
    broken[[17, 30], 3] = torch.nan
    with pytest.raises(ValueError, match="features of 2 images are NaN or infinite, the first in row 17"):
        fit_posthoc_cbm(broken, *given)
    message = "values has 12 values that are NaN or infinite, the first in row 17, 'concept 0'"
    with pytest.raises(ValueError, match=message):
        model.explain(broken)
    with pytest.raises(ValueError, match="tensors on different devices: pooled on meta, present on cpu"):
        fit_posthoc_cbm(data.pooled.to("meta"), *given)
    with pytest.raises(ValueError, match="pooled on meta, bank on cpu"):
        model.explain(data.pooled.to("meta"))


def test_explain_by_hand():
    model = PosthocCBM(
        torch.tensor([[3.0, 4.0], [0.0, 2.0]]),
        torch.tensor([5.0, -2.0]),
        torch.tensor([[1.0, 0.0], [-1.0, 2.0]]),
        torch.tensor([0.5, 0.0]),
        False,
        ["p", "q"],
        ["x", "y"],
    )
    shown = model.explain(torch.tensor([[1.0, 2.0], [2.0, 0.0]]))
    assert shown.values.tolist() == [[11, 4], [6, 0]]
    assert shown.logits.tolist() == [[7.5, 8], [6.5, 0]]
    assert shown.contributions.tolist() == [[0, 8], [6, 0]]  # of y to the first image, of x to the second
    model.margin = True  # ‖c‖ is 5 and 2: (11 + 5)/5, (4 - 2)/2
    assert model.explain(torch.tensor([[1.0, 2.0]])).values[0].tolist() == pytest.approx([3.2, 1.0])


# Its other forms


def test_texts_as_concept_vectors():
    data = toy_dataset()
    images, labels = data.image_embeddings[:200], data.labels[:200]
    model = posthoc_cbm_from_text(images, embed_texts(CONCEPTS), labels, CONCEPTS, CLASSES)
    shown = model.explain(data.image_embeddings[200:])
    torch.testing.assert_close(shown.values, data.image_embeddings[200:] @ embed_texts(CONCEPTS).T)
    assert shown.accuracy(data.labels[200:]) > 0.95
    message = r"text_embeddings is \(6, 15\), but 6 concepts and image embeddings of 16 need \(6, 16\)"
    with pytest.raises(ValueError, match=message):
        posthoc_cbm_from_text(images, embed_texts(CONCEPTS)[:, :15], labels, CONCEPTS, CLASSES)
    with pytest.raises(ValueError, match="the list of concepts is empty"):
        posthoc_cbm_from_text(images, embed_texts(CONCEPTS)[:0], labels, [], CLASSES)


def test_the_residual_does_not_hang_on_the_last_bits():
    """At its optimum another rounding of the features, as by another processor, changes next to nothing."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(300, 60, generator=generator) @ torch.randn(60, 60, generator=generator)
    labels = torch.randint(8, (300,), generator=generator)
    given = torch.randn(300, 8, generator=generator)
    rounded = features * (1 + 1e-7 * torch.randn(features.shape, generator=generator))
    first, again = (fit_head(some, labels, 8, 1e-3, offset=given)[0] for some in (features, rounded))
    assert (first - again).norm() < 1e-4 * first.norm()


def test_the_residual_adds_what_the_concepts_lack():
    """The class is concept 0 and a direction in the features that no concept knows."""
    generator = torch.Generator().manual_seed(0)
    present, hidden = (torch.rand(2, 400, 1, generator=generator) < 0.5).float()
    labels = (2 * present + hidden)[:, 0].long()
    noise = 0.2 * torch.randn(400, 16, generator=generator)
    features = torch.cat([2 * present - 1, 2 * hidden - 1], 1) @ TEXTS[:2] + noise
    bare, _ = fit_posthoc_cbm(features[:300], present[:300], labels[:300], ["known"], CLASSES, n=50)
    bare.bank -= (bare.bank @ TEXTS[1])[:, None] * TEXTS[1]  # not even by chance
    full = add_residual(bare, features[:300], labels[:300])
    before, after = bare.explain(features[300:]), full.explain(features[300:])
    assert before.accuracy(labels[300:]) < 0.65 and after.accuracy(labels[300:]) > 0.97
    assert torch.equal(full.class_weights, bare.class_weights) and bare.residual_weights is None
    assert torch.equal(after.values, before.values)
    added = features[300:] @ full.residual_weights + full.residual_bias
    torch.testing.assert_close(after.logits, before.logits + added)
    again = add_residual(full, features[:300], labels[:300])  # in place of the old residual, not on top of it
    torch.testing.assert_close(again.residual_weights, full.residual_weights)


def test_corrections_of_the_posthoc_bottleneck():
    data = toy_dataset()
    present = data.present[:200]
    model, _ = fit_posthoc_cbm(data.pooled[:200], present, data.labels[:200], CONCEPTS, CLASSES, n=50)
    values = model.explain(data.pooled[:200]).values
    # the two clusters are found without their labels
    high, low = ((values * share).sum(0) / share.sum(0) for share in (present, 1 - present))
    torch.testing.assert_close(model.high, high, rtol=0, atol=0.02)
    torch.testing.assert_close(model.low, low, rtol=0, atol=0.02)
    noisy = data.pooled[200:] + torch.randn(500, 16, generator=torch.Generator().manual_seed(1))
    before, after = model.explain(noisy), model.explain(noisy, data.truth[200:])
    assert before.accuracy(data.labels[200:]) < 0.9 < after.accuracy(data.labels[200:])
    raised, lowered = before.values.maximum(model.high), before.values.minimum(model.low)
    expected = torch.where(data.truth[200:] == 1, raised, lowered)
    assert torch.equal(after.values, expected)
    with pytest.raises(ValueError, match="has no range of training values"):
        dataclasses.replace(model, low=None).explain(noisy, data.truth[200:])
