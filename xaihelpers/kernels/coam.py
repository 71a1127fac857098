"""Concept activation maps (CoAM) and the rank of a point in an upsampled map.

    F_ij = (1/d) sum_k c_jk E_i(:, :, k)                        eq. 2 of the alignment paper
    rank(p) = #{q : U(q) > U(p)} + #{q before p : U(q) = U(p)}   U = F_ij upsampled bilinearly to M1 x M2

| symbol | name | shape |
|---|---|---|
| E, last feature maps | `maps` of `concept_maps` | (N, d, H, W) |
| c, concept vectors | `bank` | (L, d) |
| F, P concept maps | `maps` | (P, H, W) |
| U, never stored | | (P, M1, M2) |
| p, q points on each map | `points` | (P, 2) or (P, q, 2), pixels x, y |
| M1, M2 | `size` | height and width of the image |

The concept location metric asks whether p is among the floor(alpha M1 M2 / 12) highest pixels, that is
whether rank(p) is below that number; one rank answers for every alpha.

Why a kernel: storing U writes and reads P M1 M2 floats (2,500 maps at 224 x 224: 0.5 GB, and more to sort
it), while a map is 49 numbers and its rank one. Fused, 200 bytes per map are read and 8 written.

Ties are decided by row-major order, as a stable descending sort does, so the arithmetic must give equal
values where the mathematics does. All paths compute `(a + b)/2 + t (b - a)`, t = w - 1/2, in float64, down
the columns and then along the rows: constant areas stay constant to the last bit, and mirrored maps have
mirrored values. (The usual `(1 - w) a + w b` in float32 has neither property, so sorting its output orders a
plateau by rounding errors.) Upsampling by a power of two is then exact altogether, unless the values of
float32 maps differ by many orders of magnitude.
"""

import numba
import numpy as np
import torch

from xaihelpers.kernels.dispatch import choose_backend, tl, triton


