"""The sparse head: the optimum that it claims to be, that of scikit-learn's solver."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from xaihelpers.bottlenecks import elastic_net_head, sparse


def toy(n=150, n_concepts=12, n_classes=4, noise=1.0, seed=0):
    """Classes that differ in the first four of the concepts."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % n_classes
    centres = torch.zeros(n_classes, n_concepts)
    centres[:, :4] = 2 * torch.randn(n_classes, 4, generator=generator)
    values = centres[labels] + noise * torch.randn(n, n_concepts, generator=generator)
    return (values - values.mean(0)) / values.std(0), labels


def objective(values, labels, weights, bias, penalty, alpha):
    """The formula of the module's head, term by term."""
    loss = F.cross_entropy(values.double() @ weights + bias, labels)
    return (loss + penalty * (alpha * weights.abs().sum() + (1 - alpha) / 2 * weights.square().sum())).item()


def saga(values, labels, penalty, alpha):
    given = {"solver": "saga", "max_iter": 100_000, "tol": 1e-10, "random_state": 0}
    model = LogisticRegression(C=1 / (penalty * len(values)), l1_ratio=alpha, **given)
    model.fit(values.double().numpy(), labels.numpy())
    return torch.from_numpy(np.ascontiguousarray(model.coef_.T)), torch.from_numpy(model.intercept_)


@pytest.mark.parametrize(
    "penalty, alpha, sizes",
    [(0.05, 0.99, {}), (0.005, 0.5, {}), (0.05, 0.0, {}), (0.05, 1.0, {})]
    + [(0.02, 0.99, {"n": 24, "n_concepts": 60})],
)
def test_same_as_saga(penalty, alpha, sizes):
    values, labels = toy(**sizes)
    own = elastic_net_head(values, labels, 4, penalty, alpha, tolerance=1e-8)
    weights, bias = saga(values, labels, penalty, alpha)
    theirs = objective(values, labels, weights, bias, penalty, alpha)
    ours = objective(values, labels, *own, penalty, alpha)
    assert ours == pytest.approx(theirs, abs=1e-9)
    # a number added to a concept's weights for all classes may leave their sum of sizes as it is: many optima
    if alpha == 1:
        return
    torch.testing.assert_close(own[0], weights, atol=2e-5, rtol=0)
    # a number common to all classes changes nothing
    torch.testing.assert_close(own[1] - own[1].mean(), bias - bias.mean(), atol=2e-5, rtol=0)
    assert own[0].count_nonzero() == weights.count_nonzero()


def test_weights_vanish_at_the_largest_penalty():
    """That is max |Xᵀ(p − y)|/(N α), p the shares of the classes, which the bias then gives."""
    values, labels = toy()
    truth = F.one_hot(labels, 4).double()
    top = (values.double().T @ (truth.mean(0) - truth)).abs().max().item() / (len(values) * 0.99)
    weights, bias = elastic_net_head(values, labels, 4, 1.001 * top)
    assert not weights.any()
    torch.testing.assert_close(bias.softmax(0), torch.bincount(labels).double() / len(labels))
    weights, _ = elastic_net_head(values, labels, 4, 0.99 * top)
    assert (
        0 < weights.count_nonzero() < 10 < elastic_net_head(values, labels, 4, 0.01 * top)[0].count_nonzero()
    )


def test_bad_input(monkeypatch):
    values, labels = toy()
    with pytest.raises(ValueError, match="labels run from 0 to 3, but there are 3 classes"):
        elastic_net_head(values, labels, 3, 0.1)
    with pytest.raises(ValueError, match="penalty must be a positive number, not 0"):
        elastic_net_head(values, labels, 4, 0)
    with pytest.raises(ValueError, match="alpha is the share"):
        elastic_net_head(values, labels, 4, 0.1, alpha=1.5)
    monkeypatch.setattr(sparse, "MAX_STEPS", 3)
    with pytest.raises(ValueError, match="not converged after 3 steps: .* raise tolerance"):
        elastic_net_head(values, labels, 4, 1e-4)
    values[2, 1] = math.nan
    with pytest.raises(ValueError, match="1 NaN or infinite"):
        elastic_net_head(values, labels, 4, 0.1)
