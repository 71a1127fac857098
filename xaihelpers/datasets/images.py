"""Image files: reading them, and where their parts lie in a network's input."""

import io
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from weakref import WeakSet

import numpy as np
import torch
from PIL import Image, ImageCms, ImageOps

from xaihelpers.datasets.contradictions import BOX, HALF_A_PIXEL, require_boxes_in_pictures
from xaihelpers.datasets.dataset import (
    Dataset,
    DatasetError,
    orientation,
    require_annotations,
    upright_size,
)

log = logging.getLogger(__name__)
LOOKED_AT = 400  # pictures, at most, whose sizes are read to be held against the boxes of a data set
# data sets whose boxes were held against their pictures, and those of which the log says that some leave them
_HELD, _SAID = WeakSet(), WeakSet()
ROUNDING = 3  # of 255: profiles of sRGB differ by less among themselves


def load_image(path: str | Path) -> Image.Image:
    """The image at `path`, wholly decoded, as people see it: see `as_seen`.

    Raises DatasetError naming a file that is missing or cannot be read.
    """
    try:
        with Image.open(path) as image:
            return as_seen(image)
    except FileNotFoundError:
        raise DatasetError(f"{path}: image file missing. Restore it, or load the data set again.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetError(
            f"{path}: image cannot be read ({error}), the file is truncated or damaged. Restore it."
        ) from error


def as_seen(image: Image.Image) -> Image.Image:
    """An image as people see it: sRGB, upright, transparent pixels on white, of several frames the first.

    Turns that EXIF asks for are applied, colours are converted as the image's colour profile says (one that
    is broken, or of another kind of pixels, is passed over), and 16-bit grey is scaled to 8 bits.
    Raises ValueError for grey values of an unknown range (32 bits, or floating-point numbers).
    """
    if getattr(image, "is_animated", False):
        image.seek(0)
    form = image.format
    to_srgb = _to_srgb(image)
    image.load()  # which turns TIFFs, and forgets their orientation
    if orientation(image) != 1:
        image = ImageOps.exif_transpose(image)
    if image.mode == "F" or image.mode.startswith("I"):
        image = _grey_as_seen(image, form)
    elif image.has_transparency_data:
        image = image.convert("RGBA")
    if to_srgb is not None:
        shown = to_srgb.apply(image.convert(to_srgb.input_mode))
        if image.mode == "RGBA":
            shown.putalpha(image.getchannel("A"))
        image = shown
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    seen = image.convert("RGB")
    seen.info = {}  # with EXIF's orientation it would be turned once more where it is passed on
    return seen


def is_converted(image: Image.Image | bytes) -> bool:
    """Whether `as_seen` converts the colours of an image, or of a file's content, by its colour profile."""
    if isinstance(image, Image.Image):
        return _to_srgb(image) is not None
    if image[:2] == b"\xff\xd8" and b"ICC_PROFILE" not in image:  # a JPEG without one, told without Pillow
        return False
    try:
        with Image.open(io.BytesIO(image)) as opened:
            return _to_srgb(opened) is not None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False  # `load_image` says what is wrong with it


def _to_srgb(image: Image.Image) -> ImageCms.ImageCmsTransform | None:
    """What converts an image's colours to sRGB; None where they are sRGB, or are not known to be others."""
    profile = image.info.get("icc_profile")
    is_grey = image.mode in ("1", "L", "LA", "La") or image.mode.startswith("I")
    kind = "GRAY" if is_grey else "CMYK" if image.mode == "CMYK" else "RGB"
    return _conversion(profile, kind) if profile else None


