"""The static site: built from the committed notebooks without running them; it stands alone."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from xaihelpers.parameters import declared_parameters, parameters_hash
from xaihelpers.site import docstring_text, figure_texts, math_renderer, notebook_page, online_copies
from xaihelpers.site.notebook_set import GROUPS

PROJECT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
REPOSITORY = "somebody/some-project"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
WIDTHS = (360, 768, 820, 1280)
# one page of each kind
KINDS = {
    "front": "index.html",
    "notebook": "notebooks/82_attention_costs.html",
    "equations": "equations.html",
    "gallery": "gallery.html",
    "api": "api/kernels.html",
    "report": "report.html",
    "search": "search.html?q=gauge",
}
pytestmark = pytest.mark.xdist_group("site")  # one build for all
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
# marks one text of each look on a page, for the contrast of every one of thousands alike would take minutes
SAMPLE = """() => {
  const seen = new Set();
  for (const element of document.querySelectorAll("body *")) {
    if (element.children.length || !element.textContent.trim()) continue;
    const place = element.closest("pre, td, th, summary, nav, aside, figure, li, dt, p, h1, h2, h3");
    const look = [element.tagName, element.className, place?.tagName, place?.parentElement.className].join();
    if (!seen.has(look)) { seen.add(look); element.setAttribute("data-sample", ""); }
  }
}"""
BUILD = """
import sys
from xaihelpers.site.__main__ import main
code = main()
assert "torch" not in sys.modules, "the site waits for torch"
sys.exit(code)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a whole site, with links to Colab and a report, and what its command said."""
    place = tmp_path_factory.mktemp("site")
    report = place / "report.html"
    report.write_text("<!DOCTYPE html><html lang=en><title>The report</title><h1>The report</h1></html>")
    options = ["--out", str(place / "site"), "--repository", REPOSITORY, "--report", str(report)]
    command = [sys.executable, "-c", BUILD, *options]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return place / "site", done


@pytest.fixture(scope="module")
def pages(built):
    """Path below the site -> HTML of each page."""
    folder, _ = built
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.html"))}


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[test]'")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


def cells(path):
    return json.loads(path.read_text())["cells"]


def source(cell):
    return "".join(cell["source"])


def page_of(pages, path):
    return pages[f"notebooks/{path.stem}.html"]


def test_it_is_built_without_a_warning(built):
    folder, done = built
    assert done.stderr.strip() == ""
    assert re.search(r"^\d+ pages in \d+ s: .*index\.html$", done.stdout, re.MULTILINE)
    assert not list(folder.rglob(".doctrees"))


def test_another_folder_is_not_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    command = [sys.executable, "-m", "xaihelpers.site", "--out", str(tmp_path), "--repository", ""]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "name another folder" in done.stderr
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_every_notebook_has_a_page_and_the_front_page_leads_to_it(pages):
    for path in NOTEBOOKS:
        assert f'href="notebooks/{path.stem}.html"' in pages["index.html"], path.stem
        assert "</h1>" in page_of(pages, path)


def test_no_page_loads_anything_from_elsewhere(built, pages):
    folder, _ = built
    loading = re.compile(
        r"""<(?:script|img|iframe|source|embed|audio|video)\b[^>]*\bsrc\s*=\s*["']?(?:https?:)?//"""
        r"""|<link\b[^>]*\bhref\s*=\s*["']?(?:https?:)?//|<object\b|@import\s+(?:url\()?["']?(?:https?:)?//"""
        r"""|url\(\s*["']?(?:https?:)?//|<base\b""",
        re.IGNORECASE,
    )
    for name, text in pages.items():
        assert not loading.search(text), (name, loading.search(text)[0])
    for path in [*folder.rglob("*.css"), *folder.rglob("*.js")]:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        found = re.search(r"""url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//|importScripts""", text)
        assert not found, path
    scripts = {match for text in pages.values() for match in re.findall(r'<script[^>]*src="([^"]+)"', text)}
    assert scripts and all("//" not in address for address in scripts)


