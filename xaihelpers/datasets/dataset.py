"""A data set: its images, and what is known of them. What nobody recorded is None."""

import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import ExifTags, Image

from xaihelpers.text_files import plain

# CUB's zero-padded id before a class's name, which is no number such as 1.0 or 100.5
CLASS_ID = re.compile(r"^\d{3,}\.(?=[^\W\d])")


class DatasetError(ValueError):
    """Data that are missing, broken or misnamed; the message names them and the remedy."""


@dataclass(eq=False, repr=False)
class Dataset:
    """N images of K classes; row n of every tensor is `images.iloc[n]`, label k is row k of `classes`.

    `images` has the columns path, label (0 … K-1; -1 where nobody labelled the image) and train. A data set
    in CUB-200-2011's format adds class_id and the box of the object, x, y, width and height, and a
    substitution benchmark the columns attribute, bird and id.

    Boxes and part_locations are in pixels of the image, as the files have them.
    """

    root: Path  # the folder of the data set
    images: pd.DataFrame  # path, label, train
    classes: pd.DataFrame  # by class_id: name, label
    name: str = ""  # of the folder, unless another is given
    # by attribute_id 1 … A: name, group, value
    attributes: pd.DataFrame | None = None
    # "image" or "class": whether an image's attribute labels are its own or those of its class
    attribute_level: str | None = None
    present: torch.Tensor | None = None  # (N, A) bool, each image's own labels
    certainty: torch.Tensor | None = None  # (N, A) int8: 1 not visible, 2 guessing, 3 probably, 4 definitely
    class_attributes: torch.Tensor | None = None  # (K, A) float32 in [0, 1], share of people who saw it
    parts: list[str] | None = None  # P names, in the order of part_locations
    part_locations: torch.Tensor | None = None  # (N, P, 2) float32, x and y in pixels, NaN where not visible
    mask_names: list[str] | None = None  # what the numbers 1 … of a part mask stand for; None without masks
    # which of `parts` each of them shows: one, unless the masks are a user's
    mask_parts: list[tuple[str, ...]] | None = None
    mask_folder: Path | None = None  # of a user's masks; a drawn world has its own
    left_out: str = ""  # which files of its folders were not read, and how many

    def __post_init__(self):
        self.name = self.name or self.root.name
        if self.mask_parts is None and self.mask_names is not None:
            self.mask_parts = [(name,) for name in self.mask_names]

    @property
    def drawn(self) -> bool:
        """Whether the images are of a drawn world: its settings lie beside them."""
        return any((self.root / f"{world}.json").is_file() for world in ("aviary", "everyday"))

    @property
    def labels(self) -> torch.Tensor:
        """(N,) int64, classes counted from 0 in the order of `classes`."""
        return torch.tensor(self.images["label"].to_numpy(dtype="int64"))

    @property
    def train(self) -> torch.Tensor:
        """(N,) bool, whether an image is for training."""
        return torch.tensor(self.images["train"].to_numpy(dtype=bool))

    @property
    def class_names(self) -> list[str]:
        """K names in plain words: "Spotted Catbird", where the files have "018.Spotted_Catbird"."""
        return [class_name(name) for name in self.classes["name"]]

    @property
    def image_ids(self) -> list[str]:
        """N unique file names (as `plain` has them), by which outputs are matched with images.

        They are relative to the data set's folder of images, so that they are the same wherever it lies; of
        an image that lies elsewhere it is the bare name, or the path where that is not unique. Rows that
        `images` gives ids of their own, in a column `id`, have these. Raises DatasetError: one stands twice.
        """
        if "id" in self.images:
            return [plain(name) for name in self.images["id"]]
        folder = self.root / "images" if (self.root / "images").is_dir() else self.root
        paths = [Path(path) for path in self.images["path"]]
        names = Counter(path.name for path in paths if not path.is_relative_to(folder))
        ids = []
        for path in paths:
            if path.is_relative_to(folder):
                path = path.relative_to(folder)
            elif names[path.name] == 1:
                path = path.name
            ids.append(plain(path))
        twice = pd.Index(ids).duplicated()
        if twice.any():
            raise DatasetError(f"{self.name}: {ids[twice.argmax()]!r} stands twice: keep one of its rows")
        return ids

    def mask_file(self, row: int) -> Path:
        """Where the part mask of the image at `row` (0-based) lies."""
        image = Path(self.images["path"].iloc[row]).relative_to(self.root / "images")
        return (self.mask_folder or self.root / "masks") / image.with_suffix(".png")

    def part_mask(self, row: int) -> np.ndarray:
        """Parts of the image at `row` (0-based), (H, W) uint8: 0 background, n the part `mask_names[n - 1]`.

        A mask that a user's folder lacks is empty.
        Raises DatasetError for data without masks, for one that cannot be read, holds colours or is not of
        its picture's size, for numbers that a user's table does not tell, and a picture that cannot be read.
        """
        if self.mask_names is None:
            raise DatasetError(f"{self.name} has no part masks: give a folder of them, or name a drawn world")
        file = self.mask_file(row)
        picture = self.images["path"].iloc[row]
        try:
            with Image.open(picture) as image:
                width, height = upright_size(image)
        except (OSError, SyntaxError) as error:
            raise DatasetError(f"{picture}: image cannot be read ({error}): restore it") from error
        if self.mask_folder and not file.is_file():
            return np.zeros((height, width), np.uint8)
        try:
            mask = np.asarray(Image.open(file))
        except (OSError, SyntaxError) as error:
            raise DatasetError(
                f"{file}: mask cannot be read ({error}): save it anew; of a drawn world, delete the folder"
            ) from error
        told = [0, *(number for number, parts in enumerate(self.mask_parts, 1) if parts)]
        if mask.ndim != 2 or not np.isin(mask, told).all():
            raise DatasetError(f"{file}: one of the numbers {told}, and no colour, is needed for each pixel")
        if mask.shape != (height, width):
            raise DatasetError(
                f"{file}: mask of {mask.shape[::-1]} pixels for an image of {width, height}: scale it to the "
                "image's size, each pixel by its nearest neighbour"
            )
        return mask.astype(np.uint8)

    def mask_numbers(self, parts: Sequence[str]) -> list[int]:
        """The numbers in part masks that show any of some parts; none without masks."""
        return [number for number, shown in enumerate(self.mask_parts or [], 1) if set(shown) & set(parts)]

    def __repr__(self) -> str:
        counts = f"{len(self.images):,} images, {self.images['train'].sum():,} of them for training"
        known = f"{self.name}: {counts}, {len(self.classes)} classes"
        if self.attributes is not None:
            known += f", {len(self.attributes)} attributes per {self.attribute_level}"
        if self.left_out:
            known += f"; left out: {self.left_out}"
        return f"{type(self).__name__}({known})"


def orientation(image: Image.Image) -> int:
    """EXIF's orientation, 1 … 8; 1 is upright, as is an image without, or with EXIF data that are broken."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except (SyntaxError, ValueError, OSError, struct.error):
        return 1  # as viewers do
    return found if found in range(2, 9) else 1


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of an image as people see it; Pillow gives those of a TIFF so."""
    return image.size[::-1] if orientation(image) >= 5 and image.format != "TIFF" else image.size


def class_name(name: str) -> str:
    """A class's name in plain words: "018.Spotted_Catbird", "Spotted_Catbird" -> "Spotted Catbird".

    Only CUB's zero-padded ids are cut off: "1.0" and "1.5 l bottle" stay.
    """
    return CLASS_ID.sub("", plain(name)).replace("_", " ")


def require_annotations(data: Dataset, kind: str = "attributes") -> None:
    """Raise DatasetError where a data set comes without what `kind` names, "attributes" or "parts"."""
    if getattr(data, kind) is None:
        raise DatasetError(f"{data.name} comes without {kind}: name data in CUB-200-2011's format, as aviary")


def require_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise DatasetError for a value of the argument `name` that is not among its choices."""
    if value not in choices:
        raise DatasetError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
