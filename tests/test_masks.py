"""Images masked by their attention: by hand, properties, wrong input."""

import pytest
import torch

from xaihelpers.masks import mask_images, upsample_maps


def case(images=2, maps=3, size=(9, 7), cells=(3, 2), dtype=torch.float32, seed=0):
    """Arguments of mask_images: several maps for some image."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (images, 3, *size), generator=generator)
    return {
        "images": pixels.to(dtype) if dtype == torch.uint8 else (pixels / 255).to(dtype),
        "maps": torch.rand(maps, *cells, generator=generator),
        "rows": torch.randint(0, images, (maps,), generator=generator),
    }


def test_by_hand():
    # one cell: the same attention everywhere; at beta the mask is a half, and 50.5 and 1.5 go to the even
    image = torch.tensor([[[[10, 101], [254, 3]]]], dtype=torch.uint8)
    assert mask_images(image, torch.full((1, 1, 1), 0.4)).tolist() == [[[[5, 50], [127, 2]]]]
    # two cells, 0 and 1, over four pixels: 0, 1/4, 3/4, 1
    image, two_cells = torch.full((1, 1, 1, 4), 8.0), torch.tensor([[[0.0, 1.0]]])
    assert mask_images(image, two_cells, alpha=None).flatten().tolist() == [0, 2, 6, 8]
    # cut from six pixels, 0 0 1/3 2/3 1 1 -> from the second on
    cut = upsample_maps(two_cells, (1, 4), corners=torch.tensor([[0, 1]]), full=(1, 6))
    torch.testing.assert_close(cut.flatten(), torch.tensor([0, 1 / 3, 2 / 3, 1]))


def test_views_and_dtypes():
    arguments = case(size=(8, 8))
    images, maps = arguments["images"].transpose(2, 3), arguments["maps"].transpose(1, 2)
    of_views = mask_images(images, maps, arguments["rows"])
    of_copies = mask_images(images.contiguous(), maps.contiguous(), arguments["rows"])
    torch.testing.assert_close(of_views, of_copies)
    for count, dtype in ((0, torch.uint8), (1, torch.float16), (63, torch.bfloat16), (1000, torch.float64)):
        masked = mask_images(**case(images=4, maps=count, size=(5, 6), cells=(2, 2), dtype=dtype))
        assert masked.shape == (count, 3, 5, 6) and masked.dtype == dtype


def test_bad_arguments_are_named():
    images, maps = torch.zeros(2, 3, 4, 4), torch.zeros(3, 2, 2)
    for wrong, message in (
        ({"rows": None}, "3 maps for 2 images"),
        ({"rows": [0, 1, 2]}, "3 maps for 2 images"),
        ({"images": images.long()}, "uint8 or floating point"),
    ):
        with pytest.raises(ValueError, match=message):
            mask_images(**{"images": images, "maps": maps, "rows": [0, 1, 1]} | wrong)
