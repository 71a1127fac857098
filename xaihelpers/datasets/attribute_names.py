"""Names of attributes, parts, classes and concepts: normalised, checked, and mapped to body parts.

The table worlds/aviary/cub_attributes.csv holds CUB's 312 attributes; the parts that each is looked for on,
as tables 4 and 5 of the alignment paper have it for 89 of the 112 concepts, carried over to all by attribute
group; and the numbers of the 112, a list because the rule that once chose them does not choose them again
from the annotations.
"""

import difflib
import re
from collections.abc import Iterable, Sequence

import pandas as pd

from worlds.aviary.individuals import ATTRIBUTES, CUB
from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.text_files import plain, words

# The parts of CUB that a group of attributes is looked for on; a group of the whole bird has none.
GROUP_PARTS: dict[str, tuple[str, ...]] = {
    name.split("::")[0]: tuple(filter(None, parts.split("/")))
    for name, parts in zip(CUB["name"], CUB["parts"], strict=True)
}

# beginnings that are written with a vowel and spoken with a consonant: European, one-eyed, union, used
VOWEL_LETTER_CONSONANT_SOUND = re.compile(
    r"eu|ewe|one\b|once\b|uni(?![dmn])|unanim|ura[ln]|us[aeiu]|ut[aio]|uten|ubiq|ugan|uku", re.IGNORECASE
)
SILENT_H = re.compile(r"hour|honou?r|honest|heir", re.IGNORECASE)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> DatasetError:
    """The error for a `name` that is not among `known`, with the nearest one suggested."""
    by_lower = {known_name.lower(): known_name for known_name in known}
    nearest = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.0)
    advice = f"; did you mean {by_lower[nearest[0]]!r}?" if nearest else ""
    return DatasetError(f"unknown {kind} {name!r}{advice}")


def normalise_attribute(name: str) -> str:
    """`group::value` of an attribute's name, which may be written `group--value` (as in SUB)."""
    name = plain(name)
    return name if "::" in name else name.replace("--", "::", 1)


def group_of(attribute: str) -> str:
    """The attribute group: crown_color of has_crown_color::red."""
    return normalise_attribute(attribute).removeprefix("has_").split("::")[0]


def known_attribute(name: str) -> str:
    """`group::value` of one of CUB's 312 attributes. Raises DatasetError, with the nearest, for any other."""
    attribute = normalise_attribute(name)
    if attribute not in ATTRIBUTES:
        raise DatasetError(f"{unknown_name('attribute', name, ATTRIBUTES)} It is none of CUB's 312")
    return attribute


def plain_value(value: str) -> str:
    """An attribute's value in plain words, without what is in brackets: large_(16_-_32_in) -> "large"."""
    return re.sub(r"_\(.*\)", "", value).replace("_", " ")


def plain_name(attribute: str) -> str:
    """An attribute's name in plain words: has_breast_color::yellow -> "yellow breast".

    Other groups keep their own name: has_bill_shape::cone -> "cone bill shape".
    """
    group, value = normalise_attribute(attribute).removeprefix("has_").split("::")
    group = group.replace("_", " ").removesuffix(" color")
    part = group.split()[0]
    value = plain_value(value).removesuffix(f" {part}").removesuffix(f"-{part}s")
    return f"{value} {group}"


def with_article(name: str) -> str:
    """A thing's or a bird's name with its article, chosen by its first sound: "a European Goldfinch"."""
    spoken_as_consonant = VOWEL_LETTER_CONSONANT_SOUND.match(name)
    starts_with_vowel = name[:1].lower() in tuple("aeiou") and not spoken_as_consonant
    return f"{'an' if starts_with_vowel or SILENT_H.match(name) else 'a'} {name}"


def phrase(attribute: str) -> str:
    """An attribute as a noun phrase: has_breast_color::yellow -> "a yellow breast".

    has_bill_length::longer_than_head -> "a bill longer than its head", has_wing_color::blue -> "blue wings".
    """
    group, value = normalise_attribute(attribute).removeprefix("has_").split("::")
    value = plain_value(value).removesuffix(" tail").removesuffix("-wings")
    irregular = {
        "bill_shape": f"{value} bill",
        "bill_length": f"bill {value.replace('head', 'its head')}",
        "size": f"{value} body",
        "shape": f"{value} shape",
        "primary_color": f"mostly {value} plumage",
        "upperparts_color": f"{value} upperparts",
        "underparts_color": f"{value} underparts",
        "upper_tail_color": f"tail {value} above",
        "under_tail_color": f"tail {value} below",
        "wing_shape": f"{value} wings",
        "wing_color": f"{value} wings",
        "wing_pattern": f"{value} wings",
        "eye_color": f"{value} eyes",
        "leg_color": f"{value} legs",
    }
    part = group.removesuffix("_color").removesuffix("_pattern").removesuffix("_shape").replace("_", " ")
    noun = irregular.get(group, f"{value} {part}")
    if noun.endswith(("wings", "eyes", "legs", "plumage", "parts")):
        return noun
    return with_article(noun)


def find_attributes(names: Iterable[str], attributes: Iterable[str]) -> list[str]:
    """The attribute that each name stands for, "" where it stands for none, or for several.

    A name is an attribute's own (as SUB writes it, too), in plain words or as a phrase; case, underscores and
    blanks make no difference.
    """
    called: dict[str, set[str]] = {}
    for attribute in attributes:
        for name in (attribute, plain_name(attribute), phrase(attribute)):
            called.setdefault(words(name), set()).add(attribute)
    found = [called.get(words(normalise_attribute(name)), set()) for name in names]
    return [min(meant) if len(meant) == 1 else "" for meant in found]


def parts_of(attribute: str, parts: Sequence[str] | None = None) -> tuple[str, ...]:
    """The parts that an attribute (a name or a group) is looked for on; empty for one of the whole object.

    parts: those of the data set, where they need not be CUB's: the attribute's CUB parts that are among them,
        or, of a group that CUB does not have, the part that it names (`has_part::wheel`).
    Raises DatasetError, with the nearest group, where `parts` is None and the group is none of CUB's 28.
    """
    group, _, value = normalise_attribute(attribute).partition("::")
    if parts is not None:
        return tuple(part for part in GROUP_PARTS.get(group, (value,)) if part in parts)
    if group not in GROUP_PARTS:
        raise unknown_name("attribute group", group, GROUP_PARTS)
    return GROUP_PARTS[group]


def cbm_concepts() -> pd.DataFrame:
    """The 112 attributes that CBMs use as concepts on CUB, numbered 1–112 in the alignment paper's order.

    Columns: attribute_id (1-based among the 312), name, group, value, and parts, a tuple of CUB's parts.
    """
    table = CUB[CUB["concept"] != ""].astype({"attribute_id": int, "concept": int})
    table = table.set_index("concept")[["attribute_id", "name"]]
    table[["group", "value"]] = table["name"].str.split("::", n=1, expand=True)
    table["parts"] = [GROUP_PARTS[group] for group in table["group"]]
    return table
