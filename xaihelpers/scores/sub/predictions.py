"""Predictions of attributes that anybody's model made, read from a file and matched with images.

A CSV file has a row for each image and attribute, with the columns image_id, attribute and probability; a
safetensors file holds `ConceptOutputs`, and a Python file a function `outputs_of(images)` that gives them
(see `own_model`). An image is called by the id that `datasets.load` gives it (of a benchmark `images.id`, of
others the file name).
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
from xaihelpers.scores.sub.substitution import groups_of
from xaihelpers.text_files import numbers, plain, read_table

log = logging.getLogger(__name__)
COLUMNS = ["image_id", "attribute", "probability"]


class Predictions(NamedTuple):
    """Probabilities of L attributes on N images."""

    values: torch.Tensor  # (N, L) float32 in [0, 1]
    concepts: list[str]  # L attributes, group::value, in the order of CUB's 312


def read_predictions(
    file: str | Path, image_ids: Sequence[str], concepts: Sequence[str] = (), images: Sequence[str] = ()
) -> Predictions:
    """The predictions of a file for the images wanted, in their order; other images are left out.

    file: .csv, .safetensors or .py: a path, or a name under XAI_DATA. image_ids: N ids.
    concepts: attributes (group::value) wanted, in this order; by default those of the file, in CUB's.
    images: the N image files, which a Python file is asked about.

    Raises DatasetError, naming the file: an attribute of a table that is none of CUB's 312, an image and
        attribute that stand twice, wanted ones without a probability from 0 to 1, thresholds of outputs that
        are no probabilities.
    Raises ValueError as `outputs.read_outputs`, `own_model.outputs_of_file` and `text_files.read_table`.
    Concepts of outputs that are none of CUB's 312 are left out, and the log says how many; it also says where
    the attributes share one probability.
    """
    wanted = [plain(name) for name in image_ids]
    place = find(file) or Path(file)
    if is_python_file(file):
        table = _of_outputs(file, outputs_of_file(file, list(images), wanted))
    elif place.suffix == ".safetensors":
        table = _of_outputs(place, read_outputs(place))
    elif place.suffix == ".csv":
        table = _of_table(place)
    else:
        raise DatasetError(f"{file}: predictions are a .csv, a .safetensors or a .py file")
    names = list(concepts) or sorted(table, key=ATTRIBUTES.index)
    chosen = table.reindex(index=wanted, columns=names)
    wrong = ~((chosen >= 0) & (chosen <= 1)).stack()
    if wrong.any():
        image, attribute = wrong.idxmax()
        raise DatasetError(
            f"{file}: no probability from 0 to 1 for {attribute} of image {image!r} ({wrong.sum()} such of "
            f"{len(wrong)}): every image needs one for each attribute, no logit and no percentage; the file "
            f"has {len(table)} images, called {', '.join(map(repr, table.index[:3]))}, …"
        )
    if len(set(groups_of(table.columns))) > 1 and np.allclose(table.sum(axis=1), 1, atol=0.01):
        log.warning(
            "%s: the probabilities of an image sum to 1, as of a softmax over all attributes, so hardly any "
            "is above one half: give each attribute its own, or score them by group",
            file,
            extra={"note": True},
        )
    return Predictions(torch.tensor(chosen.to_numpy()), names)


def _of_table(place: Path) -> pd.DataFrame:
    """The predictions of a table, float32 (images, attributes), NaN where it has none."""
    rows = read_table(place, COLUMNS)
    rows["probability"] = numbers(rows.probability, place)
    written = rows.attribute.unique()
    attribute_of = dict(zip(written, find_attributes(written, ATTRIBUTES), strict=True))
    try:
        for name, found in attribute_of.items():
            attribute_of[name] = found or known_attribute(name)
    except DatasetError as error:
        raise DatasetError(f"{place}: {error}") from error
    rows["attribute"] = rows.attribute.map(attribute_of)
    twice = rows[rows.duplicated(["image_id", "attribute"])]
    if len(twice):
        image, attribute = twice[["image_id", "attribute"]].iloc[0]
        raise DatasetError(f"{place}: {attribute} of image {image!r} stands twice")
    return rows.pivot(index="image_id", columns="attribute", values="probability").astype("float32")


def _of_outputs(file: str | Path, outputs: ConceptOutputs) -> pd.DataFrame:
    """Those concepts of a bottleneck that are attributes of CUB, float32 (images, attributes).

    The model's own thresholds are moved to one half, in two straight pieces.
    """
    names = find_attributes(outputs.concepts, ATTRIBUTES)
    known = sorted(set(names) - {""})
    if outputs.image_ids is None or not known or len(known) < len(names) - names.count(""):
        raise DatasetError(
            f"{file}: outputs need image ids, and concepts that are attributes of CUB, each once; they have "
            f"{', '.join(map(repr, outputs.concepts[:3]))}, …"
        )
    if "" in names:
        log.warning(
            "%s: %d of %d concepts are none of CUB's 312 attributes, the first %r: left out",
            *(file, names.count(""), len(names), outputs.concepts[names.index("")]),
            extra={"note": True},
        )
    values = outputs.values
    if outputs.thresholds is not None:
        least, most = outputs.thresholds.min(), outputs.thresholds.max()
        if least < 0 or most > 1:
            raise DatasetError(
                f"{file}: thresholds go from {least:.3g} to {most:.3g}: give probabilities from 0 to 1, as "
                "values and as thresholds"
            )
        threshold = outputs.thresholds.clamp(1e-6, 1 - 1e-6)  # one of 0 or 1 has no piece on one side
        below = 0.5 * values / threshold
        above = 0.5 + 0.5 * (values - threshold) / (1 - threshold)
        values = torch.where(values < threshold, below, above)
    index = [plain(name) for name in outputs.image_ids]
    return pd.DataFrame(values.numpy(), index, names)[known]
