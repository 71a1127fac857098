"""What is given of one model, checked against the data: outputs, and what else there may be."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open

from xaihelpers.bottlenecks.concept_dataset import rows_of_another_class
from xaihelpers.datasets import Dataset, DatasetError, attributes_by_words, concept_labels, load
from xaihelpers.models.clip import Clip, load_clip
from xaihelpers.outputs import ConceptOutputs, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_data, outputs_of_file
from xaihelpers.paths import find
from xaihelpers.scorecard.reading import DRAWN, LABELLED, UNLABELLED
from xaihelpers.yardsticks.drawn_probes import Probes, draw_probes


@dataclass(eq=False)
class Ground:
    """A data set and what can be known of its images, whatever the model; made by `ground`."""

    world: Dataset
    kind: str  # one of `reading.TRUTHS`: what this kind knows, the kinds after it do not
    labels: str  # "image" or "class": whose concept labels count
    scorer: Clip | None
    probes: Probes | None  # None where nothing is drawn, and where none are wanted
    seed: int
    kept: dict = field(default_factory=dict)  # what several models share, by what it depends on


def ground(
    data: str,
    labels: str = "auto",
    scorer: str = "",
    n_pairs: int = 120,
    n_covered: int = 24,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Ground:
    """What a data set tells. A renderer knows everything; people labelled images or classes; or nobody did.

    data: a name or path as `datasets.load` takes it.
    labels: whose concept labels models are judged by, "image" or "class"; "auto" takes the images' own where
        they are recorded.
    scorer: a CLIP as `models.clip.load_clip` takes it, for scores of texts; empty for none, which is right
        for images that the shipped one has not learnt.
    n_pairs, n_covered: probes on drawn birds, as `draw_probes` takes them; 0 for none.
    seed: of probes, cases and folds.
    Raises DatasetError, ModelError and ValueError as `datasets.load` and `load_clip` do.
    """
    world = load(data, attributes=labels)
    kind = UNLABELLED
    if len(world.classes) or world.attributes is not None:
        kind = DRAWN if world.drawn and world.attributes is not None else LABELLED
    probes = None
    if kind == DRAWN and n_pairs + n_covered:
        probes = draw_probes(world, n_pairs, n_covered, seed)
    if labels == "auto":
        labels = world.attribute_level or "image"
    clip = load_clip(scorer, "", True, device) if scorer else None
    return Ground(world, kind, labels, clip, probes, seed)


@dataclass(eq=False)
class Evidence:
    """One model's n test images, and what it says of them; made by `gather`, all tensors on the CPU."""

    name: str
    ground: Ground
    rows: np.ndarray  # (n,), of the test images in the data set
    labels: torch.Tensor | None  # (n,) int64, the class of each image; None without classes
    outputs: ConceptOutputs  # of these, with all L concepts
    known: ConceptOutputs  # with the L' concepts that the data set has labels of
    columns: list[int]  # L', of these among the L
    attributes: list[str]  # L', their names in the data set
    truth: torch.Tensor | None  # (N, L') of 0 and 1, of all images of the data set; None without any
    training: ConceptOutputs | None  # `known` of training images, where the outputs have some
    training_rows: np.ndarray  # (m,), of these
    probed: ConceptOutputs | None  # `outputs` of the probes, in their order
    texts: list[str] | None  # n, what is said of each image, "" where nothing is
    judgements: pd.DataFrame | None  # score and, perhaps, control, n rows
    network_accuracy: float | None  # of the network that the concepts are to explain, 0 to 1
    notes: list[str]  # what was left out

    @property
    def present(self) -> torch.Tensor:
        """(n, L') of 0 and 1."""
        return self.truth[self.rows]

    @property
    def prevalence(self) -> torch.Tensor:
        """(L',), share of the training images, or of all images without any, that have a concept."""
        train = self.ground.world.train
        return self.truth[train if train.any() else ~train].mean(0)

    @property
    def another(self) -> torch.Tensor:
        """(n,), for each image the row of one of another class, or of any other one."""
        n = len(self.rows)
        if self.labels is not None and self.labels.unique(return_counts=True)[1].max() <= n // 2:
            return rows_of_another_class(self.labels)
        return torch.arange(n).roll(max(1, n // 2))

    def classes_of(self, rows: np.ndarray) -> torch.Tensor | None:
        """Classes of some of the n images; None without classes."""
        return None if self.labels is None else self.labels[rows]

    def sample(self, count: int, salt: int = 0) -> np.ndarray:
        """Up to `count` of the n rows, the same for every model on the same images, in ascending order."""
        order = np.random.default_rng([self.ground.seed, salt]).permutation(len(self.rows))
        return np.sort(order[:count])


def gather(
    outputs: ConceptOutputs | str | Path,
    ground: Ground,
    name: str = "",
    maps: str | Path | torch.Tensor = "",
    texts: str | Path = "",
    judgements: str | Path = "",
    probed: ConceptOutputs | None = None,
    network_accuracy: float | None = None,
) -> Evidence:
    """What is given of a model, with its rows matched to the images by their ids.

    outputs: with image ids, of some or all test images of the data; rows of training images serve to fit what
        a yardstick has to fit. A file's stem is the model's name where `name` gives none. Or a Python file
        with a function `outputs_of(images)` (see `own_model`), which is asked about all test images, and
        about the probes where `probed` is not given.
    maps: a safetensors file with the tensor `concept_maps` (N, L, H, W) and, in its header, the JSON lists
        `image_ids` and `concepts`; or the maps of the test images, in the order of the outputs. They cover
        the whole image. Maps within the outputs need none.
    texts: a CSV file with the columns image and text.
    judgements: a CSV file with the columns image and score (0 to 5) and, perhaps, control: the same judge's
        score of a map of that image which is known to be wrong.
    probed: the outputs for the probes (`ground.probes`, where there are any), by their ids.
    network_accuracy: of the network that the concepts are to explain, 0 to 1.

    Raises DatasetError, naming the thing and the remedy: ids that the data do not have, no test image, no
        known concept where the data have labels, other classes, tables without these columns or images.
    Raises ValueError as `read_outputs`, `outputs_of_file` and `ConceptOutputs.align` do.
    """
    world, probes, source, file = ground.world, ground.probes, "these outputs", ""
    if isinstance(outputs, str | Path):
        source, name = str(outputs), name or Path(outputs).stem
        file = source if is_python_file(source) else ""
        outputs = outputs_of_data(file, world) if file else read_outputs(find(source) or source)
    outputs = outputs.cpu()
    rows = _rows(outputs, world, source)
    attributes, notes = _attributes(outputs, world, source)
    columns = [column for column, attribute in enumerate(attributes) if attribute]
    attributes = [attributes[column] for column in columns]
    train = world.train.numpy()[rows]
    tested, training = outputs.take(np.flatnonzero(~train)), None
    if isinstance(maps, torch.Tensor):
        tested = replace(tested, concept_maps=maps.cpu().float())
    elif str(maps):
        tested = _with_maps(tested, maps)
    concepts = [tested.concepts[column] for column in columns]
    if train.any() and columns:
        training = outputs.take(np.flatnonzero(train)).of_concepts(concepts)
    if file and probes is not None and probed is None:
        probed = outputs_of_file(file, probes.files, probes.ids)
    if probed is not None:
        probed = probed.cpu().align(probes.ids, "the outputs for the probes")
    if texts:
        texts = _table(texts, ("image", "text"), tested.image_ids)["text"].fillna("").astype(str).tolist()
    return Evidence(
        name=name or "model",
        ground=ground,
        rows=rows[~train],
        labels=world.labels[rows[~train]] if len(world.classes) else None,
        outputs=tested,
        known=tested.of_concepts(concepts) if columns else tested,
        columns=columns,
        attributes=attributes,
        truth=concept_labels(world, attributes, level=ground.labels) if columns else None,
        training=training,
        training_rows=rows[train],
        probed=probed,
        texts=texts or None,
        judgements=_judgements(judgements, tested.image_ids) if judgements else None,
        network_accuracy=network_accuracy,
        notes=notes,
    )


def _with_maps(outputs: ConceptOutputs, file: str | Path) -> ConceptOutputs:
    """The outputs with the concept maps of a file."""
    try:
        with safe_open(find(file) or file, framework="pt") as content:
            maps, header = content.get_tensor("concept_maps"), content.metadata() or {}
        held = {kind: json.loads(header[kind]) for kind in ("image_ids", "concepts")}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DatasetError(
            f"{file}: no concept maps ({error}). It must be a safetensors file with the tensor concept_maps "
            "(images, concepts, height, width), and the JSON lists image_ids and concepts in its header"
        ) from error
    for axis, (kind, names) in enumerate(held.items()):
        wanted, place_of = getattr(outputs, kind), {name: place for place, name in enumerate(names)}
        missing = [name for name in wanted if name not in place_of]
        if missing:
            raise DatasetError(
                f"{file}: {len(missing)} of the {len(wanted)} {kind.replace('_', ' ')} of the outputs have "
                f"no map, the first {missing[0]!r}; the file's first is {names[:1]}. Write a map for each, "
                "under the same names, or give outputs of fewer"
            )
        maps = maps.index_select(axis, torch.tensor([place_of[name] for name in wanted]))
    return replace(outputs, concept_maps=maps.float())


def _rows(outputs: ConceptOutputs, world: Dataset, source: str) -> np.ndarray:
    """Row of each image of the outputs in the data set, whose classes the outputs have to have."""
    row_of = {name: row for row, name in enumerate(world.image_ids)}
    if outputs.image_ids is None:
        outputs.align(list(row_of)[:1], source)  # raises the error that says what ids are
    unknown = [name for name in outputs.image_ids if name not in row_of]
    if unknown:
        raise DatasetError(
            f"{source}: {len(unknown)} of the {len(outputs.image_ids)} images are none of {world.name}'s, "
            f"the first {unknown[0]!r}. Image ids are file names under its folder of images, such as "
            f"{world.image_ids[0]!r}"
        )
    rows = np.array([row_of[name] for name in outputs.image_ids], int)
    tested = int((~world.train.numpy()[rows]).sum())
    if tested < 2:
        raise DatasetError(
            f"{source}: {tested} of its {len(rows)} images belong to the test images of {world.name}: "
            "give the outputs of test images, for those of training images flatter a model"
        )
    if len(world.classes) and outputs.classes != world.class_names:
        raise DatasetError(
            f"{source} holds {len(outputs.classes)} classes, the first {outputs.classes[:3]}; {world.name} "
            f"has {len(world.classes)}, the first {world.class_names[:3]}: they must be the same, in the "
            "same order"
        )
    return rows


def _attributes(outputs: ConceptOutputs, world: Dataset, source: str) -> tuple[list[str], list[str]]:
    """The attribute of each concept, "" where nobody labelled it, and what to say of these."""
    attribute_of = {} if world.attributes is None else attributes_by_words(world.attributes["name"])
    unknown = [name for name in outputs.concepts if name not in attribute_of]
    found = [attribute_of.get(name, "") for name in outputs.concepts]
    if not unknown or not attribute_of:
        return found, []
    near = difflib.get_close_matches(unknown[0], attribute_of, n=1, cutoff=0.0)[0]
    hint = f"the first {unknown[0]!r} (did you mean {near!r}?)"
    if len(unknown) == len(found):
        raise DatasetError(
            f"{source}: none of its {len(found)} concepts is an attribute of {world.name}, {hint}. Write "
            "concepts as the data set does, or in plain words"
        )
    note = f"{len(unknown)} of {len(found)} concepts have no label in {world.name}, {hint}"
    return found, [f"{note}: left out of all that needs labels."]


def _judgements(file: str | Path, image_ids: Sequence[str]) -> pd.DataFrame:
    table = _table(file, ("image", "score"), image_ids)
    for column in table.columns.intersection(["score", "control"]):
        table[column] = pd.to_numeric(table[column], errors="coerce")
        wrong = table[column][~table[column].fillna(0).between(0, 5)]
        if len(wrong):
            raise DatasetError(
                f"judgements: {column} {wrong.iloc[0]:g} of image {wrong.index[0]!r} is outside 0 to 5: "
                "write 0 to 5, and nothing where the judge gave no score"
            )
    return table


def _table(file: str | Path, columns: tuple[str, str], image_ids: Sequence[str]) -> pd.DataFrame:
    """A table by image, a row for each of the test images in order, NaN where it has none."""
    try:
        given = pd.read_csv(find(file) or file)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{file}: cannot be read as a CSV table ({error})") from error
    if not set(columns) <= set(given):
        raise DatasetError(
            f"{file}: needs the columns {' and '.join(columns)}, but has {', '.join(given.columns)}"
        )
    known = given["image"].isin(image_ids)
    if not known.any():
        raise DatasetError(
            f"{file}: none of its images is among the outputs' test images, the first "
            f"{given['image'].iloc[0]!r}; they are {image_ids[0]!r}, …"
        )
    return given[known].drop_duplicates("image").set_index("image").reindex(image_ids)
