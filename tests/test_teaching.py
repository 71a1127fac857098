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
from bs4 import BeautifulSoup
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
    check = "teaching.begun(x=x)\nassert x == 3, 'x is another'\nprint('right')"
    code = {"stub": "x = ...", "answer": "x = 3", "check": check}
    cells = [new_markdown_cell("### Exercise 1 · look", metadata={"tags": ["exercise"]})]
    for tag, source in code.items():
        cells.append(new_code_cell(source, metadata={"tags": [tag]}))
    cells[2].outputs = [new_output("stream", text="3 it is")]
    cells.append(new_markdown_cell("Nobody found 3.", metadata={"tags": ["teacher"]}))
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
    assert stub.source == "x = ..." and not stub.outputs
    wrong, crash = check.source.replace("x=x", "x=4"), check.source.replace("x=x", "x=len(x)")
    made.cells += [new_code_cell(wrong), new_code_cell(crash)]
    NotebookClient(made, kernel_name="python3").execute()
    texts = [cell.outputs[0].text for cell in made.cells[2:]]
    assert texts[0] == "Exercise 1 is open: x is still blank.\n"
    assert texts[1] == "Exercise 1 is not right yet: x is another\n"
    assert texts[2].startswith("Exercise 1 is not right yet: its check stopped with TypeError")


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
    """Pages of committed notebooks' slides, with reveal.js beside them."""
    folder = tmp_path_factory.mktemp("slides")
    package = Path(find_spec("sphinx_revealjs").submodule_search_locations[0])
    (folder / "reveal").symlink_to(package / "_static" / "revealjs")
    for number in "00 13 22 32 44 51 53 99".split():
        text, _ = exporters.Slides().from_filename(str(PATHS[number]))
        (folder / f"{number}.slides.html").write_text(text)
    return sorted(folder.glob("*.html"))


def test_slides_need_nothing_but_the_files_beside_them(slides):
    for page in slides:
        text = page.read_text()
        assert not LOADED.search(text) and "https://cdn" not in text
        for name in re.findall(r"(?:src|href)=\"(?!data:|#)([^\"]*)", text):
            assert (page.parent / name).is_file(), name
        assert "$" not in re.sub(r"(?s)<(script|style).*?</\1>", "", text)


PIECES = "section > p, section li, section tbody tr"
# each part of a slide that lies beyond the frame or scrolls, and each slide of several things
UNSEEN = """() => {
  const unseen = [];
  for (let n = 0; n < Reveal.getTotalSlides(); n++) {
    Reveal.slide(n);
    const slide = Reveal.getCurrentSlide();
    if (slide.querySelectorAll("figure, caption").length > 1) unseen.push([n, "several things"]);
    for (const part of [slide, ...slide.querySelectorAll("*")]) {
      const box = part.getBoundingClientRect();
      const beyond = box.left < 0 || box.top < 0 || box.right > 1281 || box.bottom > 801;
      const cut = getComputedStyle(part).overflowY != "visible" && part.scrollHeight > part.clientHeight + 1;
      if (box.width && box.height && (beyond || cut)) unseen.push([n, part.outerHTML.slice(0, 90)]);
    }
  }
  return unseen;
}"""


@pytest.mark.xdist_group("browser")
def test_slides_show_one_thing_each_and_all_of_it_without_a_network(slides, browser):
    page = browser.new_page()
    page.set_viewport_size({"width": 1280, "height": 800})
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for deck in slides:
        page.goto(deck.as_uri())
        page.wait_for_function("Reveal.isReady()")
        assert page.evaluate("Reveal.getTotalSlides()") > 5
        assert page.evaluate("Reveal.getCurrentSlide().innerText.length") > 20
        assert page.evaluate(UNSEEN) == [], deck.name
        written = len(BeautifulSoup(deck.read_text(), "html.parser").select(PIECES))
        n_shown = page.locator(PIECES).count()
        assert n_shown == written or page.get_by_text("the first 6 of").count(), f"{deck.name} lost a piece"
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
        notebook = nbformat.read(path, as_version=4)
        n_notes = sum("teacher" in exporters.tags_of(cell) for cell in notebook.cells)
        assert pages[address].count("<summary>For teachers</summary>") == n_notes, address
        shown = BeautifulSoup(pages[address], "html.parser").article
        for folded in shown.select("details"):
            folded.decompose()
        assert not shown.select("article > section > .cell pre"), f"{address} opens with code or its output"
        assert " from the cache" not in shown.text, address
    for name, text in pages.items():
        assert not LOADED.search(text), (name, LOADED.search(text)[0])
