"""Chains from a data set's own attribute labels, in the words of an annotator.

They are the upper bound of slow mode, and the form in which the shipped annotator writes.
"""

from collections.abc import Iterable, Mapping

from xaihelpers.datasets import Dataset, image_attributes, plain_value
from xaihelpers.fastslow.chains import STAGES

UNKNOWN = "not annotated"
PLAIN_COLORS = {"black", "white", "grey", "brown", "buff"}  # the others strike the eye first
BODY_PARTS = ("crown", "throat", "breast", "belly", "back", "wing", "tail", "bill")
DETAILED_PARTS = (*BODY_PARTS[:6], "bill")
PLURALS = {"wing": "wings"}
MIDDLING = "about the same as head"
BILL_LENGTHS = {"longer than head": "long", "shorter than head": "short", MIDDLING: "middling"}
PLACES = {
    "branch": "a branch",
    "trunk": "a tree trunk",
    "water": "open water",
    "air": "in the air before a flower",
    "rock": "a rock",
    "shallows": "shallow water",
    "ground": "the ground",
    "grass": "a meadow",
    "sand": "a beach",
    "sky": "the sky",
    "street": "a street",
    "room": "a room",
}


def chain_from_attributes(attributes: Iterable[str], seat: str = "", things: bool = False) -> dict[str, str]:
    """The five stages (paper fse, appendix B) of something that shows these attributes.

    attributes: names `group::value`, as in CUB-200-2011 or in the everyday world.
    seat: where it is ("branch", "water", …), if that is known; CUB annotates no background.
    things: whether it is no bird, which its superclass or its setting tells, too.
    """
    values: dict[str, list[str]] = {}  # by group
    for attribute in attributes:
        group, value = attribute.removeprefix("has_").split("::")
        values.setdefault(group, []).append(plain_value(value))
    is_thing = things or "superclass" in values or "setting" in values
    stages = _thing_stages(values) if is_thing else _bird_stages(values)
    place = PLACES.get(seat or "".join(values.get("setting", [])[:1]), "")
    texts = [text or UNKNOWN for text in (place, *stages)]
    return dict(zip(STAGES, texts, strict=True))


def chains_from_labels(
    data: Dataset, rows: Iterable[int], form_of: Mapping[int, Mapping[str, str] | None] | None = None
) -> dict[int, dict[str, str]] | None:
    """The chain of each of these images by its own attribute labels; None for a data set without attributes.

    Only what can be seen counts. Where images have no labels of their own, those of their class are taken.

    form_of: an annotator's chains by row. Where nothing is annotated, as in the background, stands what it
        says of the next image of another class: the form does not tell who wrote a chain, nor that text the
        class.
    """
    if data.attributes is None:
        return None
    present, certainty = image_attributes(data)
    visible = (present & (certainty > 1)).numpy()  # (N, A)
    names, rows, found = data.attributes["name"].to_numpy(), [*map(int, rows)], {}
    for n, row in enumerate(rows):
        true, others = chain_from_attributes(names[visible[row]]), {}
        if form_of:
            after = rows[n:] + rows[:n]
            other = next((one for one in after if data.labels[one] != data.labels[row]), row)
            others = form_of.get(other) or {}
        found[row] = true | {
            stage: others.get(stage, text) for stage, text in true.items() if text == UNKNOWN
        }
    return found


def _bird_stages(values: dict[str, list[str]]) -> tuple[str, str, str, str]:
    """Superclass, salient, detailed and auxiliary features of a bird, "" where nothing is annotated."""
    colors = {part: values.get(f"{part}_color", []) for part in BODY_PARTS}
    colors["tail"] = values.get("upper_tail_color", [])
    patterns = {}
    for part in BODY_PARTS:
        patterns[part] = [pattern for pattern in values.get(f"{part}_pattern", []) if pattern != "solid"]

    def plainness(part: str) -> tuple[bool, bool]:
        return set(colors[part]) <= PLAIN_COLORS, not patterns[part]

    salient = sorted((part for part in BODY_PARTS if colors[part]), key=plainness)
    if set(values.get("bill_length", [])) == {"longer than head"}:
        salient = ["bill", *(part for part in salient if part != "bill")]
    detailed = []
    for part in DETAILED_PARTS:
        words = patterns[part][:1]
        if colors[part]:
            words.append(" and ".join(colors[part][:2]))
        if part == "bill":
            words += [BILL_LENGTHS[value] for value in values.get("bill_length", [])[:1]]
            words += values.get("bill_shape", [])[:1]
        if words:
            detailed.append(" ".join([*words, PLURALS.get(part, part)]))
    auxiliary = [f"{value} size" for value in values.get("size", [])[:1]]
    auxiliary += [f"{value} head" for value in values.get("head_pattern", [])[:1]]
    auxiliary += [f"{value.removesuffix(' tail')} tail" for value in values.get("tail_shape", [])[:1]]
    for part in ("eye", "leg"):
        if values.get(f"{part}_color"):
            auxiliary.append(f"{' and '.join(values[f'{part}_color'][:2])} {part}s")
    shape = values.get("shape", [""])[0]
    superclass = f"{shape} bird" if shape else ""
    salient = [PLURALS.get(part, part) for part in salient[:4]]
    return superclass, ", ".join(salient), ", ".join(detailed), ", ".join(auxiliary)


def _thing_stages(values: dict[str, list[str]]) -> tuple[str, str, str, str]:
    """Superclass, salient, detailed and auxiliary features of a thing, "" where nothing is annotated."""
    detailed = [f"mainly {value}" for value in values.get("primary_color", [])[:1]]
    detailed += [f"details in {value}" for value in values.get("secondary_color", [])[:1]]
    detailed += [f"{value} surface" for value in values.get("pattern", [])[:1]]
    auxiliary = [f"made of {value}" for value in values.get("material", [])[:1]]
    superclass = " and ".join(values.get("superclass", [])[:2])
    return superclass, ", ".join(values.get("part", [])[:6]), ", ".join(detailed), ", ".join(auxiliary)
