"""One reader for all data in CUB-200-2011's folders and files: the aviary, the real CUB, subsets of it."""

import io
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import normalise_attribute, unknown_name
from xaihelpers.datasets.contradictions import (
    require_labels_of_classes,
    require_masks_in_boxes,
    require_points_in_boxes,
)
from xaihelpers.datasets.dataset import CLASS_ID, Dataset, DatasetError, class_name, require_choice
from xaihelpers.datasets.folders import is_image_file
from xaihelpers.text_files import on_disk, read_text, require_distinct, words

log = logging.getLogger(__name__)
NOT_VISIBLE = 1  # of an annotation's certainties
REMEDY = "Unpack the data set again (the aviary: delete its folder, it is drawn anew)."


def load_cub(root: Path, attributes: str = "auto") -> Dataset:
    """Read a folder in CUB-200-2011's format: boxes, attributes and parts are known; masks in drawn worlds.

    Image and class ids may have gaps; row k of class_attribute_labels_continuous.txt is class id k. Classes
    are those with images, by ascending id, named as in the files ("018.Spotted_Catbird").

    attributes: "image" takes each image's own attribute labels; "class" gives every image those of its class,
        for sets without attributes/image_attribute_labels.txt; "auto" takes the images' own where they are
        recorded.
    Raises DatasetError naming file, line and remedy where a file is truncated, or holds what it should not,
        and where files contradict each other, as `require_points_in_boxes`, `require_labels_of_classes` and
        `require_masks_in_boxes`;
        TextFileError for one that is missing or not UTF-8, and for two names that would be one.
    """
    require_choice("attributes", attributes, ("auto", "image", "class"))
    names = _read_names(root / "classes.txt")
    require_distinct(names, str(root / "classes.txt"), class_name)
    images = _read_images(root, names.index)
    class_ids = np.sort(images["class_id"].unique())
    classes = pd.DataFrame(
        {"name": names[class_ids].tolist(), "label": range(len(class_ids))},
        index=pd.Index(class_ids, name="class_id"),
    )
    images.insert(2, "label", images["class_id"].map(classes["label"]).astype("int64"))
    image_ids = images.index.rename("images.txt")
    attribute_table = _read_attributes(root)
    parts = _read_names(root / "parts/parts.txt", counted=True)
    columns = {"x": None, "y": None, "visible": (0, 1)}
    x, y, visible = _read_rows(root / "parts/part_locs.txt", [image_ids, parts.index], columns)
    locations = np.where(visible[..., None] == 1, np.stack([x, y], -1), np.nan).astype("float32")
    require_points_in_boxes(root, images, locations)
    shares = _read_class_attributes(root, classes["name"], len(attribute_table))
    labels = root / "attributes/image_attribute_labels.txt"
    present = certainty = None
    if attributes == "auto":
        attributes = "image" if labels.is_file() else "class"
    if labels.is_file():
        columns = {"is_present": (0, 1), "certainty_id": (1, 2, 3, 4)}
        attribute_ids = attribute_table.index.rename("attributes.txt")
        # a subset of CUB may keep the whole file
        found = _read_rows(labels, [image_ids, attribute_ids], columns, others_too=True)
        present, certainty = torch.from_numpy(found[0] == 1), torch.from_numpy(found[1].astype("int8"))
        own = torch.tensor(images["label"].to_numpy())
        require_labels_of_classes(labels, present, certainty != NOT_VISIBLE, own, shares)
    elif attributes == "image":
        raise DatasetError(f'{labels} is missing: restore it, or take "class", the labels of the classes')
    mask_names = parts.tolist() if (root / "masks").is_dir() else None
    if mask_names and (root / "aviary.json").exists():
        mask_names.append("rest of the body")  # number P + 1
    data = Dataset(
        root,
        images,
        classes,
        attributes=attribute_table,
        attribute_level=attributes,
        present=present,
        certainty=certainty,
        class_attributes=shares,
        parts=parts.tolist(),
        part_locations=torch.from_numpy(locations),
        mask_names=mask_names,
    )
    if mask_names:
        require_masks_in_boxes(data, range(len(images)))
    return data


