"""Substitution benchmarks, read: the published SUB's layout (see `sub_benchmark`) and synCUB's pairs."""

import hashlib
import json
import logging
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from xaihelpers import paths
from xaihelpers.datasets.attribute_names import known_attribute, normalise_attribute
from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name
from xaihelpers.datasets.folders import listed_files, make_dataset
from xaihelpers.text_files import read_table

log = logging.getLogger(__name__)
COLUMNS = ("image", "attr_label", "bird_label")
SYNCUB_COLUMNS = ("orig_image", "syn_image", "class_name", "old_attr", "new_attr")
SHARDS = re.compile(r"-of-(\d+)\.parquet$")


def parquet_files(place: Path) -> list[Path]:
    """The files of a benchmark: a parquet file, or those of a folder and its data/; none for other data."""
    if place.is_file():
        return [place] if place.suffix == ".parquet" else []
    return sorted([*place.glob("*.parquet"), *place.glob("data/*.parquet")])


def load_sub(place: Path, files: list[Path]) -> Dataset:
    """A benchmark in the published SUB's layout, all for testing; its classes are the birds.

    `images` has three columns more: the substituted `attribute` (group::value), the plain name of the `bird`,
    and the row's own `id`; and, where all files have them, `before`, the file of the bird before the change,
    and `removed`, the list of attributes that are gone. `note` holds what the benchmark's author wants its
    readers to know. Images are unpacked into the cache, each once, even where several rows hold the same one.

    files: the `parquet_files` of the place. Labels may be numbers with their names in the file's metadata,
        or the names themselves.
    Raises DatasetError: a damaged file, a shard too many or too few, a missing column, an image without
        bytes, a label without a name, an attribute that is none of CUB's 312.
    """
    counts = {int(match[1]) for file in files if (match := SHARDS.search(file.name))}
    if len(counts) > 1 or (place.is_dir() and counts and len(files) != max(counts)):
        raise DatasetError(
            f"{place}: {len(files)} parquet files of a benchmark in "
            f"{' and in '.join(map(str, sorted(counts)))} shards: remove those of another run, or make "
            "those that are missing"
        )
    parts, notes = zip(*map(_read_file, files), strict=True)
    table = pd.concat(parts, ignore_index=True, join="inner")
    for column in ("before", "removed"):
        if column not in table and any(column in part for part in parts):
            log.warning("%s: %s stands in some of its files only, and is left out", place, column)
    # of further rows with the same image, the id has their count, too
    again = table.groupby("path").cumcount()
    table["id"] = [
        f"{path.stem}-{n + 1}{path.suffix}" if n else path.name
        for path, n in zip(map(Path, table["path"]), again, strict=True)
    ]
    return _benchmark(place, table, place.stem, "; ".join(dict.fromkeys(filter(None, notes))))


def is_syncub(place: Path) -> bool:
    """Whether a table, or the metadata.csv of a folder, is one of synCUB's pairs."""
    file = place / "metadata.csv" if place.is_dir() else place
    if not file.is_file() or file.suffix.lower() != ".csv":
        return False
    with open(file, "rb") as content:
        return b"syn_image" in content.readline()


def load_syncub(place: Path) -> Dataset:
    """synCUB's pairs: `images` as of `load_sub`, with `before` and `removed`.

    place: its table, or a folder with metadata.csv. Columns are orig_image and syn_image (files, relative to
        the table), class_name, old_attr and new_attr.
    Raises DatasetError: an empty value, images that are not there, a picture after the change that stands
        twice, an attribute that is none of CUB's 312, or one that does not change. Raises TextFileError as
        `read_table`.
    """
    file = place / "metadata.csv" if place.is_dir() else place
    table = read_table(file, SYNCUB_COLUMNS)[[*SYNCUB_COLUMNS]]
    same = table["old_attr"].map(normalise_attribute) == table["new_attr"].map(normalise_attribute)
    for wrong, problem in (
        ((table == "").any(axis=1), "a value is empty: a pair has two pictures, a class and two attributes"),
        (same, "old_attr and new_attr are the same: nothing was changed"),
        (table["syn_image"].duplicated(), "syn_image for the second time: keep one of its rows"),
    ):
        if wrong.any():
            raise DatasetError(f"{file}, line {wrong.idxmax()}: {problem}")
    images = pd.DataFrame(
        {
            "path": listed_files(file, table["syn_image"]),
            "attribute": table["new_attr"].map(normalise_attribute).tolist(),
            "bird": table["class_name"].map(class_name).tolist(),
            "before": listed_files(file, table["orig_image"]),
            "removed": [[normalise_attribute(name)] for name in table["old_attr"]],
            "id": table["syn_image"].tolist(),
        }
    )
    return _benchmark(file.parent, images, file.parent.name)


