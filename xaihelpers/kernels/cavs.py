"""Linear support vector machines for many concepts and penalties at once: the normals are concept activation vectors.

    min over w, b:   1/2 |w|^2 + C sum_i max(0, 1 - y_i (w.x_i + b))          the problem of sklearn's SVC(kernel="linear", C=C)
    its dual:        max over beta:  y.beta - 1/2 beta.G beta,   sum_i beta_i = 0,   0 <= y_i beta_i <= C

    x     features    (B, n, d)   n samples for each of B problems     w      normals      (B, c, d)   sum_i beta_i x_i
    y     labels      (B, n)      -1 or +1                             b      intercepts   (B, c)
    C     C           (c,)        lambda in the alignment paper        G      gram         (B, n, n)   G_ij = x_i.x_j
    e     residual    y - G beta; at the optimum e_i = b wherever 0 < y_i beta_i < C

Method: sequential minimal optimisation. A step moves beta_i up and beta_j down, i having the largest e of those that can
go up and j, of those that can go down, the one that gains most; the optimum is where no e that can go up exceeds one that can go
down. Penalties are solved in increasing order, each from the one before: where no beta has reached its bound, the next answer is the same.

Why a kernel: a step needs two lines of G and a few vectors of length n. As torch operations over all problems that is about twenty
passes through (B, n) memory and as many launches; in one program per problem the vectors stay on chip, and 16 n bytes of G are read. G is made once
for all penalties. The torch path runs the same steps compiled by numba, a problem per thread.
"""

import warnings
from itertools import accumulate, repeat
from typing import NamedTuple

import numba
import numpy as np
import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without Triton keeps the torch paths
    triton = None

GRAM_BYTES = 1 << 28  # problems are solved in groups whose Gram matrices fit in this
LARGEST = 2048  # samples per problem that a Triton program can hold
STEPS = 4096  # at most, between two fresh computations of e from beta
TURN = 12  # after so many rounds (38,000 steps), a problem gets the interior-point method once


class LinearSVM(NamedTuple):
    normals: torch.Tensor  # (B, c, d), w
    intercepts: torch.Tensor  # (B, c), b: the decision value of x is w.x + b
    gap: torch.Tensor  # (B, c), (primal - dual objective) / primal objective, the accuracy reached
    iterations: torch.Tensor  # (B, c) int64, steps taken, those of smaller penalties not counted
    converged: torch.Tensor  # (B, c) bool


def _finish(y, gram, beta, C):
    """beta cleaned (B, n), intercept (as libsvm: mean e of the samples strictly between their bounds, else midway) and relative gap."""
    alpha = y * beta
    alpha = torch.where(alpha < 1e-9 * alpha.amax(1, keepdim=True), 0.0, torch.where(C - alpha < 1e-9 * C, C, alpha))
    beta = y * alpha  # without the crumbs that rounding leaves beside a bound
    e = _residual(gram, y, beta)
    free = (alpha > 0) & (alpha < C)
    middle = (_top(e, y, beta, C) + _bottom(e, y, beta, C)) / 2
    b = torch.where(free.any(1), (e * free).sum(1) / free.sum(1).clamp(min=1), middle)
    quadratic = 0.5 * (beta * (y - e)).sum(1)  # 1/2 |w|^2
    primal = quadratic + C * (1 - y * (y - e + b[:, None])).clamp(min=0).sum(1)
    gap = (primal - ((y * beta).sum(1) - quadratic)) / primal
    return beta, b, gap


def _box(y, C):
    return y.clamp(max=0) * C, y.clamp(min=0) * C  # bounds of beta, exactly 0 or C in y's dtype


def _top(e, y, beta, C):
    return torch.where(torch.where(y > 0, beta < C, beta < 0), e, -torch.inf).amax(1)  # the largest e that can go up (B,)


def _bottom(e, y, beta, C):
    return torch.where(torch.where(y > 0, beta > 0, beta > -C), e, torch.inf).amin(1)  # the smallest e that can go down (B,)


