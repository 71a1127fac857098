"""The label-free bottleneck: its filters one by one, its similarity by hand, and planted concepts to find."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from toy_concepts import CONCEPTS, TEXTS, L, N, toy_dataset

from xaihelpers.bottlenecks import cubed_similarity, elastic_net_head, filter_concepts, fit_labelfree_cbm

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
    kept, dropped = filter_concepts(concepts, classes, embed_text)
    assert kept == ["blue wing", "black bill"]
    assert dropped == {
        "azure wing": "too similar to the concept 'blue wing' (cosine 0.99 > 0.9)",
        "like a jay": "too similar to the class 'jay' (cosine 0.95 > 0.85)",
        "a bill that is black as coal in the night": "41 letters, more than 30",
    }
    kept, _ = filter_concepts(concepts[::-1], classes, embed_text)
    assert kept == ["black bill", "azure wing"]  # of two the earlier stays
    for some, message in (
        (["like a jay"], "none of 1 concepts is left .* 'like a jay', is dropped as too similar"),
        (concepts[-1:], "none of 1 concepts is left .* 41 letters, more than 30"),
        ([], "the list of concepts is empty"),
        (["blue wing", "black bill", "Blue  wing"], "'Blue  wing' stands twice, at places 0 and 2"),
    ):
        with pytest.raises(ValueError, match=message):
            filter_concepts(some, ["jay"], embed_text)


def test_similarity_by_hand():
    values = torch.tensor([[0.0], [0.0], [0.0], [4.0]])  # standardised: three times −1/√3, once √3
    target = torch.tensor([[0.0], [0.0], [1.0], [1.0]])  # standardised: −1, −1, 1, 1
    a, b = -(3**-0.5), 3**0.5
    cubes = torch.tensor([a**3, a**3, a**3, b**3])
    expected = (cubes @ torch.tensor([-1.0, -1, 1, 1]) / (cubes.norm() * 2)).item()
    assert cubed_similarity(values, target).item() == pytest.approx(expected, abs=1e-6)
    assert cubed_similarity(values, -values).item() == pytest.approx(-1)
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


def test_it_finds_what_was_planted():
    dataset = planted()
    train, test = dataset.train, ~dataset.train
    model, dropped = fit_labelfree_cbm(dataset)
    assert model.concepts == [name for j, name in enumerate(CONCEPTS) if j not in (3, 5)]
    assert "not detected: mean of the five strongest activations 0." in dropped["concept 3"]
    assert "not learnt: similarity" in dropped["concept 5"] and len(dropped) == 2
    shown = model.explain(dataset.pooled[test])
    assert shown.accuracy(dataset.labels[test]) > 0.9 and (model.similarity > 0.45).all()
    for place, name in enumerate(model.concepts):
        has_concept = dataset.present[test, CONCEPTS.index(name)].bool()
        low, high = shown.values[~has_concept, place], shown.values[has_concept, place]
        assert (high[:, None] > low[None]).float().mean() > 0.95, name  # area under the ROC curve
    # values are standardised on the training images, and the sparse head is fitted on these
    values = model.explain(dataset.pooled[train]).values
    torch.testing.assert_close(values.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(values.std(0), torch.ones(4), atol=1e-4, rtol=0)
    weights, _ = elastic_net_head(values, dataset.labels[train], 4, 7e-4)
    torch.testing.assert_close(weights.float(), model.class_weights, atol=1e-3, rtol=0)
    total = shown.contributions.sum(1) + model.class_bias[shown.predictions]
    torch.testing.assert_close(total, shown.logits.amax(1), atol=1e-4, rtol=1e-4)
    other, _ = fit_labelfree_cbm(dataset, seed=1)
    assert not torch.equal(other.projection, model.projection)


def test_bad_input():
    dataset = planted()
    message = r"CLIP detects none of 6 concepts: the strongest, 'concept \d', reaches 0.\d\d\d. "
    with pytest.raises(ValueError, match=message + r"Lower top_activation \(now 0.999\)"):
        fit_labelfree_cbm(dataset, top_activation=0.999)
    message = r"none of the 5 concepts .* is learnt .* the nearest, 'concept \d', reaches a similarity of "
    with pytest.raises(ValueError, match=message + r"0.8\d\d. Lower similarity \(now 0.9999\)"):
        fit_labelfree_cbm(dataset, similarity=0.9999)
    with pytest.raises(ValueError, match="labels run from 0 to 3, but there are 3 classes"):
        fit_labelfree_cbm(dataclasses.replace(dataset, classes=list("abc")))
    with pytest.raises(ValueError, match="9 training images are too few"):
        fit_labelfree_cbm(dataclasses.replace(dataset, train=torch.arange(N) < 9))
    dataset.pooled[7, 2] = torch.inf
    with pytest.raises(ValueError, match="features of 1 images are NaN or infinite, the first in row 7"):
        fit_labelfree_cbm(dataset)