def test_every_link_leads_somewhere(built, pages):
    folder, _ = built
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    identifiers = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    checked = 0
    for name, text in pages.items():
        for address in set(re.findall(r'\b(?:href|src)="([^"]+)"', text)):
            parts = urlsplit(html.unescape(address))
            if parts.scheme in ("http", "https", "data"):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(name), unquote(parts.path)))
            target = target if parts.path else name
            assert target in files, f"{name} leads to {address}, which is not there"
            if parts.fragment and target in identifiers:
                known = identifiers[target]
                assert unquote(parts.fragment) in known, f"{name} leads to {address}: no such place"
            checked += 1
    assert checked > 1000


def test_equations_are_mathml(pages):
    for path in NOTEBOOKS:
        text = page_of(pages, path)
        plain = re.sub(r"<(pre|code)\b.*?</\1>|<math\b.*?</math>", "", text, flags=re.DOTALL)
        plain = re.sub(r"<[^>]+>", "", plain)
        assert "$$" not in plain and r"\frac" not in plain and r"\hat" not in plain, path.stem
        prose = "\n".join(source(cell) for cell in cells(path) if cell["cell_type"] == "markdown")
        shown = len(re.findall(r"(?m)^\$\$|\$\$$", prose)) // 2
        assert text.count('display="block"') >= shown, path.stem
    assert "MathJax" not in "".join(pages.values())


def test_every_figure_says_what_it_shows(pages):
    for name, text in pages.items():
        for image in re.findall(r"<img\b[^>]*>", text):
            alt = re.search(r'alt="([^"]*)"', image)
            assert alt and len(alt[1]) > 10, (name, image[:200])
    texts = {}
    for path in NOTEBOOKS:
        figures = sum("image/png" in o.get("data", {}) for c in cells(path) for o in c.get("outputs", []))
        images = re.findall(r'<img alt="([^"]*)"', page_of(pages, path))
        assert len(images) >= figures, path.stem
        texts[path.stem] = images
    assert "five most important concepts" in " ".join(texts["13_existence_and_location"])


def test_every_table_scrolls_in_a_box_that_the_keyboard_reaches(pages):
    opening = (
        r'<div class="(?:table-box|table-wrapper[^"]*)" role="group" tabindex="0" aria-label="[^"]+">\s*'
    )
    for path in NOTEBOOKS:
        text = page_of(pages, path)
        assert len(re.findall(opening + "<table", text)) == len(re.findall(r"<table\b", text)), path.stem


def test_every_table_of_results_leads_to_its_run(pages):
    for path in NOTEBOOKS:
        of_notebook = cells(path)
        text = page_of(pages, path)
        html_of = [
            "".join(output["data"].get("text/html", ""))
            for cell in of_notebook
            for output in cell.get("outputs", [])
            if "data" in output
        ]
        tables = sum(part.count("<table") for part in html_of)
        target = f"how-this-was-run-{path.name[:2]}"
        assert len(re.findall(rf'class="of-run" href="#{target}">', text)) == tables, path.stem
        assert f'id="{target}"' in text
        parameters = next(source(c) for c in of_notebook if "parameters" in c["metadata"].get("tags", []))
        defaults = {name: value for name, (_, value) in declared_parameters(parameters).items()}
        run = f"{path.name[:2]}-{parameters_hash(defaults)}"
        assert run in text
        printed = "".join("".join(o.get("text", "")) for c in of_notebook for o in c.get("outputs", []))
        for name in re.findall(rf"\b(?:recorded|kept) in ({path.name[:2]}-[0-9a-f]{{10}})\b", printed):
            assert name == run, "the committed outputs are of another run than the parameters say"
        block = text[text.index(f'id="{target}"') :]
        for name in defaults:
            assert name in block
        assert f"papermill notebooks/{path.name}" in re.sub(r"<[^>]+>", "", block)
        assert "torch 2" in block or "import torch" not in text


def test_answers_stay_folded(pages):
    for path in NOTEBOOKS:
        folded = [c for c in cells(path) if c["metadata"].get("jupyter", {}).get("source_hidden")]
        text = page_of(pages, path)
        assert len(re.findall(r'<details class="[^"]*\bhide\b', text)) >= len(folded), path.stem
        assert "<details open" not in text


