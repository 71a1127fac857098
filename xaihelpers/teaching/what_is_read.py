"""What a step of a route lets be read, found in its notebook, and how many minutes that takes.

An entry names parts and the opening words of a paragraph, as in "text, figure: Four test images": the
paragraph (or item of a list) that begins so, and the first equation, figure, table or printed text below it.
"""

import re
from dataclasses import dataclass

PARTS = ("text", "equation", "figure", "table", "print")
WORDS_A_MINUTE = 200
MINUTES_A_PART = 0.75  # an equation, a figure, a table, printed lines


@dataclass(frozen=True)
class Look:
    """An entry of a plan: which parts of what stands at, or below, a paragraph."""

    parts: tuple[str, ...]
    opening: str  # words that one paragraph begins with, without marks of bold and italics


@dataclass(frozen=True)
class Found:
    """A part in a notebook: the number of its cell, and its words if it is a paragraph."""

    cell: int
    part: str
    words: int = 0


def read_look(told: str) -> Look:
    """An entry from its text. Raises ValueError for another form."""
    parts, _, opening = told.partition(": ")
    parts = tuple(part.strip() for part in parts.split(","))
    if not opening.strip() or not set(parts) <= set(PARTS):
        raise ValueError(f"{told!r} is not {', '.join(PARTS)} (one or several), a colon, and opening words")
    return Look(parts, opening.strip())


def as_text(looks: tuple[Look, ...]) -> str:
    """What a plan says of these entries: nothing where there are none."""
    told = [f"“{look.opening}” ({', '.join(look.parts)})" for look in looks]
    return f" Only: {'; '.join(told)}." if told else ""


def paragraphs(source: str) -> list[str]:
    """Paragraphs of a markdown cell; each item of a list is one."""
    blocks = re.split(r"\n\s*\n|\n(?=(?:- |\d+\. ))", source.strip())
    return [block.strip() for block in blocks if block.strip()]


def find(look: Look, cells: list[dict], mine: list[int]) -> list[Found]:
    """The parts of an entry among the cells with the numbers `mine`, in order.

    Raises ValueError where not exactly one paragraph begins so, or where a part is missing.
    """
    places = [
        (i, k)
        for i in mine
        if cells[i]["cell_type"] == "markdown"
        for k, text in enumerate(paragraphs("".join(cells[i]["source"])))
        if _plain(text).startswith(_plain(look.opening))
    ]
    if len(places) != 1:
        raise ValueError(f"{len(places)} paragraphs begin with {look.opening!r}")
    return [_find_part(part, look.opening, *places[0], cells, mine) for part in look.parts]


def minutes(found: list[Found]) -> float:
    """How long it takes to read these."""
    words = sum(one.words for one in found)
    return words / WORDS_A_MINUTE + MINUTES_A_PART * sum(one.part != "text" for one in found)


def everything(cells: list[dict], mine: list[int]) -> list[Found]:
    """All prose, figures and tables of some cells, for steps that name no entries."""
    found = []
    for i in mine:
        if cells[i]["cell_type"] == "markdown":
            found.append(Found(i, "text", len("".join(cells[i]["source"]).split())))
        found += [Found(i, part) for part in ("figure", "table") if _shows(cells[i], part)]
    return found


def _find_part(part: str, opening: str, i: int, k: int, cells: list[dict], mine: list[int]) -> Found:
    texts = paragraphs("".join(cells[i]["source"]))
    if part == "text":
        return Found(i, part, len(_plain(texts[k]).split()))
    mark = {"equation": "$$", "table": "|"}.get(part)
    if mark and any(text.startswith(mark) for text in texts[k + 1 :]):
        return Found(i, part)
    for j in mine:
        if j > i and _shows(cells[j], part):
            return Found(j, part)
    raise ValueError(f"there is no {part} below {opening!r}")


def _shows(cell: dict, part: str) -> bool:
    if "predict" in cell["metadata"].get("tags", []):
        return False  # the slider of a guess is no table
    outputs = cell.get("outputs", [])
    kind = {"figure": "image/png", "table": "text/html"}.get(part)
    if kind:
        return any(kind in output.get("data", {}) for output in outputs)
    return part == "print" and any(output.get("name") == "stdout" for output in outputs)


def _plain(text: str) -> str:
    """Words without marks of headings, lists, bold, italics and code."""
    text = re.sub(r"^(#+|-|\d+\.) ", "", text)
    return " ".join(re.sub(r"[*`]", "", text).split())
