"""Pairs: the prompts of reference and guide (sub, section 4.1, appendix D), and exact ones of drawn birds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from worlds.aviary import aviary_files, bird_renderer, individuals
from xaihelpers import paths
from xaihelpers.datasets.attribute_names import (
    group_of,
    known_attribute,
    phrase,
    plain_value,
    with_article,
)
from xaihelpers.datasets.dataset import Dataset, DatasetError, class_name, require_annotations
from xaihelpers.datasets.images import crop_to_box
from xaihelpers.datasets.labels import class_concepts, image_attributes
from xaihelpers.datasets.sub_benchmark import write_sub
from xaihelpers.text_files import read_text

PROMPTS, FORMS = paths.PROJECT / "data" / "prompts", "sub_pairs.json"
# attribute groups of the form "shape", each with the part that the reference takes from its guide
SHAPE_PARTS = {
    "bill_shape": "a beak",
    "bill_length": "a beak",
    "tail_shape": "a tail",
    "wing_shape": "wings",
    "head_pattern": "a head",
    "shape": "a build",
    "size": "a size",
}
# individuals of a species that are tried: one in six is a plain morph, and a part may be hidden
MAX_TRIES = 50
NOT_SHOWN = "no bird of {} lacks {} and would show it: choose another bird or attribute"


class SubstituteError(ValueError):
    """A pipeline, a pair, a prompt or a reader is not as needed; the message names it and the remedy."""


def category(attribute: str) -> str:
    """Which of the paper's three forms (section 4.1) an attribute takes: "color", "shape" or "pattern"."""
    group = group_of(attribute)
    return "shape" if group in SHAPE_PARTS else group.rsplit("_", 1)[-1]


def class_shows(world: Dataset) -> torch.Tensor:
    """Attributes that at least half of the images of each class show, bool (K, 312).

    Raises DatasetError: data without attributes.
    """
    require_annotations(world)
    return class_concepts(world, world.attributes.name.tolist(), "soft").T >= 0.5


def substitutable(world: Dataset) -> torch.Tensor:
    """Attributes that a bird of each class can be given, bool (K, 312).

    Its class lacks the attribute, and at least half of the class's images show the part that would have it: a
    swimming duck has no legs to be seen.

    Raises DatasetError: data without attributes.
    """
    labels = torch.as_tensor(world.labels)
    _, certainty = image_attributes(world)
    n_visible = torch.zeros(len(world.classes), certainty.shape[1])
    n_visible.index_add_(0, labels, (certainty > 1).float())
    n_images = labels.bincount(minlength=len(n_visible))
    return ~class_shows(world) & (n_visible >= n_images[:, None] / 2)


def read_forms(forms: str = FORMS) -> dict:
    """The prompts of a file of data/prompts or a path: of a color, pattern and shape, guides and wordings.

    Raises SubstituteError: no such file, or one of another form.
    """
    try:
        found = json.loads(read_text(paths.find(forms, paths.data_home(), PROMPTS) or Path(forms)))
        _ = [found[kind][side] for kind in ("color", "pattern", "shape") for side in ("reference", "guide")]
        _ = found["guides"]
    except (ValueError, LookupError, TypeError) as error:
        raise SubstituteError(f"{forms} holds no forms of prompts as {FORMS} does: {error}") from error
    return found


def pair_prompts(reference: str, attribute: str, guide: str = "", forms: str = FORMS) -> tuple[str, str]:
    """The prompts c_R and c_G of a substitution (sub, section 4.1, appendix D).

    reference: a bird's name. attribute: `group::value` or `group--value`.
    guide: a bird that has the attribute; "" takes "bird" for colours, and for shapes and patterns the paper's
        guide (appendix B). forms: as of `read_forms`.
    Raises SubstituteError: the paper names no guide for the attribute.
    Raises DatasetError: an unknown attribute.
    """
    attribute = known_attribute(attribute)
    kind, forms = category(attribute), read_forms(forms)
    if not guide:
        guide = "bird" if kind == "color" else forms["guides"].get(attribute)
    if not guide:
        raise SubstituteError(
            f"{attribute}: a {kind} is taken from a guide bird, and the paper names none for this one: pass "
            "guide= with a bird that has it"
        )
    wording, value = forms.get("wordings", {}).get(group_of(attribute)), plain_value(attribute.split("::")[1])
    fields = {
        "reference": with_article(class_name(reference)),
        "guide": with_article(class_name(guide)),
        "attribute": phrase(attribute)
        if wording is None
        else wording.format(value=value, a_value=with_article(value)),
        "part": SHAPE_PARTS.get(group_of(attribute), ""),
    }
    return forms[kind]["reference"].format(**fields), forms[kind]["guide"].format(**fields)


