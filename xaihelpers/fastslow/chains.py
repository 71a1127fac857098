"""Concept chains: read from an answer, given stage by stage, cut out of a model's reasoning.

Paper fse, section 4 and appendices B and D. Its equation 1 builds a chain C from coarse to fine, here a dict
with a text for each of `STAGES`; c^t is the first t of its T = 5 stages, `chain_prefix(chain, t)`.
"""

import json
import re
from collections.abc import Mapping

import numpy as np
from rapidfuzz.distance import DamerauLevenshtein

from xaihelpers.ask.reading import WITHOUT_SPACES, json_values
from xaihelpers.text_files import plain

STAGES = ("Background", "Superclass", "SalientFeatures", "DetailedFeatures", "AuxiliaryFeatures")
# begins a step of reasoning (appendix D); not the end of a tag, as of a stray </think>, nor an arrow
STEP_MARK = re.compile(r"(?<![\w|=-])>(?!=)|(?m:^)[-=]>")
CHAIN_BEGUN = re.compile(rf"\{{\s*[\"']?{STAGES[0]}\b", re.I)
POSSESSIVE = re.compile(r"['’`]s?(?![^\W_])")
LONG = 8  # letters of a name in which one may be wrong: "horse" is no "house"


def parse_chain(text: str, cut: bool = False) -> dict[str, str] | None:
    """The concept chain in an answer, a JSON object alone, fenced, or amid other words.

    Keys may differ in case and punctuation. Lists and nested objects become one text. Of several chains it is
    the last. None where a stage is missing or empty, and where another chain is begun behind the last whole
    one, which then is a draft.

    cut: whether max_tokens ended the answer, as of `ask.reading.json_values`.
    """
    last, behind = None, 0
    for _, end, found in json_values(text, "{", cut):
        values = {re.sub(r"[^a-z]", "", str(key).lower()): _as_text(value) for key, value in found.items()}
        chain = {stage: values.get(stage.lower(), "") for stage in STAGES}
        if all(chain.values()):
            last, behind = chain, end
    return None if CHAIN_BEGUN.search(text, behind) else last


def chain_prefix(chain: Mapping[str, str] | None, t: int) -> str:
    """c^t: the first t stages of a chain, as JSON; an empty text where there is no chain."""
    if chain is None:
        return ""
    return json.dumps({stage: chain[stage] for stage in STAGES[:t]}, ensure_ascii=False)


def parse_list(text: str, cut: bool = False) -> list[str] | None:
    """The phrases of an answer that holds a JSON list of five of them, the last such; None without one.

    cut: as of `parse_chain`.
    """
    last = None
    for _, _, found in json_values(text, "[", cut):
        phrases = [phrase.strip() for phrase in found if isinstance(phrase, str)]
        if len(found) == len(phrases) == 5 and all(phrases):
            last = phrases
    return last


def reasoning_steps(reasoning: str) -> list[str]:
    """The steps of a reasoning: the parts between marks ">" (appendix D), or its paragraphs without any."""
    parts = STEP_MARK.split(reasoning)
    if len(parts) == 1:
        parts = reasoning.split("\n\n")
    return [part.strip() for part in parts if part.strip()]


def segment_reasoning(reasoning: str, by: str = "steps") -> dict[str, str] | None:
    """A reasoning cut evenly into five segments, which take the places of the stages (appendix D).

    by: "steps" keeps whole steps together, or sentences where there are fewer than five steps, or words where
        there are fewer than five sentences; "words" cuts into equal lengths.
    Returns None for fewer than five words.
    """
    steps = reasoning_steps(reasoning)
    text = " ".join(steps)
    ways = {"steps": steps, "sentences": re.split(r"(?<=[.!?;])\s+", text), "words": text.split()}
    tried = [ways["words"]] if by == "words" else ways.values()
    pieces = next((pieces for pieces in tried if len(pieces) >= len(STAGES)), None)
    if pieces is None:
        return None
    parts = np.array_split(np.array(pieces, object), len(STAGES))
    return {stage: " ".join(part) for stage, part in zip(STAGES, parts, strict=True)}


def mentions_class(text: str, name: str) -> bool:
    """Whether a text names the class, as people write names.

    That is all words of its name, in order: in any case, joined or apart, singular or plural, with or without
    a possessive's 's, and in a name of `LONG` letters or more with one letter wrong, missing or too many. A
    name in a script without spaces is looked for as it stands.
    """
    if WITHOUT_SPACES.search(name):
        return "".join(plain(name).casefold().split()) in "".join(plain(text).casefold().split())
    wanted, words = _words(name), _words(text)
    whole = "".join(wanted)
    wrong = int(len(whole) >= LONG)
    for start in range(len(words) if wanted else 0):
        for end in range(start + 1, start + len(wanted) + 3):
            joined = "".join(words[start:end])
            if not -1 <= len(joined) - len(whole) <= 3:  # one letter wrong, two more of a plural
                continue
            found = _singulars(joined)
            if min(DamerauLevenshtein.distance(one, whole) for one in found) <= wrong:
                return True
    return False


def _words(text: str) -> list[str]:
    """The words of a text in lower case, without the 's of possessives."""
    return re.findall(r"[^\W_]+", POSSESSIVE.sub("", plain(text).casefold()))


def _singulars(word: str) -> set[str]:
    """A word, and what it may be the plural of."""
    found = {word, word.removesuffix("s"), word.removesuffix("es")}
    for plural, endings in (("ies", ("y",)), ("ves", ("f", "fe"))):
        if word.endswith(plural):
            found.update(word.removesuffix(plural) + ending for ending in endings)
    return found


def _as_text(value: object) -> str:
    """A JSON value as one text, the items of lists and objects separated by commas."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_as_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return "" if value is None else str(value).strip()
