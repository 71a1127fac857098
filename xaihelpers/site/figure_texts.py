"""What a figure of a notebook shows, in words: its caption, or else the sentence before it."""

import ast
import re

from xaihelpers.site.notebook_set import Notebook, source_of

# sentences that speak of a figure rather than of what it means
SPEAKS = re.compile(
    r"\b(figures?|pictures?|panels?|curves?|dots?|points?|bars?|lines?|rows?|columns?|shown?|shows?|"
    r"left|right|above|below|crosses|beside)\b",
    re.IGNORECASE,
)
DRAW_PICTURES = ("image_grid", "case_studies", "case_pictures", "to_picture")
LONGEST = 320  # characters of an alternative text


def has_figure(cell: dict) -> bool:
    """Whether a cell shows a PNG."""
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def figure_text(notebook: Notebook, at: int) -> str:
    """The words for the figures of a cell: the caption given to `run.figure`, else what stands before it.

    A number of the run inside a caption, which only the run knows, is an ellipsis.
    """
    source = source_of(notebook.cells[at])
    text = caption_of(source, notebook.parameters)
    if not text:
        text = _before(notebook, at)
    axes = axis_labels(source)
    if axes and len(text) < 200:
        text = f"{text.rstrip('.')}. Axes: {axes}."
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0] + " …"
    return text


def caption_of(source: str, known: dict[str, object]) -> str:
    """The caption that a cell gives to `run.figure`; "" if it gives none.

    known: name -> value of what may stand in it.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    assigned = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned[node.targets[0].id] = node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "run.figure" and len(node.args) > 2:
            return _spelled(node.args[2], assigned, known).strip()
    return ""


def axis_labels(source: str) -> str:
    """The names of the axes as far as a cell gives them as plain texts: "x and y"."""
    found = []
    for name in ("xlabel", "ylabel"):
        match = re.search(rf"""{name}(?:=|\()(f?)(["'])([^"'\n]+)\2""", source)
        if match and not match[1]:
            found.append(match[3].replace("$", ""))
    return " and ".join(found) if len(found) == 2 else ""


def shows_pictures(cell: dict, drawers: set[str]) -> bool:
    """Whether the figure of a cell is one of pictures, and not a diagram; drawers: as of that function."""
    return has_figure(cell) and bool(drawers & set(re.findall(r"\b(\w+)\(", source_of(cell))))


def drawers_of(notebook: Notebook) -> set[str]:
    """The functions that draw pictures: those of `plots`, and the notebook's own that call them."""
    found = set(DRAW_PICTURES)
    for cell in notebook.cells:
        if cell["cell_type"] == "code":
            for part in re.split(r"(?m)^(?=def )", source_of(cell)):
                name = re.match(r"def (\w+)\(", part)
                body = re.split(r"(?m)^(?=[^\s])", part.partition("\n")[2])[0]
                if name and (".imshow(" in body or found & set(re.findall(r"\b(\w+)\(", body))):
                    found.add(name[1])
    return found


def _spelled(node: ast.expr, assigned: dict[str, ast.expr], known: dict[str, object], depth: int = 0) -> str:
    """A text expression as far as it can be told without running anything, "…" for the rest."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_spelled(part, assigned, known, depth) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _spelled(node.value, assigned, known, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _spelled(node.left, assigned, known, depth) + _spelled(node.right, assigned, known, depth)
    if isinstance(node, ast.Name) and node.id in known and not isinstance(known[node.id], list):
        return str(known[node.id])
    if isinstance(node, ast.Name) and node.id in assigned and depth < 4:
        return _spelled(assigned[node.id], assigned, known, depth + 1)
    return "…"


def _before(notebook: Notebook, at: int) -> str:
    """The sentence of the text before a cell that speaks of the figure, else the first one."""
    for cell in reversed(notebook.cells[:at]):
        if cell["cell_type"] == "markdown":
            sentences = _sentences(source_of(cell))
            speaking = [sentence for sentence in sentences if SPEAKS.search(sentence)]
            if sentences:
                return (speaking or sentences)[0]
    return notebook.title


def _sentences(text: str) -> list[str]:
    """The sentences of a markdown text, without its headings, tables, equations and marks."""
    lines = [line for line in text.splitlines() if not line.startswith(("#", "|", ">", "    "))]
    plain = re.sub(r"\$\$.*?\$\$", " ", "\n".join(lines), flags=re.DOTALL)
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"[*`$]|^\s*(?:[-*]|\d+\.) ", "", plain, flags=re.MULTILINE)
    plain = re.sub(r"\\(?:hat|bar|tilde|mathrm|text|operatorname) ?|[{}\\]", "", plain)
    paragraphs = [" ".join(paragraph.split()) for paragraph in plain.split("\n\n")]
    found = []
    for paragraph in paragraphs:
        found += re.split(r"(?<=[.?!])\s+(?=[A-Z“])", paragraph)
    return [sentence for sentence in found if len(sentence) > 15]
