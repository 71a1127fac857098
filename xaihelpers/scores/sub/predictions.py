"""Predictions of attributes that anybody's model made, read from a file and matched with images.

A CSV or parquet file has a row for each image and attribute, with the columns image_id, attribute and
probability; a safetensors file holds `ConceptOutputs`, and a Python file a function `outputs_of(images)` that
gives them (see `own_model`). An image is called by the id that `datasets.load`
gives it (of a benchmark `images.id`, of others the file name), or by its row in the data, from 0.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.attribute_names import attributes_by_words, known_attribute, normalise_attribute
from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.outputs import ConceptOutputs, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_file
from xaihelpers.paths import find
from xaihelpers.worlds.aviary.individuals import ATTRIBUTES

# what each column may be called, in small letters, blanks as _
COLUMNS = {
    "image_id": ("image_id", "image", "id", "file"),
    "attribute": ("attribute", "concept", "attr_label"),
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
    image_ids: N ids. A file may call the images by their rows, 0 to N - 1, instead.
    concepts: attributes (group::value) wanted, in this order; by default those of the file, in CUB's.
    images: the N image files, which a Python file is asked about.

    Raises DatasetError, naming the file and the first row that is wrong: no such file, another kind of file,
        no row, a missing column, an attribute that is none of CUB's 312, a probability that is none, an image
        or a concept wanted without rows, an image and attribute that stand twice or nowhere.
    Raises OwnModelError as `own_model.outputs_of_file`.
    """
    if is_python_file(file):
        return _asked_of_file(file, list(map(str, image_ids)), list(concepts), list(images))
    place = find(file) or Path(file)
    if not place.is_file():
        raise DatasetError(f"{file}: there is no such file of predictions, neither here nor under XAI_DATA")
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".safetensors": _read_outputs}
    if place.suffix.lower() not in readers:
        raise DatasetError(f"{file}: predictions are read from {', '.join(readers)}, not {place.suffix!r}")
    held, rows_of = readers[place.suffix.lower()](place)
    return _wanted(file, held, rows_of, list(image_ids), list(concepts))


def _asked_of_file(
    file: str | Path, image_ids: list[str], concepts: list[str], images: list[str]
) -> Predictions:
    if len(images) != len(image_ids):
        raise DatasetError(f"{file}: a Python file is asked about images, and those are not at hand here")
    held, rows_of = _from_outputs(file, outputs_of_file(file, images, image_ids))
    return _wanted(file, held, rows_of, image_ids, concepts)


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
    names = concepts or sorted(held.concepts, key=ATTRIBUTES.index)
    missing = [name for name in names if name not in held.concepts]
    if missing:
        raise DatasetError(
            f"{file}: {len(missing)} of the {len(names)} attributes wanted are not in it, the first "
            f"{missing[0]}: the files of one model need the same attributes"
        )
    columns = [held.concepts.index(name) for name in names]
    return Predictions(held.values[rows][:, columns], names)


def _read_csv(file: Path) -> tuple[Predictions, list[str]]:
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:
        raise DatasetError(f"{file}: cannot be read as CSV ({error})") from error
    return _from_rows(file, table)


def _read_parquet(file: Path) -> tuple[Predictions, list[str]]:
    try:
        table = pd.read_parquet(file)
    except (ValueError, OSError) as error:
        raise DatasetError(
            f"{file}: cannot be read as parquet ({str(error).splitlines()[0]}): it is truncated or damaged"
        ) from error
    return _from_rows(file, table)


