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
| e = y - G beta; at the optimum e_i = b wherever 0 < y_i beta_i < C | `e` | (B, n) |

Method: sequential minimal optimisation. A step moves beta_i up and beta_j down, i having the largest e of
those that can go up and j, of those that can go down, the one that gains most; the optimum is where no e that
can go up exceeds one that can go down. Penalties are solved in increasing order, each from the one before:
where no beta has reached its bound, the next solution is the same.

Why a kernel: a step needs two lines of G and a few vectors of length n. As torch operations over all problems
that is about twenty passes through (B, n) memory and as many launches; in one program per problem the vectors
stay on chip, and 16 n bytes of G are read. G is made once for all penalties. The CPU path runs the same steps
compiled by numba, a problem per thread.
"""

import warnings
from collections.abc import Iterator, Sequence
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
# after so many rounds (38,000 steps), a problem gets the interior-point method once
INTERIOR_POINT_ROUND = 12


class LinearSVM(NamedTuple):
    """B problems solved for c penalties each."""

    normals: torch.Tensor  # (B, c, d), w
    intercepts: torch.Tensor  # (B, c), b: the decision value of x is w.x + b
    gap: torch.Tensor  # (B, c), (primal - dual objective) / primal objective, the accuracy reached
    iterations: torch.Tensor  # (B, c) int64, steps taken, those of smaller penalties not counted
    converged: torch.Tensor  # (B, c) bool


def linear_svm_reference(
    features: torch.Tensor, labels: torch.Tensor, C: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One problem and one penalty in float64, by an interior-point method: the tests' oracle.

    features: (n, d), floating point. labels: (n,), -1 or +1. C: a positive number.

    Returns the normal (d,), the intercept and the relative duality gap.
    Raises ValueError as `linear_svm` does.
    """
    _check(features[None], labels[None], [C])
    mean = features.double().mean(0)
    x, y = (features.double() - mean)[None], labels.double()[None]
    gram = x @ x.mT
    beta, intercept, gap = _finish(y, gram, _interior_point(gram, y, C), C)
    normal = beta[0] @ x[0]
    return normal, intercept[0] - normal @ mean, gap[0]


def _box(y, C):
    """Bounds of beta, exactly 0 or C in y's dtype: (A, n) each."""
    return y.clamp(max=0) * C, y.clamp(min=0) * C


def _largest_up(e, y, beta, C):
    """The largest e of the samples whose beta can go up (A,)."""
    can_rise = torch.where(y > 0, beta < C, beta < 0)
    return torch.where(can_rise, e, -torch.inf).amax(1)


def _smallest_down(e, y, beta, C):
    """The smallest e of the samples whose beta can go down (A,)."""
    can_fall = torch.where(y > 0, beta > 0, beta > -C)
    return torch.where(can_fall, e, torch.inf).amin(1)


def _residual(gram, y, beta):
    return y - torch.bmm(gram, beta[:, :, None])[:, :, 0]


def _violation(e, y, beta, C):
    """How far the optimum is violated, and the range of decision values, (A,) each.

    The former is by how much the largest e that can go up exceeds the smallest that can go down.
    """
    decision = y - e
    gap = _largest_up(e, y, beta, C) - _smallest_down(e, y, beta, C)
    return gap, decision.amax(1) - decision.amin(1)


def _finish(y, gram, beta, C):
    """beta (A, n) cleaned, the intercept and the relative duality gap (A,).

    The intercept is, as libsvm's, the mean e of the samples strictly between their bounds, else midway.
    """
    alpha = y * beta
    near_zero = alpha < 1e-9 * alpha.amax(1, keepdim=True)
    alpha = torch.where(near_zero, 0.0, torch.where(C - alpha < 1e-9 * C, C, alpha))
    beta = y * alpha  # without the crumbs that rounding leaves beside a bound
    e = _residual(gram, y, beta)
    free = (alpha > 0) & (alpha < C)
    middle = (_largest_up(e, y, beta, C) + _smallest_down(e, y, beta, C)) / 2
    intercept = torch.where(free.any(1), (e * free).sum(1) / free.sum(1).clamp(min=1), middle)
    quadratic = 0.5 * (beta * (y - e)).sum(1)  # 1/2 |w|^2
    hinge = (1 - y * (y - e + intercept[:, None])).clamp(min=0).sum(1)
    primal = quadratic + C * hinge
    gap = (primal - ((y * beta).sum(1) - quadratic)) / primal
    return beta, intercept, gap


