"""Tying the guided predictions of pairs: equal where they are alike, each its own where they differ.

    mu(e1, e2, eta)_i = (e1_i + e2_i) / 2   where |e1_i - e2_i| <= q,   equation 3 of sub
                        e1_i                elsewhere
    e1, e2 <- mu(e1, e2, eta), mu(e2, e1, eta)                          equations 5 and 6

    symbol   name          shape
    e1, e2   predictions   (2P, ...), halves of a batch: references, then their guides in the same order
    eta      eta           share tied, in [0, 1]: 1 ties everything, 0 nothing (equation 3 taken at its word
                           would tie the one element most alike)
    q        thresholds    (P,), the eta-th percentile of |e1 - e2| within a pair as of torch.quantile: of n
                           values the one at place eta (n - 1) in float32, linearly interpolated

Why a kernel: with n = 4096 x 64 values (FLUX at 1024 x 1024), torch.quantile sorts them, some twenty passes
over n values and their indices, and `where`, the mean and the concatenation move 14 n values more. Here the
values are selected by the digits of their bits (distances are not negative, so their bits rise as they do):
four passes that read 2 n values, which stay in a GPU's cache, then one that reads 2 n and writes 2 n.
"""

import numpy as np
import torch

from xaihelpers.kernels.dispatch import choose_backend, tl, triton

# lowest bit and width of each digit of a float32's 31 bits without sign
DIGITS = ((20, 11), (10, 10), (0, 10))


def _percentile_place(eta, n):
    """Places of the two of n sorted values beside the percentile, and the weight of the upper one."""
    place = torch.tensor(eta, dtype=torch.float32) * (n - 1)
    lower = int(place)
    upper = min(int(place.ceil()), n - 1)
    return lower, upper, float(place - lower)


def _distances(predictions):
    """References, guides and their distances in float32, (P, n) each."""
    reference, guide = predictions.float().flatten(1).chunk(2)
    return reference, guide, (reference - guide).abs()


def _blend(predictions, reference, guide, alike):
    """The mean where a pair is alike, bool (P, n), else the predictions themselves."""
    mean = ((reference + guide) / 2).to(predictions.dtype)  # (P, n)
    untied = predictions.flatten(1).unflatten(0, (2, -1))  # (2, P, n)
    return torch.where(alike, mean, untied).reshape(predictions.shape)


def tie_reference(predictions, eta):
    """`tie` by torch.quantile, which sorts, and torch.where; same arguments, returns and errors."""
    if _check(predictions, eta) or eta == 0:
        return predictions.clone()
    reference, guide, distance = _distances(predictions)
    share = torch.tensor(eta, dtype=torch.float32, device=predictions.device)
    thresholds = torch.stack(
        [row.quantile(share) for row in distance]
    )  # row by row: quantile has a size limit
    return _blend(predictions, reference, guide, distance <= thresholds[:, None])


def _tie_torch(predictions, eta):
    """On the CPU: the two values at the percentile's place selected, not sorted."""
    reference, guide, distance = _distances(predictions)
    lower, upper, weight = _percentile_place(eta, distance.shape[1])
    partitioned = np.partition(distance.cpu().numpy(), (lower, upper), axis=1)
    neighbours = torch.from_numpy(partitioned[:, [lower, upper]]).to(distance.device)  # (P, 2)
    thresholds = torch.lerp(neighbours[:, 0], neighbours[:, 1], weight)
    return _blend(predictions, reference, guide, distance <= thresholds[:, None])


