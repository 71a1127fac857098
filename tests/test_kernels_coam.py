"""Concept maps and ranks of points: by hand, against sorted upsampled maps, with ties, and the kernel."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from xaihelpers.kernels import coam
from xaihelpers.kernels.coam import (
    concept_maps,
    location_rank,
    location_rank_reference,
    location_region,
    location_region_reference,
    upsample,
)

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")


def maps_with_ties(count, height, width, kind, seed=0):
    maps = torch.randn(count, height, width, generator=torch.Generator().manual_seed(seed))
    if kind == "plateaus":  # zeros and small whole numbers, as after a ReLU
        return (2 * maps).round().relu()
    if kind == "symmetric":
        return maps + maps.flip(2)
    return maps.new_full(maps.shape, 0.1) if kind == "constant" else maps


def points_on(maps, size, q=2, seed=0):
    points = torch.rand(len(maps), q, 2, generator=torch.Generator().manual_seed(seed)) * torch.tensor(
        [size[1], size[0]]
    )
    points[::3, -1] = torch.nan  # every third map lacks its last point
    return points


KINDS = ["generic", "plateaus", "symmetric", "constant"]
SHAPES = [
    ((7, 7), (224, 224)),
    ((2, 2), (4, 4)),
    ((5, 3), (5, 3)),
    ((3, 5), (21, 20)),
    ((7, 7), (3, 5)),
    ((1, 1), (4, 5)),
    ((4, 1), (9, 8)),
]


def test_ranks_of_a_two_by_two_map_by_hand():
    # Along a line, t is 0, 1/4, 3/4, 1 of the way from the left to the right cell; the same down the columns,
    # so value = 4 v + u for u, v in {0, 1/4, 3/4, 1}: rising to the right and, four times as fast, downwards.
    image_map = torch.tensor([[[0.0, 1.0], [4.0, 5.0]]])
    y, x = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    points = torch.stack([x, y], -1).reshape(1, 16, 2) + 0.5
    expected = torch.tensor([[15, 14, 13, 11], [12, 10, 9, 8], [7, 6, 5, 3], [4, 2, 1, 0]])
    # Line 0 ends and line 1 begins with value 1, line 2 ends and line 3 begins with 4: the first in row-major
    # order goes before.
    for rank in (location_rank, location_rank_reference):
        assert rank(image_map, points, (4, 4)).reshape(4, 4).tolist() == expected.tolist()


def test_ties_follow_row_major_order():
    # 0.1 is no binary fraction: the usual weights give a constant map several values
    constant = torch.full((1, 3, 3), 0.1)
    points = torch.tensor([[[0.0, 0.0], [6.9, 0.0], [0.0, 1.0], [6.0, 4.0]]])
    assert location_rank(constant, points, (5, 7)).tolist() == [[0, 6, 7, 34]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape, size", SHAPES)
def test_fast_path_equals_the_sorted_upsampled_map(shape, size, kind):
    maps = maps_with_ties(12, *shape, kind)
    points = points_on(maps, size)
    assert torch.equal(location_rank(maps, points, size), location_rank_reference(maps, points, size))


@pytest.mark.parametrize("count", [0, 1, 63, 1000])
def test_sizes(count):
    maps = maps_with_ties(count, 7, 5, "generic")
    points = points_on(maps, (24, 31), q=1)[:, 0]
    ranks = location_rank(maps, points, (24, 31))
    assert ranks.shape == (count,) and ranks.dtype == torch.int64
    assert torch.equal(ranks, location_rank_reference(maps, points, (24, 31)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_views_and_dtypes(dtype):
    # No tolerance: maps are read in their own dtype, and from there every path works in float64.
    maps = torch.randn(9, 6, 8).to(dtype).transpose(1, 2)[1::2]
    points = points_on(maps, (20, 30)).flip(1)[:, :, [1, 0]].mul(0.6)
    assert not maps.is_contiguous()
    assert torch.equal(
        location_rank(maps, points, (20, 30)), location_rank_reference(maps.contiguous(), points, (20, 30))
    )


@pytest.mark.parametrize("shape, size", SHAPES)
def test_upsampling_is_torch_interpolate(shape, size):
    maps = maps_with_ties(8, *shape, "generic").double()
    theirs = F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
    # values of order 1 in float64, a handful of roundings
    torch.testing.assert_close(upsample(maps, size), theirs, rtol=0, atol=1e-14)
    points = points_on(maps, size, q=1)[:, 0].nan_to_num(1.0)
    level = theirs.flatten(1).gather(1, (points[:, 1].long() * size[1] + points[:, 0].long())[:, None])
    above = (theirs.flatten(1) > level + 1e-13).sum(1)
    not_below = (theirs.flatten(1) >= level - 1e-13).sum(1)
    rank = location_rank(maps, points, size)
    assert ((above <= rank) & (rank < not_below)).all()  # equal but for pixels within rounding of the point's


def test_nearly_flat_maps():
    # Neighbours one unit in the last place apart: values climb in a few steps of rounding, and a division
    # cannot say where.
    maps = 1 + torch.randint(0, 3, (40, 4, 4), generator=torch.Generator().manual_seed(0)) * 2.0**-52
    maps, points = maps.double(), points_on(maps, (30, 37))
    assert torch.equal(location_rank(maps, points, (30, 37)), location_rank_reference(maps, points, (30, 37)))


@pytest.mark.parametrize("kind", KINDS)
def test_region_is_where_the_rank_is_below_n(kind):
    maps, size = maps_with_ties(4, 3, 3, kind), (6, 8)
    y, x = torch.meshgrid(torch.arange(6), torch.arange(8), indexing="ij")
    points = torch.stack([x, y], -1).reshape(1, 48, 2).expand(4, -1, -1).float()
    ranks = location_rank(maps, points, size).reshape(4, 6, 8)
    assert all(sorted(rank.flatten().tolist()) == list(range(48)) for rank in ranks)
    for n in (0, 1, 4, 24, 48):
        assert torch.equal(location_region(maps, n, size), ranks < n)
        assert torch.equal(location_region_reference(maps, n, size), ranks < n)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rank_is_invariant_and_mirrors(data):
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    size = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 24))
    values = data.draw(st.lists(st.integers(-8, 8), min_size=height * width, max_size=height * width))
    maps = torch.tensor(values, dtype=torch.float32).reshape(1, height, width)
    x, y = data.draw(st.integers(0, size[1] - 1)), data.draw(st.integers(0, size[0] - 1))
    points = torch.tensor([[x + 0.5, y + 0.5]])
    rank = location_rank(maps, points, size)
    assert torch.equal(rank, location_rank_reference(maps, points, size))
    # scaling by a power of two is exact
    scaled = maps * 2.0 ** data.draw(st.integers(-20, 20))
    assert torch.equal(rank, location_rank(scaled, points, size))
    dyadic = height * 2 ** data.draw(st.integers(0, 3)), width * 2 ** data.draw(st.integers(0, 3))
    inside = points * torch.tensor([dyadic[1] / size[1], dyadic[0] / size[0]])
    shifted = maps + data.draw(st.integers(-100, 100))  # exact throughout where the scale is a power of two
    assert torch.equal(location_rank(maps, inside, dyadic), location_rank(shifted, inside, dyadic))
    # Flipping flips the image to the last bit; ties keep their row-major order, so ranks are compared without
    # them.
    image, flipped = upsample(maps, size), upsample(maps.flip(2), size)
    assert torch.equal(image.flip(2), flipped)
    mirrored = location_rank(maps.flip(2), torch.tensor([[size[1] - 1 - x + 0.5, y + 0.5]]), size)
    ties = int((image == image[0, y, x]).sum())
    assert abs(int(mirrored) - int(rank)) < ties
    assert torch.equal(upsample(maps.flip(1), size), image.flip(1))


def test_points_on_the_border_lie_in_the_last_pixel():
    maps = maps_with_ties(1, 3, 3, "generic")
    corner = location_rank(maps, torch.tensor([[6.0, 5.0]]), (5, 6))
    assert corner == location_rank(maps, torch.tensor([[5.2, 4.9]]), (5, 6))


def test_no_point_is_never_a_hit():
    ranks = location_rank(
        torch.randn(2, 3, 3), torch.tensor([[[torch.nan, torch.nan], [1.0, 1.0]]] * 2), (4, 6)
    )
    assert ranks[:, 0].tolist() == [24, 24] and (ranks[:, 1] < 24).all()


@pytest.mark.parametrize("function", [location_rank, location_rank_reference])
@pytest.mark.parametrize("bad", [(-0.1, 1.0), (6.1, 1.0), (1.0, 4.1), (torch.nan, 1.0), (torch.inf, 1.0)])
def test_a_point_outside_is_named(function, bad):
    points = torch.tensor([(1.0, 1.0), bad, (1.0, 1.0)])
    with pytest.raises(ValueError, match=r"points\[1\].*outside the 6 x 4 image"):
        function(torch.randn(3, 2, 2), points, (4, 6))


def test_bad_maps_and_arguments_are_named():
    maps, points = torch.randn(3, 2, 2), torch.ones(3, 2)
    for value in (torch.nan, torch.inf):
        broken = maps.clone()
        broken[2, 1, 0] = value
        with pytest.raises(ValueError, match=r"maps\[2\]"):
            location_rank(broken, points, (4, 4))
        with pytest.raises(ValueError, match=r"maps\[2\]"):
            location_region(broken, 3, (4, 4))
    with pytest.raises(ValueError, match="maps must be"):
        location_rank(maps.long(), points, (4, 4))
    with pytest.raises(ValueError, match="points must be"):
        location_rank(maps, points[:2], (4, 4))
    with pytest.raises(ValueError, match="n_pixels"):
        location_region(maps, 17, (4, 4))
    with pytest.raises(ValueError, match="backend"):
        location_rank(maps, points, (4, 4), backend="numpy")
    with pytest.raises(ValueError, match="share d"):
        concept_maps(torch.randn(2, 3, 4, 4), torch.randn(5, 4))
    with pytest.raises(ValueError, match="bank is on meta, maps on cpu"):
        concept_maps(torch.randn(2, 3, 4, 4), torch.randn(5, 3, device="meta"))
    with pytest.raises(ValueError, match="points are on meta, maps on cpu"):
        location_rank(maps, points.to("meta"), (4, 4))


def test_triton_cannot_be_forced_on_a_cpu():
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("Triton's interpreter is on, and runs on a CPU")
    with pytest.raises(RuntimeError, match="triton"):
        location_rank(torch.randn(1, 2, 2), torch.ones(1, 2), (4, 4), backend="triton")


def test_concept_maps_are_equation_2():
    maps, bank = torch.randn(3, 5, 4, 2).transpose(2, 3), torch.randn(6, 5)
    expected = torch.empty(3, 6, 2, 4)
    for i in range(3):
        for j in range(6):
            expected[i, j] = sum(bank[j, k] * maps[i, k] for k in range(5)) / 5
    ours = concept_maps(maps, bank)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)  # float32 sums of five terms
    # The mean of a concept's map is its value on the pooled features, over d.
    values = maps.mean((2, 3)) @ bank.T
    torch.testing.assert_close(ours.mean((2, 3)), values / 5, rtol=1e-5, atol=1e-6)
    assert concept_maps(maps.bfloat16(), bank.bfloat16()).dtype == torch.float32


def check_triton(device, shapes, count):
    """Triton's ranks equal the reference's, with whatever was in the buffer that they are written to."""
    for shape, size in shapes:
        for kind in KINDS:
            for dtype in (torch.float32, torch.float16):
                maps = maps_with_ties(count, *shape, kind).to(device, dtype)
                points = points_on(maps.cpu(), size).to(device)
                poisoned = torch.full((count, 2), -(2**62), device=device)
                ranks = coam._rank_triton(maps, coam._check(maps, points, size), size, ranks=poisoned)
                assert ranks is poisoned and torch.equal(
                    ranks, location_rank_reference(maps, points, size)
                ), (shape, size, kind, dtype)
    view = maps.repeat(2, 1, 1)[::2]
    assert torch.equal(
        location_rank(view, points, size, backend="triton"), location_rank_reference(view, points, size)
    )


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
    check_triton("cuda", SHAPES, 63)
    check_triton("cuda", SHAPES[:1], 1000)


if __name__ == "__main__":
    check_triton("cpu", [((2, 3), (9, 130)), ((3, 2), (4, 5))], 2)
