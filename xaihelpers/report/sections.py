"""The sections of the page: contents, how to read it, what was run, and one for each paper."""

from html import escape

import nbformat
import pandas as pd

from xaihelpers.report.about_papers import PAPERS
from xaihelpers.report.findings import Findings, where
from xaihelpers.report.page_cells import figure_html, html_cell
from xaihelpers.report.run_tables import made_html, runs_html
from xaihelpers.report.table_cells import DEFINITIONS, anchor, table_cell, table_title, tables_shown

HOW_TO_READ = """<p>Five papers ask, each in its own way, whether the concept explanations of
vision models can be trusted. The notebooks of this collection repeat their experiments. This page
sets what they found beside what the papers print.</p>
<ul><li><b class=paper-mark>paper</b> is the printed number, on the paper's own data and model, as
named in the heading of the column. It was not measured here.</li>
<li><b>this run</b> is the number measured here, on the data and the model in its heading. On other
data, such as the drawn birds of the <i>aviary</i>, a number need not equal the paper's: compare
the order of the rows and the distance from chance.</li>
<li><b>interval</b>: 95 % interval over the cases, by their clusters, and over the draws.
<b>cases</b>: how many images, pairs or classes the number is a mean over; <b>effective</b>: how
many independent ones it is worth. <b>chance</b>: what a method that knows nothing would get.</li>
<li>A number marked <b>void</b> was made by an instrument that failed a control: it decides nothing.
The notes below the tables say which.</li>
<li>The heading of a column, and a number of the ledger, lead to the run that made them: its
parameters, seed and versions, and the command that makes it again.</li>
<li>A dash is a number that the paper does not print, or that was not measured.</li></ul>"""
YARDSTICKS = """A verdict is worth what its yardstick is. Lies of known kind (columns) were planted
in models, maps, annotators, judges and substitutions, at known doses: which yardstick (rows) moves
against the lie, which is blind to it, and which praises it? Rings: it takes a harmless change for
something. An empty place: the yardstick does not apply."""
OWN_TITLE = "The collection's own measurements"
OWN_QUESTION = (
    "What no paper prints: the shipped models, the speed of the kernels, "
    "and other measurements of this collection."
)
OWN_TENS = "06789"


def papers_shown(found: Findings) -> dict[str, str]:
    """The papers that have a section, in order, and their titles; at the end "collection"."""
    shown = {}
    for paper in dict.fromkeys([*PAPERS.index, *found.recorded.paper]):
        if paper != "collection":
            shown[paper] = PAPERS.title.get(paper, paper)
    if any(entry["notebook"][0] not in "12345" for entry in found.runs):
        shown["collection"] = OWN_TITLE
    return shown


def section(found: Findings, paper: str) -> list[nbformat.NotebookNode]:
    """All that is known of a paper, or of the collection's own measurements, as cells.

    Its tables, then the notes and figures of the runs of its notebooks.
    """
    title, question = PAPERS.title.get(paper, paper), PAPERS.question.get(paper, "")
    tens = PAPERS.tens.get(paper, "-")
    if paper == "collection":
        title, question, tens = OWN_TITLE, OWN_QUESTION, OWN_TENS
    cells = [html_cell(f"<h2 id={escape(paper)}>{escape(title)}</h2><p>{escape(question)}</p>")]
    cells += [table_cell(found, paper, table) for table in tables_shown(found, paper)]
    used = ", ".join(table for other, table in sorted(DEFINITIONS) if other == paper)
    if used:
        text = f"Tables {used} of the paper are definitions that the notebooks use; "
        text += "there is nothing to measure in them."
        cells.append(html_cell(f"<p class=quiet>{text}</p>"))
    belonging = [entry for entry in found.runs if entry["notebook"][0] in tens]
    belonging = sorted(belonging, key=lambda entry: entry["notebook"])
    return [*cells, html_cell(_notes_html(paper, belonging)), *_figure_cells(belonging)]


