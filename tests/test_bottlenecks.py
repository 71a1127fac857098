"""The post-hoc bottleneck: examples drawn as they should be, a head that is the optimum it claims to be, and outputs that add up."""
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from xaihelpers.bottlenecks import ConceptOutputs, PosthocCBM, concept_samples, concept_values, fit_head, fit_posthoc_cbm


def outputs(**changed):
    """Two images, three concepts, two classes."""
    parts = {"values": torch.zeros(2, 3), "contributions": torch.zeros(2, 3), "class_weights": torch.zeros(3, 2),
             "logits": torch.tensor([[0.0, 1.0], [2.0, 1.0]]), "concepts": ["red crown", "long bill", "black eye"], "classes": ["jay", "crow"]}
    return ConceptOutputs(**{**parts, **changed})


# ConceptOutputs

def test_outputs():
    assert outputs().predictions.tolist() == [1, 0]
    assert outputs().accuracy(torch.tensor([1, 1])) == 0.5
    assert outputs(class_weights=None).class_weights is None


@pytest.mark.parametrize("name, wrong, needed", [("contributions", (2, 2), r"\(2, 3\)"), ("class_weights", (2, 3), r"\(3, 2\)"), ("logits", (3, 2), r"\(2, 2\)"),
                                                 ("values", (2, 4), r"\(2, 3\)")])
def test_outputs_of_wrong_shape(name, wrong, needed):
    with pytest.raises(ValueError, match=f"{name} is .*2 images, 3 concepts and 2 classes need {needed}"):
        outputs(**{name: torch.zeros(wrong)})


@pytest.mark.parametrize("name, shape, place, named", [("values", (2, 3), (1, 2), "row 1, 'black eye'"), ("contributions", (2, 3), (0, 1), "row 0, 'long bill'"),
                                                       ("class_weights", (3, 2), (2, 0), "row 2, 'black eye'"), ("logits", (2, 2), (1, 0), "row 1, 'jay'")])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_outputs_that_are_no_numbers(name, shape, place, named, value):
    tensor = torch.zeros(shape)
    tensor[place] = value
    with pytest.raises(ValueError, match=f"{name} has 1 values that are NaN or infinite, the first in {named}"):
        outputs(**{name: tensor})


# Examples of concepts

PRESENT = (torch.rand(200, 6, generator=torch.Generator().manual_seed(0)) < torch.tensor([0.5, 0.5, 0.04, 0.3, 0.97, 0.5])).float()


def test_samples():
    drawn = concept_samples(PRESENT, 20, seed=3)
    few, many = int(PRESENT[:, 2].sum()), int(PRESENT[:, 4].sum())
    assert few < 20 and 200 - many < 20
    assert drawn.kept == [0, 1, 3, 5] and drawn.dropped == {2: (few, 200 - few), 4: (many, 200 - many)}
    assert drawn.rows.shape == (4, 40) and drawn.labels.tolist() == [1.0] * 20 + [-1.0] * 20
    for j, rows in zip(drawn.kept, drawn.rows):
        assert len(rows.unique()) == 40  # without replacement
        assert PRESENT[rows, j].tolist() == [1.0] * 20 + [0.0] * 20
    assert torch.equal(drawn.rows, concept_samples(PRESENT, 20, seed=3).rows)
    assert not torch.equal(drawn.rows, concept_samples(PRESENT, 20, seed=4).rows)
    assert torch.equal(drawn.rows, concept_samples(PRESENT.bool(), 20, seed=3).rows)


def test_draws_are_uniform():
    present = (torch.arange(40) < 20).float()[:, None]
    counts = sum(torch.bincount(concept_samples(present, 5, seed).rows[0], minlength=40) for seed in range(400))
    assert counts.min() > 65 and counts.max() < 135  # 100 each, sqrt(75) their spread


def test_one_concepts_lack_moves_no_other_draw():
    """Of two sizes at which different concepts are left out, a concept's smaller sample is the start of its larger one's sides."""
    twenty, two = concept_samples(PRESENT, 20, seed=3), concept_samples(PRESENT, 2, seed=3)
    assert two.kept == [0, 1, 2, 3, 4, 5]
    for place, j in enumerate(twenty.kept):
        assert torch.equal(two.rows[two.kept.index(j)], torch.cat([twenty.rows[place, :2], twenty.rows[place, 20:22]]))


def test_no_concept_left():
    with pytest.raises(ValueError, match="no concept has 101 positive and 101 negative examples among 200 images"):
        concept_samples(PRESENT, 101)


