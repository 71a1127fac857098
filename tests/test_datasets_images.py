"""Pictures as people see them: every kind of file against numpy and Pillow alone."""

import io

import numpy as np
import pytest
import torch
from colour_profiles import ADOBE, GREY, INK, P3, PROPHOTO, SRGB
from PIL import ExifTags, Image, ImageCms, ImageOps

from xaihelpers import datasets
from xaihelpers.datasets import DatasetError
from xaihelpers.models.cache import content_key, file_keys

# what each orientation does to the stored pixels, in numpy's words
TURNED = {
    1: lambda pixels: pixels,
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).swapaxes(0, 1),
    8: lambda pixels: np.rot90(pixels, 1),
}
STORED = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)


def save(path, image, orientation=0, **options):
    exif = Image.Exif()
    if orientation:
        exif[ExifTags.Base.Orientation] = orientation
    image.save(path, exif=exif, **options)
    return path


def test_the_turn_of_exif(tmp_path):
    for suffix in (".png", ".tif", ".webp", ".jpg"):
        for orientation, turned in TURNED.items():
            options = {"lossless": True} if suffix == ".webp" else {}
            file = save(tmp_path / f"a{suffix}", Image.fromarray(STORED), orientation, **options)
            seen, pixels = np.asarray(datasets.load_image(file)), turned(STORED)
            if suffix == ".jpg":
                pixels = np.asarray(ImageOps.exif_transpose(Image.open(file)))
            assert np.array_equal(seen, pixels)
            sizes = datasets.image_sizes(datasets.load(tmp_path), [0])
            assert sizes.tolist() == [[seen.shape[1], seen.shape[0]]]
        file.unlink()
    for orientation in (0, 9, 200):  # no turn
        file = save(tmp_path / "a.png", Image.fromarray(STORED), orientation)
        assert np.array_equal(np.asarray(datasets.load_image(file)), STORED)


def test_boxes_and_points_of_a_turned_picture_are_refused(tmp_path):
    for orientation in (1, 3, 6):
        save(tmp_path / "a.png", Image.fromarray(STORED), orientation)
        data = datasets.load(tmp_path)
        data.images[["x", "y", "width", "height"]] = np.float32([[3, 5, 7, 4]])
        data.parts, data.part_locations = ["corner"], torch.tensor([[[3.0, 5.0]]])
        if orientation == 1:
            assert datasets.boxes(data, [0]).tolist() == [[3, 5, 7, 4]]
            assert torch.equal(datasets.part_points(data, [0]), data.part_locations)
            continue
        for ask in (datasets.boxes, datasets.part_points):
            with pytest.raises(DatasetError, match="a.png: the picture is turned by EXIF.*save it upright"):
                ask(data, [0])


