"""The batched support vector machine against cases by hand, scikit-learn, its reference and its kernel."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from xaihelpers.kernels import linear_svm as svm  # the module
from xaihelpers.kernels.linear_svm import linear_svm, linear_svm_reference

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")
LAMBDAS = [0.001, 0.01, 0.1, 1.0, 10.0]


def problems(B, n, d, kind="noisy", seed=0):
    """Features as they come from a network, labels half and half (rounded).

    kind: noisy, separable, or correlated with very different scales.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.where(torch.arange(n) < (n + 1) // 2, 1.0, -1.0).expand(B, n)
    directions = F.normalize(torch.randn(B, 1, d, generator=generator), dim=2)
    strength = {"noisy": 0.5, "separable": 8.0, "correlated": 1.0}[kind]
    noise = torch.randn(B, n, d, generator=generator)
    features = noise + strength * (directions * labels[:, :, None])
    if kind == "correlated":
        features = features @ (torch.randn(B, d, d, generator=generator) * torch.logspace(0.5, -1.5, d))
    return features.relu(), labels


def decisions(features, normals, intercepts):
    return torch.einsum("bnd,bcd->bcn", features.double(), normals.double()) + intercepts.double()[:, :, None]


def assert_same_decisions(ours, theirs, share):
    span = theirs.amax(-1, keepdim=True) - theirs.amin(-1, keepdim=True)
    error = float(((ours - theirs).abs() / span).max())
    assert error < share, error


def test_two_points_by_hand():
    # Points at x = -1 and 3, four apart. Hard margin: w = 2/4, zero halfway at x = 1, alpha = 2/4^2 = 0.125.
    # With C = 0.05 below that, alpha = C, w = C (3 + 1) = 0.2, and the bias puts the zero halfway again, as
    # libsvm does where no point is free.
    features, labels = torch.tensor([[[-1.0, 7.0], [3.0, 7.0]]]), torch.tensor([[-1.0, 1.0]])
    result = linear_svm(features, labels, [10.0, 0.05])
    torch.testing.assert_close(result.normals, torch.tensor([[[0.5, 0.0], [0.2, 0.0]]]), rtol=0, atol=1e-6)
    torch.testing.assert_close(result.intercepts, torch.tensor([[-0.5, -0.2]]), rtol=0, atol=1e-6)
    for k, C in enumerate([10.0, 0.05]):
        normal, intercept, gap = linear_svm_reference(features[0], labels[0], C)
        torch.testing.assert_close(normal.float(), result.normals[0, k], rtol=0, atol=1e-6)
        assert abs(intercept - result.intercepts[0, k]) < 1e-6 and gap < 1e-6


def test_three_points_by_hand():
    # On a line: -1 at x = 0, +1 at x = 2 and at x = 1. The margin lies between 0 and 1: w = 2, b = -1, and
    # the point at 2 is idle.
    result = linear_svm(torch.tensor([[[0.0], [2.0], [1.0]]]), torch.tensor([[-1, 1, 1]]), [100.0])
    assert abs(result.normals.item() - 2) < 1e-4 and abs(result.intercepts.item() + 1) < 1e-4


@pytest.mark.parametrize("n, d", [(60, 100), (61, 20)])
@pytest.mark.parametrize("kind", ["noisy", "separable", "correlated"])
def test_decisions_agree_with_sklearn(kind, n, d):
    features, labels = problems(3, n, d, kind)
    result = linear_svm(features, labels, LAMBDAS)
    assert result.converged.all()
    ours = decisions(features, result.normals, result.intercepts)
    theirs = torch.empty(3, 5, n, dtype=torch.float64)
    for i, x in enumerate(features.double().numpy()):
        for k, C in enumerate(LAMBDAS):
            fitted = SVC(kernel="linear", C=C, tol=1e-5).fit(x, labels[i].numpy())
            theirs[i, k] = torch.from_numpy(fitted.decision_function(x))
    # what is promised; rounding and both tolerances stay well below
    assert_same_decisions(ours, theirs, 1e-3)


def test_few_positives_agree_with_sklearn():
    features, _ = problems(4, 50, 12)
    labels = torch.where(torch.arange(50) % 9 == 0, 1, -1).expand(4, 50)
    result = linear_svm(features, labels, LAMBDAS)
    ours = decisions(features, result.normals, result.intercepts)
    for i, x in enumerate(features.double().numpy()):
        fits = [SVC(kernel="linear", C=C, tol=1e-6).fit(x, labels[i].numpy()) for C in LAMBDAS]
        theirs = np.array([fitted.decision_function(x) for fitted in fits])
        assert_same_decisions(ours[i], torch.from_numpy(theirs), 1e-3)


@pytest.mark.parametrize("B, n", [(1, 2), (63, 20), (2, 63), (1, 1000)])
def test_sizes_agree_with_the_reference(B, n):
    features, labels = problems(B, n, 16)
    penalties = [0.01, 1.0] if n < 1000 else [0.1]
    result = linear_svm(features, labels, penalties)
    ours = decisions(features, result.normals, result.intercepts)
    for i in range(min(B, 3)):
        for k, C in enumerate(penalties):
            normal, intercept, gap = linear_svm_reference(features[i], labels[i], C)
            assert gap < 1e-6
            # ten times better than promised
            assert_same_decisions(ours[i, k], features[i].double() @ normal + intercept, 1e-4)


# Solved in float64 whatever comes in; 16-bit inputs are exact there, but normals come back in float32.
@pytest.mark.parametrize(
    "dtype, out, share",
    [
        (torch.float16, torch.float32, 1e-4),
        (torch.bfloat16, torch.float32, 1e-4),
        (torch.float32, torch.float32, 1e-4),
        (torch.float64, torch.float64, 1e-4),
    ],
)
def test_views_and_dtypes(dtype, out, share):
    features, labels = problems(2, 40, 24)
    wide = torch.zeros(40, 4, 24, dtype=dtype)
    wide[:, ::2] = features.transpose(0, 1).to(dtype)
    view = wide.transpose(0, 1)[::2]
    assert not view.is_contiguous()
    result = linear_svm(view, labels.to(torch.int8), torch.tensor([0.1, 1.0]))
    assert result.normals.dtype == result.intercepts.dtype == result.gap.dtype == out
    for i in range(2):
        normal, intercept, _ = linear_svm_reference(view[i].double(), labels[i], 1.0)
        ours = decisions(view, result.normals, result.intercepts)[i, 1]
        assert_same_decisions(ours, view[i].double() @ normal + intercept, share)


def test_answers_do_not_depend_on_order_or_company():
    features, labels = problems(5, 40, 30, "correlated")
    result = linear_svm(features, labels, LAMBDAS)
    turned = linear_svm(features, labels, LAMBDAS[::-1])
    alone = linear_svm(features[3:4], labels[3:4], LAMBDAS[2:3])
    together = decisions(features, *result[:2])
    assert_same_decisions(decisions(features[3:4], *alone[:2]), together[3:4, 2:3], 1e-4)
    assert_same_decisions(decisions(features, *turned[:2]).flip(1), together, 1e-9)


def test_groups_of_problems_give_the_same(monkeypatch):
    features, labels = problems(5, 30, 10)
    whole = linear_svm(features, labels, [0.1])
    monkeypatch.setattr(svm, "GRAM_BYTES", 2 * 8 * 30 * 30)
    in_groups = linear_svm(features, labels, [0.1])
    torch.testing.assert_close(in_groups.normals, whole.normals, rtol=1e-4, atol=1e-6)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_optimal_on_any_small_problem_and_equivariant(data):
    # Small whole numbers: many equal, opposed and collinear points.
    n, d = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 4))
    values = data.draw(st.lists(st.integers(-3, 3), min_size=n * d, max_size=n * d))
    signs = data.draw(
        st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n).filter(lambda s: len(set(s)) == 2)
    )
    C = data.draw(st.sampled_from([0.01, 0.5, 20.0]))
    x, y = torch.tensor(values, dtype=torch.float64).reshape(1, n, d), torch.tensor([signs])
    result = linear_svm(x, y, [C], tolerance=1e-7)
    assert result.converged.all() and result.gap.abs().max() < 1e-4
    scale, shift = 2.0 ** data.draw(st.integers(-3, 3)), data.draw(st.integers(-5, 5))
    moved = linear_svm(x * scale + shift, y, [C / scale**2], tolerance=1e-7)
    torch.testing.assert_close(moved.normals * scale, result.normals, rtol=1e-3, atol=1e-3)
    turned = linear_svm(x, -y, [C], tolerance=1e-7)
    torch.testing.assert_close(-turned.normals, result.normals, rtol=1e-3, atol=1e-3)


