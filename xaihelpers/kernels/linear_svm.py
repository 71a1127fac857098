"""Linear support vector machines for many concepts and penalties at once: concept activation vectors.

    primal   min over w, b:   1/2 |w|^2 + C sum_i max(0, 1 - y_i (w.x_i + b))     as SVC(kernel="linear", C=C)
    dual     max over beta:   y.beta - 1/2 beta.G beta,   sum_i beta_i = 0,   0 <= y_i beta_i <= C

| symbol | name | shape |
|---|---|---|
| x, n samples for each of B problems | `features` | (B, n, d) |
| y, -1 or +1 | `labels`, `y` | (B, n) |
| C, lambda in the alignment paper | `C` | (c,) |
| w = sum_i beta_i x_i | `normals` | (B, c, d) |
| b | `intercepts` | (B, c) |
| G_ij = x_i.x_j | `gram` | (B, n, n) |
| e = y - G beta; at the optimum e_i = b wherever 0 < y_i beta_i < C | `e` | (B, n) or (B, c, n) |

Method: sequential minimal optimisation. A step moves beta_i up and beta_j down, i having the largest e of
those that can go up and j, of those that can go down, the one that gains most; the optimum is where no e that
can go up exceeds one that can go down. What is not there after 38,000 steps, as badly conditioned problems
are, is solved by scikit-learn's SVC.

Why a kernel: a step needs two lines of G and a few vectors of length n. As torch operations over all problems
that is about twenty passes through (B, n) memory and as many launches; in one program per problem and penalty
the vectors stay on chip, 16 n bytes of G are read, and one launch takes all steps. A step is as long as its
two searches take, whatever else the GPU does meanwhile: so all penalties are solved at once there. The CPU
path runs the same steps compiled by numba, a problem per thread and penalties in increasing order, each from
the one before: where no beta has reached its bound, the next solution is the same.
"""

import logging
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
import torch

from xaihelpers.kernels.dispatch import choose_backend, tl, triton

TOLERANCE = 1e-5  # violation of the optimality conditions, as a share of the range of decision values
ROUNDS = (64, 256, 1024) + 9 * (4096,)  # steps; after each round on the CPU e is computed anew from beta
STEPS = sum(ROUNDS)
SVC_STEPS = 1_000_000  # at most, for a problem that is not solved after these rounds
GRAM_BYTES = 1 << 28  # problems are solved in groups whose Gram matrices fit in this
LARGEST = 2048  # samples per problem that a Triton program can hold

log = logging.getLogger(__name__)


class LinearSVM(NamedTuple):
    """B problems solved for c penalties each."""

    normals: torch.Tensor  # (B, c, d), w
    intercepts: torch.Tensor  # (B, c), b: the decision value of x is w.x + b
    iterations: torch.Tensor  # (B, c) int64, steps taken; on the CPU, those of smaller penalties not counted
    converged: torch.Tensor  # (B, c) bool


def _by_svc(gram, y, C, tolerance):
    """beta (n,) of one problem by scikit-learn's SVC, the steps it took and whether it came to its end."""
    from sklearn.svm import SVC  # takes a second, and is seldom needed

    svm = SVC(kernel="precomputed", C=C, tol=tolerance, max_iter=SVC_STEPS)
    svm.fit(gram.cpu().numpy(), y.cpu().numpy())
    beta = torch.zeros_like(y, device="cpu")
    beta[svm.support_] = torch.from_numpy(svm.dual_coef_[0])
    return beta, int(svm.n_iter_.sum()), svm.fit_status_ == 0


def _edges(e, y, beta, C):
    """The largest e of the samples whose beta can go up, and the smallest of those whose beta can go down."""
    can_rise, can_fall = torch.where(y > 0, beta < C, beta < 0), torch.where(y > 0, beta > 0, beta > -C)
    return torch.where(can_rise, e, -torch.inf).amax(-1), torch.where(can_fall, e, torch.inf).amin(-1)


def _range(decision):
    return decision.amax(-1) - decision.amin(-1)


def _is_solved(e, y, beta, C):
    """Whether the largest e that can go up exceeds the smallest that can go down by little enough."""
    up, down = _edges(e, y, beta, C)
    return up - down <= 2 * TOLERANCE * _range(y - e)