@pytest.mark.parametrize("value", [0.5, 2.0, torch.nan])
def test_soft_labels_are_no_examples(value):
    present = PRESENT.clone()
    present[7, 3] = value
    with pytest.raises(ValueError, match="must be 0 or 1, but row 7, concept 3 is"):
        concept_samples(present, 5)


# Concept values

def test_concept_values_by_hand():
    pooled, bank, intercepts = torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([5.0, -2.0])
    assert concept_values(pooled, bank, intercepts).tolist() == [[11, 4], [-4, -2]]
    # ‖c‖ is 5 and 2: (11 + 5)/5, (4 - 2)/2; (-4 + 5)/5, (-2 - 2)/2
    torch.testing.assert_close(concept_values(pooled, bank, intercepts, margin=True), torch.tensor([[3.2, 1.0], [0.2, -2.0]]))


@given(st.floats(0.01, 100))
def test_margin_does_not_depend_on_the_length_of_the_normal(scale):
    pooled, bank, intercepts = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)).unbind()
    intercepts = intercepts[:, 0]
    plain = concept_values(pooled, bank, intercepts)
    torch.testing.assert_close(concept_values(pooled, scale * bank, scale * intercepts), scale * plain)
    torch.testing.assert_close(concept_values(pooled, scale * bank, scale * intercepts, margin=True), concept_values(pooled, bank, intercepts, margin=True))


# The head

def toy(noise, n=120, n_concepts=5, n_classes=4):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(n) % n_classes
    centres = torch.randn(n_classes, n_concepts, generator=generator)
    return 3 + centres[labels] + noise * torch.randn(n, n_concepts, generator=generator), labels


def decide(values, head):
    return (values @ head[0] + head[1]).argmax(1)


def test_head_of_separable_classes():
    values, labels = toy(noise=0.1)
    weights, bias = fit_head(values, labels, 4)
    assert weights.shape == (5, 4) and bias.shape == (4,) and not weights.requires_grad
    assert torch.equal(decide(values, (weights, bias)), labels)


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("penalty", [1e-3, 0.1])
def test_head_is_the_optimum(noise, penalty):
    """The gradient of the penalised loss, in float64 and on standardised values, vanishes at the head, and does not at a head trained for another penalty."""
    values, labels = toy(noise)
    wide = values.double()
    mean, std = wide.mean(0), wide.std(0)

    def gradient(head):
        weights = (head[0].double() * std[:, None]).requires_grad_()
        bias = (head[1].double() + mean @ head[0].double()).requires_grad_()
        loss = F.cross_entropy((wide - mean) / std @ weights + bias, labels) + penalty / 2 * weights.square().sum()
        return max(g.abs().max().item() for g in torch.autograd.grad(loss, [weights, bias]))

    assert gradient(fit_head(values, labels, 4, penalty)) < 1e-4  # where float32 loses sight of the loss
    assert gradient(fit_head(values, labels, 4, 10 * penalty)) > 1e-3


@pytest.mark.parametrize("scale", [1000.0, 1e-3, 1e-15])
def test_head_does_not_depend_on_the_scale(scale):
    values, labels = toy(noise=2.0)
    weights, bias = fit_head(values, labels, 4)
    scaled = fit_head(values * scale, labels, 4)
    assert torch.equal(decide(values * scale, scaled), decide(values, (weights, bias)))
    torch.testing.assert_close(scaled[0] * scale, weights, rtol=0.01, atol=0.005)


@pytest.mark.parametrize("constant", [0.0, 0.1, 123.456, 1e12 / 3])
def test_constant_concept_gets_no_weight(constant):
    """Its mean in float32 is off by a rounding error, which must not be blown up to a feature."""
    values, labels = toy(noise=0.1, n=999)
    values[:, 2] = constant
    weights, bias = fit_head(values, labels, 4)
    assert weights[2].tolist() == [0.0] * 4 and weights[0].abs().max() > 0.1
    assert (decide(values, (weights, bias)) == labels).float().mean() > 0.99


def test_head_of_bad_input():
    values, labels = toy(noise=1.0)
    for bad in (torch.where(labels == 2, 4, labels), labels - 1):
        with pytest.raises(ValueError, match="labels run from .* but there are 4 classes"):
            fit_head(values, bad, 4)
    values[3, 1] = torch.nan
    values[5, 1] = torch.inf
    with pytest.raises(ValueError, match="2 NaN or infinite"):
        fit_head(values, labels, 4)