def concept_maps(maps: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
    """Weight feature maps with every concept's vector: (N, L, H, W) in float32, or float64 if either is.

    maps: (N, d, H, W), floating point. bank: (L, d), floating point, on the same device. Source: paper
    alignment, eq. 2.
    """
    dtype = torch.float64 if torch.float64 in (maps.dtype, bank.dtype) else torch.float32
    maps, bank = maps.to(dtype), bank.to(dtype)
    return torch.matmul(bank, maps.flatten(2)).unflatten(2, maps.shape[2:]) / bank.shape[1]  # (N, L, H, W)


def _neighbours(source, target, device):
    """For each of `target` pixels the two of `source` cells between which its centre lies, and t = w - 1/2.

    Centres are at half pixels. The arithmetic is in whole numbers up to the last division, so that pixel
    target-1-i has exactly -t of pixel i.
    """
    pixel = torch.arange(target, device=device)
    numerator = (2 * pixel + 1) * source - target  # the position in cells, times 2 * target
    low = numerator.div(2 * target, rounding_mode="floor")
    rest = numerator - low * 2 * target
    # on a cell's centre the value is that cell's, without rounding
    high = torch.where(rest == 0, low, low + 1)
    t = (rest - target).double() / (2 * target)
    return low.clamp(0, source - 1), high.clamp(0, source - 1), t


def upsample(maps: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Upsample maps bilinearly with half-pixel centres: float64 (P, M1, M2).

    maps: (P, H, W). size: (M1, M2) in pixels.

    It is `F.interpolate(mode="bilinear", align_corners=False)` up to rounding; the module's docstring says
    why that function is not used.
    """
    top, bottom, t = _neighbours(maps.shape[1], size[0], maps.device)
    left, right, s = _neighbours(maps.shape[2], size[1], maps.device)
    maps = maps.double()
    high, low = maps[:, top], maps[:, bottom]
    rows = (high + low) * 0.5 + t[:, None] * (low - high)  # (P, M1, W)
    near, far = rows[:, :, left], rows[:, :, right]
    return (near + far) * 0.5 + s * (far - near)  # (P, M1, M2)


def location_region(maps: torch.Tensor, n_pixels: int, size: tuple[int, int]) -> torch.Tensor:
    """The highest pixels of each upsampled map, Omega of the concept location metric: bool (P, M1, M2).

    True where `location_rank` < n_pixels, with ties in row-major order.

    maps: (P, H, W), floating point. size: (M1, M2).

    Raises ValueError for NaN or infinite maps.
    """
    _check_maps(maps)
    regions = torch.zeros(len(maps), *size, dtype=torch.bool)
    if n_pixels:
        rows, columns = _neighbours(maps.shape[1], size[0], "cpu"), _neighbours(maps.shape[2], size[1], "cpu")
        _run(_region_all, maps.detach().double(), regions, *rows, *columns, n_pixels)
    return regions.to(maps.device)


def location_rank_reference(maps: torch.Tensor, points: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """`location_rank` by upsampling every map and sorting its pixels; same arguments, returns and errors."""
    pixels = _check(maps, points, size)  # (P, q)
    values = upsample(maps.detach(), size).flatten(1)  # (P, M1*M2)
    order = values.argsort(dim=1, descending=True, stable=True)
    places = torch.arange(values.shape[1], device=maps.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(1, order, places)
    ranks = torch.where(pixels >= 0, rank.gather(1, pixels.clamp(min=0)), values.shape[1])
    return ranks.reshape(points.shape[:-1])


@numba.njit(cache=True, nogil=True)
def _mid(low, high, t):
    return (low + high) * 0.5 + t * (high - low)


@numba.njit(cache=True, nogil=True)
def _rank_one(F, y, x, top, bottom, t, left, right, s, lines, columns):
    """Rank of pixel (y, x) of map F (H, W).

    The pixels between the same four cells form a patch; `lines` and `columns` say where patches begin.
    """
    level = _mid(
        _mid(F[top[y], left[x]], F[bottom[y], left[x]], t[y]),
        _mid(F[top[y], right[x]], F[bottom[y], right[x]], t[y]),
        s[x],
    )
    count = 0
    for i in range(len(lines) - 1):
        up, down = top[lines[i]], bottom[lines[i]]
        for k in range(len(columns) - 1):
            begin, end = columns[k], columns[k + 1]
            a, b = F[up, left[begin]], F[up, right[begin]]
            c, d = F[down, left[begin]], F[down, right[begin]]
            least, most = min(min(a, b), min(c, d)), max(max(a, b), max(c, d))
            # rounding may pass a corner by a few units in the last place
            slack = max(abs(least), abs(most)) * 2.0**-48
            if most + slack < level:
                continue
            if least - slack > level:
                count += (end - begin) * (lines[i + 1] - lines[i])
                continue
            for line in range(lines[i], lines[i + 1]):
                low, high = _mid(a, c, t[line]), _mid(b, d, t[line])
                middle, rise = (low + high) * 0.5, high - low
                # of equal pixels, those before the point's in row-major order count
                before = min(max(x, begin), end) if line == y else (end if line < y else begin)
                n = 0
                for share in s[begin:before]:
                    n += 1 if middle + share * rise >= level else 0
                for share in s[before:end]:
                    n += 1 if middle + share * rise > level else 0
                count += n
    return count


@numba.njit(cache=True, parallel=True)
def _region_all(maps, regions, top, bottom, t, left, right, s, n_pixels):
    """Mark the n_pixels highest pixels of each map: a selection of the lowest of them, no sort."""
    for p in numba.prange(maps.shape[0]):
        F, values = maps[p], np.empty((len(t), len(s)))
        for y in range(len(t)):
            for x in range(len(s)):
                low = _mid(F[top[y], left[x]], F[bottom[y], left[x]], t[y])
                high = _mid(F[top[y], right[x]], F[bottom[y], right[x]], t[y])
                values[y, x] = _mid(low, high, s[x])
        place = values.size - n_pixels
        lowest = np.partition(values.ravel(), place)[place]
        ties = n_pixels - (values > lowest).sum()
        for y in range(len(t)):
            for x in range(len(s)):
                tie = values[y, x] == lowest and ties > 0
                regions[p, y, x] = tie or values[y, x] > lowest
                ties -= tie


@numba.njit(cache=True, parallel=True)
def _rank_all(maps, pixels, ranks, top, bottom, t, left, right, s, lines, columns):
    M1, M2 = len(t), len(s)
    for p in numba.prange(pixels.shape[0]):
        for q in range(pixels.shape[1]):
            pixel = pixels[p, q]
            if pixel < 0:
                ranks[p, q] = M1 * M2
            else:
                y, x = pixel // M2, pixel % M2
                ranks[p, q] = _rank_one(maps[p], y, x, top, bottom, t, left, right, s, lines, columns)


def _run(compiled, *arguments):
    """Call a function compiled by numba with tensors, on torch's number of threads."""
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    compiled(*[x.cpu().contiguous().numpy() if isinstance(x, torch.Tensor) else x for x in arguments])


def _starts(low, high):
    """Where runs of pixels between the same two cells begin along a line, and its end."""
    change = ((low[1:] != low[:-1]) | (high[1:] != high[:-1])).nonzero()[:, 0] + 1
    return torch.cat([change.new_zeros(1), change, change.new_tensor([len(low)])])


def _rank_torch(maps, pixels, size):
    """Ranks (P, q) of pixels (P, q), -1 for none, without upsampling: on the CPU, compiled, a map per thread.

    Between four cells the largest and smallest value are at the corners, so most patches lie above or below
    the point's value as a whole.
    """
    rows, columns = _neighbours(maps.shape[1], size[0], "cpu"), _neighbours(maps.shape[2], size[1], "cpu")
    starts = _starts(*rows[:2]), _starts(*columns[:2])
    ranks = torch.empty_like(pixels, device="cpu")
    _run(_rank_all, maps.detach().double(), pixels, ranks, *rows, *columns, *starts)
    return ranks.to(pixels.device)


if triton is not None:

    @triton.jit
    def _value(base, top, bottom, t, left, right, s, width):
        a = tl.load(base + top * width + left).to(tl.float64)
        b = tl.load(base + bottom * width + left).to(tl.float64)
        c = tl.load(base + top * width + right).to(tl.float64)
        d = tl.load(base + bottom * width + right).to(tl.float64)
        low, high = (a + b) * 0.5 + t * (b - a), (c + d) * 0.5 + t * (d - c)
        return (low + high) * 0.5 + s * (high - low)

    @triton.jit
    def _rank_kernel(maps, pixels, ranks, tops, bottoms, ts, lefts, rights, ss, q, cells, width, M1, M2):
        """One program per (map, point): evaluates every pixel on chip, Y x X at a time, and counts."""
        Y: tl.constexpr = 8
        X: tl.constexpr = 128
        program = tl.program_id(0).to(tl.int64)
        base = maps + program // q * cells
        pixel = tl.load(pixels + program)
        point = tl.maximum(pixel, 0)
        y, x = point // M2, point % M2
        high, low, v = tl.load(tops + y), tl.load(bottoms + y), tl.load(ts + y)
        near, far, u = tl.load(lefts + x), tl.load(rights + x), tl.load(ss + x)
        level = _value(base, high, low, v, near, far, u, width)
        count = tl.zeros((Y, X), tl.int32)
        for r in range(0, M1, Y):
            rows = r + tl.arange(0, Y)[:, None]
            in_rows = rows < M1
            top = tl.load(tops + rows, mask=in_rows, other=0)
            bottom = tl.load(bottoms + rows, mask=in_rows, other=0)
            t = tl.load(ts + rows, mask=in_rows, other=0.0)
            for c in range(0, M2, X):
                columns = c + tl.arange(0, X)[None, :]
                in_columns = columns < M2
                left = tl.load(lefts + columns, mask=in_columns, other=0)
                right = tl.load(rights + columns, mask=in_columns, other=0)
                s = tl.load(ss + columns, mask=in_columns, other=0.0)
                value = _value(base, top, bottom, t, left, right, s, width)
                before = rows.to(tl.int64) * M2 + columns < point
                hit = ((value > level) | ((value == level) & before)) & in_rows & in_columns
                count += hit.to(tl.int32)
        total = tl.sum(tl.sum(count.to(tl.int64), axis=1), axis=0)
        tl.store(ranks + program, tl.where(pixel >= 0, total, (tl.zeros_like(total) + M1) * M2))


def _rank_triton(maps, pixels, size, ranks=None):
    """Launch the kernel; ranks int64 (P, q) may be given, and is overwritten."""
    maps, pixels = maps.contiguous(), pixels.contiguous()
    ranks = torch.empty_like(pixels) if ranks is None else ranks
    rows = _neighbours(maps.shape[1], size[0], maps.device)
    columns = _neighbours(maps.shape[2], size[1], maps.device)
    if pixels.numel():
        numbers = pixels.shape[1], maps[0].numel(), maps.shape[2], *size
        # a fused multiply-add would round differently from the other paths, and move ties
        options = {"num_warps": 4, "enable_fp_fusion": False}
        with torch.cuda.device_of(maps):
            _rank_kernel[(pixels.numel(),)](maps, pixels, ranks, *rows, *columns, *numbers, **options)
    return ranks


def _check_maps(maps):
    wrong = (~maps.isfinite()).flatten(1).any(1).nonzero()
    if len(wrong):
        raise ValueError(
            f"maps[{int(wrong[0])}] has a NaN or infinite value ({len(wrong)} of {len(maps)} maps do)"
        )


def _check(maps, points, size):
    """The points' pixels in row-major order, int64 (P, q), -1 where there is none; raises on bad ones."""
    _check_maps(maps)
    if len(points) != len(maps) or points.shape[-1] != 2:
        raise ValueError(
            f"points must be (P, 2) or (P, q, 2) with P = {len(maps)} maps, got {tuple(points.shape)}"
        )
    points = points.detach().double()
    points = points if points.ndim == 3 else points[:, None]  # (P, q, 2)
    x, y = points.unbind(-1)
    absent = x.isnan() & y.isnan()
    inside = (x >= 0) & (x <= size[1]) & (y >= 0) & (y <= size[0])
    outside = (~absent & ~inside).nonzero()
    if len(outside):
        row, k = outside[0].tolist()
        raise ValueError(
            f"points[{row}]: ({float(x[row, k])}, {float(y[row, k])}) lies outside the {size[1]} x {size[0]} "
            f"image ({len(outside)} points do)"
        )
    column = x.nan_to_num().floor().long().clamp(max=size[1] - 1)
    line = y.nan_to_num().floor().long().clamp(max=size[0] - 1)
    return torch.where(absent, -1, line * size[1] + column)


@torch.no_grad()
def location_rank(
    maps: torch.Tensor, points: torch.Tensor, size: tuple[int, int], backend: str = "auto"
) -> torch.Tensor:
    """Rank of a point's pixel among the pixels of its upsampled map: 0 is the highest, ties row-major.

    Serves CLM, tables 2, 3, 7 and 8 of the alignment paper: a hit is rank < floor(alpha * M1 * M2 / 12).

    maps: (P, H, W), floating point.
    points: (P, 2), or (P, q, 2) for q points on each map (a left and a right eye), on the same device: x, y
        in pixels of the image. A point's pixel is (floor(y), floor(x)), on the right and lower border the
        last one; where both are NaN there is no point.
    size: (M1, M2), height and width of the image.
    backend: "auto" (Triton for maps on a GPU, else torch), "torch" (on the CPU, through numba) or "triton".

    Returns int64 (P,) or (P, q) on the maps' device; where there is no point it is M1*M2, which lies in no
    region.

    Raises ValueError for NaN or infinite maps and points outside the image, naming the first; RuntimeError if
    a backend cannot run.
    """
    pixels = _check(maps, points, size)
    rank = _rank_torch if choose_backend(backend, maps) == "torch" else _rank_triton
    return rank(maps, pixels, size).reshape(points.shape[:-1])