def contents_cells(found: Findings) -> list[nbformat.NotebookNode]:
    """The contents of the page, and how to read it."""
    parts = {"runs": "What was run", **papers_shown(found), "grid": "A grid of runs"}
    lines = "".join(_contents_line(found, name, title) for name, title in parts.items())
    return [html_cell(f"<h2>Contents</h2><ul>{lines}</ul>"), html_cell(HOW_TO_READ)]


def runs_cell(found: Findings, overview: pd.DataFrame) -> nbformat.NotebookNode:
    """The runs as a table, as of `findings.overview`, and how each was made.

    Versions that all of them share stand below the table.
    """
    versions = set(overview.get("versions", [])) - {""}
    table, below = overview, ""
    if len(versions) == 1:
        table = overview.drop(columns="versions")
        below = f"<p class=quiet>All with {escape(versions.pop())}.</p>"
    return html_cell(f"<h2 id=runs>What was run</h2>{runs_html(table)}{below}{made_html(found.runs)}")


def yardsticks_cell(found: Findings) -> nbformat.NotebookNode:
    """The second page of a printed report: which yardstick sees which lie, by notebook 62."""
    html = "<p class=quiet>Not known yet: run notebook 62, and then notebook 99 again.</p>"
    for entry in found.runs:  # the last that kept its figure
        file = entry["folder"] / "yardsticks.png"
        if entry["notebook"] == "62" and file.is_file():
            html = figure_html(file, f"{YARDSTICKS} ({where(entry)})")
    title = "Which yardstick sees which lie"
    return html_cell(f"<h2 id=yardsticks style='break-before: page'>{title}</h2>{html}")


def grid_cell(figure: str) -> nbformat.NotebookNode:
    """The figure of a grid of runs, as HTML."""
    nothing = "<p class=quiet>No grid among these runs.</p>"
    return html_cell(f"<h2 id=grid>A grid of runs</h2>{figure or nothing}")


def _contents_line(found: Findings, name: str, title: str) -> str:
    """A line of the contents, with the tables of a paper below it."""
    tables = [] if name == "runs" else tables_shown(found, name)
    targets = [(anchor(name, table), table_title(name, table)) for table in tables]
    if tables:
        targets.append((f"{name}-notes", _notes_heading(name)))
    inner = "".join(f"<li><a href='#{target}'>{escape(text)}</a></li>" for target, text in targets)
    inner = f"<ul>{inner}</ul>" if inner else ""
    return f"<li><a href='#{name}'>{escape(title)}</a>{inner}</li>"


def _notes_html(paper: str, belonging: list[dict]) -> str:
    """What the runs of a section noted."""
    notes = ""
    for entry in belonging:
        for note in entry["notes"]:
            notes += f"<li>{escape(note)} <small>({escape(where(entry))})</small></li>"
    text = "<p>The runs noted nothing.</p>" if belonging else "<p>Nothing was run yet.</p>"
    if notes:
        text = f"<ul>{notes}</ul>"
    return f"<h3 id='{paper}-notes'>{_notes_heading(paper)}</h3>{text}"


def _notes_heading(paper: str) -> str:
    if paper == "collection":
        return "Notes of the runs"
    return "What did not reproduce here, and why"


def _figure_cells(belonging: list[dict]) -> list[nbformat.NotebookNode]:
    """The figures of runs, a cell each run, below a heading; no cell without a figure.

    Of several runs of a notebook the figures of the later ones are folded.
    """
    cells, seen = [], set()
    for entry in belonging:
        figures = []
        for figure in entry["figures"]:
            file = entry["folder"] / figure["file"]
            if file.is_file():
                caption = f"{figure['caption'].rstrip('.')}. ({where(entry)})"
                name = f"{entry['folder'].name}-{file.stem}"
                figures.append(figure_html(file, caption, name))
        html = "".join(figures)
        if html and entry["notebook"] in seen:
            summary = f"<summary>{len(figures)} figures of {escape(where(entry))}</summary>"
            html = f"<details>{summary}{html}</details>"
        if html:
            cells.append(html_cell(html))
        seen.add(entry["notebook"])
    return [html_cell("<h3>Figures of the runs</h3>"), *cells] if cells else []
