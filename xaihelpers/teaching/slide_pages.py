"""Slides as a page of reveal.js that needs no network, and as a PDF.

reveal.js comes with the package sphinx-revealjs; the page is made by nbconvert's SlidesExporter from a
notebook with three cells for each slide: its text, its output, and the speaker's notes.
"""

import html
import importlib.util
import shutil
from pathlib import Path

import matplotlib
import nbformat
from bs4 import BeautifulSoup
from nbconvert import SlidesExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from xaihelpers.teaching import slide_layout as layout
from xaihelpers.teaching.mathml import with_mathml
from xaihelpers.teaching.slides import Slide

HERE = Path(__file__).parent
REVEAL = ["dist/reset.css", "dist/reveal.css", "dist/reveal.js", "dist/theme/fonts", "plugin/notes/notes.js"]
REVEAL += ["plugin/notes/speaker-view.html", "LICENSE"]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def write_slides(slides: list[Slide], title: str, folder: Path) -> Path:
    """Write `index.html` and what it needs beside it. Returns its path.

    Raises ValueError if reveal.js is not installed.
    """
    exporter = SlidesExporter(exclude_anchor_links=True)
    exporter.raw_template = (HERE / "slides.html.j2").read_text()
    exporter.reveal_url_prefix = "reveal"
    page, _ = exporter.from_notebook_node(as_notebook(slides, title))
    folder.mkdir(parents=True, exist_ok=True)
    _copy_assets(folder)
    index = folder / "index.html"
    index.write_text(page)
    return index


def as_notebook(slides: list[Slide], title: str) -> nbformat.NotebookNode:
    """The notebook that is exported: cells of text, output and notes for each slide."""
    cells = []
    for number, slide in enumerate(slides, 1):
        size = layout.size_of_output(slide)
        text = new_markdown_cell(with_mathml(_text(slide)))
        text.metadata.slideshow = {"slide_type": "slide"}
        text.metadata.slide = {"kind": slide.kind, "look": layout.look(slide)}
        text.metadata.slide |= {"equations": "$$" in slide.body, "size": layout.size_of_equations(slide)}
        cells.append(text)
        if slide.code or slide.output:
            shown = new_code_cell(slide.code, outputs=_outputs(slide, size))
            shown.metadata.slide = {"title": slide.title, "size": size}
            cells.append(shown)
        notes = new_markdown_cell(with_mathml(slide.notes))
        notes.metadata.slideshow = {"slide_type": "notes"}
        notes.metadata.slide = {"footer": slide.footer, "number": f"{number} / {len(slides)}"}
        cells.append(notes)
    return new_notebook(cells=cells, metadata={"title": title})


def _text(slide: Slide) -> str:
    label = f'<p class="label">{slide.label}</p>\n\n' if slide.label else ""
    title = f"# {slide.title}\n\n" if slide.title else ""
    points = "\n".join(f"- {point}" for point in slide.points)
    equations = "\n\n".join(f"$${equation}$$" for equation in layout.equations_of(slide))
    return f"{label}{title}{points}\n\n{equations or slide.body}"


def _outputs(slide: Slide, size: int) -> list:
    if not slide.output:
        return []
    kind, data = slide.output["type"], slide.output["data"]
    if kind == "image/png":
        return [new_output("display_data", data={kind: data.strip()})]
    rows = layout.rows_that_fit(slide, size)
    if kind == "text/html":
        return [new_output("display_data", data={kind: _plain_table(data, rows)})]
    lines = data.rstrip().splitlines()
    more = [f"… {len(lines) - rows + 1} more lines"] if len(lines) > rows else []
    kept = lines[: rows - 1] if more else lines
    return [new_output("display_data", data={kind: html.escape("\n".join(kept + more))})]


def _plain_table(text: str, rows: int) -> str:
    """A table without the notebook's styles, and as many of its rows as fit."""
    soup = BeautifulSoup(text, "html.parser")
    table = soup.find("table")
    if table is None:
        return f"<p>{html.escape(soup.get_text())}</p>"
    for tag in [table, *table.find_all(True)]:
        tag.attrs = {name: value for name, value in tag.attrs.items() if name in ("colspan", "rowspan")}
    body = table.find("tbody") or table
    lines = body.find_all("tr")
    room = rows - (len(table.find_all("tr")) - len(lines))
    caption = table.find("caption")
    said = caption.extract().decode_contents() if caption else ""
    if len(lines) > room:
        for line in lines[room - 1 :]:
            line.extract()
        said = f"{said} (the first {room - 1} of {len(lines)} rows)".strip()
    return f"{table}<p class='caption'>{said}</p>" if said else str(table)


def _copy_assets(folder: Path) -> None:
    found = importlib.util.find_spec("sphinx_revealjs")
    if found is None:
        raise ValueError("slides need sphinx-revealjs, which brings reveal.js: pip install -e '.[docs]'")
    package = Path(found.submodule_search_locations[0]) / "_static" / "revealjs"
    for name in REVEAL:
        target = folder / "reveal" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (package / name).is_dir():
            shutil.copytree(package / name, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(package / name, target)
    # letters of equations, where the machine has no font for them
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    shutil.copyfile(fonts / "STIXGeneral.ttf", folder / "reveal" / "STIXGeneral.ttf")
    shutil.copyfile(HERE / "slides.css", folder / "slides.css")


def write_pdf(index: Path) -> Path:
    """A PDF of the page beside it, a page a slide, printed by Chromium. Returns its path.

    Raises ValueError without playwright or a Chromium.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise ValueError("a PDF needs playwright: pip install -e '.[test]'") from None
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if browser is None:
        raise ValueError(
            "a PDF needs Chromium (make chromium installs it where it may); or print the page yourself"
        )
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page()
        page.set_default_timeout(120_000)  # milliseconds
        page.goto(f"{index.resolve().as_uri()}?print-pdf")
        page.wait_for_function("window.slidesReady && document.querySelector('.pdf-page')")
        pdf = index.with_suffix(".pdf")
        page.pdf(path=pdf, prefer_css_page_size=True, print_background=True)
        chromium.close()
    return pdf
