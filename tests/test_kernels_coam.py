"""Ranks of points in maps: by hand, against sorted upsampled maps, with ties, and the kernel."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from xaihelpers.kernels import coam

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")


def maps_with_ties(count, height, width, kind, seed=0):
    maps = torch.randn(count, height, width, generator=torch.Generator().manual_seed(seed))
    if kind == "plateaus":  # zeros and small whole numbers, as after a ReLU
        return (2 * maps).round().relu()
    if kind == "symmetric":
        return maps + maps.flip(2)
    return maps.new_full(maps.shape, 0.1) if kind == "constant" else maps


def points_on(maps, size, q=2, seed=0):
    points = torch.rand(len(maps), q, 2, generator=torch.Generator().manual_seed(seed))
    points *= torch.tensor([size[1], size[0]])
    points[::3, -1] = torch.nan  # every third map lacks its last point
    return points


KINDS = ["generic", "plateaus", "symmetric", "constant"]
SHAPES = [((7, 7), (224, 224)), ((5, 3), (5, 3)), ((3, 5), (21, 20)), ((7, 7), (3, 5)), ((4, 1), (9, 8))]


def test_ranks_of_a_two_by_two_map_by_hand():
    # Along a line, t is 0, 1/4, 3/4, 1 of the way from the left to the right cell; the same down the columns,
    # so value = 4 v + u for u, v in {0, 1/4, 3/4, 1}: rising to the right and, four times as fast, downwards.
    image_map = torch.tensor([[[0.0, 1.0], [4.0, 5.0]]])
    y, x = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    points = torch.stack([x, y], -1).reshape(1, 16, 2) + 0.5
    expected = torch.tensor([[15, 14, 13, 11], [12, 10, 9, 8], [7, 6, 5, 3], [4, 2, 1, 0]])
    # Line 0 ends and line 1 begins with value 1, line 2 ends and line 3 begins with 4: the first in row-major
    # order goes before.
    for rank in (coam.location_rank, coam.location_rank_reference):
        assert rank(image_map, points, (4, 4)).reshape(4, 4).tolist() == expected.tolist()
    # 0.1 is no binary fraction: the usual weights give a constant map several values
    constant = torch.full((1, 3, 3), 0.1)
    points = torch.tensor([[[0.0, 0.0], [6.9, 0.0], [0.0, 1.0], [6.0, 4.0]]])
    assert coam.location_rank(constant, points, (5, 7)).tolist() == [[0, 6, 7, 34]]


@pytest.mark.parametrize("kind", KINDS)
def test_fast_path_equals_the_sorted_upsampled_map(kind):
    for count, (shape, size) in zip((0, 1, 63, 1000, 12), SHAPES[::-1], strict=True):
        maps = maps_with_ties(count, *shape, kind)
        points = points_on(maps, size)
        ranks = coam.location_rank(maps, points, size)
        assert ranks.shape == (count, 2) and ranks.dtype == torch.int64
        assert torch.equal(ranks, coam.location_rank_reference(maps, points, size)), (shape, size)
    # No tolerance: maps are read in their own dtype, and from there every path works in float64.
    view, points = maps.half().transpose(1, 2)[1::2], points[1::2] % 8
    ranks = coam.location_rank(view, points, (8, 9))
    assert torch.equal(ranks, coam.location_rank_reference(view.contiguous(), points, (8, 9)))


def test_upsampling_is_torch_interpolate():
    for shape, size in SHAPES:
        maps = maps_with_ties(8, *shape, "generic").double()
        theirs = F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
        # values of order 1 in float64, a handful of roundings
        torch.testing.assert_close(coam.upsample(maps, size), theirs, rtol=0, atol=1e-14)
    # Neighbours one unit in the last place apart: values climb in a few steps of rounding, and a division
    # cannot say where.
    maps = 1 + torch.randint(0, 3, (40, 4, 4), generator=torch.Generator().manual_seed(0)).double() * 2.0**-52
    given = maps, points_on(maps, (30, 37)), (30, 37)
    assert torch.equal(coam.location_rank(*given), coam.location_rank_reference(*given))


def test_region_is_where_the_rank_is_below_n():
    maps, size = torch.cat([maps_with_ties(2, 3, 3, kind) for kind in ("generic", "plateaus")]), (6, 8)
    y, x = torch.meshgrid(torch.arange(6), torch.arange(8), indexing="ij")
    points = torch.stack([x, y], -1).reshape(1, 48, 2).expand(4, -1, -1).float()
    ranks = coam.location_rank(maps, points, size).reshape(4, 6, 8)
    assert all(sorted(rank.flatten().tolist()) == list(range(48)) for rank in ranks)
    for n in (0, 1, 4, 24, 48):
        assert torch.equal(coam.location_region(maps, n, size), ranks < n)


def test_no_point_is_never_a_hit_and_the_border_is_the_last_pixel():
    maps = maps_with_ties(2, 3, 3, "generic")
    points = torch.tensor([[[torch.nan, torch.nan], [6.0, 4.0], [5.2, 3.9]]] * 2)
    ranks = coam.location_rank(maps, points, (4, 6))
    assert ranks[:, 0].tolist() == [24, 24] and torch.equal(ranks[:, 1], ranks[:, 2])
    assert (ranks[:, 1] < 24).all()


def test_what_is_not_finite_or_outside_is_named():
    maps, points = torch.randn(3, 2, 2), torch.ones(3, 2)
    for bad in ((-0.1, 1.0), (1.0, 4.1), (torch.nan, 1.0), (torch.inf, 1.0)):
        points[1] = torch.tensor(bad)
        with pytest.raises(ValueError, match=r"points\[1\].*outside the 6 x 4 image"):
            coam.location_rank(maps, points, (4, 6))
    maps[2, 1, 0] = torch.nan
    for function, other in ((coam.location_rank, points), (coam.location_region, 3)):
        with pytest.raises(ValueError, match=r"maps\[2\]"):
            function(maps, other, (4, 6))


def check_triton(device, shapes, count):
    """Triton's ranks equal the reference's, with whatever was in the buffer that they are written to."""
    for (shape, size), kind, dtype in itertools.product(shapes, KINDS, (torch.float32, torch.float16)):
        maps = maps_with_ties(count, *shape, kind).to(device, dtype)
        points = points_on(maps.cpu(), size).to(device)
        poisoned = torch.full((count, 2), -(2**62), device=device)
        ranks = coam._rank_triton(maps, coam._check(maps, points, size), size, ranks=poisoned)
        expected = coam.location_rank_reference(maps, points, size)
        assert ranks is poisoned and torch.equal(ranks, expected), (shape, size, kind, dtype)
    view = maps.repeat(2, 1, 1)[::2]
    by_kernel = coam.location_rank(view, points, size, backend="triton")
    assert torch.equal(by_kernel, coam.location_rank_reference(view, points, size))


@pytest.mark.gpu
@needs_gpu
def test_triton_kernel_compiled():
    check_triton("cuda", SHAPES, 63)
    check_triton("cuda", SHAPES[:1], 1000)


if __name__ == "__main__":
    check_triton("cpu", [((2, 3), (9, 130))], 2)
