"""One reader for all data in CUB-200-2011's folders and files: the aviary, the real CUB, subsets of it."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import class_name, find_id, normalise_attribute, unknown_name
from xaihelpers.datasets.dataset import Dataset, DatasetError, require_annotations
from xaihelpers.datasets.folders import IMAGE_SUFFIXES
from xaihelpers.datasets.text_tables import (
    REMEDY,
    broken_line,
    check_rows,
    lines_of,
    read_names,
    read_table,
    to_number,
)

log = logging.getLogger(__name__)
ATTRIBUTE_LEVELS = ("auto", "image", "class")
NO_SUCH_IMAGE = "image id {} is not in images.txt (one of the two is truncated or damaged)"
OUT_OF_ORDER = "id {} out of order (they count from 1)"


class CubDataset(Dataset):
    """A data set in CUB-200-2011's format: boxes, attributes and parts are known; masks in drawn worlds.

    `images`: by image_id, with class_id, x, y, width and height (pixels).
    `classes`: by class_id, ascending, only those with images, named as in the files ("018.Spotted_Catbird";
        `class_names` are plain).
    """

    @property
    def class_names(self) -> list[str]:
        """K names in plain words: "Spotted Catbird"."""
        return [class_name(name) for name in self.classes["name"]]


def load_cub(root: str | Path, attributes: str = "auto", check_files: bool = False) -> CubDataset:
    """Read a folder in CUB-200-2011's format.

    Image and class ids may have gaps; row k of class_attribute_labels_continuous.txt is class id k.

    attributes: "image" takes each image's own attribute labels; "class" gives every image those of its class,
        for sets without attributes/image_attribute_labels.txt; "auto" takes the images' own where they are
        recorded.
    check_files: check that the image files are there as well.
    Raises DatasetError naming file, line and remedy where a file is missing, truncated, or holds what it
        should not.
    """
    if attributes not in ATTRIBUTE_LEVELS:
        raise DatasetError(
            f"attributes must be one of {', '.join(map(repr, ATTRIBUTE_LEVELS))}, not {attributes!r}"
        )
    root = Path(root)
    _require_cub(root)
    names = read_names(root / "classes.txt")
    check_rows(
        [key > 0 for key in names], root / "classes.txt", "class id {}, but ids count from 1", list(names)
    )
    images = _read_images(root, names)
    if check_files:
        _require_image_files(images)
    class_ids = np.sort(images["class_id"].unique())
    classes = pd.DataFrame(
        {"name": [names[key] for key in class_ids], "label": range(len(class_ids))},
        index=pd.Index(class_ids, name="class_id"),
    )
    images.insert(2, "label", images["class_id"].map(classes["label"]).astype("int64"))
    attribute_table = _read_attributes(root)
    parts, locations = _read_parts(root, images.index)
    percentages = root / "attributes/class_attribute_labels_continuous.txt"
    class_attributes = _read_class_attributes(percentages, class_ids, len(attribute_table))
    labels = root / "attributes/image_attribute_labels.txt"
    present = certainty = None
    if labels.is_file():
        present, certainty = _read_image_attributes(labels, images.index, len(attribute_table))
    elif attributes == "image":
        raise DatasetError(
            f"{labels}: missing, so the images have no attribute labels of their own. Restore the file, "
            'or ask for attributes="class" to give every image the labels of its class.'
        )
    elif attributes == "auto":
        log.info("%s has no attribute labels per image: every image has those of its class", root.name)
    level = attributes
    if attributes == "auto":
        level = "class" if present is None else "image"
    mask_names = None
    if (root / "masks").is_dir():
        # number P + 1 in the aviary's masks
        rest = ["rest of the body"] if (root / "aviary.json").exists() else []
        mask_names = [*parts, *rest]
    return CubDataset(
        root,
        images,
        classes,
        attributes=attribute_table,
        attribute_level=level,
        present=present,
        certainty=certainty,
        class_attributes=class_attributes,
        parts=parts,
        part_locations=locations,
        mask_names=mask_names,
    )


def _require_cub(root: Path) -> None:
    """Raise where a folder is not in CUB's format, naming a folder in it that is."""
    if (root / "images.txt").is_file():
        return
    inner = [path.parent.name for path in root.glob("*/images.txt")]
    advice = f"Its folder {inner[0]!r} is one: name that." if inner else REMEDY
    raise DatasetError(
        f"{root / 'images.txt'}: missing, so this is no folder in CUB-200-2011's format. {advice}"
    )


