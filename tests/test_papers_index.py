"""The index of equations and tables in data/papers/README.md: its functions, notebooks and headings exist."""

import importlib
import json
import re

from notebook_nets import PATHS

from xaihelpers.paths import PROJECT

PAPERS = PROJECT / "data" / "papers"
COLUMNS = ["paper", "number", "what", "function", "notebook"]
EQUATIONS = {"alignment": 11, "conceptscore": 19, "fse": 3, "autoxplain": 2, "sub": 6}  # numbered 1 … n


def read_index() -> list[dict[str, str]]:
    """The rows of the first table of the README."""
    text = (PAPERS / "README.md").read_text()
    rows = []
    for line in text[text.index("| paper |") :].splitlines():
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert rows[0] == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows[2:]]


INDEX = read_index()


def headings(notebook: str) -> list[str]:
    """The headings of a notebook by its number."""
    texts = []
    for cell in json.loads(PATHS[notebook].read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            texts += re.findall(r"^#+ (.*)", "".join(cell["source"]), re.MULTILINE)
    return texts


def test_every_function_is_there_and_public():
    for name in {name for row in INDEX for name in re.findall(r"`([\w.]+)`", row["function"])}:
        room = "" if name.startswith("worlds.") else "xaihelpers."
        module, _, function = f"{room}{name}".rpartition(".")
        named = getattr(importlib.import_module(module), function)
        assert callable(named) and named.__module__ == module, f"{name}: named by the module that defines it"


def test_every_row_names_notebooks_and_headings_that_exist():
    for row in INDEX:
        named = re.findall(r"([\dA]\d)(?: “([^”]+)”)?(?:, |$)", row["notebook"])
        assert row["paper"] in EQUATIONS and row["what"] and named, row
        for notebook, heading in named:
            assert any(heading in text for text in headings(notebook)), f"{notebook} has no {heading!r}"


def test_every_numbered_equation_and_every_table_held_has_its_row():
    for paper, n in EQUATIONS.items():
        numbers = []
        for row in INDEX:
            match = re.match(r"Eq\. (\d+(?:, \d+)*)", row["number"])
            if row["paper"] == paper and match:
                numbers += [int(number) for number in match[1].split(", ")]
        assert sorted(numbers) == list(range(1, n + 1))
    numbers = " ".join(row["number"] for row in INDEX)
    assert sorted(re.findall(r"\]\(([^)]+)\)", numbers)) == sorted(
        path.name for path in PAPERS.glob("*_*.csv")
    )
