"""The index of equations and tables in data/papers/README.md: its functions, notebooks and headings exist."""

import importlib
import json
import re

import pytest

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
FUNCTIONS = sorted({name for row in INDEX for name in re.findall(r"`([\w.]+)`", row["function"])})


def headings(notebook: str) -> list[str]:
    """The headings of a notebook by its number."""
    (path,) = (PROJECT / "notebooks").glob(f"{notebook}_*.ipynb")
    texts = []
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            texts += re.findall(r"^#+ (.*)", "".join(cell["source"]), re.MULTILINE)
    return texts


def equation_numbers(number: str) -> list[int]:
    """The numbers of the equations that a cell names: "Eq. 9, 10, Algorithm 1" -> [9, 10]."""
    match = re.match(r"Eq\. (\d+(?:, \d+)*)", number)
    return [int(n) for n in match[1].split(", ")] if match else []


def test_the_index_comes_before_the_list_of_files():
    text = (PAPERS / "README.md").read_text()
    assert text.index("| paper |") < text.index("| file |")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_there_and_public(name):
    module, _, function = f"xaihelpers.{name}".rpartition(".")
    named = getattr(importlib.import_module(module), function)
    assert callable(named)
    assert named.__module__ == module, "named by the module that defines it"
    assert not function.startswith("_")


@pytest.mark.parametrize("row", INDEX, ids=lambda row: f"{row['paper']}: {row['number']}")
def test_every_row_names_its_paper_functions_and_notebooks(row):
    assert row["paper"] in EQUATIONS
    assert row["number"]
    assert row["what"]
    assert re.fullmatch(r"`[\w.]+`(, `[\w.]+`)*", row["function"])
    named = re.findall(r"(\d\d)(?: “([^”]+)”)?(?:, |$)", row["notebook"])
    assert named
    for notebook, heading in named:
        assert any(heading in text for text in headings(notebook)), f"{notebook} has no heading {heading!r}"


@pytest.mark.parametrize("paper, n", EQUATIONS.items())
def test_every_numbered_equation_has_one_row(paper, n):
    numbers = []
    for row in INDEX:
        if row["paper"] == paper:
            numbers += equation_numbers(row["number"])
    assert sorted(numbers) == list(range(1, n + 1))


def test_every_table_held_is_linked_once_from_its_papers_rows():
    links = [(row["paper"], file) for row in INDEX for file in re.findall(r"\]\(([^)]+)\)", row["number"])]
    assert sorted(file for _, file in links) == sorted(path.name for path in PAPERS.glob("*_*.csv"))
    assert all(file.startswith(f"{paper}_") for paper, file in links)


def test_the_number_of_a_table_is_that_of_its_file():
    for row in INDEX:
        for label, number in re.findall(r"\[([^]]+)\]\(\w+?_table(\d+)\.csv\)", row["number"]):
            assert label == f"Table {number}"