if triton is not None:

    @triton.jit
    def _distance(predictions, half, n, BLOCK: tl.constexpr):
        """This program's pair, its block of elements, which of them exist, both values and their distance."""
        pair = tl.program_id(0).to(tl.int64)
        offsets = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        base = predictions + pair * n + offsets
        a = tl.load(base, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(base + half, mask=inside, other=0.0).to(tl.float32)
        return pair, offsets, inside, a, b, tl.abs(a - b)

    @triton.jit
    def _count_kernel(
        predictions, counts, prefixes, half, n, low, width, BINS: tl.constexpr, BLOCK: tl.constexpr
    ):
        """Histogram of a digit over the distances whose higher digits are the pair's prefix."""
        pair, _, inside, _, _, distance = _distance(predictions, half, n, BLOCK)
        bits = distance.to(tl.int32, bitcast=True)
        counted = inside & ((bits >> (low + width)) == tl.load(prefixes + pair))
        histogram = tl.histogram((bits >> low) & ((1 << width) - 1), BINS, mask=counted)
        bins = tl.arange(0, BINS)
        tl.atomic_add(counts + pair * BINS + bins, histogram, mask=histogram > 0, sem="relaxed")

    @triton.jit
    def _narrow_kernel(counts, prefixes, places, more, width, BINS: tl.constexpr):
        """The digit at the wanted place: appended to the prefix; the place is then counted within it."""
        pair = tl.program_id(0).to(tl.int64)
        bins = tl.arange(0, BINS)
        histogram = tl.load(counts + pair * BINS + bins)
        cumulative = tl.cumsum(histogram, 0)
        place = tl.load(places + pair)
        digit = tl.sum((cumulative <= place).to(tl.int32), 0)
        equal = tl.sum(tl.where(bins == digit, histogram, 0), 0)
        place -= tl.sum(tl.where(bins < digit, histogram, 0), 0)
        tl.store(prefixes + pair, (tl.load(prefixes + pair) << width) | digit)
        tl.store(places + pair, place)
        tl.store(more + pair, equal - 1 - place)  # how many equal values come after it
        tl.store(counts + pair * BINS + bins, tl.zeros_like(histogram))

    @triton.jit
    def _next_kernel(predictions, prefixes, nexts, half, n, BLOCK: tl.constexpr):
        """The smallest distance above the selected one, as bits."""
        pair, _, inside, _, _, distance = _distance(predictions, half, n, BLOCK)
        bits = distance.to(tl.int32, bitcast=True)
        # 0x7F800000 is infinity
        above = tl.where(inside & (bits > tl.load(prefixes + pair)), bits, 0x7F800000)
        tl.atomic_min(nexts + pair, tl.min(above, 0), sem="relaxed")

    @triton.jit
    def _blend_kernel(predictions, tied, thresholds, half, n, BLOCK: tl.constexpr):
        """Equations 3, 5 and 6: the mean up to the pair's threshold, each side's own value above it."""
        pair, offsets, inside, a, b, distance = _distance(predictions, half, n, BLOCK)
        alike = inside & (distance <= tl.load(thresholds + pair))
        mean = (a + b) * 0.5
        for side in range(2):  # where they are not alike, their own values, bit for bit
            start = side * half + pair * n
            untied = tl.load(predictions + start + offsets, mask=inside & ~alike, other=0.0)
            tl.store(tied + start + offsets, mean, mask=alike)
            tl.store(tied + start + offsets, untied, mask=inside & ~alike)


def _tie_triton(predictions, eta, tied=None):
    """Launch the kernels; `tied`, of the shape of predictions, may be given and is overwritten."""
    predictions = predictions.contiguous()
    tied = torch.empty_like(predictions) if tied is None else tied
    pairs, half = len(predictions) // 2, predictions.numel() // 2
    n = half // pairs
    lower, upper, weight = _percentile_place(eta, n)
    integers = {"dtype": torch.int32, "device": predictions.device}
    counts = torch.zeros(pairs, 2048, **integers)
    prefixes = torch.zeros(pairs, **integers)
    more = torch.zeros(pairs, **integers)
    places = torch.full((pairs,), lower, **integers)
    nexts = torch.full((pairs,), 0x7F800000, **integers)
    BLOCK = 4096
    grid = (pairs, triton.cdiv(n, BLOCK))
    with torch.cuda.device_of(predictions):
        for low, width in DIGITS:
            bins = 1 << width
            _count_kernel[grid](
                predictions, counts, prefixes, half, n, low, width, BINS=bins, BLOCK=BLOCK, num_warps=8
            )
            _narrow_kernel[(pairs,)](counts, prefixes, places, more, width, BINS=bins, num_warps=8)
        _next_kernel[grid](predictions, prefixes, nexts, half, n, BLOCK=BLOCK, num_warps=8)
        below = prefixes.view(torch.float32)
        above = torch.where((more > 0) | (upper == lower), prefixes, nexts).view(torch.float32)
        thresholds = torch.lerp(below, above, weight)
        _blend_kernel[grid](predictions, tied, thresholds, half, n, BLOCK=BLOCK, num_warps=8)
    return tied


def _check(predictions, eta):
    """Raise on bad arguments; else whether there is nothing to tie."""
    if predictions.ndim < 2 or not predictions.is_floating_point():
        raise ValueError(
            f"predictions must be floating point of shape (2P, ...), got {predictions.dtype} "
            f"{tuple(predictions.shape)}"
        )
    if len(predictions) % 2:
        raise ValueError(
            f"predictions must hold pairs, references first and their guides after them, got an odd batch of "
            f"{len(predictions)}"
        )
    if not 0 <= eta <= 1:
        raise ValueError(f"eta must lie in [0, 1], got {eta}")
    return predictions.numel() == 0


@torch.no_grad()
def tie(predictions, eta, backend="auto"):
    """The predictions of pairs, tied (equations 3, 5 and 6 of sub), each pair by itself.

    predictions: (2P, ...), floating point and finite: P references, then their P guides.
    eta: share of the elements tied, in [0, 1]; 1 makes both equal, 0 leaves both as they are.
    backend: "auto" (Triton for predictions on a GPU, else torch), "torch" or "triton".
    Returns the same shape and dtype; distances and means are computed in float32.
    Raises ValueError: predictions that are no floating-point batch of pairs, an odd batch, a share outside
        [0, 1], an unknown backend.
    Raises RuntimeError: a backend that cannot run here.
    """
    if _check(predictions, eta) or eta == 0:
        return predictions.clone()
    implementation = _tie_torch if choose_backend(backend, predictions) == "torch" else _tie_triton
    return implementation(predictions.detach(), eta)
