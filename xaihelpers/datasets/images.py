"""Image files: reading them, and where their parts lie in a network's input."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from xaihelpers.datasets.dataset import Dataset, DatasetError, require_annotations


def load_image(path: str | Path) -> Image.Image:
    """The image at `path`, wholly decoded, as RGB; transparent pixels lie on white.

    Raises DatasetError naming a file that is missing or cannot be read.
    """
    try:
        with Image.open(path) as image:
            if image.has_transparency_data:
                image = image.convert("RGBA")
                return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
            return image.convert("RGB")
    except FileNotFoundError:
        raise DatasetError(
            f"{path}: image file missing. Restore it; or, where a file lists the images (images.txt, a CSV "
            "table), drop it there; else load the data set again."
        ) from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetError(
            f"{path}: image cannot be read ({error}), the file is truncated or damaged. Restore it."
        ) from error


def image_sizes(data: Dataset, rows: Sequence[int] | None = None) -> torch.Tensor:
    """Width and height in pixels of the images at `rows` (0-based, all if None), (n, 2) int64.

    Only the files' headers are read. Raises DatasetError as `load_image`.
    """
    paths = data.images["path"] if rows is None else data.images["path"].iloc[np.asarray(rows)]
    for path in paths:
        if path not in data.sizes:
            try:
                with Image.open(path) as image:
                    data.sizes[path] = image.size
            except (OSError, SyntaxError):
                data.sizes[path] = load_image(path).size  # raises the error that names the file
    return torch.tensor([data.sizes[path] for path in paths], dtype=torch.int64).reshape(-1, 2)


def place_points(
    points: torch.Tensor,
    image_size: tuple[int, int] | torch.Tensor,
    resize: int | tuple[int, int] | None = None,
    crop: int | None = None,
) -> torch.Tensor:
    """Where points lie after torchvision's Resize and CenterCrop: (..., 2), NaN where cropped away.

    points: (..., 2), x and y from the image's upper left corner, so pixel i spans [i, i + 1) and the pixel of
        a point is its floor.
    image_size: (width, height), or one per image, (n, 2), for points (n, ..., 2).
    resize: the new length of the short side, or (height, width); None or 0 where images are not resized.
    crop: side of the centred square, or None; where it is larger than the image, the image is padded.
    """
    old = torch.as_tensor(image_size, dtype=torch.float64)
    old = old.reshape(old.shape[:-1] + (1,) * (points.ndim - old.ndim) + (2,))
    new = old
    resize = resize or None  # a network's 0 leaves images as they are
    if isinstance(resize, int):
        short, long = old.amin(-1, keepdim=True), old.amax(-1, keepdim=True)
        new = torch.where(old == short, float(resize), torch.floor(resize * long / short))
    elif resize is not None:
        new = torch.tensor([resize[1], resize[0]], dtype=torch.float64).expand_as(old)
    placed, size = points.double() * new / old, new
    if crop is not None:
        gap = new - crop  # torchvision rounds half of it to even where it crops, and down where it pads
        placed = placed - torch.where(gap >= 0, torch.round(gap / 2), -torch.floor(-gap / 2))
        size = torch.full_like(new, crop)
    inside = ((placed >= 0) & (placed < size)).all(-1, keepdim=True)
    return torch.where(inside, placed, torch.nan).to(points.dtype)


def part_points(
    data: Dataset,
    rows: Sequence[int] | None = None,
    resize: int | tuple[int, int] | None = None,
    crop: int | None = None,
) -> torch.Tensor:
    """Where the part centres of the images at `rows` (0-based, all if None) lie in a network's input.

    resize, crop: as in `place_points`.
    Returns (n, P, 2) float32, x and y in pixels, NaN where a part is not visible or is cropped away; left and
        right parts are apart.
    Raises DatasetError: a data set without parts, an image that cannot be read.
    """
    locations = require_annotations(data, "parts").part_locations
    points = locations if rows is None else locations[torch.as_tensor(np.asarray(rows))]
    return place_points(points, image_sizes(data, rows), resize, crop)


def crop_to_box(image: Image.Image, box: Sequence[float], margin: float = 0.1) -> Image.Image:
    """The square of an image around a bounding box (x, y, width, height in pixels).

    The square is moved, or made smaller, to lie within the image; an empty box gives the largest one.

    margin: on either end, as a share of the box's longer side.
    """
    x, y, width, height = (float(value) for value in box)
    wanted = max(width, height) * (1 + 2 * margin) or min(image.size)
    side = min(wanted, *image.size)
    left = min(max(x + width / 2 - side / 2, 0), image.size[0] - side)
    top = min(max(y + height / 2 - side / 2, 0), image.size[1] - side)
    return image.crop((round(left), round(top), round(left + side), round(top + side)))
