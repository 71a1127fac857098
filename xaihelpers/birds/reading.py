"""One reader for every data set in CUB-200-2011's folder and file format: the aviary, the real CUB, subsets of it."""
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from .. import aviary, everyday
from ..paths import find_dataset
from .names import BirdsError, class_name, find_id, normalise_attribute, unknown_name
from .tables import REMEDY, broken_line, check_rows, lines_of, read_names, read_table, to_number

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}
NO_SUCH_IMAGE = "image id {} is not in images.txt (one of the two is cut short or damaged)"
OUT_OF_ORDER = "id {} out of order (they count from 1)"
DRAWN = {"aviary": aviary.ensure, "everyday": everyday.ensure}  # worlds that are drawn at first use


@dataclass(eq=False, repr=False)
class Birds:
    """The tables of one data set. Row n of every tensor is row n of `images`; label k is row k of `classes`."""

    root: Path
    images: pd.DataFrame           # by image_id: path, class_id, label (0..K-1), train, x, y, width, height (pixels)
    classes: pd.DataFrame          # by class_id, ascending, only those with images: name, label
    attributes: pd.DataFrame       # by attribute_id 1..A: name, group, value
    parts: list[str]               # P names, in the order of part_locations
    part_locations: torch.Tensor   # (N, P, 2) float32, x and y in pixels of the stored image, NaN where not visible
    part_visible: torch.Tensor     # (N, P) bool
    class_attributes: torch.Tensor  # (K, A) float32 in [0, 1], the share of people who saw the attribute
    attribute_level: str           # "image" | "class": what an image's own attribute labels are
    present: torch.Tensor | None   # (N, A) bool, None where there are no labels per image
    certainty: torch.Tensor | None  # (N, A) int8: 1 not visible, 2 guessing, 3 probably, 4 definitely
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # (width, height) by path, as far as read

    @property
    def labels(self) -> torch.Tensor:
        """(N,) int64, classes counted from 0 in the order of `classes`."""
        return torch.tensor(self.images["label"].to_numpy())

    def __repr__(self) -> str:
        return (f"Birds({self.root.name}: {len(self.images):,} images, {self.images['train'].sum():,} of them for training, "
                f"{len(self.classes)} classes, {len(self.attributes)} attributes per {self.attribute_level})")


def load_birds(data: str | Path, attributes: str = "image", check_files: bool = False) -> Birds:
    """Read a data set in CUB-200-2011's format.

    `data`: a path, or a name under XAI_DATA; "aviary" and "everyday" are drawn first if they are not there. `attributes`: "image" takes each image's own attribute
    labels; "class" gives every image those of its class, for sets without attributes/image_attribute_labels.txt. Image and class ids may have gaps; row k of
    class_attribute_labels_continuous.txt is class id k. The image files are looked for only with `check_files`.
    Raises BirdsError naming file, line and remedy where a file is missing, cut short, or holds what it should not.
    """
    if attributes not in ("image", "class"):
        raise BirdsError(f"attributes must be 'image' or 'class', not {attributes!r}")
    root = _folder(data)
    names = read_names(root / "classes.txt")
    check_rows([key > 0 for key in names], root / "classes.txt", "class id {}, but ids count from 1", list(names))
    images = _read_images(root, names)
    if check_files:
        lost = [path for path in images["path"] if not Path(path).is_file()]
        if lost:
            raise BirdsError(f"{lost[0]}: image file missing, named in images.txt ({len(lost):,} such in all). {REMEDY}")
    ids = np.sort(images["class_id"].unique())
    classes = pd.DataFrame({"name": [names[k] for k in ids], "label": range(len(ids))}, index=pd.Index(ids, name="class_id"))
    images.insert(2, "label", images["class_id"].map(classes["label"]).astype("int64"))
    attribute_table = _read_attributes(root)
    parts, locations, visible = _read_parts(root, images.index)
    shares = _read_class_attributes(root / "attributes/class_attribute_labels_continuous.txt", ids, len(attribute_table))
    labels = root / "attributes/image_attribute_labels.txt"
    present = certainty = None
    if labels.is_file():
        present, certainty = _read_image_attributes(labels, images.index, len(attribute_table))
    elif attributes == "image":
        raise BirdsError(f"{labels}: missing, so the images have no attribute labels of their own. Restore the file, "
                         f"or pass attributes=\"class\" to give every image the labels of its class.")
    return Birds(root, images, classes, attribute_table, parts, locations, visible, shares, attributes, present, certainty)


