"""The prompts of a tied pair, reference and guide, in the three forms of sub (section 4.1, appendix D)."""

import json

import torch

from xaihelpers import paths
from xaihelpers.datasets.attribute_names import known_attribute, normalise_attribute, phrase, with_article
from xaihelpers.datasets.dataset import Dataset, class_name, require_annotations
from xaihelpers.datasets.labels import class_concepts, image_attributes


class SubstituteError(ValueError):
    """A pipeline, a pair, a prompt or a reader is not as needed; the message names it and the remedy."""


FORMS = paths.PROJECT / "data" / "prompts" / "sub_pairs.json"
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


def group_of(attribute: str) -> str:
    """The attribute group: crown_color of has_crown_color::red."""
    return normalise_attribute(attribute).removeprefix("has_").split("::")[0]


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


def pair_prompts(reference: str, attribute: str, guide: str = "") -> tuple[str, str]:
    """The prompts c_R and c_G of a substitution (sub, section 4.1, appendix D), as `FORMS` has them.

    reference: a bird's name. attribute: `group::value` or `group--value`.
    guide: a bird that has the attribute; "" takes "bird" for colours, and for shapes and patterns the paper's
        guide (appendix B).
    Raises SubstituteError: the paper names no guide for the attribute.
    Raises DatasetError: an unknown attribute.
    """
    attribute = known_attribute(attribute)
    kind, forms = category(attribute), json.loads(FORMS.read_text())
    if not guide:
        guide = "bird" if kind == "color" else forms["guides"].get(attribute)
    if not guide:
        raise SubstituteError(
            f"{attribute}: a {kind} is taken from a guide bird, and the paper names none for this one: pass "
            "guide= with a bird that has it"
        )
    fields = {
        "reference": with_article(class_name(reference)),
        "guide": with_article(class_name(guide)),
        "attribute": phrase(attribute),
        "part": SHAPE_PARTS.get(group_of(attribute), ""),
    }
    return forms[kind]["reference"].format(**fields), forms[kind]["guide"].format(**fields)
