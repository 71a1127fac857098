"""Heads of bottlenecks, dense and sparse: the optima that they claim to be, at any scale of the values."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from xaihelpers.bottlenecks import elastic_net_head, fit_head, sparse


def toy(noise, n=120, n_concepts=5, n_classes=4):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(n) % n_classes
    centres = torch.randn(n_classes, n_concepts, generator=generator)
    return 3 + centres[labels] + noise * torch.randn(n, n_concepts, generator=generator), labels


def decide(values, head):
    return (values @ head[0] + head[1]).argmax(1)


@pytest.mark.parametrize("noise, penalty", [(0.3, 1e-3), (2.0, 0.1)])
def test_the_head_is_the_optimum(noise, penalty):
    """The gradient of the penalised loss vanishes at the head, not at one trained for another penalty.

    In float64, on standardised values.
    """
    values, labels = toy(noise)
    wide = values.double()
    mean, std = wide.mean(0), wide.std(0)

    def gradient(head):
        weights = (head[0].double() * std[:, None]).requires_grad_()
        bias = (head[1].double() + mean @ head[0].double()).requires_grad_()
        loss = F.cross_entropy((wide - mean) / std @ weights + bias, labels)
        loss = loss + penalty / 2 * weights.square().sum()
        return max(g.abs().max().item() for g in torch.autograd.grad(loss, [weights, bias]))

    assert gradient(fit_head(values, labels, 4, penalty)) < 1e-4  # where float32 loses sight of the loss
    assert gradient(fit_head(values, labels, 4, 10 * penalty)) > 1e-3


def test_the_head_does_not_depend_on_the_scale():
    values, labels = toy(noise=2.0)
    weights, bias = fit_head(values, labels, 4)
    for scale in (1000.0, 1e-15):
        scaled = fit_head(values * scale, labels, 4)
        assert torch.equal(decide(values * scale, scaled), decide(values, (weights, bias)))
        torch.testing.assert_close(scaled[0] * scale, weights, rtol=0.01, atol=0.005)


def test_a_constant_concept_gets_no_weight():
    """Its mean in float32 is off by a rounding error, which must not be blown up to a feature."""
    values, labels = toy(noise=0.1, n=999)
    values[:, 2] = 1e12 / 3
    weights, bias = fit_head(values, labels, 4)
    assert weights[2].tolist() == [0.0] * 4 and weights[0].abs().max() > 0.1
    assert (decide(values, (weights, bias)) == labels).float().mean() > 0.99


def test_what_a_head_cannot_be_fitted_to():
    values, labels = toy(noise=1.0)
    with pytest.raises(ValueError, match="one of optimum, few steps, one-vs-rest, not 'adam'"):
        fit_head(values, labels, 4, solver="adam")
    values[3, 1] = torch.nan
    with pytest.raises(ValueError, match="1 NaN or infinite"):
        fit_head(values, labels, 4)


def test_one_against_the_rest_with_two_classes_and_with_an_empty_one():
    values, labels = toy(noise=0.1, n_classes=2)
    for n_classes in (2, 3):
        head = fit_head(values, labels, n_classes, penalty=1e-4, solver="one-vs-rest")
        assert head[0].shape == (5, n_classes) and torch.equal(decide(values, head), labels)


# The sparse head


@pytest.mark.parametrize("penalty, sizes", [(0.05, {"n": 150}), (0.02, {"n": 24, "n_concepts": 60})])
def test_the_sparse_head_is_that_of_saga(penalty, sizes):
    values, labels = toy(noise=1.0, **sizes)
    values = (values - values.mean(0)) / values.std(0)
    given = {"solver": "saga", "max_iter": 100_000, "tol": 1e-10, "random_state": 0}
    model = LogisticRegression(C=1 / (penalty * len(values)), l1_ratio=sparse.ALPHA, **given)
    model.fit(values.double().numpy(), labels.numpy())
    theirs = torch.from_numpy(np.ascontiguousarray(model.coef_.T))
    weights, bias = elastic_net_head(values, labels, 4, penalty)
    torch.testing.assert_close(weights, theirs, atol=2e-5, rtol=0)
    assert weights.count_nonzero() == theirs.count_nonzero()
    intercepts = torch.from_numpy(model.intercept_)  # a number common to all classes changes nothing
    torch.testing.assert_close(bias - bias.mean(), intercepts - intercepts.mean(), atol=2e-5, rtol=0)


def test_weights_vanish_at_the_largest_penalty():
    """That is max |Xᵀ(p − y)|/(N α), p the shares of the classes, which the bias then gives."""
    values, labels = toy(noise=1.0)
    values = (values - values.mean(0)) / values.std(0)
    truth = F.one_hot(labels, 4).double()
    top = (values.double().T @ (truth.mean(0) - truth)).abs().max().item() / (len(values) * sparse.ALPHA)
    weights, bias = elastic_net_head(values, labels, 4, 1.001 * top)
    assert not weights.any()
    torch.testing.assert_close(bias.softmax(0), torch.bincount(labels).double() / len(labels))
    assert elastic_net_head(values, labels, 4, 0.99 * top)[0].any()


def test_a_sparse_head_that_cannot_be_had(monkeypatch):
    values, labels = toy(noise=1.0)
    with pytest.raises(ValueError, match="penalty must be a positive number, not 0"):
        elastic_net_head(values, labels, 4, 0)
    monkeypatch.setattr(sparse, "MAX_STEPS", 3)
    with pytest.raises(ValueError, match="not converged after 3 steps: standardise"):
        elastic_net_head(values, labels, 4, 1e-4)
