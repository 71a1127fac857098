"""The index of equations and tables, from data/papers/README.md, with links to notebooks and functions."""

import re
from collections.abc import Mapping
from pathlib import Path

from xaihelpers.site.notebook_page import heading_named
from xaihelpers.site.notebook_set import Notebook

COLUMNS = ("paper", "number", "what", "function", "notebook")
TITLES = {
    "alignment": "Concept-Based Explainable AI: Metrics and Benchmarks",
    "conceptscore": "Evaluating the Unseen",
    "fse": "Are Large Language Models Good XAI Annotators?",
    "autoxplain": "Automated Explain Vision Model Using Vision-Language Models",
    "sub": "SUB: Benchmarking CBM Generalization via Synthetic Attribute Substitutions",
}
NOTEBOOK = re.compile(r"(\d\d)((?:[–-]\d\d)?)(?: “([^”]+)”)?")


def read_index(readme: Path) -> list[dict[str, str]]:
    """The rows of the index, as they are written."""
    text = readme.read_text()
    rows = []
    for line in text[text.index("| paper |") :].splitlines():
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows[2:]]


def index_page(rows: list[dict[str, str]], notebooks: Mapping[str, Notebook]) -> str:
    """The page in markdown: a table for each paper."""
    lines = [
        "# Index of equations and tables",
        "",
        "Look up the number as the paper prints it. The function computes it; the notebook writes the "
        "equation out, at the quoted heading where there is one, and compares it with that function. The "
        "number of a table leads to the paper's printed values as a file.",
        "",
    ]
    for paper, title in TITLES.items():
        lines += [f"## {paper}: {title}", "", "| number | what | function | notebook |", "|---|---|---|---|"]
        for row in rows:
            if row["paper"] == paper:
                cells = (
                    _files(row["number"]),
                    row["what"],
                    _functions(row["function"]),
                    _notebooks(row["notebook"], notebooks),
                )
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def used_where(rows: list[dict[str, str]], notebooks: Mapping[str, Notebook]) -> dict[str, list[str]]:
    """Full name of a function -> a line of markdown that says which equations and notebooks it serves."""
    found: dict[str, list[str]] = {}
    for row in rows:
        number = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", row["number"])
        where = f"{row['paper']}, {number if number != '–' else 'ours'}"
        text = f"{where}: notebook {_notebooks(row['notebook'], notebooks, up='../')}"
        for name in re.findall(r"`([\w.]+)`", row["function"]):
            found.setdefault(f"xaihelpers.{name}", []).append(text)
    return {name: ["Serves " + "; ".join(dict.fromkeys(texts)) + "."] for name, texts in found.items()}


def _files(cell: str) -> str:
    """Links to CSV files as HTML, for they are copied as they are and are no pages."""
    return re.sub(r"\[([^]]+)\]\((\w+\.csv)\)", r'<a href="papers/\2">\1</a>', cell)


def _functions(cell: str) -> str:
    return re.sub(r"`([\w.]+)`", r"{py:obj}`\1 <xaihelpers.\1>`", cell)


def _notebooks(cell: str, notebooks: Mapping[str, Notebook], up: str = "") -> str:
    """A cell like "11 “A concept is a direction”, 42–45" with links."""

    def link(match: re.Match) -> str:
        number, until, heading = match.groups()
        notebook = notebooks.get(number)
        if notebook is None:
            return match[0]
        if heading:
            return f"{number} {{ref}}`{heading} <{heading_named(notebook, heading)}>`"
        first = f"[{number}]({up}{notebook.document}.ipynb)"
        other = notebooks.get(until[1:]) if until else None
        return first + (f"–[{other.number}]({up}{other.document}.ipynb)" if other else until)

    return NOTEBOOK.sub(link, cell)
