"""What a data set tells, whatever the model: labels, classes, parts, a reader, a scorer, and probes.

Three kinds of truth. *Drawn*: a renderer knows every attribute, part and counterfactual. *Labelled*: people
labelled images or classes. *Unlabelled*: there are images and nothing else. What a kind knows, the kinds
before it know as well.
"""

import logging
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from xaihelpers import fastslow
from xaihelpers.datasets import (
    Dataset,
    attributes_by_words,
    class_concepts,
    concept_labels,
    image_attributes,
    load,
)
from xaihelpers.fastslow import ideal_reader
from xaihelpers.models.clip import Clip, load_clip
from xaihelpers.paths import PROJECT
from xaihelpers.scorecard.probes import Probes, draw_probes
from xaihelpers.scorecard.reading import DRAWN, LABELLED, UNLABELLED

log = logging.getLogger(__name__)
SUB_FILE = PROJECT / "data" / "prompts" / "sub_attributes.txt"  # appendix C of the paper sub


@dataclass(eq=False)
class Ground:
    """A data set and what can be known of its images; made by `ground`."""

    world: Dataset
    labels: str  # "image" or "class": whose concept labels count
    scorer: Clip | None
    n_pairs: int
    n_covered: int
    seed: int
    kept: dict = field(default_factory=dict)  # what several models share, by what it depends on

    @property
    def kind(self) -> str:
        """One of `reading.TRUTHS`."""
        if self.world.drawn and self.world.attributes is not None:
            return DRAWN
        return LABELLED if self.has_classes or self.world.attributes is not None else UNLABELLED

    @property
    def has_classes(self) -> bool:
        """Whether the images have classes."""
        return len(self.world.classes) > 0

    @cached_property
    def attribute_of(self) -> dict[str, str]:
        """What a concept may be called -> the data set's attribute; empty without attributes."""
        return {} if self.world.attributes is None else attributes_by_words(self.world.attributes["name"])

    def present(self, attributes: list[str], rows: np.ndarray) -> torch.Tensor:
        """Labels (n, L) of 0 and 1 of images by their rows."""
        key = ("present", tuple(attributes))
        if key not in self.kept:
            self.kept[key] = concept_labels(self.world, attributes, level=self.labels)
        return self.kept[key][rows]

    def class_truth(self, attributes: list[str]) -> torch.Tensor:
        """V (L, K) in [0, 1]."""
        key = ("classes", tuple(attributes))
        if key not in self.kept:
            self.kept[key] = class_concepts(self.world, attributes)
        return self.kept[key]

    @cached_property
    def training_rows(self) -> np.ndarray:
        """Rows of the training images."""
        return np.flatnonzero(self.world.train.numpy())

    @cached_property
    def sub_attributes(self) -> list[str]:
        """The attributes of the benchmark SUB."""
        return SUB_FILE.read_text().split()

    @cached_property
    def reader(self):
        """The ideal reader of all five stages, from true chains of training images; None without any."""
        rows = self.training_rows
        if self.labels == "class" and self.world.attribute_level == "class":
            chains, labels = ideal_reader.drawn_chains(self.world, 20, self.seed)
        elif len(rows):
            chains = list(fastslow.chains_from_labels(self.world, rows).values())
            labels = self.world.labels.numpy()[rows]
        else:
            return None
        return ideal_reader.fit_reader(chains, labels, 5)

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The four look-alikes of each class by its attributes, (K, 4)."""
        return fastslow.class_neighbours(self.world, source="attributes").neighbours

    @cached_property
    def visible(self) -> np.ndarray:
        """What each image shows, (N, A) bool, for chains."""
        seen, certainty = image_attributes(self.world)
        return (seen & (certainty > 1)).numpy()

    @cached_property
    def probes(self) -> Probes | None:
        """Pictures whose truth is exact; None where nothing is drawn, and where none are wanted."""
        if self.kind != DRAWN or not self.n_pairs + self.n_covered:
            return None
        return draw_probes(self.world, self.n_pairs, self.n_covered, self.seed)


def ground(
    data: str,
    labels: str = "auto",
    scorer: str = "",
    scorer_weights: str = "",
    n_pairs: int = 120,
    n_covered: int = 24,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Ground:
    """What a data set tells.

    data: a name or path as `datasets.load` takes it.
    labels: whose concept labels models are judged by, "image" or "class"; "auto" takes the images' own where
        they are recorded.
    scorer, scorer_weights: a CLIP as `models.clip.load_clip` takes it, for scores of texts; empty for none,
        which is right for images that the shipped one has not learnt.
    n_pairs, n_covered: probes on drawn birds, as `draw_probes` takes them; 0 for none.
    seed: of probes, cases and folds.
    Raises DatasetError, ModelError and ValueError as `datasets.load` and `load_clip` do.
    """
    world = load(data, attributes=labels)
    if labels == "auto":
        labels = world.attribute_level or "image"
    clip = load_clip(scorer, scorer_weights, True, device) if scorer else None
    return Ground(world, labels, clip, n_pairs, n_covered, seed)
