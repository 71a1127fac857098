"""The ledger of claims as HTML: the paper's number, its own table, the verdicts on drawn and real data."""

import re
from html import escape

import nbformat
import numpy as np
import pandas as pd

from xaihelpers import claims
from xaihelpers.claims import Claim, load_claims
from xaihelpers.report.about_papers import PAPERS
from xaihelpers.report.findings import Findings
from xaihelpers.report.page_cells import html_cell
from xaihelpers.report.table_cells import anchor, tables_shown

NOT_DECIDED = "not decided"
KINDS = ("drawn", "real")  # of data
# verdict -> the class of its cell, which has a colour
MARKS = {
    claims.HOLDS: "holds",
    claims.FAILS: "fails",
    claims.ILL_POSED: "moves",
    claims.READING: "moves",
    claims.RIVAL: "moves",
    claims.TOO_FEW: "open",
    claims.INSTRUMENT: "failed",
    claims.PEOPLE: "unasked",
    claims.MODEL: "unasked",
    claims.NOT_APPLICABLE: "missing",
    NOT_DECIDED: "missing",
}
OWN_MARKS = {
    claims.SUPPORTED: "holds",
    claims.CONTRADICTED: "fails",
    claims.UNDOCUMENTED: "moves",
    claims.OPEN: "open",
}
LEDGER = """Each claim can be refuted by one number. <b>Holds</b> and <b>fails</b>: its 95 %
interval decides. <b>Too few cases</b>: it does not. <b>Ill-posed</b>: the same model, written
otherwise, decides otherwise. <b>Depends on the reading</b>: so does another reading that the paper
leaves open. <b>Not told from its rival</b>: it would hold, and so would something that knows
nothing. <b>Instrument failed</b>: a control of what measures it failed, so the number says nothing
either way. <b>Needs people</b>, or <b>a model</b>: none was asked. <b>Not applicable</b>: there is
no number. <b>Own table</b>: what the paper's printed numbers alone support, before anything was run;
<i>depends on undocumented code</i> where a step that the paper leaves open could turn it round."""
NOTHING = """<p class=failed><b>Nothing recorded yet: run <code>make run</code>, or any notebook,
and then notebook 99 again.</b></p>"""


def opening_cell(found: Findings, decided: dict, own_tables: dict) -> nbformat.NotebookNode:
    """The top of the page: its title, and the ledger; arguments as of `ledger_html`."""
    html = "<h1>Can concept explanations be trusted?</h1>"
    html += "<p class=quiet>Results of the notebooks beside the papers' own numbers</p>"
    html += "" if found.runs else NOTHING
    ledger = ledger_html(found, decided, own_tables)
    return html_cell(f"{html}<h2 id=ledger>The ledger of claims</h2><p>{LEDGER}</p>{ledger}")


def ledger_html(found: Findings, decided: dict, own_tables: dict) -> str:
    """All claims as a table: claim, the paper's number and table, drawn, real data.

    decided: (id of a claim, "drawn" or "real") -> the verdict of a run, as in its run.json, and this run.
    own_tables: id of a claim -> the row that notebook 63 recorded of the paper's own printed numbers.
    """
    head = "<tr><th>claim</th><th>paper's number</th><th>own table</th>"
    head += "".join(f"<th colspan=2>on {kind} data</th>" for kind in KINDS) + "</tr>"
    body = ""
    for paper, title in PAPERS.title.items():
        link = f"<a href='#{paper}'>{escape(title)}</a>"
        body += f"<tr class=first><td colspan=7><b>{link}</b></td></tr>"
        for claim in load_claims().values():
            if claim.paper != paper:
                continue
            number = "–" if np.isnan(claim.paper_value) else f"{claim.paper_value:g} {claim.unit}"
            where_claimed = f"section {_section_links(found, claim)}: {escape(claim.quantity)}"
            body += f"<tr><td>{escape(claim.claim)}<br><small>{where_claimed}</small></td>"
            body += f"<td class=paper>{escape(number.replace('-', '−'))}</td>"
            body += _own_table_cell(own_tables.get(claim.id))
            body += "".join(_verdict_cells(claim, decided.get((claim.id, kind))) for kind in KINDS)
            body += "</tr>"
    return f"<div class=scroll><table class=ledger>{head}{body}</table></div>"


def _section_links(found: Findings, claim: Claim) -> str:
    """Where a claim stands in its paper; numbers of tables lead to what the page shows of them."""
    shown = set(tables_shown(found, claim.paper))

    def link(number: re.Match) -> str:
        target = f"<a href='#{anchor(claim.paper, number[0])}'>{number[0]}</a>"
        return target if number[0] in shown else number[0]

    before, word, numbers = escape(claim.section).partition("Table")
    return before + word + re.sub(r"\d+", link, numbers)


def _own_table_cell(row: dict | None) -> str:
    """The cell of a claim that says what the paper's own printed numbers support."""
    if row is None:
        return f"<td class=quiet>{NOT_DECIDED}</td>"
    numbers = [f"{row[name]:.3g}".replace("-", "−") for name in ("value", "low", "high")]
    text = "" if pd.isna(row["low"]) else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]; "
    why = escape(f"{text}{row['why']}")
    mark = OWN_MARKS[row["verdict"]]
    made = f"<a href='#run-{row['run']}'>{why}</a>"
    return f"<td class='{mark}'>{row['verdict']}<br><small>{made}</small></td>"


def _verdict_cells(claim: Claim, made: tuple[dict, dict] | None) -> str:
    """The two cells of a claim on one kind of data: what was measured, and the verdict."""
    if made is None:
        return f"<td class=quiet colspan=2>{NOT_DECIDED}</td>"
    verdict, entry = made
    about = escape(f"{verdict['data']} · {verdict['model']} · notebook {entry['notebook']}")
    place = _figure_anchor(entry, verdict["figure"]) or claim.paper
    text = escape(_measured_text(verdict, claim.unit))
    number = f"<a href='#run-{entry['folder'].name}'>{text}</a>"  # to its settings
    cells = f"<td>{number}<br><small><a href='#{place}'>{about}</a></small></td>"
    return f"{cells}<td class='{MARKS[verdict['outcome']]}'>{verdict['outcome']}</td>"


def _measured_text(verdict: dict, unit: str) -> str:
    """The number with its interval, and what stands in the way of a verdict."""
    digits = 2 if abs(verdict["value"]) < 10 else 1
    numbers = [f"{verdict[name]:.{digits}f}".replace("-", "−") for name in ("value", "low", "high")]
    text = f"{numbers[0]} [{numbers[1]}, {numbers[2]}] {unit}"
    failed = [name for name, passed in verdict["controls"].items() if not passed]
    if verdict["outcome"] == claims.INSTRUMENT:
        text += f"; failed control: {', '.join(failed)}"
    elif verdict["needed"]:
        text += f"; about {verdict['needed']:,} independent cases would decide"
    return text


def _figure_anchor(entry: dict, name: str) -> str:
    """Where the page shows a run's figure; "" if it has none of that name."""
    kept = (entry["folder"] / f"{name}.png").exists()  # of runs on real data the rows alone
    return f"{entry['folder'].name}-{name}" if name and kept else ""
