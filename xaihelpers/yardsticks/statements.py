"""What a judge's text says, as statements that a mask can check (paper autoxplain, section 4.1: acceptance).

| statement | said, for example | true if |
|---|---|---|
| mainly | "lies mainly on the background", "… the wing" | precision < ½; ≥ ½, and the wing is lit |
| coverage | "covers most of the object" | the coverage is within the bounds of the word |
| beside | "beside the object lies some of the attention" | 1 - precision is within the bounds of the word |
| part | "the parts attended are crown, wing" | at least a tenth of the part is lit |
| score | the number at the end | it differs by at most 1.5 from what the other statements ask for |

Coverage asks for about a step of the prompt. Light that lies mainly on the background by the text's own
words, or some of it or more beside the object, asks for 3 at most (irrelevant parts are attended too), nearly
all of it for 2, a little for 4. "Nothing is attended" states nothing that is counted here.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

# word -> least and greatest coverage, and the score of the rubric that it asks for
COVERAGE = {
    "none": (0.0, 0.05, 0.5),
    "hardly any": (0.0, 0.2, 0.5),
    "a small part": (0.01, 0.45, 2.0),
    "part": (0.01, 0.9, 2.5),
    "about half": (0.3, 0.7, 3.0),
    "most": (0.5, 1.0, 4.0),
    "all": (0.8, 1.0, 5.0),
}
SYNONYMS = {"no part": "none", "nothing": "none", "half": "about half", "a part": "part", "parts": "part"}
SYNONYMS |= {"only a small part": "a small part", "a little": "a small part", "barely any": "hardly any"}
SYNONYMS |= {"nearly all": "most", "almost all": "most", "the whole": "all", "the entire": "all"}
WORDS = sorted([*COVERAGE, *SYNONYMS], key=len, reverse=True)
# word -> least and greatest share of the light that lies beside the object, and the highest score with it
BESIDE = {
    "nothing": (0.0, 0.1, 5.0),
    "none": (0.0, 0.1, 5.0),
    "a little": (0.01, 0.45, 4.0),
    "some": (0.2, 0.75, 3.0),
    "much": (0.45, 0.95, 3.0),
    "most": (0.5, 1.0, 3.0),
    "nearly all": (0.75, 1.0, 2.0),
    "all": (0.8, 1.0, 2.0),
}
BACKGROUND = ("background", "surroundings", "scene")
NOWHERE = ("nothing", "none", "no")  # "mainly on nothing": no place is named
FEWEST_PIXELS = 30  # of a part that counts as visible
NOT = r"(?<!not )(?<!n't )(?<!not lie )(?<!n't lie )"
SAYS_COVERAGE = re.compile(rf"\b{NOT}covers? ({'|'.join(WORDS)})\b(?!(?: of)?(?: the)? background)")
SAYS_MAINLY = re.compile(
    rf"\b{NOT}(?:mainly|mostly|primarily|largely) (?:lies )?(?:on|over|at) (?:the )?([a-z]+)"
)
SAYS_BESIDE = re.compile(rf"\bbeside the object lies ({'|'.join(sorted(BESIDE, key=len, reverse=True))})\b")
SAYS_PARTS = re.compile(r"\bparts? (?:that (?:is|are) )?attended (?:is|are) ([a-z, ]+)")


class Statement(NamedTuple):
    """One thing that a text says, and whether it is true."""

    kind: str
    said: str
    true: bool


def check_statements(
    text: str, coverage: float, precision: float, lit_parts: Mapping[str, float], score: float | None = None
) -> list[Statement]:
    """The statements of a text that can be checked, each with whether it is true (module docstring).

    coverage: share of the object that is lit. precision: share of the light that lies on it; NaN without any.
    lit_parts: share of each visible part that is lit, by its name. score: the judge's own, if it gave one.
    """
    found, at_most, said_coverage = [], 5.0, None
    text = text.lower()
    for place in SAYS_MAINLY.findall(text):
        if place not in NOWHERE:
            on_background = place in BACKGROUND
            at_most = 3.0 if on_background else at_most
            true = on_background == (not precision >= 0.5) and lit_parts.get(place, 1.0) > 0
            found.append(Statement("mainly", place, true))
    for word in SAYS_COVERAGE.findall(text):
        said_coverage = SYNONYMS.get(word, word)
        least, greatest, _ = COVERAGE[said_coverage]
        found.append(Statement("coverage", said_coverage, least <= coverage <= greatest))
    for word in SAYS_BESIDE.findall(text) if precision == precision else ():
        least, greatest, highest = BESIDE[word]
        at_most = min(at_most, highest)
        found.append(Statement("beside", word, least <= 1 - precision <= greatest))
    for parts in SAYS_PARTS.findall(text):
        for part in map(str.strip, re.split(r",| and ", parts)):
            if part in lit_parts:
                found.append(Statement("part", part, lit_parts[part] >= 0.1))
    if score is not None and score == score and said_coverage is not None:
        fits = abs(score - min(COVERAGE[said_coverage][2], at_most)) <= 1.5
        found.append(Statement("score", f"{score:g} for {said_coverage}", fits))
    return found


def only_true(
    texts: Sequence[str], scores: Sequence[float], light: Sequence[tuple[float, float, Mapping[str, float]]]
) -> list[float]:
    """In %, for each text: 100 where it says something that can be checked and nothing false, else 0.

    light: of each text the coverage, the precision and the lit parts that it is held against.
    """
    held = zip(texts, scores, light, strict=True)
    checked = [check_statements(text, *of_light, score) for text, score, of_light in held]
    return [100.0 * bool(said and all(statement.true for statement in said)) for said in checked]


def lit_shares(parts: torch.Tensor, lit: torch.Tensor, names: Sequence[str]) -> dict[str, float]:
    """Share of each visible part that is lit, by its plain name; of a left and a right one the greater.

    parts: (H, W) int, the number of the part at each pixel from 1 on, 0 beside the object. lit: (H, W) bool.
    names: of the parts 1, 2, ... A part of fewer than FEWEST_PIXELS pixels is left out.
    """
    shares = {}
    for number, name in enumerate(names, start=1):
        inside = parts == number
        if inside.sum() >= FEWEST_PIXELS:
            plain = name.removeprefix("left ").removeprefix("right ")
            shares[plain] = max(lit[inside].float().mean().item(), shares.get(plain, 0.0))
    return shares
