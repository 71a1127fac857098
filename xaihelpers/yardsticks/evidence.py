"""What is given of one model, checked against the data: outputs, and what else there may be."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open

from xaihelpers.bottlenecks.concept_dataset import rows_of_another_class
from xaihelpers.datasets import (
    Dataset,
    DatasetError,
    class_concepts,
    concept_labels,
    find_attributes,
    load,
    plain_name,
)
from xaihelpers.datasets.attribute_names import unknown_name
from xaihelpers.models.clip import load_clip
from xaihelpers.outputs import ConceptOutputs, contradictions, names_in, read_outputs
from xaihelpers.own_model import is_python_file, outputs_of_data, outputs_of_file
from xaihelpers.paths import find
from xaihelpers.scores import exchange
from xaihelpers.scores.agreement import require_scale
from xaihelpers.text_files import numbers, places, plain, read_table
from xaihelpers.yardsticks.drawn_probes import draw_probes

DRAWN, LABELLED, UNLABELLED = "drawn", "labelled", "unlabelled"  # what is known of images
SCORES = ["score", "control"]  # columns of judgements


class Ground:
    """A data set and what can be known of its images, whatever the model.

    A renderer knows everything; people labelled images or classes; or nobody did.

    data: a Dataset, or a name or path as `datasets.load` takes it.
    labels: whose concept labels models are judged by, "image", "class" or "auto", as of `datasets.load`.
    scorer: a CLIP as `models.clip.load_clip` takes it, for scores of texts; empty for none, which is right
        for images that the shipped one has not learnt.
    n_pairs: probes on drawn birds, as `draw_probes` takes them; 0 for none.
    seed: of probes, cases and folds.
    Raises ValueError for pairs or a seed below 0; DatasetError, ModelError and ValueError as
    `datasets.load` and `load_clip` do.
    """

    def __init__(
        self,
        data: Dataset | str,
        labels: str = "auto",
        scorer: str = "",
        n_pairs: int = 120,
        seed: int = 0,
    ):
        if min(n_pairs, seed) < 0:
            raise ValueError(f"pairs {n_pairs}, seed {seed}: each has to be 0 or more")
        self.world = world = data if isinstance(data, Dataset) else load(data, attributes=labels)
        self.kind = UNLABELLED
        if len(world.classes) or world.attributes is not None:
            self.kind = DRAWN if world.drawn and world.attributes is not None else LABELLED
        self.scorer = load_clip(scorer, "", True) if scorer else None
        probed = self.kind == DRAWN and n_pairs and (world.root / "aviary.json").is_file()
        self.probes = draw_probes(world, n_pairs, seed) if probed else None
        self.seed = seed


class Evidence:
    """One model's n test images, and what it says of them, matched with the data by their ids.

    outputs: with image ids, of some or all test images of the data; rows of training images serve to fit what
        a yardstick has to fit. Or the file of such outputs, whose stem is the model's name where `name` gives
        none; or a Python file with a function `outputs_of(images)` (see `own_model`), which is asked about
        all test images, and about the probes where `probed` is not given.
    maps: of the test images, in the order of the outputs, where these have none; or a safetensors file with
        the tensor `concept_maps` (N, L, H, W) and the JSON lists `image_ids` and `concepts` in its header.
        They cover the whole image.
    texts: a CSV file with the columns image and text.
    judgements: score (0 to 5) of each test image, in their order, and, perhaps, control: the same judge's
        score of a map of that image which is known to be wrong; or a CSV file with these columns and image.
    probed: the outputs for the probes (`ground.probes`, where there are any), by their ids.

    Raises DatasetError: ids that the data do not have, no test image, no known concept where the data have
        labels, other classes, tables without these columns or images, maps that are not those of their names.
        Raises ValueError: another number of judgements; and as `read_outputs`, `outputs_of_file`,
        `contradictions`, `ConceptOutputs.align` and, of judgements, `require_scale` do.
    """

    def __init__(
        self,
        outputs: ConceptOutputs | str | Path,
        ground: Ground,
        name: str = "",
        maps: str | Path | torch.Tensor = "",
        texts: str | Path = "",
        judgements: str | Path | pd.DataFrame = "",
        probed: ConceptOutputs | None = None,
    ):
        world, probes, source = ground.world, ground.probes, "these outputs"
        if isinstance(outputs, str | Path):
            source, name = str(outputs), name or Path(outputs).stem
            if is_python_file(source):
                outputs = outputs_of_data(source, world)
                if probes is not None and probed is None:
                    probed = outputs_of_file(source, probes.files, probes.ids)
            else:
                outputs = read_outputs(find(source) or source)
        outputs = outputs.cpu()
        rows = _rows(outputs, world, source)
        outputs = outputs.of_classes(world.class_names, source) if len(world.classes) else outputs
        train = world.train.numpy()[rows]
        named, self.notes = _attributes(outputs, world, source)  # notes: what was left out
        self.contradictions = contradictions(outputs, Path(source).name)
        self.name, self.ground = name or "model", ground
        self.rows = rows[~train]  # (n,), of the test images in the data set
        self.labels = world.labels[self.rows] if len(world.classes) else None  # (n,) int64
        # of the test images with all L concepts, and with the L' that the data set has labels of
        self.outputs = outputs.take(np.flatnonzero(~train))
        if isinstance(maps, str | Path) and str(maps):
            maps = _maps_of_file(maps, self.outputs)
        if isinstance(maps, torch.Tensor):
            self.outputs = replace(self.outputs, concept_maps=maps.cpu().float())
        self.known = self.outputs
        self.columns = [column for column, name in enumerate(named) if name]  # L', of these among the L
        self.attributes = [named[column] for column in self.columns]  # L', their names in the data set
        if self.columns:
            concepts = [outputs.concepts[column] for column in self.columns]
            self.known = self.outputs.of_concepts(concepts)
            self.truth = concept_labels(world, self.attributes)  # (N, L'), of all images
            self.present = self.truth[self.rows]  # (n, L') of 0 and 1
            fitted = world.train if world.train.any() else ~world.train
            self.prevalence = self.truth[fitted].mean(0)  # (L',), share of images that have a concept
            seen = outputs.values[train] if train.any() else self.outputs.values
            self.centre = seen[:, self.columns].mean(
                0
            )  # (L',), mean values, of training images if there are any
        # outputs of the probes in their order, L concepts; None where the model was not asked
        self.probed = probed and probed.cpu().align(probes.ids, "the outputs for the probes")
        self.texts = self._table(texts, "text")["text"].fillna("").tolist() if texts else None  # n texts
        self.judgements = None  # n scores
        if isinstance(judgements, pd.DataFrame) or judgements:
            source, given = "these judgements", judgements
            if isinstance(judgements, str | Path):
                source, given = str(judgements), self._table(judgements, "score")
            if len(given) != len(self.rows):
                raise ValueError(f"{len(given)} judgements of {len(self.rows)} test images: give one of each")
            self.judgements = given.filter(SCORES).astype(float)
            require_scale(self.judgements, source)

    def _table(self, file: str | Path, column: str) -> pd.DataFrame:
        """A table of images, a row for each of the test images in order, NaN where it has none."""
        place, ids = find(file) or file, list(map(plain, self.outputs.image_ids))
        given = read_table(place, ("image", column))
        twice = given.image[given.image.duplicated()]
        if len(twice):
            line, image = next(twice.items())
            raise DatasetError(f"{file}, line {line}: image {image!r} stands twice: keep one of its rows")
        for name in given.columns.intersection(SCORES):
            given[name] = numbers(given[name], place, 0, 5, empty_ok=True)
        n_known = int(given.image.isin(ids).sum())
        if not n_known:
            raise DatasetError(
                f"{file}: none of its images is among the outputs' test images, the first "
                f"{given.image.iloc[0]!r}; they are {ids[0]!r}, …"
            )
        found = given.set_index("image").reindex(ids)
        empty, others = int(found[column].isna().sum()), len(given) - n_known
        if empty or others:
            self.notes.append(
                f"{file}: {others} of its {len(given)} images are not among the outputs' test images, and "
                f"{empty} of these {len(ids)} have no {column}: left out."
            )
        return found

    @property
    def called(self) -> torch.Tensor:
        """(n, L') bool, what the model itself calls present."""
        return self.known.values > self.known.thresholds

    @cached_property
    def usual(self) -> torch.Tensor:
        """(K, L'), the share of a class's images that have a concept; where nobody knows, of all images."""
        usual = class_concepts(self.ground.world, self.attributes).T
        return torch.where(usual.isnan(), self.prevalence, usual)

    def partners(self, rows: np.ndarray, shifts: int = exchange.SHIFTS) -> exchange.Partners | None:
        """With whom some of the n images exchange their explanations; None without classes."""
        if self.labels is None:
            return None
        told = self.labels[rows], self.outputs.predictions[rows]
        return exchange.partners(*told, self.rows[rows], shifts, self.ground.seed)

    def exchanged(
        self,
        judge: Callable[[ConceptOutputs], exchange.Judge],
        rows: np.ndarray | None = None,
        own: exchange.Judge | None = None,
    ) -> exchange.Ladder | None:
        """The exchange among classmates of what the labelled concepts say; None without classes.

        judge: outputs of the L' concepts and n' images -> what scores their explanations.
        rows: (n',), the images that are asked about; None is all.
        own: what scores the model's own explanations, where these say more than the labelled concepts.
        """
        rows = np.arange(len(self.rows)) if rows is None else rows
        drawn = self.partners(rows)
        if drawn is None:
            return None
        own = own or judge(self.known.take(rows))
        said = [self.present, *exchange.soft_reciters(self.outputs.logits, self.usual)]
        truth, *reciters = (judge(exchange.saying(self.known, shares).take(rows)) for shares in said)
        return exchange.ladder(own, drawn, truth, reciters)

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

    def sample_pairs(self, count: int, salt: int = 0) -> np.ndarray:
        """The same, half of them drawn, with a classmate each."""
        drawn, rows = self.partners(np.arange(len(self.rows))), self.sample(count // 2, salt)
        return self.sample(count, salt) if drawn is None else np.union1d(rows, drawn.classmates[0][rows])


def _places(wanted: Sequence[str], held: Sequence[str], source: object, lack: str, remedy: str) -> list[int]:
    """Where each of the wanted names stands among those held. lack, remedy: what the error says of others."""
    found, missing = places(wanted, held)
    if missing:
        count = f"{len(missing)} of the {len(wanted)}"
        raise DatasetError(f"{source}: {count} {lack}, the first {missing[0]!r}. {remedy}")
    return found


def _rows(outputs: ConceptOutputs, world: Dataset, source: str) -> np.ndarray:
    """Row of each image of the outputs in the data set."""
    if outputs.image_ids is None:
        outputs.align(world.image_ids[:1], source)  # raises the error that says what ids are
    lack = f"images are none of {world.name}'s"
    remedy = f"Image ids are file names under its folder of images, such as {world.image_ids[0]!r}"
    rows = np.array(_places(outputs.image_ids, world.image_ids, source, lack, remedy), int)
    tested = int((~world.train.numpy()[rows]).sum())
    if tested < 2:
        raise DatasetError(
            f"{source}: {tested} of its {len(rows)} images belong to the test images of {world.name}: "
            "give the outputs of test images, for those of training images flatter a model"
        )
    return rows


def _attributes(outputs: ConceptOutputs, world: Dataset, source: str) -> tuple[list[str], list[str]]:
    """The attribute of each concept, "" where nobody labelled it, and what to say of these."""
    if world.attributes is None:
        return [""] * len(outputs.concepts), []
    found = find_attributes(outputs.concepts, world.attributes["name"])
    if all(found):
        return found, []
    unknown = outputs.concepts[found.index("")]
    hint = unknown_name("concept", unknown, world.attributes["name"].map(plain_name))
    count = f"{found.count('')} of {len(found)} concepts have no label in {world.name} ({hint})"
    if not any(found):
        raise DatasetError(f"{source}: {count}: write them as the data set does, or in plain words")
    return found, [f"{count}: left out of all that needs labels."]


def _maps_of_file(file: str | Path, outputs: ConceptOutputs) -> torch.Tensor:
    """The maps of a file, for the outputs' images and concepts."""
    try:
        with safe_open(find(file) or file, framework="pt") as content:
            maps, held = content.get_tensor("concept_maps"), names_in(content.metadata() or {})
        held = {name: held[name] for name in ("image_ids", "concepts")}
        if maps.ndim != 4 or tuple(maps.shape[:2]) != tuple(map(len, held.values())):
            counts = " and ".join(f"{len(names)} {name}" for name, names in held.items())
            raise ValueError(f"its maps are {tuple(maps.shape)}, of {counts}")
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DatasetError(
            f"{file}: no concept maps ({error}). It must be a safetensors file with the tensor concept_maps "
            "(images, concepts, height, width), and the JSON lists image_ids and concepts in its header"
        ) from error
    for axis, (kind, names) in enumerate(held.items()):
        if len(set(map(plain, names))) < len(names):
            raise DatasetError(f"{file}: a name stands twice among its {kind}: keep one of them")
        lack = f"{kind.replace('_', ' ')} of the outputs have no map"
        remedy = f"Write a map for each, under the same names: the first of the file is {names[:1]}"
        wanted = _places(getattr(outputs, kind), names, file, lack, remedy)
        maps = maps.index_select(axis, torch.tensor(wanted))
    return maps