def _interior_point(gram, y, C, rounds=100):
    """The dual solution by a primal-dual interior-point method: gram (A, n, n), y (A, n), float64 -> beta (A, n), on its bounds where it should be.

    The bounds' multipliers p >= 0 of low <= beta and q >= 0 of beta <= high obey gram beta - y + b - p + q = 0 and, at the optimum,
    p (beta - low) = q (high - beta) = 0; Newton's method follows the same products equal to a mu that shrinks to 0.
    """
    unit = gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-300)[:, None]  # in units where G_ii is about 1
    gram, (low, high) = gram / unit[:, :, None], _box(y, C * unit)
    beta, b = y * (C * unit / 2).clamp(max=1.0), torch.zeros_like(unit)
    p, q = torch.ones_like(y), torch.ones_like(y)
    for _ in range(rounds):
        down, up = beta - low, high - beta
        mu = (p * down + q * up).mean(1, keepdim=True) / 2
        error = torch.bmm(gram, beta[:, :, None])[:, :, 0] - y + b - p + q
        enough = 1e-11 * (y * beta).mean(1, keepdim=True)
        active = (mu > enough) | (error.abs().amax(1, keepdim=True) > 1e-8)
        if not active.any():
            break
        target = torch.maximum(0.1 * mu, 0.3 * enough)  # no smaller, or the equations lose their last digits
        factor = torch.linalg.cholesky_ex(gram + torch.diag_embed(p / down + q / up)).L
        right = torch.stack([target / down - p - target / up + q - error, torch.ones_like(y)], 2)
        move, share = torch.cholesky_solve(right, factor).unbind(2)
        d_b = (move.sum(1, keepdim=True) + beta.sum(1, keepdim=True)) / share.sum(1, keepdim=True)
        d_beta = move - d_b * share
        d_p, d_q = target / down - p - p / down * d_beta, target / up - q + q / up * d_beta
        shrink = -torch.cat([d_beta / down, -d_beta / up, d_p / p, d_q / q], 1).amin(1, keepdim=True)
        length = torch.where(active, (0.99 / shrink.clamp(min=1e-9)).clamp(max=1.0), 0.0)
        length = torch.where((d_beta + d_p + d_q).isfinite().all(1, keepdim=True), length, 0.0)
        beta, b, p, q = (v + torch.where(length > 0, length * d, 0.0) for v, d in ((beta, d_beta), (b, d_b), (p, d_p), (q, d_q)))
    low_, high_ = _box(y, C)
    return torch.where(beta - low < p, low_, torch.where(high - beta < q, high_, (beta / unit).clamp(low_, high_)))


def _feasible(beta, y, C):
    """Make beta (A, n), within its bounds but for rounding, sum to zero within them: by the free samples, else by the heavier sign."""
    low, high = _box(y, C)
    beta = beta.nan_to_num().clamp(low, high)
    free = (beta > low) & (beta < high)
    beta = torch.where(free, beta - (beta.sum(1) / free.sum(1).clamp(min=1))[:, None], beta).clamp(low, high)
    up, down = beta.clamp(min=0).sum(1), -beta.clamp(max=0).sum(1)
    least, exact = torch.minimum(up, down), (up - down).abs() < 1e-9 * up
    scale = torch.where(y > 0, (least / up)[:, None], (least / down)[:, None])
    return torch.where(exact[:, None], beta, beta * scale.nan_to_num())


def linear_svm_reference(features, labels, C):
    """One problem (n, d) and one penalty, in float64: the tests' oracle.

    labels (n,) in {-1, +1}, C > 0 -> normal (d,), intercept, relative duality gap. See `linear_svm` for what is raised.
    """
    _check(features[None], labels[None], [C])
    mean = features.double().mean(0)
    x, y = (features.double() - mean)[None], labels.double()[None]
    gram = x @ x.mT
    beta, intercept, gap = _finish(y, gram, _interior_point(gram, y, C), C)
    normal = beta[0] @ x[0]
    return normal, intercept[0] - normal @ mean, gap[0]


def _residual(gram, y, beta):
    return y - torch.bmm(gram, beta[:, :, None])[:, :, 0]


