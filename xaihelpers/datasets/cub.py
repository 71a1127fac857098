"""One reader for all data in CUB-200-2011's folders and files: the aviary, the real CUB, subsets of it."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import normalise_attribute, unknown_name
from xaihelpers.datasets.cub_files import check_lines, numbers_in_lines, read_names, read_rows
from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name, require_choice
from xaihelpers.datasets.folders import is_image_file
from xaihelpers.text_files import on_disk, require_distinct, words

log = logging.getLogger(__name__)


def load_cub(root: Path, attributes: str = "auto") -> Dataset:
    """Read a folder in CUB-200-2011's format: boxes, attributes and parts are known; masks in drawn worlds.

    Image and class ids may have gaps; row k of class_attribute_labels_continuous.txt is class id k. Classes
    are those with images, by ascending id, named as in the files ("018.Spotted_Catbird").

    attributes: "image" takes each image's own attribute labels; "class" gives every image those of its class,
        for sets without attributes/image_attribute_labels.txt; "auto" takes the images' own where they are
        recorded.
    Raises DatasetError naming file, line and remedy where a file is missing, truncated, or holds what it
        should not; TextFileError for one that is not UTF-8, and for two names that would be one.
    """
    require_choice("attributes", attributes, ("auto", "image", "class"))
    inner = [path.parent.name for path in root.glob("*/images.txt")]
    if inner and not (root / "images.txt").is_file():
        raise DatasetError(
            f"{root / 'images.txt'}: missing, so this is no folder in CUB-200-2011's format. Its folder "
            f"{inner[0]!r} is one: name that."
        )
    file = root / "classes.txt"
    names = read_names(file)
    check_lines(names.index > 0, file, "class id {}, but ids count from 1", names.index)
    require_distinct(names, str(file), class_name)
    images = _read_images(root, names.index)
    class_ids = np.sort(images["class_id"].unique())
    classes = pd.DataFrame(
        {"name": names[class_ids].tolist(), "label": range(len(class_ids))},
        index=pd.Index(class_ids, name="class_id"),
    )
    images.insert(2, "label", images["class_id"].map(classes["label"]).astype("int64"))
    image_ids = images.index.rename("images.txt")
    attribute_table = _read_attributes(root)
    file = root / "parts/parts.txt"
    parts = read_names(file, counted=True)
    require_distinct(parts, str(file))
    columns = {"x": None, "y": None, "visible": (0, 1)}
    x, y, visible = read_rows(root / "parts/part_locs.txt", [image_ids, parts.index], columns)
    locations = np.where(visible[..., None] == 1, np.stack([x, y], -1), np.nan).astype("float32")
    labels = root / "attributes/image_attribute_labels.txt"
    present = certainty = None
    if labels.is_file():
        columns = {"is_present": (0, 1), "certainty_id": (1, 2, 3, 4)}
        attribute_ids = attribute_table.index.rename("attributes.txt")
        # A subset of CUB may keep the whole file; some lines of the official one have a field too many.
        found = read_rows(labels, [image_ids, attribute_ids], columns, others_too=True)
        present, certainty = torch.from_numpy(found[0] == 1), torch.from_numpy(found[1].astype("int8"))
    elif attributes == "image":
        raise DatasetError(
            f"{labels}: missing, so the images have no attribute labels of their own. Restore the file, "
            'or ask for attributes="class" to give every image the labels of its class.'
        )
    elif attributes == "auto":
        log.info("%s has no attribute labels per image: every image has those of its class", root.name)
    if attributes == "auto":
        attributes = "class" if present is None else "image"
    mask_names = None
    if (root / "masks").is_dir():
        # number P + 1 in the aviary's masks
        mask_names = [*parts, "rest of the body"] if (root / "aviary.json").exists() else parts.tolist()
    return Dataset(
        root,
        images,
        classes,
        attributes=attribute_table,
        attribute_level=attributes,
        present=present,
        certainty=certainty,
        class_attributes=_read_class_attributes(root, class_ids, len(attribute_table)),
        parts=parts.tolist(),
        part_locations=torch.from_numpy(locations),
        mask_names=mask_names,
    )


def class_label(data: Dataset, name: str) -> int:
    """The label (0 … K−1) of a class by name: "018.Spotted_Catbird" or, in any case, "spotted catbird".

    Raises DatasetError, with the nearest name, for an unknown one, and for one that may be two classes.
    """

    def said(text: str) -> str:
        return words(class_name(text).replace("-", " "))

    known = data.classes["name"].map(class_name)
    matches = known[known.map(said) == said(name)]
    if len(matches) > 1:
        matches = matches[matches == class_name(name)]
    if len(matches) != 1:
        raise unknown_name("class", name, known)
    return int(data.classes["label"][matches.index[0]])


def _read_images(root: Path, class_ids: pd.Index) -> pd.DataFrame:
    """The table of images by image_id: path, class_id, train, x, y, width, height."""
    file = root / "images.txt"
    names = read_names(file)
    problem = "{!r} is no image file's name (.jpg, .png …), the file is truncated or damaged"
    check_lines(names.map(is_image_file), file, problem, names)
    within = [not Path(name).is_absolute() and ".." not in Path(name).parts for name in names]
    check_lines(within, file, "{!r} leads out of the folder images", names)
    paths = pd.Series([str(on_disk(root / "images" / name)) for name in names])
    check_lines(~paths.duplicated(), file, "the image {!r} for the second time", names)
    table = pd.DataFrame({"path": paths.tolist()}, index=names.index.rename("image_id"))
    for file, columns, kind in (
        ("image_class_labels.txt", {"class_id": class_ids}, "int32"),
        ("train_test_split.txt", {"train": (0, 1)}, "bool"),
        ("bounding_boxes.txt", dict.fromkeys(["x", "y", "width", "height"]), "float32"),
    ):
        for column, values in zip(columns, read_rows(root / file, [names.index], columns), strict=True):
            table[column] = values.astype(kind)
    return table


def _read_attributes(root: Path) -> pd.DataFrame:
    """The table of attributes by attribute_id, 1 … A: name, group, value."""
    # CUB's own archive has this one file beside its folder.
    places = [root / "attributes/attributes.txt", root.parent / "attributes.txt"]
    file = next((place for place in places if place.is_file()), places[0])
    names = read_names(file, counted=True).map(normalise_attribute)
    check_lines(["::" in name for name in names], file, "'group::value' expected, found {!r}", names)
    require_distinct(names, str(file))
    table = pd.DataFrame({"name": names.tolist()}, index=names.index.rename("attribute_id"))
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    return table


def _read_class_attributes(root: Path, class_ids: np.ndarray, count: int) -> torch.Tensor:
    """Percentages of each class as shares, (K, A) float32 in [0, 1]; line k of the file is class id k."""
    file = root / "attributes/class_attribute_labels_continuous.txt"
    values = numbers_in_lines(file, count)
    good = ((values >= 0) & (values <= 100)).all(1)
    check_lines(good, file, "a percentage outside 0 to 100", range(len(good)))
    if len(values) < class_ids.max():
        raise DatasetError(
            f"{file}: {len(values)} rows, but row k is class id k and the ids go up to {class_ids.max()}: "
            "the file is truncated. Unpack the data set again."
        )
    return torch.from_numpy(values)[class_ids - 1].div(100).float()