def test_a_problem_that_does_not_converge_is_reported():
    features, labels = problems(3, 40, 8)
    with pytest.warns(RuntimeWarning, match="3 of 3 support vector machines did not reach"):
        result = linear_svm(features, labels, [1.0], max_iterations=1)
    assert not result.converged.any() and (result.gap > 0).all()


def test_bad_input_is_named():
    features, labels = problems(3, 10, 4)
    for value in (torch.nan, torch.inf):
        broken = features.clone()
        broken[1, 7, 2] = value
        with pytest.raises(ValueError, match=r"features\[1, 7\]"):
            linear_svm(broken, labels, [1.0])
        with pytest.raises(ValueError, match=r"features\[0, 7\]"):
            linear_svm_reference(broken[1], labels[1], 1.0)
    one_sign = labels.clone()
    one_sign[2] = 1
    with pytest.raises(ValueError, match=r"labels\[2\] are all of one sign"):
        linear_svm(features, one_sign, [1.0])
    one_sign[2, 4] = 0
    with pytest.raises(ValueError, match=r"labels\[2, 4\] is 0.0"):
        linear_svm(features, one_sign, [1.0])
    with pytest.raises(ValueError, match="C must be positive"):
        linear_svm(features, labels, [1.0, 0.0])
    with pytest.raises(ValueError, match=r"labels must be \(B, n\)"):
        linear_svm(features, labels[:, :5], [1.0])
    with pytest.raises(ValueError, match="features must be"):
        linear_svm(features[0], labels[0], [1.0])
    with pytest.raises(ValueError, match="backend"):
        linear_svm(features, labels, [1.0], backend="numpy")


