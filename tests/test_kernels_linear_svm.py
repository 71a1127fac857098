"""The batched support vector machine against cases by hand, scikit-learn's and its kernel."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from xaihelpers.kernels import linear_svm as svm  # the module
from xaihelpers.kernels.linear_svm import linear_svm

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")
LAMBDAS = [0.001, 0.1, 10.0]


def problems(B, n, d, kind="noisy"):
    """Features as they come from a network, labels half and half (rounded).

    kind: noisy, few positives, separable, or correlated with very different scales.
    """
    generator = torch.Generator().manual_seed(0)
    labels = torch.where(torch.arange(n) < (n + 1) // (9 if kind == "few positives" else 2), 1.0, -1.0)
    labels = labels.expand(B, n)
    directions = F.normalize(torch.randn(B, 1, d, generator=generator), dim=2)
    strength = {"separable": 8.0, "correlated": 1.0}.get(kind, 0.5)
    features = torch.randn(B, n, d, generator=generator) + strength * (directions * labels[:, :, None])
    if kind == "correlated":
        features = features @ (torch.randn(B, d, d, generator=generator) * torch.logspace(0.5, -1.5, d))
    return features.relu(), labels


def decisions(features, normals, intercepts):
    return torch.einsum("bnd,bcd->bcn", features.double(), normals.double()) + intercepts.double()[:, :, None]


def assert_same_decisions(ours, theirs, share):
    span = theirs.amax(-1, keepdim=True) - theirs.amin(-1, keepdim=True)
    error = float(((ours - theirs).abs() / span).max())
    assert error < share, error


def assert_as_the_reference(features, labels, penalties, result, share=1e-3):
    """The decision values of the first problems, to a share of their range; 1e-3 is promised."""
    ours = decisions(*(tensor.cpu() for tensor in (features, result.normals, result.intercepts)))
    for i in range(min(len(features), 3)):
        for k, C in enumerate(penalties):
            x, y = features[i].cpu().double().numpy(), labels[i].cpu().numpy()
            theirs = SVC(kernel="linear", C=C, tol=1e-7).fit(x, y).decision_function(x)
            assert_same_decisions(ours[i, k], torch.tensor(theirs), share)


def test_two_points_by_hand():
    # Points at x = -1 and 3, four apart. Hard margin: w = 2/4, zero halfway at x = 1, alpha = 2/4^2 = 0.125.
    # With C = 0.05 below that, alpha = C, w = C (3 + 1) = 0.2, and the bias puts the zero halfway again, as
    # libsvm does where no point is free.
    features, labels = torch.tensor([[[-1.0, 7.0], [3.0, 7.0]]]), torch.tensor([[-1.0, 1.0]])
    result = linear_svm(features, labels, [10.0, 0.05])
    torch.testing.assert_close(result.normals, torch.tensor([[[0.5, 0.0], [0.2, 0.0]]]), rtol=0, atol=1e-6)
    torch.testing.assert_close(result.intercepts, torch.tensor([[-0.5, -0.2]]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["noisy", "separable", "correlated", "few positives"])
def test_decisions_are_those_of_sklearn(kind):
    sizes = [(3, 61, LAMBDAS)]
    if kind == "noisy":
        sizes += [(63, 20, LAMBDAS), (1, 1000, [0.1])]
    for B, n, penalties in sizes:
        features, labels = problems(B, n, 20, kind)
        result = linear_svm(features, labels, penalties)
        assert result.converged.all()
        assert_as_the_reference(features, labels, penalties, result)


# Solved in float64 whatever comes in; 16-bit inputs are exact there, but normals come back in float32.
def test_views_and_dtypes():
    features, labels = problems(2, 40, 24)
    view = features.transpose(0, 1).half().contiguous().transpose(0, 1)
    result = linear_svm(view, labels.to(torch.int8), torch.tensor([0.1, 1.0]))
    assert result.normals.dtype == result.intercepts.dtype == torch.float32
    assert_as_the_reference(view, labels, [0.1, 1.0], result, 1e-4)


def test_answers_do_not_depend_on_order_or_company(monkeypatch):
    features, labels = problems(5, 40, 30, "correlated")
    together = decisions(features, *linear_svm(features, labels, LAMBDAS)[:2])
    turned = linear_svm(features, labels, [LAMBDAS[1], LAMBDAS[2], LAMBDAS[0]])
    assert_same_decisions(decisions(features, *turned[:2]).roll(1, 1), together, 1e-9)
    alone = linear_svm(features[3:4], labels[3:4], LAMBDAS[1:2])
    assert_same_decisions(decisions(features[3:4], *alone[:2]), together[3:4, 1:2], 1e-4)
    monkeypatch.setattr(svm, "GRAM_BYTES", 2 * 8 * 40 * 40)  # two problems at a time
    assert_same_decisions(decisions(features, *linear_svm(features, labels, LAMBDAS)[:2]), together, 1e-9)


def test_what_takes_too_many_steps_is_left_to_svc_and_what_is_left_over_is_reported(monkeypatch, caplog):
    features, labels = problems(3, 63, 20)
    monkeypatch.setattr(svm, "ROUNDS", (5,))
    caplog.set_level("INFO")
    result = linear_svm(features, labels, LAMBDAS)
    assert "9 support vector machines" in caplog.text and result.converged.all()
    assert_as_the_reference(features, labels, LAMBDAS, result)
    monkeypatch.setattr(svm, "SVC_STEPS", 1)
    with (
        pytest.warns(ConvergenceWarning),
        pytest.warns(RuntimeWarning, match="3 of 3 support vector machines did not converge"),
    ):
        assert not linear_svm(features, labels, [1.0]).converged.any()


def test_bad_input_is_named():
    features, labels = problems(3, 10, 4)
    one_sign, broken = labels.clone(), features.clone()
    one_sign[2], broken[1, 7, 2] = 1, torch.inf
    for message, *arguments in (
        (r"features\[1, 7\] has a NaN or infinite value", broken, labels, [1.0]),
        (r"labels\[2\] are not -1 and \+1", features, one_sign, [1.0]),
        ("C positive and finite", features, labels, [1.0, 0.0]),
    ):
        with pytest.raises(ValueError, match=message):
            linear_svm(*arguments)


def check_triton(device, shapes, steps):
    """The kernel takes the CPU path's steps, writes all of its output, and leads to the same solution."""
    for B, n, d in shapes:
        features, labels = problems(B, n, d)
        x = features.double() - features.double().mean(1, keepdim=True)
        gram, y, C = x @ x.mT, labels.double(), torch.tensor([0.02, 0.5], dtype=torch.float64)
        poisoned = torch.full((B, 2, n), torch.nan, dtype=torch.float64, device=device)
        tensors = [tensor.to(device) for tensor in (gram, y, C)]
        beta, taken = svm._solve_triton(*tensors, steps, beta=poisoned)
        assert beta is poisoned
        for k in range(2):
            on_cpu, e = torch.zeros_like(y), y.clone()
            bounds = y.clamp(max=0) * C[k], y.clamp(min=0) * C[k]
            arrays = [tensor.numpy() for tensor in (gram, torch.arange(B), y, on_cpu, e, *bounds)]
            stop = np.zeros(B)  # the range of decision values is 0 at the start
            svm._sweep_cpu(*arrays, stop, steps, counted := np.empty(B, int))
            assert taken[:, k].tolist() == counted.tolist()
            # float64, sums in another order over `steps` steps
            torch.testing.assert_close(beta[:, k].cpu(), on_cpu, rtol=1e-9, atol=1e-9)
    result = linear_svm(features.to(device), labels.to(device), LAMBDAS[:2], backend="triton")
    assert result.converged.all()
    assert_as_the_reference(features, labels, LAMBDAS[:2], result)


@pytest.mark.gpu
@needs_gpu
def test_triton_kernel_compiled():
    check_triton("cuda", [(1, 2, 3), (63, 63, 16), (5, 1000, 32), (112, 200, 512)], 50)


if __name__ == "__main__":
    check_triton("cpu", [(1, 2, 2), (2, 5, 3)], 6)