class Counterfactual(NamedTuple):
    """One substitution, drawn."""

    before: bird_renderer.Picture
    after: bird_renderer.Picture
    truth: torch.Tensor  # (312,) bool, attributes of the bird after the substitution
    truth_before: torch.Tensor  # (312,) bool


def counterfactual_pair(seed: int, number: int, bird: str, attribute: str) -> Counterfactual:
    """An individual that lacks an attribute and the same one with it, where the part that has it is visible.

    seed, number: of the bird; it is the same individual for every attribute that it lacks and whose part is
        visible. bird: a species of the aviary. attribute: `group::value`.
    Raises SubstituteError: a species all of whose birds have the attribute. Raises DatasetError: an unknown
        attribute. Raises ValueError: an unknown species.
    """
    attribute = known_attribute(attribute)
    column = individuals.ATTRIBUTES.index(attribute)
    for attempt in range(MAX_TRIES):
        individual = individuals.individual(seed, number + 1_000_000 * attempt, bird)
        truth_before = individuals.true_attributes(individual)
        if truth_before[column]:
            continue
        changed = individuals.substitute(individual, attribute)
        after = bird_renderer.draw(changed)
        if aviary_files.is_visible(after)[column]:
            truth = [torch.from_numpy(of) for of in (individuals.true_attributes(changed), truth_before)]
            return Counterfactual(bird_renderer.draw(individual), after, *truth)
    raise SubstituteError(NOT_SHOWN.format(bird, attribute))


def portrait_of(picture: bird_renderer.Picture, size: int) -> Image.Image:
    """The bird cut out of its picture, `size` x `size` pixels."""
    cut = crop_to_box(Image.fromarray(picture.image), picture.box)
    return cut.resize((size, size), Image.Resampling.LANCZOS)


def write_exact(
    folder: str | Path, world: Dataset, attributes: Sequence[str], n: int, seed: int = 0
) -> list[tuple[Image.Image, Image.Image]]:
    """Write n exact substitutions as a benchmark, of `write_sub`, with before and removed.

    Each is a species and one of the attributes (group::value; one that stands there twice is drawn twice as
    often) that it lacks and could show, drawn at random.
    What is gone is read off the renderer, in the group that was changed.

    Returns the n birds cut out of their pictures, 64 x 64 pixels, after and before.
    Raises DatasetError for a world that is not drawn or n below 1, and as `counterfactual_pair` does.
    """
    if not world.drawn or n < 1:
        raise DatasetError(
            f"{n} exact substitutions of {world.name}: 1 or more can be drawn, of a drawn world; else name a "
            "benchmark of substituted birds"
        )
    names = world.attributes["name"].tolist()
    takes = substitutable(world) & (class_concepts(world, names, "hard").T < 0.5)
    takes = takes[:, [names.index(name) for name in attributes]].numpy()
    chosen = np.random.default_rng([seed, 53]).choice(np.argwhere(takes), n)
    birds = [world.class_names[species] for species, _ in chosen]
    given = [attributes[column] for _, column in chosen]
    pairs, removed = [], []
    for row, (bird, attribute) in enumerate(zip(birds, given, strict=True)):
        pair = counterfactual_pair(9000 + seed, row, bird, attribute)
        lost = [names[column] for column in (pair.truth_before & ~pair.truth).nonzero()[:, 0]]
        removed.append([name for name in lost if group_of(name) == group_of(attribute)])
        pairs.append(pair)
    after = [Image.fromarray(pair.after.image) for pair in pairs]
    before = [Image.fromarray(pair.before.image) for pair in pairs]
    known = list(dict.fromkeys(attributes))
    write_sub(folder, after, given, birds, known, world.class_names, before=before, removed=removed)
    return [(portrait_of(pair.after, 64), portrait_of(pair.before, 64)) for pair in pairs]
