"""What a cell of a notebook gives to a slide: what is said of it, what it shows, and the prose around it."""

import ast
import re

from xaihelpers.teaching.mathml import display_equations

TITLE_LETTERS, POINTS, POINT_WORDS, CODE_LINES = 60, 3, 14, 12
SHOWN = ("image/png", "text/html")  # the first that a cell has, before what it prints


def slide_of(cell: dict) -> dict | None:
    """What a cell says of its slide: title, points, code; None for a cell without the tag `slide`.

    Raises ValueError for a slide without a title, or with more text than fits.
    """
    if "slide" not in cell["metadata"].get("tags", []):
        return None
    told = {"points": [], "code": False} | cell["metadata"].get("xaihelpers", {}).get("slide", {})
    start = repr("".join(cell["source"])[:50])
    if not 0 < len(told.get("title", "")) <= TITLE_LETTERS:
        raise ValueError(f"slide of {start}: a title has 1 to {TITLE_LETTERS} letters: {told.get('title')!r}")
    if len(told["points"]) > POINTS:
        raise ValueError(f"slide {told['title']!r}: {len(told['points'])} points, more than {POINTS}")
    if long := [point for point in told["points"] if len(point.split()) > POINT_WORDS]:
        raise ValueError(f"slide {told['title']!r}: a point has more than {POINT_WORDS} words: {long[0]!r}")
    if told["code"] and len("".join(cell["source"]).splitlines()) > CODE_LINES:
        raise ValueError(f"slide {told['title']!r}: its code has more than {CODE_LINES} lines")
    if cell["cell_type"] == "markdown" and not display_equations("".join(cell["source"])):
        raise ValueError(f"slide {told['title']!r}: a cell of prose without an equation has nothing to show")
    return told


def shows(cell: dict) -> bool:
    """Whether a cell makes a slide: it is chosen, and has an equation, code or, once run, an output."""
    told = slide_of(cell)
    return bool(told and (cell["cell_type"] == "markdown" or told["code"] or shown_by(cell)))


def shown_by(cell: dict) -> tuple[str, str] | None:
    """What a cell shows: its first figure, else its first table, else its printed text; kind and content."""
    outputs = cell.get("outputs", [])
    for kind in SHOWN:
        for output in outputs:
            if kind in output.get("data", {}):
                return kind, "".join(output["data"][kind])
    printed = "".join("".join(output.get("text", "")) for output in outputs if output.get("name") != "stderr")
    if not printed.strip():
        printed = "".join("".join(o.get("data", {}).get("text/plain", "")) for o in outputs)
    return ("text/plain", printed) if printed.strip() else None


def prose_before(cells: list[dict], place: int) -> str:
    """The prose between a cell and the last output before it."""
    texts = []
    for cell in reversed(cells[:place]):
        if cell["cell_type"] == "markdown":
            texts.insert(0, cell["source"])
        elif shown_by(cell) and texts:
            break
    return as_notes("\n\n".join(texts))


def as_notes(text: str) -> str:
    """Prose without pictures, its headings in bold."""
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    return re.sub(r"^#+ (.+)$", r"**\1**", text, flags=re.MULTILINE).strip()


def prediction_of(cell: dict) -> tuple[str, str]:
    """Question and scale of the cell that asks for a guess; texts that it puts together stay empty."""
    tree = ast.parse(cell["source"])
    told = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            told[node.targets[0].id] = node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("guesses.ask"):
            names = dict(zip(("name", "question", "unit", "low", "high"), node.args, strict=False))
            names |= {keyword.arg: keyword.value for keyword in node.keywords}
            question, unit, low, high = (
                _literal(names.get(name), told) for name in ("question", "unit", "low", "high")
            )
            scale = f", {low} to {high} {unit}" if None not in (low, high, unit) else ""
            return question or "", scale.rstrip()
    return "", ""


def _literal(node: ast.expr | None, told: dict):
    node = told.get(node.id) if isinstance(node, ast.Name) else node
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None


def has_tag(cell: dict, tag: str) -> bool:
    """Whether a cell is tagged so."""
    return tag in cell["metadata"].get("tags", [])