def test_the_gallery_shows_birds_of_many_notebooks(built, pages):
    text = pages["gallery.html"]
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    assert len(captions) == text.count("<figure") >= 30
    shown = {number for caption in captions for number in re.findall(r'href="notebooks/(\d\d)_', caption)}
    assert {"00", "13", "51", "53"} <= shown
    assert all('href="notebooks/' in caption for caption in captions)


def test_the_index_of_equations_leads_to_notebooks_and_functions(pages):
    text = pages["equations.html"]
    readme = (PROJECT / "data" / "papers" / "README.md").read_text()
    index = readme[readme.index("| paper |") : readme.index("\n## Claims")]
    for name in set(re.findall(r"`(\w+(?:\.\w+)+)`", index)):
        assert re.search(rf'href="api/\w+\.html#xaihelpers\.{re.escape(name)}"', text), name
    assert len(re.findall(r'href="papers/\w+\.csv"', text)) == len(re.findall(r"\]\(\w+\.csv\)", index))
    assert re.search(r'href="notebooks/13_existence_and_location\.html#[^"]+"[^>]*>.{0,40}Location', text)


def test_the_functions_of_every_module_are_there(pages):
    everything = "".join(text for name, text in pages.items() if name.startswith("api/"))
    known = set(re.findall(r'id="(xaihelpers[\w.]*)"', everything))
    for path in (PROJECT / "xaihelpers").rglob("*.py"):
        if path.stem in ("__init__", "__main__"):
            continue
        module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for name in re.findall(r"(?m)^(?:def|class) ([A-Za-z]\w*)", path.read_text()):
            assert f"{module}.{name}" in known


def test_links_to_colab_and_binder_lead_to_files(built, pages):
    folder, _ = built
    colab = f"https://colab.research.google.com/github/{REPOSITORY}/blob/{online_copies.BRANCH}/"
    binder = f"https://mybinder.org/v2/gh/{REPOSITORY}/HEAD?labpath="
    assert (PROJECT / "environment.yml").is_file()  # what Binder makes its environment from
    for path in NOTEBOOKS:
        addresses = [html.unescape(link) for link in re.findall(r'href="([^"]+)"', page_of(pages, path))]
        (of_colab,) = {link.removeprefix(colab) for link in addresses if link.startswith(colab)}
        (of_binder,) = {link.removeprefix(binder) for link in addresses if link.startswith(binder)}
        assert (PROJECT / unquote(of_binder)) == path
        copied = cells(folder / of_colab)
        assert "-c constraints.txt" in source(copied[0]) and f"github.com/{REPOSITORY}" in source(copied[0])
        assert [source(cell) for cell in copied[1:]] == [source(cell) for cell in cells(path)]


def test_without_a_repository_there_are_no_such_links():
    class Some:
        path = NOTEBOOKS[0]

    assert online_copies.addresses(Some, "") == {}
    with pytest.raises(ValueError, match="owner/name"):
        online_copies.checked_repository("https://github.com/a/b")


def test_a_remote_is_read_in_both_spellings(tmp_path):
    addresses = ["git@github.com:an-owner/a.project.git", "https://github.com/an-owner/a.project"]
    for n, address in enumerate(addresses):
        folder = tmp_path / str(n)
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", address], check=True)
        assert online_copies.repository_of(folder) == "an-owner/a.project"
    assert online_copies.repository_of(tmp_path / "nothing") == ""


def test_the_report_of_this_machine_is_taken_in(built, pages):
    assert 'href="full_report.html"' in pages["report.html"]
    assert "<h1>The report</h1>" in pages["full_report.html"]


def test_myst_knows_every_notebook():
    told = yaml.safe_load((PROJECT / "myst.yml").read_text())
    assert told["version"] == 1 and told["site"]["template"] == "book-theme"
    assert set(told["project"]) <= {"title", "description", "license", "keywords", "toc"}
    files = []
    for entry in told["project"]["toc"]:
        assert set(entry) in ({"file"}, {"title", "children"})
        children = entry.get("children", [entry])
        assert all(set(child) == {"file"} for child in children)
        files += [child["file"] for child in children]
    assert all((PROJECT / file).is_file() for file in files)
    assert [Path(file).name for file in files if file.startswith("notebooks/")] == [p.name for p in NOTEBOOKS]
    assert [entry["title"] for entry in told["project"]["toc"] if "title" in entry] == [*GROUPS.values()]