def _finish(gram, y, beta, C):
    """From beta (B, c, n): beta without what rounding leaves beside a bound, intercepts and what is solved.

    gram (B, n, n); y (B, 1, n); C (c, 1). The intercept is, as libsvm's, the mean e of the samples strictly
    between their bounds, else midway.
    """
    alpha = y * beta
    near_zero = alpha < 1e-9 * alpha.amax(-1, keepdim=True)
    alpha = torch.where(near_zero, 0.0, torch.where(C - alpha < 1e-9 * C, C, alpha))
    beta = y * alpha
    e = y - beta @ gram
    free = (alpha > 0) & (alpha < C)
    middle = sum(_edges(e, y, beta, C)) / 2
    intercept = torch.where(free.any(-1), (e * free).sum(-1) / free.sum(-1).clamp(min=1), middle)
    return beta, intercept, _is_solved(e, y, beta, C)


@numba.njit(cache=True, nogil=True)
def _steps(gram, beta, e, low, high, stop, steps):
    """Steps on one problem, in place, until no pair violates the optimum by more than `stop`; how many."""
    n = len(beta)
    smallest = 1e-12 * np.trace(gram) / n + 1e-300
    for step in range(steps):
        i, top = -1, -np.inf
        for k in range(n):
            if beta[k] < high[k] and e[k] > top:
                i, top = k, e[k]
        j, gain, worst, most = -1, 0.0, -np.inf, -np.inf
        for k in range(n):
            if beta[k] > low[k]:
                reach = top - e[k]
                worst = max(worst, reach)
                curvature = max(gram[k, k] + gram[i, i] - 2 * gram[i, k], smallest)
                if reach > 0 and reach * reach / curvature > most:
                    j, gain, most = k, reach / curvature, reach * reach / curvature
        if worst <= stop:
            return step
        room_i, room_j = high[i] - beta[i], beta[j] - low[j]
        move = min(gain, room_i, room_j)
        beta[i] = high[i] if move >= room_i else beta[i] + move
        beta[j] = low[j] if move >= room_j else beta[j] - move
        for k in range(n):
            e[k] -= move * (gram[i, k] - gram[j, k])
    return steps


@numba.njit(cache=True, parallel=True)
def _sweep_cpu(gram, problems, y, beta, e, low, high, stop, steps, taken):
    """At most `steps` steps on `problems` (A,), changing beta (A, n) in place; e (A, n) is then y - G beta.

    gram (B, n, n) of all problems; y, low, high (A, n); stop (A,); `taken` (A,) becomes how many steps.
    """
    for p in numba.prange(len(problems)):
        G = gram[problems[p]]
        taken[p] = _steps(G, beta[p], e[p], low[p], high[p], stop[p], steps)
        e[p] = 0.0  # anew, against the rounding errors of many steps
        for k in range(beta.shape[1]):
            if beta[p, k] != 0.0:
                e[p] += beta[p, k] * G[k]
        e[p] = y[p] - e[p]


def _solve_cpu(gram, y, C):
    """gram (B, n, n), y (B, n), rising C (c,), float64 -> beta (B, c, n) and steps (B, c)."""
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    betas = y.new_empty(len(y), len(C), y.shape[1])
    iterations = torch.zeros(len(y), len(C), dtype=torch.int64)
    beta, e = torch.zeros_like(y), y.clone()
    settled = torch.zeros(len(y), dtype=torch.bool)  # no beta at its bound: the same for every larger C
    for k, penalty in enumerate(C.tolist()):
        low, high = y.clamp(max=0) * penalty, y.clamp(min=0) * penalty
        todo = (~settled).nonzero()[:, 0]
        for steps in ROUNDS:
            here = [tensor[todo] for tensor in (y, beta, e, low, high)]
            stop, taken = TOLERANCE * _range(here[0] - here[2]), torch.empty_like(todo)
            arrays = [tensor.numpy() for tensor in (gram, todo, *here, stop)]
            _sweep_cpu(*arrays, steps, taken.numpy())
            _, beta[todo], e[todo], _, _ = here
            iterations[todo, k] += taken
            todo = todo[~_is_solved(e[todo], y[todo], beta[todo], penalty)]
            if not len(todo):
                break
        settled = (beta.abs() < penalty).all(1)
        settled[todo] = False
        betas[:, k] = beta
    return betas, iterations


