"""Build the site: what Sphinx reads goes into a temporary folder, and what it makes becomes the site."""

import io
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sphinx.application import Sphinx

from xaihelpers.paths import PROJECT
from xaihelpers.site.api_pages import api_pages
from xaihelpers.site.equation_index import index_page, read_index, used_where
from xaihelpers.site.front_page import front_page, navigation
from xaihelpers.site.gallery import gallery_page, pictures
from xaihelpers.site.notebook_page import page_of
from xaihelpers.site.notebook_set import Notebook, read_notebooks, source_of
from xaihelpers.site.online_copies import addresses, colab_copy
from xaihelpers.site.report_page import report_page
from xaihelpers.site.run_settings import ANCHOR, settings_cell
from xaihelpers.teaching.routes import Route, read_routes

log = logging.getLogger(__name__)
HERE = Path(__file__).parent
ASSETS = ("site.css", "site.js")
MARK = ".xaihelpers-site"  # a file that says: this folder is ours to replace


class SiteError(RuntimeError):
    """The site cannot be built or written."""


@dataclass
class Built:
    """What was built."""

    folder: Path
    seconds: float
    pages: int
    warnings: list[str] = field(default_factory=list)


def build_site(out: Path, repository: str = "", report: Path | None = None, project: Path = PROJECT) -> Built:
    """Write the site into a folder, in the place of an earlier one.

    repository: owner/name on GitHub, for links to Colab and Binder; "" for none. report: the report of
        notebook 99 of this machine, None if there is none. project: the checkout.
    Raises SiteError if the folder holds something else, and for a page that Sphinx cannot make.
    """
    begun = time.perf_counter()
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise SiteError(f"{out} is not empty and no site: name another folder by --out, or remove it.")
    with tempfile.TemporaryDirectory(prefix="xaihelpers-site-") as temporary:
        source, html = Path(temporary) / "source", Path(temporary) / "html"
        notebooks = read_notebooks(project / "notebooks", project / "README.md")
        write_source(source, notebooks, project, repository, report)
        warnings = run_sphinx(source, html, notebooks)
        for name in (".buildinfo", "objects.inv", ".doctrees"):
            (html / name).unlink(missing_ok=True)
        (html / ".nojekyll").touch()
        (html / MARK).write_text("written by python -m xaihelpers.site\n")
        _put_in_place(html, out)
        pages = len(list(out.rglob("*.html")))
    return Built(out, time.perf_counter() - begun, pages, warnings)


def write_source(
    source: Path, notebooks: Mapping[str, Notebook], project: Path, repository: str, report: Path | None
) -> None:
    """Write what Sphinx reads: pages in markdown, notebooks, pictures, and files to be copied."""
    (source / "notebooks").mkdir(parents=True)
    (source / "_static").mkdir()
    extra = source / "_extra"
    (extra / "papers").mkdir(parents=True)
    for name in ASSETS:
        shutil.copy(HERE / name, source / "_static" / name)
    for picture in (project / "notebooks").glob("*.png"):
        shutil.copy(picture, source / "notebooks" / picture.name)
    for table in (project / "data" / "papers").glob("*_*.csv"):
        shutil.copy(table, extra / "papers" / table.name)
    shutil.copy(project / "constraints.txt", extra / "constraints.txt")
    if report is not None:
        shutil.copy(report, extra / "full_report.html")

    routes = [*read_routes(project / "data" / "teaching" / "routes.yaml").values()]
    for notebook in notebooks.values():
        facts = page_facts(notebook, routes, notebooks, repository)
        page = page_of(notebook, facts, settings_cell(notebook, project / "constraints.txt"))
        (source / f"{notebook.document}.ipynb").write_text(json.dumps(page))
        if repository:
            (extra / "colab").mkdir(exist_ok=True)
            (extra / "colab" / notebook.path.name).write_text(colab_copy(notebook, repository))

    rows = read_index(project / "data" / "papers" / "README.md")
    pages = {
        "index": front_page((project / "README.md").read_text(), notebooks, routes, project / "notebooks"),
        "equations": index_page(rows, notebooks),
        "gallery": gallery_page(list(pictures(notebooks)), source),
        "report": report_page(report, notebooks),
    }
    pages |= api_pages(project / "xaihelpers", used_where(rows, notebooks))
    (source / "api").mkdir()
    for document, text in pages.items():
        (source / f"{document}.md").write_text(text)


def page_facts(
    notebook: Notebook, routes: list[Route], notebooks: Mapping[str, Notebook], repository: str
) -> list[str]:
    """The lines below a notebook's title: minutes, how it was run, where to open it, its place on routes."""
    parts = [f"{{ref}}`How this was run <{ANCHOR}-{notebook.number}>`"]
    if "**Minutes.**" not in source_of(notebook.cells[0]):  # the notebook says it itself
        reading, running = notebook.minutes
        parts.insert(0, f"{reading} min to read, {running} min to run on two cores")
    for service, address in addresses(notebook, repository).items():
        parts.append(f"[open in {service}]({address})")
    lines = [" · ".join(parts)]
    for route in routes:
        stops = route.notebooks
        if notebook.number not in stops:
            continue
        at = stops.index(notebook.number)
        name = f"Route of {route.minutes} minutes" if route.name.isdigit() else f"Session “{route.title}”"
        place = f"{name}: stop {at + 1} of {len(stops)}"
        if at:
            before = notebooks[stops[at - 1]]
            place += f" · before it [{before.number} {before.name}]({before.path.name})"
        if at + 1 < len(stops):
            after = notebooks[stops[at + 1]]
            place += f" · next [{after.number} {after.name}]({after.path.name})"
        lines.append(place)
    return lines


def run_sphinx(source: Path, html: Path, notebooks: Mapping[str, Notebook]) -> list[str]:
    """Make HTML of a folder of sources; returns what Sphinx warned of."""
    warnings = io.StringIO()
    settings = {
        "html_extra_path": [str(source / "_extra")],
        "html_static_path": [str(source / "_static")],
        "exclude_patterns": ["_extra"],
        "xai_navigation": navigation(notebooks),
        "xai_notebooks": {number: notebook.document for number, notebook in notebooks.items()},
    }
    app = Sphinx(
        source,
        HERE,
        html,
        source.parent / "doctrees",
        "html",
        confoverrides=settings,
        status=None,
        warning=warnings,
        freshenv=True,
        parallel=2,
    )
    app.build(force_all=True)
    if app.statuscode:
        raise SiteError(f"Sphinx failed: {warnings.getvalue()[-2000:]}")
    return [line for line in warnings.getvalue().splitlines() if line.strip()]


def _put_in_place(new: Path, out: Path) -> None:
    """Move a finished site to where it belongs, in the place of an earlier one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.move(new, beside)
    if out.exists():
        shutil.rmtree(out)
    beside.rename(out)
