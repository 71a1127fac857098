"""Substitution benchmarks: the published SUB's layout, written and read, and synCUB's pairs, read.

SUB's layout are parquet files with image, attr_label and bird_label. Labels are numbers whose names stand in
the metadata. Where more is known there are two columns more, which the published one lacks: before, the
picture of the same bird before the change, and removed, the attributes that are gone, with blanks between.
"""

import hashlib
import io
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from xaihelpers import paths
from xaihelpers.datasets.attribute_names import ATTRIBUTES, known_attribute, normalise_attribute, unknown_name
from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name
from xaihelpers.datasets.folders import listed_files, make_dataset
from xaihelpers.text_files import read_table

log = logging.getLogger(__name__)
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # as the datasets library stores it
COLUMNS = ("image", "attr_label", "bird_label")
SYNCUB_COLUMNS = ("syn_image", "class_name", "new_attr", "orig_image", "old_attr")
SHARDS = re.compile(r"-of-(\d+)\.parquet$")


def write_sub(
    folder: str | Path,
    images: Sequence[Image.Image | str | Path],
    attributes: Sequence[str],
    birds: Sequence[str],
    attribute_names: Sequence[str],
    bird_names: Sequence[str],
    shard: int = 0,
    shards: int = 1,
    note: str = "",
    before: Sequence[Image.Image | str | Path] = (),
    removed: Sequence[Sequence[str]] = (),
) -> Path:
    """Write one shard of a benchmark, data/test-<shard>-of-<shards>.parquet, whole; returns the file.

    images: N PIL images or files; none make an empty shard.
    attributes, birds: N, the substituted attribute and the bird of each.
    attribute_names, bird_names: all labels of the benchmark in the order of their numbers, the same for every
        shard.
    note: what readers of the benchmark must know, for instance that people rejected it.
    before: N images of the same birds before the change, if they are known.
    removed: N lists of the attributes that are gone; without them the labels of the classes say it.
    Raises DatasetError: a label without a name, a removed attribute that is none of CUB's 312. Raises
        ValueError for columns that are not all as long, OSError where the file cannot be written.
    """
    columns = {"image": pa.array(map(_stored, images), PICTURE)}
    features = {"image": {"_type": "Image"}}
    for column, spelt, labels, names in (
        ("attr_label", _published, attributes, attribute_names),
        ("bird_label", class_name, birds, bird_names),
    ):
        labels, names = [spelt(label) for label in labels], [spelt(name) for name in names]
        if unnamed := sorted(set(labels) - set(names)):
            raise DatasetError(f"{column}: {unnamed} are not among the {len(names)} names given")
        columns[column] = pa.array(map(names.index, labels), pa.int64())
        features[column] = {"names": names, "_type": "ClassLabel"}
    if len(before):
        columns["before"] = pa.array(map(_stored, before), PICTURE)
        features["before"] = {"_type": "Image"}
    if len(removed):
        gone = [" ".join(_published(known_attribute(name)) for name in some) for some in removed]
        columns["removed"] = pa.array(gone, pa.string())
        features["removed"] = {"dtype": "string", "_type": "Value"}
    metadata = {"huggingface": json.dumps({"info": {"features": features}}), "note": note}
    content = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), content)
    file = Path(folder) / "data" / f"test-{shard:05d}-of-{shards:05d}.parquet"
    return paths.write_whole(file, content.getvalue())


def _stored(image: Image.Image | str | Path) -> dict:
    """An image as the datasets library stores it: a file as it is, a PIL image as PNG."""
    if not isinstance(image, Image.Image):
        return {"bytes": Path(image).read_bytes(), "path": None}
    image.save(content := io.BytesIO(), "PNG")
    return {"bytes": content.getvalue(), "path": None}


def _published(name: str) -> str:
    """The name of an attribute as the published SUB writes it, group--value."""
    return normalise_attribute(name).replace("::", "--")


def parquet_files(place: Path) -> list[Path]:
    """The files of a benchmark: a parquet file, or those of a folder and its data/; none for other data."""
    if place.is_file():
        return [place] if place.suffix == ".parquet" else []
    return sorted([*place.glob("*.parquet"), *place.glob("data/*.parquet")])


