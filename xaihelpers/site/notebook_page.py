"""A committed notebook as the site shows it: anchors, folded cells, figures in words, tables in boxes."""

import copy
import html
import re
from collections.abc import Sequence

from xaihelpers.site.figure_texts import figure_text, has_figure
from xaihelpers.site.notebook_set import (
    Notebook,
    heading_lines,
    is_folded,
    source_of,
    tags_of,
)
from xaihelpers.site.run_settings import ANCHOR

COMPARED = "# NBVAL_CHECK_OUTPUT"  # a mark for the tests, nothing for a reader
# tag of a cell -> (what is folded, what stands on it)
FOLDED = {
    "parameters": ("hide-input", "the parameters, with their defaults"),
    "answer": ("hide-cell", "the answer"),
    "check": ("hide-cell", "the check of the exercise"),
    "reveal": ("hide-output", "what came out, beside the guess"),
    "reveals": ("hide-output", "what came out (after you have guessed)"),
}


def page_of(notebook: Notebook, facts: Sequence[str], settings: str) -> dict:
    """The notebook as myst-nb is to render it; the committed one is left as it is.

    facts: lines of markdown that stand below the title. settings: markdown of the block that says how the
    outputs were made, placed before the exercises or at the end.
    """
    page = copy.deepcopy(notebook.content)
    page["metadata"] = {
        name: page["metadata"][name] for name in ("kernelspec", "language_info") if name in page["metadata"]
    }
    counts = {"table": 0}
    used: set[str] = set()
    for at, cell in enumerate(page["cells"]):
        if cell["cell_type"] == "markdown":
            cell["source"] = with_anchors(notebook.number, source_of(cell), used)
        elif cell["cell_type"] == "code":
            _fold(cell)
            cell["source"] = source_of(cell).removeprefix(COMPARED).lstrip("\n")
            if has_figure(cell):
                alt = figure_text(notebook, at)
                cell["metadata"]["mystnb"] = cell["metadata"].get("mystnb", {}) | {"image": {"alt": alt}}
            for output in cell["outputs"]:
                _box_tables(output, notebook, counts)
    first = page["cells"][0]
    title, _, rest = first["source"].partition("\n")
    if title.startswith("("):  # the anchor of the title
        anchor, (title, _, rest) = title, rest.partition("\n")
        title = f"{anchor}\n{title}"
    below = "".join(f"{fact}\n\n" for fact in facts)
    first["source"] = f"{title}\n\n:::{{container}} page-facts\n{below}:::\n{rest}"
    block = {"cell_type": "markdown", "id": "how-this-was-run", "metadata": {}, "source": settings}
    page["cells"].insert(_place_of_settings(notebook), block)
    return page


def with_anchors(number: str, text: str, used: set[str]) -> str:
    """A markdown text whose headings can be linked to by the name that `anchor` gives them."""
    lines = text.splitlines()
    for n, _, heading in reversed(heading_lines(text)):
        name = anchor(number, heading)
        if name not in used:
            used.add(name)
            lines[n] = f"({name})=\n{lines[n]}"
    return "\n".join(lines)


def anchor(number: str, heading: str) -> str:
    """The name by which a heading of a notebook is linked to: "13-existence" for "1 · Existence"."""
    words = re.sub(r"^\d+\s*·\s*", "", heading)
    return f"{number}-" + re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def heading_named(notebook: Notebook, words: str) -> str:
    """The anchor of the first heading that contains `words`; raises ValueError if there is none."""
    for cell in notebook.cells:
        if cell["cell_type"] == "markdown":
            for _, _, heading in heading_lines(source_of(cell)):
                if words in heading:
                    return anchor(notebook.number, heading)
    raise ValueError(f"Notebook {notebook.number} has no heading with {words!r}.")


def section_of(notebook: Notebook, at: int) -> str:
    """The anchor of the section that a cell stands in."""
    for cell in reversed(notebook.cells[: at + 1]):
        found = heading_lines(source_of(cell)) if cell["cell_type"] == "markdown" else []
        if found:
            return anchor(notebook.number, found[-1][2])
    return anchor(notebook.number, notebook.title)


def _fold(cell: dict) -> None:
    tags = tags_of(cell)
    kind, what = next((FOLDED[tag] for tag in FOLDED if tag in tags), ("", ""))
    source = source_of(cell)
    if not kind and is_folded(cell):
        kind, what = "hide-cell", "the answer"
        if not source.startswith("# Answer"):
            kind, what = "hide-input", "the code"
    if not kind and _only_imports(source):
        kind, what = "hide-input", "the imports"
    cell["metadata"] = {"tags": [*tags, kind] if kind else tags}
    title = re.match(r"# (Answer \d+)\b:? ?(.*)", source)
    if title:
        what = f"answer {title[1].split()[1]}"
    if kind:
        prompts = {"code_prompt_show": f"Show {what}", "code_prompt_hide": f"Hide {what}"}
        cell["metadata"]["mystnb"] = prompts


def _only_imports(source: str) -> bool:
    lines = re.sub(r"\([^)]*\)", "()", source).splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(lines) and all(line.startswith(("import ", "from ")) for line in lines)


def _box_tables(output: dict, notebook: Notebook, counts: dict[str, int]) -> None:
    """Put each table of an output into a box that scrolls, with a link to how it was made."""
    data = output.get("data", {})
    if "text/html" not in data:
        return
    text = "".join(data["text/html"])
    text = re.sub(r'<style type="text/css">\s*</style>\n?', "", text)

    def boxed(match: re.Match) -> str:
        counts["table"] += 1
        caption = re.search(r"<caption[^>]*>(.*?)</caption>", match[0], re.DOTALL)
        words = html.unescape(re.sub(r"<[^>]+>", "", caption[1])) if caption else ""
        label = html.escape(f"Table {counts['table']}: {words}".rstrip(": "), quote=True)
        link = (
            f'<a class="of-run" href="#{ANCHOR}-{notebook.number}">run {notebook.run_name}, its settings</a>'
        )
        table = re.sub(r"<th(?=[ >])(?![^>]*scope)", '<th scope="col"', match[0])
        table = re.sub(r"<td([^>]*)>\s*</td>", r"<td\1></td>", table)
        return f'<div class="table-box" role="group" tabindex="0" aria-label="{label}">{table}</div>\n{link}'

    data["text/html"] = re.sub(r"<table\b.*?</table>", boxed, text, flags=re.DOTALL)


def _place_of_settings(notebook: Notebook) -> int:
    """Where the block on settings stands: before the exercises, or else at the end."""
    for at, cell in enumerate(notebook.cells):
        if cell["cell_type"] == "markdown":
            first = source_of(cell).lstrip().splitlines()[:1]
            if first and first[0].startswith("## Exercises"):
                return at
    return len(notebook.cells)