@lru_cache(maxsize=32)
def _conversion(profile: bytes, kind: str) -> ImageCms.ImageCmsTransform | None:
    """What converts pixels of a kind, GRAY, RGB or CMYK, to sRGB by an ICC profile, if anything has to."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = source.profile.xcolor_space.strip()
        if space != kind and (space, kind) != ("RGB", "GRAY"):
            return None
        mode = "L" if space == "GRAY" else space
        found = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return None  # as viewers do
    levels = np.linspace(0, 255, 18).round().astype(np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels), -1).reshape(1, -1, 3)
    tried = Image.fromarray(colours if mode == "RGB" else colours[..., 0]).convert(mode)
    moved = np.abs(np.asarray(found.apply(tried), int) - np.asarray(tried.convert("RGB"), int)).max()
    return found if moved > ROUNDING else None


def _grey_as_seen(image: Image.Image, form: str | None) -> Image.Image:
    """16-bit grey as 8-bit grey; the one value that is transparent, if there is one, is white."""
    # Pillow reads 16-bit PGM (and, once, PNG) as 32-bit numbers
    if not (image.mode.startswith("I;16") or (image.mode == "I" and form in ("PNG", "PPM"))):
        raise ValueError(f"what is white is not known of its grey values ({image.mode}): save it with 8 bits")
    grey = np.array(image).astype(np.int64)
    if "transparency" in image.info:
        grey[grey == image.info["transparency"]] = 65535
    return Image.fromarray(np.round(grey / 257).astype(np.uint8))


def image_sizes(data: Dataset, rows: Sequence[int], may_be_turned: bool = True) -> torch.Tensor:
    """Width and height in pixels of the images at `rows` (0-based), upright, (n, 2) int64.

    Only the files' headers are read.
    Raises DatasetError as `load_image`, and where an image is turned by EXIF and may not be.
    """
    sizes = []
    for path in data.images["path"].iloc[np.asarray(rows, dtype=int)]:
        try:
            with Image.open(path) as image:
                turn, size = orientation(image), upright_size(image)
        except (OSError, SyntaxError):
            turn, size = 1, load_image(path).size  # raises the error that names the file
        if turn != 1 and not may_be_turned:
            raise DatasetError(
                f"{path}: the picture is turned by EXIF, and whether its boxes and points are, too, is not "
                "known: save it upright, with boxes and points of the upright picture"
            )
        sizes.append(size)
    return torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2)


def boxes(data: Dataset, rows: Sequence[int]) -> torch.Tensor:
    """Boxes of the objects at `rows` (0-based): x, y, width, height in pixels, (n, 4) float32.

    Of a box that leaves its picture what lies in it remains, and the log says once how many do.
    Raises DatasetError: an image that cannot be read, or is turned by EXIF; a box most of which lies outside;
        boxes that contradict the pictures as of `require_boxes_in_pictures`.
    """
    sizes = _annotated_sizes(data, rows)
    found = torch.tensor(data.images[BOX].to_numpy()[np.asarray(rows, dtype=int)])
    start, end = found[:, :2].clamp(min=0), torch.minimum(found[:, :2] + found[:, 2:], sizes)
    within = torch.cat([start, (end - start).clamp(min=0)], 1)
    leaves = (found - within).abs().amax(1) > HALF_A_PIXEL  # what is less is rounding
    is_most_out = within[:, 2:].prod(1) < 0.5 * found[:, 2:].prod(1)
    if is_most_out.any():
        path = data.images["path"].iloc[int(np.asarray(rows)[int(is_most_out.int().argmax())])]
        raise DatasetError(
            f"{path}: most of its box lies outside of the picture: write the box of this picture, or leave "
            "the image out"
        )
    if leaves.any() and data not in _SAID:
        _SAID.add(data)
        told = "%s: %d of %d boxes leave their picture: cut to it"
        log.warning(told, data.name, int(leaves.sum()), len(found), extra={"note": True})
    return torch.where(leaves[:, None], within, found)


def _annotated_sizes(data: Dataset, rows: Sequence[int]) -> torch.Tensor:
    """As `image_sizes`, of pictures that boxes and points are of: once, some of a data set are compared."""
    sizes = image_sizes(data, rows, may_be_turned=False)
    if data not in _HELD and "width" in data.images:
        of_row = dict(zip(np.asarray(rows, dtype=int).tolist(), sizes.tolist(), strict=True))
        for row in range(0, len(data.images), len(data.images) // LOOKED_AT + 1):
            with suppress(DatasetError):  # said where the image is asked for
                of_row[row] = of_row.get(row) or image_sizes(data, [row], may_be_turned=False)[0].tolist()
        places = data.images[BOX].to_numpy(float)[[*of_row]]
        require_boxes_in_pictures(data.name, places, np.array([*of_row.values()]).reshape(-1, 2))
        _HELD.add(data)
    return sizes


def part_points(
    data: Dataset, rows: Sequence[int], resize: int | tuple[int, int] = 0, crop: int | None = None
) -> torch.Tensor:
    """Where the part centres of the images at `rows` (0-based) lie after torchvision's Resize and CenterCrop.

    resize: the new length of the short side, or (height, width); 0 where images are not resized.
    crop: side of the centred square, or None; where it is larger than the image, the image is padded.
    Returns (n, P, 2) float32, x and y from the upper left corner, so that pixel i spans [i, i + 1), NaN where
        a part is not visible or is cropped away; left and right parts are apart.
    Raises DatasetError: a data set without parts, an image that cannot be read, or is turned by EXIF; boxes
        that contradict the pictures as of `require_boxes_in_pictures`.
    """
    require_annotations(data, "parts")
    points = data.part_locations[torch.as_tensor(np.asarray(rows))]
    size = old = _annotated_sizes(data, rows).double()[:, None]  # (n, 1, 2)
    if isinstance(resize, tuple):
        size = torch.tensor([resize[1], resize[0]], dtype=torch.float64).expand_as(old)
    elif resize:
        short, long = old.amin(-1, keepdim=True), old.amax(-1, keepdim=True)
        size = torch.where(old == short, float(resize), torch.floor(resize * long / short))
    placed = points.double() * size / old
    if crop is not None:
        gap = size - crop  # torchvision rounds half of it to even where it crops, and down where it pads
        placed = placed - torch.where(gap >= 0, torch.round(gap / 2), -torch.floor(-gap / 2))
        size = torch.full_like(size, crop)
    inside = ((placed >= 0) & (placed < size)).all(-1, keepdim=True)
    return torch.where(inside, placed, torch.nan).float()


def crop_to_box(image: Image.Image, box: Sequence[float]) -> Image.Image:
    """The square around a bounding box (x, y, width, height in pixels) with a tenth of its side as margin.

    It is moved, or made smaller, to lie within the image; an empty box gives the largest one.
    """
    x, y, width, height = (float(value) for value in box)
    wanted = max(width, height) * 1.2 or min(image.size)
    side = min(wanted, *image.size)
    left = min(max(x + width / 2 - side / 2, 0), image.size[0] - side)
    top = min(max(y + height / 2 - side / 2, 0), image.size[1] - side)
    return image.crop((round(left), round(top), round(left + side), round(top + side)))