if triton is not None:

    @triton.jit
    def _larger(a, i, p, q, b, j, r, s):
        """Of two values with their places and two companions each, the larger; of equals, the first."""
        left = (a > b) | ((a == b) & (i < j))
        return tl.where(left, a, b), tl.where(left, i, j), tl.where(left, p, r), tl.where(left, q, s)

    @triton.jit
    def _sweep_kernel(gram, ys, Cs, betas, taken, steps, tolerance, n, c, N: tl.constexpr):
        """One program per problem and penalty: the steps of `_steps` from beta = 0, all vectors in registers.

        The range of decision values, of which `tolerance` is a share, is taken every 64 steps.
        """
        program = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, N)
        inside = k < n
        base = gram + program // c * n * n
        C = tl.load(Cs + program % c)
        y = tl.load(ys + program // c * n + k, mask=inside, other=0.0)
        # beyond n, y and both bounds are 0: what is there can neither go up nor down
        low, high = tl.minimum(y, 0.0) * C, tl.maximum(y, 0.0) * C
        beta, e = tl.zeros_like(y), y
        diagonal = tl.load(base + k.to(tl.int64) * (n + 1), mask=inside, other=0.0)
        smallest = 1e-12 * tl.sum(diagonal, axis=0) / n + 1e-300
        stop = tl.zeros((), tl.float64)
        done = tl.zeros((), tl.int32)
        go_on = done < steps
        while go_on:
            if done % 64 == 0:
                largest = tl.max(tl.where(inside, y - e, float("-inf")), axis=0)
                stop = tolerance * (largest - tl.min(tl.where(inside, y - e, float("inf")), axis=0))
            up = tl.where(beta < high, e, float("-inf"))
            top, i, room_i, curve_i = tl.reduce((up, k, high - beta, diagonal), 0, _larger)
            line = tl.load(base + i.to(tl.int64) * n + k, mask=inside, other=0.0)
            reach = tl.where(beta > low, top - e, float("-inf"))
            go_on = tl.max(reach, axis=0) > stop
            reach = tl.maximum(reach, 0.0)
            gain = reach / tl.maximum(diagonal + curve_i - 2 * line, smallest)
            _, j, gain_j, room_j = tl.reduce((reach * gain, k, gain, beta - low), 0, _larger)
            other = tl.load(base + j.to(tl.int64) * n + k, mask=inside, other=0.0)
            move = tl.minimum(tl.minimum(gain_j, room_i), room_j)
            move = tl.where(go_on, move, 0.0)
            rises, falls = k == tl.where(go_on, i, -1), k == tl.where(go_on, j, -1)
            beta = tl.where(rises, tl.where(move >= room_i, high, beta + move), beta)
            beta = tl.where(falls, tl.where(move >= room_j, low, beta - move), beta)
            e -= move * (line - other)
            done += go_on.to(tl.int32)
            go_on = go_on & (done < steps)
        tl.store(betas + program * n + k, beta, mask=inside)
        tl.store(taken + program, done.to(tl.int64))


def _solve_triton(gram, y, C, steps=STEPS, beta=None):
    """As `_solve_cpu`, in one launch; beta, float64 (B, c, n), may be given, and is overwritten."""
    n = y.shape[1]
    beta = y.new_empty(len(y), len(C), n) if beta is None else beta
    taken = torch.empty(beta.shape[:2], dtype=torch.int64, device=y.device)
    if len(y):
        block = triton.next_power_of_2(n)
        options = {"N": block, "num_warps": max(1, min(8, block // 64)), "enable_fp_fusion": False}
        tensors = [tensor.contiguous() for tensor in (gram, y, C)]
        with torch.cuda.device_of(gram):
            _sweep_kernel[(taken.numel(),)](*tensors, beta, taken, steps, TOLERANCE, n, len(C), **options)
    return beta, taken


def _check(features, labels, C):
    if labels.shape != features.shape[:2] or not ((C > 0) & C.isfinite()).all():
        raise ValueError(
            f"labels must be (B, n) beside features (B, n, d) and C positive and finite, got "
            f"{tuple(labels.shape)}, {tuple(features.shape)} and {C.tolist()}"
        )
    # one pass; the rows are looked for only if there is something to find
    if not features.sum(dtype=torch.float64).isfinite():
        wrong = (~features.isfinite()).any(2).nonzero()
        problem, row = wrong[0].tolist()
        raise ValueError(f"features[{problem}, {row}] has a NaN or infinite value ({len(wrong)} rows do)")
    wrong = ((labels.abs() != 1).any(1) | (labels == 1).all(1) | (labels == -1).all(1)).nonzero()
    if len(wrong):
        raise ValueError(
            f"labels[{int(wrong[0])}] are not -1 and +1, both of them ({len(wrong)} problems lack one)"
        )


def _solve(features, labels, C, backend):
    """The fields of LinearSVM in float64 for a group of problems and rising penalties."""
    y, mean = labels.double(), features.double().mean(1, keepdim=True)
    # the bias absorbs the mean, and products of centred features lose no digits to it
    x = features - mean
    gram = x @ x.mT
    beta, iterations = (_solve_triton if backend == "triton" else _solve_cpu)(gram, y, C)
    clean, intercepts, converged = _finish(gram, y[:, None], beta, C[:, None])
    left = (~converged).nonzero().tolist()
    for problem, k in left:
        stop = TOLERANCE * float(_range(gram[problem] @ beta[problem, k]))
        solved, steps, converged[problem, k] = _by_svc(gram[problem], y[problem], float(C[k]), stop)
        beta[problem, k] = solved.to(beta.device)
        iterations[problem, k] += steps
    if left:
        log.info("%d support vector machines that need many steps were left to SVC", len(left))
        clean, intercepts, _ = _finish(gram, y[:, None], beta, C[:, None])
    normals = clean @ x
    return normals, intercepts - (normals @ mean.mT)[:, :, 0], iterations, converged


@torch.no_grad()
def linear_svm(
    features: torch.Tensor, labels: torch.Tensor, C: Sequence[float] | torch.Tensor, backend: str = "auto"
) -> LinearSVM:
    """Fit a linear support vector machine with bias to each problem for each penalty.

    As sklearn's SVC(kernel="linear", C=C) does. Serves the concept bank of the post-hoc CBM, tables 2 and 3
    of the alignment paper.

    features: (B, n, d), floating point, as they are (they are centred here).
    labels: (B, n), -1 or +1, both present, on the same device.
    C: numbers or a tensor (c,), in any order.
    backend: "auto" (Triton on a GPU, else torch), "torch" (on the CPU, through numba) or "triton".

    A problem is done when its largest violation of the optimality conditions, in units of the decision value,
    is at most 2e-5 of the range of its decision values. What is not after 38,000 steps is left to SVC, whose
    kernel matrix is float32; what SVC does not end either is marked, and counted in a RuntimeWarning.

    Returns LinearSVM on the features' device: normals (B, c, d) and intercepts (B, c) in the features' dtype
    (at least float32), iterations and converged (B, c).

    Raises ValueError naming the first row with a NaN or problem of one sign, and for penalties that are not
    positive; RuntimeError if a backend cannot run.
    """
    C = torch.as_tensor(C, dtype=torch.float64, device=features.device)
    _check(features, labels, C)
    backend = choose_backend(backend, features, fits=features.shape[1] <= LARGEST)
    if backend == "torch" and features.is_cuda:
        on_cpu = linear_svm(features.cpu(), labels.cpu(), C.cpu(), "torch")
        return LinearSVM(*[field.to(features.device) for field in on_cpu])
    rising, order = C.sort()
    group = max(1, GRAM_BYTES // max(1, 8 * features.shape[1] ** 2))
    groups = zip(features.split(group), labels.split(group), strict=True)
    parts = [_solve(*part, rising, backend) for part in groups]
    dtype = torch.promote_types(features.dtype, torch.float32)
    fields = [torch.cat(field)[:, order.argsort()] for field in zip(*parts, strict=True)]
    result = LinearSVM(*[field.to(dtype) if field.is_floating_point() else field for field in fields])
    failed = int((~result.converged).sum())
    if failed:
        warnings.warn(
            f"{failed} of {result.converged.numel()} support vector machines did not converge",
            RuntimeWarning,
            stacklevel=3,
        )
    return result
