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


def test_head_of_separable_classes():
    values, labels = toy(noise=0.1)
    weights, bias = fit_head(values, labels, 4)
    assert weights.shape == (5, 4) and bias.shape == (4,) and not weights.requires_grad
    assert torch.equal(decide(values, (weights, bias)), labels)


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("penalty", [1e-3, 0.1])
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


def test_values_and_labels_on_different_devices():
    values, labels = toy(noise=1.0)
    with pytest.raises(ValueError, match="values on cpu, labels on meta"):
        fit_head(values, labels.to("meta"), 4)
    with pytest.raises(ValueError, match="offset on meta"):
        fit_head(values, labels, 4, offset=torch.zeros(len(labels), 4, device="meta"))
