"""Predictions of attributes that anybody's model made, read from a file and matched with images.

A CSV or parquet file has a row for each image and attribute, with the columns image_id, attribute and
probability; a safetensors file holds `ConceptOutputs`, and a Python file a function `outputs_of(images)` that
gives them (see `own_model`). An image is called by the id that `datasets.load`
gives it (of a benchmark `images.id`, of others the file name), or by its row in the data, from 0.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from worlds.aviary.individuals import ATTRIBUTES
from xaihelpers.datasets.attribute_names import find_attributes, known_attribute
from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.outputs import ConceptOutputs, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_file
from xaihelpers.paths import find
from xaihelpers.text_files import numbers, places, plain, read_table, words

log = logging.getLogger(__name__)
# what each column may be called, as `words`
COLUMNS = {
    "image_id": ("image id", "image", "id", "file"),
    "attribute": ("attribute", "concept", "attr label"),
    "probability": ("probability", "value", "score"),
}


class Predictions(NamedTuple):
    """Probabilities of L attributes on N images."""

    values: torch.Tensor  # (N, L) float32 in [0, 1]
    concepts: list[str]  # L attributes, group::value, in the order of CUB's 312


def read_predictions(
    file: str | Path, image_ids: Sequence[str], concepts: Sequence[str] = (), images: Sequence[str] = ()
) -> Predictions:
    """The predictions of a file for the images wanted, in their order; other images are left out.

    file: CSV (.csv), parquet (.parquet) or outputs (.safetensors): a path, or a name under XAI_DATA; or a
        Python file (.py), whose function is asked about the images.
    image_ids: N ids. A file of just these images may call them by their rows, 0 to N - 1, instead.
    concepts: attributes (group::value) wanted, in this order; by default those of the file, in CUB's.
    images: the N image files, which a Python file is asked about.

    Raises DatasetError, naming the file and the first row that is wrong: no such file, another kind of file,
        no row, a missing column, an attribute that is none of CUB's 312, a probability that is none, an image
        or a concept wanted without rows, an image and attribute that stand twice or nowhere.
    Raises ValueError as `outputs.read_outputs`, `own_model.outputs_of_file` and `text_files.read_table`.
    Concepts of outputs that are none of CUB's 312 are left out, and the log says how many.
    """
    image_ids, images = list(map(str, image_ids)), list(images)
    if is_python_file(file):
        if len(images) != len(image_ids):
            raise DatasetError(f"{file}: a Python file is asked about images, and those are not at hand here")
        held, rows_of = _from_outputs(file, outputs_of_file(file, images, image_ids))
        return _wanted(file, held, rows_of, image_ids, list(concepts))
    place = find(file) or Path(file)
    if not place.is_file():
        raise DatasetError(f"{file}: there is no such file of predictions, neither here nor under XAI_DATA")
    kind, kinds = place.suffix.lower(), (".csv", ".parquet", ".safetensors")
    if kind not in kinds:
        raise DatasetError(f"{file}: predictions are read from {', '.join(kinds)}, not {place.suffix!r}")
    if kind == ".safetensors":
        held, rows_of = _from_outputs(place, read_outputs(place))
    else:
        held, rows_of = _from_rows(place, read_table(place) if kind == ".csv" else _read_parquet(place))
    return _wanted(file, held, rows_of, image_ids, list(concepts))


def _wanted(
    file: str | Path, held: Predictions, rows_of: list[str], image_ids: list[str], concepts: list[str]
) -> Predictions:
    """What is wanted of all that is held, as of `read_predictions`."""
    outside = (~((held.values >= 0) & (held.values <= 1))).nonzero()
    if len(outside):
        row, column = outside[0].tolist()
        raise DatasetError(
            f"{file}: {held.concepts[column]} of image {rows_of[row]!r} is {held.values[row, column]:.4g} "
            f"({len(outside)} such in all): a probability from 0 to 1 is wanted"
        )
    rows = _matched(file, rows_of, image_ids)
    if len(rows) < len(rows_of):
        log.warning("%s: %d images that nobody asked for are left out", file, len(rows_of) - len(rows))
    names = concepts or sorted(held.concepts, key=ATTRIBUTES.index)
    missing = [name for name in names if name not in held.concepts]
    if missing:
        raise DatasetError(
            f"{file}: {len(missing)} of the {len(names)} attributes wanted are not in it, the first "
            f"{missing[0]}: the files of one model need the same attributes"
        )
    columns = [held.concepts.index(name) for name in names]
    return Predictions(held.values[rows][:, columns], names)


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(file)
    except (ValueError, OSError) as error:
        raise DatasetError(
            f"{file}: cannot be read as parquet ({str(error).splitlines()[0]}): it is truncated or damaged"
        ) from error


def _from_rows(file: Path, table: pd.DataFrame) -> tuple[Predictions, list[str]]:
    """Rows of image, attribute, probability as a table (images, attributes)."""
    if table.empty:
        raise DatasetError(f"{file}: it holds no row of predictions")
    columns = {column: table[_column(file, table, column)] for column in COLUMNS}
    images, image_ids = pd.factorize(columns["image_id"].map(plain))
    written, names = pd.factorize(columns["attribute"].map(plain))
    concepts = find_attributes(names, ATTRIBUTES)
    try:
        concepts = [found or known_attribute(name) for found, name in zip(concepts, names, strict=True)]
    except DatasetError as error:
        raise DatasetError(f"{file}: {error}") from error
    _require_once(file, concepts)
    probability = columns["probability"]
    if not pd.api.types.is_numeric_dtype(probability):
        probability = numbers(probability.astype(str), file)
    counts = np.zeros((len(image_ids), len(concepts)), int)
    np.add.at(counts, (images, written), 1)
    wrong = np.argwhere(counts != 1)
    if len(wrong):
        row, column = wrong[0]
        how = "no row" if counts[row, column] == 0 else f"{counts[row, column]} rows"
        raise DatasetError(
            f"{file}: {concepts[column]} of image {image_ids[row]!r} has {how} ({len(wrong)} such in all): "
            "every image needs one row for each attribute"
        )
    values = torch.empty(counts.shape)
    values[images, written] = torch.from_numpy(probability.to_numpy(np.float32, copy=True))
    return Predictions(values, concepts), list(image_ids)


def _column(file: Path, table: pd.DataFrame, column: str) -> str:
    """What a table calls a column of `COLUMNS`. Raises DatasetError where it has none, or several."""
    found = [name for name in table.columns if words(name) in COLUMNS[column]]
    found = [name for name in found if words(name) == COLUMNS[column][0]] or found
    if not found:
        raise DatasetError(
            f"{file}: there is no column {column} (its columns: {', '.join(map(str, table.columns))}); "
            f"a file of predictions has {', '.join(COLUMNS)}"
        )
    if len(found) > 1:
        raise DatasetError(f"{file}: {' and '.join(found)} may each be its {column}: call the right one so")
    return found[0]


def _require_once(file: str | Path, concepts: list[str]) -> None:
    twice = {name for name in concepts if concepts.count(name) > 1}
    if twice:
        raise DatasetError(f"{file}: {min(twice)} is written in several ways: keep one of them")


def _from_outputs(file: str | Path, outputs: ConceptOutputs) -> tuple[Predictions, list[str]]:
    """Outputs of a bottleneck; those concepts that are attributes of CUB."""
    if outputs.image_ids is None:
        raise DatasetError(f"{file}: outputs without image ids: it cannot be told which images they are of")
    attributes = find_attributes(outputs.concepts, ATTRIBUTES)
    columns = [column for column, name in enumerate(attributes) if name]
    if not columns:
        raise DatasetError(
            f"{file}: none of its {len(attributes)} concepts (first: {outputs.concepts[0]!r}) is one of the "
            "312 attributes of CUB"
        )
    if len(columns) < len(attributes):
        log.warning(
            "%s: %d of %d concepts are none of CUB's 312 attributes, the first %r: left out",
            *(file, attributes.count(""), len(attributes), outputs.concepts[attributes.index("")]),
            extra={"note": True},
        )
    concepts = [attributes[column] for column in columns]
    _require_once(file, concepts)
    return Predictions(_at_one_half(file, outputs)[:, columns], concepts), outputs.image_ids


def _at_one_half(file: str | Path, outputs: ConceptOutputs) -> torch.Tensor:
    """Values in [0, 1] with the model's own thresholds moved to one half, in two straight pieces."""
    values, threshold = outputs.values, outputs.thresholds
    if threshold is None:
        return values
    outside = (threshold < 0) | (threshold > 1)
    if outside.any():
        name = outputs.concepts[int(outside.int().argmax())]
        raise DatasetError(
            f"{file}: the threshold of {name!r} is not within 0 and 1, as those of probabilities are"
        )
    threshold = threshold.clamp(1e-6, 1 - 1e-6)  # one of 0 or 1 has no piece on one side
    below = 0.5 * values / threshold
    above = 0.5 + 0.5 * (values - threshold) / (1 - threshold)
    return torch.where(values < threshold, below, above)


def _matched(file: str | Path, held: list[str], wanted: list[str]) -> list[int]:
    """The row of each image wanted, by its id, or by its place where the file's images are called by it.

    Raises DatasetError where one is missing.
    """
    rows, missing = places(wanted, held)
    by_place = [str(place) for place in range(len(wanted))]
    if len(missing) == len(wanted) and not set(held).isdisjoint(by_place):
        rows, missing = places(by_place, held)
        if not missing and len(held) > len(wanted):
            raise DatasetError(
                f"{file}: its {len(held)} images are called by their rows, and the data have {len(wanted)}: "
                f"call them by their ids, such as {wanted[0]!r}"
            )
    if missing:
        raise DatasetError(
            f"{file}: {len(missing)} of the {len(wanted)} images have no predictions, the first "
            f"{missing[0]!r}; the file's images are called {', '.join(map(repr, held[:3]))}, …, the data's "
            f"{', '.join(map(repr, wanted[:3]))}, …, or 0 to {len(wanted) - 1} by their rows"
        )
    return rows