def load_sub(place: Path) -> Dataset:
    """A benchmark in the published SUB's layout, all for testing; its classes are the birds.

    `images` has three columns more: the substituted `attribute` (group::value), the plain name of the `bird`,
    and the row's own `id`; and, where the files have them, `before`, the file of the bird before the change,
    and `removed`, the list of attributes that are gone. Images are unpacked into the cache, each once, even
    where several rows hold the same one. What the author wants readers to know is logged. Labels may be
    numbers with their names in the file's metadata, or the names themselves.

    Raises DatasetError: a damaged file, a shard too many or too few, a missing column, an image without
        bytes, a label without a name, an attribute that is none of CUB's 312.
    """
    files = parquet_files(place)
    counts = {int(match[1]) for file in files if (match := SHARDS.search(file.name))}
    if len(counts) > 1 or (place.is_dir() and counts and len(files) != max(counts)):
        told = " and in ".join(map(str, sorted(counts)))
        raise DatasetError(
            f"{place}: {len(files)} parquet files of a benchmark in {told} shards: remove those of another "
            "run, or make those that are missing"
        )
    table = pd.concat(map(_read_file, files), ignore_index=True)
    if table.isna().any(axis=None):
        raise DatasetError(f"{place}: some of its rows lack {table.columns[table.isna().any()][0]!r}")
    again = table.groupby("path").cumcount() + 1  # rows with the same image have their count in the id
    count = ("-" + again.astype(str)).where(again > 1, "")
    table["id"] = [f"{Path(path).stem}{n}.png" for path, n in zip(table["path"], count, strict=True)]
    return _benchmark(place, table, place.stem)


def is_syncub(place: Path) -> bool:
    """Whether the metadata.csv of a folder, if there is one, tells of synCUB's pairs."""
    file = place / "metadata.csv"
    return file.is_file() and b"syn_image" in file.read_bytes()[:1000]


def load_syncub(place: Path) -> Dataset:
    """synCUB's pairs: `images` as of `load_sub`, with `before` and `removed`; their files are the ids.

    place: a folder with metadata.csv. Columns are orig_image and syn_image (files, relative to it),
        class_name, old_attr and new_attr.
    Raises DatasetError: images that are not there, a picture after the change that stands twice, an attribute
        that is none of CUB's 312, one that does not change, or no bird. Raises TextFileError as `read_table`.
    """
    file = place / "metadata.csv"
    table = read_table(file, SYNCUB_COLUMNS)[list(SYNCUB_COLUMNS)]
    table.columns = ["id", "bird", "attribute", "before", "removed"]
    for column in ("attribute", "removed"):
        table[column] = table[column].map(normalise_attribute)
    wrong = (table["removed"] == table["attribute"]) | table["id"].duplicated()
    if wrong.any():
        raise DatasetError(
            f"{file}, line {wrong.idxmax()}: the picture stands there for the second time, or its attribute "
            "does not change: take the row out"
        )
    table = table.assign(
        path=listed_files(file, table["id"]),
        before=listed_files(file, table["before"]),
        bird=table["bird"].map(class_name),
        removed=[[name] for name in table["removed"]],
    )
    return _benchmark(place, table.reset_index(drop=True), place.name)


def _benchmark(root: Path, table: pd.DataFrame, name: str) -> Dataset:
    """The data set of a benchmark's rows: path, attribute, bird, id, and perhaps before and removed."""
    named = set(table["attribute"]).union(*table.get("removed", default=()))
    if unknown := sorted(named.difference(ATTRIBUTES)):
        raise DatasetError(f"{root}: {unknown_name('attribute', unknown[0], ATTRIBUTES)}")
    if nameless := table["id"][table["bird"] == ""].tolist():
        raise DatasetError(f"{root}: the row of {nameless[0]} names no bird: name it, or take the row out")
    birds = sorted(table["bird"].unique())
    rows = [(path, birds.index(bird), False) for path, bird in zip(table["path"], table["bird"], strict=True)]
    data = make_dataset(root, rows, birds, name)
    data.images = data.images.join(table.drop(columns="path"))
    return data


def _read_file(file: Path) -> pd.DataFrame:
    """The rows of one file: path, attribute, bird, and perhaps before and removed."""
    try:
        content = pq.read_table(file, memory_map=True)
        metadata = content.schema.metadata or {}
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        images, attributes, birds = (content[name].to_pylist() for name in COLUMNS)
    except (pa.ArrowInvalid, OSError, ValueError, KeyError) as error:
        raise DatasetError(
            f"{file}: cannot be read as a benchmark's parquet file, which has {', '.join(COLUMNS)} "
            f"({str(error).splitlines()[0]}): fetch or make it again"
        ) from error
    if note := metadata.get(b"note"):
        log.warning("%s: %s", file, note.decode())
    table = pd.DataFrame({"path": _unpack(file, images)})
    for column, label, labels, plain_of in (
        ("attribute", "attr_label", attributes, normalise_attribute),
        ("bird", "bird_label", birds, class_name),
    ):
        names = dict(enumerate(features.get(label, {}).get("names") or []))
        try:
            table[column] = [plain_of(one if isinstance(one, str) else names[one]) for one in labels]
        except KeyError as error:
            raise DatasetError(f"{file}: {label} has labels that its metadata do not name") from error
    if "before" in content.column_names:
        table["before"] = _unpack(file, content["before"].to_pylist())
    if "removed" in content.column_names:
        gone = pd.Series(content["removed"].to_pylist(), dtype=object)
        table["removed"] = gone.str.replace("--", "::").str.split()
    return table


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
