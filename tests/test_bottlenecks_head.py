"""The dense head: the optimum that it claims to be, whatever the scale of the values."""

import pytest
import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks import fit_head


def toy(noise, n=120, n_concepts=5, n_classes=4):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(n) % n_classes
    centres = torch.randn(n_classes, n_concepts, generator=generator)
    return 3 + centres[labels] + noise * torch.randn(n, n_concepts, generator=generator), labels


def decide(values, head):
    return (values @ head[0] + head[1]).argmax(1)


@pytest.mark.parametrize("noise, penalty", [(0.3, 1e-3), (2.0, 0.1)])
def test_head_is_the_optimum(noise, penalty):
    """The gradient of the penalised loss vanishes at the head, not at one trained for another penalty.

    In float64, on standardised values.
    """
    values, labels = toy(noise)
    wide = values.double()
    mean, std = wide.mean(0), wide.std(0)

    def gradient(head):
        weights = (head[0].double() * std[:, None]).requires_grad_()
        bias = (head[1].double() + mean @ head[0].double()).requires_grad_()
        loss = (
            F.cross_entropy((wide - mean) / std @ weights + bias, labels)
            + penalty / 2 * weights.square().sum()
        )
        return max(g.abs().max().item() for g in torch.autograd.grad(loss, [weights, bias]))

    assert gradient(fit_head(values, labels, 4, penalty)) < 1e-4  # where float32 loses sight of the loss
    assert gradient(fit_head(values, labels, 4, 10 * penalty)) > 1e-3


@pytest.mark.parametrize("scale", [1000.0, 1e-15])
def test_head_does_not_depend_on_the_scale(scale):
    values, labels = toy(noise=2.0)
    weights, bias = fit_head(values, labels, 4)
    scaled = fit_head(values * scale, labels, 4)
    assert torch.equal(decide(values * scale, scaled), decide(values, (weights, bias)))
    torch.testing.assert_close(scaled[0] * scale, weights, rtol=0.01, atol=0.005)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e12 / 3])
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
    with pytest.raises(ValueError, match="one of optimum, few steps, one-vs-rest, not 'adam'"):
        fit_head(values, labels, 4, solver="adam")
    with pytest.raises(ValueError, match="takes no offset"):
        fit_head(values, labels, 4, solver="one-vs-rest", offset=torch.zeros(120, 4))
    with pytest.raises(ValueError, match="values on cpu, labels on meta"):
        fit_head(values, labels.to("meta"), 4)
    with pytest.raises(ValueError, match="offset on meta"):
        fit_head(values, labels, 4, offset=torch.zeros(len(labels), 4, device="meta"))
    values[3, 1] = torch.nan
    values[5, 1] = torch.inf
    with pytest.raises(ValueError, match="2 NaN or infinite"):
        fit_head(values, labels, 4)


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("solver", ["few steps", "one-vs-rest"])
def test_other_solvers_learn_and_stop_elsewhere(solver, standardise):
    values, labels = toy(noise=0.3)
    head = fit_head(values, labels, 4, solver=solver, steps=300, standardise=standardise)
    assert head[0].shape == (5, 4) and head[1].shape == (4,)
    assert (decide(values, head) == labels).float().mean() > 0.7  # chance is 1/4
    assert not torch.allclose(head[0], fit_head(values, labels, 4)[0], atol=0.05)


def test_one_against_the_rest_with_two_classes_and_with_an_empty_one():
    values, labels = toy(noise=0.1, n_classes=2)
    for n_classes in (2, 3):
        head = fit_head(values, labels, n_classes, penalty=1e-4, solver="one-vs-rest")
        assert head[0].shape == (5, n_classes) and torch.equal(decide(values, head), labels)
