"""A substitution benchmark on disk, in the layout of the published SUB.

Parquet files with the columns image, attr_label and bird_label; labels are numbers whose names stand in the
metadata. Where more is known there are two columns more, which the published one lacks: before, the picture
of the same bird before the change, and removed, the attributes that are gone, with blanks between them.
"""

import hashlib
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from xaihelpers import paths
from xaihelpers.datasets.attribute_names import class_name, known_attribute, normalise_attribute
from xaihelpers.datasets.dataset import Dataset, DatasetError

COLUMNS = ("image", "attr_label", "bird_label")
FURTHER = ("before", "removed")
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
    """Write one shard of a benchmark, data/test-<shard>-of-<shards>.parquet, whole or not at all.

    images: N PIL images or files; none make an empty shard.
    attributes, birds: N, the substituted attribute and the bird of each.
    attribute_names, bird_names: all labels of the benchmark in the order of their numbers, the same for every
        shard.
    note: what readers of the benchmark must know, for instance that people rejected it.
    before: N images of the same birds before the change; none where they are not known.
    removed: N lists of the attributes that are gone; none where the labels of the classes are to say it.
    Returns the file.
    Raises DatasetError: a number of labels or of images before that is not that of the images, a label
        without a name, a removed attribute that is none of CUB's 312.
    Raises OSError where the file cannot be written.
    """
    names = {"attr_label": _attribute_labels(attribute_names), "bird_label": _bird_labels(bird_names)}
    labels = {"attr_label": _attribute_labels(attributes), "bird_label": _bird_labels(birds)}
    for column in labels:
        unnamed = sorted(set(labels[column]) - set(names[column]))
        if len(labels[column]) != len(images) or unnamed:
            raise DatasetError(
                f"{len(images)} images with {len(labels[column])} labels in {column}, of which {unnamed} "
                f"are not among the {len(names[column])} names given: every image needs a label, and every "
                "label a name"
            )
    numbers, features = {}, {"image": {"_type": "Image"}}
    for column in labels:
        numbers[column] = [names[column].index(label) for label in labels[column]]
        features[column] = {"names": names[column], "_type": "ClassLabel"}
    for column, values in (("before", before), ("removed", removed)):
        if len(values) not in (0, len(images)):
            raise DatasetError(
                f"{len(images)} images with {len(values)} in {column}: give one for each, or none"
            )
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {
        "image": pa.array(_stored(images), picture),
        "attr_label": pa.array(numbers["attr_label"], pa.int64()),
        "bird_label": pa.array(numbers["bird_label"], pa.int64()),
    }
    if len(before):
        columns["before"] = pa.array(_stored(before), picture)
        features["before"] = {"_type": "Image"}
    if len(removed):
        gone = [" ".join(_attribute_labels([known_attribute(name) for name in some])) for some in removed]
        columns["removed"] = pa.array(gone, pa.string())
        features["removed"] = {"dtype": "string", "_type": "Value"}
    metadata = {"huggingface": json.dumps({"info": {"features": features}}), "note": note}
    content = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), content)
    file = Path(folder) / "data" / f"test-{shard:05d}-of-{shards:05d}.parquet"
    return paths.write_whole(file, content.getvalue())


def _stored(images: Sequence[Image.Image | str | Path]) -> list[dict]:
    """Images as the datasets library stores them."""
    return [{"bytes": _image_bytes(image), "path": f"{row:06d}.png"} for row, image in enumerate(images)]


def _attribute_labels(names: Sequence[str]) -> list[str]:
    """Names of attributes as the published SUB writes them, group--value."""
    return [normalise_attribute(name).replace("::", "--") for name in names]


def _bird_labels(names: Sequence[str]) -> list[str]:
    return [class_name(name) for name in names]


def _image_bytes(image: Image.Image | str | Path) -> bytes:
    """The content of an image file; a PIL image as PNG."""
    if not isinstance(image, Image.Image):
        return Path(image).read_bytes()
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def is_sub(place: Path) -> bool:
    """Whether a file or folder is a benchmark: a parquet file, or a folder of them or with them in data/."""
    return bool(_parquet_files(place))


def _parquet_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place] if place.suffix == ".parquet" else []
    return sorted([*place.glob("*.parquet"), *place.glob("data/*.parquet")])


