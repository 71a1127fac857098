"""The label-free bottleneck: its filters one by one, its similarity by hand, and planted concepts to find."""

import pytest
import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks import cubed_similarity, elastic_net_path, filter_concepts, fit_labelfree_cbm

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
    assert dropped["azure wing"] == "too similar to the concept 'blue wing' (cosine 0.99 > 0.9)"
    assert dropped["like a jay"] == "too similar to the class 'jay' (cosine 0.95 > 0.85)"
    assert dropped["a bill that is black as coal in the night"] == "41 letters, more than 30"
    assert len(dropped) == 3
    wider = {"max_length": 50, "class_cutoff": 0.99, "other_cutoff": 0.9999}
    kept, _ = filter_concepts(concepts, classes, embed_text, **wider)
    assert kept == concepts[:4]  # the last is the fourth again
    kept, _ = filter_concepts(concepts[::-1], classes, embed_text)
    assert kept == ["black bill", "azure wing"]  # of two the earlier stays


def test_no_concept_is_left_by_the_filters():
    message = "none of 1 concepts is left by the filters; the first, 'like a jay', is dropped as too similar"
    with pytest.raises(ValueError, match=f"{message} to the class 'jay'.*raise"):
        filter_concepts(["like a jay"], ["jay"], embed_text)
    with pytest.raises(ValueError, match="none of 1 concepts is left .* letters, more than 5"):
        filter_concepts(["blue wing"], ["jay"], embed_text, max_length=5)
    with pytest.raises(ValueError, match="the list of concepts is empty"):
        filter_concepts([], ["jay"], embed_text)
    with pytest.raises(ValueError, match="'Blue  wing' stands twice, at places 0 and 2"):
        filter_concepts(["blue wing", "black bill", "Blue  wing"], ["jay"], embed_text)


def test_similarity_by_hand():
    values = torch.tensor([[0.0], [0.0], [0.0], [4.0]])  # standardised: three times −1/√3, once √3
    target = torch.tensor([[0.0], [0.0], [1.0], [1.0]])  # standardised: −1, −1, 1, 1
    a, b = -(3**-0.5), 3**0.5
    cubes = torch.tensor([a**3, a**3, a**3, b**3])
    expected = (cubes @ torch.tensor([-1.0, -1, 1, 1]) / (cubes.norm() * 2)).item()
    assert cubed_similarity(values, target).item() == pytest.approx(expected, abs=1e-6)
    assert cubed_similarity(values, values).item() == pytest.approx(1)
    assert cubed_similarity(values, -values).item() == pytest.approx(-1)
    moved = cubed_similarity(5 * values - 3, 0.1 * target + 7)  # neither scale nor zero counts
    assert moved.item() == pytest.approx(expected, abs=1e-5)


N, L = 600, 8
NAMES, CLASSES = [f"concept {j}" for j in range(L)], ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def planted():
    """Images of which CLIP sees seven of eight concepts; the features hold six of these.

    The first two decide the class.
    """
    generator = torch.Generator().manual_seed(0)
    present = (torch.rand(N, L, generator=generator) < 0.3).float()
    texts = torch.linalg.qr(torch.randn(24, L, generator=generator)).Q.T.contiguous()  # (L, 24) orthonormal
    seen = present.clone()
    seen[:, 3] = 0
    images = F.normalize(seen @ texts + 0.15 * torch.randn(N, 24, generator=generator), dim=1)
    known = present.clone()
    known[:, 5] = torch.rand(N, generator=generator)
    features = known @ torch.randn(L, 32, generator=generator) + 0.1 * torch.randn(N, 32, generator=generator)
    return features, images, texts, (2 * present[:, 0] + present[:, 1]).long(), present


@pytest.fixture(scope="module")
def fitted(planted):
    features, images, texts, labels, _ = planted
    first = features[:400], images[:400], texts, labels[:400], NAMES, CLASSES
    other, _ = fit_labelfree_cbm(*first, top_activation=0.5, seed=1)
    model, dropped = fit_labelfree_cbm(*first, top_activation=0.5)
    assert not torch.equal(other.projection, model.projection)
    return model, dropped


def test_it_finds_what_was_planted(planted, fitted):
    features, _, _, labels, present = planted
    model, dropped = fitted
    assert model.concepts == [name for j, name in enumerate(NAMES) if j not in (3, 5)]
    assert "not detected: mean of the five strongest activations 0." in dropped["concept 3"]
    assert "not learnt: similarity" in dropped["concept 5"] and len(dropped) == 2
    assert (model.similarity > 0.45).all()
    shown = model.explain(features[400:])
    assert shown.accuracy(labels[400:]) > 0.9
    for place, name in enumerate(model.concepts):
        has_concept = present[400:, NAMES.index(name)].bool()
        low, high = shown.values[~has_concept, place], shown.values[has_concept, place]
        assert (high[:, None] > low[None]).float().mean() > 0.95, name  # area under the ROC curve
    assert model.class_weights[:2].abs().max() > 3 * model.class_weights[2:].abs().max()


def test_outputs_add_up(planted, fitted):
    features, _, _, labels, _ = planted
    model, _ = fitted
    values = model.explain(features[:400]).values
    # standardised on the training images
    torch.testing.assert_close(values.mean(0), torch.zeros(6), atol=1e-4, rtol=0)
    torch.testing.assert_close(values.std(0), torch.ones(6), atol=1e-4, rtol=0)
    path = elastic_net_path(values, labels[:400], 4, [7e-4])
    torch.testing.assert_close(path.weights[0].float(), model.class_weights, atol=1e-3, rtol=0)
    assert (model.class_weights == 0).any()
    shown = model.explain(features[400:])
    total = shown.contributions.sum(1) + model.class_bias[shown.predictions]
    torch.testing.assert_close(total, shown.logits.amax(1), atol=1e-4, rtol=1e-4)


def test_no_concept_survives(planted):
    features, images, texts, labels, _ = planted
    parts = [features, images, texts, labels, NAMES, CLASSES]
    message = r"CLIP detects none of 8 concepts: the strongest, 'concept \d', reaches 0.\d\d\d. "
    with pytest.raises(ValueError, match=message + r"Lower top_activation \(now 0.999\)"):
        fit_labelfree_cbm(*parts, top_activation=0.999)
    message = r"none of the 7 concepts .* is learnt .* the nearest, 'concept \d', reaches a similarity of "
    with pytest.raises(ValueError, match=message + r"0.9\d\d. Lower similarity \(now 0.9999\)"):
        fit_labelfree_cbm(*parts, top_activation=0.5, similarity=0.9999)


def test_inputs_that_do_not_fit(planted):
    features, images, texts, labels, _ = planted
    with pytest.raises(ValueError, match="do not fit: as many rows"):
        fit_labelfree_cbm(features, images[:, :20], texts, labels, NAMES, CLASSES)
    with pytest.raises(ValueError, match="do not fit: as many rows"):
        fit_labelfree_cbm(features, images, texts[:5], labels, NAMES, CLASSES)
    with pytest.raises(ValueError, match="labels run from 0 to 3, but there are 3 classes"):
        fit_labelfree_cbm(features, images, texts, labels, NAMES, CLASSES[:3])
    broken = features.clone()
    broken[7, 2] = torch.inf
    with pytest.raises(ValueError, match="features of 1 images are NaN or infinite, the first in row 7"):
        fit_labelfree_cbm(broken, images, texts, labels, NAMES, CLASSES)
