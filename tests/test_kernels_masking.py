"""Images masked by their attention: by hand, properties, wrong input, and the Triton kernel."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from xaihelpers.kernels import masking
from xaihelpers.kernels.masking import attention_mask, mask_images, mask_images_reference, upsample_maps

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")


def case(images=2, maps=3, size=(9, 7), cells=(3, 2), dtype=torch.float32, cut=False, seed=0):
    """Arguments of mask_images: several maps for some image, cut from a larger map where `cut`."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (images, 3, *size), generator=generator)
    arguments = {
        "images": pixels.to(dtype) if dtype == torch.uint8 else (pixels / 255).to(dtype),
        "maps": torch.rand(maps, *cells, generator=generator),
        "rows": torch.randint(0, images, (maps,), generator=generator),
    }
    if cut:
        top = torch.randint(0, 5, (maps,), generator=generator)
        left = torch.randint(0, 4, (maps,), generator=generator)
        arguments["full"] = (size[0] + 4, size[1] + 3)
        arguments["corners"] = torch.stack([top, left], 1)
    return arguments


def test_by_hand():
    # one cell: the same attention everywhere; at beta the mask is a half, and 50.5 and 1.5 go to the even
    image = torch.tensor([[[[10, 101], [254, 3]]]], dtype=torch.uint8)
    assert mask_images(image, torch.full((1, 1, 1), 0.4)).tolist() == [[[[5, 50], [127, 2]]]]
    # two cells, 0 and 1, over four pixels: 0, 1/4, 3/4, 1
    image, two_cells = torch.full((1, 1, 1, 4), 8.0), torch.tensor([[[0.0, 1.0]]])
    assert mask_images(image, two_cells, alpha=None).flatten().tolist() == [0, 2, 6, 8]
    # cut from six pixels, 0 0 1/3 2/3 1 1 -> from the second on
    cut = mask_images(image, two_cells, alpha=None, corners=torch.tensor([[0, 1]]), full=(1, 6))
    torch.testing.assert_close(cut.flatten(), 8 * torch.tensor([0, 1 / 3, 2 / 3, 1]))


def test_equations_one_and_two():
    arguments = case()
    v = upsample_maps(arguments["maps"], (9, 7))
    expected = arguments["images"][arguments["rows"]] / (1 + torch.exp(15 * (0.6 - v)))[:, None]
    masked = mask_images(**arguments, alpha=15.0, beta=0.6)
    torch.testing.assert_close(masked, expected, rtol=1e-5, atol=1e-6)  # exp and sigmoid round differently
    expected = F.interpolate(arguments["maps"][:, None], (9, 7), mode="bilinear")[:, 0]
    torch.testing.assert_close(v, expected)


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 60), st.floats(0, 1), st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_properties(alpha, beta, h, w, seed):
    arguments = case(cells=(h, w), seed=seed)
    masked = mask_images(**arguments, alpha=alpha, beta=beta)
    source = arguments["images"][arguments["rows"]]
    assert (masked >= 0).all() and (masked <= source + 1e-6).all()  # nothing gets brighter
    more = mask_images(arguments["images"], arguments["maps"] + 0.1, arguments["rows"], alpha, beta)
    assert (more >= masked - 1e-5).all()  # nor darker with more attention
    assert attention_mask(torch.tensor(beta), alpha, beta) == 0.5


@pytest.mark.parametrize("count", [0, 1, 63, 1000])
def test_sizes(count):
    arguments = case(images=4, maps=count, size=(5, 6), cells=(2, 2))
    assert mask_images(**arguments).shape == (count, 3, 5, 6)


def test_views_and_dtypes():
    arguments = case(size=(8, 8))
    images, maps = arguments["images"].transpose(2, 3), arguments["maps"].transpose(1, 2)
    of_views = mask_images(images, maps, arguments["rows"])
    of_copies = mask_images(images.contiguous(), maps.contiguous(), arguments["rows"])
    torch.testing.assert_close(of_views, of_copies)
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float64):
        assert mask_images(**case(dtype=dtype)).dtype == dtype


def test_bad_arguments_are_named():
    images, maps = torch.zeros(2, 3, 4, 4), torch.zeros(3, 2, 2)
    for wrong, message in (
        ({"rows": None}, "3 maps for 2 images"),
        ({"rows": [0, 1, 2]}, "rows must hold 3 whole numbers in 0..1"),
        ({"maps": maps.long()}, "maps floating point"),
        ({"images": images.long()}, "uint8 or floating point"),
        ({"full": (5, 5)}, "pass corners too"),
        ({"full": (5, 5), "corners": torch.full((3, 2), 2)}, "corners must be"),
        ({"backend": "numpy"}, "backend must be"),
    ):
        with pytest.raises(ValueError, match=message):
            mask_images(**{"images": images, "maps": maps, "rows": [0, 1, 1]} | wrong)


def test_triton_cannot_be_forced_on_a_cpu():
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("Triton's interpreter is on, and runs on a CPU")
    with pytest.raises(RuntimeError, match="triton"):
        mask_images(torch.zeros(1, 3, 4, 4), torch.zeros(1, 2, 2), backend="triton")


def check_triton(device, sizes, tolerances):
    """Triton's images equal the reference's, in both layouts, whatever was in the buffer before."""
    for size, cells in sizes:
        for dtype, tolerance in tolerances.items():
            for cut in (False, True):
                arguments = case(size=size, cells=cells, dtype=dtype, cut=cut)
                for name, value in arguments.items():
                    arguments[name] = value.to(device) if torch.is_tensor(value) else value
                for alpha in (None, 25.0):
                    check_layouts(arguments, alpha, tolerance)


def check_layouts(arguments, alpha, tolerance):
    expected = mask_images_reference(**arguments, alpha=alpha)
    poison = 255 if expected.dtype == torch.uint8 else torch.nan
    for layout in (torch.contiguous_format, torch.channels_last):
        poisoned = torch.full_like(expected, poison).contiguous(memory_format=layout)
        masked = masking._mask_triton(
            arguments["images"].contiguous(memory_format=layout),
            arguments["maps"],
            arguments["rows"],
            alpha,
            0.4,
            arguments.get("corners"),
            arguments.get("full"),
            masked=poisoned,
        )
        assert masked is poisoned
        torch.testing.assert_close(masked, expected, rtol=0, atol=tolerance)


# 1e-5: exponentials of another library; a whole number may fall to the other side of a half
IN_THE_INTERPRETER = """
import importlib.util
import torch

spec = importlib.util.spec_from_file_location("tests", {file!r})
tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tests)
sizes = [((1, 1), (1, 1)), ((7, 9), (3, 2)), ((40, 33), (7, 7))]
tests.check_triton("cpu", sizes, {{torch.float32: 1e-5, torch.uint8: 1}})
"""


def test_triton_kernel_in_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_INTERPRETER.format(file=__file__)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.gpu
@needs_gpu
def test_compiled_triton_kernel():
    check_triton(
        "cuda",
        [((1, 1), (1, 1)), ((224, 224), (7, 7)), ((375, 500), (14, 14))],
        {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.uint8: 1},
    )
