"""What is given of one model, checked against the data: outputs, and what else there may be."""

import difflib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open

from xaihelpers.bottlenecks.concept_dataset import rows_of_another_class
from xaihelpers.datasets import DatasetError
from xaihelpers.outputs import NAMES, ConceptOutputs, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_data, outputs_of_file
from xaihelpers.paths import find
from xaihelpers.scorecard.ground import Ground
from xaihelpers.scorecard.reading import UNLABELLED

Ask = Callable[[list[Image.Image]], ConceptOutputs]


@dataclass(eq=False)
class Evidence:
    """One model's n test images, and what it says of them; made by `gather`, all tensors on the CPU."""

    name: str
    ground: Ground
    rows: np.ndarray  # (n,), of the test images in the data set
    outputs: ConceptOutputs  # of these, with all L concepts
    known: ConceptOutputs  # with the L' concepts that the data set has labels of
    columns: list[int]  # L', of these among the L
    attributes: list[str]  # L', their names in the data set
    training: ConceptOutputs | None  # `known` of training images, where the outputs have some
    training_rows: np.ndarray  # (m,), of these
    probed: ConceptOutputs | None  # `outputs` of the probes, in their order
    texts: list[str] | None  # n, what is said of each image, "" where nothing is
    judgements: pd.DataFrame | None  # score and, perhaps, control, n rows
    ask: Ask | None
    network_accuracy: float | None  # of the network that the concepts are to explain, 0 to 1
    view: tuple[int, int] | None  # resize and crop of the pictures that the maps cover; None: the whole image
    notes: list[str]  # what was left out

    @property
    def labels(self) -> torch.Tensor | None:
        """(n,) int64, the class of each image; None without classes."""
        return self.ground.world.labels[self.rows] if self.ground.has_classes else None

    @property
    def present(self) -> torch.Tensor:
        """(n, L') of 0 and 1."""
        return self.ground.present(self.attributes, self.rows)

    @property
    def prevalence(self) -> torch.Tensor:
        """(L',), share of the training images, or of all images without any, that have a concept."""
        rows = self.ground.training_rows
        rows = rows if len(rows) else np.arange(len(self.ground.world.images))
        return self.ground.present(self.attributes, rows).mean(0)

    @property
    def has_labels(self) -> bool:
        """Whether any of the model's concepts is labelled."""
        return bool(self.attributes)

    @property
    def another(self) -> torch.Tensor:
        """(n,), for each image the row of one of another class, or of any other one."""
        if self.labels is not None:
            try:
                return rows_of_another_class(self.labels)
            except ValueError:
                pass
        return torch.arange(len(self.rows)).roll(max(1, len(self.rows) // 2))

    def sample(self, count: int, salt: int = 0) -> np.ndarray:
        """Up to `count` of the n rows, the same for every model on the same images, in ascending order."""
        order = np.random.default_rng([self.ground.seed, salt]).permutation(len(self.rows))
        return np.sort(order[:count])


def gather(
    outputs: ConceptOutputs | str | Path,
    ground: Ground,
    name: str = "",
    maps: str | Path | torch.Tensor = "",
    texts: str | Path | Sequence[str] = "",
    judgements: str | Path | pd.DataFrame | None = None,
    probed: ConceptOutputs | str | Path | None = None,
    ask: Ask | None = None,
    network_accuracy: float | None = None,
    view: tuple[int, int] | None = None,
) -> Evidence:
    """What is given of a model, with its rows matched to the images by their ids.

    outputs: with image ids, of some or all test images of the data; rows of training images serve to fit what
        a yardstick has to fit. A file's stem is the model's name where `name` gives none. Or a Python file
        with a function `outputs_of(images)` (see `own_model`), which is asked about all test images, and
        about the probes where neither `probed` nor `ask` is given.
    maps: a safetensors file with the tensor `concept_maps` (N, L, H, W) and, in its header, the JSON lists
        `image_ids` and `concepts`; or the maps of the test images, in the order of the outputs. Maps within
        the outputs need none.
    texts: a CSV file with the columns image and text; or one text for each test image, in order.
    judgements: a table or CSV file with the columns image and score (0 to 5) and, perhaps, control: the same
        judge's score of a map of that image which is known to be wrong.
    probed: the outputs for the probes (`ground.probes`), by their ids.
    ask: from a list of pictures to their outputs; it is asked for the probes where `probed` is not given.
    network_accuracy: of the network that the concepts are to explain, 0 to 1.
    view: resize and crop of the pictures that the maps cover.

    Raises DatasetError, naming the thing and the remedy: ids that the data do not have, no test image, no
        known concept where the data have labels, other classes, tables without these columns or images.
    Raises ValueError as `read_outputs`, `outputs_of_file` and `ConceptOutputs.align` do.
    """
    source = "these outputs"
    if isinstance(outputs, str | Path):
        source, name = str(outputs), name or Path(outputs).stem
        if is_python_file(outputs):
            ask = ask or partial(_asked_of_file, outputs)
            outputs = outputs_of_data(outputs, ground.world)
        else:
            outputs = read_outputs(find(outputs) or outputs)
    outputs = outputs.cpu()
    rows = _rows(outputs, ground, source)
    _check_classes(outputs, ground, source)
    attributes, notes = _attributes(outputs, ground, source)
    columns = [j for j, attribute in enumerate(attributes) if attribute]
    train = ground.world.train.numpy()[rows]
    tested = outputs.take(np.flatnonzero(~train))
    if isinstance(maps, torch.Tensor):
        tested = replace(tested, concept_maps=maps.cpu().float())
    elif str(maps):
        tested = with_maps(tested, maps)
    known = tested.of_concepts([tested.concepts[j] for j in columns]) if columns else tested
    training = None
    if train.any() and columns:
        training = outputs.take(np.flatnonzero(train)).of_concepts(known.concepts)
    image_ids = tested.image_ids
    probes = ground.probes
    if probed is None and ask is not None and probes is not None:
        probed = ask([Image.open(file).convert("RGB") for file in probes.files])
        probed = replace(probed, image_ids=probes.ids)
    if isinstance(probed, str | Path):
        probed = read_outputs(find(probed) or probed)
    if probed is not None and probes is not None:
        probed = probed.cpu().align(probes.ids, "the outputs for the probes")
    return Evidence(
        name=name or "model",
        ground=ground,
        rows=rows[~train],
        outputs=tested,
        known=known,
        columns=columns,
        attributes=[attributes[j] for j in columns],
        training=training,
        training_rows=rows[train],
        probed=probed if probes is not None else None,
        texts=_texts(texts, image_ids),
        judgements=_judgements(judgements, image_ids),
        ask=ask,
        network_accuracy=network_accuracy,
        view=view,
        notes=notes,
    )


def _asked_of_file(file: str | Path, pictures: list[Image.Image]) -> ConceptOutputs:
    return outputs_of_file(file, pictures, [str(number) for number in range(len(pictures))])


def with_maps(outputs: ConceptOutputs, file: str | Path) -> ConceptOutputs:
    """The outputs with the concept maps of a file.

    Raises DatasetError: no such file, one without maps or names, a concept or an image without a map.
    """
    try:
        with safe_open(find(file) or file, framework="pt") as content:
            maps, header = content.get_tensor("concept_maps"), content.metadata() or {}
        names = {name: json.loads(header[name]) for name in NAMES if name != "classes"}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DatasetError(
            f"{file}: no concept maps ({error}). It must be a safetensors file with the tensor concept_maps "
            "(images, concepts, height, width), and the JSON lists image_ids and concepts in its header"
        ) from error
    order = {}
    for kind, wanted in (("concepts", outputs.concepts), ("image_ids", outputs.image_ids)):
        place = {name: number for number, name in enumerate(names[kind])}
        missing = [name for name in wanted if name not in place]
        if missing:
            raise DatasetError(
                f"{file}: {len(missing)} of the {len(wanted)} {kind.replace('_', ' ')} of the outputs have "
                f"no map, the first {missing[0]!r}; the file's first is {names[kind][:1]}. Write a map for "
                "each, under the same names, or give outputs of fewer"
            )
        order[kind] = [place[name] for name in wanted]
    return replace(outputs, concept_maps=maps[order["image_ids"]][:, order["concepts"]].float())


def _rows(outputs: ConceptOutputs, ground: Ground, source: str) -> np.ndarray:
    """Row of each image of the outputs in the data set."""
    row_of = {name: row for row, name in enumerate(ground.world.image_ids)}
    if outputs.image_ids is None:
        outputs.align(list(row_of)[:1], source)  # raises the error that says what ids are
    unknown = [name for name in outputs.image_ids if name not in row_of]
    if unknown:
        near = difflib.get_close_matches(unknown[0], list(row_of)[:5000], n=1, cutoff=0.0)
        raise DatasetError(
            f"{source}: {len(unknown)} of the {len(outputs.image_ids)} images are none of "
            f"{ground.world.name}'s, the first {unknown[0]!r}. Image ids are file names under its folder of "
            f"images, such as {(near or list(row_of)[:1])[0]!r}"
        )
    rows = np.array([row_of[name] for name in outputs.image_ids], int)
    tested = int((~ground.world.train.numpy()[rows]).sum())
    if tested < 2:
        raise DatasetError(
            f"{source}: {tested} of its {len(rows)} images belong to the test images of {ground.world.name}: "
            "give the outputs of test images, for those of training images flatter a model"
        )
    return rows


def _check_classes(outputs: ConceptOutputs, ground: Ground, source: str) -> None:
    wanted = ground.world.class_names
    if ground.has_classes and outputs.classes != wanted:
        raise DatasetError(
            f"{source} holds {len(outputs.classes)} classes, the first {outputs.classes[:3]}; "
            f"{ground.world.name} has {len(wanted)}, the first {wanted[:3]}: they must be the same, in the "
            "same order"
        )


def _attributes(outputs: ConceptOutputs, ground: Ground, source: str) -> tuple[list[str], list[str]]:
    """The attribute of each concept, "" where nobody labelled it, and what to say of these."""
    if ground.kind == UNLABELLED or not ground.attribute_of:
        return [""] * len(outputs.concepts), []
    found = [ground.attribute_of.get(name, "") for name in outputs.concepts]
    unknown = [name for name, attribute in zip(outputs.concepts, found, strict=True) if not attribute]
    if not unknown:
        return found, []
    near = difflib.get_close_matches(unknown[0], ground.attribute_of, n=1, cutoff=0.0)[0]
    hint = f"the first {unknown[0]!r} (did you mean {near!r}?)"
    if len(unknown) == len(found):
        raise DatasetError(
            f"{source}: none of its {len(found)} concepts is an attribute of {ground.world.name}, {hint}. "
            "Write concepts as the data set does, or in plain words"
        )
    note = f"{len(unknown)} of {len(found)} concepts have no label in {ground.world.name}, {hint}"
    return found, [f"{note}: left out of all that needs labels."]


def _texts(texts: str | Path | Sequence[str], image_ids: list[str]) -> list[str] | None:
    if isinstance(texts, Path) or (isinstance(texts, str) and texts):
        return _table(texts, ("image", "text"), image_ids)["text"].fillna("").astype(str).tolist()
    if not len(texts):
        return None
    if len(texts) != len(image_ids):
        raise DatasetError(f"{len(texts)} texts for {len(image_ids)} test images: give one for each")
    return list(texts)


def _judgements(judgements: str | Path | pd.DataFrame | None, image_ids: list[str]) -> pd.DataFrame | None:
    if judgements is None or (isinstance(judgements, str) and not judgements):
        return None
    table = _table(judgements, ("image", "score"), image_ids)
    for column in [name for name in ("score", "control") if name in table]:
        table[column] = pd.to_numeric(table[column], errors="coerce")
        wrong = table[column].notna() & ~table[column].between(0, 5)
        if wrong.any():
            raise DatasetError(
                f"judgements: {column} {table[column][wrong].iloc[0]:g} of image "
                f"{table.index[wrong][0]!r} is outside 0 to 5: write 0 to 5, and nothing where the judge "
                "gave no score"
            )
    return table


def _table(given: str | Path | pd.DataFrame, columns: tuple[str, str], image_ids: list[str]) -> pd.DataFrame:
    """A table by image, a row for each of the test images in order, NaN where it has none."""
    source = "the table"
    if not isinstance(given, pd.DataFrame):
        source = str(given)
        try:
            given = pd.read_csv(find(given) or given)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{source}: cannot be read as a CSV table ({error})") from error
    if not set(columns) <= set(given):
        raise DatasetError(
            f"{source}: needs the columns {' and '.join(columns)}, but has {', '.join(given.columns)}"
        )
    known = given["image"].isin(image_ids)
    if not known.any():
        raise DatasetError(
            f"{source}: none of its images is among the outputs' test images, the first "
            f"{given['image'].iloc[0]!r}; they are {image_ids[0]!r}, …"
        )
    return given[known].drop_duplicates("image").set_index("image").reindex(image_ids)
