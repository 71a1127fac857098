"""Students' copies, slides and the site: what a class is given."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import exporters
import nbformat
import pytest
from browser_lab import MARKS
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_nets import NOTEBOOKS, PATHS

from xaihelpers.paths import PROJECT

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|embed|audio|video)\b[^>]*\bsrc\s*=\s*["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?(?:https?:)?//|<object\b|@import\s+(?:url\()?["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//|<base\b""",
    re.IGNORECASE,
)


@pytest.fixture
def lesson(tmp_path):
    """A notebook with one exercise, as a file."""
    code = {"stub": "x = None", "answer": "x = 3", "check": "assert x, 'x is not set'\nprint('right')"}
    cells = [new_markdown_cell("### Exercise 1 · look", metadata={"tags": ["exercise"]})]
    for tag, source in code.items():
        cells.append(new_code_cell(source, metadata={"tags": [tag]}))
    cells[2].outputs = [new_output("stream", text="3 it is")]
    path = tmp_path / "lesson.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def export(to, path, folder):
    """Convert a notebook as the Makefile does; returns the file that was written."""
    command = [sys.executable, "-m", "nbconvert", "--to", f"exporters.{to}", "--output-dir", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "docs")}
    done = subprocess.run([*command, str(path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob(f"{path.stem}.*")
    return file


def test_a_students_copy_runs_and_says_what_is_open_a_teachers_has_answers(lesson, tmp_path):
    made = nbformat.read(export("Teacher", lesson, tmp_path / "teacher"), as_version=4)
    assert made.cells[2].source == "x = 3" and made.cells[2].outputs
    made = nbformat.read(export("Student", lesson, tmp_path / "student"), as_version=4)
    task, stub, check = made.cells
    assert stub.source == "x = None" and not stub.outputs
    made.cells.append(new_code_cell(check.source.replace("assert x", "assert len(x)")))
    NotebookClient(made, kernel_name="python3").execute()
    assert check.outputs[0].text == "Exercise 1 is open: x is not set\n"
    assert "is open: its check stopped with TypeError" in made.cells[-1].outputs[0].text


def test_a_students_copy_of_every_notebook_parses():
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        answers = [cell for cell in notebook.cells if "answer" in exporters.tags_of(cell)]
        made, _ = exporters.OpenExercises().preprocess(notebook, {})
        assert answers and not [cell for cell in made.cells if cell in answers], path.stem
        for cell in made.cells:
            if cell.cell_type == "code":
                ast.parse(re.sub(r"(?m)^\s*[%!].*$", "pass", cell.source))


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """The page of a committed notebook's slides, with reveal.js beside it."""
    page = export("Slides", PATHS["22"], tmp_path_factory.mktemp("slides"))
    package = Path(find_spec("sphinx_revealjs").submodule_search_locations[0])
    (page.parent / "reveal").symlink_to(package / "_static" / "revealjs")
    return page


def test_slides_need_nothing_but_the_files_beside_them(slides):
    text = slides.read_text()
    assert not LOADED.search(text) and "https://cdn" not in text
    for name in re.findall(r"(?:src|href)=\"(?!data:|#)([^\"]*)", text):
        assert (slides.parent / name).is_file(), name
    assert "<math" in text and "$" not in re.sub(r"(?s)<(script|style).*?</\1>", "", text)


@pytest.mark.parametrize("mark", [pytest.param(None, marks=MARKS, id="chromium")])
def test_slides_open_without_a_network(mark, slides, browser):
    page = browser.new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(slides.as_uri())
    page.wait_for_function("Reveal.isReady()")
    made, _ = exporters.MarkedCells().preprocess(nbformat.read(PATHS["22"], as_version=4), {})
    begins = [cell for cell in made.cells if cell.metadata.slideshow.slide_type == "slide"]
    assert page.evaluate("Reveal.getTotalSlides()") == len(begins) > 8
    page.evaluate("Reveal.slide(1)")
    assert page.evaluate("Reveal.getCurrentSlide().innerText.length") > 20
    page.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.notebooks  # it executes none, but takes a minute
def test_the_site_shows_every_notebook_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-c", "docs", ".", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    pages = {str(path.relative_to(tmp_path / "site")): path.read_text() for path in tmp_path.rglob("*.html")}
    for path in NOTEBOOKS:
        address = path.relative_to(PROJECT).with_suffix(".html").as_posix()
        assert f'href="{address}"' in pages["index.html"]
        for mark in ("</h1>", "<img", "<details"):
            assert mark in pages[address], f"{address} has no {mark}"
        assert "<details open" not in pages[address], f"answers stay folded in {address}"
    for name, text in pages.items():
        assert not LOADED.search(text), (name, LOADED.search(text)[0])
