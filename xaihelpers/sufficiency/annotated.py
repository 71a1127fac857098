"""What a data set's own attribute labels say, put as an annotator would put it: the ceiling of slow mode, and what the shipped annotator learnt from."""
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import birds
from .chains import STAGES

if TYPE_CHECKING:
    from ..objects import Objects

UNKNOWN = "not annotated"
_DULL = {"black", "white", "grey", "brown", "buff"}
_BODY = ("crown", "throat", "breast", "belly", "back", "wing", "tail", "bill")
_PLURAL = {"wing": "wings", "eye": "eyes", "leg": "legs"}
_PLACES = {"branch": "a branch", "trunk": "a tree trunk", "water": "open water", "air": "in the air before a flower", "rock": "a rock", "shallows": "shallow water", "ground": "the ground",
           "grass": "a meadow", "sand": "a beach", "sky": "the sky", "street": "a street", "room": "a room"}


def annotated_chain(attributes: Iterable[str], seat: str = "") -> dict[str, str]:
    """The five stages (paper fse, appendix B) of something that shows these attributes, `group::value` as in CUB-200-2011 or in the everyday world.

    seat: where it is, if that is known ("branch", "water", …); CUB annotates no background. A stage of which nothing is annotated reads "not annotated".
    """
    of: dict[str, list[str]] = {}
    for attribute in attributes:
        group, value = attribute.removeprefix("has_").split("::")
        of.setdefault(group, []).append(birds.plain_value(value))
    stages = _thing(of) if "superclass" in of or "setting" in of else _bird(of)
    place = _PLACES.get(seat or "".join(of.get("setting", [])[:1]), UNKNOWN)
    return dict(zip(STAGES, (place, *(stage or UNKNOWN for stage in stages))))


def label_chains(data: "Objects", rows: Iterable[int]) -> dict[int, dict[str, str]] | None:
    """The chain of each of these images by its own attribute labels, those that can be seen, or by its class's where images have none; None for data sets without attributes.

    data: of `objects.load_objects`; rows: of its `images`.
    """
    if not (data.root / "images.txt").is_file():
        return None
    own = (data.root / "attributes" / "image_attribute_labels.txt").is_file()
    world = birds.load_birds(data.root, attributes="image" if own else "class")
    present, certainty = birds.image_attributes(world)
    names = world.attributes["name"].to_numpy()
    return {int(row): annotated_chain(names[(present[row] & (certainty[row] > 1)).numpy()]) for row in rows}


def _both(values: list[str]) -> str:
    return " and ".join(values[:2])


def _bird(of):
    shape = of.get("shape", [""])[0]
    colors = {part: of.get({"tail": "upper_tail_color"}.get(part, f"{part}_color"), []) for part in _BODY}
    patterns = {part: [p for p in of.get(f"{part}_pattern", []) if p != "solid"] for part in _BODY}
    striking = sorted((part for part in _BODY if colors[part]), key=lambda part: (set(colors[part]) <= _DULL, not patterns[part]))
    if set(of.get("bill_length", [])) == {"longer than head"}:
        striking = ["bill", *(part for part in striking if part != "bill")]
    detailed = []
    for part in (*_BODY[:6], "bill"):
        words = [_both(colors[part])] if colors[part] else []
        if part == "bill":
            words += [{"longer than head": "long", "shorter than head": "short"}.get(v, "middling") for v in of.get("bill_length", [])[:1]] + of.get("bill_shape", [])[:1]
        words = [*patterns[part][:1], *words]
        if words:
            detailed.append(f"{' '.join(words)} {_PLURAL.get(part, part)}")
    extra = [f"{v} size" for v in of.get("size", [])[:1]] + [f"{v} head" for v in of.get("head_pattern", [])[:1]] + [f"{v.removesuffix(' tail')} tail" for v in of.get("tail_shape", [])[:1]]
    extra += [f"{_both(of[f'{part}_color'])} {_PLURAL[part]}" for part in ("eye", "leg") if of.get(f"{part}_color")]
    return f"{shape} bird" if shape else "", ", ".join(_PLURAL.get(part, part) for part in striking[:4]), ", ".join(detailed), ", ".join(extra)


def _thing(of):
    detailed = [f"mainly {v}" for v in of.get("primary_color", [])[:1]] + [f"details in {v}" for v in of.get("secondary_color", [])[:1]] + [f"{v} surface" for v in of.get("pattern", [])[:1]]
    return _both(of.get("superclass", [])), ", ".join(of.get("part", [])[:6]), ", ".join(detailed), ", ".join(f"made of {v}" for v in of.get("material", [])[:1])
