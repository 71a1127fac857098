"""Names of attributes, parts and concepts: normalised, checked, and mapped to body parts.

The concept -> part map is that of tables 4 and 5 of the alignment paper (89 of the 112 concepts lie on 12 parts),
carried over to all 312 attributes by attribute group. The 112 concepts are an index list, because the rule that
once chose them does not choose them again from the annotations.
"""
import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

# The parts of CUB that a group of attributes is looked for on; a group of the whole bird has none.
GROUP_PARTS: dict[str, tuple[str, ...]] = {
    "has_back_color": ("back",), "has_back_pattern": ("back",),
    "has_bill_shape": ("beak",), "has_bill_length": ("beak",), "has_bill_color": ("beak",),
    "has_belly_color": ("belly",), "has_belly_pattern": ("belly",),
    "has_breast_color": ("breast",), "has_breast_pattern": ("breast",),
    "has_crown_color": ("crown",),
    "has_forehead_color": ("forehead",), "has_head_pattern": ("forehead",),  # "Head" in the paper
    "has_eye_color": ("left eye", "right eye"),
    "has_leg_color": ("left leg", "right leg"),
    "has_wing_color": ("left wing", "right wing"), "has_wing_pattern": ("left wing", "right wing"),
    "has_wing_shape": ("left wing", "right wing"),
    "has_nape_color": ("nape",),
    "has_tail_shape": ("tail",), "has_tail_pattern": ("tail",),
    "has_upper_tail_color": ("tail",), "has_under_tail_color": ("tail",),
    "has_throat_color": ("throat",),
    "has_upperparts_color": (), "has_underparts_color": (), "has_primary_color": (), "has_size": (), "has_shape": (),
}


class BirdsError(ValueError):
    """Bird data that are missing, broken or misnamed; the message says where and what to do."""


def unknown_name(kind: str, given, known: Iterable[str]) -> BirdsError:
    """The error for a `given` name that is not among `known`, with the nearest one suggested."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), by_lower, n=1, cutoff=0.0)
    return BirdsError(f"unknown {kind} {given!r}" + (f"; did you mean {by_lower[near[0]]!r}?" if near else ""))


def normalise_attribute(name: str) -> str:
    """`group::value` for an attribute's `name`, written so or as `group--value` (as the published SUB has it)."""
    name = name.strip()
    return name if "::" in name else name.replace("--", "::", 1)


def plain_value(value: str) -> str:
    """An attribute's value in plain words, without what stands in brackets: large_(16_-_32_in) -> "large"."""
    return re.sub(r"_\(.*\)", "", value).replace("_", " ")


def plain_name(attribute: str) -> str:
    """An attribute's name as people say it: has_breast_color::yellow -> "yellow breast", has_bill_shape::cone -> "cone bill shape"."""
    group, value = normalise_attribute(attribute).removeprefix("has_").split("::")
    value, group = plain_value(value), group.replace("_", " ").removesuffix(" color")
    value = value.removesuffix(f" {group.split()[0]}").removesuffix(f"-{group.split()[0]}s")
    return f"{value} {group}"


def class_name(name: str) -> str:
    """A class's name in plain words: "018.Spotted_Catbird", "Spotted_Catbird" -> "Spotted Catbird"."""
    return re.sub(r"^\d+\.", "", name.strip()).replace("_", " ")


def with_article(name: str) -> str:
    """A thing's or a bird's name with its article: "a Painted Bunting", "an Anna Hummingbird", "a European Goldfinch"."""
    return f"{'an' if re.match('(?!eu)[aeiou]', name.lower()) else 'a'} {name}"


def phrase(attribute: str) -> str:
    """An attribute as one would say it of a bird: has_breast_color::yellow -> "a yellow breast", has_bill_length::longer_than_head -> "a bill longer than its head"."""
    group, value = normalise_attribute(attribute).removeprefix("has_").split("::")
    value = plain_value(value).removesuffix(" tail").removesuffix("-wings")
    said = {"bill_shape": f"{value} bill", "bill_length": f"bill {value.replace('head', 'its head')}", "size": f"{value} body", "shape": f"{value} shape",
            "primary_color": f"mostly {value} plumage", "upperparts_color": f"{value} upperparts", "underparts_color": f"{value} underparts",
            "upper_tail_color": f"tail {value} above", "under_tail_color": f"tail {value} below", "wing_shape": f"{value} wings",
            "wing_color": f"{value} wings", "wing_pattern": f"{value} wings", "eye_color": f"{value} eyes", "leg_color": f"{value} legs"}.get(group)
    said = said or f"{value} {group.removesuffix('_color').removesuffix('_pattern').removesuffix('_shape').replace('_', ' ')}"
    if said.endswith(("wings", "eyes", "legs", "plumage", "parts")):
        return said
    return with_article(said)


def parts_of(attribute: str) -> tuple[str, ...]:
    """The CUB parts that `attribute` (a name or a group) is looked for on; empty for one of the whole bird.

    Raises BirdsError, with the nearest group, where the group is none of CUB's 28.
    """
    group = normalise_attribute(attribute).split("::")[0]
    if group not in GROUP_PARTS:
        raise unknown_name("attribute group", group, GROUP_PARTS)
    return GROUP_PARTS[group]


def cbm_concepts() -> pd.DataFrame:
    """The 112 attributes that CBMs use as concepts on CUB, numbered 1-112 in the order of the alignment paper.

    Columns: attribute_id (1-based among the 312), name, group, value, parts (tuple of CUB part names, may be empty).
    """
    table = pd.read_csv(Path(__file__).with_name("cub_concepts.csv"), index_col="concept")
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    table["parts"] = [GROUP_PARTS[group] for group in table["group"]]
    return table


def find_id(kind: str, given, names: pd.Series) -> int:
    """The index value of `names` whose name is `given`; an integer is taken as that index value itself.

    Raises BirdsError: an unknown name (with the nearest one), an id out of range.
    """
    if not isinstance(given, str):
        if int(given) not in names.index:
            raise BirdsError(f"unknown {kind} id {given}: ids run from {names.index.min()} to {names.index.max()}")
        return int(given)
    hit = names.index[names == given]
    if len(hit) == 0:
        raise unknown_name(kind, given, names)
    return int(hit[0])


def attribute_ids(attributes: pd.DataFrame, concepts: Sequence[str | int] | pd.DataFrame) -> list[int]:
    """The 1-based attribute ids of `concepts`: names, ids, or a table with the columns `attribute_id` and `name` (cbm_concepts()), whose names must be those of the data set."""
    if isinstance(concepts, str):
        raise BirdsError(f"concepts must be a list of attribute names or ids, not the one text {concepts!r}")
    if isinstance(concepts, pd.DataFrame):
        own = attributes["name"].reindex(concepts["attribute_id"])
        if (other := own.to_numpy() != concepts["name"].to_numpy()).any():
            raise BirdsError(f"these data have attributes of their own ({len(attributes)}, first {attributes['name'].iloc[0]!r}), not CUB's 312: {other.sum()} of the {len(concepts)} concepts asked for, "
                             f"first {concepts['name'].iloc[other.argmax()]!r}, are not among them")
        concepts = concepts["attribute_id"].tolist()
    return [find_id("attribute", normalise_attribute(c) if isinstance(c, str) else c, attributes["name"])
            for c in concepts]
