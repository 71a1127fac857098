"""A table of the page: its heading, what it is about, the paper's and the runs' numbers side by side."""

import re
from html import escape

import nbformat
import pandas as pd

from xaihelpers.report.about_papers import PAPERS
from xaihelpers.report.findings import Findings
from xaihelpers.report.number_tables import Block, source_columns, table_html, with_unit
from xaihelpers.report.page_cells import html_cell
from xaihelpers.tables import PAPER, Source, beside, has_number, headings, table_order, tables_of

# tables that say which concepts lie on which part: used, not measured
DEFINITIONS = {("alignment", "4"), ("alignment", "5")}
LONG = 40  # rows from which a table is folded
OWN_DATA = "CUB_200_2011"  # runs on it are correlated with the paper's printed values


def tables_shown(found: Findings, paper: str) -> list[str]:
    """Tables held or recorded, in the order of their numbers; without definitions."""
    tables = {*tables_of(paper), *found.recorded[found.recorded.paper == paper].table}
    tables -= {table for other, table in DEFINITIONS if other == paper}
    return sorted(tables, key=table_order)


def anchor(paper: str, table: str) -> str:
    """The id under which a link finds a table."""
    return re.sub(r"\W+", "-", f"{paper} table {table}")


def table_title(paper: str, table: str) -> str:
    """Its number where it is a table of the paper, and its title, else its name."""
    title = headings().get((paper, table), {}).get("title", "")
    if not re.fullmatch(r"[\d-]+", table):
        return title or table[0].upper() + table[1:]
    number = f"Table {table.replace('-', ' to ')}"
    return f"{number} · {title}" if title else number


def table_cell(found: Findings, paper: str, table: str) -> nbformat.NotebookNode:
    """A table as a cell of the page.

    A long one is folded, with the rows that paper and run share first, and with Spearman's rank correlation
    of their values where a run is on the paper's own data; one that nothing was recorded for is folded too.
    """
    names, numbers = beside(found.recorded, paper, table)
    caption = headings().get((paper, table), {}).get("caption", "")
    html = f"<h3 id='{anchor(paper, table)}'>{escape(table_title(paper, table))}</h3>"
    html += f"<p>{escape(caption)}</p>" if caption else ""
    ran = any(source != PAPER for _, source in numbers)
    if not ran:
        html += "<p class=quiet>Not run yet: these are the paper's numbers alone.</p>"
    in_paper, here = has_number(names, numbers, True), has_number(names, numbers, False)
    both = in_paper & here
    if len(names) >= LONG:
        order = (~both).argsort(kind="stable")  # rows that can be compared come first
        names = names.iloc[order]
        numbers = {source: rows.iloc[order] for source, rows in numbers.items()}
        html += f"<p class=quiet>{escape(_correlations(numbers))}</p>"
    first_metric = next(iter(numbers))[0]
    shown = table_html(names, _blocks(found, paper, numbers), with_unit(first_metric))
    if len(names) >= LONG or not ran:
        summary = f"{in_paper.sum()} printed by the paper, {here.sum()} measured here, "
        summary += f"{both.sum()} of them both (shown first)"
        summary = summary if ran else "the numbers of the paper"
        summary = f"<summary>Show {len(names)} rows: {summary}</summary>"
        shown = f"<details>{summary}{shown}</details>"
    return html_cell(html + shown)


def _blocks(found: Findings, paper: str, numbers: dict) -> list[Block]:
    """The columns of a table from left to right: of each metric the paper's, then each run's."""
    settings = {entry["folder"].name: entry["settings"] for entry in found.runs}
    order = {PAPER.run: -1} | {name: place for place, name in enumerate(settings)}
    metrics = list(dict.fromkeys(metric for metric, _ in numbers))
    narrow = len({source for _, source in numbers} - {PAPER}) > 2
    blocks = []
    for metric in metrics:
        sources = [source for other, source in numbers if other == metric]
        for source in sorted(sources, key=lambda source: order[source.run]):
            columns, line = source_columns(numbers[metric, source], narrow)
            heading = _source_heading(paper, source, settings.get(source.run, ""), line)
            blocks.append(Block(metric, source, heading, columns))
    return blocks


def _source_heading(paper: str, source: Source, settings: str, line: str) -> str:
    """What stands above a source's columns: whose they are, on what, and `line`."""
    if source == PAPER:
        printed_on = PAPERS["printed on"].get(paper) or "on its own data"
        return "<b>paper</b><br>" + escape(printed_on).replace(" · ", "<br>")
    whose = f"<a href='#run-{source.run}'><b>this run</b></a>"  # with all its settings
    parts = [source.data, source.model, settings, line]
    return "<br>".join([whose, *(escape(part) for part in parts if part)])


def _correlations(numbers: dict) -> str:
    """Rank correlation with the printed values, for runs on the paper's own data only."""
    texts = []
    for (metric, source), rows in numbers.items():
        theirs = numbers.get((metric, PAPER))
        if theirs is None or not source.data.startswith(OWN_DATA):
            continue
        pairs = pd.DataFrame({"ours": rows.value, "theirs": theirs.value}).dropna().rank()
        if len(pairs) > 4:
            correlation = pairs.ours.corr(pairs.theirs)
            on = f"{source.data} · {source.model}, {len(pairs)} rows"
            texts.append(f"{metric} {correlation:.2f} ({on})")
    return f"Rank correlation with the printed values: {'; '.join(texts)}." if texts else ""
