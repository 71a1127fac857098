"""One reader for all data in CUB-200-2011's folders and files: the aviary, the real CUB, subsets of it."""

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import normalise_attribute, unknown_name
from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name, require_choice
from xaihelpers.datasets.folders import is_image_file
from xaihelpers.text_files import on_disk, read_text, require_distinct, words

log = logging.getLogger(__name__)
REMEDY = "Unpack the data set again (the aviary: delete its folder, it is drawn anew)."
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


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
    names = _read_names(file)
    _check(names.index > 0, file, "class id {}, but ids count from 1", names.index)
    require_distinct(names, f"{file}", class_name)
    images = _read_images(root, names.index)
    class_ids = np.sort(images["class_id"].unique())
    classes = pd.DataFrame(
        {"name": names[class_ids].tolist(), "label": range(len(class_ids))},
        index=pd.Index(class_ids, name="class_id"),
    )
    images.insert(2, "label", images["class_id"].map(classes["label"]).astype("int64"))
    image_ids = images.index.rename("images.txt")
    attribute_table = _read_attributes(root)
    percentages = root / "attributes/class_attribute_labels_continuous.txt"
    class_attributes = _read_class_attributes(percentages, class_ids, len(attribute_table))
    file = root / "parts/parts.txt"
    parts = _read_names(file, counted=True)
    require_distinct(parts, f"{file}")
    columns = {"x": None, "y": None, "visible": (0, 1)}
    x, y, visible = _read_rows(root / "parts/part_locs.txt", [image_ids, parts.index], columns)
    locations = np.where(visible[..., None] == 1, np.stack([x, y], -1), np.nan).astype("float32")
    labels = root / "attributes/image_attribute_labels.txt"
    present = certainty = None
    if labels.is_file():
        columns = {"is_present": (0, 1), "certainty_id": (1, 2, 3, 4)}
        attribute_ids = attribute_table.index.rename("attributes.txt")
        # A subset of CUB may keep the whole file; some lines of the official one have a field too many.
        found = _read_rows(labels, [image_ids, attribute_ids], columns, others_too=True)
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
        rest = ["rest of the body"] if (root / "aviary.json").exists() else []
        mask_names = [*parts, *rest]
    return Dataset(
        root,
        images,
        classes,
        attributes=attribute_table,
        attribute_level=attributes,
        present=present,
        certainty=certainty,
        class_attributes=class_attributes,
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


def _lines(file: Path) -> list[tuple[int, str]]:
    """Number (from 1) and text of each line that is not blank."""
    if not file.is_file():
        raise DatasetError(f"{file}: file missing. {REMEDY}")
    lines = enumerate(read_text(file).split("\n"), 1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def _check(good, file: Path, problem: str, values, rows: pd.Index | None = None) -> None:
    """Raise for the first row of a file that is not `good`, with its line and, in {}, its value.

    good, values: (n,), of the lines that are not blank, in their order, or of those in `rows` (n,).
    """
    bad = np.flatnonzero(~np.asarray(good, dtype=bool))
    if len(bad):
        row = bad[0] if rows is None else rows[bad[0]]
        found = problem.format(list(values)[bad[0]])
        raise DatasetError(f"{file}, line {_lines(file)[row][0]}: {found}. {REMEDY}")


def _read_names(file: Path, counted: bool = False) -> pd.Series:
    """The lines `<id> <name>` of a file, names by id; counted: ids run 1, 2, 3, …"""
    lines = [line for _, line in _lines(file)]
    if not lines:
        raise DatasetError(f"{file}: the file is empty. {REMEDY}")
    split = [re.fullmatch(r"([0-9]{1,9})\s+(.+)", line) for line in lines]
    _check(split, file, "'<id> <name>' expected, found {!r}", lines)
    names = pd.Series([match[2] for match in split], [int(match[1]) for match in split], dtype=object)
    names.index.name = file.name
    _check(~names.index.duplicated(), file, "id {} for the second time", names.index)
    if counted:
        in_order = names.index == np.arange(1, len(names) + 1)
        _check(in_order, file, "id {} out of order (they count from 1)", names.index)
    return names


def _read_numbers(file: Path, names: list[str]) -> pd.DataFrame:
    """The first fields of every line as columns of numbers; further fields are passed over."""
    options = {"names": names, "usecols": range(len(names)), "header": None, "quoting": 3}
    cause = "there are other values than finite numbers"
    try:
        table = pd.read_csv(file, sep=r"\s+", encoding="utf-8-sig", **options)
        if np.isfinite(table.to_numpy()).all() and not (table.dtypes == bool).any():
            return table
    except (ValueError, TypeError, OSError) as error:  # pandas' parser errors are ValueErrors
        cause = error
    # pandas reads quickly but does not say where it failed
    lines = [line for _, line in _lines(file)]
    row = re.compile(r"\s+".join([NUMBER] * len(names)) + r"(\s|$)")
    wanted = " ".join(f"<{name}>" for name in names)
    problem = f"'{wanted}' in numbers expected, found {{!r}}: damaged or truncated"
    _check([row.match(line) for line in lines], file, problem, lines)
    raise DatasetError(f"{file}: cannot be read as a table ({cause}). {REMEDY}")


def _read_rows(
    file: Path, keys: list[pd.Index], columns: dict[str, tuple | pd.Index | None], others_too: bool = False
) -> list[np.ndarray]:
    """Columns of a table that has just one row for each image (and part, or attribute), in their order.

    keys: the known ids of its first columns, named by the file that lists them: the images, and perhaps parts
        or attributes.
    columns: those that follow; and the only values they may have, numbers or the ids of another file.
    others_too: rows of other images are passed over.
    Returns an array for each column, in the shape of the keys.
    """
    names = [f"{ids.name.removesuffix('s.txt')} id" for ids in keys]
    table = _read_numbers(file, [*names, *columns])
    for name, allowed in columns.items():
        if allowed is not None:
            known = allowed.name if isinstance(allowed, pd.Index) else allowed
            _check(table[name].isin(allowed), file, f"{name} {{}} is not in {known}", table[name])
    if others_too:
        table = table[table[names[0]].isin(keys[0])]
    shape, place = [len(ids) for ids in keys], np.zeros(len(table), dtype="int64")
    for name, ids in zip(names, keys, strict=True):
        found = ids.get_indexer(table[name])
        problem = f"{name} {{}} is not in {ids.name} (one of the two is damaged)"
        _check(found >= 0, file, problem, table[name], table.index)
        place = place * len(ids) + found
    filled = np.bincount(place, minlength=np.prod(shape))
    if filled.max(initial=0) > 1:
        problem = ", ".join(f"{name} {{0[{k}]}}" for k, name in enumerate(names)) + " for the second time"
        _check(~pd.Series(place).duplicated(), file, problem, table[names].to_numpy(), table.index)
    if filled.min() == 0:
        absent = np.unravel_index(filled.argmin(), shape)
        first = [f"{name} {ids[k]}" for name, ids, k in zip(names, keys, absent, strict=True)]
        raise DatasetError(
            f"{file}: no row for {' and '.join(first)}, and {(filled == 0).sum():,} such in all: the file "
            f"is truncated. {REMEDY}"
        )
    order = np.empty_like(place)
    order[place] = np.arange(len(place))
    return [table[name].to_numpy()[order].reshape(shape) for name in columns]


def _read_images(root: Path, class_ids: pd.Index) -> pd.DataFrame:
    """The table of images by image_id: path, class_id, train, x, y, width, height."""
    file = root / "images.txt"
    names = _read_names(file)
    problem = "{!r} is no image file's name (.jpg, .png …), the file is truncated or damaged"
    _check(names.map(is_image_file), file, problem, names)
    within = [not Path(name).is_absolute() and ".." not in Path(name).parts for name in names]
    _check(within, file, "{!r} leads out of the folder images", names)
    paths = [str(on_disk(root / "images" / name)) for name in names]
    _check(~pd.Series(paths).duplicated(), file, "the image {!r} for the second time", names)
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
    _check(["::" in name for name in names], file, "'group::value' expected, found {!r}", names)
    require_distinct(names, str(file))
    table = pd.DataFrame({"name": names.tolist()}, index=names.index.rename("attribute_id"))
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    return table


def _read_class_attributes(file: Path, class_ids: np.ndarray, count: int) -> torch.Tensor:
    """Percentages of each class as shares, (K, A) float32 in [0, 1]; line k of the file is class id k."""
    lines = [line for _, line in _lines(file)]
    row = re.compile(r"\s+".join([NUMBER] * count))
    problem = f"{count} percentages expected, one an attribute, found {{!r}}"
    _check([row.fullmatch(line) for line in lines], file, problem, [line[:60] for line in lines])
    values = np.array([line.split() for line in lines], dtype=float).reshape(len(lines), count)
    _check(((values >= 0) & (values <= 100)).all(1), file, "a percentage outside 0 to 100", lines)
    if len(lines) < class_ids.max():
        raise DatasetError(
            f"{file}: {len(lines)} rows, but row k is class id k and the ids go up to {class_ids.max()}: "
            f"the file is truncated. {REMEDY}"
        )
    return torch.from_numpy(values)[class_ids - 1].div(100).float()
