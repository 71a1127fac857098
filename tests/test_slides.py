"""Slides of a route: they open without a network, and a slide that holds too much says so."""

import re

import pytest
from browser_lab import MARKS

from xaihelpers.teaching import routes, slide_cells, slide_pages, slides

ROUTE = routes.find_route("45")


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The page of a route's slides."""
    made = slides.slides_of(ROUTE)
    return slide_pages.write_slides(made, ROUTE.title, tmp_path_factory.mktemp("slides"))


def test_a_page_needs_nothing_but_the_files_beside_it(index):
    page = index.read_text()
    assert re.findall(r"(?:src|href)=\"(?!data:|reveal/|slides\.css)[^\"]*", page) == []
    for name in re.findall(r"(?:src|href)=\"((?:reveal|slides)[^\"]*)", page):
        assert (index.parent / name).is_file()
    for number in ROUTE.notebooks:
        assert f'<p class="label">{number}</p>' in page
    assert page.count("<section>") == page.count('<aside class="notes">') > len(ROUTE.steps)


@pytest.mark.parametrize("mark", [pytest.param(None, marks=MARKS, id="chromium")])
def test_slides_open_without_a_network(mark, index, browser):
    page = browser.new_page()
    page.set_default_timeout(120_000)
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(index.as_uri())
    page.wait_for_function("window.slidesReady")
    assert page.evaluate("Reveal.getTotalSlides()") == index.read_text().count("<section>")
    page.evaluate("Reveal.slide(2)")
    assert page.evaluate("Reveal.getCurrentSlide().innerText.length") > 20
    page.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def cell(kind, source, title, *points, code=False):
    told = {"slide": {"title": title, "points": [*points], "code": code}}
    return {"cell_type": kind, "source": source, "metadata": {"tags": ["slide"], "xaihelpers": told}}


@pytest.mark.parametrize(
    "cell, complaint",
    [
        (cell("code", "x = 1", ""), "a title has 1 to 60 letters"),
        (cell("code", "x = 1", "x" * 61), "a title has 1 to 60 letters"),
        (cell("code", "x = 1", "A", "b", "c", "d", "e"), "4 points, more than 3"),
        (cell("code", "x = 1", "A", "word " * 15), "more than 14 words"),
        (cell("code", "x = 1\n" * 13, "A", code=True), "its code has more than 12 lines"),
        (cell("markdown", "words", "A"), "without an equation has nothing to show"),
    ],
)
def test_a_slide_with_too_much_or_nothing_says_so(cell, complaint):
    with pytest.raises(ValueError, match=complaint):
        slide_cells.slide_of(cell)