def class_label(birds: Birds, name: str) -> int:
    """The label (0..K-1) of a class by its name: "018.Spotted_Catbird", "Spotted Catbird" or "spotted_catbird".

    Raises BirdsError with the nearest name for an unknown one.
    """
    def plain(text):
        return text.lower().replace("_", " ").replace("-", " ").strip()
    known = birds.classes["name"].map(class_name)
    hit = birds.classes["label"][known.map(plain) == plain(class_name(name))]
    if hit.empty:
        raise unknown_name("class", name, known)
    return int(hit.iloc[0])


def part_index(birds: Birds, name: str) -> int:
    """The position of a part ("left wing") in `birds.parts`; BirdsError with the nearest name for an unknown one."""
    return find_id("part", name, pd.Series(birds.parts))


def _folder(data: str | Path) -> Path:
    root = DRAWN[str(data)]() if str(data) in DRAWN else find_dataset(data)
    if not (root / "images.txt").is_file():
        inner = [path.parent.name for path in root.glob("*/images.txt")]
        raise BirdsError(f"{root / 'images.txt'}: missing, so this is no folder in CUB-200-2011's format. "
                         + (f"Its folder {inner[0]!r} is one: name that." if inner else REMEDY))
    return root


def _read_by_image(path: Path, index: pd.Index, columns: dict[str, type]) -> pd.DataFrame:
    """A table with just one row for every image, in the file's order."""
    table = read_table(path, {"image_id": int, **columns})
    check_rows(table["image_id"].isin(index), path, NO_SUCH_IMAGE, table["image_id"])
    check_rows(~table["image_id"].duplicated(), path, "image id {} for the second time", table["image_id"])
    missing = index.difference(table["image_id"])
    if len(missing):
        raise BirdsError(f"{path}: {len(table):,} rows for {len(index):,} images, none for image id {missing[0]}: the file is cut short. {REMEDY}")
    return table


def _read_images(root: Path, class_names: dict[int, str]) -> pd.DataFrame:
    path = root / "images.txt"
    names = read_names(path)
    folder = root / "images"
    check_rows([Path(name).suffix.lower() in IMAGE_SUFFIXES for name in names.values()], path,
               "{!r} is no image file's name (.jpg, .jpeg, .png), the file is cut short or damaged", list(names.values()))
    check_rows([not Path(name).is_absolute() and ".." not in Path(name).parts for name in names.values()], path,
               "{!r} leads out of the folder images", list(names.values()))
    images = pd.DataFrame({"path": [str(folder / name) for name in names.values()]}, index=pd.Index(names, name="image_id"))
    for file, columns in {"image_class_labels.txt": {"class_id": int}, "train_test_split.txt": {"train": int},
                          "bounding_boxes.txt": {"x": float, "y": float, "width": float, "height": float}}.items():
        table = _read_by_image(root / file, images.index, columns)
        if "class_id" in columns:
            check_rows(table["class_id"].isin(class_names), root / file, "class id {} is not in classes.txt", table["class_id"])
        if "train" in columns:
            check_rows(table["train"].isin([0, 1]), root / file, "0 (test) or 1 (training) expected, found {}", table["train"])
            table["train"] = table["train"].astype(bool)
        images = images.join(table.set_index("image_id"))
    return images


def _read_attributes(root: Path) -> pd.DataFrame:
    # CUB's own archive has this one file beside its folder.
    places = [root / "attributes/attributes.txt", root.parent / "attributes.txt"]
    path = next((place for place in places if place.is_file()), places[0])
    names = read_names(path)
    check_rows([key == row for row, key in enumerate(names, 1)], path, OUT_OF_ORDER, list(names))
    check_rows(["::" in normalise_attribute(name) for name in names.values()], path, "'group::value' expected, found {!r}", list(names.values()))
    table = pd.DataFrame({"name": map(normalise_attribute, names.values())}, index=pd.Index(names, name="attribute_id"))
    check_rows(~table["name"].duplicated(), path, "{!r} for the second time", table["name"])
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    return table