def _violation(e, y, beta, C):
    """How far the largest e that can go up exceeds the smallest that can go down (A,), and the range of decision values (A,)."""
    decision = y - e
    return _top(e, y, beta, C) - _bottom(e, y, beta, C), decision.amax(1) - decision.amin(1)


@numba.njit(cache=True, nogil=True)
def _steps(gram, beta, e, low, high, stop, steps):
    """Steps on one problem, in place, until no pair violates the optimum by more than `stop`; returns how many were taken."""
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
def _steps_all(gram, which, beta, e, low, high, stop, steps, taken):
    for p in numba.prange(len(which)):
        taken[p] = _steps(gram[which[p]], beta[p], e[p], low[p], high[p], stop[p], steps)


@numba.njit(cache=True, parallel=True)
def _products_all(gram, which, beta, out):
    for p in numba.prange(len(which)):
        out[p] = 0.0
        for k in range(beta.shape[1]):
            if beta[p, k] != 0.0:
                out[p] += beta[p, k] * gram[which[p], k]


def _products_torch(gram, which, beta):
    """G beta (A, n) of problems `which`, without copying their G."""
    out = torch.empty_like(beta)
    _products_all(gram.numpy(), which.numpy(), beta.numpy(), out.numpy())
    return out


def _sweep_torch(gram, which, beta, e, low, high, stop, steps):
    """At most `steps` steps on problems `which` (A,), changing beta and e (A, n) in place; all float64 on the CPU. Returns steps taken (A,)."""
    taken = torch.empty_like(which)
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    _steps_all(*(v.numpy() for v in (gram, which, beta, e, low, high, stop)), steps, taken.numpy())
    return taken


if triton is not None:

    @triton.jit
    def _at(values, k, i):
        return tl.sum(tl.where(k == i, values, 0.0), axis=0)

    @triton.jit
    def _sweep_kernel(gram, which, betas, es, lows, highs, stops, taken, steps, n, N: tl.constexpr):
        """One program per problem: `_sweep_torch` with beta, e and the bounds in registers."""
        program = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, N)
        inside = k < n
        base = gram + tl.load(which + program) * n * n
        here = program * n + k
        beta, e = tl.load(betas + here, mask=inside, other=0.0), tl.load(es + here, mask=inside, other=0.0)
        low, high = tl.load(lows + here, mask=inside, other=0.0), tl.load(highs + here, mask=inside, other=0.0)
        diagonal = tl.load(base + k.to(tl.int64) * (n + 1), mask=inside, other=0.0)
        smallest = 1e-12 * tl.sum(diagonal, axis=0) / n + 1e-300
        stop = tl.load(stops + program)
        done = tl.zeros((), tl.int32)
        go_on = done < steps
        while go_on:
            up = tl.where(inside & (beta < high), e, float("-inf"))
            i = tl.argmax(up, axis=0)
            reach = tl.where(inside & (beta > low), tl.max(up, axis=0) - e, float("-inf"))
            go_on = tl.max(reach, axis=0) > stop
            line = tl.load(base + i.to(tl.int64) * n + k, mask=inside, other=0.0)
            curvature = tl.maximum(diagonal + _at(diagonal, k, i) - 2 * line, smallest)
            reach = tl.maximum(reach, 0.0)
            j = tl.argmax(reach * reach / curvature, axis=0)
            other = tl.load(base + j.to(tl.int64) * n + k, mask=inside, other=0.0)
            room_i, room_j = _at(high - beta, k, i), _at(beta - low, k, j)
            step = tl.minimum(tl.minimum(_at(reach / curvature, k, j), room_i), room_j)
            step = tl.where(go_on, step, 0.0)
            rises, falls = k == tl.where(go_on, i, -1), k == tl.where(go_on, j, -1)
            beta = tl.where(rises, tl.where(step >= room_i, high, beta + step), beta)
            beta = tl.where(falls, tl.where(step >= room_j, low, beta - step), beta)
            e -= step * (line - other)
            done += go_on.to(tl.int32)
            go_on = go_on & (done < steps)
        tl.store(betas + here, beta, mask=inside)
        tl.store(es + here, e, mask=inside)
        tl.store(taken + program, done.to(tl.int64))