def load_sub(place: Path) -> Dataset:
    """A benchmark in the published SUB's layout, all for testing; its classes are the birds.

    `images` has three columns more: the substituted `attribute` (group::value), the plain name of the `bird`,
    and the row's own `id`; and, where all files have them, `before`, the file of the bird before the change,
    and `removed`, the list of attributes that are gone. `note` holds what the benchmark's author wants its
    readers to know. Images are unpacked into the cache, each once, even where several rows hold the same one.

    Raises DatasetError as `read_sub` does.
    """
    table = read_sub(place)
    birds = sorted(table["bird"].unique())
    label_of = {bird: label for label, bird in enumerate(birds)}
    images = pd.DataFrame(
        {
            "path": table["path"].map(str),
            "label": table["bird"].map(label_of).astype("int64"),
            "train": False,
            "attribute": table["attribute"],
            "bird": table["bird"],
            "id": _row_ids(table["path"]),
        }
    )
    for column in set(FURTHER) & set(table.columns):
        images[column] = table[column]
    class_ids = pd.RangeIndex(1, len(birds) + 1, name="class_id")
    classes = pd.DataFrame({"name": birds, "label": range(len(birds))}, index=class_ids)
    return Dataset(place, images, classes, place.stem, note=table.attrs["note"])


def _row_ids(files: pd.Series) -> list[str]:
    """An id for each row: its image's file name, and of further rows with the same image their count too."""
    ids = []
    for file, n_before in zip(files, files.groupby(files).cumcount(), strict=True):
        ids.append(f"{file.stem}-{n_before + 1}{file.suffix}" if n_before else file.name)
    return ids


def read_sub(place: Path) -> pd.DataFrame:
    """The table behind `load_sub`: a row for each image with path, attribute and bird, perhaps more.

    Its `attrs["note"]` is the author's note.

    place: a parquet file, a folder of them or with them in data/. Labels may be numbers with their names in
        the file's metadata, or the names themselves.
    Raises DatasetError: no parquet file there or a damaged one, a shard too many or too few, a missing
        column, an image without bytes, a label without a name, an attribute that is none of CUB's 312.
    """
    files = _parquet_files(place)
    if not files:
        raise DatasetError(
            f"{place}: no parquet file there or in data/. Notebook 52 makes a benchmark; the published one "
            "is the data set Jessica-bader/SUB on Hugging Face (hf download --repo-type dataset "
            "Jessica-bader/SUB)."
        )
    counts = {int(match[1]) for file in files if (match := SHARDS.search(file.name))}
    if len(counts) > 1 or (place.is_dir() and counts and len(files) != max(counts)):
        raise DatasetError(
            f"{place}: {len(files)} parquet files of a benchmark in "
            f"{' and in '.join(map(str, sorted(counts)))} shards: remove those of another run, or make "
            "those that are missing"
        )
    parts = [_read_file(file) for file in files]
    shared = [name for name in parts[0].columns if all(name in part for part in parts)]
    table = pd.concat([part[shared] for part in parts], ignore_index=True)
    notes = [part.attrs["note"] for part in parts if part.attrs["note"]]
    table.attrs = {"note": "; ".join(dict.fromkeys(notes))}
    named = {"attr_label": set(table["attribute"])}
    if "removed" in table:
        named["removed"] = set().union(*table["removed"])
    for column, names in named.items():
        try:
            for name in sorted(names):
                known_attribute(name)
        except DatasetError as error:
            raise DatasetError(f"{place}, {column}: {error}") from error
    return table


def _read_file(file: Path) -> pd.DataFrame:
    """The rows of one file, as of `read_sub`."""
    try:
        content = pq.read_table(file, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise DatasetError(
            f"{file}: cannot be read as parquet ({str(error).splitlines()[0]}): it is truncated or damaged, "
            "fetch or make it again"
        ) from error
    if missing := [column for column in COLUMNS if column not in content.column_names]:
        raise DatasetError(
            f"{file}: the column {missing[0]!r} is missing; a substitution benchmark has "
            f"{', '.join(COLUMNS)}, this file {', '.join(content.column_names)}"
        )
    metadata = content.schema.metadata or {}
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
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
        table["before"] = table["before"].map(str)
    if "removed" in content.column_names:
        gone = [text.split() for text in content["removed"].to_pylist()]
        table["removed"] = [[normalise_attribute(name) for name in names] for names in gone]
    table.attrs = {"note": metadata.get(b"note", b"").decode()}
    return table


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


def _unpack(file: Path, images: list[bytes | dict | None]) -> list[Path]:
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
        if not _is_whole(target, image):
            paths.write_whole(target, image)
        unpacked.append(target)
    return unpacked


def _is_whole(file: Path, content: bytes) -> bool:
    """Whether a file of the cache is there with this content; one with another is set aside."""
    if not file.exists():
        return False
    if file.read_bytes() == content:
        return True
    paths.set_aside(file, "it is not the benchmark's image")
    return False
