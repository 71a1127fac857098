"""Chains of concepts: read from an answer, given stage by stage, cut from a chain of reasoning (paper fse, section 4 and appendices B and D)."""
import json
import re
from collections.abc import Mapping

import numpy as np

STAGES = ("Background", "Superclass", "SalientFeatures", "DetailedFeatures", "AuxiliaryFeatures")
STEP_MARK = re.compile(r"(?<!\w)>")  # begins a step (appendix D); not the end of a tag, as of a stray </think>


def parse_chain(text: str) -> dict[str, str] | None:
    """The five stages of a concept chain, in their order, from an answer that holds them as a JSON object (alone, fenced, or amid other words); None where a stage is missing or empty.
    Lists and nested objects become one text."""
    for start in (found.start() for found in re.finditer(r"\{", text)):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start:])
        except ValueError:
            continue
        given = {re.sub(r"[^a-z]", "", str(key).lower()): _flat(value) for key, value in found.items()} if isinstance(found, dict) else {}
        chain = {stage: given.get(stage.lower(), "") for stage in STAGES}
        if all(chain.values()):
            return chain
    return None


def _flat(value) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_flat(item)}" for key, item in value.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list) else str("" if value is None else value).strip()


def first_stages(chain: Mapping[str, str], t: int) -> str:
    """c^t: the first t stages of a chain, as JSON."""
    if not 1 <= t <= len(STAGES):
        raise ValueError(f"t is {t}: a chain has stages 1 to {len(STAGES)}")
    return json.dumps({stage: chain[stage] for stage in STAGES[:t]}, ensure_ascii=False)


def parse_list(text: str, count: int = 5) -> list[str] | None:
    """The phrases of an answer that holds a JSON list of `count` of them; None where it holds none such."""
    for start in (found.start() for found in re.finditer(r"\[", text)):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start:])
        except ValueError:
            continue
        if isinstance(found, list) and len(found) == count and all(isinstance(item, str) and item.strip() for item in found):
            return [item.strip() for item in found]
    return None


def reasoning_steps(reasoning: str) -> list[str]:
    """Steps of a reasoning chain: what stands between the marks ">" (appendix D); without a mark, its paragraphs."""
    parts = STEP_MARK.split(reasoning)
    parts = parts if len(parts) > 1 else reasoning.split("\n\n")
    return [part.strip() for part in parts if part.strip()]


def cut_reasoning(reasoning: str, by: str = "steps") -> dict[str, str] | None:
    """A reasoning chain cut evenly into five segments, which take the places of the stages (appendix D); None where there are not even five words.

    by: "steps" keeps whole steps together (sentences where there are fewer than five steps, words where there are fewer sentences), "words" cuts into equal lengths.
    """
    if by not in ("steps", "words"):
        raise ValueError(f"a chain is cut by 'steps' or 'words', not by {by!r}")
    steps = reasoning_steps(reasoning)
    plain = " ".join(steps)
    pieces = steps if by == "steps" else []
    for split in (lambda: re.split(r"(?<=[.!?;])\s+", plain), plain.split):
        if len(pieces) < len(STAGES):
            pieces = split() if by == "steps" else plain.split()
    if len(pieces) < len(STAGES):
        return None
    return {stage: " ".join(part) for stage, part in zip(STAGES, np.array_split(np.array(pieces, object), len(STAGES)))}


def names_class(text: str, name: str) -> bool:
    """Whether a text names the class: all the words of its name, in order, in any case, singular or plural."""
    words = re.findall(r"\w+", name.replace("_", " ").lower())
    return bool(words) and re.search(r"\b" + r"[\W_]+".join(map(re.escape, words)) + r"(s|es)?\b", text.replace("_", " ").lower()) is not None