def _sweep_triton(gram, which, beta, e, low, high, stop, steps):
    """Launch the kernel: same arguments and result as `_sweep_torch`, all float64 but `which`, beta and e contiguous."""
    taken = torch.empty_like(which)
    if len(which):
        block = triton.next_power_of_2(beta.shape[1])
        with torch.cuda.device_of(gram):
            _sweep_kernel[(len(which),)](
                gram.contiguous(), which, beta, e, low.contiguous(), high.contiguous(), stop.contiguous(), taken, steps, beta.shape[1],
                N=block, num_warps=max(1, min(8, block // 64)), enable_fp_fusion=False,
            )  # fmt: skip
    return taken


def _check(features, labels, C):
    if features.ndim != 3 or not features.is_floating_point():
        raise ValueError(f"features must be floating point of shape (B, n, d), got {features.dtype} {tuple(features.shape)}")
    if labels.shape != features.shape[:2] or labels.device != features.device:
        raise ValueError(f"labels must be (B, n) beside features {tuple(features.shape)} on {features.device}, got {tuple(labels.shape)} on {labels.device}")
    if not all(0 < penalty < float("inf") for penalty in C):
        raise ValueError(f"C must be positive and finite, got {C}")
    if not features.sum(dtype=torch.float64).isfinite():  # one pass; the rows are looked for only if there is something to find
        bad = (~features.isfinite()).any(2).nonzero()
        problem, row = bad[0].tolist()
        raise ValueError(f"features[{problem}, {row}] has a NaN or infinite value ({len(bad)} rows do)")
    bad = ((labels != 1) & (labels != -1)).nonzero()
    if len(bad):
        problem, row = bad[0].tolist()
        raise ValueError(f"labels[{problem}, {row}] is {labels[problem, row].item()}, not -1 or +1")
    bad = ((labels == 1).all(1) | (labels == -1).all(1)).nonzero()
    if len(bad):
        raise ValueError(f"labels[{int(bad[0])}] are all of one sign ({len(bad)} problems lack positives or negatives)")


def _solve(gram, y, penalties, tolerance, max_iterations, sweep, products):
    """Solve each problem for rising penalties; gram (B, n, n) and y (B, n), float64. Yields the fields of LinearSVM per penalty, beta for the normals."""
    beta, e = torch.zeros_like(y), y.clone()
    settled = torch.zeros(len(y), dtype=torch.bool, device=y.device)  # no beta at its bound: the same for every larger C
    for C in penalties:
        low, high = _box(y, C)
        iterations, converged = torch.zeros(len(y), dtype=torch.int64, device=y.device), settled.clone()
        which = (~settled).nonzero()[:, 0]
        rounds = accumulate(repeat(4), lambda steps, factor: min(steps * factor, STEPS), initial=64)  # short at first: `stop` needs the range of e
        for turn, steps in enumerate(rounds):
            if not len(which):
                break
            beta_, e_ = beta[which], e[which]
            if turn == TURN:  # badly conditioned: steps would be counted in millions
                guess = _feasible(_interior_point(gram[which], y[which], C), y[which], C)
                e_guess = y[which] - products(gram, which, guess)
                better = ((guess * (y[which] + e_guess)).sum(1) > (beta_ * (y[which] + e_)).sum(1))[:, None]  # twice the dual objective
                beta_, e_ = torch.where(better, guess, beta_), torch.where(better, e_guess, e_)
            stop = tolerance * _violation(e_, y[which], beta_, C)[1]
            limit = min(steps, max_iterations - int(iterations[which].min()))
            iterations[which] += sweep(gram, which, beta_, e_, low[which], high[which], stop, limit)
            e_ = y[which] - products(gram, which, beta_)  # anew, against the rounding errors of many steps
            beta[which], e[which] = beta_, e_
            violation, span = _violation(e_, y[which], beta_, C)
            done = violation <= 2 * tolerance * span
            converged[which] = done
            which = which[~done & (iterations[which] < max_iterations)]
        settled = converged & (beta.abs() < C).all(1)
        yield *_finish(y, gram, beta, C), iterations, converged


@torch.no_grad()
def linear_svm(features, labels, C, tolerance=1e-5, max_iterations=1_000_000, backend="auto"):
    """Fit a linear support vector machine with bias to each problem for each penalty, as sklearn's SVC(kernel="linear", C=C) does.

    features: (B, n, d), floating point, as they are (they are centred here). labels: (B, n), -1 or +1, both present.
    C: numbers or a tensor (c,), in any order. backend: "auto" (Triton on a GPU, else torch), "torch" or "triton".
    A problem is done when its largest violation of the optimality conditions, in units of the decision value, is at most twice tolerance times
    the range of its decision values; one that is not after max_iterations steps is counted in a RuntimeWarning and marked.
    Returns LinearSVM: normals (B, c, d), intercepts, gap (B, c) in the features' dtype (at least float32), iterations and converged (B, c).
    Raises ValueError naming the first row with a NaN, wrong label or problem of one sign; RuntimeError if a backend cannot run.
    Serves the concept bank of the post-hoc CBM, tables 2 and 3 of the alignment paper.
    """
    C = [float(value) for value in C]
    _check(features, labels, C)
    on_gpu, n = features.is_cuda, features.shape[1]
    if backend == "auto":
        backend = "triton" if on_gpu and triton is not None and n <= LARGEST else "torch"
    if backend not in ("torch", "triton"):
        raise ValueError(f"backend must be 'auto', 'torch' or 'triton', got {backend!r}")
    if backend == "torch" and on_gpu:
        return LinearSVM(*(field.to(features.device) for field in linear_svm(features.cpu(), labels.cpu(), C, tolerance, max_iterations, "torch")))
    if backend == "triton":
        if triton is None:
            raise RuntimeError("backend='triton' needs the package triton, which is not installed")
        if n > LARGEST or not (on_gpu or triton.knobs.runtime.interpret):
            raise RuntimeError(f"backend='triton' needs a GPU and at most {LARGEST} samples per problem, got {features.device} and {n}")
    path = (_sweep_triton, lambda gram, which, beta: torch.bmm(gram[which], beta[:, :, None])[:, :, 0]) if backend == "triton" else (_sweep_torch, _products_torch)
    dtype = torch.float64 if features.dtype == torch.float64 else torch.float32
    order = sorted(range(len(C)), key=C.__getitem__)
    inverse = sorted(range(len(C)), key=order.__getitem__)
    shape = len(features), len(C)
    result = LinearSVM(*(torch.empty(shape + tail, dtype=kind, device=features.device) for tail, kind in (
        ((features.shape[2],), dtype), ((), dtype), ((), dtype), ((), torch.int64), ((), torch.bool))))  # fmt: skip
    group = max(1, GRAM_BYTES // max(1, 8 * n * n))
    for start in range(0, len(features), group):
        part = slice(start, start + group)
        y, mean = labels[part].double(), features[part].double().mean(1, keepdim=True)
        x = features[part] - mean  # the bias absorbs it, and products of centred features lose no digits to it
        solved = _solve(x @ x.mT, y, [C[k] for k in order], tolerance, max_iterations, *path)
        betas, *fields = (torch.stack(field, 1)[:, inverse] for field in zip(*solved))  # (B, c, …), penalties as given
        normals = betas @ x
        fields[0] = fields[0] - (normals @ mean.mT)[:, :, 0]
        for field, value in zip(result, (normals, *fields)):
            field[part] = value.to(field.dtype)
    failed = int((~result.converged).sum())
    if failed:
        warnings.warn(
            f"{failed} of {result.converged.numel()} support vector machines did not reach tolerance {tolerance} in {max_iterations} steps; "
            f"largest relative duality gap {float(result.gap.max()):.1e}", RuntimeWarning, stacklevel=3,
        )  # fmt: skip
    return result