def _read_parts(root: Path, index: pd.Index) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    names = read_names(root / "parts/parts.txt")
    check_rows([key == row for row, key in enumerate(names, 1)], root / "parts/parts.txt", OUT_OF_ORDER, list(names))
    path = root / "parts/part_locs.txt"
    table = read_table(path, {"image_id": int, "part_id": int, "x": float, "y": float, "visible": int})
    check_rows(table["visible"].isin([0, 1]), path, "visible must be 0 or 1, found {}", table["visible"])
    check_rows(table["image_id"].isin(index), path, NO_SUCH_IMAGE, table["image_id"])
    cell = _cells(path, table, index, "part", len(names))
    locations = np.empty((len(index) * len(names), 2), dtype="float32")
    visible = np.empty(len(index) * len(names), dtype=bool)
    visible[cell] = table["visible"] == 1
    locations[cell] = table[["x", "y"]]
    locations[~visible] = np.nan
    shape = (len(index), len(names))
    return list(names.values()), torch.from_numpy(locations.reshape(*shape, 2)), torch.from_numpy(visible.reshape(shape))


def _cells(path: Path, table: pd.DataFrame, index: pd.Index, what: str, count: int) -> np.ndarray:
    """The place of each row in an (N, count) matrix, after checking that every place is filled just once."""
    ids = table[f"{what}_id"].to_numpy()
    check_rows((ids >= 1) & (ids <= count), path, f"{what} id {{}} out of range (1 to {count})", ids, table.index)
    place = pd.Series(range(len(index)), index=index)
    cell = place.reindex(table["image_id"]).to_numpy(dtype="int64") * count + ids - 1
    filled = np.bincount(cell, minlength=len(index) * count)
    if (filled > 1).any():
        check_rows(~pd.Series(cell).duplicated(), path, f"the same image and {what} for the second time (image id {{}})",
                   table["image_id"], table.index)
    if (filled == 0).any():
        row, column = divmod(int(np.argmin(filled)), count)
        raise BirdsError(f"{path}: no row for image id {index[row]}, {what} id {column + 1}, and {(filled == 0).sum():,} such in all: "
                         f"the file is cut short. {REMEDY}")
    return cell


def _read_class_attributes(path: Path, class_ids: np.ndarray, count: int) -> torch.Tensor:
    rows = []
    for number, line in lines_of(path):
        fields = line.split()
        if len(fields) != count:
            raise broken_line(path, number, f"{len(fields)} numbers where {count} belong, one per attribute")
        rows.append([to_number(path, number, f"column {column}", float, text) for column, text in enumerate(fields, 1)])
        if not 0 <= min(rows[-1]) <= max(rows[-1]) <= 100:
            raise broken_line(path, number, "a percentage outside 0 to 100")
    if len(rows) < class_ids.max():
        raise BirdsError(f"{path}: {len(rows)} rows, but row k is class id k and the ids go up to {class_ids.max()}: the file is cut short. {REMEDY}")
    return torch.tensor(rows, dtype=torch.float64)[class_ids - 1].div(100).float()


def _read_image_attributes(path: Path, index: pd.Index, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    # Some lines of the official file have a field too many after these four.
    table = read_table(path, {"image_id": int, "attribute_id": int, "is_present": int, "certainty_id": int})
    check_rows(table["is_present"].isin([0, 1]), path, "is_present must be 0 or 1, found {}", table["is_present"])
    check_rows(table["certainty_id"].between(1, 4), path, "certainty id {} out of range (1 to 4)", table["certainty_id"])
    table = table[table["image_id"].isin(index)]  # a subset of CUB may keep the whole file
    cell = _cells(path, table, index, "attribute", count)
    present = np.empty(len(index) * count, dtype=bool)
    certainty = np.empty(len(index) * count, dtype="int8")
    present[cell] = table["is_present"] == 1
    certainty[cell] = table["certainty_id"]
    shape = (len(index), count)
    return torch.from_numpy(present.reshape(shape)), torch.from_numpy(certainty.reshape(shape))
