"""Image files of the birds: reading them, and where their parts lie in a network's input."""
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from .names import BirdsError
from .reading import Birds


def load_image(path: str | Path) -> Image.Image:
    """The image at `path`, wholly decoded, as RGB, what is transparent on white. Raises BirdsError naming a file that is missing or cannot be read."""
    try:
        with Image.open(path) as image:
            if image.has_transparency_data:
                image = image.convert("RGBA")
                return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
            return image.convert("RGB")
    except FileNotFoundError:
        raise BirdsError(f"{path}: image file missing. Unpack the data set again, or drop the image from images.txt.") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BirdsError(f"{path}: image cannot be read ({error}), the file is cut short or damaged. Restore it.") from error


def image_tensor(path: str | Path) -> torch.Tensor:
    """The image at `path` as (3, height, width) float32 in [0, 1]."""
    return torch.from_numpy(np.array(load_image(path))).permute(2, 0, 1).float().div(255)


def part_mask_path(birds: Birds, image_id: int) -> Path:
    """Where the part masks of an image lie (only drawn worlds have them): an index PNG, `masks/` in place of `images/`."""
    inside = Path(birds.images.loc[image_id, "path"]).relative_to(birds.root / "images")
    return birds.root / "masks" / inside.with_suffix(".png")


def image_sizes(birds: Birds, rows: Sequence[int] | None = None) -> torch.Tensor:
    """Width and height in pixels of the images at `rows` (0-based, all if None), (n, 2) int64; only headers are read."""
    paths = birds.images["path"] if rows is None else birds.images["path"].iloc[np.asarray(rows)]
    for path in paths:
        if path not in birds.sizes:
            try:
                with Image.open(path) as image:
                    birds.sizes[path] = image.size
            except (OSError, SyntaxError):
                birds.sizes[path] = load_image(path).size  # raises the error that names the file
    return torch.tensor([birds.sizes[path] for path in paths], dtype=torch.int64).reshape(-1, 2)


def place_points(points: torch.Tensor, image_size, resize: int | tuple[int, int] | None = None, crop: int | None = None) -> torch.Tensor:
    """Where points of an image lie after torchvision's Resize and CenterCrop: (..., 2) x and y, NaN where cropped away.

    `points` (..., 2): x and y counted from the image's left upper corner, so pixel i spans [i, i + 1) and the pixel of a
    point is its floor. `image_size`: (width, height), or one per image, (n, 2), for points (n, ..., 2). `resize`: the
    new length of the short side, or (height, width), or None. `crop`: side of the centred square, or None; where it
    is larger than the image, the image is padded.
    """
    old = torch.as_tensor(image_size, dtype=torch.float64)
    old = old.reshape(old.shape[:-1] + (1,) * (points.ndim - old.ndim) + (2,))
    new = old
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


def part_points(birds: Birds, rows: Sequence[int] | None = None, resize: int | tuple[int, int] | None = None,
                crop: int | None = None) -> torch.Tensor:
    """Where the part centres of the images at `rows` (0-based, all if None) lie in a network's input, (n, P, 2) float32.

    `resize` and `crop` as in place_points. NaN where a part is not visible or is cropped away; left and right apart.
    """
    points = birds.part_locations if rows is None else birds.part_locations[torch.as_tensor(np.asarray(rows))]
    return place_points(points, image_sizes(birds, rows), resize, crop)


def crop_to_box(image: Image.Image, box: Sequence[float], margin: float = 0.1) -> Image.Image:
    """The square of an image around a bounding box (x, y, width, height in pixels), wider than its longer side by `margin` on either end; moved, or made smaller, to lie within the image."""
    x, y, width, height = (float(value) for value in box)
    side = min(max(width, height) * (1 + 2 * margin) or min(image.size), *image.size)  # an empty box says nothing
    left, top = (min(max(at + size / 2 - side / 2, 0), whole - side) for at, size, whole in zip((x, y), (width, height), image.size))
    return image.crop((round(left), round(top), round(left + side), round(top + side)))


def portrait(birds: Birds, row: int, margin: float = 0.1) -> Image.Image:
    """The image at `row` (0-based), cut to its bird by `crop_to_box`. Raises BirdsError as load_image does."""
    image = birds.images.iloc[row]
    return crop_to_box(load_image(image["path"]), image[["x", "y", "width", "height"]], margin)