# The whole bottleneck

CONCEPTS, CLASSES = [f"concept {j}" for j in range(6)], ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def planted():
    """Features in which six concepts have directions of their own, the last present in too few images; the class is the first two concepts' pattern."""
    generator = torch.Generator().manual_seed(2)
    present = (torch.rand(400, 6, generator=generator) < torch.tensor([0.5, 0.5, 0.4, 0.6, 0.5, 0.02])).float()
    directions = torch.linalg.qr(torch.randn(16, 6, generator=generator)).Q.T  # (6, 16), orthonormal
    features = 2 * (present - 0.5) @ directions + 0.3 * torch.randn(400, 16, generator=generator)
    return features, present, (2 * present[:, 0] + present[:, 1]).long(), directions


@pytest.mark.parametrize("margin", [False, True])
def test_posthoc_cbm_finds_what_was_planted(planted, margin):
    features, present, labels, directions = planted
    model, samples = fit_posthoc_cbm(features[:300], present[:300], labels[:300], CONCEPTS, CLASSES, n=50, svm_c=0.1, margin=margin)
    assert model.concepts == CONCEPTS[:5] and samples.kept == [0, 1, 2, 3, 4] and list(samples.dropped) == [5]
    assert (F.cosine_similarity(model.bank, directions[:5]) > 0.95).all()
    shown = model.explain(features[300:])
    assert shown.accuracy(labels[300:]) > 0.97
    decisions = concept_values(features[300:], model.bank, model.intercepts, margin=True) > 0
    assert (decisions == present[300:, :5].bool()).float().mean(0).min() > 0.97
    assert model.class_weights[:2].abs().min() > 5 * model.class_weights[2:].abs().max()  # the head needs no others
    same, _ = fit_posthoc_cbm(features[:300], present[:300], labels[:300], CONCEPTS, CLASSES, n=50, svm_c=0.1, margin=margin)
    assert torch.equal(same.class_weights, model.class_weights)


@pytest.mark.parametrize("margin", [False, True])
def test_explanations_add_up(planted, margin):
    features, present, labels, _ = planted
    model, _ = fit_posthoc_cbm(features, present, labels, CONCEPTS, CLASSES, n=50, margin=margin)
    shown = model.explain(features)
    assert shown.concepts == model.concepts and shown.classes == CLASSES and shown.class_weights is model.class_weights
    torch.testing.assert_close(shown.values, concept_values(features, model.bank, model.intercepts, margin))
    torch.testing.assert_close(shown.logits, shown.values @ model.class_weights + model.class_bias)
    assert torch.equal(shown.predictions, shown.logits.argmax(1)) and len(shown.predictions.unique()) == 4
    torch.testing.assert_close(shown.contributions.sum(1), shown.logits.amax(1) - model.class_bias[shown.predictions], atol=1e-4, rtol=1e-4)
    one = model.explain(features[7:8])
    torch.testing.assert_close(one.contributions[0], shown.contributions[7])


def test_explain_by_hand():
    model = PosthocCBM(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([5.0, -2.0]), torch.tensor([[1.0, 0.0], [-1.0, 2.0]]),
                       torch.tensor([0.5, 0.0]), False, ["p", "q"], ["x", "y"])
    shown = model.explain(torch.tensor([[1.0, 2.0], [2.0, 0.0]]))
    assert shown.values.tolist() == [[11, 4], [6, 0]]
    assert shown.logits.tolist() == [[7.5, 8], [6.5, 0]]
    assert shown.contributions.tolist() == [[0, 8], [6, 0]]  # of y to the first image, of x to the second
    model.margin = True
    assert model.explain(torch.tensor([[1.0, 2.0]])).values[0].tolist() == pytest.approx([3.2, 1.0])


def test_features_that_are_no_numbers(planted):
    features, present, labels, _ = planted
    model, _ = fit_posthoc_cbm(features, present, labels, CONCEPTS, CLASSES, n=50)
    broken = features.clone()
    broken[[17, 30], 3] = torch.nan
    with pytest.raises(ValueError, match="features of 2 images are NaN or infinite, the first in row 17"):
        fit_posthoc_cbm(broken, present, labels, CONCEPTS, CLASSES, n=50)
    with pytest.raises(ValueError, match="values has 10 values that are NaN or infinite, the first in row 17, 'concept 0'"):
        model.explain(broken)