def _interior_point(gram, y, C, rounds=100):
    """The dual solution by a primal-dual interior-point method, on its bounds where it should be.

    gram (A, n, n) and y (A, n), float64 -> beta (A, n). The bounds' multipliers, p >= 0 of low <= beta and
    q >= 0 of beta <= high, obey gram beta - y + b - p + q = 0 and, at the optimum,
    p (beta - low) = q (high - beta) = 0. Newton's method follows the solutions for which these products equal
    mu, while mu shrinks to 0.
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
        beta = _moved(beta, d_beta, length)
        b = _moved(b, d_b, length)
        p = _moved(p, d_p, length)
        q = _moved(q, d_q, length)
    exact_low, exact_high = _box(y, C)
    inside = (beta / unit).clamp(exact_low, exact_high)
    not_low = torch.where(high - beta < q, exact_high, inside)
    return torch.where(beta - low < p, exact_low, not_low)


def _moved(value, direction, length):
    """A step of the given length (A, 1); where it is 0 the direction may be NaN."""
    return value + torch.where(length > 0, length * direction, 0.0)


def _feasible(beta, y, C):
    """beta (A, n), within its bounds but for rounding, made to sum to zero within them.

    By the free samples where there are any, else by shrinking the heavier sign.
    """
    low, high = _box(y, C)
    beta = beta.nan_to_num().clamp(low, high)
    free = (beta > low) & (beta < high)
    excess = (beta.sum(1) / free.sum(1).clamp(min=1))[:, None]
    beta = torch.where(free, beta - excess, beta).clamp(low, high)
    up, down = beta.clamp(min=0).sum(1), -beta.clamp(max=0).sum(1)
    least, exact = torch.minimum(up, down), (up - down).abs() < 1e-9 * up
    scale = torch.where(y > 0, (least / up)[:, None], (least / down)[:, None])
    return torch.where(exact[:, None], beta, beta * scale.nan_to_num())


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
def _steps_all(gram, problems, beta, e, low, high, stop, steps, taken):
    for p in numba.prange(len(problems)):
        taken[p] = _steps(gram[problems[p]], beta[p], e[p], low[p], high[p], stop[p], steps)


@numba.njit(cache=True, parallel=True)
def _products_all(gram, problems, beta, out):
    for p in numba.prange(len(problems)):
        out[p] = 0.0
        for k in range(beta.shape[1]):
            if beta[p, k] != 0.0:
                out[p] += beta[p, k] * gram[problems[p], k]


def _products_cpu(gram, problems, beta):
    """G beta (A, n) of `problems` (A,), without copying their G."""
    out = torch.empty_like(beta)
    _products_all(gram.numpy(), problems.numpy(), beta.numpy(), out.numpy())
    return out


def _sweep_cpu(gram, problems, beta, e, low, high, stop, steps):
    """At most `steps` steps on `problems` (A,), changing beta and e (A, n) in place; how many, (A,).

    All float64 on the CPU; gram (B, n, n) of all problems, low and high (A, n), stop (A,).
    """
    taken = torch.empty_like(problems)
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    arrays = [tensor.numpy() for tensor in (gram, problems, beta, e, low, high, stop)]
    _steps_all(*arrays, steps, taken.numpy())
    return taken


if triton is not None:

    @triton.jit
    def _at(values, k, i):
        return tl.sum(tl.where(k == i, values, 0.0), axis=0)

    @triton.jit
    def _sweep_kernel(gram, problems, betas, es, lows, highs, stops, taken, steps, n, N: tl.constexpr):
        """One program per problem: `_sweep_cpu` with beta, e and the bounds in registers."""
        program = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, N)
        inside = k < n
        base = gram + tl.load(problems + program) * n * n
        here = program * n + k
        beta = tl.load(betas + here, mask=inside, other=0.0)
        e = tl.load(es + here, mask=inside, other=0.0)
        low = tl.load(lows + here, mask=inside, other=0.0)
        high = tl.load(highs + here, mask=inside, other=0.0)
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


def _sweep_triton(gram, problems, beta, e, low, high, stop, steps):
    """Launch the kernel: as `_sweep_cpu`, all float64 but `problems`, beta and e contiguous."""
    taken = torch.empty_like(problems)
    if len(problems):
        n = beta.shape[1]
        block = triton.next_power_of_2(n)
        with torch.cuda.device_of(gram):
            _sweep_kernel[(len(problems),)](
                gram.contiguous(),
                problems,
                beta,
                e,
                low.contiguous(),
                high.contiguous(),
                stop.contiguous(),
                taken,
                steps,
                n,
                N=block,
                num_warps=max(1, min(8, block // 64)),
                enable_fp_fusion=False,
            )
    return taken


def _products_gpu(gram, problems, beta):
    """G beta (A, n) of `problems` (A,)."""
    return torch.bmm(gram[problems], beta[:, :, None])[:, :, 0]


def _check(features, labels, C):
    if features.ndim != 3 or not features.is_floating_point():
        raise ValueError(
            f"features must be floating point of shape (B, n, d), got {features.dtype} "
            f"{tuple(features.shape)}"
        )
    if labels.shape != features.shape[:2] or labels.device != features.device:
        raise ValueError(
            f"labels must be (B, n) beside features {tuple(features.shape)} on {features.device}, got "
            f"{tuple(labels.shape)} on {labels.device}"
        )
    if not all(0 < penalty < float("inf") for penalty in C):
        raise ValueError(f"C must be positive and finite, got {C}")
    # one pass; the rows are looked for only if there is something to find
    if not features.sum(dtype=torch.float64).isfinite():
        wrong = (~features.isfinite()).any(2).nonzero()
        problem, row = wrong[0].tolist()
        raise ValueError(f"features[{problem}, {row}] has a NaN or infinite value ({len(wrong)} rows do)")
    wrong = ((labels != 1) & (labels != -1)).nonzero()
    if len(wrong):
        problem, row = wrong[0].tolist()
        raise ValueError(f"labels[{problem}, {row}] is {labels[problem, row].item()}, not -1 or +1")
    wrong = ((labels == 1).all(1) | (labels == -1).all(1)).nonzero()
    if len(wrong):
        raise ValueError(
            f"labels[{int(wrong[0])}] are all of one sign ({len(wrong)} problems lack positives or negatives)"
        )


def _round_lengths() -> Iterator[int]:
    """Steps of each round: short at first, for `stop` needs the range of e."""
    steps = 64
    while True:
        yield steps
        steps = min(4 * steps, STEPS)


def _solve(gram, y, penalties, tolerance, max_iterations, sweep, products):
    """Solve each problem for rising penalties; gram (B, n, n) and y (B, n), float64.

    Yields, for each penalty, the fields of LinearSVM, with beta (B, n) in place of the normals.
    """
    beta, e = torch.zeros_like(y), y.clone()
    # no beta at its bound: the same for every larger C
    settled = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    for C in penalties:
        low, high = _box(y, C)
        iterations = torch.zeros(len(y), dtype=torch.int64, device=y.device)
        converged = settled.clone()
        open_problems = (~settled).nonzero()[:, 0]
        for number, steps in enumerate(_round_lengths()):
            if not len(open_problems):
                break
            here_y, here_beta, here_e = y[open_problems], beta[open_problems], e[open_problems]
            if number == INTERIOR_POINT_ROUND:  # badly conditioned: steps would be counted in millions
                here_beta, here_e = _restarted(gram, open_problems, here_y, here_beta, here_e, C, products)
            stop = tolerance * _violation(here_e, here_y, here_beta, C)[1]
            limit = min(steps, max_iterations - int(iterations[open_problems].min()))
            iterations[open_problems] += sweep(
                gram, open_problems, here_beta, here_e, low[open_problems], high[open_problems], stop, limit
            )
            # anew, against the rounding errors of many steps
            here_e = here_y - products(gram, open_problems, here_beta)
            beta[open_problems], e[open_problems] = here_beta, here_e
            violation, span = _violation(here_e, here_y, here_beta, C)
            done = violation <= 2 * tolerance * span
            converged[open_problems] = done
            open_problems = open_problems[~done & (iterations[open_problems] < max_iterations)]
        settled = converged & (beta.abs() < C).all(1)
        yield *_finish(y, gram, beta, C), iterations, converged


def _restarted(gram, problems, y, beta, e, C, products):
    """beta and e (A, n) by the interior-point method where its dual objective is higher, else as given."""
    guess = _feasible(_interior_point(gram[problems], y, C), y, C)
    e_guess = y - products(gram, problems, guess)
    # twice the dual objectives
    better = ((guess * (y + e_guess)).sum(1) > (beta * (y + e)).sum(1))[:, None]
    return torch.where(better, guess, beta), torch.where(better, e_guess, e)


@torch.no_grad()
def linear_svm(
    features: torch.Tensor,
    labels: torch.Tensor,
    C: Sequence[float] | torch.Tensor,
    tolerance: float = 1e-5,
    max_iterations: int = 1_000_000,
    backend: str = "auto",
) -> LinearSVM:
    """Fit a linear support vector machine with bias to each problem for each penalty.

    As sklearn's SVC(kernel="linear", C=C) does. Serves the concept bank of the post-hoc CBM, tables 2 and 3
    of the alignment paper.

    features: (B, n, d), floating point, as they are (they are centred here).
    labels: (B, n), -1 or +1, both present, on the same device.
    C: numbers or a tensor (c,), in any order.
    tolerance: a problem is done when its largest violation of the optimality conditions, in units of the
        decision value, is at most twice this share of the range of its decision values.
    max_iterations: steps for each problem and penalty; one that is not done then is counted in a
        RuntimeWarning and marked.
    backend: "auto" (Triton on a GPU, else torch), "torch" (on the CPU, through numba) or "triton".

    Returns LinearSVM on the features' device: normals (B, c, d), intercepts and gap (B, c) in the features'
    dtype (at least float32), iterations and converged (B, c).

    Raises ValueError naming the first row with a NaN, wrong label or problem of one sign, for labels on
    another device and penalties that are not positive; RuntimeError if a backend cannot run.
    """
    C = [float(value) for value in C]
    _check(features, labels, C)
    backend = _choose_backend(backend, features)
    if backend == "torch" and features.is_cuda:
        on_cpu = linear_svm(features.cpu(), labels.cpu(), C, tolerance, max_iterations, "torch")
        return LinearSVM(*[field.to(features.device) for field in on_cpu])
    sweep, products = (_sweep_triton, _products_gpu) if backend == "triton" else (_sweep_cpu, _products_cpu)
    order = sorted(range(len(C)), key=C.__getitem__)  # penalties rise
    inverse = sorted(range(len(C)), key=order.__getitem__)
    result = _allocate(features, len(C))
    n = features.shape[1]
    group = max(1, GRAM_BYTES // max(1, 8 * n * n))
    for start in range(0, len(features), group):
        part = slice(start, start + group)
        y, mean = labels[part].double(), features[part].double().mean(1, keepdim=True)
        # the bias absorbs the mean, and products of centred features lose no digits to it
        x = features[part] - mean
        solved = _solve(x @ x.mT, y, [C[k] for k in order], tolerance, max_iterations, sweep, products)
        # (B, c, …), penalties in the order of C
        betas, intercepts, *others = [
            torch.stack(field, 1)[:, inverse] for field in zip(*solved, strict=True)
        ]
        normals = betas @ x
        intercepts = intercepts - (normals @ mean.mT)[:, :, 0]
        for field, value in zip(result, (normals, intercepts, *others), strict=True):
            field[part] = value.to(field.dtype)
    failed = int((~result.converged).sum())
    if failed:
        warnings.warn(
            f"{failed} of {result.converged.numel()} support vector machines did not reach tolerance "
            f"{tolerance} in {max_iterations} steps; "
            f"largest relative duality gap {float(result.gap.max()):.1e}",
            RuntimeWarning,
            stacklevel=3,
        )
    return result


def _choose_backend(backend: str, features: torch.Tensor) -> str:
    n = features.shape[1]
    if backend == "auto":
        can_run = features.is_cuda and triton is not None and n <= LARGEST
        return "triton" if can_run else "torch"
    if backend not in ("torch", "triton"):
        raise ValueError(f"backend must be 'auto', 'torch' or 'triton', got {backend!r}")
    if backend == "triton":
        if triton is None:
            raise RuntimeError("backend='triton' needs the package triton, which is not installed")
        if n > LARGEST or not (features.is_cuda or triton.knobs.runtime.interpret):
            raise RuntimeError(
                f"backend='triton' needs a GPU and at most {LARGEST} samples per problem, got "
                f"{features.device} and {n}"
            )
    return backend


def _allocate(features: torch.Tensor, n_penalties: int) -> LinearSVM:
    dtype = torch.float64 if features.dtype == torch.float64 else torch.float32
    shape, device = (len(features), n_penalties), features.device
    return LinearSVM(
        normals=torch.empty(*shape, features.shape[2], dtype=dtype, device=device),
        intercepts=torch.empty(shape, dtype=dtype, device=device),
        gap=torch.empty(shape, dtype=dtype, device=device),
        iterations=torch.empty(shape, dtype=torch.int64, device=device),
        converged=torch.empty(shape, dtype=torch.bool, device=device),
    )