def _require_image_files(images: pd.DataFrame) -> None:
    missing = [path for path in images["path"] if not Path(path).is_file()]
    if missing:
        raise DatasetError(
            f"{missing[0]}: image file missing, named in images.txt ({len(missing):,} such in all). {REMEDY}"
        )


def class_label(data: Dataset, name: str) -> int:
    """The label (0 … K−1) of a class by name: "018.Spotted_Catbird" or, in any case, "spotted catbird".

    Raises DatasetError, with the nearest name, for an unknown one.
    """

    def normalised(text: str) -> str:
        return text.lower().replace("_", " ").replace("-", " ").strip()

    known = data.classes["name"].map(class_name)
    matches = data.classes["label"][known.map(normalised) == normalised(class_name(name))]
    if matches.empty:
        raise unknown_name("class", name, known)
    return int(matches.iloc[0])


def part_index(data: Dataset, name: str) -> int:
    """The position of a part ("left wing") in `data.parts`.

    Raises DatasetError, with the nearest name, for an unknown one, and for a data set without parts.
    """
    return find_id("part", name, pd.Series(require_annotations(data, "parts").parts))


def _read_by_image(path: Path, index: pd.Index, columns: dict[str, type]) -> pd.DataFrame:
    """A table with just one row for every image, in the file's order."""
    table = read_table(path, {"image_id": int, **columns})
    check_rows(table["image_id"].isin(index), path, NO_SUCH_IMAGE, table["image_id"])
    check_rows(~table["image_id"].duplicated(), path, "image id {} for the second time", table["image_id"])
    missing = index.difference(table["image_id"])
    if len(missing):
        raise DatasetError(
            f"{path}: {len(table):,} rows for {len(index):,} images, none for image id {missing[0]}: the "
            f"file is truncated. {REMEDY}"
        )
    return table


def _read_images(root: Path, class_names: dict[int, str]) -> pd.DataFrame:
    """The table of images by image_id: path, class_id, train, x, y, width, height."""
    file = root / "images.txt"
    names = read_names(file)
    paths = pd.Series(names)
    check_rows(
        [Path(path).suffix.lower() in IMAGE_SUFFIXES for path in paths],
        file,
        "{!r} is no image file's name (.jpg, .jpeg, .png), the file is truncated or damaged",
        paths,
    )
    check_rows(
        [not Path(path).is_absolute() and ".." not in Path(path).parts for path in paths],
        file,
        "{!r} leads out of the folder images",
        paths,
    )
    check_rows(~paths.duplicated(), file, "the image {!r} for the second time", paths)
    images = pd.DataFrame(
        {"path": [str(root / "images" / path) for path in paths]}, index=pd.Index(names, name="image_id")
    )

    file = root / "image_class_labels.txt"
    labels = _read_by_image(file, images.index, {"class_id": int})
    check_rows(
        labels["class_id"].isin(class_names),
        file,
        "class id {} is not in classes.txt",
        labels["class_id"],
    )
    file = root / "train_test_split.txt"
    split = _read_by_image(file, images.index, {"train": int})
    check_rows(
        split["train"].isin([0, 1]), file, "0 (test) or 1 (training) expected, found {}", split["train"]
    )
    split["train"] = split["train"].astype(bool)
    columns = {"x": float, "y": float, "width": float, "height": float}
    boxes = _read_by_image(root / "bounding_boxes.txt", images.index, columns)
    for table in (labels, split, boxes):
        images = images.join(table.set_index("image_id"))
    return images


def _read_attributes(root: Path) -> pd.DataFrame:
    # CUB's own archive has this one file beside its folder.
    places = [root / "attributes/attributes.txt", root.parent / "attributes.txt"]
    path = next((place for place in places if place.is_file()), places[0])
    names = read_names(path)
    check_rows([key == row for row, key in enumerate(names, 1)], path, OUT_OF_ORDER, list(names))
    check_rows(
        ["::" in normalise_attribute(name) for name in names.values()],
        path,
        "'group::value' expected, found {!r}",
        list(names.values()),
    )
    table = pd.DataFrame(
        {"name": map(normalise_attribute, names.values())}, index=pd.Index(names, name="attribute_id")
    )
    check_rows(~table["name"].duplicated(), path, "{!r} for the second time", table["name"])
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    return table


