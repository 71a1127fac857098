"""Tying the guided predictions of pairs: equal where they are alike, each its own where they differ.

    mu(e1, e2, eta)_i = (e1_i + e2_i) / 2   where |e1_i - e2_i| <= the eta-th percentile within the pair,   eq. 3 of sub
                        e1_i                elsewhere
    applied both ways (eq. 5, 6)

    e1, e2   predictions (2P, ...)   halves of one batch: references first, their guides after them in the same order
    eta      share tied, in [0, 1]   0 ties nothing (eq. 3 taken at its word would tie the one likest element), 1 everything

The percentile is torch.quantile's: of n values, the one at place eta (n - 1) in float32, between two of them linearly.

Why a kernel: with n = 4096 x 64 values (FLUX at 1024 x 1024), torch.quantile sorts them, some twenty passes over n values and their indices, and
`where`, the mean and the concatenation move 14 n values more. Here the values are selected by the digits of their bits (distances are not negative, so
their bits rise as they do): four passes that read 2 n values, which stay in a GPU's cache, then one that reads 2 n and writes 2 n.
"""

import numpy as np
import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without Triton keeps the torch paths
    triton = None

DIGITS = ((20, 11), (10, 10), (0, 10))  # lowest bit and width of each digit of a float32's 31 bits without sign


def _place(eta, n):
    """Between which of n sorted values the percentile lies, and how far, as torch.quantile reckons it: low, high, weight."""
    place = torch.tensor(eta, dtype=torch.float32) * (n - 1)
    low = int(place)
    return low, min(int(place.ceil()), n - 1), float(place - low)


def _distances(predictions):
    reference, guide = predictions.float().flatten(1).chunk(2)  # (P, n) each
    return reference, guide, (reference - guide).abs()


def _blended(predictions, reference, guide, alike):
    mean, own = ((reference + guide) / 2).to(predictions.dtype), predictions.flatten(1).unflatten(0, (2, -1))  # (2, P, n)
    return torch.where(alike, mean, own).reshape(predictions.shape)


def tie_reference(predictions, eta):
    """`tie` by torch.quantile, which sorts, and torch.where; same arguments, returns and errors."""
    if _check(predictions, eta) or eta == 0:
        return predictions.clone()
    reference, guide, distance = _distances(predictions)
    threshold = torch.stack([row.quantile(torch.tensor(eta, dtype=torch.float32, device=row.device)) for row in distance])
    return _blended(predictions, reference, guide, distance <= threshold[:, None])


def _tie_torch(predictions, eta):
    """On the CPU: the two values at the percentile's place selected, not sorted."""
    reference, guide, distance = _distances(predictions)
    low, high, weight = _place(eta, distance.shape[1])
    found = torch.from_numpy(np.partition(distance.cpu().numpy(), (low, high), axis=1)[:, [low, high]]).to(distance.device)
    threshold = torch.lerp(found[:, 0], found[:, 1], weight)
    return _blended(predictions, reference, guide, distance <= threshold[:, None])


if triton is not None:

    @triton.jit
    def _distance(predictions, half, n, BLOCK: tl.constexpr):
        """This program's pair and its block of elements: where they lie, which are inside, both values and their distance."""
        pair = tl.program_id(0).to(tl.int64)
        offsets = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        base = predictions + pair * n + offsets
        a, b = tl.load(base, mask=inside, other=0.0).to(tl.float32), tl.load(base + half, mask=inside, other=0.0).to(tl.float32)
        return pair, offsets, inside, a, b, tl.abs(a - b)

    @triton.jit
    def _count_kernel(predictions, counts, prefixes, half, n, low, width, BINS: tl.constexpr, BLOCK: tl.constexpr):
        """How often each value of a digit occurs among the distances whose higher digits are the pair's prefix."""
        pair, _, inside, _, _, distance = _distance(predictions, half, n, BLOCK)
        bits = distance.to(tl.int32, bitcast=True)
        counted = inside & ((bits >> (low + width)) == tl.load(prefixes + pair))
        found = tl.histogram((bits >> low) & ((1 << width) - 1), BINS, mask=counted)
        bins = tl.arange(0, BINS)
        tl.atomic_add(counts + pair * BINS + bins, found, mask=found > 0, sem="relaxed")

    @triton.jit
    def _narrow_kernel(counts, prefixes, places, more, width, BINS: tl.constexpr):
        """The digit at the wanted place: the prefix grows by it, the place is reckoned within it; counts are zero again."""
        pair = tl.program_id(0).to(tl.int64)
        bins = tl.arange(0, BINS)
        found = tl.load(counts + pair * BINS + bins)
        upto = tl.cumsum(found, 0)
        place = tl.load(places + pair)
        digit = tl.sum((upto <= place).to(tl.int32), 0)
        here = tl.sum(tl.where(bins == digit, found, 0), 0)
        place -= tl.sum(tl.where(bins < digit, found, 0), 0)
        tl.store(prefixes + pair, (tl.load(prefixes + pair) << width) | digit)
        tl.store(places + pair, place)
        tl.store(more + pair, here - 1 - place)  # how many equal values come after it
        tl.store(counts + pair * BINS + bins, tl.zeros_like(found))

    @triton.jit
    def _next_kernel(predictions, prefixes, nexts, half, n, BLOCK: tl.constexpr):
        """The smallest distance above the selected one, as bits."""
        pair, _, inside, _, _, distance = _distance(predictions, half, n, BLOCK)
        bits = distance.to(tl.int32, bitcast=True)
        above = tl.where(inside & (bits > tl.load(prefixes + pair)), bits, 0x7F800000)
        tl.atomic_min(nexts + pair, tl.min(above, 0), sem="relaxed")

    @triton.jit
    def _blend_kernel(predictions, tied, thresholds, half, n, BLOCK: tl.constexpr):
        pair, offsets, inside, a, b, distance = _distance(predictions, half, n, BLOCK)
        alike = inside & (distance <= tl.load(thresholds + pair))
        mean = (a + b) * 0.5
        for side in range(2):  # where they are not alike, their own values, bit for bit
            own = tl.load(predictions + side * half + pair * n + offsets, mask=inside & ~alike, other=0.0)
            out = tied + side * half + pair * n + offsets
            tl.store(out, mean, mask=alike)
            tl.store(out, own, mask=inside & ~alike)


