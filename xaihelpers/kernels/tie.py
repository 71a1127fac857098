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
over n values and their indices, and `where`, the mean and the concatenation move 14 n values more, in a dozen
launches. Here the values are selected by the digits of their bits (distances are not negative, so their bits
rise as they do): four passes that read 2 n values, which stay in a GPU's cache, then one that reads 2 n and
writes 2 n, all in one launch: the programs of a pair wait for each other between the passes, so no more of
them are launched than the GPU runs at once.
"""

import numpy as np
import torch

from xaihelpers.kernels.dispatch import choose_backend, tl, triton

BLOCK = 4096  # values that a program has in hand at once


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
    thresholds = torch.stack([row.quantile(share) for row in distance])  # one by one: it has a size limit
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
    def _distances_of(predictions, pair, block, half, n, BLOCK: tl.constexpr):
        """A block of a pair: its places, which of them exist, both values, the bits of their distance."""
        places = tl.arange(0, BLOCK).to(tl.int64) + block * BLOCK
        inside = places < n
        base = predictions + pair * n + places
        a = tl.load(base, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(base + half, mask=inside, other=0.0).to(tl.float32)
        return places, inside, a, b, tl.abs(a - b).to(tl.int32, bitcast=True)

    @triton.jit
    def _wait(arrived, wanted):
        """Until `wanted` programs of the pair have come here; what they wrote before is seen after."""
        tl.debug_barrier()
        tl.atomic_add(arrived, 1, sem="acq_rel")
        while tl.atomic_add(arrived, 0, sem="acq_rel") < wanted:
            pass
        tl.debug_barrier()

    @triton.jit
    def _digit(
        predictions, counts, arrived, wanted, selected, place, half, n,
        low: tl.constexpr, width: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """The next digit at `place` of the distances that begin with `selected`: counted by all programs.

        Returns the selected digits with it, the place among those that share them, and how many do.
        """
        pair, first, programs = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
        bins = tl.arange(0, 1 << width)
        histogram = tl.zeros((1 << width,), tl.int32)
        for block in range(first, tl.cdiv(n, BLOCK), programs):
            places, inside, a, b, bits = _distances_of(predictions, pair, block, half, n, BLOCK)
            counted = inside & ((bits >> (low + width)) == selected)
            histogram += tl.histogram((bits >> low) & ((1 << width) - 1), 1 << width, mask=counted)
        tl.atomic_add(counts + bins, histogram, mask=histogram > 0, sem="relaxed")
        _wait(arrived, wanted)
        histogram = tl.load(counts + bins, cache_modifier=".cg")  # not from this processor's own cache
        digit = tl.sum((tl.cumsum(histogram, 0) <= place).to(tl.int32), 0)
        place -= tl.sum(tl.where(bins < digit, histogram, 0), 0)
        equal = tl.sum(tl.where(bins == digit, histogram, 0), 0)
        return (selected << width) | digit, place, equal

    @triton.jit
    def _tie_kernel(
        predictions, tied, counts, nexts, arrived, half, n, lower, apart, weight, BLOCK: tl.constexpr
    ):
        """Equations 3, 5 and 6 for the blocks of one program, of the num_programs(1) that share a pair."""
        pair = tl.program_id(0).to(tl.int64)
        first, programs = tl.program_id(1), tl.num_programs(1)
        blocks = tl.cdiv(n, BLOCK)
        arrived += pair
        counts += pair * 3 * 2048
        # the distance at the wanted place, digit by digit
        selected, place, equal = _digit(
            predictions, counts, arrived, programs, 0, lower, half, n, 20, 11, BLOCK
        )
        selected, place, equal = _digit(
            predictions, counts + 2048, arrived, 2 * programs, selected, place, half, n, 10, 10, BLOCK
        )
        selected, place, equal = _digit(
            predictions, counts + 4096, arrived, 3 * programs, selected, place, half, n, 0, 10, BLOCK
        )
        # the smallest distance above it, where the percentile lies between two that are not equal
        above = selected
        if (apart > 0) & (equal - 1 == place):
            smallest = 0x7F800000  # infinity
            for block in range(first, blocks, programs):
                places, inside, a, b, bits = _distances_of(predictions, pair, block, half, n, BLOCK)
                smallest = tl.minimum(
                    smallest, tl.min(tl.where(inside & (bits > selected), bits, 0x7F800000), 0)
                )
            tl.atomic_min(nexts + pair, smallest, sem="relaxed")
            _wait(arrived, 4 * programs)
            above = tl.load(nexts + pair, cache_modifier=".cg")
        below, above = selected.to(tl.float32, bitcast=True), above.to(tl.float32, bitcast=True)
        # as torch.lerp does, from the nearer end
        threshold = below + weight * (above - below)
        if weight >= 0.5:
            threshold = above - (above - below) * (1 - weight)
        for block in range(first, blocks, programs):
            places, inside, a, b, bits = _distances_of(predictions, pair, block, half, n, BLOCK)
            alike = inside & (bits.to(tl.float32, bitcast=True) <= threshold)
            for side in tl.static_range(2):  # where they are not alike, their own values, bit for bit
                base = side * half + pair * n + places
                untied = tl.load(predictions + base, mask=inside & ~alike, other=0.0)
                tl.store(tied + base, (a + b) * 0.5, mask=alike)
                tl.store(tied + base, untied, mask=inside & ~alike)


def _tie_triton(predictions, eta, tied=None):
    """Launch the kernel; `tied`, of the shape of predictions, may be given and is overwritten."""
    predictions = predictions.contiguous()
    tied = torch.empty_like(predictions) if tied is None else tied
    pairs, half = len(predictions) // 2, predictions.numel() // 2
    n = half // pairs
    lower, upper, weight = _percentile_place(eta, n)
    programs = 1  # that share a pair: the interpreter runs one after the other
    if predictions.is_cuda:  # all run at once, since they wait for each other
        processors = torch.cuda.get_device_properties(predictions.device).multi_processor_count
        programs = max(1, min(triton.cdiv(n, BLOCK), processors // pairs))
    # what the programs of a pair share: histograms of three digits, the next distance, who has arrived
    shared = torch.zeros(pairs * (3 * 2048 + 2), dtype=torch.int32, device=predictions.device)
    counts, nexts, arrived = shared.split([3 * 2048 * pairs, pairs, pairs])
    nexts.fill_(0x7F800000)
    places = (lower, upper - lower, weight)
    with torch.cuda.device_of(predictions):
        _tie_kernel[(pairs, programs)](
            predictions, tied, counts, nexts, arrived, half, n, *places, BLOCK, num_warps=8
        )
    return tied


def _check(predictions, eta):
    """Raise on bad arguments; else whether there is nothing to tie."""
    if not predictions.is_floating_point():
        raise ValueError(f"predictions must be floating point of shape (2P, ...), got {predictions.dtype}")
    if len(predictions) % 2:
        raise ValueError(
            f"predictions are pairs, references first and guides after them, not an odd batch of "
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
