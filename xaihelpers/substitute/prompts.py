"""What a pair is asked for: the prompts of the reference and of its guide, in the paper's three forms."""
import json
from pathlib import Path

import torch

from .. import paths
from ..aviary import ATTRIBUTES
from ..birds import BirdsError, class_concepts, class_label, class_name, image_attributes, normalise_attribute, phrase, with_article
from ..birds.names import unknown_name


class SubstituteError(ValueError):
    """A pipeline, a pair, an attribute or a SUB folder is not as needed; the message names it and the remedy."""


FORMS = paths.PROJECT / "data" / "prompts" / "sub_pairs.json"
SHAPED = {"bill_shape": "a beak", "bill_length": "a beak", "tail_shape": "a tail", "wing_shape": "wings", "head_pattern": "a head", "shape": "a build", "size": "a size"}


def group_of(attribute: str) -> str:
    """The attribute group: crown_color of has_crown_color::red."""
    return normalise_attribute(attribute).removeprefix("has_").split("::")[0]


def category(attribute: str) -> str:
    """"color", "shape" or "pattern": which of the paper's three forms (section 4.1) an attribute takes."""
    group = group_of(attribute)
    return "shape" if group in SHAPED else group.rsplit("_", 1)[-1]


def known_attribute(name: str) -> str:
    """`group::value` of one of CUB's 312 attributes; raises SubstituteError with the nearest for any other."""
    if (attribute := normalise_attribute(name)) in ATTRIBUTES:
        return attribute
    raise SubstituteError(f"{unknown_name('attribute', name, ATTRIBUTES)} It is none of CUB's 312")


def class_has(world) -> torch.Tensor:
    """What half or more of the birds of each class of a data set have, bool (K, 312): a pair takes a bird that lacks its attribute and a guide that has it."""
    return class_concepts(world, world.attributes.name.tolist(), "soft").T >= 0.5


def can_take(world) -> torch.Tensor:
    """What a bird of each class can be given, bool (K, 312): its class lacks it, and half or more of its images show the part where it would be (a swimming duck has no legs to be seen)."""
    labels, (_, certainty) = torch.as_tensor(world.labels), image_attributes(world)
    shown = torch.zeros(len(world.classes), certainty.shape[1]).index_add_(0, labels, (certainty > 1).float())
    return ~class_has(world) & (shown >= labels.bincount(minlength=len(shown))[:, None] / 2)


def check_pair(world, reference: str, attribute: str, guide: str = "") -> None:
    """Raises SubstituteError, with the nearest name or the classes to choose from, unless `reference` is a class of the data set `world` that lacks the attribute and `guide`, if given, one that has it."""
    names, column = [class_name(name) for name in world.classes.name], world.attributes.name.tolist().index(known_attribute(attribute))
    has = class_has(world)[:, column]  # (K,)
    try:
        if has[class_label(world, reference)]:
            raise SubstituteError(f"{reference} has {phrase(attribute)} already: choose another attribute or bird")
        if guide and guide != "bird" and not has[class_label(world, guide)]:
            having = [name for name, of in zip(names, has.tolist()) if of]
            raise SubstituteError(f"the guide {guide} has not {phrase(attribute)}: choose one that has" + (f", as {', '.join(having[:4])}" if having else f"; in {world.root.name} no bird has"))
    except BirdsError as error:
        raise SubstituteError(f"{error} {world.root.name} has {len(names)} birds") from error


def pair_prompts(reference: str, attribute: str, guide: str = "", forms: str | Path = FORMS) -> tuple[str, str]:
    """The prompts c_R and c_G of a substitution (sub, section 4.1, appendix D).

    reference: a bird's name. attribute: `group::value` or `group--value`. guide: a bird that has the attribute; "" takes "bird" for colours, and for shapes and patterns the paper's
    guide (appendix B). forms: a JSON file like data/prompts/sub_pairs.json. Raises SubstituteError: an unknown attribute, no guide is known for it, the file has no such form.
    """
    attribute, kind = known_attribute(attribute), category(attribute)
    try:
        known = json.loads(Path(forms).read_text(encoding="utf-8"))
        form = known[kind]
        guide = guide or ("bird" if kind == "color" else known["guides"].get(attribute, ""))
        if not guide:
            raise SubstituteError(f"{attribute}: a {kind} is taken from a guide bird, and the paper names none for this one: pass guide= with a bird that has it")
        fields = {"reference": with_article(class_name(reference)), "guide": with_article(class_name(guide)), "attribute": phrase(attribute), "part": SHAPED.get(group_of(attribute), "")}
        return form["reference"].format(**fields), form["guide"].format(**fields)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SubstituteError):
            raise
        raise SubstituteError(f"{forms}: no file of prompt forms ({type(error).__name__}: {error}); it needs color, shape and pattern, each with reference and guide, and guides") from error