def test_captions_without_running_anything():
    code = 'caption = (\n    f"Scores of {model}, {len(x)} draws; "\n    "dots are draws."\n)\n'
    code += 'run.figure(fig, "scores", caption)\n'
    assert figure_texts.caption_of(code, {"model": "cbm"}) == "Scores of cbm, … draws; dots are draws."
    assert figure_texts.caption_of('run.figure(fig, "a", "Plain.")', {}) == "Plain."
    assert figure_texts.caption_of("plt.show()", {}) == ""
    assert figure_texts.axis_labels('ax.set(xlabel="share (%)", ylabel="CEM")') == "share (%) and CEM"


def test_docstrings_as_markdown():
    docstring = (
        "Weights *w* of a head.\n\n    rows: (N, L),\n        one each. All.\n    Raises ValueError: empty."
    )
    expected = (
        "Weights \\*w\\* of a head.\n\n- **rows**: (N, L), one each. All.\n- **Raises** ValueError: empty."
    )
    assert docstring_text.markdown(docstring) == expected
    literal = docstring_text.markdown("An equation.\n\n        a = b * c\n")
    assert "```text\na = b * c\n```" in literal or "a = b \\* c" in literal
    assert docstring_text.summary("One, of two. Then more.") == "One, of two."


def test_anchors_of_headings():
    text = "# 13 · A title\n\n```\n# no heading\n```\n\n## 1 · Existence\ntext"
    found = notebook_page.with_anchors("13", text, set())
    assert "(13-a-title)=\n# 13" in found and "(13-existence)=\n## 1" in found and found.count(")=") == 2


def test_an_equation_that_cannot_be_shown_is_an_error():
    assert 'alttext="\\frac a b"' in math_renderer.equation_html(r"\frac a b")
    assert "x" in math_renderer.equation_html(r"\bigl\lVert x\bigr\rVert")
    with pytest.raises(ValueError, match="notacommand"):
        math_renderer.equation_html(r"\notacommand{x}")


@needs_chromium
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_browser(built, browser, kind):
    """Nothing is asked of another host, no page scrolls sideways, and axe has no serious finding."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    folder, _ = built
    asked, wide, found = set(), [], []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.route("**/*", lambda route: (asked.add(route.request.url), route.continue_()))
    page.goto(f"{folder.as_uri()}/{KINDS[kind]}")
    page.wait_for_load_state()
    if kind == "search":
        page.wait_for_selector("#search-results li a")
        assert page.locator("#search-results li").count() > 2
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        scrolls = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if scrolls[0] > scrolls[1]:
            wide.append((width, scrolls[0]))
    page.evaluate(SAMPLE)
    contrast = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
    others = {"rules": {"color-contrast": {"enabled": False}}, "resultTypes": ["violations"]}
    sampled = [["[data-sample]"]]
    for scheme, options, context_ in (
        ("light", others, None),
        ("light", contrast, sampled),
        ("dark", contrast, sampled),
    ):
        page.emulate_media(color_scheme=scheme)
        for violation in axe.run(page, context=context_, options=options).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [node["html"][:200] for node in violation["nodes"][:3]]
                found.append((scheme, violation["id"], len(violation["nodes"]), nodes))
    context.close()
    assert not [address for address in asked if urlsplit(address).scheme not in ("file", "data")]
    assert not wide
    assert not found


@needs_chromium
def test_a_reader_with_a_keyboard_reaches_tables_and_answers(built, browser):
    folder, _ = built
    context = browser.new_context(viewport={"width": 360, "height": 800}, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{folder.as_uri()}/notebooks/21_bottleneck_models.html")
    table = page.locator(".table-box").first
    table.focus()
    before = table.evaluate("box => box.scrollLeft")
    assert table.evaluate("box => box.scrollWidth > box.clientWidth")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert table.evaluate("box => box.scrollLeft") > before
    answer = page.locator("details.hide").last
    assert not answer.evaluate("details => details.open")
    answer.locator("summary").focus()
    page.keyboard.press("Enter")
    assert answer.evaluate("details => details.open")
    button = page.get_by_role("button", name="Hide the code")
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("div.cell > div.cell_input").first.is_hidden()
    context.close()
