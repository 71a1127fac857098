"""The sparse head: the optimum that it claims to be, that of scikit-learn's solver, along the whole path."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from xaihelpers.bottlenecks import elastic_net_path, largest_penalty


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
    path = elastic_net_path(values, labels, 4, [penalty], alpha, tolerance=1e-8)
    weights, bias = saga(values, labels, penalty, alpha)
    theirs = objective(values, labels, weights, bias, penalty, alpha)
    assert path.objective[0].item() == pytest.approx(theirs, abs=1e-9)
    # a number added to a concept's weights for all classes may leave their sum of sizes as it is: many optima
    if alpha == 1:
        return
    torch.testing.assert_close(path.weights[0], weights, atol=2e-5, rtol=0)
    # a number common to all classes changes nothing
    torch.testing.assert_close(path.bias[0] - path.bias[0].mean(), bias - bias.mean(), atol=2e-5, rtol=0)
    assert path.nonzero[0] == weights.count_nonzero()


def test_path():
    values, labels = toy()
    path = elastic_net_path(values, labels, 4, points=8, span=0.01)
    top = largest_penalty(values.double(), labels, 4)
    assert path.penalties[0].item() == pytest.approx(top)
    assert path.penalties[-1].item() == pytest.approx(0.01 * top)
    assert path.weights.shape == (8, 12, 4) and path.bias.shape == (8, 4)
    assert path.nonzero[0] == 0 and path.nonzero[-1] > 10
    assert (path.objective.diff() < 0).all()  # a smaller penalty has a lower minimum
    assert (path.violation <= 1e-3).all()
    # nothing but the classes' shares
    torch.testing.assert_close(path.bias[0].softmax(0), torch.bincount(labels).double() / len(labels))
    for p, penalty in enumerate(path.penalties.tolist()):
        assert path.nonzero[p] == path.weights[p].count_nonzero()
        expected = objective(values, labels, path.weights[p], path.bias[p], penalty, 0.99)
        assert path.objective[p].item() == pytest.approx(expected, abs=1e-12)
        alone = elastic_net_path(values, labels, 4, [penalty])  # not started at its neighbour's solution
        assert alone.objective[0].item() == pytest.approx(path.objective[p].item(), abs=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(1e-3, 0.2))
def test_no_neighbour_is_better(seed, penalty):
    """The minimum found is below the objective at random points around it."""
    values, labels = toy(n=40, n_concepts=5, n_classes=3, seed=seed)
    path = elastic_net_path(values, labels, 3, [penalty], tolerance=1e-6)
    generator = torch.Generator().manual_seed(seed)
    for scale in (1e-3, 0.1, 1.0):
        weights = path.weights[0] + scale * torch.randn(5, 3, generator=generator, dtype=torch.float64)
        bias = path.bias[0] + scale * torch.randn(3, generator=generator, dtype=torch.float64)
        assert objective(values, labels, weights, bias, penalty, 0.99) >= path.objective[0].item() - 1e-12


def test_bad_input():
    values, labels = toy()
    with pytest.raises(ValueError, match="labels run from 0 to 3, but there are 3 classes"):
        elastic_net_path(values, labels, 3, [0.1])
    for wrong in ([], [0.0], [0.1, -1.0]):
        with pytest.raises(ValueError, match="penalties must be positive"):
            elastic_net_path(values, labels, 4, wrong)
    with pytest.raises(ValueError, match="alpha is the share"):
        elastic_net_path(values, labels, 4, [0.1], alpha=1.5)
    with pytest.raises(ValueError, match="not converged after 3 steps .* raise max_steps"):
        elastic_net_path(values, labels, 4, [1e-4], max_steps=3)
    values[2, 1] = math.nan
    with pytest.raises(ValueError, match="1 NaN or infinite"):
        elastic_net_path(values, labels, 4, [0.1])
