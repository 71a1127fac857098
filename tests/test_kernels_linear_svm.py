"""The batched support vector machine against cases by hand, scikit-learn, its reference and its kernel."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.svm import SVC

from xaihelpers.kernels import linear_svm as svm  # the module
from xaihelpers.kernels.linear_svm import linear_svm, linear_svm_reference

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")
LAMBDAS = [0.001, 0.1, 10.0]


def problems(B, n, d, kind="noisy"):
    """Features as they come from a network, labels half and half (rounded).

    kind: noisy, separable, or correlated with very different scales.
    """
    generator = torch.Generator().manual_seed(0)
    labels = torch.where(torch.arange(n) < (n + 1) // 2, 1.0, -1.0).expand(B, n)
    directions = F.normalize(torch.randn(B, 1, d, generator=generator), dim=2)
    strength = {"noisy": 0.5, "separable": 8.0, "correlated": 1.0}[kind]
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


@pytest.mark.parametrize("kind", ["noisy", "separable", "correlated", "few positives"])
def test_decisions_agree_with_sklearn(kind):
    features, labels = problems(3, 61, 20, "noisy" if kind == "few positives" else kind)
    if kind == "few positives":
        labels = torch.where(torch.arange(61) % 9 == 0, 1.0, -1.0).expand(3, 61)
    result = linear_svm(features, labels, LAMBDAS)
    assert result.converged.all()
    ours = decisions(features, result.normals, result.intercepts)
    for i, x in enumerate(features.double().numpy()):
        for k, C in enumerate(LAMBDAS):
            fitted = SVC(kernel="linear", C=C, tol=1e-6).fit(x, labels[i].numpy())
            # what is promised; rounding and both tolerances stay well below
            assert_same_decisions(ours[i, k], torch.from_numpy(fitted.decision_function(x)), 1e-3)


@pytest.mark.parametrize("B, n", [(1, 2), (63, 20), (1, 1000)])
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
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_views_and_dtypes(dtype):
    features, labels = problems(2, 40, 24)
    wide = torch.zeros(40, 4, 24, dtype=dtype)
    wide[:, ::2] = features.transpose(0, 1).to(dtype)
    view = wide.transpose(0, 1)[::2]
    assert not view.is_contiguous()
    result = linear_svm(view, labels.to(torch.int8), torch.tensor([0.1, 1.0]))
    out = torch.float64 if dtype == torch.float64 else torch.float32
    assert result.normals.dtype == result.intercepts.dtype == result.gap.dtype == out
    normal, intercept, _ = linear_svm_reference(view[1].double(), labels[1], 1.0)
    ours = decisions(view, result.normals, result.intercepts)[1, 1]
    assert_same_decisions(ours, view[1].double() @ normal + intercept, 1e-4)


def test_answers_do_not_depend_on_order_or_company(monkeypatch):
    features, labels = problems(5, 40, 30, "correlated")
    result = linear_svm(features, labels, LAMBDAS)
    together = decisions(features, *result[:2])
    turned = linear_svm(features, labels, [LAMBDAS[1], LAMBDAS[2], LAMBDAS[0]])
    assert_same_decisions(decisions(features, *turned[:2]).roll(1, 1), together, 1e-9)
    alone = linear_svm(features[3:4], labels[3:4], LAMBDAS[1:2])
    assert_same_decisions(decisions(features[3:4], *alone[:2]), together[3:4, 1:2], 1e-4)
    monkeypatch.setattr(svm, "GRAM_BYTES", 2 * 8 * 40 * 40)  # two problems at a time
    assert_same_decisions(decisions(features, *linear_svm(features, labels, LAMBDAS)[:2]), together, 1e-9)


def test_a_problem_that_does_not_converge_is_reported():
    features, labels = problems(3, 40, 8)
    with pytest.warns(RuntimeWarning, match="3 of 3 support vector machines did not reach"):
        result = linear_svm(features, labels, [1.0], max_iterations=1)
    assert not result.converged.any() and (result.gap > 0).all()


def test_bad_input_is_named():
    features, labels = problems(3, 10, 4)
    one_sign, zero = labels.clone(), labels.clone()
    one_sign[2], zero[2, 4] = 1, 0
    for value in (torch.nan, torch.inf):
        broken = features.clone()
        broken[1, 7, 2] = value
        with pytest.raises(ValueError, match=r"features\[1, 7\]"):
            linear_svm(broken, labels, [1.0])
        with pytest.raises(ValueError, match=r"features\[0, 7\]"):
            linear_svm_reference(broken[1], labels[1], 1.0)
    for message, *arguments in (
        (r"labels\[2\] are all of one sign", features, one_sign, [1.0]),
        (r"labels\[2, 4\] is 0.0", features, zero, [1.0]),
        ("C must be positive", features, labels, [1.0, 0.0]),
        (r"labels must be \(B, n\)", features, labels[:, :5], [1.0]),
        ("features must be", features[0], labels[0], [1.0]),
        ("backend", features, labels, [1.0], 1e-5, 9, "numpy"),
    ):
        with pytest.raises(ValueError, match=message):
            linear_svm(*arguments)


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
        plain = torch.empty_like
        # what the launcher allocates is full already
        svm.torch.empty_like = lambda tensor: torch.full_like(tensor, -(2**62))
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


@pytest.mark.gpu
@needs_gpu
def test_triton_kernel_compiled():
    check_triton("cuda", [(1, 2, 3), (63, 63, 16), (5, 1000, 32), (112, 200, 512)], 50)


if __name__ == "__main__":
    check_triton("cpu", [(1, 2, 2), (2, 5, 3)], 6)