GREY_16 = np.arange(0, 65536, 65535 // 15 + 1, dtype=np.uint16)[None].repeat(2, 0)


def palette():
    image = Image.new("P", (2, 1))
    image.putpalette([250, 0, 0, 0, 0, 250])
    image.putpixel((1, 0), 1)
    return image, {"transparency": 0}


def frames(*colours):
    first, *others = [Image.new("RGB", (4, 4), colour) for colour in colours]
    return first, {"save_all": True, "append_images": others, "duration": 100}


HALF_RED = np.uint8([[[200, 0, 0, 128]]])
ON_WHITE = np.uint8([[np.round(np.array([200, 0, 0]) * 128 / 255 + 255 * 127 / 255)]])
KINDS = {
    "grey16.png": ((Image.fromarray(GREY_16), {}), np.stack([np.round(GREY_16 / 257)] * 3, -1)),
    "grey16.tif": ((Image.fromarray(GREY_16), {}), np.stack([np.round(GREY_16 / 257)] * 3, -1)),
    "grey16.pgm": ((Image.fromarray(GREY_16), {}), np.stack([np.round(GREY_16 / 257)] * 3, -1)),
    "half.png": ((Image.fromarray(HALF_RED), {}), ON_WHITE),
    "half.webp": ((Image.fromarray(HALF_RED), {"lossless": True}), ON_WHITE),
    "clear.png": ((Image.new("LA", (1, 1), (7, 0)), {}), [[[255, 255, 255]]]),
    "clear.gif": (palette(), [[[255, 255, 255], [0, 0, 250]]]),
    "ink.tif": ((Image.new("CMYK", (1, 1), (0, 255, 255, 0)), {}), [[[255, 0, 0]]]),
    "moving.gif": (frames("red", "blue"), np.full((4, 4, 3), (255, 0, 0))),
    "moving.png": (frames("lime", "blue"), np.full((4, 4, 3), (0, 255, 0))),
}


def test_each_kind_of_picture(tmp_path):
    for name, ((image, options), wanted) in KINDS.items():
        image.save(tmp_path / name, **options)
        seen = np.asarray(datasets.load_image(tmp_path / name)).astype(int)
        assert np.abs(seen - np.asarray(wanted, int)).max() <= 1, name


def test_grey_of_unknown_range_is_refused(tmp_path):
    for values in (np.int32([[0, 70000]]), np.float32([[0, 1]])):
        Image.fromarray(values).save(file := tmp_path / "a.tif")
        with pytest.raises(DatasetError, match="a.tif: image cannot be read.*what is white is not known"):
            datasets.load_image(file)


SOME = {
    "RGB": Image.fromarray(STORED),
    "P": Image.fromarray(STORED).quantize(9),
    "L": Image.fromarray(STORED[..., 0]),
    "CMYK": Image.fromarray(np.concatenate([STORED, STORED[..., :1]], -1), "CMYK"),
}


def in_srgb(image, profile, mode):
    """The pixels that Pillow alone converts."""
    to = ImageCms.createProfile("sRGB")
    return ImageCms.profileToProfile(image.convert(mode), io.BytesIO(profile), to, outputMode="RGB")


def test_colours_are_those_of_the_profile(tmp_path):
    for kind, profile, space, suffixes in (
        ("RGB", P3, "RGB", ".jpg .png .tif .webp"),
        ("RGB", ADOBE, "RGB", ".jpg .png"),
        ("RGB", PROPHOTO, "RGB", ".jpg .tif"),
        ("P", P3, "RGB", ".png"),
        ("L", GREY, "L", ".jpg .png .tif"),
        ("L", PROPHOTO, "RGB", ".jpg"),
        ("CMYK", INK, "CMYK", ".jpg .tif"),
    ):
        for suffix in suffixes.split():
            file = save(tmp_path / f"a{suffix}", SOME[kind], icc_profile=profile)
            with Image.open(file) as opened:
                wanted = in_srgb(opened, profile, space)
                assert (
                    datasets.as_seen(opened).tobytes() == wanted.tobytes() != opened.convert("RGB").tobytes()
                )
            assert datasets.load_image(file).tobytes() == wanted.tobytes(), (kind, suffix)
            assert datasets.as_seen(datasets.load_image(file)).tobytes() == wanted.tobytes()  # and only once


def test_colours_of_turned_transparent_and_deep_pictures(tmp_path):
    file = save(tmp_path / "a.jpg", SOME["RGB"], 6, icc_profile=P3)
    wanted = in_srgb(ImageOps.exif_transpose(Image.open(file)), P3, "RGB")
    assert datasets.load_image(file).tobytes() == wanted.tobytes()
    half = SOME["RGB"].copy()
    half.putalpha(Image.fromarray(STORED[..., 1]))
    wanted = in_srgb(SOME["RGB"], P3, "RGB")
    wanted.putalpha(half.getchannel("A"))
    wanted = Image.alpha_composite(Image.new("RGBA", half.size, "white"), wanted).convert("RGB")
    file = save(tmp_path / "a.png", half, icc_profile=P3)
    assert datasets.load_image(file).tobytes() == wanted.tobytes()
    file = save(tmp_path / "b.png", Image.fromarray(GREY_16), icc_profile=GREY)
    eight_bits = Image.fromarray(np.round(GREY_16 / 257).astype(np.uint8))
    assert datasets.load_image(file).tobytes() == in_srgb(eight_bits, GREY, "L").tobytes()


def test_srgb_and_profiles_that_say_nothing_change_no_pixel(tmp_path):
    for suffix in (".jpg", ".png", ".tif", ".webp"):
        for profile in (SRGB, b"no profile", P3[:200], P3[:128] + b"x" * 300, GREY, INK, b""):
            file = save(tmp_path / f"a{suffix}", SOME["RGB"], icc_profile=profile)
            with Image.open(file) as opened:
                stored = opened.convert("RGB").tobytes()
            assert datasets.load_image(file).tobytes() == stored
    file = save(tmp_path / "a.tif", SOME["CMYK"], icc_profile=P3)
    assert datasets.load_image(file).tobytes() == SOME["CMYK"].convert("RGB").tobytes()


def test_what_is_kept_of_a_picture_before_its_colours_were_converted_is_not_taken(tmp_path):
    keys = {}
    for name, profile in (("none", None), ("same", SRGB), ("broken", P3[:200]), ("other", P3)):
        for suffix in (".jpg", ".png", ".tif", ".webp"):
            file = save(tmp_path / f"{name}{suffix}", SOME["RGB"], icc_profile=profile)
            is_as_before = file_keys([file]) == [content_key(file.read_bytes())]
            assert is_as_before == (name != "other"), (name, suffix)
            keys |= dict.fromkeys(file_keys([file]))
    assert len(keys) == 16
