"""A substitution benchmark on disk, in the published SUB's layout: parquet files with the columns image, attr_label and bird_label."""
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

from .. import paths
from ..birds import class_name, normalise_attribute
from .prompts import SubstituteError, known_attribute

COLUMNS = ("image", "attr_label", "bird_label")
SHARDS = re.compile(r"-of-(\d+)\.parquet$")


def write_sub(folder: str | Path, images: Sequence[Image.Image | str | Path], attributes: Sequence[str], birds: Sequence[str], attribute_names: Sequence[str], bird_names: Sequence[str],
              shard: int = 0, shards: int = 1, note: str = "") -> Path:
    """Write one shard of a benchmark, whole or not at all, as data/test-<shard>-of-<shards>.parquet; returns the file.

    images: PIL images or files, N of them, with the substituted attribute and the bird of each. attribute_names, bird_names: all labels of the benchmark, the same for every shard, in the order of their numbers.
    No images make an empty shard. note: what whoever reads the benchmark must know, as that people rejected it. Raises SubstituteError: a label without an image or a name.
    """
    names = {"attr_label": [normalise_attribute(name).replace("::", "--") for name in attribute_names], "bird_label": [class_name(name) for name in bird_names]}
    labels = {"attr_label": [normalise_attribute(name).replace("::", "--") for name in attributes], "bird_label": [class_name(name) for name in birds]}
    for column, of in labels.items():
        if len(of) != len(images) or set(of) - set(names[column]):
            raise SubstituteError(f"{len(images)} images with {len(of)} labels in {column}, of which {sorted(set(of) - set(names[column]))} are not among the {len(names[column])} names given: "
                                  "every image needs a label, and every label a name")
    numbers = {column: [names[column].index(label) for label in of] for column, of in labels.items()}
    features = {"image": {"_type": "Image"}} | {column: {"names": of, "_type": "ClassLabel"} for column, of in names.items()}
    schema = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("attr_label", pa.int64()), ("bird_label", pa.int64())],
                       {"huggingface": json.dumps({"info": {"features": features}}), "note": note})
    stored = [{"bytes": _bytes(image), "path": f"{i:06d}.png"} for i, image in enumerate(images)]
    held = io.BytesIO()
    pq.write_table(pa.table([stored, numbers["attr_label"], numbers["bird_label"]], schema=schema), held)
    return paths.write_whole(Path(folder) / "data" / f"test-{shard:05d}-of-{shards:05d}.parquet", held.getvalue())


def _bytes(image: Image.Image | str | Path) -> bytes:
    if not isinstance(image, Image.Image):
        return Path(image).read_bytes()
    held = io.BytesIO()
    image.save(held, "PNG")
    return held.getvalue()


def read_sub(folder: str | Path) -> pd.DataFrame:
    """A benchmark in the published SUB's layout: a row an image, with its `path`, substituted `attribute` (group::value) and `bird` (plain name); in `attrs` the `note` of whoever wrote it.

    folder: a parquet file, a folder of them or with them in data/; a name under XAI_DATA. Images are unpacked once into the cache. Labels may be numbers with their names in the file's
    metadata, or the names themselves. Raises SubstituteError: no parquet file there or a damaged one, a shard too many or too few, a missing column, a label without a name, an attribute that is none of CUB's 312.
    """
    place = paths.data_home() / folder if not Path(folder).expanduser().exists() else Path(folder).expanduser()
    files = [place] if place.is_file() else sorted([*place.glob("*.parquet"), *place.glob("data/*.parquet")])
    if not files:
        raise SubstituteError(f"{place}: no parquet file there or in data/. Notebook 52 makes a benchmark; the published one is the data set Jessica-bader/SUB on Hugging Face "
                              "(huggingface-cli download --repo-type dataset).")
    counts = {int(found[1]) for file in files if (found := SHARDS.search(file.name))}
    if len(counts) > 1 or (place.is_dir() and counts and len(files) != max(counts)):
        raise SubstituteError(f"{place}: {len(files)} parquet files of a benchmark in {' and in '.join(map(str, sorted(counts)))} shards: remove those of another run, or make those that are missing")
    parts = [_read_file(file) for file in files]
    frame = pd.concat(parts, ignore_index=True)
    frame.attrs = {"note": "; ".join(dict.fromkeys(part.attrs["note"] for part in parts if part.attrs["note"]))}
    try:
        for name in frame.attribute.unique():
            known_attribute(name)
    except SubstituteError as error:
        raise SubstituteError(f"{place}, attr_label: {error}") from error
    return frame


def _read_file(file: Path) -> pd.DataFrame:
    try:
        table = pq.read_table(file, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise SubstituteError(f"{file}: cannot be read as parquet ({str(error).splitlines()[0]}): it is cut short or damaged, fetch or make it again") from error
    if missing := [column for column in COLUMNS if column not in table.column_names]:
        raise SubstituteError(f"{file}: the column {missing[0]!r} is missing; a substitution benchmark has {', '.join(COLUMNS)}, this file {', '.join(table.column_names)}")
    features = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    labels = {column: _named(file, column, table[column].to_pylist(), features.get(column, {}).get("names")) for column in COLUMNS[1:]}
    images = [(row or {}).get("bytes") if isinstance(row, dict) else row for row in table["image"].to_pylist()]
    frame = pd.DataFrame({"path": _unpacked(file, images), "attribute": [normalise_attribute(name) for name in labels["attr_label"]], "bird": [class_name(name) for name in labels["bird_label"]]})
    frame.attrs = {"note": (table.schema.metadata or {}).get(b"note", b"").decode()}
    return frame


def _named(file: Path, column: str, labels: list, names: list[str] | None) -> list[str]:
    """Labels as names; numbers stand for the names of the file's metadata."""
    if all(isinstance(label, str) for label in labels):
        return labels
    if not names:
        raise SubstituteError(f"{file}: {column} holds numbers, but the file's metadata do not name them: save it with the datasets library, or with the names themselves")
    if bad := [label for label in labels if not isinstance(label, int) or not 0 <= label < len(names)]:
        raise SubstituteError(f"{file}: {column} {bad[0]!r} has no name; the file names {len(names)}, numbered from 0")
    return [names[label] for label in labels]


def _unpacked(file: Path, images: list[bytes | None]) -> list[Path]:
    """Files of the images in the cache, named by their content; only those that are not there yet are written."""
    folder, found = paths.cache_home() / "sub", []
    for i, image in enumerate(images):
        if not image:
            raise SubstituteError(f"{file}: row {i} has no image; a row's image is its bytes, not a path")
        target = folder / f"{hashlib.sha256(image).hexdigest()[:32]}.png"  # the name's end does not matter to readers
        if not target.exists():
            paths.write_whole(target, image)
        found.append(target)
    return found