def test_triton_cannot_be_forced_on_a_cpu():
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("Triton's interpreter is on, and runs on a CPU")
    with pytest.raises(RuntimeError, match="triton"):
        linear_svm(*problems(1, 4, 2), [1.0], backend="triton")


def poisoned(tensor):
    """What an allocator might return: a full buffer."""
    return torch.full_like(tensor, -(2**62))


def check_triton(device, shapes, steps):
    """The kernel takes the CPU path's steps, writes all of its output, and leads to the same solution."""
    for B, n, d in shapes:
        features, labels = (tensor.to(device) for tensor in problems(B, n, d))
        y = labels.double()
        x = features.double() - features.double().mean(1, keepdim=True)
        gram, C = x @ x.mT, 0.02
        # some of the problems, in another order
        chosen = torch.arange(B, device=device).flip(0)[: max(1, B - 1)]
        low, high = (bound.contiguous() for bound in svm._box(y[chosen], C))
        stop = torch.full((len(chosen),), 1e-6, dtype=torch.float64, device=device)
        beta, e = torch.zeros_like(low), y[chosen].clone()
        # many e are equal at first: on a CPU, as in the kernel, the first of them is taken
        on_cpu = [tensor.cpu().clone() for tensor in (gram, chosen, beta, e, low, high, stop)]
        taken = svm._sweep_cpu(*on_cpu, steps)
        plain, svm.torch.empty_like = torch.empty_like, poisoned  # what the launcher allocates
        try:
            taken_here = svm._sweep_triton(gram, chosen, beta, e, low, high, stop, steps)
        finally:
            svm.torch.empty_like = plain
        assert torch.equal(taken_here.cpu(), taken)
        # float64, sums in another order over `steps` steps
        torch.testing.assert_close(beta.cpu(), on_cpu[2], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(e.cpu(), on_cpu[3], rtol=1e-9, atol=1e-9)
    fits = [linear_svm(features, labels, [0.001, 0.05], backend=backend) for backend in ("triton", "torch")]
    assert fits[0].converged.all()
    assert_same_decisions(*(decisions(features, *fit[:2]) for fit in fits), 1e-3)


def test_triton_kernel_interpreted():
    pytest.importorskip("triton")
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
@needs_gpu
def test_triton_kernel_compiled():
    check_triton("cuda", [(1, 2, 3), (63, 63, 16), (5, 1000, 32), (112, 200, 512)], 50)


if __name__ == "__main__":
    check_triton("cpu", [(1, 2, 2), (2, 5, 3)], 6)