def _benchmark(root: Path, table: pd.DataFrame, name: str, note: str = "") -> Dataset:
    """The data set of a benchmark's rows: path, attribute, bird, id, and perhaps before and removed."""
    for attribute in sorted(set(table["attribute"]).union(*table.get("removed", default=()))):
        try:
            known_attribute(attribute)
        except DatasetError as error:
            raise DatasetError(f"{root}: {error}") from error
    birds = sorted(table["bird"].unique())
    rows = [(path, birds.index(bird), False) for path, bird in zip(table["path"], table["bird"], strict=True)]
    data = make_dataset(root, rows, birds, name)
    data.images, data.note = data.images.join(table.drop(columns="path")), note
    return data


def _read_file(file: Path) -> tuple[pd.DataFrame, str]:
    """The rows of one file, path, attribute, bird, and perhaps before and removed; and its note."""
    try:
        content = pq.read_table(file, memory_map=True)
        metadata = content.schema.metadata or {}
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise DatasetError(
            f"{file}: cannot be read as parquet ({str(error).splitlines()[0]}): it is truncated or damaged, "
            "fetch or make it again"
        ) from error
    if missing := [column for column in COLUMNS if column not in content.column_names]:
        raise DatasetError(
            f"{file}: the column {missing[0]!r} is missing; a substitution benchmark has "
            f"{', '.join(COLUMNS)}, this file {', '.join(content.column_names)}"
        )
    if unread := set(content.column_names) - {*COLUMNS, "before", "removed"}:
        log.warning("%s: columns that are not read: %s", file, ", ".join(sorted(unread)))
    labels = {}
    for column in COLUMNS[1:]:
        names = features.get(column, {}).get("names")
        labels[column] = _label_names(file, column, content[column].to_pylist(), names)
    table = pd.DataFrame(
        {
            "path": _unpack(file, content["image"].to_pylist()),
            "attribute": [normalise_attribute(name) for name in labels["attr_label"]],
            "bird": [class_name(name) for name in labels["bird_label"]],
        }
    )
    if "before" in content.column_names:
        table["before"] = _unpack(file, content["before"].to_pylist())
    if "removed" in content.column_names:
        gone = content["removed"].to_pylist()
        if None in gone:
            raise DatasetError(f"{file}: row {gone.index(None)} does not say what was removed")
        table["removed"] = [[normalise_attribute(name) for name in text.split()] for text in gone]
    return table, metadata.get(b"note", b"").decode()


def _label_names(file: Path, column: str, labels: list, names: list[str] | None) -> list[str]:
    """Labels as names; numbers stand for the names of the file's metadata."""
    if all(isinstance(label, str) for label in labels):
        return labels
    if not names:
        raise DatasetError(
            f"{file}: {column} holds numbers, but the file's metadata do not name them: save it with the "
            "datasets library, or with the names themselves"
        )
    if unnamed := [label for label in labels if not isinstance(label, int) or not 0 <= label < len(names)]:
        raise DatasetError(
            f"{file}: {column} {unnamed[0]!r} has no name; the file names {len(names)}, numbered from 0"
        )
    return [names[label] for label in labels]


def _unpack(file: Path, images: list[bytes | dict | None]) -> list[str]:
    """Files of the images in the cache, named by their content; the missing and damaged are written.

    images: bytes, or as the datasets library has it, bytes and path.
    """
    folder = paths.cache_home() / "sub"
    unpacked = []
    for row, stored in enumerate(images):
        image = stored.get("bytes") if isinstance(stored, dict) else stored
        if not image:
            raise DatasetError(f"{file}: row {row} has no image; a row's image is its bytes, not a path")
        # always .png: readers go by the content, not by the name
        target = folder / f"{hashlib.sha256(image).hexdigest()[:32]}.png"
        if not target.exists() or target.read_bytes() != image:
            paths.write_whole(target, image)
        unpacked.append(str(target))
    return unpacked
