"""What a judge's text says, as statements that a mask can check (paper autoxplain, section 4.1: acceptance).

| statement | said, for example | true if |
|---|---|---|
| mainly | "lies mainly on the background", "… the wing" | precision < ½; ≥ ½, and the wing is lit |
| coverage | "covers most of the object" | the coverage is within the bounds of the word |
| part | "the parts attended are crown, wing" | at least a tenth of the part is lit |
| score | the number at the end | it differs by at most 1.5 from what the said coverage asks for |
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

# word -> least and greatest coverage, and the score of the rubric that it asks for
COVERAGE = {
    "none": (0.0, 0.05, 0.5),
    "a small part": (0.01, 0.45, 2.0),
    "part": (0.01, 0.9, 2.5),
    "about half": (0.3, 0.7, 3.0),
    "most": (0.5, 1.0, 4.0),
    "all": (0.8, 1.0, 5.0),
}
SYNONYMS = {
    "no part": "none",
    "nothing": "none",
    "only a small part": "a small part",
    "a little": "a small part",
    "a part": "part",
    "parts": "part",
    "half": "about half",
    "nearly all": "most",
    "almost all": "most",
    "the whole": "all",
    "the entire": "all",
}
WORDS = sorted([*COVERAGE, *SYNONYMS], key=len, reverse=True)
NOT = r"(?<!not )(?<!n't )(?<!not lie )(?<!n't lie )"
SAYS_COVERAGE = re.compile(rf"\b{NOT}covers? ({'|'.join(WORDS)})\b(?!(?: of)?(?: the)? background)", re.I)
SAYS_MAINLY = re.compile(
    rf"\b{NOT}(?:mainly|mostly|primarily|largely) (?:lies )?(?:on|over|at) (?:the )?([a-z]+)", re.I
)
SAYS_PARTS = re.compile(r"\bparts? (?:that (?:is|are) )?attended (?:is|are) ([a-z, ]+)", re.I)


class Statement(NamedTuple):
    """One thing that a text says, and whether it is true."""

    kind: str
    said: str
    true: bool


def check_statements(
    text: str, coverage: float, precision: float, lit_parts: Mapping[str, float], score: float | None = None
) -> list[Statement]:
    """The statements of a text that can be checked, each with whether it is true.

    coverage: share of the object that is lit. precision: share of the light that lies on it; NaN without any.
    lit_parts: share of each visible part that is lit, by its name. score: the judge's own, if it gave one.
    """
    found = []
    for match in SAYS_MAINLY.finditer(text):
        place = match[1].lower()
        on_background = place in ("background", "surroundings", "scene")
        true = on_background == (not precision >= 0.5) and lit_parts.get(place, 1.0) > 0
        found.append(Statement("mainly", place, true))
    said_coverage = None
    for match in SAYS_COVERAGE.finditer(text):
        word = match[1].lower()
        said_coverage = SYNONYMS.get(word, word)
        least, greatest, _ = COVERAGE[said_coverage]
        found.append(Statement("coverage", said_coverage, least <= coverage <= greatest))
    for match in SAYS_PARTS.finditer(text):
        for part in re.split(r",| and ", match[1].lower()):
            if part.strip() in lit_parts:
                found.append(Statement("part", part.strip(), lit_parts[part.strip()] >= 0.1))
    if score is not None and score == score and said_coverage is not None:
        fits = abs(score - COVERAGE[said_coverage][2]) <= 1.5
        found.append(Statement("score", f"{score:g} for {said_coverage}", fits))
    return found