def _read_parts(root: Path, index: pd.Index) -> tuple[list[str], torch.Tensor]:
    """Names of the parts, and their locations (N, P, 2), NaN where not visible."""
    file = root / "parts/parts.txt"
    names = read_names(file)
    check_rows([key == row for row, key in enumerate(names, 1)], file, OUT_OF_ORDER, list(names))
    file = root / "parts/part_locs.txt"
    table = read_table(file, {"image_id": int, "part_id": int, "x": float, "y": float, "visible": int})
    check_rows(table["visible"].isin([0, 1]), file, "visible must be 0 or 1, found {}", table["visible"])
    check_rows(table["image_id"].isin(index), file, NO_SUCH_IMAGE, table["image_id"])
    cell = _cells(file, table, index, "part", len(names))
    locations = np.empty((len(index) * len(names), 2), dtype="float32")
    locations[cell] = table[["x", "y"]]
    locations[cell[table["visible"] == 0]] = np.nan
    return list(names.values()), torch.from_numpy(locations.reshape(len(index), len(names), 2))


def _cells(path: Path, table: pd.DataFrame, index: pd.Index, kind: str, count: int) -> np.ndarray:
    """The flat position of each row in an (N, count) matrix, after checking that each is filled just once.

    kind: "part" or "attribute", whose ids run from 1 to `count`.
    """
    ids = table[f"{kind}_id"].to_numpy()
    check_rows(
        (ids >= 1) & (ids <= count), path, f"{kind} id {{}} out of range (1 to {count})", ids, table.index
    )
    row_of = pd.Series(range(len(index)), index=index)
    cell = row_of.reindex(table["image_id"]).to_numpy(dtype="int64") * count + ids - 1
    filled = np.bincount(cell, minlength=len(index) * count)
    if (filled > 1).any():
        check_rows(
            ~pd.Series(cell).duplicated(),
            path,
            f"the same image and {kind} for the second time (image id {{}})",
            table["image_id"],
            table.index,
        )
    if (filled == 0).any():
        row, column = divmod(int(np.argmin(filled)), count)
        raise DatasetError(
            f"{path}: no row for image id {index[row]}, {kind} id {column + 1}, and "
            f"{(filled == 0).sum():,} such in all: the file is truncated. {REMEDY}"
        )
    return cell


def _read_class_attributes(path: Path, class_ids: np.ndarray, count: int) -> torch.Tensor:
    """Percentages of each class as shares, (K, A) float32 in [0, 1]; line k of the file is class id k."""
    rows = []
    for number, line in lines_of(path):
        fields = line.split()
        if len(fields) != count:
            raise broken_line(path, number, f"{len(fields)} numbers where {count} belong, one per attribute")
        row = [
            to_number(path, number, f"column {column}", float, text) for column, text in enumerate(fields, 1)
        ]
        if not 0 <= min(row) <= max(row) <= 100:
            raise broken_line(path, number, "a percentage outside 0 to 100")
        rows.append(row)
    if len(rows) < class_ids.max():
        raise DatasetError(
            f"{path}: {len(rows)} rows, but row k is class id k and the ids go up to {class_ids.max()}: "
            f"the file is truncated. {REMEDY}"
        )
    return torch.tensor(rows, dtype=torch.float64)[class_ids - 1].div(100).float()


def _read_image_attributes(path: Path, index: pd.Index, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each image's labels: present (N, A) bool and certainty (N, A) int8."""
    # Some lines of the official file have a field too many after these four.
    table = read_table(path, {"image_id": int, "attribute_id": int, "is_present": int, "certainty_id": int})
    check_rows(
        table["is_present"].isin([0, 1]), path, "is_present must be 0 or 1, found {}", table["is_present"]
    )
    check_rows(
        table["certainty_id"].between(1, 4),
        path,
        "certainty id {} out of range (1 to 4)",
        table["certainty_id"],
    )
    table = table[table["image_id"].isin(index)]  # a subset of CUB may keep the whole file
    cell = _cells(path, table, index, "attribute", count)
    present = np.empty(len(index) * count, dtype=bool)
    certainty = np.empty(len(index) * count, dtype="int8")
    present[cell] = table["is_present"] == 1
    certainty[cell] = table["certainty_id"]
    shape = (len(index), count)
    return torch.from_numpy(present.reshape(shape)), torch.from_numpy(certainty.reshape(shape))