def class_label(data: Dataset, name: str) -> int:
    """The label (0 … K−1) of a class by name: "018.Spotted_Catbird" or, in any case, "spotted catbird".

    Raises DatasetError, with the nearest name, for an unknown one, and for one that may be two classes.
    """
    known = data.classes["name"].map(class_name)
    said = [words(one.replace("-", " ")) for one in (*known, class_name(name))]
    matches = known[[one == said[-1] for one in said[:-1]]]
    if len(matches) > 1:
        told = " or ".join(map(repr, matches))
        raise DatasetError(f"class {name!r} may be {told}: rename one of them")
    if matches.empty:
        raise unknown_name("class", name, known)
    return int(data.classes["label"][matches.index[0]])


def _read_images(root: Path, class_ids: pd.Index) -> pd.DataFrame:
    """The table of images by image_id: path, class_id, train, x, y, width, height."""
    names = _read_names(root / "images.txt")
    _require(names.map(is_image_file), root / "images.txt", "the name of an image file expected", names)
    within = names.map(lambda name: not {"", ".", ".."} & set(name.split("/")))
    _require(within, root / "images.txt", "a path within images/, without . and .., expected", names)
    paths = [str(on_disk(root / "images" / name)) for name in names]
    table = pd.DataFrame({"path": paths}, index=names.index.rename("image_id"))
    for file, columns, kind in (
        ("image_class_labels.txt", {"class_id": class_ids}, "int32"),
        ("train_test_split.txt", {"train": (0, 1)}, "bool"),
        ("bounding_boxes.txt", dict.fromkeys(["x", "y", "width", "height"]), "float32"),
    ):
        for column, values in zip(columns, _read_rows(root / file, [names.index], columns), strict=True):
            table[column] = values.astype(kind)
    return table


def _read_attributes(root: Path) -> pd.DataFrame:
    """The table of attributes by attribute_id, 1 … A: name, group, value."""
    # CUB's own archive has this one file beside its folder.
    places = [root / "attributes/attributes.txt", root.parent / "attributes.txt"]
    file = next((place for place in places if place.is_file()), places[0])
    names = _read_names(file, counted=True).map(normalise_attribute)
    _require(names.str.contains("::"), file, "'group::value' expected", names)
    table = pd.DataFrame({"name": names.tolist()}, index=names.index.rename("attribute_id"))
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    return table


def _read_class_attributes(root: Path, names: pd.Series, count: int) -> torch.Tensor:
    """Percentages of each class as shares, (K, A) float32 in [0, 1]; line k of the file is class id k.

    names: of the classes by their ids.
    """
    file = root / "attributes/class_attribute_labels_continuous.txt"
    values = _read_numbers(file).to_numpy()
    if values.shape[1] != count or not ((values >= 0) & (values <= 100)).all():
        raise DatasetError(f"{file}: {count} percentages, of 0 to 100, are needed in each line. {REMEDY}")
    most = values.max(1)
    if (are_shares := (most > 0) & (most <= 1)).any():
        line = are_shares.argmax() + 1
        raise DatasetError(
            f"{file}, line {line}: no percentage is above 1, as in shares of 0 to 1 and rows of unit length: "
            "write percentages, of 0 to 100"
        )
    if values.max() < 50:
        told = "%s: no percentage is above %g: is nothing in most images of any class?"
        log.warning(told, file, values.max(), extra={"note": True})
    if len(values) < names.index.max():
        last = f"row k is class id k and the ids go up to {names.index.max()}"
        raise DatasetError(f"{file}: {len(values)} rows, but {last}: the file is truncated. {REMEDY}")
    if len(values) > len(names):  # the whole's file beside a subset, whose ids must be the whole's
        for number, name in names.items():
            own = CLASS_ID.match(name)
            if own and int(own[0][:-1]) != number:
                raise DatasetError(
                    f"{file}: it has {len(values)} rows for {len(names)} classes, row k is class id k, and "
                    f"{name} has the id {number}: keep the ids of the whole data set, or these classes' rows"
                )
    return torch.from_numpy(values)[names.index.to_numpy() - 1].div(100).float()


def _require(good: pd.Series, file: Path, problem: str, values: pd.Series) -> None:
    """Raise DatasetError for the first row of a file that is not good, with its line or id and its value."""
    if not good.all():
        row = good.idxmin()
        raise DatasetError(f"{file}, {good.index.name} {row}: {problem}, found {values[row]}. {REMEDY}")


