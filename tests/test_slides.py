"""Slides of a route: what is on them, and how they look in a real Chromium, without a network."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from made_up_lesson import code, markdown, notebook, slide

from xaihelpers.paths import PROJECT
from xaihelpers.teaching import routes, slide_cells, slide_pages, slides
from xaihelpers.teaching.mathml import display_equations, with_mathml
from xaihelpers.teaching.openings import read_notebook
from xaihelpers.teaching.routes import Route, Step

CHROMIUM = next(filter(None, map(shutil.which, slide_pages.CHROMIUM)), None)
in_chromium = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: apt-get install chromium (make test does it where it can)"
    ),
    pytest.mark.xdist_group("browser"),
]
ROUTES = routes.read_routes()
PATIENCE = 120_000  # milliseconds; pages are drawn slowly where cores are shared
ON_ROUTES = sorted({number for route in ROUTES.values() for number in route.notebooks})
MEASURED = r"\b(?!(?:0|20|50|80|95|100) ?%)\d+ ?%|\d\.\d|\d points"  # of a run; levels of chance may be told

STEPS = (
    Step("13", (), 3, "discuss", "What is a crown?", ("It depends.",), 0),
    Step("13", ("1 · Crowns",), 5, "read", "Look at the bars.", (), 0),
    Step("13", ("2 · Hats",), 2, "read", "Look at the hats, please.", (), 0),
    Step("13", ("3 · More",), 3, "read", "Look at a picture of which no slide was made.", (), 0),
    Step("13", (), 2, "run", "Run it.", (), 0),
    Step("13", (), 6, "exercise", "Do it.", ("Mind x.",), 1),
    Step("13", (), 0, "skip", "Skip it.", (), 0),
)
ROUTE = Route("short", "A short route", "anybody", STEPS)


@pytest.fixture
def made(tmp_path):
    """The slides of a made-up route through a made-up notebook."""
    (tmp_path / "13_crowns.ipynb").write_text(json.dumps(notebook()))
    return slides.slides_of(ROUTE, tmp_path)


def test_equations_become_mathml_and_code_stays():
    made = with_mathml("Costs $5 and $6, `$a$`, C$_i^*$ and\n$$\\tfrac12\\lVert x\\rVert$$")
    assert made.count("<math") == 2 and "$5 and $6, `$a$`" in made
    assert "<mfrac>" in made and "\\" not in made
    assert "*" not in made, "a star in an equation is no emphasis"
    assert display_equations("a $$x=1$$ b\n\n$$y\n=2$$") == ["$$x=1$$", "$$y\n=2$$"]


def test_every_equation_of_the_notebooks_is_converted():
    for path in sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        for cell in read_notebook(path)["cells"]:
            if cell["cell_type"] == "markdown":
                converted = re.findall(r"<math.*?</math>", with_mathml(cell["source"]), re.DOTALL)
                unknown = [math for math in converted if "&#92;" in math or "\\" in math]
                assert not unknown, f"{path.name}: {unknown}"


@pytest.mark.parametrize(
    "told, complaint",
    [
        (slide(""), "a title has 1 to 60 letters"),
        (slide("x" * 61), "a title has 1 to 60 letters"),
        (slide("A", "b", "c", "d", "e"), "4 points, more than 3"),
        (slide("A", "word " * 15), "more than 14 words"),
        (slide("A", code=True), "its code has more than 12 lines"),
    ],
)
def test_a_slide_with_too_much_or_nothing_says_so(told, complaint):
    with pytest.raises(ValueError, match=complaint):
        slide_cells.slide_of(code("x = 1\n" * 13, "slide", **told))
    assert slide_cells.slide_of(markdown("no tag")) is None
    with pytest.raises(ValueError, match="without an equation has nothing to show"):
        slide_cells.slide_of(markdown("words", "slide", **slide("A")))


def test_slides_follow_the_plan(made):
    found = [(one.kind, one.title) for one in made]
    assert found == [
        ("plan", "A short route"),
        ("discuss", ""),
        ("opening", "Crowns"),
        ("predict", ""),  # before what answers it, though the plan does not name it
        ("cell", "Wide bars"),
        ("cell", "Square bars"),
        ("cell", "The share of crowns"),
        ("cell", "All birds"),
        ("cell", "Code"),
        ("cell", "More"),  # nothing is chosen there: its first figure
        ("run", ""),
        ("exercise", "Exercise 1 · look (notebook 13)"),
        ("learnt", "What was learnt"),
    ]
    assert "| 0–21 | 13 | Crowns |" in made[0].body
    assert made[3].body == "How many birds have a crown?\n\nWrite your guess down, 0 to 100 %."
    assert made[6].body.startswith("$$s=") and "No more." in made[6].notes
    assert made[8].code.startswith("x = 3") and made[8].output["data"].startswith("<<<")
    assert made[9].points == ("Look at a picture of which no slide was made.",)
    assert "What to see: *bars*." in made[4].notes and "minutes 3 to 8" in made[4].notes
    assert "- It depends." in made[1].notes and "- Mind x." in made[11].notes
    assert made[4].footer == "13 · minutes 3 to 8"


def test_a_prediction_is_read_from_its_cell():
    kept = (
        'question = "How many?"\nguess = guesses.ask("13", question, low=0, high=5, unit="of 5", guess=None)'
    )
    assert slide_cells.prediction_of({"source": kept}) == ("How many?", ", 0 to 5 of 5")
    assert slide_cells.prediction_of({"source": 'guesses.ask("13", f"{x}?", "%", 0, n)'}) == ("", "")


def test_a_long_table_and_long_prints_are_cut_and_say_so(made):
    cells = slide_pages.as_notebook(made, "A short route").cells
    shown = ["".join(output.data.values()) for cell in cells for output in cell.get("outputs", [])]
    (table,) = [text for text in shown if "<table>" in text]
    rows = table.count("<tr>") - 1
    assert 5 < rows < 20 and f"Birds (the first {rows} of 40 rows)" in table and "style" not in table
    (printed,) = [text for text in shown if text.startswith("&lt;")]
    assert re.search(r"… \d+ more lines$", printed)


def test_a_page_needs_nothing_but_the_files_beside_it(made, tmp_path):
    index = slide_pages.write_slides(made, "A short route", tmp_path / "slides")
    page = index.read_text()
    assert re.findall(r"(?:src|href)=\"(?!data:|reveal/|slides\.css)[^\"]*", page) == []
    for name in re.findall(r"(?:src|href)=\"((?:reveal|slides)[^\"]*)", page):
        assert (index.parent / name).is_file()
    assert "mathjax" not in page.lower() and "require" not in page and "jquery" not in page
    assert page.count("<section>") == len(made) == page.count('<aside class="notes">')


LOOK = """() => {
  const found = { outside: [], small: [] };
  const slide = Reveal.getCurrentSlide().querySelector(".slide");
  const page = slide.getBoundingClientRect();
  const shown = slide.querySelector(".shown");
  const inside = (box, room) => box.left >= room.left - 1 && box.right <= room.right + 1
    && box.top >= room.top - 1 && box.bottom <= room.bottom + 1;
  for (const element of slide.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    const room = shown && shown.contains(element) ? shown.getBoundingClientRect() : page;
    const name = `${element.tagName} ${element.textContent.slice(0, 40)} ${Math.round(box.bottom)}`;
    if (box.width && !inside(box, room)) found.outside.push(name);
    const text = [...element.childNodes].some(node => node.nodeType == 3 && node.textContent.trim());
    if (!text || element.closest("math")) continue;
    const least = element.closest(".shown, footer") ? 18 : element.closest("code") ? 20 : 24;
    if (parseFloat(getComputedStyle(element).fontSize) < least) found.small.push(name);
  }
  const image = slide.querySelector("img");
  if (image && (!image.naturalWidth || image.getBoundingClientRect().height < 250))
    found.small.push("figure");
  return found;
}"""


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[test]'")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        yield chromium
        chromium.close()


def faults(browser, index):
    """What is outside of a slide, too small on it or asked for elsewhere; and how many slides there are."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(PATIENCE)
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(index.as_uri())
    page.wait_for_function("window.slidesReady")
    count = page.evaluate("Reveal.getTotalSlides()")
    for number in range(count):
        page.evaluate(f"Reveal.slide({number})")
        for kind, names in page.evaluate(LOOK).items():
            wrong += [f"slide {number + 1}, {kind}: {name}" for name in names]
    page.close()
    wrong += [url for url in asked if not url.startswith(("file:", "data:"))]
    return wrong, count