def _from_rows(file: Path, table: pd.DataFrame) -> tuple[Predictions, list[str]]:
    """Rows of image, attribute, probability as a table (images, attributes)."""
    if table.empty:
        raise DatasetError(f"{file}: it holds no row of predictions")
    plain = {str(name).strip().lower().replace(" ", "_"): name for name in table.columns}
    columns = {}
    for column, names in COLUMNS.items():
        found = [plain[name] for name in names if name in plain]
        if not found:
            raise DatasetError(
                f"{file}: there is no column {column} (its columns: {', '.join(map(str, table.columns))}); "
                f"a file of predictions has {', '.join(COLUMNS)}"
            )
        columns[column] = table[found[0]]
    images, image_ids = pd.factorize(columns["image_id"].astype(str))
    names, written = pd.factorize(columns["attribute"].astype(str))
    concepts = _attribute_names(file, written)
    numbers = pd.to_numeric(columns["probability"], errors="coerce")
    if numbers.isna().any():
        row = int(numbers.isna().to_numpy().argmax())
        raise DatasetError(f"{file}: row {row} has no number as its probability: {table.iloc[row].to_dict()}")
    counts = np.zeros((len(image_ids), len(concepts)), int)
    np.add.at(counts, (images, names), 1)
    wrong = np.argwhere(counts != 1)
    if len(wrong):
        row, column = wrong[0]
        how = "no row" if counts[row, column] == 0 else f"{counts[row, column]} rows"
        raise DatasetError(
            f"{file}: {concepts[column]} of image {image_ids[row]!r} has {how} ({len(wrong)} such in all): "
            "every image needs one row for each attribute"
        )
    values = torch.empty(counts.shape)
    values[images, names] = torch.from_numpy(numbers.to_numpy(np.float32, copy=True))
    return Predictions(values, concepts), list(image_ids)


def _attribute_names(file: Path, written: Sequence[str]) -> list[str]:
    """Attributes as group::value, however they are written. Raises DatasetError as `read_predictions`."""
    attribute_of = attributes_by_words(ATTRIBUTES)
    try:
        concepts = [attribute_of.get(name) or known_attribute(name) for name in written]
    except DatasetError as error:
        raise DatasetError(f"{file}: {error}") from error
    twice = {name for name in concepts if concepts.count(name) > 1}
    if twice:
        raise DatasetError(f"{file}: {min(twice)} is written in several ways: keep one of them")
    return concepts


def _read_outputs(file: Path) -> tuple[Predictions, list[str]]:
    """Outputs of a bottleneck; those concepts that are attributes of CUB."""
    try:
        outputs = read_outputs(file)
    except ValueError as error:
        raise DatasetError(str(error)) from error
    if outputs.image_ids is None:
        raise DatasetError(f"{file}: outputs without image ids: it cannot be told which images they are of")
    return _from_outputs(file, outputs)


def _from_outputs(file: str | Path, outputs: ConceptOutputs) -> tuple[Predictions, list[str]]:
    attribute_of = attributes_by_words(ATTRIBUTES)
    attributes = [attribute_of.get(name) or normalise_attribute(name) for name in outputs.concepts]
    columns = [column for column, name in enumerate(attributes) if name in attribute_of]
    if not columns:
        raise DatasetError(
            f"{file}: none of its {len(attributes)} concepts (first: {outputs.concepts[0]!r}) is one of the "
            "312 attributes of CUB"
        )
    values = _at_one_half(outputs)[:, columns]
    return Predictions(values, [attributes[column] for column in columns]), outputs.image_ids


def _at_one_half(outputs: ConceptOutputs) -> torch.Tensor:
    """Values in [0, 1] with the model's own thresholds moved to one half, in two straight pieces."""
    values = outputs.values.float()
    if outputs.thresholds is None:
        return values
    threshold = outputs.thresholds.float().clamp(1e-6, 1 - 1e-6)
    below = 0.5 * values / threshold
    above = 0.5 + 0.5 * (values - threshold) / (1 - threshold)
    return torch.where(values < threshold, below, above)


def _matched(file: str | Path, held: list[str], wanted: list[str]) -> list[int]:
    """The row of each image wanted, by its id or by its place. Raises DatasetError where one is missing."""
    row_of = {name: row for row, name in enumerate(held)}
    wanted = [str(name) for name in wanted]
    by_place = [str(place) for place in range(len(wanted))]
    is_by_place = row_of.keys().isdisjoint(wanted) and not row_of.keys().isdisjoint(by_place)
    names = by_place if is_by_place else wanted
    missing = [name for name in names if name not in row_of]
    if missing:
        raise DatasetError(
            f"{file}: {len(missing)} of the {len(wanted)} images have no predictions, the first "
            f"{missing[0]!r}; the file's images are called {', '.join(map(repr, held[:3]))}, …, the data's "
            f"{', '.join(map(repr, wanted[:3]))}, …, or 0 to {len(wanted) - 1} by their rows"
        )
    return [row_of[name] for name in names]