def _read_names(file: Path, counted: bool = False) -> pd.Series:
    """The lines `<id> <name>` of a file, names by id, all different.

    counted: ids run 1, 2, 3, …, and names are of attributes or parts, no two of which would be one.
    """
    lines = pd.Series(read_text(file).split("\n")).str.strip()
    lines.index = pd.RangeIndex(1, len(lines) + 1, name="line")
    lines = lines[lines != ""]
    if lines.empty:
        raise DatasetError(f"{file} is empty. {REMEDY}")
    split = lines.str.extract(r"^0*([1-9][0-9]{0,8})\s+(.+)$")
    _require(split[0].notna(), file, "'<id> <name>' expected, with ids from 1", lines)
    ids = split[0].astype(int)
    _require(~ids.duplicated(), file, "an id for the second time", ids)
    _require(~split[1].duplicated(), file, "a name for the second time", split[1])
    if counted:
        _require(ids == np.arange(1, len(ids) + 1), file, "ids 1, 2, 3, … expected", ids)
        require_distinct(split[1], str(file), normalise_attribute)
    return pd.Series(split[1].tolist(), pd.Index(ids, name=file.name), dtype=object)


def _read_numbers(file: Path, names: list[str] | None = None) -> pd.DataFrame:
    """The first fields of every line as columns of numbers, by line; further fields are passed over.

    names: of the columns; without them all fields are read, and each line has as many.
    """
    options = {"names": names, "usecols": names and range(len(names)), "header": None, "quoting": 3}
    # only a blank line is empty, not one of nan
    options |= {"skip_blank_lines": False, "keep_default_na": False, "na_values": [""]}
    text = io.StringIO(read_text(file))
    try:
        table = pd.read_csv(text, sep=r"\s+", **options)
    except ValueError as error:  # pandas' parser errors are ValueErrors
        raise DatasetError(f"{file}: {error}. {REMEDY}") from error
    table.index = pd.RangeIndex(1, len(table) + 1, name="line")
    table = table.dropna(how="all")
    for name in table:
        numbers = pd.to_numeric(table[name], errors="coerce").astype(float)
        good = np.isfinite(numbers) & (table[name].dtype != bool)  # pandas takes True for a 1
        _require(good, file, f"{len(table.columns)} numbers expected", table[name])
        table[name] = numbers
    return table


def _read_rows(
    file: Path, keys: list[pd.Index], columns: dict[str, tuple | pd.Index | None], others_too: bool = False
) -> list[np.ndarray]:
    """Columns of a table that has just one row for each image (and part, or attribute), in their order.

    keys: the known ids of its first columns, named by the file that lists them: the images, and perhaps parts
        or attributes.
    columns: those that follow; and the only values they may have, numbers or the ids of another file.
    others_too: rows of other images are passed over; where no id is left out, the log says so, for then the
        images may have been numbered anew.
    Returns an array for each column, in the shape of the keys.
    """
    names = [f"{ids.name.removesuffix('s.txt')} id" for ids in keys]
    table = _read_numbers(file, [*names, *columns])
    if others_too:
        is_known = table[names[0]].isin(keys[0])
        others = table[names[0]][~is_known].nunique()
        if others and keys[0].max() == len(keys[0]):
            told = (
                f"{file}: rows of {others:,} other images are passed over: right where images.txt keeps the "
            )
            told += "ids of the whole data set, wrong where it numbers its images anew"
            log.warning(told, extra={"note": True})
        table = table[is_known]
    for name, allowed in {**columns, **dict(zip(names, keys, strict=True))}.items():
        if allowed is not None:
            known = allowed.name if isinstance(allowed, pd.Index) else allowed
            _require(table[name].isin(allowed), file, f"{name} is none of {known}", table[name])
    repeated = f"the {' and '.join(names)} for the second time"
    _require(~table.duplicated(names), file, repeated, table[names[-1]])
    table.index = pd.MultiIndex.from_frame(table[names])
    found = table[[*columns]].reindex(pd.MultiIndex.from_product(keys, names=names))
    absent = found.isna().any(axis=1)
    if absent.any():
        told = " and ".join(f"{name} {number}" for name, number in zip(names, absent.idxmax(), strict=True))
        missing = f"no row for {told}, and {absent.sum():,} such in all"
        raise DatasetError(f"{file}: {missing}: the file is truncated. {REMEDY}")
    return [found[name].to_numpy().reshape([len(ids) for ids in keys]) for name in columns]
