"""Benchmarks in the published SUB's layout, written: parquet files with image, attr_label and bird_label.

Labels are numbers whose names stand in the metadata. Where more is known there are two columns more, which
the published one lacks: before, the picture of the same bird before the change, and removed, the attributes
that are gone, with blanks between.
"""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from xaihelpers import paths
from xaihelpers.datasets.attribute_names import known_attribute, normalise_attribute
from xaihelpers.datasets.dataset import DatasetError, class_name

PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # as the datasets library stores it


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
    given = {"attributes": attributes, "birds": birds, "before": before, "removed": removed}
    for name, values in given.items():
        if len(values) != len(images) and (len(values) or name in ("attributes", "birds")):
            raise DatasetError(f"{len(images)} images with {len(values)} {name}: give one for each")
    columns = {"image": pa.array(_stored(images), PICTURE)}
    features = {"image": {"_type": "Image"}}
    for column, spelt, labels, names in (
        ("attr_label", _published, attributes, attribute_names),
        ("bird_label", class_name, birds, bird_names),
    ):
        labels, names = [spelt(label) for label in labels], [spelt(name) for name in names]
        if unnamed := sorted(set(labels) - set(names)):
            raise DatasetError(f"{column}: {unnamed} are not among the {len(names)} names given")
        columns[column] = pa.array([names.index(label) for label in labels], pa.int64())
        features[column] = {"names": names, "_type": "ClassLabel"}
    if len(before):
        columns["before"] = pa.array(_stored(before), PICTURE)
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


def _stored(images: Sequence[Image.Image | str | Path]) -> list[dict]:
    """Images as the datasets library stores them: files as they are, PIL images as PNG."""
    stored = []
    for row, image in enumerate(images):
        content = io.BytesIO()
        if isinstance(image, Image.Image):
            image.save(content, "PNG")
        else:
            content.write(Path(image).read_bytes())
        stored.append({"bytes": content.getvalue(), "path": f"{row:06d}.png"})
    return stored


def _published(name: str) -> str:
    """The name of an attribute as the published SUB writes it, group--value."""
    return normalise_attribute(name).replace("::", "--")