@pytest.mark.parametrize("mark", [pytest.param(None, marks=in_chromium, id="made up")])
def test_every_slide_fits_and_can_be_read(mark, browser, made, tmp_path):
    index = slide_pages.write_slides(made, "A short route", tmp_path / "slides")
    assert faults(browser, index) == ([], len(made))


@pytest.mark.parametrize("route", [pytest.param(r, marks=in_chromium, id=n) for n, r in ROUTES.items()])
def test_the_slides_of_every_route_fit_and_can_be_read(route, browser, tmp_path):
    made = slides.slides_of(route)
    index = slide_pages.write_slides(made, route.title, tmp_path / "slides")
    assert faults(browser, index) == ([], len(made))


@pytest.mark.parametrize("mark", [pytest.param(None, marks=in_chromium, id="made up")])
def test_a_pdf_has_a_page_for_each_slide(mark, made, tmp_path):
    pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[test]'")
    index = slide_pages.write_slides(made, "A short route", tmp_path / "slides")
    with ThreadPoolExecutor(1) as other:  # this thread may hold the browser of another test
        pdf = other.submit(slide_pages.write_pdf, index).result()
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf.read_bytes())) == len(made)


@pytest.mark.parametrize("number", ON_ROUTES)
def test_every_notebook_on_a_route_gives_four_to_eight_slides(number):
    cells = read_notebook(routes.notebook_path(number))["cells"]
    chosen = [told for told in map(slide_cells.slide_of, cells) if told]
    assert 4 <= len(chosen) <= 8
    assert [slide_cells.slide_of(cell)["title"] for cell in cells if slide_cells.shows(cell)] == [
        t["title"] for t in chosen
    ]
    texts = [text for told in chosen for text in (told["title"], *told["points"])]
    assert [text for text in texts if re.search(MEASURED, text)] == []


@pytest.mark.parametrize("route", ROUTES.values(), ids=list(ROUTES))
def test_a_route_has_about_as_many_slides_as_its_minutes_allow(route):
    assert len(slides.slides_of(route)) <= 1.1 * route.minutes
