"""Image files: reading them, and where their parts lie in a network's input."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps

from xaihelpers.datasets.dataset import Dataset, DatasetError, require_annotations


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
    """An image as people see it: RGB, upright, transparent pixels on white, of several frames the first.

    Turns that EXIF asks for are applied, and 16-bit grey is scaled to 8 bits.
    Raises ValueError for grey values of an unknown range (32 bits, or floating-point numbers).
    """
    if getattr(image, "is_animated", False):
        image.seek(0)
    form = image.format
    image.load()  # which turns TIFFs, and forgets their orientation
    if orientation(image) != 1:
        image = ImageOps.exif_transpose(image)
    if image.mode == "F" or image.mode.startswith("I"):
        image = _grey_as_seen(image, form)
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    seen = image.convert("RGB")
    seen.info = {}  # with EXIF's orientation it would be turned once more where it is passed on
    return seen


def orientation(image: Image.Image) -> int:
    """EXIF's orientation, 1 … 8; 1 is upright, as is an image without, or with EXIF data that are broken."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except (SyntaxError, ValueError, OSError, struct.error):
        return 1  # as viewers do
    return found if found in range(2, 9) else 1


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
    for path in data.images["path"].iloc[np.asarray(rows)]:
        try:
            with Image.open(path) as image:
                turn, size = orientation(image), image.size
        except (OSError, SyntaxError):
            turn, size = 1, load_image(path).size  # raises the error that names the file
        if turn != 1 and not may_be_turned:
            raise DatasetError(
                f"{path}: the picture is turned by EXIF, and whether its boxes and points are, too, is not "
                "known: save it upright, with boxes and points of the upright picture"
            )
        # Pillow gives the size of a TIFF upright
        sizes.append(size[::-1] if turn >= 5 and image.format != "TIFF" else size)
    return torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2)


def boxes(data: Dataset, rows: Sequence[int]) -> torch.Tensor:
    """Boxes of the objects at `rows` (0-based): x, y, width, height in pixels, (n, 4) float32.

    Raises DatasetError: an image that cannot be read, or is turned by EXIF.
    """
    image_sizes(data, rows, may_be_turned=False)
    return torch.tensor(data.images[["x", "y", "width", "height"]].to_numpy()[np.asarray(rows, dtype=int)])


def part_points(
    data: Dataset, rows: Sequence[int], resize: int | tuple[int, int] = 0, crop: int | None = None
) -> torch.Tensor:
    """Where the part centres of the images at `rows` (0-based) lie after torchvision's Resize and CenterCrop.

    resize: the new length of the short side, or (height, width); 0 where images are not resized.
    crop: side of the centred square, or None; where it is larger than the image, the image is padded.
    Returns (n, P, 2) float32, x and y from the upper left corner, so that pixel i spans [i, i + 1), NaN where
        a part is not visible or is cropped away; left and right parts are apart.
    Raises DatasetError: a data set without parts, an image that cannot be read, or is turned by EXIF.
    """
    require_annotations(data, "parts")
    points = data.part_locations[torch.as_tensor(np.asarray(rows))]
    size = old = image_sizes(data, rows, may_be_turned=False).double()[:, None]  # (n, 1, 2)
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