def _tie_triton(predictions, eta, tied=None):
    """Launch the kernels; `tied`, like predictions, may be given, and is overwritten."""
    if triton is None:
        raise RuntimeError("backend='triton' needs the package triton, which is not installed")
    if not (predictions.is_cuda or triton.knobs.runtime.interpret):
        raise RuntimeError(f"backend='triton' needs predictions on a GPU, got {predictions.device}")
    predictions = predictions.contiguous()
    tied = torch.empty_like(predictions) if tied is None else tied
    pairs, half = len(predictions) // 2, predictions.numel() // 2
    n = half // pairs
    low, high, weight = _place(eta, n)
    whole = {"dtype": torch.int32, "device": predictions.device}
    counts, prefixes, more = torch.zeros(pairs, 2048, **whole), torch.zeros(pairs, **whole), torch.zeros(pairs, **whole)
    places, nexts = torch.full((pairs,), low, **whole), torch.full((pairs,), 0x7F800000, **whole)
    BLOCK = 4096
    grid = (pairs, triton.cdiv(n, BLOCK))
    with torch.cuda.device_of(predictions):
        for lowest, width in DIGITS:
            bins = 1 << width
            _count_kernel[grid](predictions, counts, prefixes, half, n, lowest, width, BINS=bins, BLOCK=BLOCK, num_warps=8)
            _narrow_kernel[(pairs,)](counts, prefixes, places, more, width, BINS=bins, num_warps=8)
        _next_kernel[grid](predictions, prefixes, nexts, half, n, BLOCK=BLOCK, num_warps=8)
        below = prefixes.view(torch.float32)
        above = torch.where((more > 0) | (high == low), prefixes, nexts).view(torch.float32)
        _blend_kernel[grid](predictions, tied, torch.lerp(below, above, weight), half, n, BLOCK=BLOCK, num_warps=8)
    return tied


def _check(predictions, eta):
    """Raise on bad arguments; else whether there is nothing to tie."""
    if predictions.ndim < 2 or not predictions.is_floating_point():
        raise ValueError(f"predictions must be floating point of shape (2P, ...), got {predictions.dtype} {tuple(predictions.shape)}")
    if len(predictions) % 2:
        raise ValueError(f"predictions must hold pairs, references first and their guides after them, got an odd batch of {len(predictions)}")
    if not 0 <= eta <= 1:
        raise ValueError(f"eta must lie in [0, 1], got {eta}")
    return predictions.numel() == 0


@torch.no_grad()
def tie(predictions, eta, backend="auto"):
    """The predictions of pairs, tied (equations 3, 5 and 6 of sub); each pair by itself, whatever else lies in the batch.

    predictions: (2P, ...), floating point and finite: P references, then their P guides. eta: share of the elements tied, in [0, 1]; 1 makes both alike, 0 leaves
    both as they are. backend: "auto" (Triton for predictions on a GPU, else torch), "torch" or "triton".
    Returns the same shape and dtype; distances and means are taken in float32. Raises ValueError for an odd batch or a share outside [0, 1]; RuntimeError if a backend cannot run.
    """
    if _check(predictions, eta) or eta == 0:
        return predictions.clone()
    if backend == "auto":
        backend = "triton" if predictions.is_cuda and triton is not None else "torch"
    if backend not in ("torch", "triton"):
        raise ValueError(f"backend must be 'auto', 'torch' or 'triton', got {backend!r}")
    return (_tie_torch if backend == "torch" else _tie_triton)(predictions.detach(), eta)
